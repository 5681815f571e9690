package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
)

// Describe reads what the catalogue says of the table by now. It reads the entries of all tables,
// since these say which columns share keys.
func (tbl *Table) Describe(ctx context.Context) (d inspect.Table, err error) {
	err = tbl.pass(ctx, "describe", "describe", func(ctx context.Context) (_ int, err error) {
		d, err = administer.DescribeTable(ctx, tbl.open())
		return 0, err
	})
	return d, err
}

// Describe reads what the catalogue says, of all tables and tenants. Each key is unwrapped for its id: one that
// was changed or moved is [ErrTampered].
func (st *Store) Describe(ctx context.Context) (d inspect.Database, err error) {
	err = st.call(ctx, "describe", "", func(ctx context.Context) (err error) {
		d, err = administer.Describe(ctx, st.db)
		return err
	})
	return d, err
}
