package cassandra

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The tests of a real database run against the nodes that package testcassandra names, in a keyspace of their own that is
// dropped at the end.

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && !notClosed.Load() {
		if err := goleak.Find(goleak.IgnoreTopFunction("testing.(*T).Run")); err != nil {
			fmt.Fprintf(os.Stderr, "goleak: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// notClosed says that gocql did not end a session whose connections were lost just before.
var notClosed atomic.Bool

// connection returns how to connect, and skips the test where there is no server.
func connection(tb testing.TB) *testcassandra.Server {
	tb.Helper()
	if os.Getenv(testcassandra.Variable) == "" {
		if sim.Required("cassandra") {
			tb.Fatalf("RANGECRYPT_REQUIRE asks for Cassandra, but %s is not set", testcassandra.Variable)
		}
		tb.Skipf("needs a Cassandra: set %s=host:port", testcassandra.Variable)
	}
	s, err := testcassandra.New()
	require.NoError(tb, err)
	return s
}

// server skips the test where there is none.
func server(tb testing.TB) Config {
	tb.Helper()
	s := connection(tb)
	c := Config{Hosts: s.Hosts, Username: s.User, Password: s.Password, TLS: s.TLS}
	c.Replication = s.Replication
	return c
}

func replication(tb testing.TB) int {
	n, err := strconv.Atoi(connection(tb).Replication["replication_factor"])
	require.NoError(tb, err, testcassandra.ReplicationVariable)
	return n
}

// keyspace returns a configuration with a new keyspace, which is dropped at the end.
func keyspace(tb testing.TB) Config {
	tb.Helper()
	c := server(tb)
	var id [6]byte
	_, _ = rand.Read(id[:])
	c.Keyspace = "rangecrypt_test_" + hex.EncodeToString(id[:])
	tb.Cleanup(func() {
		s := session(tb)
		defer s.Close()
		require.NoError(tb, s.Query("DROP KEYSPACE IF EXISTS "+c.Keyspace).Exec())
	})
	return c
}

// session returns a bare session, without a keyspace.
func session(tb testing.TB) *gocql.Session {
	tb.Helper()
	s, err := connection(tb).Cluster().CreateSession()
	require.NoError(tb, err)
	return s
}

func open(tb testing.TB, c Config) *DB {
	tb.Helper()
	db, err := Open(tb.Context(), c)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := db.Close(); errors.Is(err, errNotClosed) {
			tb.Log(err)
			notClosed.Store(true)
		} else {
			require.NoError(tb, err)
		}
	})
	return db
}

func openFamily(tb testing.TB, db *DB, spec driver.FamilySpec) *family {
	tb.Helper()
	f, err := db.Family(tb.Context(), spec)
	require.NoError(tb, err)
	return f.(*family)
}

// through makes all connections of a configuration go through a proxy.
func through(tb testing.TB, c *Config) *proxy.Proxy {
	tb.Helper()
	p := proxy.New(nil)
	tb.Cleanup(p.Close)
	c.Dial = p.Dial
	return p
}

// A recorder keeps what is logged.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(p))
	return len(p), nil
}

func (r *recorder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "")
}
