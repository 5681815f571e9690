package bykey

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// KeysOf returns the keys of rows. Values that are new to the index of a key part are put there.
func KeysOf(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) (keys [][]byte, err error) {
	_, err = t.WithSecondLook(ctx, func(t *engine.Engine) (err error) {
		keys, err = keysOf(ctx, t, rows)
		return err
	})
	return keys, err
}

func keysOf(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) ([][]byte, error) {
	records, keys := make([]*rowcodec.Record, len(rows)), make([][]byte, len(rows))
	for i, row := range rows {
		records[i] = t.NewRecord()
		if err := t.CheckKey(records[i], row); err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
	}
	if err := t.EncryptAll(ctx, records, func(c *rowcodec.Column) bool { return c.Stateful && c.Part >= 0 }); err != nil {
		return nil, err
	}
	for i, r := range records {
		if err := cmp.Or(ctx.Err(), t.EncodeKey(ctx, r)); err != nil {
			return nil, fault.OfRow(ctx, i, len(rows), err)
		}
		keys[i] = r.Key
	}
	return keys, nil
}

// Records returns the records of rows that are to be stored. An error of a row is a [fault.RowError].
func Records(ctx context.Context, t *engine.Engine, rows []rowcodec.RowValues) ([]*rowcodec.Record, error) {
	records := make([]*rowcodec.Record, len(rows))
	for i, row := range rows {
		var err error
		if records[i], err = t.Check(row); err != nil {
			return nil, &fault.RowError{Index: i, Err: err}
		}
	}
	if err := t.EncryptAll(ctx, records, func(c *rowcodec.Column) bool { return c.Stateful && c.Order == nil }); err != nil {
		return nil, fmt.Errorf("index: %w", fault.Gone(err))
	}
	if i, err := t.EncodeAll(ctx, records); err != nil {
		return nil, fault.OfRow(ctx, i, len(rows), err)
	}
	return records, nil
}
