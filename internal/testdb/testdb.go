// Package testdb opens the databases that tests run against, each in one place: the one in
// memory, the embedded one, and those that the environment names.
//
// RANGECRYPT_CASSANDRA is the nodes of a Cassandra, or a URL (package testcassandra), and
// RANGECRYPT_CASSANDRA_REPLICATION the number of copies that they keep, by default one.
// RANGECRYPT_HBASE is the ZooKeeper quorum of an HBase. Where one is not set its tests are
// skipped with one line, unless RANGECRYPT_REQUIRE lists its name: then they fail.
package testdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
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

	// tap, where it is given, is given all that is encrypted on its way by Dial.
	tap proxy.Tap
}

// Proxied returns a network of which a tap sees all bytes, before they are encrypted where they are.
func (d Database) Proxied(tap proxy.Tap) (*proxy.Proxy, Network) {
	if server, err := testcassandra.New(); err == nil && d.Name == "cassandra" && server.TLS != nil && tap != nil {
		p := proxy.New(nil)
		return p, Network{Dial: p.Dial, tap: tap}
	}
	p := proxy.New(tap)
	return p, Network{Dial: p.Dial}
}

// All are all kinds of databases.
var All = []Database{
	{Name: "memory"},
	{Name: "pebble", fresh: testing.TB.TempDir, join: joinPebble, remove: removeNothing},
	{Name: "cassandra", Server: true, fresh: fresh, join: joinCassandra, remove: dropKeyspace},
	{Name: "hbase", Server: true, fresh: fresh, join: joinHBase, remove: dropFamilies},
}

// Each runs a test on the kinds of databases, each as a subtest of its name: in memory or on the embedded one, and on one of the
// servers. The test's name chooses which. It runs on both of the former if RANGECRYPT_REQUIRE lists "full", and on all if it lists
// "long". What is special to a server is for the contract of databases, or for [Every]. It returns before the subtests of servers
// have begun: those run at the same time, since they mostly wait.
func Each(t *testing.T, test func(t *testing.T, db Database)) {
	Every(t, func(t *testing.T, db Database) {
		if other := db.other(); !chosen(t.Name(), db) && !sim.Long() && (db.Server && os.Getenv(other.variable()) != "" || !db.Server && !sim.Full()) {
			t.Skip("it runs on " + other.Name)
		}
		test(t, db)
	})
}

// other returns the other one of the two that are servers, or that are none.
func (d Database) other() Database {
	return All[slices.IndexFunc(All, func(o Database) bool { return o.Server == d.Server && o.Name != d.Name })]
}

// chosen reports whether a test runs on the database of its subtest, rather than on the other one.
func chosen(name string, db Database) bool {
	h := fnv.New32a()
	_, _ = io.WriteString(h, strings.TrimSuffix(name, db.Name))
	return h.Sum32()%2 == 0 == (db.Name == "cassandra" || db.Name == "memory")
}

// Every is [Each] for a test that runs on all of them, as its findings have differed by server, or may.
func Every(t *testing.T, test func(t *testing.T, db Database)) {
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

// Runs reports whether a variant of a test runs on the database. What databases differ in does not depend on the variant:
// the main ones run on all, and the others in memory, or on all if RANGECRYPT_REQUIRE lists "long".
func (d Database) Runs(main bool) bool { return main || !d.Shared() || sim.Long() }

// EachOf is [Each] for a variant of a test.
func EachOf(t *testing.T, main bool, test func(t *testing.T, db Database)) {
	Each(t, func(t *testing.T, db Database) {
		if !db.Runs(main) {
			t.Skip("another variant runs here")
		}
		test(t, db)
	})
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
		var p *proxy.Proxy
		p, n = d.Proxied(func(_ int, _ proxy.Direction, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = wire.Write(b)
		})
		tb.Cleanup(p.Close)
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
	case sim.Required(d.Name):
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
	server, err := testcassandra.New()
	if err != nil {
		return nil, err
	}
	config := cassandra.Config{
		Options: cassandra.Options{Keyspace: keyspace, Replication: server.Replication},
		Hosts:   server.Hosts, Username: server.User, Password: server.Password, TLS: server.TLS,
		Dial: n.Dial, Timeout: cmp.Or(n.Timeout, 30*time.Second), ConnectTimeout: n.Timeout,
	}
	if n.tap != nil && server.TLS != nil {
		config.Dial, config.TLS, config.AllowPlaintextPassword = tapped(n, server.TLS), nil, true
	}
	return cassandra.Open(ctx, config)
}

// tapped returns what dials, speaks TLS, and gives the tap of the network what is read and written.
func tapped(n Network, config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	var connections atomic.Int64
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := n.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		secure := tls.Client(conn, own)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return &tappedConn{secure, n.tap, int(connections.Add(1))}, nil
	}
}

type tappedConn struct {
	net.Conn
	tap    proxy.Tap
	number int
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.tap(c.number, proxy.ToServer, b)
	return c.Conn.Write(b)
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tap(c.number, proxy.ToClient, b[:n])
	return n, err
}

func dropKeyspace(_ context.Context, keyspace string, _ driver.DB) error {
	server, err := testcassandra.New()
	if err != nil {
		return err
	}
	return server.Drop(keyspace)
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
