// Package anytable opens tables for commands, be it that their rows stand alone or share pages.
package anytable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
	"github.com/spf13/pflag"
)

// A Table is what tables have in common whose rows stand alone, and whose rows share pages: *store.Table and *paged.Table.
type Table interface {
	Schema() store.Schema
	Put(ctx context.Context, rows ...store.Row) error
	Delete(ctx context.Context, keys ...store.Row) error
	Query(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
}

// Find opens a table of either kind.
func Find(ctx context.Context, c *cli.Call, name string) (Table, error) {
	tbl, err := command.Table(ctx, c.Store, name)
	if !errors.Is(err, command.ErrPaged) {
		return tbl, err
	}
	return paged.Open(ctx, c.Store, name)
}

// RowsFor opens a table of either kind, for a tenant where one is named.
func RowsFor(ctx context.Context, c *cli.Call, name, tenant string) (Table, error) {
	tbl, err := TableFor(ctx, c, name, tenant)
	switch {
	case !errors.Is(err, command.ErrPaged):
		return tbl, err
	case tenant != "":
		return nil, exit.Usagef("table %s has no tenants, since its rows share pages: leave --tenant out", show.Visible(name))
	}
	return paged.Open(ctx, c.Store, name)
}

// IsPaged reports whether the rows of a table share pages.
func IsPaged(tbl Table) bool {
	_, is := tbl.(*paged.Table)
	return is
}

// FileOf returns what the file of a table has.
func FileOf(tbl Table) schemafile.Table {
	t := schemafile.Table{Schema: tbl.Schema()}
	if pages, is := tbl.(*paged.Table); is {
		t.PageRows = pages.PageRows()
	}
	return t
}

// Describe returns what is known of the database, and of a table.
func Describe(ctx context.Context, c *cli.Call, name string) (d inspect.Database, t inspect.Table, err error) {
	if d, err = c.Store.Describe(ctx); err != nil {
		return d, t, err
	}
	i := slices.IndexFunc(d.Tables, func(t inspect.Table) bool { return t.Name == name })
	if i < 0 {
		return d, t, fmt.Errorf("%w: table %s", store.ErrNoTable, show.Visible(name))
	}
	return d, d.Tables[i], nil
}

// BindTenant binds --tenant of a command on rows.
func BindTenant(f *pflag.FlagSet, tenant *string) {
	f.StringVar(tenant, "tenant", "", "`name` of the tenant whose rows are meant, of a table with tenants")
}

// TableFor opens a table, for a tenant where one is named.
func TableFor(ctx context.Context, c *cli.Call, name, tenant string) (*store.Table, error) {
	if tenant != "" {
		return command.ForTenant(ctx, c.Store, name, tenant)
	}
	tbl, err := command.Table(ctx, c.Store, name)
	if err == nil && tbl.Schema().Tenants {
		err = exit.Usagef("table %s has rows of tenants: name one with --tenant; 'rangecrypt tenant list' shows them", show.Visible(name))
	}
	return tbl, err
}

// Searched reports whether queries find rows by a column: it is ordered or deterministic.
func Searched(c store.Column) bool {
	e := c.Describe().Encryption
	return e == "ordered" || e == "deterministic"
}
