package store

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
)

// GetBatch returns the rows with the key parts of keys, in the order of these, with the named columns or, where none is
// named, with all of them. A row that does not exist is nil. The error of a bad key is a [RowError].
func (tbl *Table) GetBatch(ctx context.Context, keys []Row, columns ...string) (rows []Row, err error) {
	t, err := tbl.open().Use()
	if err != nil {
		return nil, err
	}
	found := 0
	ctx, end := tbl.open().Operation(ctx, "get")
	defer func() { end(found, err) }()
	if len(columns) == 0 {
		columns = nil
	}
	if rows, err = query.GetRows(ctx, t, keys, columns); err != nil {
		return nil, fmt.Errorf("store: get from %q: %w", tbl.open().Now().Meta.Name, engine.Gone(err))
	}
	for _, row := range rows {
		if row != nil {
			found++
		}
	}
	return rows, nil
}
