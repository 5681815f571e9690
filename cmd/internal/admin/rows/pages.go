package rows

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/rowload"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// count returns how many rows a predicate selects, by the index of a column if one is named.
func count(ctx context.Context, tbl anytable.Table, q store.Query) (int, error) {
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
func notInPages(f *pflag.FlagSet, tbl anytable.Table, flags ...string) error {
	for _, flag := range flags {
		if anytable.IsPaged(tbl) && f.Changed(flag) {
			return exit.Usagef("--%s needs an index or an order, and a table of pages has none: leave it out; a condition on the first parts of the row key chooses the pages that are read", flag)
		}
	}
	return nil
}

// An intoPages inserts the rows of a load into a table of pages.
type intoPages struct{ *paged.Table }

// target returns a table as a load inserts into it.
func target(tbl anytable.Table) rowload.Target {
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
