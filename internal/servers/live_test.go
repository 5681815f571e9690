package servers

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

// live skips the test unless it was asked for: it starts real servers, and fetches them if this
// machine never did.
func live(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("RANGECRYPT_SERVERS_TEST") != "1" {
		t.Skip("starts real servers; set RANGECRYPT_SERVERS_TEST=1 to run it (needs JDK 11 or 17 and Maven)")
	}
	logrus.SetLevel(logrus.FatalLevel) // gohbase logs each connection
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// startLive starts servers on free ports in a folder whose name has a space.
func startLive(t *testing.T, ctx context.Context, k Kind, nodes int) *Cluster {
	t.Helper()
	begin := time.Now()
	c, err := Start(ctx, Options{
		Kind: k, Dir: filepath.Join(t.TempDir(), "data folder"), Nodes: nodes, FreePorts: true, KillSafe: true, Logf: t.Logf,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		for _, n := range c.Nodes() {
			if log, err := os.ReadFile(n.Log()); err == nil && t.Failed() {
				t.Logf("the log of %s ends with:\n%s", n.Name, lastLines(string(log), 60))
			}
		}
	})
	report(t, c, "start", begin)
	return c
}

// report logs what an action took and what the servers take.
func report(t *testing.T, c *Cluster, what string, begin time.Time) {
	t.Helper()
	took := time.Since(begin)
	s, err := Inspect(c.Kind(), c.Dir())
	require.NoError(t, err)
	line := fmt.Sprintf("%s: %.1f s;", what, took.Seconds())
	for _, n := range s.Nodes {
		line += fmt.Sprintf(" %s %d MiB", n.Name, n.Memory>>20)
	}
	t.Log(line)
}

func restart(t *testing.T, ctx context.Context, n *Node) {
	t.Helper()
	before, begin := n.pid(), time.Now()
	require.NoError(t, n.Restart(ctx))
	require.True(t, n.Alive())
	require.NotEqual(t, before, n.pid())
	report(t, n.cluster, "restart of "+n.Name, begin)
}

// cql connects to the given nodes alone.
func cql(t *testing.T, c *Cluster, nodes ...*Node) *gocql.Session {
	t.Helper()
	cfg := gocql.NewCluster()
	var hosts []string
	for _, n := range nodes {
		host, _, err := net.SplitHostPort(n.Addr())
		require.NoError(t, err)
		hosts = append(hosts, host)
	}
	// Not DisableInitialHostLookup: such a driver takes the nodes for others as soon as the
	// cluster announces them, and drops its connections in the middle of a query.
	cfg.Hosts, cfg.Port, cfg.HostFilter = hosts, c.spec.Port, gocql.WhiteListHostFilter(hosts...)
	cfg.Timeout, cfg.ConnectTimeout = 20*time.Second, 10*time.Second
	cfg.Consistency = gocql.Quorum
	s, err := cfg.CreateSession()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func createCQL(t *testing.T, ctx context.Context, s *gocql.Session, replicas int) {
	t.Helper()
	for _, stmt := range []string{
		fmt.Sprintf("CREATE KEYSPACE trial WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", replicas),
		"CREATE TABLE trial.t (k int PRIMARY KEY, v blob)",
	} {
		require.NoError(t, s.Query(stmt).ExecContext(ctx))
		require.NoError(t, s.AwaitSchemaAgreement(ctx))
	}
}

func putCQL(t *testing.T, ctx context.Context, s *gocql.Session, from, to int) {
	t.Helper()
	for k := from; k < to; k++ {
		require.NoError(t, s.Query("INSERT INTO trial.t (k, v) VALUES (?, ?)", k, []byte{byte(k)}).ExecContext(ctx))
	}
}

func checkCQL(t *testing.T, ctx context.Context, s *gocql.Session, n int) {
	t.Helper()
	for k := range n {
		var v []byte
		require.NoError(t, s.Query("SELECT v FROM trial.t WHERE k = ?", k).ScanContext(ctx, &v), "row %d", k)
		require.Equal(t, []byte{byte(k)}, v)
	}
}

func TestCassandraKeepsDataOverKillAndStop(t *testing.T) {
	ctx := live(t)
	c := startLive(t, ctx, Cassandra, 1)
	n := c.Nodes()[0]

	s := cql(t, c, n)
	createCQL(t, ctx, s, 1)
	putCQL(t, ctx, s, 0, 200)
	s.Close()

	require.NoError(t, n.Kill())
	require.False(t, n.Alive())
	require.False(t, answers(n.plan.listen), "a killed node must not answer")
	restart(t, ctx, n)
	s = cql(t, c, n)
	checkCQL(t, ctx, s, 200)
	// As large as values may get in a store.
	require.NoError(t, s.Query("INSERT INTO trial.t (k, v) VALUES (?, ?)", -1, make([]byte, 8<<20)).ExecContext(ctx))
	s.Close()

	begin := time.Now()
	require.NoError(t, n.Stop(ctx))
	t.Logf("stop: %.1f s", time.Since(begin).Seconds())
	restart(t, ctx, n)
	checkCQL(t, ctx, cql(t, c, n), 200)
}

// A node may be killed between the two halves of what it writes before a section of its log, as
// [tearCommitLog] has it. It starts again all the same, and has everything.
func TestCassandraStartsWithTornCommitLog(t *testing.T) {
	ctx := live(t)
	c := startLive(t, ctx, Cassandra, 1)
	n := c.Nodes()[0]
	s := cql(t, c, n)
	createCQL(t, ctx, s, 1)
	putCQL(t, ctx, s, 0, 50)
	s.Close()
	require.NoError(t, n.Kill())
	tearCommitLog(t, filepath.Join(n.plan.dir, "commitlog"))
	restart(t, ctx, n)
	checkCQL(t, ctx, cql(t, c, n), 50)
}

// tearCommitLog takes the checksum from before the last section of a log that has one. A log begins with its version (4 bytes), its
// number (8), the length of its parameters (2), these, and a checksum (4). Each section begins with its
// end (4) and the checksum of that (4).
func tearCommitLog(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "CommitLog-*.log"))
	require.NoError(t, err)
	slices.Sort(logs)
	for _, name := range slices.Backward(logs) {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		word := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
		if len(b) < 18 || word(0) == 0 {
			continue
		}
		last := 0
		for at := 18 + int(binary.BigEndian.Uint16(b[12:])); at+8 <= len(b) && word(at) > at; at = word(at) {
			last = at
		}
		if last == 0 {
			continue
		}
		require.NotZero(t, word(last+4))
		clear(b[last+4 : last+8])
		require.NoError(t, os.WriteFile(name, b, 0o600))
		return
	}
	t.Fatal("no commit log has a section")
}

func TestCassandraQuorumOutlivesOneNode(t *testing.T) {
	ctx := live(t)
	c := startLive(t, ctx, Cassandra, 3)
	nodes := c.Nodes()
	s := cql(t, c, nodes...)
	createCQL(t, ctx, s, 3)
	putCQL(t, ctx, s, 0, 100)
	s.Close()

	for i, victim := range nodes {
		require.NoError(t, victim.Kill())
		others := []*Node{nodes[(i+1)%3], nodes[(i+2)%3]}
		s := cql(t, c, others...)
		checkCQL(t, ctx, s, 100+i*10)
		putCQL(t, ctx, s, 100+i*10, 100+(i+1)*10)
		s.Close()

		restart(t, ctx, victim)
		// It is told of as up: all three replicas answer at once.
		s = cql(t, c, victim)
		var v []byte
		require.NoError(t, s.Query("SELECT v FROM trial.t WHERE k = 1").Consistency(gocql.All).ScanContext(ctx, &v))
		s.Close()
	}
}

func hbaseClient(t *testing.T, c *Cluster) gohbase.Client {
	client := gohbase.NewClient(c.Addrs()[0], gohbase.ZookeeperTimeout(10*time.Second))
	t.Cleanup(client.Close)
	return client
}

func createHBase(t *testing.T, ctx context.Context, c *Cluster, splits ...string) {
	t.Helper()
	admin := gohbase.NewAdminClient(c.Addrs()[0])
	var keys [][]byte
	for _, s := range splits {
		keys = append(keys, []byte(s))
	}
	require.NoError(t, admin.CreateTable(hrpc.NewCreateTable(ctx, []byte("trial"),
		map[string]map[string]string{"f": nil}, hrpc.SplitKeys(keys))))
}

func putHBase(t *testing.T, ctx context.Context, client gohbase.Client, from, to int) {
	t.Helper()
	for k := from; k < to; k++ {
		put, err := hrpc.NewPutStr(ctx, "trial", hbaseKey(k), map[string]map[string][]byte{"f": {"q": {byte(k)}}})
		require.NoError(t, err)
		_, err = client.Put(put)
		require.NoError(t, err, "row %d", k)
	}
}

// hbaseKey spreads keys over all regions.
func hbaseKey(k int) string { return fmt.Sprintf("%02x-%d", k*37%256, k) }

func checkHBase(t *testing.T, ctx context.Context, client gohbase.Client, n int) {
	t.Helper()
	for k := range n {
		get, err := hrpc.NewGetStr(ctx, "trial", hbaseKey(k))
		require.NoError(t, err)
		res, err := client.Get(get)
		require.NoError(t, err, "row %d", k)
		require.Len(t, res.Cells, 1, "row %d", k)
		require.Equal(t, []byte{byte(k)}, res.Cells[0].Value)
	}
}

func TestHBaseKeepsDataOverKillAndStop(t *testing.T) {
	ctx := live(t)
	c := startLive(t, ctx, HBase, 1)
	n := c.Nodes()[0]

	createHBase(t, ctx, c)
	client := hbaseClient(t, c)
	putHBase(t, ctx, client, 0, 200)
	client.Close()

	require.NoError(t, n.Kill())
	require.False(t, answers(n.plan.listen), "a killed node must not answer")
	restart(t, ctx, n)
	client = hbaseClient(t, c)
	checkHBase(t, ctx, client, 200)
	putHBase(t, ctx, client, 200, 250)
	client.Close()

	begin := time.Now()
	require.NoError(t, n.Stop(ctx))
	t.Logf("stop: %.1f s", time.Since(begin).Seconds())
	restart(t, ctx, n)
	checkHBase(t, ctx, hbaseClient(t, c), 250)
}

func TestHBaseOutlivesRegionServer(t *testing.T) {
	ctx := live(t)
	c := startLive(t, ctx, HBase, 3)
	createHBase(t, ctx, c, "40", "80", "c0")
	client := hbaseClient(t, c)
	putHBase(t, ctx, client, 0, 100)

	begin := time.Now()
	require.NoError(t, c.Node("regionserver1").Kill())
	putHBase(t, ctx, client, 100, 200)
	t.Logf("first region server killed: 100 rows written %.1f s later", time.Since(begin).Seconds())
	checkHBase(t, ctx, client, 200)

	restart(t, ctx, c.Node("regionserver1"))
	// All regions are on the second one now, so this needs the first.
	begin = time.Now()
	require.NoError(t, c.Node("regionserver2").Kill())
	putHBase(t, ctx, client, 200, 300)
	t.Logf("second region server killed: 100 rows written %.1f s later", time.Since(begin).Seconds())
	checkHBase(t, ctx, client, 300)
	restart(t, ctx, c.Node("regionserver2"))

	restart(t, ctx, c.Node("master"))
	begin = time.Now()
	require.NoError(t, c.Stop(ctx))
	t.Logf("stop: %.1f s", time.Since(begin).Seconds())
}

func TestUpOutlivesItsCluster(t *testing.T) {
	ctx := live(t)
	for _, k := range Kinds() {
		t.Run(string(k), func(t *testing.T) {
			o := Options{Kind: k, Dir: t.TempDir(), Port: 19042, PeerPort: 17000, Logf: t.Logf}
			c, started, err := Up(ctx, o)
			require.NoError(t, err)
			require.True(t, started)
			t.Cleanup(func() { c.Close() })
			pid := c.Nodes()[0].pid()

			c, started, err = Up(ctx, o)
			require.NoError(t, err)
			require.False(t, started, "it runs already")
			require.Equal(t, pid, c.Nodes()[0].pid())

			s, err := Inspect(k, o.Dir)
			require.NoError(t, err)
			require.Equal(t, 1, s.running())
			require.Equal(t, pid, s.Nodes[0].PID)
			require.Equal(t, []string{"127.0.0.1:19042"}, s.Addrs)
			require.Greater(t, s.Nodes[0].Memory, int64(50<<20))

			_, err = Start(ctx, Options{Kind: k, Dir: o.Dir})
			require.ErrorIs(t, err, ErrRunning)

			// Another folder, the same ports.
			_, _, err = Up(ctx, Options{Kind: k, Dir: t.TempDir(), Port: 19042, PeerPort: 17000})
			require.ErrorIs(t, err, ErrPortTaken)

			if runtime.GOOS == "linux" {
				// It is the head of a session of its own, so no terminal can end it.
				require.Equal(t, pid, sessionOf(t, pid))
			}
			ended, err := Down(ctx, k, o.Dir)
			require.NoError(t, err)
			require.Equal(t, 1, ended)
			require.False(t, c.Nodes()[0].Alive())
			ended, err = Down(ctx, k, o.Dir)
			require.NoError(t, err)
			require.Zero(t, ended)
		})
	}
}

func sessionOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	var id, ppid, pgrp, session int
	var name, state string
	_, err = fmt.Sscanf(string(stat), "%d %s %s %d %d %d", &id, &name, &state, &ppid, &pgrp, &session)
	require.NoError(t, err)
	return session
}
