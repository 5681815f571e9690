package bykey

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// changeable returns an error if single columns of rows cannot be changed.
func changeable(t *engine.Engine) error {
	switch {
	case t.Meta.Conditional:
		return nil
	case t.Meta.AppendOnly():
		return fmt.Errorf("%w: rows of a table with AppendOnly are never changed: Delete the row, and Put another in its place", fault.ErrSchema)
	}
	return fmt.Errorf("%w: rows of a table without Conditional are written as a whole: use Put", fault.ErrSchema)
}

// UpsertRows gives columns of rows new values, and makes the rows that there are not.
func UpsertRows(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) error {
	updates := make([]*rowcodec.Updated, len(rows))
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) error {
		if err := changeable(t); err != nil {
			return err
		}
		records := make([]*rowcodec.Record, len(rows))
		for i, row := range rows {
			var err error
			if records[i], err = t.Check(row); err == nil {
				err = CheckNamed(t.View, records[i])
			}
			if err != nil {
				return &fault.RowError{Index: i, Err: err}
			}
		}
		if err := t.EncryptAll(ctx, records, func(c *rowcodec.Column) bool { return c.Stateful && c.Part >= 0 }); err != nil {
			return fault.NothingDone(len(rows), fault.Gone(err))
		}
		distinct := make(chunks.DistinctKeys, len(rows))
		for i, r := range records {
			err := cmp.Or(ctx.Err(), t.EncodeKey(ctx, r))
			if err == nil {
				err = distinct.Add(r.Key, i, "upsert")
			}
			if err == nil {
				updates[i], err = t.Updated(r.Key, rows[i])
			}
			if err != nil {
				return fault.OfRow(ctx, i, len(rows), err)
			}
			updates[i].Parts = r.Values[:len(t.Parts)]
		}
		return nil
	})
	if err != nil {
		return err
	}
	return chunks.InChunks(len(rows), func(from, to int) error { return t.UpdateChunk(ctx, updates[from:to], from) })
}

// UpdateRowIf gives columns of a row new values, if others have those that are given.
func UpdateRowIf(ctx context.Context, t *engine.Engine, row, has rowcodec.RowValues) error {
	return changeOne(ctx, t, row, func(t *engine.Engine, u *rowcodec.Updated) (err error) {
		if err := t.CheckNames(has); err != nil {
			return err
		}
		for name := range has {
			if t.ByName[name].Part >= 0 {
				return fmt.Errorf("%w: %q is a part of the row key, which says which row it is: name it in the row alone", fault.ErrColumn, name)
			}
		}
		u.If, err = t.Updated(u.Key, has)
		return err
	})
}

// Increment adds to a column of a row, and returns the sum.
func Increment(ctx context.Context, t *engine.Engine, key rowcodec.RowValues, column string, by int64) (any, error) {
	add := &rowcodec.Addition{By: by}
	err := changeOne(ctx, t, key, func(t *engine.Engine, u *rowcodec.Updated) error {
		add.Column = t.ByName[column]
		switch {
		case add.Column == nil:
			return fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, column)
		case add.Column.Part >= 0:
			return fmt.Errorf("%w: %q is a part of the row key, which stays", fault.ErrColumn, column)
		}
		if err := value.CanAdd(add.Column.Type); err != nil { // also where the row is missing
			return fmt.Errorf("column %q: %w", column, err)
		}
		u.Add = add
		return nil
	})
	if err != nil {
		return nil, err
	}
	return add.Sum, nil
}

// changeOne makes an update of one row, with what more returns of it.
func changeOne(ctx context.Context, t *engine.Engine, row rowcodec.RowValues, more func(t *engine.Engine, u *rowcodec.Updated) error) error {
	var updates []*rowcodec.Updated
	t, err := t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		if updates, err = updatesOf(ctx, t, []rowcodec.RowValues{row}); err == nil {
			err = more(t, updates[0])
		}
		return err
	})
	if err == nil {
		err = t.UpdateChunk(ctx, updates, 0)
	}
	// Which row it is says nothing.
	if of := (*fault.RowError)(nil); errors.As(err, &of) && !errors.Is(err, fault.ErrOnce) {
		return of.Err
	}
	return err
}
