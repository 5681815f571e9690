// Package testdb opens the databases that tests run against, each in one place: the one in
// memory, the embedded one, and those that the environment names.
//
// RANGECRYPT_CASSANDRA is the nodes of a Cassandra, host:port with commas between several, and
// RANGECRYPT_CASSANDRA_REPLICATION the number of copies that they keep, by default one.
// RANGECRYPT_HBASE is the ZooKeeper quorum of an HBase. Where one is not set its tests are
// skipped with one line, unless RANGECRYPT_REQUIRE lists its name: then they fail.
package testdb

import (
	"cmp"
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
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
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

	// fresh names a new database, join opens it, and remove drops it, where db, if not nil, is a
	// connection to it. All three are nil for the one in memory.
	fresh  func(tb testing.TB) string
	join   func(ctx context.Context, name string, n Network) (driver.DB, error)
	remove func(ctx context.Context, name string, db driver.DB) error
}

// A Network is how a client reaches a server.
type Network struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Timeout is how long the client waits for the server where a context does not end before.
	Timeout time.Duration
}

// All are all kinds of databases.
var All = []Database{
	{Name: "memory"},
	{Name: "pebble", fresh: testing.TB.TempDir, join: joinPebble, remove: removeNothing},
	{Name: "cassandra", Server: true, fresh: fresh, join: joinCassandra, remove: dropKeyspace},
	{Name: "hbase", Server: true, fresh: fresh, join: joinHBase, remove: dropFamilies},
}

// Each runs a test once for every kind of database, as a subtest of its name. It returns before the
// subtests of servers have begun: those run at the same time, since they mostly wait.
func Each(t *testing.T, test func(t *testing.T, db Database)) {
	for _, db := range All {
		t.Run(db.Name, func(t *testing.T) {
			db.Need(t)
			if db.Server {
				t.Parallel()
			}
			test(t, db)
		})
	}
}

// Open returns an empty database, which is closed and removed at the end of the test. A
// non-nil wire is given every byte that goes to a server or comes from one.
func (d Database) Open(tb testing.TB, wire io.Writer) driver.DB {
	tb.Helper()
	if d.join == nil {
		return drivertest.NewMemory()
	}
	var n Network
	if wire != nil && d.Server {
		var mu sync.Mutex
		p := proxy.New(func(_ int, _ proxy.Direction, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = wire.Write(b)
		})
		tb.Cleanup(p.Close)
		n.Dial = p.Dial
	}
	name := d.fresh(tb)
	db, err := d.join(tb.Context(), name, n)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, errors.Join(d.remove(context.Background(), name, db), db.Close())) })
	return db
}

// Shared reports whether several processes can use one database, one after the other or, of a
// server, at the same time.
func (d Database) Shared() bool { return d.join != nil }

// Reserve returns the name of a new database, which any process may [Database.Join]. It is removed
// at the end of the test.
func (d Database) Reserve(tb testing.TB) string {
	tb.Helper()
	name := d.fresh(tb)
	tb.Cleanup(func() { require.NoError(tb, d.remove(context.Background(), name, nil)) })
	return name
}

// Join opens the database that another process has reserved.
func (d Database) Join(ctx context.Context, name string) (driver.DB, error) {
	return d.join(ctx, name, Network{})
}

// Through is Join by a network of the test's, for a kind that is a Server.
func (d Database) Through(ctx context.Context, name string, n Network) (driver.DB, error) {
	return d.join(ctx, name, n)
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

func fresh(testing.TB) string {
	var id [6]byte
	rand.Read(id[:])
	return "rangecrypt_test_" + hex.EncodeToString(id[:])
}

func joinPebble(_ context.Context, dir string, _ Network) (driver.DB, error) {
	return pebble.Open(dir, nil)
}

func removeNothing(context.Context, string, driver.DB) error { return nil }

func joinCassandra(ctx context.Context, keyspace string, n Network) (driver.DB, error) {
	o := cassandra.Options{Keyspace: keyspace}
	if n := os.Getenv("RANGECRYPT_CASSANDRA_REPLICATION"); n != "" {
		o.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": n}
	}
	return cassandra.Open(ctx, cassandra.Config{
		Options: o, Hosts: cassandraNodes(), Dial: n.Dial, Timeout: cmp.Or(n.Timeout, 30*time.Second), ConnectTimeout: n.Timeout,
	})
}

func cassandraNodes() []string { return strings.Split(os.Getenv("RANGECRYPT_CASSANDRA"), ",") }

func dropKeyspace(_ context.Context, keyspace string, _ driver.DB) error {
	cluster := gocql.NewCluster(cassandraNodes()...)
	cluster.Timeout = 30 * time.Second
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()
}

func joinHBase(ctx context.Context, namespace string, n Network) (driver.DB, error) {
	return hbase.Open(ctx, os.Getenv("RANGECRYPT_HBASE"), &hbase.Options{Namespace: namespace, Dial: n.Dial, Timeout: n.Timeout})
}

// dropFamilies drops all families of a namespace at the same time: each takes HBase a second.
func dropFamilies(ctx context.Context, namespace string, db driver.DB) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if db == nil {
		if db, err = joinHBase(ctx, namespace, Network{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	families, err := db.Families(ctx)
	if err != nil {
		return err
	}
	var drops errgroup.Group
	for _, name := range families {
		drops.Go(func() error { return db.Drop(ctx, name) })
	}
	return drops.Wait()
}
