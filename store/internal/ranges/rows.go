package ranges

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

const (
	// many is how many ranges a query reads before it looks for another way to the rows.
	many = 10_000
	// MostMultiplied limits what lists multiply to. It bounds the memory: a range has about 300 bytes.
	MostMultiplied = 100_000
)

// Rows are the ranges of row keys that have all rows a predicate selects.
type Rows struct {
	Ranges     []Range
	SortedBy   []*rowcodec.Column // the ranges are in the order of any of these
	Restricted bool               // by the predicate
	Fixed      int                // how many parts are fixed to values
	Values     *predicate.Set     // of the ordered part that comes next; nil: any
}

// OfRows returns them for what a predicate implies. Ordered parts count as far as a function says so.
//
// One list may have any length: its caller has the memory for it. Lists of several parts multiply. Where that comes to too many
// ranges, parts before those bound them, or the least and the greatest value of an ordered one. The rest is up to who checks the rows.
func OfRows(ctx context.Context, t *rowcodec.View, ss predicate.Sets, counts func(*rowcodec.Column) bool) (rows Rows, err error) {
	prefixes := [][]byte{t.Prefix}
	for i, c := range t.Parts {
		s := ss.Of(c)
		var values []any
		exactly := false
		if s != nil && c.Encryption != meta.Ordered {
			values, exactly = s.Exactly()
		}
		if len(prefixes) == 1 && (exactly || c.Encryption == meta.Ordered || c.Encryption == meta.Plain && i > 0) {
			rows.SortedBy = append(rows.SortedBy, c)
		}
		if exactly && !tooMany(prefixes, len(values)) {
			if prefixes, err = longer(ctx, c, prefixes, values); err != nil {
				return rows, err
			}
			rows.Fixed++
			continue
		}
		// Hashes have no order, and neither have partitions; everything after the prefixes is
		// scanned then.
		if !counts(c) || c.Encryption != meta.Ordered && (c.Encryption != meta.Plain || i == 0 || s == nil) {
			break
		}
		rows.Values, rows.Restricted = s, rows.Fixed > 0 || s != nil
		if s != nil && tooMany(prefixes, len(s.In)) {
			s = (*predicate.Set)(nil).Between(c, s.In[0].Lo, s.In[len(s.In)-1].Hi)
		}
		if rows.Ranges, err = following(ctx, c, prefixes, s); err != nil {
			return rows, fmt.Errorf("column %q: %w", c.Name, err)
		}
		return rows, nil
	}
	for _, prefix := range prefixes {
		rows.Ranges = append(rows.Ranges, Range{Start: prefix, End: ope.PrefixEnd(prefix)})
	}
	rows.Restricted = rows.Fixed > 0
	return rows, nil
}

// Many reports whether the ranges are so many that another way to the rows may be shorter.
func (rows *Rows) Many() bool { return len(rows.Ranges) > many }

// following returns the ranges of a part after each prefix.
func following(ctx context.Context, c *rowcodec.Column, prefixes [][]byte, values *predicate.Set) (all []Range, err error) {
	var ordered []Range // without a prefix: ciphertexts take long, or requests
	if c.Encryption == meta.Ordered {
		if ordered, err = Of(ctx, c, nil, values); err != nil {
			return nil, err
		}
		all = make([]Range, 0, len(prefixes)*len(ordered))
	}
	for _, prefix := range prefixes {
		if err := pause.Ended(ctx); err != nil {
			return nil, err
		}
		if c.Encryption != meta.Ordered {
			more, err := Of(ctx, c, prefix, values)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		for _, r := range ordered {
			all = append(all, r.after(prefix))
		}
	}
	return all, nil
}

// after returns the range with a prefix before its keys.
func (r Range) after(prefix []byte) Range {
	r.Start = slices.Concat(prefix, r.Start)
	if r.End == nil {
		r.End = ope.PrefixEnd(prefix)
	} else {
		r.End = slices.Concat(prefix, r.End)
	}
	if r.Group > 0 {
		r.Group += len(prefix)
	}
	if r.Ranks > 0 {
		r.Ranks += len(prefix)
	}
	return r
}

// tooMany reports whether a list of n values multiplies prefixes to too many.
func tooMany(prefixes [][]byte, n int) bool {
	return len(prefixes) > 1 && n > 1 && len(prefixes)*n > MostMultiplied
}

// longer returns a prefix for each value of a part after each prefix, in the order of values.
func longer(ctx context.Context, c *rowcodec.Column, prefixes [][]byte, values []any) ([][]byte, error) {
	all := make([][]byte, 0, len(prefixes)*len(values))
	for _, prefix := range prefixes {
		for _, v := range values {
			if err := pause.Ended(ctx); err != nil {
				return nil, err
			}
			v, err := c.Type.Normalize(v)
			if err != nil {
				continue // no row has it
			}
			key, err := c.AppendSearch(ctx, bytes.Clone(prefix), v)
			if err != nil {
				return nil, err
			}
			all = append(all, key)
		}
	}
	return all, nil
}
