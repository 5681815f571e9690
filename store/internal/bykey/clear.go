package bykey

import (
	"context"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// GetClear returns a row of which some columns are wanted. If all of these are in plain cells it opens
// nothing, and the key parts are those asked for. Which of the columns are null only the key cell says: if one
// has no cell, that is opened.
func GetClear(ctx context.Context, t *engine.Engine, rowKey []byte, key rowcodec.RowValues, want []bool) (*rowcodec.Record, error) {
	if !readsClear(t, want) {
		return t.Read(ctx, rowKey, want)
	}
	cells, err := t.Data.Get(ctx, rowKey, t.Slice(want))
	if err != nil {
		return nil, err
	}
	return clearRow(ctx, t, driver.Row{Key: rowKey, Cells: cells}, key, want)
}

// getClearEach does so for many keys, of which some may be nil, and calls do for each row that there is, with its
// position. Several goroutines call do.
func getClearEach(ctx context.Context, t *engine.Engine, rowKeys [][]byte, keys []rowcodec.RowValues, want []bool, do func(i int, r *rowcodec.Record)) error {
	found := func(i int, r *rowcodec.Record, err error) error {
		if err == nil && r != nil {
			do(i, r)
		}
		return err
	}
	if !readsClear(t, want) {
		return t.ReadEach(ctx, t.Data, rowKeys, want, found)
	}
	return chunks.GetEach(ctx, t.Data, rowKeys, t.Slice(want), func(rows []driver.Row, places []int) error {
		return t.Env.Concurrently(ctx, len(rows), func(ctx context.Context, i int) error {
			r, err := clearRow(ctx, t, rows[i], keys[places[i]], want)
			return found(places[i], r, err)
		})
	})
}

func clearRow(ctx context.Context, t *engine.Engine, row driver.Row, key rowcodec.RowValues, want []bool) (*rowcodec.Record, error) {
	if r := t.DecodeClear(row, want); r != nil {
		return r, t.CheckKey(r, key)
	}
	return t.Opened(ctx, t.Data, row, want, new(rowcodec.Scratch))
}

// readsClear reports whether some columns are read without a key.
func readsClear(t *engine.Engine, want []bool) bool {
	if !slices.Contains(want, true) || t.Meta.Expires() {
		return false
	}
	for i, c := range t.Stored {
		if want[i] && c.Of == nil && (!c.Clear() || c.Packed || len(c.Former) > 0) {
			return false
		}
	}
	return true
}
