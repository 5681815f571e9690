package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func tContext() context.Context { return context.Background() }

func TestJavaVersion(t *testing.T) {
	for _, tc := range []struct {
		out  string
		want int // 0 for an error
	}{
		{"openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment", 17},
		{"openjdk version \"11\" 2018-09-25", 11},
		{"java version \"1.8.0_292\"", 8},
		{"openjdk version \"21-ea\" 2023-09-19", 21},
		{"openjdk version \"25.0.1\" 2025-10-21 LTS", 25},
		{"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\r\nopenjdk version \"17.0.1\" 2021-10-19", 17},
		{"Picked up _JAVA_OPTIONS: -Dversion \"3\"\nopenjdk version \"11.0.2\"", 11},
		{"The operation couldn't be completed. Unable to locate a Java Runtime.", 0},
		{"", 0},
		{"version \"\"", 0},
	} {
		got, err := parseJavaVersion(tc.out)
		require.Equal(t, tc.want, got, "%q", tc.out)
		require.Equal(t, tc.want == 0, err != nil, "%q", tc.out)
	}
}

func TestFindJava(t *testing.T) {
	type place struct{ home, path string } // versions; "" for none
	for _, tc := range []struct {
		have place
		want string // the place that is taken, or "" for an error
		says []string
	}{
		{place{"17.0.1", "11.0.2"}, "home", nil},
		{place{"", "11.0.2"}, "path", nil},
		{place{"25.0.1", "17.0.1"}, "path", nil},
		{place{"", ""}, "", []string{"JAVA_HOME is not set", "PATH has no java", "apt install openjdk-17"}},
		{place{"", "1.8.0_292"}, "", []string{"JAVA_HOME is not set", "is Java 8", "11 or 17"}},
		{place{"25.0.1", "21.0.1"}, "", []string{"is Java 25", "is Java 21"}},
	} {
		bin := machine(t)
		home := t.TempDir()
		if tc.have.home != "" {
			fakeJava(t, filepath.Join(home, "bin", "java"), tc.have.home)
			t.Setenv("JAVA_HOME", home)
		}
		if tc.have.path != "" {
			fakeJava(t, filepath.Join(bin, "java"), tc.have.path)
		}
		j, err := findJava(t.Context())
		if tc.want == "" {
			require.ErrorIs(t, err, ErrJDK, "%v", tc.have)
			for _, s := range tc.says {
				require.ErrorContains(t, err, s, "%v", tc.have)
			}
			continue
		}
		require.NoError(t, err, "%v", tc.have)
		want := map[string]string{"home": filepath.Join(home, "bin"), "path": bin}[tc.want]
		require.Equal(t, want, filepath.Dir(j.path), "%v", tc.have)
	}

	machine(t)
	home := t.TempDir()
	t.Setenv("JAVA_HOME", home)
	_, err := findJava(t.Context())
	require.ErrorIs(t, err, ErrJDK)
	require.ErrorContains(t, err, filepath.Join(home, "bin", "java")+" does not run")
}

func TestNoMaven(t *testing.T) {
	bin := machine(t)
	fakeJava(t, filepath.Join(bin, "java"), "17.0.15")
	_, err := Start(t.Context(), Options{Kind: Cassandra, Dir: t.TempDir(), FreePorts: true})
	require.ErrorIs(t, err, ErrMaven)
	require.ErrorContains(t, err, "apt install maven")
}

func TestDownload(t *testing.T) {
	quiet := func(string, ...any) {}

	t.Run("is tried again", func(t *testing.T) {
		runs := fakeMaven(t, machine(t), 2)
		jars, err := spec{Kind: Cassandra}.jars(t.Context(), java{}, quiet)
		require.NoError(t, err)
		require.Len(t, jars, 1)
		require.Equal(t, 3, runs())
	})
	t.Run("fails with Maven's words", func(t *testing.T) {
		runs := fakeMaven(t, machine(t), 100)
		_, err := spec{Kind: HBase}.jars(t.Context(), java{}, quiet)
		require.ErrorIs(t, err, ErrDownload)
		require.ErrorContains(t, err, "the cable is out")
		require.ErrorContains(t, err, "settings.xml")
		require.Equal(t, 3, runs())
	})
	t.Run("happens once", func(t *testing.T) {
		runs := fakeMaven(t, machine(t), 0)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { _, errs[i] = spec{Kind: Cassandra}.jars(t.Context(), java{}, quiet) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, 1, runs())

		// And Maven is not needed any more.
		t.Setenv("PATH", t.TempDir())
		jars, err := spec{Kind: Cassandra}.jars(t.Context(), java{}, quiet)
		require.NoError(t, err)

		// Unless a jar has gone.
		require.NoError(t, os.Remove(jars[0]))
		_, err = spec{Kind: Cassandra}.jars(t.Context(), java{}, quiet)
		require.ErrorIs(t, err, ErrMaven)
	})
	t.Run("ends with its context", func(t *testing.T) {
		bin := machine(t)
		script(t, filepath.Join(bin, "mvn"), "while :; do :; done")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := spec{Kind: Cassandra}.jars(ctx, java{}, quiet)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestOptionsRefused(t *testing.T) {
	dir := t.TempDir()
	used := &spec{Kind: HBase, Nodes: 3, Port: 2181, PeerPort: 16000}
	for _, tc := range []struct {
		o    Options
		last *spec
		says string
	}{
		{Options{Kind: "mongo", Dir: dir}, nil, `unknown kind "mongo", want one of [cassandra hbase]`},
		{Options{Kind: HBase}, nil, "no data folder"},
		{Options{Kind: HBase, Dir: dir, Nodes: 2}, nil, "2 nodes, want 1 or 3"},
		{Options{Kind: HBase, Dir: dir, Nodes: -1}, nil, "want 1 or 3"},
		{Options{Kind: HBase, Dir: dir, Port: 70000}, nil, "port 70000"},
		{Options{Kind: HBase, Dir: dir, Port: 9042, FreePorts: true}, nil, "free ports"},
		{Options{Kind: HBase, Dir: dir, HeapMB: 10}, nil, "at least 256"},
		{Options{Kind: Cassandra, Dir: dir}, used, "holds data of hbase"},
		{Options{Kind: HBase, Dir: dir, Nodes: 1}, used, "holds data of 3 node(s), not of 1"},
		{Options{Kind: HBase, Dir: dir, Release: "5.0"}, nil, `unknown release "5.0" of hbase, want one of 2.6, 2.5, 2.4`},
		{Options{Kind: HBase, Dir: dir, Release: "2.5"}, used, "holds data of hbase 2.6, not of 2.5"}, // made when there was one
		{Options{Kind: Cassandra, Dir: dir, Release: "4.0", Secure: true}, nil, "takes the release 4.1 or later"},
	} {
		_, _, err := tc.o.fill(tc.last)
		require.ErrorContains(t, err, tc.says)
	}
	o, s, err := Options{Kind: HBase, Dir: dir}.fill(used)
	require.NoError(t, err)
	require.Equal(t, 3, o.Nodes, "as many as before")
	require.Equal(t, 2181, s.Port)
	require.Equal(t, "2.6.4-hadoop3", s.version())
	_, s, err = Options{Kind: Cassandra, Dir: dir}.fill(&spec{Kind: Cassandra, Release: "4.1", Nodes: 1, Port: 1, PeerPort: 2})
	require.NoError(t, err)
	require.Equal(t, "4.1.10", s.version(), "as before")
	require.Contains(t, string(cassandraPOM), Cassandra.versions()[0], "which other versions are put in place of")
	require.Contains(t, string(hbasePOM), HBase.versions()[0])
}

func TestPlans(t *testing.T) {
	for _, k := range Kinds() {
		for _, nodes := range []int{1, 3} {
			// What XML and YAML have their own ideas about.
			dir := filepath.Join(t.TempDir(), `a "b" <c> & 'd'`)
			_, s, err := Options{Kind: k, Dir: dir, Nodes: nodes}.fill(nil)
			require.NoError(t, err)
			seen := map[string]bool{}
			for _, p := range s.plan(dir) {
				require.NotEmpty(t, p.ready)
				for _, addr := range append([]string{p.name, p.dir}, p.listen...) {
					require.False(t, seen[addr], "%s twice", addr)
					seen[addr] = true
				}
				for _, addr := range p.listen {
					host, _, err := net.SplitHostPort(addr)
					require.NoError(t, err)
					require.True(t, net.ParseIP(host).IsLoopback(), addr)
				}
				require.NotEmpty(t, p.files)
				for name, text := range p.files {
					require.NotContains(t, string(text), "<no value>")
					require.NotContains(t, string(text), "0.0.0.0")
					if strings.HasSuffix(name, ".xml") && k == HBase {
						require.Contains(t, string(text), "&lt;c&gt; &amp;")
					}
				}
			}
			want := map[Kind]map[int]int{Cassandra: {1: 1, 3: 3}, HBase: {1: 1, 3: 4}}[k][nodes]
			require.Len(t, s.plan(dir), want)
		}
	}
}

// What spares tests time would spoil a measurement, and what a killed server must keep.
func TestOnlyServersForTestsForget(t *testing.T) {
	for _, o := range []Options{{}, {Optimize: true}, {KillSafe: true}, {Optimize: true, KillSafe: true}} {
		o.Kind, o.Dir = Cassandra, t.TempDir()
		_, s, err := o.fill(nil)
		require.NoError(t, err)
		p := s.plan(o.Dir)[0]
		forTests := !o.Optimize && !o.KillSafe
		require.Equal(t, forTests, slices.Contains(p.args, "-Dcassandra.test.flush_local_schema_changes=false"))
		require.Equal(t, forTests || o.KillSafe, slices.Contains(p.args, "-Dcassandra.skip_sync=true"))
		require.Equal(t, forTests, strings.Contains(string(p.files[filepath.Join(p.dir, "cassandra.yaml")]), "tombstone_failure_threshold"))
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	err = checkPort(l.Addr().String())
	require.ErrorIs(t, err, ErrPortTaken)
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "lsof -i :"+port)

	fakeMachine(t, "serve")
	_, _, err = Up(t.Context(), Options{Kind: Cassandra, Dir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port - 1,
		PeerPort: l.Addr().(*net.TCPAddr).Port})
	require.ErrorIs(t, err, ErrPortTaken, "the second port of a node")
}

func TestReservedPortsDiffer(t *testing.T) {
	machine(t)
	addrs := func(base int) []string { return []string{hostPort("127.0.0.1", base), hostPort("127.0.0.1", base+1)} }
	seen := map[int]bool{}
	var releases []func()
	for range 5 {
		base, release, err := reservePorts(t.Context(), addrs)
		require.NoError(t, err)
		require.False(t, seen[base])
		require.Less(t, base+blockSize, 32768)
		seen[base] = true
		releases = append(releases, release)
	}
	// A block of which a port is in use is passed over.
	first := slices.Min(slices.Collect(maps.Keys(seen)))
	for _, release := range releases {
		release()
	}
	l, err := net.Listen("tcp4", hostPort("127.0.0.1", first+1))
	require.NoError(t, err)
	defer l.Close()
	base, release, err := reservePorts(t.Context(), addrs)
	require.NoError(t, err)
	defer release()
	require.Greater(t, base, first)
}

func TestLifeOfServers(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			fakeMachine(t, "serve")
			dir := t.TempDir()
			c, err := Start(t.Context(), Options{Kind: Cassandra, Dir: dir, Nodes: nodes, FreePorts: true})
			if nodes > 1 && isAddrNotHere(err) {
				t.Skip(err)
			}
			require.NoError(t, err)
			defer c.Close()
			require.Len(t, c.Addrs(), nodes)
			pids := map[int]bool{}
			for _, n := range c.Nodes() {
				require.True(t, n.Alive())
				require.True(t, answers([]string{n.Addr()}))
				pids[n.pid()] = true
			}
			require.Len(t, pids, nodes)

			n := c.Nodes()[nodes-1]
			require.Same(t, n, c.Node(n.Name))
			require.NoError(t, n.Kill())
			require.NoError(t, n.Kill(), "a second time")
			require.False(t, n.Alive())
			require.False(t, answers([]string{n.Addr()}))
			s, err := Inspect(Cassandra, dir)
			require.NoError(t, err)
			require.Equal(t, nodes-1, s.running())

			require.NoError(t, n.Restart(t.Context()))
			require.False(t, pids[n.pid()])
			s, err = Inspect(Cassandra, dir)
			require.NoError(t, err)
			require.Equal(t, nodes, s.running())
			require.Equal(t, n.pid(), s.Nodes[nodes-1].PID)

			_, err = Start(t.Context(), Options{Kind: Cassandra, Dir: dir, FreePorts: true})
			require.ErrorIs(t, err, ErrRunning)

			require.NoError(t, c.Close())
			for _, n := range c.Nodes() {
				require.False(t, n.Alive())
			}
			require.NoError(t, c.Close(), "a second time")
		})
	}
}

// upPorts is where the tests of Up listen, which must be given ports.
func upPorts(t *testing.T) (port, peer int) {
	t.Helper()
	base, release, err := reservePorts(t.Context(), func(base int) []string {
		return []string{hostPort("127.0.0.1", base), hostPort("127.0.0.1", base+1)}
	})
	require.NoError(t, err)
	t.Cleanup(release)
	return base, base + 1
}

func TestUpAndDown(t *testing.T) {
	fakeMachine(t, "serve")
	s, err := Inspect(Cassandra, "")
	require.NoError(t, err)
	require.Empty(t, s.Nodes)
	ended, err := Down(t.Context(), Cassandra, "")
	require.NoError(t, err)
	require.Zero(t, ended, "nothing was ever up")

	o := Options{Kind: Cassandra}
	o.Port, o.PeerPort = upPorts(t)
	c, started, err := Up(t.Context(), o)
	require.NoError(t, err)
	defer c.Close()
	require.True(t, started)

	again, started, err := Up(t.Context(), Options{Kind: Cassandra})
	require.NoError(t, err)
	require.False(t, started)
	require.Equal(t, c.Nodes()[0].pid(), again.Nodes()[0].pid())
	require.Equal(t, c.Addrs(), again.Addrs(), "the ports of before")

	_, _, err = Up(t.Context(), Options{Kind: Cassandra, Port: 1234})
	require.ErrorIs(t, err, ErrRunning)
	_, _, err = Up(t.Context(), Options{Kind: Cassandra, Nodes: 3})
	require.ErrorContains(t, err, "holds data of 1 node(s), not of 3")
	_, err = Down(t.Context(), HBase, c.Dir())
	require.ErrorContains(t, err, "holds data of cassandra, not of hbase")

	// What another process would do.
	opened, err := Open(c.Dir())
	require.NoError(t, err)
	require.NoError(t, opened.Nodes()[0].Kill())
	require.NoError(t, opened.Nodes()[0].Restart(t.Context()))

	ended, err = Down(t.Context(), Cassandra, "")
	require.NoError(t, err)
	require.Equal(t, 1, ended)
	require.False(t, opened.Nodes()[0].Alive())
	s, err = Inspect(Cassandra, "")
	require.NoError(t, err)
	require.Zero(t, s.running())
	require.Len(t, s.Nodes, 1)
}

func TestTwoUpsAtOnce(t *testing.T) {
	fakeMachine(t, "serve")
	o := Options{Kind: Cassandra}
	o.Port, o.PeerPort = upPorts(t)
	var wg sync.WaitGroup
	var clusters [4]*Cluster
	var started [4]bool
	var errs [4]error
	for i := range errs {
		wg.Go(func() { clusters[i], started[i], errs[i] = Up(t.Context(), o) })
	}
	wg.Wait()
	defer Down(t.Context(), Cassandra, "")
	n := 0
	for i := range errs {
		require.NoError(t, errs[i])
		require.Equal(t, clusters[0].Nodes()[0].pid(), clusters[i].Nodes()[0].pid())
		if started[i] {
			n++
			defer clusters[i].Close()
		}
	}
	require.Equal(t, 1, n)
}

func TestDownWaitsForAStart(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDir(tContext(), dir, t.Logf) // as a first start does
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(tContext(), 100*time.Millisecond)
	defer cancel()
	_, err = Down(ctx, Cassandra, dir)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it said that nothing runs")
	unlock()
	ended, err := Down(tContext(), Cassandra, dir)
	require.NoError(t, err)
	require.Zero(t, ended, "the start has failed")
}

func TestFailedStart(t *testing.T) {
	t.Run("the server dies", func(t *testing.T) {
		fakeMachine(t, "die")
		dir := t.TempDir()
		_, err := Start(t.Context(), Options{Kind: Cassandra, Dir: dir, FreePorts: true})
		require.ErrorContains(t, err, "cassandra1 ended while it started")
		require.ErrorContains(t, err, "the disk is made of cheese")
		require.ErrorContains(t, err, filepath.Join(dir, "cassandra1", "cassandra1.log"))
	})
	t.Run("the server takes too long", func(t *testing.T) {
		fakeMachine(t, "silent")
		dir := t.TempDir()
		_, err := Start(t.Context(), Options{Kind: Cassandra, Dir: dir, FreePorts: true, Timeout: 300 * time.Millisecond})
		require.ErrorContains(t, err, "not ready after 300ms")
		st, err := readState(dir)
		require.NoError(t, err)
		require.Empty(t, st.running(), "it must not be left running")
	})
	t.Run("the port lies", func(t *testing.T) {
		// An old log says ready, and the port answers; the new process says nothing.
		fakeMachine(t, "silent")
		dir := t.TempDir()
		log := filepath.Join(dir, "cassandra1", "cassandra1.log")
		require.NoError(t, os.MkdirAll(filepath.Dir(log), 0o700))
		require.NoError(t, os.WriteFile(log, []byte("Startup complete\n"), 0o600))
		_, s, err := Options{Kind: Cassandra, Dir: dir}.fill(nil)
		require.NoError(t, err)
		s.Port, s.PeerPort = upPorts(t)
		c := &Cluster{release: func() {}}
		c.build(dir, s, nil)
		c.java, err = findJava(t.Context())
		require.NoError(t, err)
		for _, addr := range c.nodes[0].plan.listen {
			l, err := net.Listen("tcp4", addr)
			require.NoError(t, err)
			defer l.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.launch(ctx, c.nodes), context.DeadlineExceeded)
		require.True(t, c.nodes[0].Alive())
		require.NoError(t, c.Close())
	})
}

func TestStopKillsTheDeaf(t *testing.T) {
	fakeMachine(t, "deaf")
	c, err := Start(t.Context(), Options{Kind: Cassandra, Dir: t.TempDir(), FreePorts: true})
	require.NoError(t, err)
	defer c.Close()
	n := c.Nodes()[0]
	p := n.current().Process
	require.NoError(t, p.signal(terminate))
	time.Sleep(100 * time.Millisecond)
	require.True(t, p.alive(), "it is deaf")
	require.NoError(t, p.stop(t.Context(), 50*time.Millisecond))
	require.False(t, p.alive())
}

// A recycled id: the state file names a process by id and beginning; the process that has the id
// now has another beginning. It is neither seen as the server nor ever signalled.
func TestRecycledID(t *testing.T) {
	fakeMachine(t, "serve")
	sleeper := exec.Command("/bin/sleep", "60")
	require.NoError(t, sleeper.Start())
	bystander, err := identify(sleeper.Process.Pid)
	require.NoError(t, err)
	defer func() {
		sleeper.Process.Kill()
		sleeper.Wait()
	}()

	dir := t.TempDir()
	_, s, err := Options{Kind: Cassandra, Dir: dir}.fill(nil)
	require.NoError(t, err)
	stale := process{PID: bystander.PID, Began: "an earlier life"}
	require.NoError(t, writeState(dir, &state{Format: stateFormat, Spec: s,
		Nodes: map[string]entry{"cassandra1": {Process: stale}}}))

	ended, err := Down(t.Context(), Cassandra, dir)
	require.NoError(t, err)
	require.Zero(t, ended)
	c, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.False(t, c.Nodes()[0].Alive())
	require.True(t, bystander.alive(), "it was not ours to end")

	// And the folder can be used again.
	c, err = Start(t.Context(), Options{Kind: Cassandra, Dir: dir, FreePorts: true})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.True(t, bystander.alive())
}

func TestZombieIsNotAlive(t *testing.T) {
	machine(t)
	cmd := exec.Command("/bin/sleep", "60")
	require.NoError(t, cmd.Start())
	p, err := identify(cmd.Process.Pid)
	require.NoError(t, err)
	require.True(t, p.alive())
	require.NoError(t, p.kill()) // nobody has waited for it
	require.False(t, p.alive())
	cmd.Wait()
	require.False(t, p.alive())
	require.NoError(t, p.signal(terminate), "one that has ended is no error")
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	_, err := readState(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	want := &state{Format: stateFormat, Server: "5.0.9",
		Spec:  spec{Kind: HBase, Nodes: 3, Port: 1, PeerPort: 2, HeapMB: 3, KillSafe: true, Optimize: true, JVMArgs: []string{"-x"}},
		Nodes: map[string]entry{"master": {process{4, "now"}, 5}}}
	require.NoError(t, writeState(dir, want))
	got, err := readState(dir)
	require.NoError(t, err)
	require.Equal(t, want, got)

	file := filepath.Join(dir, stateFile)
	require.NoError(t, os.WriteFile(file, []byte(`{"format": 2}`), 0o600))
	_, err = readState(dir)
	require.ErrorContains(t, err, "has format 2, this version knows 1")
	require.NoError(t, os.WriteFile(file, []byte(`{"form`), 0o600))
	_, err = Open(dir)
	require.ErrorContains(t, err, "is damaged")
	require.ErrorContains(t, err, file)
}

func TestArgFile(t *testing.T) {
	require.Equal(t, "\"-Da=b c\"\n\"\\\\d\\\"e\"\n", argFile([]string{"-Da=b c", `\d"e`}))
}

// The servers of Start end with the process that started them, also if it is killed.
func TestServersDieWithTheirStarter(t *testing.T) {
	if !diesWithParent {
		t.Skip("only Linux has a way to do that")
	}
	fakeMachine(t, "serve")
	dir := t.TempDir()
	t.Setenv(fakeStarter, dir)
	self, err := os.Executable()
	require.NoError(t, err)
	starter := exec.Command(self)
	out, err := starter.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, starter.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscanf(line, "pid %d", &pid)
	require.NoError(t, err, line)
	server, err := identify(pid)
	require.NoError(t, err)
	require.True(t, server.alive())

	require.NoError(t, starter.Process.Kill())
	starter.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, server.waitGone(ctx))
}
