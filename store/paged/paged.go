// Package paged keeps tables whose rows share sealed pages: tables that are loaded and then mostly read.
//
// Package store seals the columns of each row. Here the sealed columns of up to 64 rows with neighbouring keys, or of as many as
// [Create] is told, are sealed at once, in one cell, and their plain columns lie in another cell beside (Iyer et al., A Framework for Efficient Storage
// Security in RDBMS, EDBT 2004, section 4.2). So a scan opens one cell for 64 rows, and a row is some bytes longer than its
// plaintext, where package store adds about a hundred. A query that asks for plain columns only, and takes them
// unauthenticated, opens nothing:
//
//	t, err := paged.Create(ctx, st, schema, 64)
//	err = t.Put(ctx, rows...)                       // thousands at a time, in the order of their keys
//	for row, err := range t.Query(ctx, store.Query{Where: where}) { ... }
//
// In return a write of one row reads and writes its page. Put rows in the order of their keys, as far as you can, and many at a
// time: then pages are full, and each is written about twice. Rows that come in any order leave pages half to two thirds full.
// Pages whose rows were deleted stay, empty: keep what is to go in a table of its own, and drop that.
//
// # What a table of pages has
//
// Its row key is that of any table: parts that are plain, hashed, ordered by [store.MOPE], [store.Boldyreva], [store.Wozniak] or
// [store.Plaintext], and a tie-breaker. Conditions on the first parts choose the pages that are read. Columns are plain or
// randomised, and conditions on them are checked row by row. Where the first part is plain or hashed, pages have rows of one
// of its values only: then pages are full if a value has many rows. With few rows each, take package store. A row has at most 2 MiB.
// A page of 1 MiB is cut although it has few rows.
//
// Create refuses the rest by name: columns that are searched, a TTL, tenants, Conditional, AppendOnly, CellPerColumn,
// and schemes with an index. [store.Store.Alter] adds, renames and drops columns, [store.Store.RotateKeys] adds a key, and
// [Table.Reseal] seals pages again under it. [store.Store.Drop] drops the table. What pages have of a dropped column stays until
// they are written again: call RotateKeys and then Reseal to be rid of it. Package store/migrate copies the rows into another table while
// they are written, also under other keys of row keys.
//
// # Concurrency
//
// Any number of clients may write. A page changes by compare-and-set, so that no change is lost, and a row is always whole. A call whose
// answer is lost is [driver.ErrUnknownOutcome] if others have changed its rows since: it is not made twice. Put, Delete
// and Update may be made again after an error, but for rows whose tie-breaker Put draws: these are other rows each time. So name
// tie-breakers if you may have to. A query sees each page as of one moment, and each row once. One during which the schema changes may end with
// [store.ErrSchemaChanged]: ask again. Writers notice a changed schema, or new keys, before they acknowledge what they wrote; what becomes of
// values of a column that is gone, [store.DropColumn] says.
//
// # Integrity
//
// A page that was changed, or put elsewhere, is [store.ErrTampered], and so is one that is missing beside others: bring the family back from
// a backup. Not noticed is an older content of a page, with which pages that were made since may be gone; nor that all pages are gone that begin
// with one value of a hashed or plain first part, or in one partition of another table. A table of which nothing is encrypted has no such
// protection. docs/security.md says more.
package paged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pages"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Rows is how many rows a page has at most where [Create] is given 0.
const Rows = 64

// A Table is a table of pages. It is safe for concurrent use.
type Table struct{ pages *pages.Table }

// Check returns what Create would refuse in a schema, without asking the database.
func Check(schema store.Schema, rows int) error {
	_, err := meta.New(inner(schema, rows))
	if err != nil {
		err = fmt.Errorf("paged: %w", err)
	}
	return err
}

// inner returns the schema of a table of pages as the layers below have it.
func inner(schema store.Schema, rows int) meta.Schema {
	s := session.SchemaOf(schema)
	if s.PageRows = rows; rows == 0 {
		s.PageRows = Rows
	}
	return s
}

// Create makes a table whose pages have up to a number of rows, from 2 to 4096; 0 is [Rows]. A table of the same name is
// [store.ErrExists]. A schema that makes no sense, or has what pages cannot hold, is [store.ErrSchema].
func Create(ctx context.Context, st *store.Store, schema store.Schema, rows int) (*Table, error) {
	tbl, err := administer.Create(ctx, session.Of(st), inner(schema, rows))
	if err != nil {
		return nil, fmt.Errorf("paged: %w", err)
	}
	return &Table{pages.New(tbl)}, nil
}

// Open opens a table of pages. One that does not exist, or has no pages, is [store.ErrNoTable].
func Open(ctx context.Context, st *store.Store, name string) (*Table, error) {
	tbl, err := session.Of(st).Paged(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("paged: open table %q: %w", name, err)
	}
	return &Table{pages.New(tbl)}, nil
}

// Names returns the names of the tables of pages, in ascending order.
func Names(ctx context.Context, st *store.Store) (names []string, err error) {
	e, err := session.Of(st).Catalogue.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("paged: list tables: %w", err)
	}
	tables, err := e.Tables()
	for _, m := range tables {
		if m.Paged() {
			names = append(names, m.Name)
		}
	}
	return names, err
}

// Schema returns the schema of the table, as this client knows it: see [store.Table.Schema].
func (t *Table) Schema() store.Schema { return session.PublicSchema(t.pages.Schema()).(store.Schema) }

// PageRows returns how many rows a page has at most.
func (t *Table) PageRows() int { return t.pages.Schema().PageRows }

// Put writes rows, each as a whole: a row with the same key is replaced. All rows are checked before anything is written; the
// error of a bad row is a [store.RowError]. After any other error some rows may have been written: put them again, with the same
// tie-breakers. The same key twice is [driver.ErrOverlap], here and in Update and Delete.
func (t *Table) Put(ctx context.Context, rows ...store.Row) error {
	return t.call(ctx, "put", "put into", func(ctx context.Context, e *engine.Engine) (int, error) { return len(rows), t.pages.Put(ctx, e, rows) })
}

// Update changes columns of rows that exist: key parts say which row it is, and the columns that a Row names get new values,
// nil for null. A row that does not exist is [store.ErrNoRow]; others may have been changed then.
func (t *Table) Update(ctx context.Context, rows ...store.Row) error {
	return t.call(ctx, "update", "update", func(ctx context.Context, e *engine.Engine) (int, error) {
		return len(rows), t.pages.Update(ctx, e, rows)
	})
}

// Delete removes rows by their key parts. A row that does not exist is no error.
func (t *Table) Delete(ctx context.Context, keys ...store.Row) error {
	return t.call(ctx, "delete", "delete from", func(ctx context.Context, e *engine.Engine) (int, error) {
		return len(keys), t.pages.Delete(ctx, e, keys)
	})
}

// Get returns the row with the key parts of key, with the named columns or, where none is named, with all of them. It
// returns nil, and no error, if there is no such row; [TableOf.Get] returns [store.ErrNoRow]. It reads one page.
func (t *Table) Get(ctx context.Context, key store.Row, columns ...string) (row store.Row, err error) {
	err = t.call(ctx, "get", "get from", func(ctx context.Context, e *engine.Engine) (n int, err error) {
		row, err = t.pages.Get(ctx, e, key, columns)
		return min(1, len(row)), err // a row has key parts
	})
	return row, err
}

// Query yields the rows that a query selects. Rows come as pages have them: in the order of stored row keys within a partition. That is the order
// of the values where an ordered part of numbers or times has another scheme than [store.MOPE], and nowhere else: texts that begin alike
// come in any order. Sort the rows if their order matters, and do not go on after a limit by the last key. OrderBy, By, Reverse and PageToken are [store.ErrColumn].
// [store.Query.Unauthenticated] reads and opens no sealed page; conditions on encrypted parts of the row key are [store.ErrColumn] then, hashed
// ones too.
func (t *Table) Query(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	q.Columns = slices.Clone(q.Columns)
	return func(yield func(store.Row, error) bool) {
		e, err := t.pages.Use()
		if err != nil {
			yield(nil, t.pages.Refused(ctx, "query", fault.Prefixed(err)))
			return
		}
		n := 0
		ctx, end := t.pages.Operation(ctx, "query")
		defer func() { end(n, err) }()
		var row store.Row
		for row, err = range t.pages.Rows(ctx, e, session.SelectionOf(q)) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				err = t.failed("query", err)
				yield(nil, err)
				return
			}
			n++
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Count returns how many rows a predicate selects.
func (t *Table) Count(ctx context.Context, where store.Predicate) (int, error) {
	for {
		n, err := t.count(ctx, where)
		if !errors.Is(err, store.ErrSchemaChanged) {
			return n, err
		}
	}
}

func (t *Table) count(ctx context.Context, where store.Predicate) (n int, err error) {
	for _, err := range t.Query(ctx, store.Query{Where: where, Columns: []string{}}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// A Census is what [Table.Verify] and [Table.Reseal] found.
type Census struct {
	Pages    int // that there are
	Rows     int
	Uncut    int             // pages with too many rows, whose writer died before it had cut them: the next writer does
	Old      int             // pages that were not sealed under the newest key
	Resealed int             // pages that are now
	Damaged  int             // pages that cannot be read or are missing, and are none of Pages
	Faults   []inspect.Fault // of these, up to 1000, with their places; only Verify has them
}

// Verify opens all pages, and checks that none is missing and that rows are where their keys belong. It goes on behind pages that
// are damaged or missing: the error has how many there are, and the Census their places. Pages that are missing side by side count as one.
func (t *Table) Verify(ctx context.Context) (c Census, err error) {
	err = t.call(ctx, "verify", "verify", func(ctx context.Context, e *engine.Engine) (int, error) {
		all, err := t.pages.Verify(ctx, e)
		c = Census(all)
		return c.Rows, err
	})
	return c, err
}

// Reseal seals all pages under the newest key that are not: after [store.Store.RotateKeys]. It can be made again after an error. A
// client that dies while it writes may leave a page under the key that it knew, so that a second call may find some.
func (t *Table) Reseal(ctx context.Context) (c Census, err error) {
	err = t.call(ctx, "reseal", "reseal", func(ctx context.Context, e *engine.Engine) (int, error) {
		all, err := t.pages.Reseal(ctx, e)
		c = Census(all)
		return 0, err
	})
	return c, err
}

// Stats are what a Table has done since it was opened.
type Stats struct {
	Opened uint64 // sealed pages that were opened
	Cached uint64 // that were in memory, opened before: a Table keeps up to 8 MiB
}

// Stats returns them.
func (t *Table) Stats() Stats {
	opened, cached := t.pages.Counts()
	return Stats{Opened: opened, Cached: cached}
}

// call does something, which returns of how many rows it was, and observes it.
func (t *Table) call(ctx context.Context, name, doing string, do func(context.Context, *engine.Engine) (int, error)) error {
	e, err := t.pages.Use()
	if err != nil {
		return t.pages.Refused(ctx, name, fault.Prefixed(err))
	}
	ctx, end := t.pages.Operation(ctx, name)
	n, err := do(ctx, e)
	if err != nil {
		n, err = 0, t.failed(doing, err)
	}
	end(n, err)
	return err
}

func (t *Table) failed(doing string, err error) error {
	return fmt.Errorf("paged: %s %q: %w", doing, t.pages.Now().Meta.Name, fault.Gone(err))
}
