package query

import (
	"bytes"

	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// textRanges returns the ranges of keys that begin with prefix and go on with the ciphertext of a text in one of the
// intervals, which are in ascending order. Texts that only differ beyond what is encrypted share a ciphertext, so that ranges
// may meet: those become one.
func textRanges(c *rowcodec.Column, prefix []byte, of []interval) []keyRange {
	text := func(b *value.Bound) []byte {
		if b == nil {
			return nil
		}
		return c.Type.Append([]byte{}, b.Value)
	}
	var ranges []keyRange
	for _, i := range of {
		iv, ok := c.Text.Interval(text(i.lo), text(i.hi))
		if !ok {
			continue
		}
		r := keyRange{by: c, group: len(prefix) + c.Size}
		r.Start, r.end = iv.KeyRange(prefix)
		if n := len(ranges); n > 0 && (ranges[n-1].end == nil || bytes.Compare(r.Start, ranges[n-1].end) < 0) {
			ranges[n-1].end = r.end
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

type interval struct{ lo, hi *value.Bound }

func (c *condition) intervals() []interval {
	if c == nil {
		return []interval{{}}
	}
	if values, ok := c.exactly(); ok {
		var of []interval
		for _, v := range values {
			of = append(of, interval{&value.Bound{Value: v}, &value.Bound{Value: v}})
		}
		return of
	}
	all := interval{}
	for _, t := range c.terms {
		if t.Lo != nil && (all.lo == nil || c.Column.Type.Compare(t.Lo.Value, all.lo.Value) > 0) {
			all.lo = t.Lo
		}
		if t.Hi != nil && (all.hi == nil || c.Column.Type.Compare(t.Hi.Value, all.hi.Value) < 0) {
			all.hi = t.Hi
		}
	}
	return []interval{all}
}
