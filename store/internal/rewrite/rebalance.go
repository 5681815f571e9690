package rewrite

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Rebalance places the ciphertexts of a column evenly, in the index that the column has by now: one that another client has made
// again is not where this one knew it.
func Rebalance(ctx context.Context, tbl *session.Table, column string, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	t, err := tbl.Refresh(ctx)
	for err == nil {
		c := t.ByName[column]
		switch {
		case c == nil:
			return stats, fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, column)
		case c.Order == nil:
			return stats, fmt.Errorf("%w: column %q has no scheme that moves ciphertexts", fault.ErrColumn, column)
		}
		stats, err = c.Order.Rebalance(ctx, progress)
		if err == nil {
			return stats, nil
		}
		failed := fmt.Errorf("column %q: %w", column, err)
		if !fault.Refused(err) {
			return stats, failed
		}
		if t, err = tbl.Refresh(ctx); err == nil && t.ByName[column] != nil && t.ByName[column].Id == c.Id && t.ByName[column].Unit == c.Unit {
			return stats, failed
		}
	}
	return stats, err
}
