package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// plan is how a query is going to be answered: the ranges of keys to scan, of the rows themselves
// or of one column's postings, and the conditions that every row found is checked against.
type plan struct {
	driving    *rowcodec.Column // whose postings are scanned; nil where rows are
	Ranges     []keyRange
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
	Start, end []byte
	by         *rowcodec.Column
	group      int
	within     span
	resume     *Position // with a mutable scheme: to go on after, or nil
}

// maxRanges limits how many ranges the values of In may multiply to.
const maxRanges = 10_000

// noOrder returns the error of a query for pages, or for the opposite order, that reads all rows in no order.
func (pl *plan) noOrder(pages bool) error {
	lacks, instead := "to reverse", ""
	if pages {
		lacks, instead = "that pages could follow", "use Query, which reads lazily, or "
	}
	if len(pl.unconverted) > 0 {
		return fmt.Errorf("%w: column %q was changed and its rows are not all converted, so all rows are read, which have no order %s; %scall Convert first",
			driver.ErrRange, pl.unconverted[0], lacks, instead)
	}
	return fmt.Errorf("%w: all rows of a table whose key begins with a hashed or plain part have no order %s; %sfix that part", driver.ErrRange, lacks, instead)
}

// NewPlan chooses what to scan. In this order of preference:
//
//  1. rows, when the leading parts of the row key are fixed to values, with the range of the next
//     part where there is one, or when the leading part is ordered and has a range
//  2. the postings of a deterministic column that is fixed to values
//  3. the postings of an ordered column with a condition
//  4. all rows
//
// A column whose encryption was changed drives no query until all rows were converted.
func NewPlan(ctx context.Context, t *rowcodec.View, where *Where) (*plan, error) {
	conditions, err := ConditionsOf(t, where)
	if err != nil {
		return nil, err
	}
	byColumn := make(map[*rowcodec.Column]*condition)
	for _, c := range conditions {
		byColumn[c.Column] = c
	}
	pl := &plan{conditions: conditions}
	used, err := pl.byRows(ctx, t, byColumn)
	if err != nil || used {
		return pl, err
	}
	var best *condition
	for _, c := range conditions {
		if !c.Column.Searched() {
			continue
		}
		if !c.Column.Drives() {
			pl.unconverted = append(pl.unconverted, c.Column.Name)
			continue
		}
		_, exactly := c.exactly()
		switch {
		case c.Column.Encryption == meta.Deterministic && exactly:
			best = c
		case c.Column.Encryption == meta.Ordered && (best == nil || best.Column.Encryption == meta.Ordered && narrower(c, best)):
			best = c
		}
	}
	switch {
	case best != nil:
		pl.driving = best.Column
		pl.Ranges, err = rangesOf(ctx, best.Column, best.Column.Lead, best)
	case t.Parts[0].Encryption != meta.Ordered:
		pl.anyOrder = true
		pl.Ranges = []keyRange{{Start: t.Prefix, end: ope.PrefixEnd(t.Prefix)}}
	}
	return pl, err
}

// narrower reports whether a selects a smaller part of its domain than b.
func narrower(a, b *condition) bool {
	share := func(c *condition) float64 {
		var n float64
		d := c.Column.Type.Domain()
		for _, s := range c.spans() {
			if s, ok := d.Intersect(s.lo, s.hi); ok {
				n += float64(s.Span()) + 1
			}
		}
		return n / (float64(d.Span()) + 1)
	}
	return share(a) < share(b)
}

// byRows sets the ranges of row keys and reports whether the conditions restrict them.
func (pl *plan) byRows(ctx context.Context, t *rowcodec.View, byColumn map[*rowcodec.Column]*condition) (bool, error) {
	prefixes := [][]byte{t.Prefix}
	restricted := false
	for i, c := range t.Parts {
		condition := byColumn[c]
		var values []any
		exactly := false
		if condition != nil && c.Encryption != meta.Ordered {
			values, exactly = condition.exactly()
		}
		if exactly {
			// One prefix for each value of this part after each so far, in the order of values.
			var longer [][]byte
			for _, prefix := range prefixes {
				for _, v := range values {
					v, err := c.Type.Normalize(v)
					if err != nil {
						continue // no row has it
					}
					key, err := c.AppendSearch(ctx, bytes.Clone(prefix), v)
					if err != nil {
						return false, err
					}
					longer = append(longer, key)
				}
			}
			if len(longer) > maxRanges {
				return false, fmt.Errorf("%w: the lists of In multiply to more than %d combinations of key parts", fault.ErrColumn, maxRanges)
			}
			prefixes, restricted = longer, true
			continue
		}
		// Hashes have no order, and neither have partitions; everything after the prefixes is
		// scanned then.
		if c.Encryption != meta.Ordered && (c.Encryption != meta.Plain || i == 0 || condition == nil) {
			break
		}
		for _, prefix := range prefixes {
			ranges, err := rangesOf(ctx, c, prefix, condition)
			if err != nil {
				return false, err
			}
			if pl.Ranges = append(pl.Ranges, ranges...); len(pl.Ranges) > maxRanges {
				return false, fmt.Errorf("%w: the lists of In multiply to more than %d ranges", fault.ErrColumn, maxRanges)
			}
		}
		return restricted || condition != nil, nil
	}
	for _, prefix := range prefixes {
		pl.Ranges = append(pl.Ranges, keyRange{Start: prefix, end: ope.PrefixEnd(prefix)})
	}
	return restricted, nil
}

// rangesOf returns the ranges of keys that begin with prefix and go on with what stands for a value
// of the column that satisfies the condition; nil is any value. They are disjoint and in the
// order of the values.
func rangesOf(ctx context.Context, c *rowcodec.Column, prefix []byte, condition *condition) ([]keyRange, error) {
	var ranges []keyRange
	switch c.Encryption {
	case meta.Ordered:
		for _, s := range condition.spans() {
			if c.Order != nil {
				d, ok := c.Scheme.Domain().Intersect(s.lo, s.hi)
				if !ok {
					continue
				}
				r := keyRange{Start: prefix, end: ope.PrefixEnd(prefix), by: c, within: span{d.Min, d.Max}}
				if !c.Type.Exact() {
					r.group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
				continue
			}
			intervals, err := intervals(ctx, c.Scheme, s)
			if err != nil {
				return nil, err
			}
			for _, iv := range intervals {
				r := keyRange{by: c, within: s}
				r.Start, r.end = iv.KeyRange(prefix)
				if !c.Type.Exact() {
					r.group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
			}
		}
	case meta.Deterministic:
		values, _ := condition.exactly()
		for _, v := range values {
			v, err := c.Type.Normalize(v)
			if err != nil {
				continue // no row has it
			}
			key := c.AppendToken(bytes.Clone(prefix), c.Type.Append(nil, v))
			ranges = append(ranges, keyRange{Start: key, end: ope.PrefixEnd(key)})
		}
	case meta.Plain:
		r := keyRange{Start: bytes.Clone(prefix), end: ope.PrefixEnd(prefix)}
		for _, t := range condition.terms {
			if t.Lo != nil {
				if v, err := c.Type.Normalize(t.Lo.Value); err == nil {
					r.Start = latest(r.Start, value.AppendSortable(bytes.Clone(prefix), c.Type, v))
				}
			}
			if t.Hi != nil {
				if v, err := c.Type.Normalize(t.Hi.Value); err == nil {
					r.end = earliest(r.end, ope.PrefixEnd(value.AppendSortable(bytes.Clone(prefix), c.Type, v)))
				}
			}
		}
		if r.end == nil || bytes.Compare(r.Start, r.end) < 0 {
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
func intervals(ctx context.Context, scheme ope.Scheme, s span) ([]ope.Interval, error) {
	d := scheme.Domain()
	if _, linear := scheme.(ope.Linear); !linear && s.lo <= d.Min && s.hi >= d.Max && d.Min < d.Max {
		first, err := scheme.Intervals(ctx, d.Min, d.Max-1)
		if err != nil {
			return nil, err
		}
		last, err := scheme.Intervals(ctx, d.Max, d.Max)
		return append(first, last...), err
	}
	return scheme.Intervals(ctx, s.lo, s.hi)
}

// Fingerprint names the query, for page tokens: queries with the same answer may share one.
func (pl *plan) Fingerprint(reverse bool) []byte {
	h := sha256.New()
	if pl.driving != nil {
		h.Write(pl.driving.Lead)
	}
	fmt.Fprintf(h, "|%t|%d|", reverse, len(pl.Ranges))
	for _, r := range pl.Ranges {
		if r.by != nil && r.by.Stateful {
			// Its bounds may be others by the next page.
			fmt.Fprintf(h, "|%d|%d", r.within.lo, r.within.hi)
			continue
		}
		h.Write(rowcodec.AppendSized(rowcodec.AppendSized(nil, r.Start), r.end))
	}
	for _, c := range pl.conditions {
		fmt.Fprintf(h, "|%s", c.Column.Id)
		for _, t := range c.terms {
			h.Write(t.print(c.Column.Type))
		}
	}
	return h.Sum(nil)
}

// print returns bytes that are different for terms that different values satisfy.
func (t Term) print(typ value.Type) []byte {
	if typ.Exact() && t.In == nil {
		lo, hi, ok := typ.Codes(t.Lo, t.Hi)
		return fmt.Appendf(nil, "|%d|%d|%t", lo, hi, ok)
	}
	b := fmt.Appendf(nil, "|%d", len(t.In))
	for _, v := range t.In {
		if !typ.Exact() {
			b = rowcodec.AppendSized(b, typ.Append(nil, v))
		} else if code, err := typ.Code(v); err == nil {
			b = fmt.Appendf(b, "|%d", code)
		}
	}
	for _, limit := range []*value.Bound{t.Lo, t.Hi} {
		if limit == nil {
			b = append(b, '-')
		} else {
			b = rowcodec.AppendSized(fmt.Appendf(b, "%t", limit.Open), typ.Append(nil, limit.Value))
		}
	}
	return b
}
