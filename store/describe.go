package store

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Describe reads what the catalogue says of the table by now. It reads the entries of all tables,
// since these say which columns share keys.
func (tbl *Table) Describe(ctx context.Context) (_ inspect.Table, err error) {
	ctx, end := tbl.open().Operation(ctx, "describe")
	defer func() { end(0, err) }()
	name := tbl.open().Now().Meta.Name
	d, err := administer.DescribeTable(ctx, tbl.open())
	if err != nil {
		return inspect.Table{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	return d, nil
}

// Describe reads what the catalogue says, of all tables and tenants. Each key is unwrapped for its id: one that
// was changed or moved is [ErrTampered].
func (st *Store) Describe(ctx context.Context) (_ inspect.Database, err error) {
	ctx, end := st.db.Observer.Operation(ctx, "describe", "")
	defer func() { end(0, err) }()
	d, err := administer.Describe(ctx, st.db)
	if err != nil {
		return inspect.Database{}, fault.Prefixed(err)
	}
	return d, nil
}
