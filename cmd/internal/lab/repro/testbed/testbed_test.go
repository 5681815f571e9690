package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestWorkspaceIsDropped(t *testing.T) {
	ctx := context.Background()
	d := reprotest.Memory()
	_, err := store.Open(ctx, d.DB, d.Key, nil)
	require.NoError(t, err)
	before := reprotest.Families(t, d)
	w, err := NewWorkspace(ctx, experiment.Config{Database: d})
	require.NoError(t, err)
	_, err = w.Create(ctx, workload.Schema(workload.Encrypted))
	require.NoError(t, err)
	_, err = w.Family(ctx, w.Spec("f", 4))
	require.NoError(t, err)
	require.NoError(t, w.Drop(reprotest.Ended()), "also when the experiment was interrupted")
	require.Equal(t, before, reprotest.Families(t, d))
}

func TestCounter(t *testing.T) {
	ctx := context.Background()
	c := new(Counter)
	db := c.Over(intercept.WithLatency(drivertest.NewMemory(), func() time.Duration { return 20 * time.Millisecond }))
	f, err := db.Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	require.Implements(t, (*driver.Committer)(nil), f)
	require.Equal(t, Tally{}, c.Now())

	put := func(row string) driver.Mutation {
		return driver.Mutation{Row: []byte(row), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("value")}}}
	}
	require.NoError(t, f.Apply(ctx))
	require.Equal(t, Tally{}, c.Now(), "nothing is sent for no mutation")
	require.NoError(t, f.Apply(ctx, put("row"), put("row2")))
	require.Equal(t, Tally{Trips: 1, Requests: 2, Bytes: 3 + 4 + 2*6}, c.Now())

	before := c.Now()
	var group errgroup.Group
	for range 3 {
		group.Go(func() error {
			_, err := f.Get(ctx, []byte("row"), driver.Slice{})
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, Tally{Trips: 1, Requests: 3}, c.Now().Since(before), "together")

	// What is asked for while rows come is asked for after they were.
	before = c.Now()
	for row, err := range f.Scan(ctx, driver.Range{}) {
		require.NoError(t, err)
		_, err = f.Get(ctx, row.Key, driver.Slice{})
		require.NoError(t, err)
	}
	require.Equal(t, Tally{Trips: 3, Requests: 3}, c.Now().Since(before))

	before = c.Now()
	ok, err := f.CheckAndPut(ctx, []byte("other"), driver.Cell{Qualifier: []byte("q")}, driver.Cell{Qualifier: []byte("q"), Value: []byte("v")})
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = f.(driver.Committer).Commit(ctx, []byte("other"), []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}, nil, [][]byte{[]byte("q")})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Tally{Trips: 2, Requests: 2, Bytes: 7}, c.Now().Since(before))
}
