package cmd

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Commands that show keys show those of tables that an application keeps. Commands for rows say where the rows are, and those
// for all tables leave such a table out.
func TestTablesThatApplicationsKeep(t *testing.T) {
	var db driver.DB
	e, stdout, stderr := testEnv(t, func(opened driver.DB) driver.DB { db = opened; return db })
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	run := func(want exit.Code, args ...string) string {
		t.Helper()
		stdout.Reset()
		stderr.Reset()
		require.Equal(t, want, execute(e, append(args, "--store", "pebble:any", "--key", key)), stderr)
		return stdout.String()
	}
	run(exit.OK, "insert", "--n", "10", "--layout", "column")
	master, err := kms.ReadFile(key)
	require.NoError(t, err)
	st, err := store.Open(context.Background(), db, kms.NewLocal(master), nil)
	require.NoError(t, err)
	before := run(exit.OK, "keys", "list")
	require.NoError(t, cell.Register(context.Background(), st, "shop.orders",
		store.OrderedColumn("amount", store.Int64, store.MOPE), store.RandomisedColumn("note", store.String)))

	list := run(exit.OK, "keys", "list")
	require.Contains(t, list, before)
	for _, line := range []string{`shop.orders, "amount", search: [0-9a-f]{32}\n`, `shop.orders, "amount", cell: [0-9a-f]{32}\n`, `shop.orders, "note", cell: [0-9a-f]{32}\n`} {
		require.Regexp(t, line, list)
	}
	require.NotContains(t, list, "shop.orders, row")
	require.Contains(t, run(exit.OK, "keys", "verify"), "sound")
	require.NotContains(t, run(exit.OK, "keys", "verify", "--deep"), "shop.orders", "there is nothing to count")

	described := run(exit.OK, "table", "describe", "shop.orders")
	require.Contains(t, described, "table shop.orders: elsewhere, as of version")
	require.Contains(t, described, "amount")
	require.NotContains(t, described, "in the database")
	require.Contains(t, run(exit.OK, "table", "describe", "shop.orders", "--json"), `"layout":"elsewhere"`)

	require.NotContains(t, run(exit.OK, "table", "list"), "shop.orders")
	require.NotContains(t, run(exit.OK, "verify"), "shop.orders")
	for _, args := range [][]string{
		{"verify", "--table", "shop.orders"}, {"table", "convert", "shop.orders"}, {"table", "describe", "shop.orders", "--count"}, {"table", "describe", "shop.orders", "--yaml"},
	} {
		run(exit.Failed, args...)
		require.Contains(t, stderr.String(), "package store/cell opens its fields")
	}
	for _, args := range [][]string{{"drop", "shop.orders", "--yes"}, {"alter", "shop.orders", "--drop", "note"}, {"rename", "shop.orders", "shop.bills"}} {
		run(exit.Failed, append([]string{"table"}, args...)...)
		require.Contains(t, stderr.String(), "Store.Alter and Store.Drop of package store change and drop it")
	}
	run(exit.Failed, "keys", "rotate", "--table", "shop.orders")
	require.Contains(t, stderr.String(), "add another column, and write the values there")
	run(exit.Failed, "table", "describe", "shop.order")
	require.Contains(t, stderr.String(), "no such table")
}
