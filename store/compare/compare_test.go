package compare_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// What was done to the index of a stateful scheme is counted, in a row key and in columns, and
// nothing is told of columns that have none.
func TestIndexStats(t *testing.T) {
	ctx := context.Background()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, store.Schema{
		Name: "t",
		Key:  []store.KeyPart{store.OrderedPart("key", store.Int32, store.WozniakIndexed)},
		Columns: []store.Column{
			store.OrderedColumn("local", store.Int32, store.Kerschbaum),
			store.OrderedColumn("published", store.Int32, compare.KerschbaumPublished),
			store.OrderedColumn("stateless", store.Int32, store.Wozniak),
			store.OrderedColumn("plain", store.Int32, compare.PlaintextIndexed),
			store.RandomisedColumn("sealed", store.Int32),
		},
	})
	require.NoError(t, err)
	for i := range int32(200) { // ascending: more than labels of 65 bits take
		require.NoError(t, tbl.Put(ctx, store.Row{"key": i, "local": i, "published": i, "stateless": i, "plain": i, "sealed": i}))
	}
	key, err := compare.StatsOf(tbl, "key")
	require.NoError(t, err)
	require.GreaterOrEqual(t, key.Commits, 200)
	require.GreaterOrEqual(t, key.RoundTrips, key.Commits)
	require.Zero(t, key.Rebalances+key.Relabels+key.Moved)

	local, err := compare.StatsOf(tbl, "local")
	require.NoError(t, err)
	require.GreaterOrEqual(t, local.Commits, 200)
	require.GreaterOrEqual(t, local.RoundTrips, local.Commits)
	require.Zero(t, local.Refused+local.Unknown)
	require.Zero(t, local.Rebalances+local.Relabels+local.Moved)

	published, err := compare.StatsOf(tbl, "published")
	require.NoError(t, err)
	require.GreaterOrEqual(t, published.Rebalances+published.Relabels, 2)
	require.Greater(t, published.Moved, 100)
	require.GreaterOrEqual(t, published.Commits, 200)

	moved, err := tbl.Rebalance(ctx, "local", nil)
	require.NoError(t, err)
	now, err := compare.StatsOf(tbl, "local")
	require.NoError(t, err)
	require.Equal(t, 1, now.Rebalances)
	require.Equal(t, 200, moved.Values)
	require.Equal(t, 200, now.Moved)

	for _, name := range []string{"stateless", "plain", "sealed", "missing"} {
		_, err := compare.StatsOf(tbl, name)
		require.ErrorIs(t, err, store.ErrColumn, name)
	}
}
