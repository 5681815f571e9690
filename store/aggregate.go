package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/aggregate"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// A By, which is a string, names the column whose postings lead to the rows, as [Query.By] does. What takes it takes one; "" is none.
type By = aggregate.By

// Count returns how many rows the predicate holds for. It opens the key cell of each row, which vouches for the row, and the
// cells of the columns that the predicate names; no other cell is read. That is so too where postings lead to the rows: a
// posting is a hint, which a client that died may have left, so that the cell has to confirm it.
func (tbl *Table) Count(ctx context.Context, p Predicate, by ...By) (n int, err error) {
	return tbl.countOperation(ctx, "count", p, by, 0)
}

// Exists reports whether the predicate holds for any row. It stops at the first, and opens what [Table.Count] does.
func (tbl *Table) Exists(ctx context.Context, p Predicate, by ...By) (bool, error) {
	n, err := tbl.countOperation(ctx, "exists", p, by, 1)
	return n > 0, err
}

func (tbl *Table) countOperation(ctx context.Context, name string, p Predicate, by []By, limit int) (n int, err error) {
	err = tbl.call(ctx, name, name, 0, func(ctx context.Context, t *engine.Engine) (err error) {
		n, err = aggregate.Count(ctx, t, p.where, by, limit)
		return err
	})
	return n, err
}

// Min returns the least value of a column or key part among the rows that the predicate holds for. Null and NaN are left out;
// where nothing else is, or there are no rows, it returns nil. Where postings or the row key give the order, as
// [Query.OrderBy] says, it reads no more than their end. Otherwise it reads all rows that the predicate selects, and keeps one
// value. By may be the column itself, which needs no predicate then.
func (tbl *Table) Min(ctx context.Context, column string, p Predicate, by ...By) (any, error) {
	return tbl.extremeOperation(ctx, "min", column, p, by, false)
}

// Max returns the greatest value of a column or key part, as [Table.Min] does the least.
func (tbl *Table) Max(ctx context.Context, column string, p Predicate, by ...By) (any, error) {
	return tbl.extremeOperation(ctx, "max", column, p, by, true)
}

func (tbl *Table) extremeOperation(ctx context.Context, name, column string, p Predicate, by []By, greatest bool) (v any, err error) {
	err = tbl.call(ctx, name, name, 0, func(ctx context.Context, t *engine.Engine) (err error) {
		v, err = aggregate.Extreme(ctx, t, column, p.where, by, greatest)
		return err
	})
	return v, err
}
