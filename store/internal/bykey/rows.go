// Package bykey reads and changes rows that are named by their keys.
package bykey

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// ExactKey returns the row key of a Row that names all key parts. It may return nil if there is no
// such row.
func ExactKey(ctx context.Context, t *engine.Engine, key rowcodec.RowValues) ([]byte, error) {
	keys, err := exactKeys(ctx, t, []rowcodec.RowValues{key})
	if row := (*fault.RowError)(nil); errors.As(err, &row) {
		return nil, row.Err // which one it is says nothing
	} else if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// exactKeys does so for many. An error is a [RowError], or one of the database.
func exactKeys(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) ([][]byte, error) {
	// Encrypting a value that no row has would write it to the index of a stateful scheme. So rows
	// are looked for there, as a query does, which takes requests.
	lookUp := slices.ContainsFunc(t.Parts, func(c *rowcodec.Column) bool { return c.Stateful })
	keys := make([][]byte, len(rows))
	records := make([]*rowcodec.Record, len(rows))
	for i, row := range rows {
		if err := pause.Ended(ctx); err != nil {
			return nil, err
		}
		r, err := Named(t.View, row)
		if err == nil && !lookUp {
			err = t.EncodeKey(ctx, r)
		}
		if err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
		keys[i], records[i] = r.Key, r
	}
	if !lookUp {
		return keys, nil
	}
	err := t.Env.Concurrently(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		keys[i], err = storedKey(ctx, t, records[i])
		return err
	})
	return keys, err
}

// Named returns a record with the key parts of a Row, which must name all of them.
func Named(t *rowcodec.View, row rowcodec.RowValues) (*rowcodec.Record, error) {
	r := t.NewRecord()
	err := t.CheckKey(r, row)
	if err == nil {
		err = CheckNamed(t, r)
	}
	return r, err
}

// CheckNamed returns an error if the tie-breaker is missing that says which row a record is.
func CheckNamed(t *rowcodec.View, r *rowcodec.Record) error {
	if !r.Fresh {
		return nil
	}
	return fmt.Errorf("%w: key part %q is null: name the tie-breaker of the row, as Put drew it or a query returned it; a Tie of zeros is none",
		fault.ErrColumn, t.Parts[len(t.Parts)-1].Name)
}

// CheckDrawn is [CheckNamed] where nobody has put a row under zeros: a struct has them in place of a tie-breaker before its Put.
func CheckDrawn(t *rowcodec.View, r *rowcodec.Record) error {
	last := len(t.Parts) - 1
	r.Fresh = r.Fresh || t.Parts[last].Encryption == meta.TieBreaker && r.Values[last] == [16]byte{}
	return CheckNamed(t, r)
}

// GetRow returns the row with the key parts of key, with the named columns or, where none is named, with all of them.
func GetRow(ctx context.Context, t *engine.Engine, key rowcodec.RowValues, columns []string) (rowcodec.RowValues, error) {
	if len(columns) == 0 {
		columns = nil
	}
	var want []bool
	var rowKey []byte
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		if want, err = t.Want(columns); err == nil {
			rowKey, err = ExactKey(ctx, t, key)
		}
		return err
	})
	if err != nil || rowKey == nil {
		return nil, err
	}
	r, err := GetClear(ctx, t, rowKey, key, want)
	if err != nil || r == nil {
		return nil, err
	}
	return t.Row(r, want), nil
}

// GetRows returns the rows with the key parts of keys, in the order of these, nil where there is none; with the named
// columns or, where columns is nil, with all of them.
func GetRows(ctx context.Context, t *engine.Engine, keys []rowcodec.RowValues, columns []string) ([]rowcodec.RowValues, error) {
	var want []bool
	var rowKeys [][]byte
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		if want, err = t.Want(columns); err == nil {
			rowKeys, err = exactKeys(ctx, t, keys)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rows := make([]rowcodec.RowValues, len(keys))
	if err := getClearEach(ctx, t, rowKeys, keys, want, func(i int, r *rowcodec.Record) { rows[i] = t.Row(r, want) }); err != nil {
		return nil, err
	}
	return rows, nil
}

// DeleteRows deletes rows by their key parts.
func DeleteRows(ctx context.Context, t *engine.Engine, keys []rowcodec.RowValues) error {
	var rowKeys [][]byte
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		rowKeys, err = exactKeys(ctx, t.Slow(), keys) // what has expired for this client alone goes, too
		return err
	})
	if err == nil {
		return t.RemoveAll(ctx, rowKeys)
	}
	if row := (*fault.RowError)(nil); !errors.As(err, &row) {
		err = fault.NothingDone(len(keys), err)
	}
	return err
}

// UpdateRows gives columns of rows that exist new values.
func UpdateRows(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) error {
	var updates []*rowcodec.Updated
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		updates, err = updatesOf(ctx, t, rows)
		return err
	})
	if err != nil {
		return err
	}
	return chunks.InChunks(len(rows), func(from, to int) error { return t.UpdateChunk(ctx, updates[from:to], from) })
}

// updatesOf returns what an Update with the given rows is to do.
func updatesOf(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) ([]*rowcodec.Updated, error) {
	if err := changeable(t); err != nil {
		return nil, err
	}
	for i, row := range rows {
		if err := t.CheckNames(row); err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
	}
	keys, err := exactKeys(ctx, t, rows)
	if err != nil {
		if row := (*fault.RowError)(nil); !errors.As(err, &row) {
			err = fault.NothingDone(len(rows), err)
		}
		return nil, err
	}
	updates := make([]*rowcodec.Updated, len(rows))
	distinct := make(chunks.DistinctKeys, len(rows))
	for i, row := range rows {
		if keys[i] == nil {
			return nil, &fault.RowError{Index: i, Err: fault.ErrNoRow}
		}
		if err := distinct.Add(keys[i], i, "update"); err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
		if updates[i], err = t.Updated(keys[i], row); err == nil {
			_, err = t.Check(row) // the new values by themselves
		}
		if err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
	}
	return updates, nil
}

// storedKey returns the key of the row that has the key parts of r, or nil.
func storedKey(ctx context.Context, t *engine.Engine, r *rowcodec.Record) ([]byte, error) {
	where := &predicate.Where{Op: predicate.All}
	for i, c := range t.Parts {
		where.Of = append(where.Of, &predicate.Where{Term: predicate.Term{Column: c.Name, Typ: c.Type.GoType(), In: &[]any{r.Values[i]}}})
	}
	for found, err := range query.RowsOf(ctx, t, query.Selection{Where: where, Limit: 1, Columns: []string{}}, new(inspect.Explanation)) {
		if err != nil {
			return nil, err
		}
		_, row, _ := found.Record()
		return row.Key, nil
	}
	return nil, nil
}

// Content returns all that a record has. Equal rows of two tenants differ by it, so that nobody sees that they are equal.
func Content(t *rowcodec.View, r *rowcodec.Record) []byte {
	b := slices.Clone(t.Prefix)
	for i, c := range slices.Concat(t.Parts, t.Columns) {
		if r.Values[i] == nil {
			b = append(b, 0)
			continue
		}
		value := c.Type.AppendStored(nil, r.Values[i])
		b = append(binary.BigEndian.AppendUint64(append(b, 1), uint64(len(value))), value...)
	}
	return b
}
