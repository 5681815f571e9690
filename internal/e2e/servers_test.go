package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/servers"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/hbase"
)

var serverKillsFlag = flag.Int("e2e.serverkills", 2, "how many times each of the tests of killed servers kills one; each time has a seed of its own")

// TestKilledServers kills servers and restarts them while clients insert, update, delete and query
// rows of a table, encrypt values with an index, and rebalance both. No acknowledged row, posting or
// index value may be lost, the order must hold, and clients must get on: with one of three Cassandra
// nodes or two HBase region servers dead, and with a single server once it is back.
//
//	RANGECRYPT_SERVERS_TEST=1 go test -run KilledServers ./internal/e2e -timeout 2h -e2e.serverkills 50
func TestKilledServers(t *testing.T) {
	if os.Getenv("RANGECRYPT_SERVERS_TEST") != "1" {
		t.Skip("starts real servers; set RANGECRYPT_SERVERS_TEST=1 to run it (needs JDK 11 or 17 and Maven)")
	}
	for _, c := range []struct {
		name    string
		kind    servers.Kind
		nodes   int
		victims []string // one of which is killed each time
	}{
		{"one Cassandra of three", servers.Cassandra, 3, []string{"cassandra1", "cassandra2", "cassandra3"}},
		{"one region server of two", servers.HBase, 3, []string{"regionserver1", "regionserver2"}},
		{"the only Cassandra", servers.Cassandra, 1, []string{"cassandra1"}},
		{"the only HBase", servers.HBase, 1, []string{"hbase"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // much of it is waiting for servers
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute+time.Duration(*serverKillsFlag)*3*time.Minute)
			defer cancel()
			cluster, err := servers.Start(ctx, servers.Options{
				Kind: c.kind, Dir: t.TempDir(), Nodes: c.nodes, FreePorts: true, KillSafe: true, Logf: t.Logf,
			})
			require.NoError(t, err)
			t.Cleanup(func() {
				if t.Failed() {
					keepLogs(t, cluster)
				}
				require.NoError(t, cluster.Close())
			})
			seed := *seedFlag
			if seed == 0 {
				seed = rand.Uint64()
			}
			for n := range *serverKillsFlag {
				seed := seed + uint64(n)
				t.Logf("repeat with -e2e.seed %d -e2e.serverkills 1", seed)
				r := rand.New(rand.NewPCG(seed, 2))
				w := newServerLoad(t, seed, func(ctx context.Context) (driver.DB, error) { return openServers(ctx, cluster, seed) })
				w.begin(ctx, "")
				w.kill(ctx, cluster.Node(c.victims[r.IntN(len(c.victims))]), r, c.nodes > 1)
				require.Empty(t, w.end(ctx))
			}
		})
	}
}

// keepLogs writes the ends of the servers' logs to the test's own.
func keepLogs(t *testing.T, cluster *servers.Cluster) {
	for _, n := range cluster.Nodes() {
		if log, err := os.ReadFile(n.Log()); err == nil {
			lines := strings.Split(string(log), "\n")
			t.Logf("%s of %s ends with:\n%s", filepath.Base(n.Log()), n.Name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	}
}

// A serverLoad is three applications, which share a table and an index.
type serverLoad struct {
	t       *testing.T
	connect func(context.Context) (driver.DB, error) // as an application does
	key     ope.Key
	table   tableKind
	seed    uint64
	journal *journal
	stop    context.CancelFunc
	running sync.WaitGroup
	open    []driver.DB

	mu       sync.Mutex
	tried    map[int64]bool // values for the index
	acked    map[int64]bool
	last     time.Time // of the last acknowledged value, when its call began
	encrypts int
	passes   int
	wrong    []string
	later    []error
}

func newServerLoad(t *testing.T, seed uint64, connect func(context.Context) (driver.DB, error)) *serverLoad {
	return &serverLoad{
		t: t, connect: connect, key: ope.GenerateKey(), table: []tableKind{hintedTable, copiesTable}[seed%2], seed: seed, journal: newJournal(),
		tried: make(map[int64]bool), acked: make(map[int64]bool),
	}
}

// openServers opens a database of a cluster, with as many copies as it has nodes.
func openServers(ctx context.Context, cluster *servers.Cluster, seed uint64) (driver.DB, error) {
	name := fmt.Sprintf("load%d", seed)
	if cluster.Kind() == servers.HBase {
		return hbase.Open(ctx, cluster.Addrs()[0], &hbase.Options{Namespace: name, SplitRegions: 2})
	}
	copies := fmt.Sprint(len(cluster.Nodes()))
	return cassandra.Open(ctx, cassandra.Config{
		Hosts: cluster.Addrs(), Timeout: 20 * time.Second, ConnectTimeout: 10 * time.Second,
		Options: cassandra.Options{
			Keyspace: name, Replication: map[string]string{"class": "SimpleStrategy", "replication_factor": copies},
		},
	})
}

func (w *serverLoad) join(ctx context.Context, number int, how string) *connection {
	db, err := w.connect(ctx)
	// Nodes that have just started need not know yet that the others have.
	for until := time.Now().Add(2 * time.Minute); errors.Is(err, driver.ErrUnavailable) && time.Now().Before(until); {
		_ = pause.For(ctx, time.Second)
		db, err = w.connect(ctx)
	}
	require.NoError(w.t, err)
	w.open = append(w.open, db)
	c, err := connect(ctx, number, db, w.key, w.table, how, w.journal.tell)
	require.NoError(w.t, err)
	return c
}

func (w *serverLoad) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// postponed lets a client wait a little, so that a dead server does not see thousands of calls.
func (w *serverLoad) postponed(err error) {
	w.mu.Lock()
	w.later = append(w.later, err)
	w.mu.Unlock()
	time.Sleep(500 * time.Millisecond)
}

// begin lets three connections do their work, each with two clients of the table and one of the index.
func (w *serverLoad) begin(ctx context.Context, how string) {
	ctx, w.stop = context.WithCancel(ctx)
	for n := range 3 {
		c := w.join(ctx, n, how)
		for g := range 2 {
			client := c.client(g, w.seed+uint64(n))
			client.wrong, client.later = w.complain, w.postponed
			client.rebalanced = func() { w.mu.Lock(); w.passes++; w.mu.Unlock() }
			w.run(ctx, client.step)
		}
		scheme := w.scheme(c)
		r := rand.New(rand.NewPCG(w.seed, uint64(n)+100))
		next := int64(n)
		w.run(ctx, func(ctx context.Context) error { return w.encrypt(ctx, scheme, r, &next) })
	}
}

// run repeats a step until the load is ended, at a pace that leaves the machine some air.
func (w *serverLoad) run(ctx context.Context, step func(context.Context) error) {
	w.running.Go(func() {
		for ctx.Err() == nil {
			if err := step(ctx); err != nil && ctx.Err() == nil {
				w.complain("a client cannot go on: %v", err)
				return
			}
			_ = pause.For(ctx, 20*time.Millisecond)
		}
	})
}

func (w *serverLoad) scheme(c *connection) *kerschbaum.Scheme {
	s, err := kerschbaum.New(w.key, domain, c.index, &kerschbaum.Options{Name: "bare"})
	require.NoError(w.t, err)
	return s
}

// encrypt encrypts some values with the index, or reads a range of it, or rebalances.
func (w *serverLoad) encrypt(ctx context.Context, s *kerschbaum.Scheme, r *rand.Rand, next *int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	begun := time.Now()
	switch n := r.IntN(20); {
	case n == 0:
		if _, err = s.Rebalance(ctx, nil); err == nil {
			w.mu.Lock()
			w.passes++
			w.mu.Unlock()
		}
	case n < 5:
		w.mu.Lock()
		before := make(map[int64]bool)
		for x := range w.acked {
			before[x] = x >= 0 && x <= 300
		}
		w.mu.Unlock()
		last := int64(-1)
		var e ope.Entry
		for e, err = range s.Range(ctx, 0, 300) {
			if err != nil {
				break
			}
			if e.Plaintext <= last || e.Plaintext > 300 {
				w.complain("a range has %d after %d", e.Plaintext, last)
			}
			last = e.Plaintext
			delete(before, last)
		}
		for x, missing := range before {
			if missing && err == nil {
				w.complain("a range lacks %d, which was acknowledged", x)
			}
		}
	default:
		xs := make([]int64, 1+r.IntN(4))
		for i := range xs {
			if xs[i] = r.Int64N(300); i%2 == 0 { // a time series of each client
				*next += 3
				xs[i] = 1000 + *next
			}
		}
		w.mu.Lock()
		for _, x := range xs {
			w.tried[x] = true
		}
		w.mu.Unlock()
		if _, err = s.EncryptBatch(ctx, xs); err == nil {
			w.mu.Lock()
			for _, x := range xs {
				w.acked[x] = true
			}
			w.encrypts++
			if begun.After(w.last) {
				w.last = begun
			}
			w.mu.Unlock()
		}
	}
	if err != nil && (store.Retryable(err) || errors.Is(err, ope.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded)) {
		w.postponed(err)
		return nil
	}
	return err
}

// progress waits until rows and index values have been acknowledged whose calls began from now on,
// and returns how long that took.
func (w *serverLoad) progress(ctx context.Context, when string) time.Duration {
	w.t.Helper()
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		w.mu.Lock()
		encrypted, wrong := w.last.After(now), slices.Clone(w.wrong)
		w.mu.Unlock()
		require.Empty(w.t, wrong)
		if encrypted && w.journal.count(putRow, now) >= 20 && w.journal.count(queryRows, now) >= 5 {
			return time.Since(now)
		}
		if pause.For(ctx, 50*time.Millisecond) != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Fatalf("no progress %s: %d rows put, %d queries, index %v; %d errors, the last ones: %v", when,
				w.journal.count(putRow, now), w.journal.count(queryRows, now), encrypted, len(w.later), w.later[max(0, len(w.later)-5):])
		}
	}
}

// kill kills a node when the load has got going, and restarts it. If others are left, clients must
// get on before that.
func (w *serverLoad) kill(ctx context.Context, n *servers.Node, r *rand.Rand, others bool) {
	w.progress(ctx, "before the kill")
	require.NoError(w.t, pause.For(ctx, time.Duration(r.Int64N(int64(time.Second)))))
	require.NoError(w.t, n.Kill())
	killed := time.Now()
	var resumed time.Duration
	if others {
		resumed = w.progress(ctx, "while "+n.Name+" is dead")
	}
	require.NoError(w.t, n.Restart(ctx))
	back := time.Since(killed)
	after := w.progress(ctx, "after "+n.Name+" is back")
	if others {
		w.t.Logf("%s killed: the load got on within %.1f s while it was dead", n.Name, resumed.Seconds())
	}
	w.t.Logf("%s was back %.1f s after the kill, and the load got on within %.1f s", n.Name, back.Seconds(), after.Seconds())
}

// end ends the load, has fresh clients look at everything, and returns what is wrong.
func (w *serverLoad) end(ctx context.Context) []string {
	w.stop()
	w.running.Wait()
	c := w.join(ctx, 10, "")
	client := c.client(0, w.seed)
	client.wrong = w.complain
	torn, err := client.look(ctx, w.journal.rows())
	if err == nil {
		err = verify(ctx, c.table)
	}
	if err = errors.Join(err, w.lookAtIndex(ctx, w.scheme(c))); err != nil {
		w.complain("%v", err)
	}
	if len(torn) > 1 {
		w.complain("%d rows are torn: more than by chance, of clocks that agree", len(torn))
	}
	v := w.journal.judge()
	w.t.Logf("%v; %d values of the bare index acknowledged in %d calls, %d rebalances, %d torn rows, %d errors to try again after",
		v, len(w.acked), w.encrypts, w.passes, len(torn), len(w.later))
	for _, db := range w.open {
		require.NoError(w.t, db.Close())
	}
	return append(w.wrong, v.wrong...)
}

// lookAtIndex reads all that the bare index holds: values in order, each there once.
func (w *serverLoad) lookAtIndex(ctx context.Context, s *kerschbaum.Scheme) error {
	var before ope.Entry
	found := make(map[int64]bool)
	for e, err := range s.Range(ctx, domain.Min, domain.Max) {
		if err != nil {
			return err
		}
		if len(found) > 0 && (e.Plaintext <= before.Plaintext || string(e.Ciphertext) <= string(before.Ciphertext)) {
			w.complain("%d has the ciphertext %x, and before it %d has %x", e.Plaintext, e.Ciphertext, before.Plaintext, before.Ciphertext)
		}
		if !w.tried[e.Plaintext] {
			w.complain("%d is in the index, and nobody put it there", e.Plaintext)
		}
		before, found[e.Plaintext] = e, true
	}
	for x := range w.acked {
		if !found[x] {
			w.complain("%d was acknowledged, and is lost", x)
		}
	}
	return nil
}

// TestServerLoadNotices has the load of TestKilledServers use a database in memory, as it should be
// and broken in each way: a server that loses what it acknowledged does not pass.
func TestServerLoadNotices(t *testing.T) {
	for _, how := range append([]string{""}, faults...) {
		t.Run("broken: "+how, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			for seed := range uint64(10) {
				memory := drivertest.NewMemory()
				w := newServerLoad(t, seed, func(context.Context) (driver.DB, error) { return notClosed{memory}, nil })
				w.begin(ctx, how)
				if how == "" {
					w.progress(ctx, "in memory")
				} else {
					time.Sleep(time.Second)
				}
				wrong := w.end(ctx)
				switch {
				case how == "":
					require.Empty(t, wrong)
					require.NotEmpty(t, w.acked)
					return
				case len(wrong) > 0:
					first, _, _ := strings.Cut(wrong[0], "\n")
					t.Log("noticed: ", first)
					return
				}
			}
			t.Fatal("nothing was noticed")
		})
	}
}

// notClosed is a connection to a database that others have connections to.
type notClosed struct{ driver.DB }

func (notClosed) Close() error { return nil }
