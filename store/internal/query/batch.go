package query

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

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
	err = t.Env.Concurrently(ctx, len(keys), func(ctx context.Context, i int) error {
		if rowKeys[i] == nil {
			return nil
		}
		r, err := t.GetClear(ctx, rowKeys[i], keys[i], want)
		if err == nil && r != nil {
			rows[i] = t.Row(r, want)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}
