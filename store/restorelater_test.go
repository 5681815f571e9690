package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A repair, or the end of a write, stores rows again. A row that a client has written which knows of a later schema has values that
// this client does not know of: it keeps them.
func TestRestoredRowsKeepLaterColumns(t *testing.T) {
	ctx := context.Background()
	for _, apart := range []bool{packed, cellPerColumn} {
		memory := drivertest.NewMemory()
		service := kms.NewLocal(testMaster)
		theirs, err := Open(ctx, memory, service, nil)
		require.NoError(t, err)
		tbl, err := theirs.Create(ctx, Schema{
			Name: "t", CellPerColumn: apart, Key: []KeyPart{HashedPart("k", String)}, Columns: []Column{RandomisedColumn("a", String)},
		})
		require.NoError(t, err)
		ours, err := Open(ctx, memory, service, nil)
		require.NoError(t, err)
		same, err := ours.Table(ctx, "t")
		require.NoError(t, err)
		old := same.now()
		require.NoError(t, theirs.Alter(ctx, "t", AddColumn(RandomisedColumn("b", String))))
		row := Row{"k": "k", "a": "a", "b": "b"}
		require.NoError(t, tbl.Put(ctx, row))
		record, err := tbl.now().Check(row)
		require.NoError(t, err)
		require.NoError(t, tbl.now().EncodeKey(ctx, record))
		require.NoError(t, old.Restore(ctx, nil, record.Key))
		found, err := tbl.Get(ctx, Row{"k": "k"})
		require.NoError(t, err)
		require.Equal(t, row, found)
	}
}

// So does a copy of such a row.
func TestMendedCopiesKeepLaterColumns(t *testing.T) {
	ctx, both := t.Context(), stores(t, drivertest.NewMemory(), 2)
	tbl, err := both[0].Create(ctx, Schema{
		Name: "t", Conditional: true, Key: []KeyPart{HashedPart("k", String)}, Columns: []Column{OrderedColumn("a", Int64, MOPE).Covering()},
	})
	require.NoError(t, err)
	same, err := both[1].Table(ctx, "t")
	require.NoError(t, err)
	old := same.now()
	require.NoError(t, both[0].Alter(ctx, "t", AddColumn(RandomisedColumn("b", String))))
	row := Row{"k": "k", "a": int64(1), "b": "b"}
	require.NoError(t, tbl.Put(ctx, row))
	for posting, err := range tbl.now().Postings.Scan(ctx, driver.Range{Cells: driver.Slice{Stamps: true}, AnyOrder: true}) {
		require.NoError(t, err)
		_, err = recopy.Mend(ctx, old, old.ByName["a"], posting)
		require.NoError(t, err)
	}
	for found, err := range tbl.Query(ctx, Query{Where: Int64.Field("a").Equal(1)}) {
		require.NoError(t, err)
		require.Equal(t, row, found)
	}
}
