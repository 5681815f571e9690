// Package predicate has predicates: trees over columns, what of them holds for a row, and what they imply for each column.
package predicate

import (
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Set is what a predicate implies for one column: the row has one of these values there.
type Set struct {
	Column *rowcodec.Column
	In     []Interval // in ascending order, and disjoint
	Null   bool       // or it is null
	nan    bool       // or NaN
}

// An Interval is the values between two bounds; nil is unbounded.
type Interval struct{ Lo, Hi *value.Bound }

// sets is what a predicate implies, by column. A column that is not there may have any value.
type Sets []Set

func (ss Sets) Of(c *rowcodec.Column) *Set {
	for i := range ss {
		if ss[i].Column == c {
			return &ss[i]
		}
	}
	return nil
}

// implied returns what the predicate implies, and whether it holds for no row at all.
func (n *Tree) Implied() (ss Sets, none bool) {
	switch n.Op {
	case All:
		for i := range n.Of {
			more, nothing := n.Of[i].Implied()
			none = none || nothing
			if ss == nil {
				ss = more
				continue
			}
			for _, m := range more {
				if s := ss.Of(m.Column); s != nil {
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
	if s.Column == nil {
		return nil, false
	}
	return Sets{s}, s.empty()
}

func (n *Tree) impliedByAny() (ss Sets, none bool) {
	none = true
	for i := range n.Of {
		more, nothing := n.Of[i].Implied()
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
			if m := more.Of(s.Column); m != nil {
				s.In, s.Null, s.nan = append(s.In, m.In...), s.Null || m.Null, s.nan || m.nan
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
func (n *Tree) leafSet() Set {
	s := Set{Column: n.Column}
	isPart := n.Column.Part >= 0 // which is neither null nor NaN
	switch {
	case n.Op != Compare && n.negated && isPart:
		return Set{}
	case n.Op != Compare && isPart:
	case n.Op == Null && n.negated:
		s.In, s.nan = []Interval{{}}, s.float()
	case n.Op == NaN && n.negated:
		s.In = []Interval{{}}
	case n.Op == Null:
		s.Null = true
	case n.Op == NaN:
		s.nan = true
	case n.term.In == nil:
		s.In = []Interval{{n.term.Lo, n.term.Hi}}
		if s.void(s.In[0]) {
			s.In = nil
		}
	default:
		points := make([]value.Bound, len(*n.term.In))
		s.In = make([]Interval, len(points))
		for i, v := range *n.term.In {
			points[i].Value = v
			s.In[i] = Interval{&points[i], &points[i]}
		}
	}
	if n.Op == Compare && n.negated {
		s.In = complement(s.In)
	}
	return s
}

// complement returns the values in none of the intervals.
func complement(in []Interval) []Interval {
	var out []Interval
	var lo *value.Bound
	for _, i := range in {
		if i.Lo != nil {
			out = append(out, Interval{lo, &value.Bound{Value: i.Lo.Value, Open: !i.Lo.Open}})
		}
		if i.Hi == nil {
			return out
		}
		lo = &value.Bound{Value: i.Hi.Value, Open: !i.Hi.Open}
	}
	return append(out, Interval{lo, nil})
}

// empty reports whether nothing satisfies it.
func (s *Set) empty() bool { return len(s.In) == 0 && !s.Null && !s.nan }

// whole reports whether anything does, or any value of a key part.
func (s *Set) whole() bool {
	return len(s.In) == 1 && s.In[0] == Interval{} && (s.Null && (s.nan || !s.float()) || s.Column.Part >= 0)
}

// float reports whether there may be NaN.
func (s *Set) float() bool { return IsFloat(s.Column.Type) }

// leads reports whether postings lead to all rows of the set. There are none of null, nor of NaN, which a column
// does not have once it drives queries; but who asks for NaN is answered from all rows.
func (s *Set) Leads() bool { return !s.Null && (len(s.In) > 0 || !s.nan) }

// Has reports whether a value of the column, which may be null, is in the set, and it is neither null nor NaN. A nil set has all such values.
func (s *Set) Has(c *rowcodec.Column, v any) bool {
	if v == nil || c.Type.Unordered(v) {
		return false
	}
	return s == nil || slices.ContainsFunc(s.In, func(i Interval) bool { return (&Term{Lo: i.Lo, Hi: i.Hi}).has(c.Type, v) })
}

// void reports whether no value is in an interval.
func (s *Set) void(i Interval) bool {
	if i.Lo == nil || i.Hi == nil || i.Lo == i.Hi {
		return false
	}
	d := s.Column.Type.Compare(i.Lo.Value, i.Hi.Value)
	return d > 0 || d == 0 && (i.Lo.Open || i.Hi.Open)
}

// compareLo compares lower bounds by where they begin, compareHi upper ones by where they end.
func (s *Set) compareLo(a, b *value.Bound) int { return s.compare(a, b, -1) }
func (s *Set) compareHi(a, b *value.Bound) int { return s.compare(a, b, 1) }

func (s *Set) compare(a, b *value.Bound, unbounded int) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return unbounded
	case b == nil:
		return -unbounded
	}
	d := s.Column.Type.Compare(a.Value, b.Value)
	switch {
	case d != 0 || a.Open == b.Open:
		return d
	case a.Open: // A lower bound then begins later, an upper one ends earlier.
		return -unbounded
	}
	return unbounded
}

// and returns the values in both.
func (s *Set) and(o Set) Set {
	out := Set{Column: s.Column, Null: s.Null && o.Null, nan: s.nan && o.nan}
	a, b := s.In, o.In
	for len(a) > 0 && len(b) > 0 {
		both := Interval{a[0].Lo, a[0].Hi}
		if s.compareLo(b[0].Lo, both.Lo) > 0 {
			both.Lo = b[0].Lo
		}
		ends := s.compareHi(a[0].Hi, b[0].Hi)
		if ends > 0 {
			both.Hi = b[0].Hi
		}
		if !s.void(both) {
			out.In = append(out.In, both)
		}
		if ends <= 0 {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// Between returns the values of the set between two bounds, where nil is no bound, and a nil set has all values of the column.
func (s *Set) Between(c *rowcodec.Column, lo, hi *value.Bound) *Set {
	both := Set{Column: c, In: []Interval{{lo, hi}}}
	if s != nil {
		both = s.and(both)
	}
	return &both
}

// join puts the intervals in order, and makes those one that meet.
func (s *Set) join() {
	slices.SortFunc(s.In, func(a, b Interval) int { return s.compareLo(a.Lo, b.Lo) })
	joined := s.In[:0]
	for _, i := range s.In {
		n := len(joined)
		if n > 0 && s.meet(joined[n-1].Hi, i.Lo) {
			if s.compareHi(i.Hi, joined[n-1].Hi) > 0 {
				joined[n-1].Hi = i.Hi
			}
			continue
		}
		joined = append(joined, i)
	}
	s.In = joined
}

// meet reports whether there is no value between the end of an interval and the beginning of a later one.
func (s *Set) meet(hi, lo *value.Bound) bool {
	if hi == nil || lo == nil {
		return true
	}
	d := s.Column.Type.Compare(hi.Value, lo.Value)
	return d > 0 || d == 0 && !(hi.Open && lo.Open)
}

// exactly returns the only values that can satisfy the set, in ascending order, and false
// where it does not come down to a list.
func (s *Set) Exactly() ([]any, bool) {
	if !s.Leads() {
		return nil, false
	}
	values := make([]any, len(s.In))
	for n, i := range s.In {
		if i.Lo == nil || i.Hi == nil || i.Lo != i.Hi && s.Column.Type.Compare(i.Lo.Value, i.Hi.Value) != 0 {
			return nil, false
		}
		values[n] = i.Lo.Value
	}
	return values, true
}

// Fewer reports whether the set comes down to a list of less than n values.
func (s *Set) Fewer(n int) bool {
	_, exactly := s.Exactly()
	return exactly && len(s.In) < n
}

// Span is a closed Interval of order codes.
type Span struct{ Lo, Hi int64 }

// spans returns the order codes of the values of a set, nil being all, as disjoint spans
// in ascending order. With a lossy type a span may hold codes of other values.
func (s *Set) Spans() []Span {
	if s == nil {
		return []Span{{math.MinInt64, math.MaxInt64}}
	}
	typ := s.Column.Type
	var spans []Span
	for _, i := range s.In {
		var lo, hi int64
		switch {
		case i.Lo == nil && i.Hi == nil:
			lo, hi = math.MinInt64, math.MaxInt64
		case i.Lo == i.Hi:
			code, err := typ.Code(i.Lo.Value)
			if err != nil {
				continue // outside the domain: no row has it
			}
			lo, hi = code, code
		default:
			var ok bool
			if lo, hi, ok = typ.Codes(i.Lo, i.Hi); !ok {
				continue
			}
		}
		if n := len(spans); n > 0 && (lo <= spans[n-1].Hi || lo == spans[n-1].Hi+1) {
			spans[n-1].Hi = max(spans[n-1].Hi, hi)
			continue
		}
		spans = append(spans, Span{lo, hi})
	}
	return spans
}

// share returns which part of its domain the set is.
func (s *Set) Share() float64 {
	var n float64
	d := s.Column.Type.Domain()
	for _, in := range s.Spans() {
		if in, ok := d.Intersect(in.Lo, in.Hi); ok {
			n += float64(in.Span()) + 1
		}
	}
	return n / (float64(d.Span()) + 1)
}
