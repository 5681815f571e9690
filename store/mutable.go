package store

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
)

// Rebalance rewrites the index of an ordered column with a [MutableScheme]. A copy of the index shows in which order values
// were first written, until ciphertexts are placed evenly, as this does: call it after a bulk load. No row is written, and
// readers and writers may go on: a writer of a new value waits for as long as a commit takes. If the caller dies, some
// values are in their new places and the others are not; call it again. progress may be nil; it is called
// with the number of values that are in their places so far and in all.
//
// A column with another encryption is [ErrColumn].
func (tbl *Table) Rebalance(ctx context.Context, column string, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	err = tbl.call(ctx, "rebalance", "rebalance", 0, func(ctx context.Context, _ *engine.Engine) (err error) {
		stats, err = rewrite.Rebalance(ctx, tbl.open(), column, progress)
		return err
	})
	return stats, err
}

// RebuildIndex makes the index of a key part or column with a stateful scheme again, from the rows: of one that [Table.Verify]
// finds damaged. Columns that share the index have it made again with it, those of other tables included. Readers and writers
// go on; those that need a new value of a [WozniakIndexed] column wait, and help. But a query by the column that is under way
// ends with [ErrSchemaChanged], after some rows or all of them: begin it anew. On Pebble, which has snapshots, only one by [Kerschbaum]
// does. The call may be stopped at any moment, made again, and made by several clients at a time. progress may be nil; it is called with
// the number of rows read so far.
//
// Values that no row has are in the index no more. Those of a WozniakIndexed column stay there, since a writer may
// be about to store one. They go, too, if the index had more than 500,000 values. Memory is some 100 bytes for each distinct
// value of such a column.
//
// If a WozniakIndexed index is damaged, or had more than 500,000 values, a row that is written at the same time may need
// another ciphertext than its writer drew. It is then stored again, and queries may return it twice until its Put
// returns. If that Put fails, or its client dies, both rows stay until Verify with Repair.
//
// A column of [KerschbaumRanked] gets a new key and a new index, and all rows are stored again, as [Table.Convert] does it. Until that is over,
// queries by the column open all rows, in no order. Rows that the schema does not take keep it from ending: that is [ope.ErrIndex].
//
// A column without an index is [ErrColumn]. Rows that contradict the others stay as they are, and queries by the column may not
// find them. The error is [ope.ErrIndex] then, although the index is made again: Verify with Repair stores them again.
func (tbl *Table) RebuildIndex(ctx context.Context, column string, progress func(rows int)) error {
	return tbl.pass(ctx, "rebuild index", fmt.Sprintf("rebuild the index of column %q of", column), func(ctx context.Context) (rows int, err error) {
		err = rewrite.RebuildIndex(ctx, tbl.open(), column, func(n int) {
			if rows = n; progress != nil {
				progress(n)
			}
		})
		return rows, err
	})
}
