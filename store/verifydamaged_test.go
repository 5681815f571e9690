package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A row with damage, of which a client that died began to write another one, keeps nothing else from being mended.
func TestRepairGoesOnBehindDamagedDoubtfulRow(t *testing.T) {
	ctx, db := context.Background(), drivertest.NewMemory()
	tbl, err := stores(t, db, 1)[0].Create(ctx, Schema{
		Name: "t", Conditional: true, CellPerColumn: true, Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("v", Int64, MOPE).Covering(), RandomisedColumn("note", String)},
	})
	require.NoError(t, err)
	row := func(id int) Row { return Row{"id": int64(id), "v": int64(id), "note": "x"} }
	for id := range 3 {
		require.NoError(t, tbl.Put(ctx, row(id)))
	}
	for id := range 2 {
		dying, err := Open(ctx, drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
			if op.Family == tbl.now().Family() && op.Method == "Commit" {
				return drivertest.CrashBefore
			}
			return drivertest.NoFault
		}), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		dies, err := dying.Table(ctx, "t")
		require.NoError(t, err)
		require.Error(t, dies.Update(ctx, Row{"id": int64(id), "v": int64(id + 50)}))
		_ = dying.Close(ctx)
	}
	e := tbl.now()
	keys, err := bykey.KeysOf(ctx, e, []rowcodec.RowValues{row(0)})
	require.NoError(t, err)
	note := e.ByName["note"].Id
	require.NoError(t, e.Data.Apply(ctx, driver.Mutation{Row: keys[0], Puts: []driver.Cell{{Qualifier: note[:], Value: make([]byte, 60)}}}))

	report, faults := verified(t, tbl, VerifyOptions{Repair: true, Grace: time.Nanosecond})
	require.Len(t, faults, 1)
	require.Equal(t, inspect.FaultCell, faults[0].Kind)
	require.Equal(t, 2, report.Uncopied)
	require.Equal(t, 2, report.Dangling)
	require.Equal(t, report.Dangling, report.Dropped)
	report, _ = verified(t, tbl, VerifyOptions{})
	require.Equal(t, 1, report.Uncopied, "the other row has its copy again")
}
