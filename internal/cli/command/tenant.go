package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// ErrPaged is wrapped by the error of [Table] about a table whose rows share pages: package paged opens it.
var ErrPaged = errors.New("its rows share pages, which this command does not take; 'rangecrypt table query', 'insert', 'export', 'delete' and 'convert' do, and 'rangecrypt migrate' and 'rekey'")

// Table opens a table whose rows stand alone. The error about one that is not there says which is nearest, and how to see all.
func Table(ctx context.Context, st *store.Store, name string) (*store.Table, error) {
	tbl, err := st.Table(ctx, name)
	if !errors.Is(err, store.ErrNoTable) {
		return tbl, err
	}
	schemas, unread := st.Tables(ctx)
	var names []string
	if unread == nil {
		names, unread = paged.Names(ctx, st)
	}
	switch {
	case unread != nil: // it may be one of pages, and no caller may take it for one that is not there
		return nil, fmt.Errorf("table %s: %w", show.Visible(name), unread)
	case slices.Contains(names, name):
		return nil, fmt.Errorf("table %s: %w", show.Visible(name), ErrPaged)
	}
	for _, s := range schemas {
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("%w; 'rangecrypt table list' shows those that there are%s", err, show.DidYouMean(names, name))
}

// ForTenant opens a table for a tenant.
func ForTenant(ctx context.Context, st *store.Store, table, tenant string) (*store.Table, error) {
	tbl, err := Table(ctx, st, table)
	if err != nil {
		return nil, err
	}
	bound, err := tbl.Tenant(ctx, tenant)
	if errors.Is(err, store.ErrTenant) {
		return nil, fmt.Errorf("%w; one that has tenants is created so, from a schema file with 'tenants: true'", err)
	}
	return bound, KnownTenant(err)
}

// KnownTenant says what to do where a tenant is not known.
func KnownTenant(err error) error {
	if errors.Is(err, store.ErrNoTenant) {
		return fmt.Errorf("%w; 'rangecrypt tenant list' names those that there are, 'rangecrypt tenant create' makes one", err)
	}
	return err
}

// TableOf names a table or, where a tenant is named, what it has in the table.
func TableOf(table, tenant string) string {
	if tenant == "" {
		return show.Visible(table)
	}
	return show.Visible(table) + ", tenant " + show.Visible(tenant)
}
