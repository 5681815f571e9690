package main

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
)

// A breaker is a way to a server that breaks for good when it has carried so many bytes there.
type breaker struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	left    int // negative for no end
	carried int
	conns   []net.Conn
}

func (b *breaker) serve() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", b.server)
		if err != nil {
			client.Close()
			continue
		}
		b.mu.Lock()
		b.conns = append(b.conns, client, server)
		if b.left == 0 {
			b.cut()
		}
		b.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, io.TeeReader(client, b))
			server.Close()
		}()
		go func() {
			_, _ = io.Copy(client, server)
			client.Close()
		}()
	}
}

// Write counts what goes to the server.
func (b *breaker) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.carried += len(p)
	if b.left >= 0 {
		if b.left = max(0, b.left-len(p)); b.left == 0 {
			b.cut()
			return 0, io.ErrClosedPipe
		}
	}
	return len(p), nil
}

func (b *breaker) cut() {
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

func (b *breaker) set(left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.carried = left, 0
}

// A server that goes away in the middle of an insertion: it ends with its exit code, what was
// acknowledged is there, and the insertion goes on where it is told to.
func TestInsertGoesOnWhenTheServerIsBack(t *testing.T) {
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			db.Need(t)
		}
	}
	server, _, _ := strings.Cut(os.Getenv("RANGECRYPT_CASSANDRA"), ",")
	_, port, err := net.SplitHostPort(server)
	require.NoError(t, err)
	// The driver takes the port that it was given to be that of all nodes, so that the way has
	// to be on another address of this machine.
	var l net.Listener
	for i := 9; i < 30 && l == nil; i++ { // other tests may be at it, too
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0."+strconv.Itoa(i), port)); err != nil {
			l = nil
		}
	}
	if l == nil {
		t.Skipf("no other loopback address has the port of the server free: %v", err)
	}
	b := &breaker{listener: l, server: server, left: -1}
	var serving sync.WaitGroup
	serving.Go(b.serve)
	t.Cleanup(func() {
		l.Close()
		b.mu.Lock()
		b.cut()
		b.mu.Unlock()
		serving.Wait()
	})
	var id [6]byte
	rand.Read(id[:])
	keyspace := "rangecrypt_test_" + hex.EncodeToString(id[:])
	t.Cleanup(func() {
		session, err := gocql.NewCluster(server).CreateSession()
		require.NoError(t, err)
		defer session.Close()
		require.NoError(t, session.Query("DROP KEYSPACE IF EXISTS "+keyspace).Exec())
	})
	dir := t.TempDir()
	store := "cassandra://" + l.Addr().String() + "/" + keyspace
	require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
	run := func(code int, args ...string) (stdout, stderr string) {
		cmd, out, diagnostics := start(t, dir, append(args, "--store", store, "--key", "key")...)
		_ = cmd.Wait()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s%s", out, diagnostics)
		return out.String(), diagnostics.String()
	}
	count := func() int {
		stdout, stderr := run(0, "query", "--count")
		n, err := strconv.Atoi(strings.TrimSpace(stdout))
		require.NoError(t, err, stderr)
		return n
	}
	const n = 4000
	insert := []string{"insert", "--n", strconv.Itoa(n), "--batch", "20", "--data", "normal"}

	// A first insertion makes the tables, and shows that all goes this way.
	run(0, "insert", "--n", "10", "--data", "normal", "--seed", "2")
	b.mu.Lock()
	require.Greater(t, b.carried, 10*100, "bytes of ten rows")
	b.mu.Unlock()

	b.set(200_000)
	_, stderr := run(int(exitUnreachable), insert...)
	m := regexp.MustCompile(`(\d+) of \d+ rows were inserted; the same command with --load ([0-9a-f]{16}) goes on`).FindStringSubmatch(stderr)
	require.NotNil(t, m, stderr)
	acknowledged, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	require.Positive(t, acknowledged)
	require.Less(t, acknowledged, n)
	require.Contains(t, stderr, "database unavailable")
	run(int(exitUnreachable), append(insert, "--load", m[2])...) // still gone

	b.set(-1)
	there := count() - 10
	require.GreaterOrEqual(t, there, acknowledged)
	require.Less(t, there, n)
	run(0, append(insert, "--load", m[2])...)
	require.Equal(t, n, count()-10, "none is lost, and none is there twice")
	t.Logf("%d rows were acknowledged and %d there when the server went", acknowledged, there)
}
