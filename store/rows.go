package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A Row maps the names of key parts and columns to values. Rows that are read have values of the Go type of the column's
// [Type], such as float64 for [Float64], and leave out columns that are null.
//
// A Row that is given may have other types: one that a field of a struct may have, see [For], a pointer to the value, an
// sql.Null or sql.NullString and so on, and untyped constants, see [Int8]. A column is null if it is missing, nil, a nil
// pointer, or an sql.Null that is not valid; a nil []byte is the empty one. A key part cannot be null, but
// [Table.Put] and [Table.Insert] draw a [TiePart] that is missing.
type Row = map[string]any

// Get returns the row with the key parts of key, with the named columns or, where none is named,
// with all of them. It returns nil, and no error, if there is no such row; [TableOf.Get] returns [ErrNoRow].
func (tbl *Table) Get(ctx context.Context, key Row, columns ...string) (found Row, err error) {
	t, err := tbl.open().Use()
	if err != nil {
		return nil, tbl.open().Refused(ctx, "get", err)
	}
	ctx, end := tbl.open().Operation(ctx, "get")
	defer func() { end(min(1, len(found)), err) }() // a row has key parts
	if found, err = bykey.GetRow(ctx, t, key, columns); err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", tbl.open().Now().Meta.Name, fault.Gone(err))
	}
	return found, nil
}

// Put writes rows, each as a whole: a row with the same key is replaced, with its columns that are null now. All rows are
// checked before anything is written; the error of a bad row is a [RowError]. Rows are written in chunks, in the order given;
// if one fails, the error is a [BatchError]. The cells of one row appear at once, different rows may appear in any order. The
// same row twice is [driver.ErrOverlap].
//
// A Put of a row that another client writes at the same time leaves one of the two rows, whole.
//
// If the schema was changed by another client, the values are in the columns they were meant for, whatever these are named and
// however they are encrypted now. A value of a column that was dropped is lost: then the error is [ErrSchemaChanged] and [ErrWritten].
func (tbl *Table) Put(ctx context.Context, rows ...Row) error {
	return tbl.call(ctx, "put", "put into", len(rows), func(ctx context.Context, t *engine.Engine) error { return t.Put(ctx, rows) })
}

// Delete removes rows by their keys: of each Row, the key parts are read and must be there,
// columns are ignored. A row that does not exist is no error, nor is the same row twice. Other errors are those of Put.
func (tbl *Table) Delete(ctx context.Context, keys ...Row) error {
	return tbl.call(ctx, "delete", "delete from", len(keys), func(ctx context.Context, t *engine.Engine) error {
		return bykey.DeleteRows(ctx, t, keys)
	})
}

// Update changes columns of rows that exist: of each Row, the key parts say which row it is, and the columns that it names get
// new values, nil for null; those that it does not name stay as they are. What another client changes at the same time is not
// lost. The table must have [Schema.Conditional]. A row that does not exist is [ErrNoRow], and stays so.
//
// A row that holds NaN in a column which is searched by now is updated only if that column is named; otherwise it is
// [ope.ErrDomain].
//
// All rows are checked before anything is written. They are changed in chunks, in the order given, and errors are those of [Table.Put].
func (tbl *Table) Update(ctx context.Context, rows ...Row) error {
	return tbl.call(ctx, "update", "update", len(rows), func(ctx context.Context, t *engine.Engine) error {
		return bykey.UpdateRows(ctx, t, rows)
	})
}

// call does what writes n rows, or none, and observes it: under a name, and what it is doing begins its errors.
func (tbl *Table) call(ctx context.Context, name, doing string, n int, do func(context.Context, *engine.Engine) error) error {
	t, err := tbl.open().Use()
	if err != nil {
		return tbl.open().Refused(ctx, name, err)
	}
	return tbl.pass(ctx, name, doing, func(ctx context.Context) (int, error) {
		err := do(ctx, t)
		return written(n, err), err
	})
}

// pass observes a call of the table, which returns of how many rows it was. Its error begins with what was being done.
func (tbl *Table) pass(ctx context.Context, name, doing string, do func(context.Context) (rows int, err error)) (err error) {
	rows := 0
	ctx, end := tbl.open().Operation(ctx, name)
	defer func() { end(rows, err) }()
	if rows, err = do(ctx); err != nil {
		err = fmt.Errorf("store: %s %q: %w", doing, tbl.open().Now().Meta.Name, fault.Gone(err))
	}
	return err
}

// written returns how many of n rows a call wrote for certain, as its error says.
func written(n int, err error) int {
	if failed := (*BatchError)(nil); errors.As(err, &failed) {
		return n - len(failed.Failed)
	}
	if err != nil {
		return 0
	}
	return n
}
