package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/rowload"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A table is what tables have in common whose rows stand alone, and whose rows share pages: *store.Table and *paged.Table.
type table interface {
	Schema() store.Schema
	Put(ctx context.Context, rows ...store.Row) error
	Delete(ctx context.Context, keys ...store.Row) error
	Query(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
}

// find opens a table of either kind.
func find(ctx context.Context, c *cli.Call, name string) (table, error) {
	tbl, err := command.Table(ctx, c.Store, name)
	if !errors.Is(err, command.ErrPaged) {
		return tbl, err
	}
	return paged.Open(ctx, c.Store, name)
}

// rowsFor opens a table of either kind, for a tenant where one is named.
func rowsFor(ctx context.Context, c *cli.Call, name, tenant string) (table, error) {
	tbl, err := tableFor(ctx, c, name, tenant)
	switch {
	case !errors.Is(err, command.ErrPaged):
		return tbl, err
	case tenant != "":
		return nil, exit.Usagef("table %s has no tenants, since its rows share pages: leave --tenant out", show.Visible(name))
	}
	return paged.Open(ctx, c.Store, name)
}

// isPaged reports whether the rows of a table share pages.
func isPaged(tbl table) bool {
	_, is := tbl.(*paged.Table)
	return is
}

// fileOf returns what the file of a table has.
func fileOf(tbl table) schemafile.Table {
	t := schemafile.Table{Schema: tbl.Schema()}
	if pages, is := tbl.(*paged.Table); is {
		t.PageRows = pages.PageRows()
	}
	return t
}

// describe returns what is known of the database, and of a table.
func describe(ctx context.Context, c *cli.Call, name string) (d inspect.Database, t inspect.Table, err error) {
	if d, err = c.Store.Describe(ctx); err != nil {
		return d, t, err
	}
	i := slices.IndexFunc(d.Tables, func(t inspect.Table) bool { return t.Name == name })
	if i < 0 {
		return d, t, fmt.Errorf("%w: table %s", store.ErrNoTable, show.Visible(name))
	}
	return d, d.Tables[i], nil
}

// count returns how many rows a predicate selects, by the index of a column if one is named.
func count(ctx context.Context, tbl table, q store.Query) (int, error) {
	if single, is := tbl.(*store.Table); is {
		return single.Count(ctx, q.Where, store.By(q.By))
	}
	n := 0
	q.Columns = []string{}
	for _, err := range tbl.Query(ctx, q) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// notInPages refuses flags that ask for an index, which tables of pages do not have.
func notInPages(f *pflag.FlagSet, tbl table, flags ...string) error {
	for _, flag := range flags {
		if isPaged(tbl) && f.Changed(flag) {
			return exit.Usagef("--%s needs an index or an order, and a table of pages has none: leave it out; a condition on the first parts of the row key chooses the pages that are read", flag)
		}
	}
	return nil
}

// An intoPages inserts the rows of a load into a table of pages.
type intoPages struct{ *paged.Table }

// target returns a table as a load inserts into it.
func target(tbl table) rowload.Target {
	if pages, is := tbl.(*paged.Table); is {
		return intoPages{pages}
	}
	return tbl.(*store.Table)
}

// Insert puts rows: to put a row again changes nothing.
func (t intoPages) Insert(ctx context.Context, rows ...store.Row) error { return t.Put(ctx, rows...) }

// GetBatch gets rows one after the other: those of a page are opened once.
func (t intoPages) GetBatch(ctx context.Context, keys []store.Row, columns ...string) (rows []store.Row, err error) {
	rows = make([]store.Row, len(keys))
	for i, key := range keys {
		if rows[i], err = t.Get(ctx, key, columns...); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Rows of pages are put many at a time, so that each page is written about twice, and by one writer: more would wait for each
// other at the last page.
const (
	pagedBatch   = 4096
	pagedWriters = 1
)

// reseal seals the pages of a table again that are under an earlier key.
func reseal(ctx context.Context, c *cli.Call) error {
	for _, flag := range []string{"status", "part"} {
		if c.Flags.Changed(flag) {
			return exit.Usagef("--%s: a table of pages is converted as a whole, page by page: leave it out; 'rangecrypt verify --table %s' says how many pages are under an earlier key", flag, show.Argument(c.Arg()))
		}
	}
	tbl, err := paged.Open(ctx, c.Store, c.Arg())
	if err != nil {
		return err
	}
	bar := c.Totals()
	bar.At(show.Visible(c.Arg())+": sealing pages again", 0, -1)
	all, err := tbl.Reseal(ctx)
	bar.End()
	if err != nil && ctx.Err() != nil {
		c.Warn("not all pages were sealed again; the same command does the rest")
	}
	line := fmt.Sprintf("%s: %s of %d %s sealed again", show.Visible(c.Arg()), show.Counted(all.Resealed, "page"), all.Pages, show.Verb(all.Resealed, "was", "were"))
	if err == nil && all.Resealed == 0 {
		line += ", since all are under the newest key: 'rangecrypt keys rotate --table " + show.Argument(c.Arg()) + "' makes another one"
	}
	return errors.Join(exit.Early(ctx, err), c.Result(struct {
		Record   string `json:"record"`
		Store    string `json:"store"`
		Table    string `json:"table"`
		Pages    int    `json:"pages"`
		Rows     int    `json:"rows"`
		Resealed int    `json:"resealed"`
		Complete bool   `json:"complete"`
	}{"reseal", c.ShownStore(), c.Arg(), all.Pages, all.Rows, all.Resealed, err == nil}, line))
}
