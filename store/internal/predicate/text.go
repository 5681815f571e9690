package predicate

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Texts returns the intervals of ciphertexts of the texts in a set, nil being all texts of the column. Texts that only
// differ beyond what is encrypted share a ciphertext, so that intervals may meet: those become one.
func (s *Set) Texts(ctx context.Context, c *rowcodec.Column) ([]ope.Interval, error) {
	of := []Interval{{}}
	if s != nil {
		of = s.In
	}
	text := func(b *value.Bound) []byte {
		if b == nil {
			return nil
		}
		return c.Type.Append([]byte{}, b.Value)
	}
	var all []ope.Interval
	for _, i := range of {
		if err := pause.Ended(ctx); err != nil {
			return nil, err
		}
		iv, ok := c.Text.Interval(text(i.Lo), text(i.Hi))
		if !ok {
			continue
		}
		if n := len(all); n > 0 && bytes.Compare(iv.Start, all[n-1].End) < 0 {
			all[n-1].End = iv.End
			continue
		}
		all = append(all, iv)
	}
	return all, nil
}
