package cqlsource

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
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

// A losing dialer makes connections of which one breaks after so many messages, all connections together; below 0 none does.
type losing struct{ after atomic.Int64 }

func (l *losing) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return losingConn{conn, l}, err
}

type losingConn struct {
	net.Conn
	*losing
}

func (c losingConn) Write(b []byte) (int, error) {
	if c.after.Add(-1) == 0 {
		c.Close()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

type sameHost struct{ *gocql.SimpleRetryPolicy }

func (sameHost) GetRetryType(error) gocql.RetryType { return gocql.Retry }

// Whatever is read of a source is read again where the policy of the session says so, as that of Open does.
func TestReadsAreMadeAgain(t *testing.T) {
	session, keyspace := application(t)
	do(t, session, "CREATE TABLE orders (id int PRIMARY KEY, amount int)")
	do(t, session, "INSERT INTO orders (id, amount) VALUES (1, 2)")
	server, err := testcassandra.New()
	require.NoError(t, err)
	cluster := server.Cluster()
	lost := new(losing)
	cluster.Dialer, cluster.RetryPolicy = lost, sameHost{&gocql.SimpleRetryPolicy{NumRetries: 5}}
	session, err = cluster.CreateSession()
	require.NoError(t, err)
	t.Cleanup(session.Close)
	s, err := New(t.Context(), session, keyspace, "orders", Options{})
	require.NoError(t, err)
	for name, read := range map[string]func() error{
		"open":        func() error { _, err := New(t.Context(), session, keyspace, "orders", Options{}); return err },
		"now":         func() error { _, err := s.Now(t.Context()); return err },
		"fingerprint": func() error { _, err := s.Fingerprint(t.Context()); return err },
		"describe":    func() error { _, err := s.Describe(t.Context()); return err },
		"scan": func() error {
			for _, err := range s.Scan(t.Context(), inspect.Part{Of: 1}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		for after := range int64(4) {
			lost.after.Store(after + 1)
			require.NoError(t, read(), "%s, %d messages before", name, after)
			lost.after.Store(-1)
			require.Eventually(t, func() bool { return read() == nil }, 10*time.Second, 50*time.Millisecond)
		}
	}
}
