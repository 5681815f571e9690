package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
)

// plan is how a query is going to be answered: the ranges of keys to scan, of the rows themselves
// or of one column's postings, and the conditions that every row found is checked against.
type plan struct {
	driving    *column // whose postings are scanned; nil where rows are
	ranges     []keyRange
	anyOrder   bool // rows of all partitions, which have no order
	conditions []*condition

	unconverted []string // columns of conditions that would drive, were all rows converted
}

// keyRange is a half-open range of keys; a nil end is unbounded. Where the order of by is lossy,
// keys that are equal in their first group bytes are put in order by its values.
//
// Where by has a stateful scheme, within are the codes of the range, and start and end may hold
// more. With a mutable scheme these hold all postings of the column, and those of the codes are
// read one code after the other.
type keyRange struct {
	start, end []byte
	by         *column
	group      int
	within     span
	resume     *position // with a mutable scheme: to go on behind, or nil
}

// maxRanges limits how many ranges the values of In may multiply to.
const maxRanges = 10_000

// plan chooses what to scan. In this order of preference:
//
//  1. rows, when the leading parts of the row key are fixed to values, with the range of the next
//     part where there is one, or when the leading part is ordered and has a range
//  2. the postings of a deterministic column that is fixed to values
//  3. the postings of an ordered column with a condition
//  4. all rows
//
// A column whose encryption was changed drives no query until all rows were converted.
func (t *view) plan(ctx context.Context, p Predicate) (*plan, error) {
	conditions, err := t.conditions(p)
	if err != nil {
		return nil, err
	}
	byColumn := make(map[*column]*condition)
	for _, c := range conditions {
		byColumn[c.column] = c
	}
	pl := &plan{conditions: conditions}
	used, err := t.planRows(ctx, pl, byColumn)
	if err != nil || used {
		return pl, err
	}
	var best *condition
	for _, c := range conditions {
		if !c.column.searched() {
			continue
		}
		if !c.column.drives() {
			pl.unconverted = append(pl.unconverted, c.column.name)
			continue
		}
		_, exactly := c.exactly()
		switch {
		case c.column.encryption == deterministic && exactly:
			best = c
		case c.column.encryption == ordered && (best == nil || best.column.encryption == ordered && narrower(c, best)):
			best = c
		}
	}
	switch {
	case best != nil:
		pl.driving = best.column
		pl.ranges, err = best.column.ranges(ctx, best.column.lead, best)
	case t.parts[0].encryption != ordered:
		pl.anyOrder = true
		pl.ranges = []keyRange{{start: t.prefix, end: ope.PrefixEnd(t.prefix)}}
	}
	return pl, err
}

// narrower reports whether a selects a smaller part of its domain than b.
func narrower(a, b *condition) bool {
	share := func(c *condition) float64 {
		var n float64
		d := c.column.typ.domain()
		for _, s := range c.spans() {
			if s, ok := d.Intersect(s.lo, s.hi); ok {
				n += float64(s.Span()) + 1
			}
		}
		return n / (float64(d.Span()) + 1)
	}
	return share(a) < share(b)
}

// planRows sets the ranges of row keys and reports whether the conditions restrict them.
func (t *view) planRows(ctx context.Context, pl *plan, byColumn map[*column]*condition) (bool, error) {
	prefixes := [][]byte{t.prefix}
	restricted := false
	for i, c := range t.parts {
		condition := byColumn[c]
		var values []any
		exactly := false
		if condition != nil && c.encryption != ordered {
			values, exactly = condition.exactly()
		}
		if exactly {
			// One prefix for each value of this part behind each so far, in the order of values.
			var longer [][]byte
			for _, prefix := range prefixes {
				for _, v := range values {
					v, err := c.typ.normalize(v)
					if err != nil {
						continue // no row has it
					}
					key, err := c.appendSearch(ctx, bytes.Clone(prefix), v)
					if err != nil {
						return false, err
					}
					longer = append(longer, key)
				}
			}
			if len(longer) > maxRanges {
				return false, fmt.Errorf("%w: the lists of In multiply to more than %d combinations of key parts", ErrColumn, maxRanges)
			}
			prefixes, restricted = longer, true
			continue
		}
		// Hashes have no order, and neither have partitions; everything behind the prefixes is
		// scanned then.
		if c.encryption != ordered && (c.encryption != plain || i == 0 || condition == nil) {
			break
		}
		for _, prefix := range prefixes {
			ranges, err := c.ranges(ctx, prefix, condition)
			if err != nil {
				return false, err
			}
			if pl.ranges = append(pl.ranges, ranges...); len(pl.ranges) > maxRanges {
				return false, fmt.Errorf("%w: the lists of In multiply to more than %d ranges", ErrColumn, maxRanges)
			}
		}
		return restricted || condition != nil, nil
	}
	for _, prefix := range prefixes {
		pl.ranges = append(pl.ranges, keyRange{start: prefix, end: ope.PrefixEnd(prefix)})
	}
	return restricted, nil
}

// ranges returns the ranges of keys that begin with prefix and go on with what stands for a value
// of the column that satisfies the condition; nil is any value. They are disjoint and in the
// order of the values.
func (c *column) ranges(ctx context.Context, prefix []byte, condition *condition) ([]keyRange, error) {
	var ranges []keyRange
	switch c.encryption {
	case ordered:
		for _, s := range condition.spans() {
			if c.order != nil {
				d, ok := c.scheme.Domain().Intersect(s.lo, s.hi)
				if !ok {
					continue
				}
				r := keyRange{start: prefix, end: ope.PrefixEnd(prefix), by: c, within: span{d.Min, d.Max}}
				if !c.typ.exact() {
					r.group = len(prefix) + c.size
				}
				ranges = append(ranges, r)
				continue
			}
			intervals, err := c.intervals(ctx, s)
			if err != nil {
				return nil, err
			}
			for _, iv := range intervals {
				r := keyRange{by: c, within: s}
				r.start, r.end = iv.KeyRange(prefix)
				if !c.typ.exact() {
					r.group = len(prefix) + c.size
				}
				ranges = append(ranges, r)
			}
		}
	case deterministic:
		values, _ := condition.exactly()
		for _, v := range values {
			v, err := c.typ.normalize(v)
			if err != nil {
				continue // no row has it
			}
			key := c.appendToken(bytes.Clone(prefix), c.typ.append(nil, v))
			ranges = append(ranges, keyRange{start: key, end: ope.PrefixEnd(key)})
		}
	case plain:
		r := keyRange{start: bytes.Clone(prefix), end: ope.PrefixEnd(prefix)}
		for _, t := range condition.terms {
			if t.lo != nil {
				if v, err := c.typ.normalize(t.lo.value); err == nil {
					r.start = latest(r.start, appendSortable(bytes.Clone(prefix), c.typ, v))
				}
			}
			if t.hi != nil {
				if v, err := c.typ.normalize(t.hi.value); err == nil {
					r.end = earliest(r.end, ope.PrefixEnd(appendSortable(bytes.Clone(prefix), c.typ, v)))
				}
			}
		}
		if r.end == nil || bytes.Compare(r.start, r.end) < 0 {
			ranges = append(ranges, r)
		}
	}
	return ranges, nil
}

func latest(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

func earliest(a, b []byte) []byte {
	if a == nil || b != nil && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// intervals returns the ciphertexts of a span in the order of their plaintexts. A scheme returns
// its whole domain as one interval, rotated where it shifts; here the order counts, so that range
// is asked for in two.
func (c *column) intervals(ctx context.Context, s span) ([]ope.Interval, error) {
	d := c.scheme.Domain()
	if _, linear := c.scheme.(ope.Linear); !linear && s.lo <= d.Min && s.hi >= d.Max && d.Min < d.Max {
		first, err := c.scheme.Intervals(ctx, d.Min, d.Max-1)
		if err != nil {
			return nil, err
		}
		last, err := c.scheme.Intervals(ctx, d.Max, d.Max)
		return append(first, last...), err
	}
	return c.scheme.Intervals(ctx, s.lo, s.hi)
}

// fingerprint names the query, for page tokens: queries with the same answer may share one.
func (pl *plan) fingerprint(reverse bool) []byte {
	h := sha256.New()
	if pl.driving != nil {
		h.Write(pl.driving.lead)
	}
	fmt.Fprintf(h, "|%t|%d|", reverse, len(pl.ranges))
	for _, r := range pl.ranges {
		if r.by != nil && r.by.stateful {
			// Its bounds may be others by the next page.
			fmt.Fprintf(h, "|%d|%d", r.within.lo, r.within.hi)
			continue
		}
		h.Write(appendSized(appendSized(nil, r.start), r.end))
	}
	for _, c := range pl.conditions {
		fmt.Fprintf(h, "|%s", c.column.id)
		for _, t := range c.terms {
			h.Write(c.column.print(t))
		}
	}
	return h.Sum(nil)
}

// print returns bytes that are different for terms that different values satisfy.
func (c *column) print(t term) []byte {
	if c.typ.exact() && t.in == nil {
		lo, hi, ok := c.typ.codes(t.lo, t.hi)
		return fmt.Appendf(nil, "|%d|%d|%t", lo, hi, ok)
	}
	b := fmt.Appendf(nil, "|%d", len(t.in))
	for _, v := range t.in {
		if !c.typ.exact() {
			b = appendSized(b, c.typ.append(nil, v))
		} else if code, err := c.typ.code(v); err == nil {
			b = fmt.Appendf(b, "|%d", code)
		}
	}
	for _, limit := range []*bound{t.lo, t.hi} {
		if limit == nil {
			b = append(b, '-')
		} else {
			b = appendSized(fmt.Appendf(b, "%t", limit.open), c.typ.append(nil, limit.value))
		}
	}
	return b
}
