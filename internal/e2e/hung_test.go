package e2e

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/servers"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// TestWritesOutliveHungNode puts rows one by one from 32 writers while one of three nodes hangs, after and before times with
// all three. What it prints is rows a second with the node beside rows a second without. No row may be lost, and none may
// wait for the node.
func TestWritesOutliveHungNode(t *testing.T) {
	if os.Getenv("RANGECRYPT_SERVERS_TEST") != "1" {
		t.Skip("starts real servers; set RANGECRYPT_SERVERS_TEST=1 to run it (needs JDK 11 or 17 and Maven)")
	}
	ctx := t.Context()
	cluster, err := servers.Start(ctx, servers.Options{Kind: servers.Cassandra, Dir: t.TempDir(), Nodes: 3, FreePorts: true, Logf: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	config := cassandra.Config{Hosts: cluster.Addrs(), Options: cassandra.Options{
		Keyspace: "hung", Replication: map[string]string{"class": "SimpleStrategy", "replication_factor": "3"}, SpeculateAfter: 100 * time.Millisecond,
	}}
	db, err := cassandra.Open(ctx, config)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, store.Schema{
		Name: "rows", SpreadBits: 4,
		Key:     []store.KeyPart{store.OrderedPart("id", store.Int64, store.MOPE)},
		Columns: []store.Column{store.RandomisedColumn("note", store.Int64)},
	})
	require.NoError(t, err)

	var next, longest atomic.Int64
	// during puts rows for a time, and returns how many.
	during := func(d time.Duration) (rows int64) {
		ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
		defer cancel()
		first, end := next.Load(), time.Now().Add(d)
		var writers sync.WaitGroup
		for range 32 {
			writers.Go(func() {
				for time.Now().Before(end) {
					id, began := next.Add(1), time.Now()
					if err := tbl.Put(ctx, store.Row{"id": id, "note": -id}); err != nil {
						t.Error(err)
						return
					}
					took := int64(time.Since(began))
					for was := longest.Load(); took > was && !longest.CompareAndSwap(was, took); was = longest.Load() {
					}
				}
			})
		}
		writers.Wait()
		return next.Load() - first
	}
	const turn = 5 * time.Second
	during(turn) // servers that have just started are slow
	var ratios []float64
	for i, victim := range cluster.Nodes() {
		before := during(turn)
		longest.Store(0)
		require.NoError(t, victim.Hang())
		hung := during(turn)
		waited := time.Duration(longest.Load())
		require.NoError(t, victim.GoOn())
		time.Sleep(2 * time.Second) // for what it has to do
		after := during(turn)
		ratio := 2 * float64(hung) / float64(before+after)
		t.Logf("node %d hangs: %d rows, before %d, after %d: ratio %.2f; the longest Put took %v", i+1, hung, before, after, ratio, waited.Round(time.Millisecond))
		require.Less(t, waited, 5*time.Second, "a Put has waited for the node")
		ratios = append(ratios, ratio)
	}
	slices.Sort(ratios)
	t.Logf("median ratio %.2f", ratios[1])
	n := 0
	for row, err := range tbl.Query(ctx, store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, row["id"].(int64), -row["note"].(int64))
		n++
	}
	require.Equal(t, next.Load(), int64(n), "rows that were acknowledged")
	t.Logf("%d rows, all there", n)
}
