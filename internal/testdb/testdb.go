// Package testdb opens the databases that tests run against, each in one place: the one in
// memory, the embedded one, and those that the environment names.
//
// RANGECRYPT_CASSANDRA is the nodes of a Cassandra, host:port with commas between several, and
// RANGECRYPT_CASSANDRA_REPLICATION the number of copies that they keep, by default one.
// RANGECRYPT_HBASE is the ZooKeeper quorum of an HBase. Where one is not set its tests are
// skipped with one line, unless RANGECRYPT_REQUIRE lists its name: then they fail.
package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A Database is a kind of database.
type Database struct {
	Name string

	// Server reports whether it is one that other processes run.
	Server bool

	open    func(tb testing.TB, wire io.Writer) driver.DB
	reserve func(tb testing.TB) string
	join    func(ctx context.Context, name string) (driver.DB, error)
	through func(ctx context.Context, name string, n Network) (driver.DB, error)
}

// A Network is how a client reaches a server.
type Network struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Timeout is how long the client waits for the server where a context does not end before.
	Timeout time.Duration
}

// All are all kinds of databases.
var All = []Database{
	{Name: "memory", open: func(testing.TB, io.Writer) driver.DB { return drivertest.NewMemory() }},
	{Name: "pebble", open: openPebble, reserve: testing.TB.TempDir, join: joinPebble},
	{Name: "cassandra", Server: true, open: openCassandra, reserve: reserveCassandra, join: joinCassandra, through: cassandraThrough},
	{Name: "hbase", Server: true, open: openHBase, reserve: reserveHBase, join: joinHBase, through: hbaseThrough},
}

// Each runs a test once for every kind of database, as a subtest of its name.
func Each(t *testing.T, test func(t *testing.T, db Database)) {
	for _, db := range All {
		t.Run(db.Name, func(t *testing.T) {
			db.Need(t)
			test(t, db)
		})
	}
}

// Open returns an empty database, which is closed and removed at the end of the test. A
// non-nil wire is given every byte that goes to a server or comes from one.
func (d Database) Open(tb testing.TB, wire io.Writer) driver.DB {
	tb.Helper()
	return d.open(tb, wire)
}

// Shared reports whether several processes can use one database, one after the other or, of a
// server, at the same time.
func (d Database) Shared() bool { return d.join != nil }

// Reserve returns the name of a new database, which any process may [Database.Join]. It is removed
// at the end of the test.
func (d Database) Reserve(tb testing.TB) string {
	tb.Helper()
	return d.reserve(tb)
}

// Join opens the database that another process has reserved.
func (d Database) Join(ctx context.Context, name string) (driver.DB, error) { return d.join(ctx, name) }

// Through is Join by a network of the test's, for a kind that is a Server.
func (d Database) Through(ctx context.Context, name string, n Network) (driver.DB, error) {
	return d.through(ctx, name, n)
}

func (d Database) variable() string { return "RANGECRYPT_" + strings.ToUpper(d.Name) }

// Need skips the test where the database is not there.
func (d Database) Need(tb testing.TB) {
	tb.Helper()
	switch {
	case !d.Server || os.Getenv(d.variable()) != "":
	case slices.Contains(strings.Split(os.Getenv("RANGECRYPT_REQUIRE"), ","), d.Name):
		tb.Fatalf("RANGECRYPT_REQUIRE lists %s, but %s is not set", d.Name, d.variable())
	default:
		tb.Skipf("needs a server: set %s to its address", d.variable())
	}
}

func openPebble(tb testing.TB, _ io.Writer) driver.DB {
	tb.Helper()
	db, err := joinPebble(tb.Context(), tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

func joinPebble(_ context.Context, dir string) (driver.DB, error) { return pebble.Open(dir, nil) }

func fresh() string {
	var id [6]byte
	rand.Read(id[:])
	return "rangecrypt_test_" + hex.EncodeToString(id[:])
}

func openCassandra(tb testing.TB, wire io.Writer) driver.DB {
	tb.Helper()
	session, err := cassandraSession(wire)
	require.NoError(tb, err)
	tb.Cleanup(session.Close)
	keyspace := fresh()
	tb.Cleanup(func() { require.NoError(tb, dropKeyspace(session, keyspace)) })
	db, err := cassandra.New(tb.Context(), session, cassandraOptions(keyspace))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

func reserveCassandra(tb testing.TB) string {
	tb.Helper()
	session, err := cassandraSession(nil)
	require.NoError(tb, err)
	keyspace := fresh()
	tb.Cleanup(func() {
		require.NoError(tb, dropKeyspace(session, keyspace))
		session.Close()
	})
	return keyspace
}

func joinCassandra(ctx context.Context, keyspace string) (driver.DB, error) {
	session, err := cassandraSession(nil)
	if err != nil {
		return nil, err
	}
	db, err := cassandra.New(ctx, session, cassandraOptions(keyspace))
	if err != nil {
		session.Close()
		return nil, err
	}
	return withSession{db, session}, nil
}

func cassandraThrough(ctx context.Context, keyspace string, n Network) (driver.DB, error) {
	return cassandra.Open(ctx, cassandra.Config{
		Options: cassandraOptions(keyspace), Hosts: strings.Split(os.Getenv("RANGECRYPT_CASSANDRA"), ","),
		Dial: n.Dial, Timeout: n.Timeout, ConnectTimeout: n.Timeout,
	})
}

// withSession is a database that closes its session.
type withSession struct {
	driver.DB
	session *gocql.Session
}

func (w withSession) Close() error {
	defer w.session.Close()
	return w.DB.Close()
}

func cassandraSession(wire io.Writer) (*gocql.Session, error) {
	cluster := gocql.NewCluster(strings.Split(os.Getenv("RANGECRYPT_CASSANDRA"), ",")...)
	cluster.Timeout = 30 * time.Second
	if wire != nil {
		cluster.Dialer = dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &recorded{conn, &lockedWriter{w: wire}}, nil
		})
	}
	return cluster.CreateSession()
}

func cassandraOptions(keyspace string) cassandra.Options {
	o := cassandra.Options{Keyspace: keyspace}
	if n := os.Getenv("RANGECRYPT_CASSANDRA_REPLICATION"); n != "" {
		o.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": n}
	}
	return o
}

func dropKeyspace(session *gocql.Session, keyspace string) error {
	return session.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

func openHBase(tb testing.TB, wire io.Writer) driver.DB {
	tb.Helper()
	o := &hbase.Options{Namespace: fresh()}
	if wire != nil {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			return record(ctx, network, address, wire)
		}
	}
	db, err := hbase.Open(tb.Context(), os.Getenv("RANGECRYPT_HBASE"), o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, errors.Join(dropFamilies(db), db.Close())) })
	return db
}

func reserveHBase(tb testing.TB) string {
	tb.Helper()
	namespace := fresh()
	tb.Cleanup(func() {
		db, err := joinHBase(context.Background(), namespace)
		require.NoError(tb, err)
		require.NoError(tb, errors.Join(dropFamilies(db), db.Close()))
	})
	return namespace
}

func joinHBase(ctx context.Context, namespace string) (driver.DB, error) {
	return hbase.Open(ctx, os.Getenv("RANGECRYPT_HBASE"), &hbase.Options{Namespace: namespace})
}

func hbaseThrough(ctx context.Context, namespace string, n Network) (driver.DB, error) {
	return hbase.Open(ctx, os.Getenv("RANGECRYPT_HBASE"), &hbase.Options{Namespace: namespace, Dial: n.Dial, Timeout: n.Timeout})
}

func dropFamilies(db driver.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	families, err := db.Families(ctx)
	for _, name := range families {
		err = errors.Join(err, db.Drop(ctx, name))
	}
	return err
}

// recorded is a connection that writes all it carries to a writer.
type recorded struct {
	net.Conn
	wire io.Writer
}

func (r *recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	_, _ = r.wire.Write(b[:n])
	return n, err
}

func (r *recorded) Write(b []byte) (int, error) {
	_, _ = r.wire.Write(b)
	return r.Conn.Write(b)
}

// record, for a client that wants a *net.TCPConn, connects to address through a tunnel that writes all it carries to wire.
func record(ctx context.Context, network, address string, wire io.Writer) (net.Conn, error) {
	var d net.Dialer
	server, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	defer listener.Close()
	client, err := d.DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	inner, err := listener.Accept()
	if err != nil {
		return nil, errors.Join(err, server.Close(), client.Close())
	}
	locked := &lockedWriter{w: wire}
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, io.TeeReader(from, locked))
		_, _ = to.Close(), from.Close()
	}
	go carry(server, inner)
	go carry(inner, server)
	return client, nil
}

// wireMu makes writes of all connections follow one another.
var wireMu sync.Mutex

type lockedWriter struct{ w io.Writer }

func (l *lockedWriter) Write(b []byte) (int, error) {
	wireMu.Lock()
	defer wireMu.Unlock()
	return l.w.Write(b)
}
