package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/estimate"
	"github.com/rangecrypt/rangecrypt/store/internal/keyuse"
	"github.com/rangecrypt/rangecrypt/store/internal/maintain"
)

// Parts cuts a table into n parts, at most [inspect.MaxParts], or with 0 into as many as its size wants: one for each 100,000 rows,
// as far as some of its keys tell. [Table.ConvertPart] and [Table.VerifyPart] do a pass over one of them.
func (tbl *Table) Parts(ctx context.Context, n int) (parts []inspect.Part, err error) {
	err = tbl.pass(ctx, "parts", "parts of", func(ctx context.Context) (_ int, err error) {
		parts, err = estimate.Parts(ctx, tbl.open().Now(), n)
		return 0, err
	})
	return parts, err
}

// KeyUse reads a table and counts its cells by the keys that sealed them, as their headers say, and what is found by which search
// key. It reads only, while readers and writers go on. A key that nothing is under is not needed to read what is there; a client that slept since before a rotation
// may still write under an older key, and converts that when it wakes, unless it dies. What a deleted row of a table with
// [Schema.Conditional] leaves keeps its key until the row is put again: Convert does not seal it again. A copy of a row in an
// index entry, see [Column.Covering], is a cell of the key that seals key cells.
//
// Of a table that is open for a tenant it counts what is of this one. One with tenants that is not
// is read once for all of them, and beside their cells counts those of tenants that were dropped.
//
// Memory does not depend on the number of rows. progress, if not nil, is called now and then with the number of rows so far.
func (tbl *Table) KeyUse(ctx context.Context, progress func(rows int)) (use inspect.KeyUse, err error) {
	err = tbl.pass(ctx, "key use", "key use of", func(ctx context.Context) (rows int, err error) {
		use, rows, err = keyuse.Count(ctx, tbl.open(), progress)
		return rows, err
	})
	return use, err
}

// DeleteOrphans deletes what tenants that were dropped left in a table with tenants, which nobody can read any more: rows with
// all their cells, plain ones included, postings, and the indexes of columns that do not share them with the database. It needs no
// time to pass, and tenants that are there may read and write at the same time. It may be stopped at any moment and called again.
//
// A client that was in the middle of a write when its tenant was dropped may leave rows afterwards, and on Cassandra a row stays
// whose writer's clock was ahead: call it again. [Table.Verify] counts what is left. With an error, what was deleted so far is
// returned. In a table with [Schema.Conditional] its Rows count what is left of deleted rows, too.
func (tbl *Table) DeleteOrphans(ctx context.Context, progress func(read int)) (deleted inspect.Orphans, err error) {
	err = tbl.pass(ctx, "delete orphans", "delete the orphans of", func(ctx context.Context) (_ int, err error) {
		deleted, err = maintain.DeleteOrphans(ctx, tbl.open(), progress)
		return deleted.Rows, err
	})
	return deleted, err
}
