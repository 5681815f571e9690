package pebble

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

func TestDiskUsage(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, err := Open(dir, nil)
	require.NoError(t, err)
	const rows, size = 200, 1000
	for name, n := range map[string]int{"empty": 0, "full": rows} {
		f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered})
		require.NoError(t, err)
		for i := range n {
			value := make([]byte, size)
			rand.Read(value) // cannot be compressed
			require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte{byte(i)}, Puts: []driver.Cell{{Value: value}}}))
		}
	}
	require.NoError(t, db.Close())
	db, err = Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	n, err := db.DiskUsage(ctx, "full")
	require.NoError(t, err)
	require.InDelta(t, rows*size, n, rows*size/10)
	n, err = db.DiskUsage(ctx, "empty")
	require.NoError(t, err)
	require.Less(t, n, uint64(rows*size/10), "a block at most, which it shares with its neighbour")
	_, err = db.DiskUsage(ctx, "none")
	require.ErrorIs(t, err, driver.ErrNoFamily)
}
