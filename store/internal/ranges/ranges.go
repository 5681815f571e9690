// Package ranges turns what a predicate lets a part of the row key or a column be into ranges of stored keys.
package ranges

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Range is a half-open range of keys; a nil end is unbounded. Where the order of By is lossy,
// keys that are equal in their first Group bytes are put in order by its values.
//
// Where By has a stateful scheme, Within are the codes of the range, and Start and End may hold
// more. With a mutable scheme these hold all postings of the column, and those of the codes are
// read one code after the other.
type Range struct {
	Start, End []byte
	By         *rowcodec.Column
	Group      int // bytes of a key that rows share which have equal ciphertexts of different values, or 0
	Ranks      int // bytes of a key to the end of the rank that its ciphertext begins with, or 0
	Within     predicate.Span
}

// Grouped reports whether the client puts some rows of the range in order.
func (r Range) Grouped() bool { return r.Group > 0 || r.Ranks > 0 }

// GroupOf returns how many bytes of a key other keys have, too, whose rows the client puts in order by their values; 0: none.
func (r Range) GroupOf(key []byte) int {
	if r.SharesRank(key) {
		return r.Ranks
	}
	return r.Group
}

// SharesRank reports whether values share the rank that the ciphertext of a key begins with.
func (r Range) SharesRank(key []byte) bool { return r.Ranks > 0 && key[r.Ranks-1] != 0 }

// Drawn reports whether the ciphertext that a key begins with was drawn at random, for its value alone.
func (r Range) Drawn(key []byte) bool {
	return r.By != nil && r.By.Stateful && r.By.Order == nil && !r.SharesRank(key)
}

// Rising checks that values rise with their ciphertexts where these were drawn at random: if the index
// that they are kept in is put back, others are drawn that are out of order.
type Rising struct {
	some bool
	last int64
}

// Falls reports whether the code of the next row is on the wrong side of the one before.
func (o *Rising) Falls(code int64, reverse bool) bool {
	falls := o.some && code != o.last && (code < o.last) != reverse
	o.some, o.last = true, code
	return falls
}

// Of returns the ranges of keys that begin with prefix and go on with what stands for a value
// of the set; nil is any value. They are disjoint and in the
// order of the values.
func Of(ctx context.Context, c *rowcodec.Column, prefix []byte, values *predicate.Set) ([]Range, error) {
	var ranges []Range
	switch c.Encryption {
	case meta.Ordered:
		if c.Text != nil {
			intervals, err := values.Texts(ctx, c)
			for _, iv := range intervals {
				r := Range{By: c, Group: len(prefix) + c.Size}
				r.Start, r.End = iv.KeyRange(prefix)
				ranges = append(ranges, r)
			}
			return ranges, err
		}
		for _, s := range values.Spans() {
			if err := pause.Ended(ctx); err != nil {
				return nil, err
			}
			if c.Order != nil {
				d, ok := c.Scheme.Domain().Intersect(s.Lo, s.Hi)
				if !ok {
					continue
				}
				r := Range{Start: prefix, End: ope.PrefixEnd(prefix), By: c, Within: predicate.Span{Lo: d.Min, Hi: d.Max}}
				if !c.Type.Exact() {
					r.Group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
				continue
			}
			intervals, err := s.Intervals(ctx, c.Scheme)
			if err != nil {
				return nil, err
			}
			for _, iv := range intervals {
				r := Range{By: c, Within: s}
				r.Start, r.End = iv.KeyRange(prefix)
				if c.RankSize > 0 {
					r.Ranks = len(prefix) + c.RankSize
				}
				if !c.Type.Exact() {
					r.Group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
			}
		}
	case meta.Deterministic:
		list, _ := values.Exactly()
		keys, err := longer(ctx, c, [][]byte{prefix}, list)
		for _, key := range keys {
			ranges = append(ranges, Range{Start: key, End: ope.PrefixEnd(key)})
		}
		return ranges, err
	case meta.Plain:
		for _, i := range values.In {
			r := Range{Start: bytes.Clone(prefix), End: ope.PrefixEnd(prefix)}
			if n := len(ranges); n > 0 { // bounds that no row can have narrow nothing
				if r.Start = ranges[n-1].End; r.Start == nil {
					break // the one before has all that follows
				}
			}
			if lo := sortable(prefix, c, i.Lo); lo != nil && i.Lo.Open {
				r.Start = latest(r.Start, ope.PrefixEnd(lo))
			} else if lo != nil {
				r.Start = latest(r.Start, lo)
			}
			if hi := sortable(prefix, c, i.Hi); hi != nil && i.Hi.Open {
				r.End = earliest(r.End, hi)
			} else if hi != nil {
				r.End = earliest(r.End, ope.PrefixEnd(hi))
			}
			if r.End == nil || bytes.Compare(r.Start, r.End) < 0 {
				ranges = append(ranges, r)
			}
		}
	}
	return ranges, nil
}

// sortable returns what a bound stands for after the prefix of row keys, or nil if it narrows nothing.
func sortable(prefix []byte, c *rowcodec.Column, b *value.Bound) []byte {
	if b == nil {
		return nil
	}
	v := b.Value
	if c.Type.Width() > 0 {
		var err error
		if v, err = c.Type.Normalize(v); err != nil {
			return nil
		}
	}
	return value.AppendSortable(bytes.Clone(prefix), c.Type, v)
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
