package query

import (
	"bytes"

	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// texts returns the ranges of keys that begin with prefix and go on with the ciphertext of a text of the set, nil being all
// texts. Those that only differ beyond what is encrypted share a ciphertext, so that ranges may meet: they become one.
func (s *set) texts(c *rowcodec.Column, prefix []byte) []keyRange {
	of := []interval{{}}
	if s != nil {
		of = s.in
	}
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
