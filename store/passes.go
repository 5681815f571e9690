package store

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/keyuse"
	"github.com/rangecrypt/rangecrypt/store/internal/maintain"
)

// KeyUse reads a table and counts its cells by the keys that sealed them, as their headers say. It reads only, while readers
// and writers go on. A key that no cell has is not needed to read what is there; a client that slept since before a rotation
// may still seal with an older key, and converts that when it wakes, unless it dies. What a deleted row of a table with
// [Schema.Conditional] leaves keeps its key until the row is put again: Convert does not seal it again. A copy of a row in an
// index entry, see [Column.Covering], is a cell of the key that seals key cells.
//
// Of a table that is open for a tenant it counts the cells of this one. One with tenants that is not
// is read once for all of them, and beside their cells counts those of tenants that were dropped.
//
// Memory does not depend on the number of rows. progress, if not nil, is called now and then with the number of rows so far.
func (tbl *Table) KeyUse(ctx context.Context, progress func(rows int)) (use inspect.KeyUse, err error) {
	name, rows := tbl.open().Now().Meta.Name, 0
	ctx, end := tbl.open().Operation(ctx, "key use")
	defer func() { end(rows, err) }()
	if use, rows, err = keyuse.Count(ctx, tbl.open(), progress); err != nil {
		err = fmt.Errorf("store: key use of %q: %w", name, err)
	}
	return use, err
}

// DeleteOrphans deletes what tenants that were dropped left in a table with tenants, which nobody can
// read any more: rows with all their cells, plain ones included, postings, and the indexes of columns
// that do not share them with the database. It needs no time to pass, and tenants that are there may
// read and write at the same time. It may be stopped at any moment and called again.
//
// A client that was in the middle of a write when its tenant was dropped may leave rows afterwards, and
// on Cassandra a row stays whose writer's clock was ahead: call it again. [Table.Verify] counts what is
// left. With an error, what was deleted so far is returned.
func (tbl *Table) DeleteOrphans(ctx context.Context, progress func(read int)) (deleted inspect.Orphans, err error) {
	name := tbl.open().Now().Meta.Name
	ctx, end := tbl.open().Operation(ctx, "delete orphans")
	defer func() { end(deleted.Rows, err) }()
	if deleted, err = maintain.DeleteOrphans(ctx, tbl.open(), progress); err != nil {
		err = fmt.Errorf("store: delete the orphans of %q: %w", name, engine.Gone(err))
	}
	return deleted, err
}
