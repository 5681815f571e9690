package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// A Cluster is the servers of one data folder. Its methods and those of its nodes may be called
// from several goroutines at a time, but at most one at a time for each node.
type Cluster struct {
	dir       string
	spec      spec
	nodes     []*Node
	java      java
	classpath []string

	spawner *spawner // nil if the servers shall outlive this process
	release func()   // gives reserved ports back
	freed   sync.Once

	mu    sync.Mutex
	state state
}

// A Node is one server process, or the place of one that has ended.
type Node struct {
	// Name is "cassandra1" to "cassandra3", "hbase", or one of "zookeeper", "master",
	// "regionserver1" and "regionserver2".
	Name string

	cluster *Cluster
	plan    plan

	reaped chan struct{} // closed when the process that this one started last has been waited for
}

func (c *Cluster) build(dir string, s spec, last *state) {
	c.dir, c.spec = dir, s
	c.state = state{Format: stateFormat, Server: s.version(), Spec: s, Nodes: map[string]entry{}}
	if last != nil {
		for name, e := range last.Nodes {
			c.state.Nodes[name] = e
		}
	}
	for _, p := range s.plan(dir) {
		c.nodes = append(c.nodes, &Node{Name: p.name, cluster: c, plan: p})
	}
}

// Kind returns which database it is.
func (c *Cluster) Kind() Kind { return c.spec.Kind }

// Dir returns the data folder.
func (c *Cluster) Dir() string { return c.dir }

// Addrs returns where clients connect, as host:port: the CQL address of each Cassandra node, or
// the one of HBase's ZooKeeper.
func (c *Cluster) Addrs() []string {
	if c.spec.Kind == HBase {
		return []string{c.nodes[0].Addr()}
	}
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Nodes returns the server processes in the order in which they are started.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node returns the node of that name, or nil.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Stop ends the servers in good order, those first that need the others. A server that has not
// ended after a grace time (10 to 30 seconds), or when ctx ends, is killed.
func (c *Cluster) Stop(ctx context.Context) error {
	if !supported {
		return ErrUnsupported
	}
	var g errgroup.Group
	for _, n := range c.nodes[1:] {
		g.Go(func() error { return n.Stop(ctx) })
	}
	err := errors.Join(g.Wait(), c.nodes[0].Stop(ctx))
	c.free()
	return err
}

// Close kills the servers, which is quicker than to stop them. No method that starts a server may
// be called after it or after Stop; Close may be called again.
func (c *Cluster) Close() error {
	if !supported {
		return ErrUnsupported
	}
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Kill())
	}
	c.free()
	return errors.Join(errs...)
}

func (c *Cluster) free() {
	c.freed.Do(func() {
		if c.spawner != nil {
			c.spawner.close()
		}
		c.release()
	})
}

// launch starts nodes and waits until they serve. The first node of the cluster goes ahead, since
// the others look for it; these start side by side.
func (c *Cluster) launch(ctx context.Context, nodes []*Node) error {
	if len(nodes) > 1 && nodes[0] == c.nodes[0] {
		if err := c.launch(ctx, nodes[:1]); err != nil {
			return err
		}
		nodes = nodes[1:]
	}
	// What the running nodes are to write about a new one comes after what they wrote so far.
	type announcement struct {
		by   *Node
		log  logTail
		text string
	}
	waits := make([][]announcement, len(nodes))
	for i, n := range nodes {
		for _, other := range c.nodes {
			if text := n.plan.announces(other.plan); text != "" && other != n && (other.Alive() || slices.Contains(nodes, other)) {
				waits[i] = append(waits[i], announcement{other, logTail{path: other.Log(), at: fileSize(other.Log())}, text})
			}
		}
	}
	for _, n := range nodes {
		if err := n.spawn(); err != nil {
			return fmt.Errorf("start %s: %w", n.Name, err)
		}
	}
	for i, n := range nodes {
		own := logTail{path: n.Log(), at: n.current().LogFrom}
		ready := func() (bool, error) {
			if ok, err := own.contains(n.plan.ready); !ok || err != nil {
				return false, err
			}
			return answers(n.plan.listen), nil
		}
		if err := n.await(ctx, ready, n, "is not ready"); err != nil {
			return err
		}
		for _, w := range waits[i] {
			noticed := func() (bool, error) {
				if !w.by.Alive() {
					return true, nil // was killed, and that is not this node's fault
				}
				return w.log.contains(w.text)
			}
			if err := n.await(ctx, noticed, w.by, "has not noticed "+n.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Addr returns where the process listens, its port for clients if it has one.
func (n *Node) Addr() string { return n.plan.listen[0] }

// Log returns the path of the log. It is appended to by each start.
func (n *Node) Log() string { return filepath.Join(n.plan.dir, n.Name+".log") }

// pid returns the id of the process that was started last, or 0.
func (n *Node) pid() int { return n.current().Process.PID }

// Alive reports whether the process runs.
func (n *Node) Alive() bool { return n.current().Process.alive() }

func (n *Node) current() entry {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.cluster.state.Nodes[n.Name]
}

func (n *Node) record(e entry) error {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Nodes[n.Name] = e
	return writeState(c.dir, &c.state)
}

// Kill ends the process by SIGKILL and returns when it is gone. It is no error if there is none.
func (n *Node) Kill() error {
	if !supported {
		return ErrUnsupported
	}
	if err := n.current().Process.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", n.Name, err)
	}
	n.reap()
	return nil
}

// Hang has the process stand still (SIGSTOP): its connections stay open, and nothing is answered. What undoes it is GoOn.
func (n *Node) Hang() error { return n.signal(suspend) }

// GoOn lets a process go on that hangs.
func (n *Node) GoOn() error { return n.signal(resume) }

func (n *Node) signal(sig os.Signal) error {
	if !supported {
		return ErrUnsupported
	}
	return n.current().Process.signal(sig)
}

// Stop asks the process to end, and kills it if it has not after a grace time (10 to 30 seconds)
// or when ctx ends. It returns when the process is gone; it is no error if there is none.
func (n *Node) Stop(ctx context.Context) error {
	if !supported {
		return ErrUnsupported
	}
	if err := n.current().Process.stop(ctx, n.cluster.spec.Kind.grace()); err != nil {
		return fmt.Errorf("stop %s: %w", n.Name, err)
	}
	n.reap()
	return nil
}

// Restart starts the node again on the data that it has, and waits until it serves and the others
// have noticed. A process that still runs is stopped before.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	c := n.cluster
	if len(c.classpath) == 0 { // the cluster comes from Open, or from an Up that had nothing to do
		var err error
		if c.java, err = findJava(ctx); err != nil {
			return err
		}
		if c.classpath, err = c.spec.jars(ctx, c.java, func(string, ...any) {}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("not ready after 3m"))
	defer cancel()
	if err := c.launch(ctx, []*Node{n}); err != nil {
		n.Kill()
		return err
	}
	return nil
}

// reap waits until a child has been waited for, so that no goroutine of this package is left.
func (n *Node) reap() {
	if n.reaped != nil {
		<-n.reaped
	}
}

// A log that is longer than this when its server starts is put aside.
const maxLog = 16 << 20

// spawn starts the process and records it.
func (n *Node) spawn() error {
	c, p := n.cluster, n.plan
	for _, dir := range []string{p.dir, filepath.Join(p.dir, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, text := range p.files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	path := c.classpath
	if p.conf != "" {
		path = append([]string{p.conf}, path...)
	}
	args := append(c.jvmArgs(p), "-cp", strings.Join(path, string(os.PathListSeparator)))
	args = append(args, p.class...)
	argsFile := filepath.Join(p.dir, n.Name+".args")
	if err := os.WriteFile(argsFile, []byte(argFile(args)), 0o600); err != nil {
		return err
	}

	if fileSize(n.Log()) > maxLog {
		if err := os.Rename(n.Log(), n.Log()+".old"); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(n.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from := fileSize(n.Log())

	cmd := exec.Command(c.java.path, "@"+argsFile)
	cmd.Dir, cmd.Env = p.dir, serverEnv()
	cmd.Stdout, cmd.Stderr = log, log
	begin := cmd.Start
	if c.spawner != nil {
		tie(cmd)
		begin = func() error { return c.spawner.start(cmd) }
	} else {
		detach(cmd)
	}
	if err := begin(); err != nil {
		return err
	}
	// Not yet waited for, so its id is its own even if it has ended.
	proc, err := identify(cmd.Process.Pid)
	reaped := make(chan struct{})
	n.reaped = reaped
	go func() {
		cmd.Wait()
		close(reaped)
	}()
	if err == nil {
		err = n.record(entry{proc, from})
	}
	if err != nil {
		cmd.Process.Kill()
	}
	return err
}

// jvmArgs returns the options of the JVM: those of this package, then those of the user.
func (c *Cluster) jvmArgs(p plan) []string {
	args := append([]string{
		// One thread collects a small heap of a machine with few cores best, and with the least memory.
		"-XX:+UseSerialGC",
		"-XX:+ExitOnOutOfMemoryError",
		"-XX:+PerfDisableSharedMem",
		"-XX:ErrorFile=" + filepath.Join(p.dir, "hs_err.log"),
		"-Djava.io.tmpdir=" + filepath.Join(p.dir, "tmp"),
		"-Djava.net.preferIPv4Stack=true",
		"-Djava.awt.headless=true",
		// Committed memory is locked by Cassandra where it may, so start with little.
		"-Xms64m",
	}, p.args...)
	if jar := agentJar(c.classpath); jar != "" {
		args = append(args, "-javaagent:"+jar)
	}
	if !c.spec.Optimize {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	return append(args, c.spec.JVMArgs...)
}

// await polls until done says so. The error has the end of the log: of this node if its process
// ends before, or if ctx ends of the late one, with what it has not done.
func (n *Node) await(ctx context.Context, done func() (bool, error), late *Node, what string) error {
	for {
		alive := n.Alive() // looked at first: the last words of a process are read after its end
		ok, err := done()
		switch {
		case err != nil:
			return fmt.Errorf("log of %s: %w", late.Name, err)
		case !alive:
			return n.failed("ended while it started")
		case ok:
			return nil
		}
		if pause.For(ctx, pollEvery) != nil {
			return fmt.Errorf("%w: %w", late.failed(what), context.Cause(ctx))
		}
	}
}

func (n *Node) failed(what string) error {
	tail := logTail{path: n.Log(), at: n.current().LogFrom}
	tail.contains("")
	last := lastLines(string(tail.text), 15)
	if last == "" {
		last = "(nothing)"
	}
	return fmt.Errorf("%s %s. Its log, %s, ends with:\n%s", n.Name, what, n.Log(), last)
}

// A logTail is what a log holds from some place on.
type logTail struct {
	path string
	at   int64
	text []byte
}

// contains reads what has been added and reports whether s has been written.
func (t *logTail) contains(s string) (bool, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	more, err := io.ReadAll(io.NewSectionReader(f, t.at, 1<<30))
	if err != nil {
		return false, err
	}
	t.at += int64(len(more))
	t.text = append(t.text, more...)
	return strings.Contains(string(t.text), s), nil
}

func fileSize(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}
