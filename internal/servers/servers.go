package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind names a database.
type Kind string

const (
	Cassandra Kind = "cassandra"
	HBase     Kind = "hbase"
)

// Kinds lists the databases.
func Kinds() []Kind { return []Kind{Cassandra, HBase} }

// versions are those of the servers that can be started, the newest first.
func (k Kind) versions() []string {
	if k == HBase {
		return []string{"2.6.4-hadoop3", "2.5.13-hadoop3", "2.4.18"}
	}
	return []string{"5.0.9", "4.1.10", "4.0.19"}
}

// Releases names the servers that can be started by two numbers, as 5.0. The first is the default.
func (k Kind) Releases() []string {
	var all []string
	for _, v := range k.versions() {
		all = append(all, v[:strings.LastIndexByte(v, '.')])
	}
	return all
}

// DefaultPort is the port that clients connect to: Cassandra's CQL port, HBase's ZooKeeper.
func (k Kind) DefaultPort() int {
	if k == HBase {
		return 2181
	}
	return 9042
}

func (k Kind) defaultPeerPort() int {
	if k == HBase {
		return 16000
	}
	return 7000
}

// DefaultDir is the data folder of servers that are given none: one for each kind in the cache
// folder, which is RANGECRYPT_CACHE or rangecrypt in the user's cache folder.
func (k Kind) DefaultDir() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "servers", string(k)), nil
}

// grace is how long a server may take to end by itself. Cassandra needs 4 seconds to drain; an
// HBase with nothing to do 3, and now and then 20 because its parts wait for each other after
// they have closed all regions. Ending it earlier loses nothing but that wait: what is not in a
// file is in the log that the next start replays.
func (k Kind) grace() time.Duration {
	if k == HBase {
		return 10 * time.Second
	}
	return 30 * time.Second
}

// Options say what to start. Only Kind must be given, and Dir for [Start].
type Options struct {
	Kind Kind

	// Dir is the data folder; it is made. Data in it is used again. The default, for Up only,
	// is Kind.DefaultDir.
	Dir string

	// Release is one of Kind.Releases; the default is the first, or that of the folder.
	Release string

	// Nodes is 1 or 3; the default is 1, or as many as the folder was made for. See the
	// package comment for what a node is.
	Nodes int

	// Port is the port for clients; the default is Kind.DefaultPort, or the one that the
	// folder used last. All Cassandra nodes have the same, on different addresses.
	Port int

	// PeerPort is the port on which servers talk to each other: Cassandra's storage port, by
	// default 7000; or that of HBase's master, by default 16000. HBase's region servers take
	// PeerPort+20 and PeerPort+21, to which clients connect too.
	PeerPort int

	// FreePorts has Port and PeerPort chosen among those that nobody uses; both must be zero.
	// Only for Start, so that tests do not disturb each other or what the user runs.
	FreePorts bool

	// HeapMB is the largest heap of one server process, in MiB; the default is 768 for a
	// Cassandra and 512 for HBase. It is taken as needed, from 64 MiB on.
	HeapMB int

	// KillSafe has a Cassandra acknowledge a write only when it would survive a SIGKILL of that
	// node. The default is Cassandra's own: a killed node loses what it acknowledged in the
	// last tenth of a second, lightweight transactions too, and other replicas may or may not
	// have it. Tests that kill nodes need KillSafe; it halves the rate of inserts or worse.
	// HBase is always so.
	KillSafe bool

	// Secure has a Cassandra ask its clients for TLS, a certificate and a login: see [Cluster.Access].
	// A folder that was made so stays so.
	Secure bool

	// Optimize lets the JVM use its optimising compiler: more throughput after some minutes,
	// for twice the processor time on the way up. The default is the quick compiler alone.
	Optimize bool

	// JVMArgs are given to each JVM after the package's own.
	JVMArgs []string

	// Timeout bounds the start, without the download; the default is 3 minutes.
	Timeout time.Duration

	// Logf, if not nil, is told what takes long.
	Logf func(format string, args ...any)
}

// ErrRunning means that servers already run from a data folder.
var ErrRunning = errors.New("servers already run from this folder")

// spec is what of the Options belongs to a data folder.
type spec struct {
	Kind     Kind     `json:"kind"`
	Release  string   `json:"release,omitempty"` // the first where there is none
	Nodes    int      `json:"nodes"`
	Port     int      `json:"port"`
	PeerPort int      `json:"peer_port"`
	HeapMB   int      `json:"heap_mb"`
	KillSafe bool     `json:"kill_safe,omitempty"`
	Secure   bool     `json:"secure,omitempty"`
	Optimize bool     `json:"optimize,omitempty"`
	JVMArgs  []string `json:"jvm_args,omitempty"`
}

// version is that of the servers.
func (s spec) version() string {
	return s.Kind.versions()[max(0, slices.Index(s.Kind.Releases(), s.Release))]
}

// plan returns the nodes of the cluster, the one first that the others look for: the seed or
// ZooKeeper.
func (s spec) plan(dir string) []plan {
	if s.Kind == HBase {
		return s.planHBase(dir)
	}
	return s.planCassandra(dir)
}

// A plan says how one server process is started.
type plan struct {
	name   string
	dir    string            // working folder; the log and the list of arguments go there
	listen []string          // the addresses of the process, that for clients first
	files  map[string][]byte // configuration, by path; written on each start
	args   []string          // of java, without the classpath and the class
	conf   string            // a folder for the front of the classpath, or ""
	class  []string          // the class with its arguments

	// ready is the line of the log after which the server serves, as a part of it.
	ready string

	// announces returns what the other node, if it runs, writes to its log when it has noticed
	// that this node is there; or "" if it does not matter.
	announces func(other plan) string
}

// forTests reports whether nobody measures the servers or kills them: what matters is that they take little processor time.
func (s spec) forTests() bool { return !s.Optimize && !s.KillSafe }

// fill validates the options and completes them, for a folder that was used as last says, or is
// new if last is nil.
func (o Options) fill(last *spec) (Options, spec, error) {
	fail := func(format string, args ...any) (Options, spec, error) {
		return Options{}, spec{}, fmt.Errorf(format, args...)
	}
	if !slices.Contains(Kinds(), o.Kind) {
		return fail("servers: unknown kind %q, want one of %v", o.Kind, Kinds())
	}
	if o.Dir == "" {
		return fail("servers: no data folder given")
	}
	if last == nil {
		last = &spec{Kind: o.Kind, Release: o.Release, Nodes: 1, Secure: o.Secure, Port: o.Kind.DefaultPort(), PeerPort: o.Kind.defaultPeerPort()}
		if o.Nodes != 0 {
			last.Nodes = o.Nodes
		}
	}
	if last.Kind != o.Kind {
		return fail("%s holds data of %s, not of %s; choose another folder", o.Dir, last.Kind, o.Kind)
	}
	releases := o.Kind.Releases()
	was := cmp.Or(last.Release, releases[0])
	o.Release = cmp.Or(o.Release, was)
	switch {
	case !slices.Contains(releases, o.Release):
		return fail("servers: unknown release %q of %s, want one of %s", o.Release, o.Kind, strings.Join(releases, ", "))
	case o.Release != was:
		return fail("%s holds data of %s %s, not of %s; choose another folder, or remove this one", o.Dir, o.Kind, was, o.Release)
	}
	o.Nodes = cmp.Or(o.Nodes, last.Nodes)
	if o.Nodes != 1 && o.Nodes != 3 {
		return fail("servers: %d nodes, want 1 or 3", o.Nodes)
	}
	if last.Nodes != o.Nodes {
		return fail("%s holds data of %d node(s), not of %d; choose another folder, or remove this one",
			o.Dir, last.Nodes, o.Nodes)
	}
	switch {
	case o.Secure && o.Kind != Cassandra:
		return fail("servers: %s cannot be secured: its client library knows neither TLS nor Kerberos", o.Kind)
	case o.Secure && o.Release == "4.0":
		return fail("servers: a secured Cassandra takes the release 4.1 or later, which reads certificates in PEM")
	case o.Secure && !last.Secure:
		return fail("%s holds data of servers without logins; choose another folder, or remove this one", o.Dir)
	}
	o.Secure = last.Secure
	if o.FreePorts && (o.Port != 0 || o.PeerPort != 0) {
		return fail("servers: both free ports and a port asked for")
	}
	o.Port, o.PeerPort = cmp.Or(o.Port, last.Port), cmp.Or(o.PeerPort, last.PeerPort)
	for _, p := range []int{o.Port, o.PeerPort} {
		if p < 1 || p > 65535-32 {
			return fail("servers: port %d, want 1 to %d", p, 65535-32)
		}
	}
	if o.HeapMB == 0 {
		o.HeapMB = 768
		if o.Kind == HBase {
			o.HeapMB = 512
		}
	}
	if o.HeapMB < 256 {
		return fail("servers: a heap of %d MiB, want at least 256", o.HeapMB)
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Minute
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o, spec{o.Kind, o.Release, o.Nodes, o.Port, o.PeerPort, o.HeapMB, o.KillSafe, o.Secure, o.Optimize, o.JVMArgs}, nil
}

// Start starts servers that end with this process, and waits until they serve. On Linux that
// holds even if the process is killed; elsewhere it must come to calling Close.
//
// The context bounds the start, not the life of the servers.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, _, err := start(ctx, o, newSpawner())
	return c, err
}

// Up starts servers that go on when this process ends, and waits until they serve. Where some or
// all of the folder's nodes run already it starts only the others; started is false if there was
// nothing to start. While this process lives, one goroutine for each server waits for its end.
func Up(ctx context.Context, o Options) (c *Cluster, started bool, err error) {
	if o.FreePorts {
		return nil, false, errors.New("servers: free ports are for Start: their reservation ends with this process")
	}
	if o.Dir == "" && o.Kind != "" {
		if o.Dir, err = o.Kind.DefaultDir(); err != nil {
			return nil, false, err
		}
	}
	return start(ctx, o, nil)
}

// start is Start with a spawner and Up without.
func start(ctx context.Context, o Options, sp *spawner) (_ *Cluster, started bool, err error) {
	c := &Cluster{spawner: sp, release: func() {}}
	defer func() {
		if err != nil {
			c.free()
		}
	}()
	if !supported {
		return nil, false, ErrUnsupported
	}
	if o.Dir != "" {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return nil, false, err
		}
	}
	st, err := lastState(o.Dir)
	if err != nil {
		return nil, false, err
	}
	var last *spec
	if st != nil {
		last = &st.Spec
	}
	o, s, err := o.fill(last)
	if err != nil {
		return nil, false, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("data folder: %w", err)
	}
	unlock, err := lockDir(ctx, o.Dir, o.Logf)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	if st, err = lastState(o.Dir); err != nil {
		return nil, false, err
	}
	if err := st.waitSettled(ctx); err != nil {
		return nil, false, err
	}
	running := st.running()
	if len(running) > 0 {
		if sp != nil {
			return nil, false, fmt.Errorf("%w: %s, process %d (\"opebench servers down %s --dir %s\" ends them)",
				ErrRunning, o.Dir, running[0].PID, o.Kind, o.Dir)
		}
		if s.Port != st.Spec.Port || s.PeerPort != st.Spec.PeerPort {
			return nil, false, fmt.Errorf("%w, with the ports %d and %d: %s; end them to use others",
				ErrRunning, st.Spec.Port, st.Spec.PeerPort, o.Dir)
		}
		s = st.Spec // the nodes that are missing shall be like the others
	}
	if o.FreePorts {
		if s, err = c.reserve(ctx, o.Dir, s); err != nil {
			return nil, false, err
		}
	}
	c.build(o.Dir, s, st)
	if len(running) == len(c.nodes) {
		return c, false, nil
	}
	if err := c.startMissing(ctx, o); err != nil {
		return nil, false, err
	}
	return c, true, nil
}

// lastState returns the state of a data folder, or nil where there is none.
func lastState(dir string) (*state, error) {
	st, err := readState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return st, err
}

// reserve gives the cluster ports that nobody uses.
func (c *Cluster) reserve(ctx context.Context, dir string, s spec) (spec, error) {
	port, release, err := reservePorts(ctx, func(base int) []string {
		s.Port, s.PeerPort = base, base+1
		var addrs []string
		for _, p := range s.plan(dir) {
			addrs = append(addrs, p.listen...)
		}
		return addrs
	})
	if err == nil {
		c.release = release
	}
	s.Port, s.PeerPort = port, port+1
	return s, err
}

// startMissing starts the nodes that do not run, and waits until they serve.
func (c *Cluster) startMissing(ctx context.Context, o Options) (err error) {
	if c.java, err = findJava(ctx); err != nil {
		return err
	}
	if c.classpath, err = c.spec.jars(ctx, c.java, o.Logf); err != nil {
		return err
	}
	var missing []*Node
	for _, n := range c.nodes {
		if n.Alive() {
			continue
		}
		missing = append(missing, n)
		for _, addr := range n.plan.listen {
			if err := checkPort(addr); err != nil {
				return fmt.Errorf("%s %s: %w", o.Kind, n.Name, err)
			}
		}
	}
	o.Logf("starting %s %s in %s", o.Kind, c.spec.version(), o.Dir)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not ready after %v", o.Timeout))
	defer cancel()
	if c.spec.Secure && len(missing) == len(c.nodes) {
		if err := makeSecrets(c.secrets(), time.Now()); err != nil {
			return fmt.Errorf("make certificates and passwords: %w", err)
		}
	}
	err = c.launch(ctx, missing)
	if err == nil && c.spec.Secure {
		err = c.secure(ctx)
	}
	if err != nil {
		for _, n := range missing {
			n.Kill()
		}
	}
	return err
}

// Open returns the cluster whose servers were started, by whatever process, in a data folder. Its
// nodes may or may not run. An error that is fs.ErrNotExist means that there is none.
func Open(dir string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{release: func() {}}
	c.build(dir, st.Spec, st)
	return c, nil
}

// Down ends the servers of a data folder, Kind.DefaultDir if dir is empty, and returns how many
// processes it has ended; none is no error. The data stays.
func Down(ctx context.Context, k Kind, dir string) (ended int, err error) {
	c, unlock, err := openLocked(ctx, k, dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer unlock()
	for _, n := range c.nodes {
		if n.Alive() {
			ended++
		}
	}
	return ended, c.Stop(ctx)
}

func openLocked(ctx context.Context, k Kind, dir string) (_ *Cluster, unlock func(), err error) {
	if dir == "" {
		if dir, err = k.DefaultDir(); err != nil {
			return nil, nil, err
		}
	}
	if _, err := readState(dir); err != nil {
		// The first start in a folder has the lock before there is a state.
		if _, lockErr := os.Stat(filepath.Join(dir, "lock")); lockErr != nil || !errors.Is(err, os.ErrNotExist) {
			return nil, nil, err
		}
	}
	unlock, err = lockDir(ctx, dir, func(string, ...any) {})
	if err != nil {
		return nil, nil, err
	}
	c, err := Open(dir)
	if err == nil && c.spec.Kind != k {
		err = fmt.Errorf("%s holds data of %s, not of %s", dir, c.spec.Kind, k)
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return c, unlock, nil
}

// Status is what [Inspect] finds.
type Status struct {
	Kind  Kind
	Dir   string
	Addrs []string // see Cluster.Addrs; empty if the folder was never used
	Nodes []NodeStatus
}

// NodeStatus describes one server process.
type NodeStatus struct {
	Name    string
	Addr    string // where it listens, the port for clients if it has one
	PID     int    // 0 if it does not run
	Answers bool   // its port accepts connections
	Memory  int64  // resident, in bytes
	Log     string // path
}

// running returns how many nodes run and answer.
func (s Status) running() int {
	n := 0
	for _, node := range s.Nodes {
		if node.PID != 0 && node.Answers {
			n++
		}
	}
	return n
}

// Inspect looks at the servers of a data folder, Kind.DefaultDir if dir is empty. A folder that
// does not exist or was never used is no error: it has no nodes.
func Inspect(k Kind, dir string) (Status, error) {
	if !supported {
		return Status{}, ErrUnsupported
	}
	var err error
	if dir == "" {
		if dir, err = k.DefaultDir(); err != nil {
			return Status{}, err
		}
	}
	s := Status{Kind: k, Dir: dir}
	c, err := Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return Status{}, err
	}
	if c.spec.Kind != k {
		return Status{}, fmt.Errorf("%s holds data of %s, not of %s", dir, c.spec.Kind, k)
	}
	s.Dir, s.Addrs = c.dir, c.Addrs()
	for _, n := range c.nodes {
		ns := NodeStatus{Name: n.Name, Addr: n.Addr(), Log: n.Log()}
		if p := n.current().Process; p.alive() {
			i, _ := processInfo(p.PID)
			ns.PID, ns.Memory = p.PID, i.memory
			ns.Answers = answers(n.plan.listen)
		}
		s.Nodes = append(s.Nodes, ns)
	}
	return s, nil
}

// answers reports whether all addresses accept connections.
func answers(addrs []string) bool {
	for _, addr := range addrs {
		conn, err := net.DialTimeout("tcp4", addr, time.Second)
		if err != nil {
			return false
		}
		conn.Close()
	}
	return true
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
