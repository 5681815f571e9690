package cqlsource

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// Of a node on this machine, the folders with files of the table are listed, and of those that were dropped.
func TestFilesOfTheTable(t *testing.T) {
	data := t.TempDir()
	for name, size := range map[string]int{
		"shop/orders-11/nb-1-big-Data.db": 10, "shop/orders-11/nb-1-big-Index.db": 5, "shop/orders-11/.by_note/nb-1-big-Data.db": 1,
		"shop/orders-11/snapshots/dropped-17-orders/nb-1-big-Data.db": 7, "shop/orders-11/snapshots/known/manifest.json": 7,
		"shop/orders-22/backups/nb-1-big-Data.db": 3,
		"shop/orders_2-33/nb-1-big-Data.db":       9, "shop2/orders-44/nb-1-big-Data.db": 9,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(data, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(data, name), make([]byte, size), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(data, "shop/orders-55/backups"), 0o700))
	s := &Source{keyspace: "shop", table: "orders"}
	n := node{name: "10.0.0.1", local: true, snapshot: map[string]string{"known": " (7 bytes)"}} // which the node lists
	const clear = "run 'nodetool listsnapshots' there, and 'nodetool clearsnapshot -t NAME -- shop'"
	require.Equal(t, []migrate.Remain{
		{What: "data files of the table (3 files, 16 bytes)", Where: filepath.Join(data, "shop/orders-11"), Seen: true, Advice: dropFirst},
		{What: "snapshot (1 file, 7 bytes)", Where: filepath.Join(data, "shop/orders-11/snapshots/dropped-17-orders"), Seen: true, Advice: clear},
		{What: "incremental backup (1 file, 3 bytes)", Where: filepath.Join(data, "shop/orders-22/backups"), Seen: true, Advice: deleteFiles},
	}, s.ofTable(n, data))

	unseen := migrate.Remain{What: "data files, snapshots and backups of the table", Where: "10.0.0.1:" + filepath.Join(data, "shop/orders-*"), Advice: "look there when the table is dropped; " + clear}
	n.local = false
	require.Equal(t, []migrate.Remain{unseen}, s.ofTable(n, data))
	n.local = true
	unseen.Where = "10.0.0.1:" + filepath.Join(data, "none/shop/orders-*")
	require.Equal(t, []migrate.Remain{unseen}, s.ofTable(n, filepath.Join(data, "none")))
}

// A view goes before its table, and then nothing says what it was of: snapshots of what is no longer there are listed as possible.
func TestSnapshotsOfViews(t *testing.T) {
	n := node{name: "10.0.0.1", others: []snapshot{
		{"dropped-17-orders_by_note", "orders_by_note", " (7 bytes)"}, {"daily", "customers", " (9 bytes)"}, {"daily", "customers_by_name", " (9 bytes)"},
	}}
	require.Equal(t, []migrate.Remain{{
		What:  "snapshot of orders_by_note (7 bytes), which is dropped, and has values of the table if it was a materialised view of it",
		Where: "10.0.0.1:dropped-17-orders_by_note", Advice: "run 'nodetool clearsnapshot -t dropped-17-orders_by_note -- shop' there",
	}}, n.ofDropped("shop", []string{"customers", "customers_by_name"}))

	s := &Source{keyspace: "shop", table: "orders"}
	require.Equal(t, `ALTER TABLE "shop"."orders" WITH incremental_backups = false; ALTER MATERIALIZED VIEW "shop"."orders_by_note" WITH incremental_backups = false`,
		s.alter(&layout{table: `"shop"."orders"`, views: []string{"orders_by_note"}}, "incremental_backups = false"))
}
