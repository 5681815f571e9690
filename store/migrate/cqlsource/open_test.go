package cqlsource

import (
	"context"
	"path/filepath"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What names no table says what to write, and never a password.
func TestURLsThatNameNoTable(t *testing.T) {
	for url, says := range map[string]string{
		"hbase://127.0.0.1/orders":   "a table of HBase is a source of package hbasesource",
		"pebble:data":                "names no table: it is cassandra://HOST[:PORT][,...]/KEYSPACE.TABLE",
		"":                           "names no table",
		"cassandra://127.0.0.1/shop": `"shop" is not KEYSPACE.TABLE, as in shop.orders`,
		"cassandra://127.0.0.1":      "it needs hosts and a keyspace and a table; it is cassandra://",
		"cassandra://app:hunter2@127.0.0.1/shop.orders": "credentials before the hosts",
		"cassandra://127.0.0.1/shop.orders?user=app&insecure-plaintext-password=yes&password-file=" + filepath.Join(t.TempDir(), "none"): "there is no password file",
	} {
		_, err := Open(t.Context(), url)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "hunter2")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := Open(ended, "cassandra://127.0.0.1:1/shop.orders")
	require.ErrorIs(t, err, context.Canceled)
	_, err = Open(t.Context(), "cassandra://127.0.0.1:1/shop.orders")
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "cqlsource: connect to 127.0.0.1:1")
}

// A table is opened by its URL. One that is not there is still asked for what remains.
func TestOpen(t *testing.T) {
	t.Parallel()
	named, session := source(t, `CREATE TABLE "Orders" (id int PRIMARY KEY)`, "Orders")
	do(t, session, `INSERT INTO "Orders" (id) VALUES (1)`)
	server, err := testcassandra.New()
	require.NoError(t, err)
	s, err := Open(t.Context(), server.Store(server.Hosts[0], named.keyspace+".Orders"))
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, collect(t, s, 1), 1)
	require.Equal(t, gocql.Quorum, s.consistency)

	require.NoError(t, s.Drop(t.Context()))
	again, err := Open(t.Context(), server.Store(server.Hosts[0], named.keyspace+"/Orders"))
	require.NoError(t, err)
	defer again.Close()
	_, err = again.Describe(t.Context())
	require.ErrorIs(t, err, driver.ErrNoFamily)
	_, err = again.Read(t.Context(), nil)
	require.ErrorIs(t, err, driver.ErrNoFamily)
	writes := NewSession(again, new(notebook))
	require.ErrorIs(t, writes.Exec(t.Context(), `DELETE FROM `+named.keyspace+`."Orders" WHERE id = 1`), driver.ErrNoFamily)
	require.NoError(t, writes.Exec(t.Context(), "SELECT key FROM system.local"), "what is of another table passes")
	remains, err := again.Remains(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, remains)

	local, err := New(t.Context(), session, named.keyspace, "Orders", Options{Datacentre: "datacenter1"})
	require.NoError(t, err)
	require.Equal(t, gocql.LocalQuorum, local.consistency)
	all, err := New(t.Context(), session, named.keyspace, "Orders", Options{Consistency: gocql.All})
	require.NoError(t, err)
	require.Equal(t, gocql.All, all.consistency)
}
