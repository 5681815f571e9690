package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// GetBatch returns the rows with the key parts of keys, in the order of these, with the named columns or, where none is
// named, with all of them. A row that does not exist is nil. The error of a bad key is a [RowError].
func (tbl *Table) GetBatch(ctx context.Context, keys []Row, columns ...string) (rows []Row, err error) {
	t, err := tbl.open().Use()
	if err != nil {
		return nil, tbl.open().Refused(ctx, "get", err)
	}
	if len(columns) == 0 {
		columns = nil
	}
	err = tbl.pass(ctx, "get", "get from", func(ctx context.Context) (found int, err error) {
		rows, err = bykey.GetRows(ctx, t, keys, columns)
		for _, row := range rows {
			if row != nil {
				found++
			}
		}
		return found, err
	})
	return rows, err
}

// Insert does what [Table.Put] does for rows of which the caller knows that they do not exist. It reads no row before.
//
// In a table with [Schema.Conditional] a row that exists is [ErrRowExists], and stays as it is; rows before and after it may
// have been inserted, as the [BatchError] says, and an Insert that is made again finds them. In any other table a row that
// exists is replaced. The postings of its old values stay until [Table.Verify] with Repair, and queries pass over them.
func (tbl *Table) Insert(ctx context.Context, rows ...Row) error {
	return tbl.call(ctx, "insert", "insert into", len(rows), func(ctx context.Context, t *engine.Engine) error {
		return t.PutEach(ctx, len(rows), inserted(func(t *rowcodec.View, i int) (*rowcodec.Record, error) { return t.Check(rows[i]) }))
	})
}

// inserted marks the records of a function.
func inserted(row func(*rowcodec.View, int) (*rowcodec.Record, error)) func(*rowcodec.View, int) (*rowcodec.Record, error) {
	return func(t *rowcodec.View, i int) (*rowcodec.Record, error) {
		r, err := row(t, i)
		if err == nil {
			r.Insert = true
		}
		return r, err
	}
}

// Upsert changes columns of rows as [Table.Update] does, and makes the rows that do not exist: columns that are not named are
// null then. The table must have [Schema.Conditional]. A tie-breaker must be named.
func (tbl *Table) Upsert(ctx context.Context, rows ...Row) error {
	return tbl.call(ctx, "upsert", "upsert into", len(rows), func(ctx context.Context, t *engine.Engine) error {
		return bykey.UpsertRows(ctx, t, rows)
	})
}

// UpdateIf changes columns of a row as [Table.Update] does, if the columns that has names have the values given there, nil
// for null, and NaN equal to NaN: otherwise the error is [ErrConflict], and the row stays. Nobody writes the row in between. Key parts are in row
// alone, and not in has. The table must have [Schema.Conditional].
//
// If it cannot be known whether the row was changed, the error is [driver.ErrUnknownOutcome], and not [Retryable]. A server may
// still be about to change it: read the row when the time has passed that it gives a write.
func (tbl *Table) UpdateIf(ctx context.Context, row, has Row) error {
	return tbl.call(ctx, "update if", "update", 1, func(ctx context.Context, t *engine.Engine) error {
		return bykey.UpdateRowIf(ctx, t, row, has)
	})
}

// Increment adds a number, which may be negative, to a column of a row with a type of integers, and returns the sum, of the
// Go type of the column. Increments by several clients at a time all count. A sum that the type does not have is
// [ope.ErrDomain], null is [ErrNull], and a row that does not exist is [ErrNoRow]. The table must have [Schema.Conditional].
//
// If it cannot be known whether the row was changed, the error is [driver.ErrUnknownOutcome], and not [Retryable]. A server may
// still be about to change it: read the row when the time has passed that it gives a write.
func (tbl *Table) Increment(ctx context.Context, key Row, column string, by int64) (sum any, err error) {
	err = tbl.call(ctx, "increment", "increment in", 1, func(ctx context.Context, t *engine.Engine) (err error) {
		sum, err = bykey.Increment(ctx, t, key, column, by)
		return err
	})
	return sum, err
}
