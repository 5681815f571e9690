package ranges

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// maxRows limits how many ranges the values of In may multiply to.
const maxRows = 10_000

// ErrMultiplied is returned where lists multiply to more.
var ErrMultiplied = fmt.Errorf("%w: the lists of In multiply to more than %d combinations of key parts", fault.ErrColumn, maxRows)

// Rows are the ranges of row keys that have all rows a predicate selects.
type Rows struct {
	Ranges     []Range
	SortedBy   []*rowcodec.Column // the ranges are in the order of any of these
	Restricted bool               // by the predicate
	Fixed      bool               // parts are, to values
	Values     *predicate.Set     // of the ordered part that comes next; nil: any
}

// OfRows returns them for what a predicate implies. Ordered parts count as far as a function says so.
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
						return rows, err
					}
					longer = append(longer, key)
				}
			}
			if len(longer) > maxRows {
				return rows, ErrMultiplied
			}
			prefixes, rows.Fixed = longer, true
			continue
		}
		// Hashes have no order, and neither have partitions; everything after the prefixes is
		// scanned then.
		if !counts(c) || c.Encryption != meta.Ordered && (c.Encryption != meta.Plain || i == 0 || s == nil) {
			break
		}
		for _, prefix := range prefixes {
			more, err := Of(ctx, c, prefix, s)
			if err != nil {
				return rows, fmt.Errorf("column %q: %w", c.Name, err)
			}
			if rows.Ranges = append(rows.Ranges, more...); len(rows.Ranges) > maxRows {
				return rows, ErrMultiplied
			}
		}
		rows.Values, rows.Restricted = s, rows.Fixed || s != nil
		return rows, nil
	}
	for _, prefix := range prefixes {
		rows.Ranges = append(rows.Ranges, Range{Start: prefix, End: ope.PrefixEnd(prefix)})
	}
	rows.Restricted = rows.Fixed
	return rows, nil
}
