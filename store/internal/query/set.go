package query

import (
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A set is what a predicate implies for one column: the row has one of these values there.
type set struct {
	column *rowcodec.Column
	in     []interval // in ascending order, and disjoint
	null   bool       // or it is null
	nan    bool       // or NaN
}

// An interval is the values between two bounds; nil is unbounded.
type interval struct{ lo, hi *value.Bound }

// sets is what a predicate implies, by column. A column that is not there may have any value.
type sets []set

func (ss sets) of(c *rowcodec.Column) *set {
	for i := range ss {
		if ss[i].column == c {
			return &ss[i]
		}
	}
	return nil
}

// implied returns what the predicate implies, and whether it holds for no row at all.
func (n *Tree) implied() (ss sets, none bool) {
	switch n.op {
	case All:
		for i := range n.of {
			more, nothing := n.of[i].implied()
			none = none || nothing
			if ss == nil {
				ss = more
				continue
			}
			for _, m := range more {
				if s := ss.of(m.column); s != nil {
					*s = s.and(m)
					none = none || s.empty()
				} else {
					ss = append(ss, m)
				}
			}
		}
		return ss, none
	case Any:
		return n.impliedByAny()
	}
	s := n.leafSet()
	if s.column == nil {
		return nil, false
	}
	return sets{s}, s.empty()
}

func (n *Tree) impliedByAny() (ss sets, none bool) {
	none = true
	for i := range n.of {
		more, nothing := n.of[i].implied()
		if nothing {
			continue
		}
		if none {
			ss, none = more, false
			continue
		}
		// Only columns that all branches restrict are left.
		kept := ss[:0]
		for _, s := range ss {
			if m := more.of(s.column); m != nil {
				s.in, s.null, s.nan = append(s.in, m.in...), s.null || m.null, s.nan || m.nan
				kept = append(kept, s)
			}
		}
		ss = kept
	}
	kept := ss[:0]
	for _, s := range ss {
		if s.join(); !s.whole() {
			kept = append(kept, s)
		}
	}
	return kept, none
}

// leafSet returns the set of a leaf; one without a column if it says nothing.
func (n *Tree) leafSet() set {
	s := set{column: n.column}
	isPart := n.column.Part >= 0 // which is neither null nor NaN
	switch {
	case n.op != Compare && n.negated && isPart:
		return set{}
	case n.op != Compare && isPart:
	case n.op == Null && n.negated:
		s.in, s.nan = []interval{{}}, s.float()
	case n.op == NaN && n.negated:
		s.in = []interval{{}}
	case n.op == Null:
		s.null = true
	case n.op == NaN:
		s.nan = true
	case n.term.In == nil:
		s.in = []interval{{n.term.Lo, n.term.Hi}}
		if s.void(s.in[0]) {
			s.in = nil
		}
	default:
		points := make([]value.Bound, len(n.term.In))
		s.in = make([]interval, len(points))
		for i, v := range n.term.In {
			points[i].Value = v
			s.in[i] = interval{&points[i], &points[i]}
		}
	}
	if n.op == Compare && n.negated {
		s.in = complement(s.in)
	}
	return s
}

// complement returns the values in none of the intervals.
func complement(in []interval) []interval {
	var out []interval
	var lo *value.Bound
	for _, i := range in {
		if i.lo != nil {
			out = append(out, interval{lo, &value.Bound{Value: i.lo.Value, Open: !i.lo.Open}})
		}
		if i.hi == nil {
			return out
		}
		lo = &value.Bound{Value: i.hi.Value, Open: !i.hi.Open}
	}
	return append(out, interval{lo, nil})
}

// empty reports whether nothing satisfies it.
func (s *set) empty() bool { return len(s.in) == 0 && !s.null && !s.nan }

// whole reports whether anything does, or any value of a key part.
func (s *set) whole() bool {
	return len(s.in) == 1 && s.in[0] == interval{} && (s.null && (s.nan || !s.float()) || s.column.Part >= 0)
}

// float reports whether there may be NaN.
func (s *set) float() bool { return isFloat(s.column.Type) }

// leads reports whether postings lead to all rows of the set. There are none of null, nor of NaN, which a column
// does not have once it drives queries; but who asks for NaN is answered from all rows.
func (s *set) leads() bool { return !s.null && (len(s.in) > 0 || !s.nan) }

// void reports whether no value is in an interval.
func (s *set) void(i interval) bool {
	if i.lo == nil || i.hi == nil || i.lo == i.hi {
		return false
	}
	d := s.column.Type.Compare(i.lo.Value, i.hi.Value)
	return d > 0 || d == 0 && (i.lo.Open || i.hi.Open)
}

// compareLo compares lower bounds by where they begin, compareHi upper ones by where they end.
func (s *set) compareLo(a, b *value.Bound) int { return s.compare(a, b, -1) }
func (s *set) compareHi(a, b *value.Bound) int { return s.compare(a, b, 1) }

func (s *set) compare(a, b *value.Bound, unbounded int) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return unbounded
	case b == nil:
		return -unbounded
	}
	d := s.column.Type.Compare(a.Value, b.Value)
	switch {
	case d != 0 || a.Open == b.Open:
		return d
	case a.Open: // A lower bound then begins later, an upper one ends earlier.
		return -unbounded
	}
	return unbounded
}

// and returns the values in both.
func (s *set) and(o set) set {
	out := set{column: s.column, null: s.null && o.null, nan: s.nan && o.nan}
	a, b := s.in, o.in
	for len(a) > 0 && len(b) > 0 {
		both := interval{a[0].lo, a[0].hi}
		if s.compareLo(b[0].lo, both.lo) > 0 {
			both.lo = b[0].lo
		}
		ends := s.compareHi(a[0].hi, b[0].hi)
		if ends > 0 {
			both.hi = b[0].hi
		}
		if !s.void(both) {
			out.in = append(out.in, both)
		}
		if ends <= 0 {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// join puts the intervals in order, and makes those one that meet.
func (s *set) join() {
	slices.SortFunc(s.in, func(a, b interval) int { return s.compareLo(a.lo, b.lo) })
	joined := s.in[:0]
	for _, i := range s.in {
		n := len(joined)
		if n > 0 && s.meet(joined[n-1].hi, i.lo) {
			if s.compareHi(i.hi, joined[n-1].hi) > 0 {
				joined[n-1].hi = i.hi
			}
			continue
		}
		joined = append(joined, i)
	}
	s.in = joined
}

// meet reports whether there is no value between the end of an interval and the beginning of a later one.
func (s *set) meet(hi, lo *value.Bound) bool {
	if hi == nil || lo == nil {
		return true
	}
	d := s.column.Type.Compare(hi.Value, lo.Value)
	return d > 0 || d == 0 && !(hi.Open && lo.Open)
}

// exactly returns the only values that can satisfy the set, in ascending order, and false
// where it does not come down to a list.
func (s *set) exactly() ([]any, bool) {
	if !s.leads() {
		return nil, false
	}
	values := make([]any, len(s.in))
	for n, i := range s.in {
		if i.lo == nil || i.hi == nil || i.lo != i.hi && s.column.Type.Compare(i.lo.Value, i.hi.Value) != 0 {
			return nil, false
		}
		values[n] = i.lo.Value
	}
	return values, true
}

// span is a closed interval of order codes.
type span struct{ lo, hi int64 }

// spans returns the order codes of the values of a set, nil being all, as disjoint spans
// in ascending order. With a lossy type a span may hold codes of other values.
func (s *set) spans() []span {
	if s == nil {
		return []span{{math.MinInt64, math.MaxInt64}}
	}
	typ := s.column.Type
	var spans []span
	for _, i := range s.in {
		var lo, hi int64
		switch {
		case i.lo == nil && i.hi == nil:
			lo, hi = math.MinInt64, math.MaxInt64
		case i.lo == i.hi:
			code, err := typ.Code(i.lo.Value)
			if err != nil {
				continue // outside the domain: no row has it
			}
			lo, hi = code, code
		default:
			var ok bool
			if lo, hi, ok = typ.Codes(i.lo, i.hi); !ok {
				continue
			}
		}
		if n := len(spans); n > 0 && (lo <= spans[n-1].hi || lo == spans[n-1].hi+1) {
			spans[n-1].hi = max(spans[n-1].hi, hi)
			continue
		}
		spans = append(spans, span{lo, hi})
	}
	return spans
}

// share returns which part of its domain the set is.
func (s *set) share() float64 {
	var n float64
	d := s.column.Type.Domain()
	for _, in := range s.spans() {
		if in, ok := d.Intersect(in.lo, in.hi); ok {
			n += float64(in.Span()) + 1
		}
	}
	return n / (float64(d.Span()) + 1)
}
