package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
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
