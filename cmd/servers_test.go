package cmd

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
)

// A server that goes away in the middle of an insertion: it ends with its exit code, what was
// acknowledged is there, and the insertion goes on where it ended.
func TestInsertGoesOnWhenTheServerIsBack(t *testing.T) {
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			db.Need(t)
		}
	}
	cassandra, err := testcassandra.New()
	require.NoError(t, err)
	server := cassandra.Hosts[0]
	_, port, err := net.SplitHostPort(server)
	require.NoError(t, err)
	var carried, most atomic.Int64 // bytes to the server, and after how many it goes away
	most.Store(math.MaxInt64)
	var p *proxy.Proxy
	p = proxy.New(func(_ int, to proxy.Direction, b []byte) {
		if to == proxy.ToServer && carried.Add(int64(len(b))) >= most.Load() {
			p.Set(proxy.Weather{Refuse: true})
			p.Cut()
		}
	})
	t.Cleanup(p.Close)
	// The driver takes the port that it was given to be that of all nodes, so that the way has
	// to be on another address of this machine.
	var way string
	for i := 9; i < 30 && way == ""; i++ { // other tests may be at it, too
		way, err = p.ListenAt(net.JoinHostPort("127.0.0."+strconv.Itoa(i), port), server)
	}
	require.NoError(t, err, "no other loopback address has the port of the server free")
	keyspace := newKeyspace()
	t.Cleanup(func() { require.NoError(t, cassandra.Drop(keyspace)) })
	dir := t.TempDir()
	store := cassandra.Store(way, keyspace)
	if cassandra.Secured() {
		store += "&server-name=localhost" // the way there is no name of the server
	}
	require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
	run := func(code int, args ...string) (stdout, stderr string) {
		cmd, out, diagnostics := start(t, dir, append(args, "--store", store, "--key", "key")...)
		_ = cmd.Wait()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s%s", out, diagnostics)
		return out.String(), diagnostics.String()
	}
	count := func() int {
		stdout, _ := run(0, "query", "--count")
		return number(t, stdout)
	}
	const n = 4000
	insert := []string{"insert", "--n", strconv.Itoa(n), "--batch", "20", "--data", "normal"}

	// A first insertion makes the tables, and shows that all goes this way.
	run(0, "insert", "--n", "10", "--data", "normal", "--seed", "2")
	require.Greater(t, carried.Load(), int64(10*100), "bytes of ten rows")

	most.Store(carried.Load() + 200_000)
	_, stderr := run(int(exit.Unreachable), insert...)
	acknowledged, load := partlyInserted(t, stderr, n)
	require.Contains(t, stderr, "database unavailable")
	run(int(exit.Unreachable), append(insert, "--load", load)...) // still gone

	most.Store(math.MaxInt64)
	p.Set(proxy.Weather{})
	there := count() - 10
	require.GreaterOrEqual(t, there, acknowledged)
	require.Less(t, there, n)
	run(0, append(insert, "--load", load)...)
	require.Equal(t, n, count()-10, "none is lost, and none is there twice")
	t.Logf("%d rows were acknowledged and %d there when the server went", acknowledged, there)
}

// urlOf returns what --store names a new database on a Cassandra, which is removed at the end of the test.
func urlOf(t *testing.T) string {
	t.Helper()
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			db.Need(t)
		}
	}
	cassandra, err := testcassandra.New()
	require.NoError(t, err)
	keyspace := newKeyspace()
	t.Cleanup(func() { require.NoError(t, cassandra.Drop(keyspace)) })
	return cassandra.Store(cassandra.Hosts[0], keyspace)
}

func newKeyspace() string {
	var id [6]byte
	rand.Read(id[:])
	return "rangecrypt_test_" + hex.EncodeToString(id[:])
}
