package pebble

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

func familyNamed(name string) driver.FamilySpec {
	return driver.FamilySpec{Name: name, Layout: driver.LayoutWide}
}

// Each query takes a snapshot: that must not cost more where there are many tables.
func TestSnapshotCostsNoMoreWithManyFamilies(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	allocated := func() int64 {
		return testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				s, err := db.Snapshot()
				require.NoError(b, err)
				require.NoError(b, s.Close())
			}
		}).AllocedBytesPerOp()
	}
	few := allocated()
	for i := range 500 {
		_, err := db.Family(t.Context(), familyNamed(fmt.Sprint("f", i)))
		require.NoError(t, err)
	}
	require.Less(t, allocated(), few+1000)
}

// What waits for the disk, as long as a compaction takes, lets others read: snapshots, and families that are there.
func TestFamilyThatWaitsHoldsUpNoReads(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	there, err := db.Family(t.Context(), familyNamed("there"))
	require.NoError(t, err)

	db.dirMu.Lock() // as who makes or drops one does while he waits
	defer db.dirMu.Unlock()
	s, err := db.Snapshot()
	require.NoError(t, err)
	_, err = s.Family(t.Context(), familyNamed("there"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	again, err := db.Family(t.Context(), familyNamed("there"))
	require.NoError(t, err)
	require.Same(t, there.(*family).entry, again.(*family).entry)
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"there"}, names)
}

// A snapshot has a family if that was there on the disk, whether or not the map still has it.
func TestSnapshotWhileAFamilyIsDropped(t *testing.T) {
	db, err := Open("db", &Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	f, err := db.Family(t.Context(), familyNamed("f"))
	require.NoError(t, err)
	put := driver.Mutation{Row: []byte("r"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}}
	require.NoError(t, f.Apply(t.Context(), put))
	before, err := db.Snapshot()
	require.NoError(t, err)
	with := db.families
	require.NoError(t, db.Drop(t.Context(), "f"))
	require.Empty(t, db.families)
	db.families = with // as between the drop on the disk and in memory
	between, err := db.Snapshot()
	require.NoError(t, err)

	old, err := before.Family(t.Context(), familyNamed("f"))
	require.NoError(t, err)
	cells, err := old.Get(context.Background(), []byte("r"), driver.Slice{})
	require.NoError(t, err)
	require.Len(t, cells, 1)
	_, err = between.Family(t.Context(), familyNamed("f"))
	require.ErrorIs(t, err, driver.ErrNoFamily)
	require.NoError(t, before.Close())
	require.NoError(t, between.Close())
}
