// Package cassandra implements package driver on Apache Cassandra, through gocql, the driver of the Cassandra project. It is
// tested with Cassandra 5.0, and with 4.1 and 4.0, which have no indexes for [driver.Indexer].
//
// A family is a table. Cassandra orders the rows of a partition but not the partitions. So the
// row keys of a family with [driver.LayoutOrdered] are a clustering column. The partition is the
// prefix and the bucket that the specification names: a fixed number of leading bits, which keep
// their order. A row of [driver.LayoutWide] is a partition of its own.
//
// Reads and writes are made at QUORUM by default, conditional changes at SERIAL, so that what one client
// was told another one reads. Conditional changes are sent to one node that knows the table, and never repeated. Other
// mutations carry a timestamp of this client's clock, in microseconds and always rising, so that
// of two mutations by one client the later one wins. Between clients the clocks decide: keep them
// synchronised, by NTP for example.
//
// Replace writes without a condition, as fast as Apply. A replacement has the timestamp right after
// that of what was seen, one of seven that no mutation ever has, so that every later mutation
// wins over it. What it deletes has the timestamp of what was seen. So of two replacements with one
// Seen, Cassandra decides cell by cell: of what both put the greater value is left, and what only one
// of them puts is there, even where the other deletes it. It cannot say which came too late.
//
// A row that was replaced seven times since it was last written is not replaced again until a minute
// after that. A row that was read must be replaced within the table's gc_grace_seconds, ten days by
// default: after that, Cassandra may have forgotten that the row was deleted in between.
//
// # What the server must allow
//
// A value of 8 MiB ([driver.MaxValue]) needs a max_mutation_size and a
// native_transport_max_message_size above it. The defaults of Cassandra, 16 MiB each, are
// enough; a commitlog_segment_size below 32 MiB lowers the first. Everything that one
// [driver.Mutation] or one conditional change holds has to fit together, conditions included.
//
// A conditional change has a timestamp of the server's. Deleting a row that has seen one, Apply
// first asks for the youngest timestamp in it, in families with [driver.LayoutWide]. In those with
// [driver.LayoutOrdered], whose rows are deleted by the thousand, it does not: a client whose clock
// is behind the server's deletes such a row only if that was changed longer ago.
//
// Cassandra's default, commitlog_sync: periodic, writes an acknowledged mutation to the disk of
// each replica within ten seconds. It survives the death of processes, but not a loss of power
// on all replicas at a time; commitlog_sync: batch or group does.
package cassandra

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/semaphore"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/clock"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/given"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Options are what can be chosen for any connection.
type Options struct {
	// Keyspace is the name space: 1 to 48 of a-z, 0-9 and '_', beginning with a letter. It must be given. Where it does not
	// exist it is made. Tables of others may be in it.
	Keyspace string

	// Replication is how a keyspace that does not exist is made: the map of CREATE KEYSPACE, for example
	// {"class": "NetworkTopologyStrategy", "dc1": "3"}. By default there is one copy of everything (SimpleStrategy), which
	// is for trying out only. The replication of a keyspace that exists is left as it is.
	Replication map[string]string

	// MustExist makes Open write nothing where the keyspace, or a store in it, does not exist: that is fs.ErrNotExist.
	MustExist bool

	// Datacentre, where it is given, names the one data centre that all clients of the keyspace work in, for ever: they use
	// LOCAL_QUORUM and LOCAL_SERIAL, which are faster and go on when other data centres cannot be reached. Clients of two
	// data centres that did so would not see each other's conditional changes. So the choice is recorded in the keyspace, once
	// and at SERIAL in all of them; a client that makes another one gets [driver.ErrLayout]. By default it is QUORUM and SERIAL.
	Datacentre string

	// Consistency is that of reads and writes: by default QUORUM, or LOCAL_QUORUM with a Datacentre.
	// EACH_QUORUM, in a keyspace with NetworkTopologyStrategy, and ALL keep the same promises, beside
	// clients with the default, too. Any other level is refused, as a client would not read what another
	// one was told that it has written. Conditional changes are at SERIAL, or LOCAL_SERIAL.
	Consistency gocql.Consistency

	// InFlight is how many statements of Apply are under way at a time, by all goroutines
	// together. Default 64: more of them gain nothing on a small cluster and make it time out.
	InFlight int

	// SpeculateAfter is how long a statement may be under way before it is sent to a second node, too; the first answer
	// counts. So the calls go on while a node hangs, with which clients keep their connections. Only reads are sent twice,
	// and writes that got their timestamp before: one that arrives late loses to what was written since. Conditional
	// changes never are. A value well above the usual time of an answer, as 200 ms, costs little. Tables that are made with
	// it tell nodes to ask one replica more after half of it or, for wide rows, a twentieth (speculative_retry). By default no
	// statement is sent twice, and a call waits for a node that hangs until Timeout.
	SpeculateAfter time.Duration

	// MaxClockSkew is how far the clock of this machine may be from that of a node when the database is opened, by default 10 s.
	// Clients give the time of each write, and the later time stays: what a clock that is ahead has written or
	// deleted is not replaced by writes of others until that time has come.
	MaxClockSkew time.Duration

	// Logger gets warnings about how the data lies, and what gocql reports, never a key or a value. By default nothing is logged.
	Logger *slog.Logger
}

// Config says how to connect.
type Config struct {
	Options

	// Hosts are the nodes to ask for the others, as host or host:port. At least one. An IPv6 address is ::1 or [::1]:port.
	Hosts []string

	// Port is that of hosts without one. Default 9042.
	Port int

	// Username and Password log in. They are not sent without TLS, unless AllowPlaintextPassword is set.
	Username, Password     string
	AllowPlaintextPassword bool

	// TLS, where it is given, encrypts all connections. The name of each node is verified against
	// its certificate unless the configuration itself says InsecureSkipVerify. At least TLS 1.2
	// is used.
	TLS *tls.Config

	// Timeout is how long the answer to one statement may take. It should be more than the
	// server's own timeouts, so that the server's answer, which says more, comes first. Default
	// 11 s.
	Timeout time.Duration

	// ConnectTimeout is how long each step of connecting to a node may take. Default 5 s.
	ConnectTimeout time.Duration

	// Dial makes the connections to the nodes, as net.Dialer does, which is the default: for a
	// network that is reached by a proxy, say. It gets the address of a node as the cluster has
	// it. ConnectTimeout bounds it. TLS, where it is given, is spoken over what it returns.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DB is a keyspace. It implements [driver.DB]; its families are [driver.Committer].
type DB struct {
	session  *gocql.Session
	attempts *attempts // of the session; none of one that the application has made
	owned    bool
	keyspace string
	scope    string // of conditional changes, as recorded
	quorum   gocql.Consistency
	serial   gocql.Consistency
	clock    clock.Clock
	slots    *semaphore.Weighted // one for each statement of Apply under way
	log      *slog.Logger
	options  Options
	noIn     bool     // servers before Cassandra 4.1 scan no rows for several of their cells
	doubts   sync.Map // from the name of a table to its *doubt.Rows

	open   context.Context // ends when Close begins
	close  context.CancelFunc
	checks sync.WaitGroup // of the checks under way in the background
}

var _ driver.Describer = (*DB)(nil)

// Open connects to a cluster. If no node answers, or too few for the replication of the keyspace, the
// error is [driver.ErrUnavailable]. If either side refuses the login or a certificate, it is
// [driver.ErrUnauthorised]. If the keyspace was made by a newer version, or holds tables of others
// under the names used here, it is [driver.ErrLayout].
func Open(ctx context.Context, config Config) (*DB, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	session, attempts, err := config.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("cassandra: connect to %s: %w", strings.Join(config.Hosts, ", "), err)
	}
	db, err := newDB(ctx, session, attempts, config.Options)
	if err != nil {
		_ = closeSession(ctx, session)
		return nil, err
	}
	db.owned = true
	return db, nil
}

// Connect makes a session as Open does, for tables that applications keep, and what closes it. It uses no Keyspace.
func Connect(ctx context.Context, config Config) (*gocql.Session, func() error, error) {
	config.Keyspace = "unused"
	if err := config.check(); err != nil {
		return nil, nil, err
	}
	session, _, err := config.connect(ctx)
	return session, func() error { return closeSession(context.Background(), session) }, err
}

// New uses a session that the application has made, and that Close leaves open. The session must
// speak version 4 of the protocol or later. Its retry policy, default timestamps and default
// consistency are not used, but its host selection is: with a Datacentre it must keep to it.
func New(ctx context.Context, session *gocql.Session, options Options) (*DB, error) {
	if session == nil {
		return nil, errors.New("cassandra: no session given")
	}
	return newDB(ctx, session, new(attempts), options)
}

func newDB(ctx context.Context, session *gocql.Session, attempts *attempts, options Options) (*DB, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	db := &DB{
		session: session, attempts: attempts, keyspace: options.Keyspace, options: options,
		quorum: gocql.Quorum, serial: gocql.Serial, scope: "SERIAL",
		log: options.Logger,
	}
	db.noIn = OlderThan(session, 4, 1) != ""
	db.open, db.close = context.WithCancel(context.Background())
	if options.Datacentre != "" {
		db.quorum, db.serial = gocql.LocalQuorum, gocql.LocalSerial
		db.scope = "LOCAL_SERIAL in " + options.Datacentre
	}
	if options.Consistency != 0 {
		db.quorum = options.Consistency
	}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	db.slots = semaphore.NewWeighted(int64(cmp.Or(options.InFlight, 64)))
	err := db.prepare(ctx)
	if err == nil {
		err = db.checkClock(ctx, time.Now)
	}
	if err != nil {
		return nil, hooks.Connected(fmt.Errorf("cassandra: open keyspace %s: %w", db.keyspace, err))
	}
	return db, nil
}

// OlderThan returns the release of a node that is older than one, or "" if there is none. ScyllaDB says that it is Cassandra 3.
func OlderThan(session *gocql.Session, major, minor int) string {
	for _, host := range session.GetHosts() {
		if v := host.Version(); v.Before(major, minor, 0) {
			return v.String()
		}
	}
	return ""
}

// Describe implements [driver.Describer].
func (db *DB) Describe() driver.Description {
	return driver.Description{System: "cassandra", Namespace: db.keyspace, Backdates: true, Undecided: true}
}

// Close implements [driver.DB]. Where the connections were lost just before, gocql may wait for itself. Then Close
// returns after ten seconds all the same, with an error: goroutines and a connection stay until the process ends.
func (db *DB) Close() error {
	db.close()
	db.checks.Wait()
	if db.owned {
		return closeSession(context.Background(), db.session)
	}
	return nil
}

// errNotClosed is returned where gocql did not end its connections.
var errNotClosed = errors.New("cassandra: the connections were lost, and gocql does not end its search for others; some of its goroutines stay")

// closeSession closes a session, but does not wait for ever, nor longer than the context lives. A session that is looking
// whether its control connection lives waits for the answer first. One that is just making that connection again waits for
// its list of tables to be read, and Close of gocql has stopped what reads that.
func closeSession(ctx context.Context, session *gocql.Session) error {
	done := make(chan struct{})
	go func() {
		session.Close()
		close(done)
	}()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errNotClosed
	}
}

func (o *Options) check() error {
	switch {
	case !validName(o.Keyspace, 48):
		return fmt.Errorf("cassandra: keyspace %q: need 1 to 48 characters of a-z, 0-9 and '_', beginning with a letter", o.Keyspace)
	case o.InFlight < 0:
		return fmt.Errorf("cassandra: InFlight is %d", o.InFlight)
	case o.SpeculateAfter < 0:
		return fmt.Errorf("cassandra: SpeculateAfter is %v", o.SpeculateAfter)
	case o.MaxClockSkew < 0:
		return fmt.Errorf("cassandra: MaxClockSkew is %v", o.MaxClockSkew)
	}
	switch o.Consistency {
	case 0, gocql.EachQuorum, gocql.All: // 0 is gocql's ANY, which can read nothing
	case gocql.LocalQuorum:
		if o.Datacentre == "" {
			return errors.New("cassandra: Consistency LOCAL_QUORUM needs a Datacentre: clients of two data centres would not see each other's writes")
		}
	case gocql.Quorum:
		if o.Datacentre != "" {
			return errors.New("cassandra: Consistency QUORUM with a Datacentre: a write may miss the quorum there, where others read; take LOCAL_QUORUM, EACH_QUORUM or ALL")
		}
	default:
		return fmt.Errorf("cassandra: Consistency %v would not read what other clients have written; take QUORUM, EACH_QUORUM or ALL, or LOCAL_QUORUM with a Datacentre", o.Consistency)
	}
	return cmp.Or(given.Replication(o.Replication), given.KeptIn(o.Datacentre, o.Replication))
}

// validName reports whether a name needs no quotes, nor could end one.
func validName(name string, most int) bool {
	valid := len(name) >= 1 && len(name) <= most && name[0] >= 'a' && name[0] <= 'z'
	for _, c := range []byte(name) {
		valid = valid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
	}
	return valid
}

func (c *Config) check() error {
	if err := c.Options.check(); err != nil {
		return err
	}
	switch {
	case len(c.Hosts) == 0:
		return errors.New("cassandra: no hosts given")
	case c.Username == "" && c.Password != "":
		return errors.New("cassandra: a password without a user name")
	case c.Username != "" && c.TLS == nil && !c.AllowPlaintextPassword:
		return errors.New("cassandra: the password would be sent unencrypted: set TLS, or AllowPlaintextPassword where the network is trusted")
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("cassandra: Port is %d, need 1 to 65535, or 0 for 9042", c.Port)
	case c.Timeout < 0:
		return fmt.Errorf("cassandra: Timeout is %v", c.Timeout)
	case c.ConnectTimeout < 0:
		return fmt.Errorf("cassandra: ConnectTimeout is %v", c.ConnectTimeout)
	}
	return given.Hosts(c.Hosts)
}

// cluster returns the configuration of gocql.
func (c *Config) cluster() *gocql.ClusterConfig {
	cluster := gocql.NewCluster(c.Hosts...)
	if c.Port != 0 {
		cluster.Port = c.Port
	}
	if c.Timeout != 0 {
		cluster.Timeout = c.Timeout
	}
	cluster.ConnectTimeout = cmp.Or(c.ConnectTimeout, 5*time.Second)
	cluster.Consistency = gocql.Quorum
	cluster.SerialConsistency = gocql.Serial
	cluster.DefaultTimestamp = false
	cluster.PageSize = maxPage // also of what gocql asks for itself: a server may forbid more (page_size_fail_threshold)
	// By default gocql lets a request wait for others for 200 us, to send them as one. Its timer takes a millisecond where
	// the process has nothing else to do, and a Put waits for two: for its write, and for the read of the version after it.
	// The connection sends as one what is there anyway, see [hooks.Gather].
	cluster.WriteCoalesceWaitTime = 0
	// gocql keeps metadata of keyspaces in order to find all replicas of a partition. To get
	// it, it waits ten seconds at the start when a node is down whose schema is old. Without, it
	// finds the first replica, which is all that is wanted below.
	cluster.Metadata.CacheMode = gocql.Disabled
	// gocql waits for nodes that are down as well. What matters is waited for in agree.
	cluster.MaxWaitSchemaAgreement = time.Second
	cluster.Logger = hooks.Logger{To: c.Logger}
	// A node that was away is used again soon. The default is a minute.
	cluster.ReconnectInterval = 2 * time.Second
	cluster.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 2, Interval: 200 * time.Millisecond}
	// A statement goes to the first node that holds the partition, and to any other when that is
	// down. So conditional changes of one partition mostly meet at one node.
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy(), gocql.DoNotShuffleReplicas())
	if c.SpeculateAfter > 0 {
		cluster.PoolConfig.HostSelectionPolicy = &hooks.Wary{HostSelectionPolicy: cluster.PoolConfig.HostSelectionPolicy, After: c.SpeculateAfter}
	}
	cluster.RetryPolicy = again{&gocql.SimpleRetryPolicy{NumRetries: 2}}
	if c.Datacentre != "" {
		cluster.HostFilter = gocql.DataCenterHostFilter(c.Datacentre)
		cluster.Consistency, cluster.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	}
	cluster.Authenticator = noLogin{}
	if c.Username != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: c.Username, Password: c.Password}
	}
	if c.TLS != nil {
		config := c.TLS.Clone()
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		cluster.SslOpts = &gocql.SslOptions{Config: config}
	}
	return cluster
}

// connect makes a session. gocql knows no context there, so that its connections are cut when
// the context is done.
func (c *Config) connect(ctx context.Context) (*gocql.Session, *attempts, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, pause.Ended(ctx)
	}
	cluster := c.cluster()
	d := &openingDialer{dial: c.Dial, timeout: cluster.ConnectTimeout, conns: make(map[net.Conn]struct{})}
	if d.dial == nil {
		d.dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	if cluster.SslOpts != nil {
		d.tls = cluster.SslOpts.Config
	}
	cluster.HostDialer = d
	attempts := new(attempts)
	cluster.ConnectObserver = attempts

	type result struct {
		session *gocql.Session
		err     error
	}
	done := make(chan result, 1)
	go func() {
		session, err := cluster.CreateSession()
		done <- result{session, err}
	}()
	select {
	case r := <-done:
		d.opened()
		if r.err == nil {
			return r.session, attempts, nil
		}
		return nil, nil, c.refusal(ctx, d, attempts.worst(), r.err)
	case <-ctx.Done():
		d.abort()
		go func() {
			if r := <-done; r.session != nil {
				r.session.Close()
			}
		}()
		return nil, nil, fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, pause.Ended(ctx))
	}
}

// refusal returns why there is no session, from what gocql says of it, which is a text, and why a
// connection failed, which may be nil.
func (c *Config) refusal(ctx context.Context, d *openingDialer, cause *failedAttempt, err error) error {
	if cause == nil && c.Datacentre != "" && strings.Contains(err.Error(), hostFiltered) {
		return c.elsewhere(ctx, err)
	}
	if cause == nil && strings.Contains(err.Error(), ": Guardrail ") { // which the configuration of the server forbids
		return err
	}
	if cause == nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	advice, kind := kindOf(cause.err)
	if c.TLS == nil && kind == driver.ErrUnavailable && d.speaksTLS(ctx, cause.address) {
		advice, kind = "the server expects TLS there: set TLS", driver.ErrUnauthorised
	}
	err = cause.err
	if c.TLS != nil && kind != driver.ErrUnauthorised {
		// Where a server ends a connection, gocql may not say what it said last.
		if said := d.greet(ctx, cause.address, c.TLS); said != nil && mistrust(said) != "" {
			advice, kind, err = mistrust(said), driver.ErrUnauthorised, said
		}
	}
	if kind == nil {
		kind = driver.ErrUnavailable
	}
	if advice != "" {
		return fmt.Errorf("%w: %w: %s", kind, err, advice)
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// hostFiltered is in what gocql says of a host in another data centre.
const hostFiltered = "host was filtered"

// elsewhere returns the error of hosts that are not in the data centre, with those that the cluster has.
func (c *Config) elsewhere(ctx context.Context, err error) error {
	anywhere := *c
	anywhere.Datacentre, anywhere.Consistency = "", 0
	session, _, again := anywhere.connect(ctx)
	if again != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	defer func() { _ = closeSession(ctx, session) }()
	var centres []string
	for _, host := range session.GetHosts() {
		centres = append(centres, host.DataCenter())
	}
	slices.Sort(centres)
	centres = slices.Compact(centres)
	if slices.Contains(centres, c.Datacentre) {
		return fmt.Errorf("%w: the hosts are not in the data centre %s: give some that are", driver.ErrLayout, c.Datacentre)
	}
	return fmt.Errorf("%w: the cluster has no data centre %q, but %s", driver.ErrLayout, c.Datacentre, strings.Join(centres, ", "))
}

// noLogin is for configurations without a user name.
type noLogin struct{}

var errNoLogin = errors.New("the server asks for a login")

func (noLogin) Challenge([]byte) ([]byte, gocql.Authenticator, error) { return nil, nil, errNoLogin }
func (noLogin) Success([]byte) error                                  { return nil }

// attempts are the connections that a session tried to make, at the start and later. CreateSession
// returns errors as texts only, and statements say no more than that there is no connection.
type attempts struct {
	mu    sync.Mutex
	found *failedAttempt
	last  map[string]error // by address, since a connection was made
}

type failedAttempt struct {
	address string
	err     error
}

// ObserveConnect implements [gocql.ConnectObserver].
func (a *attempts) ObserveConnect(o gocql.ObservedConnect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o.Err == nil {
		a.found, a.last = nil, nil
		return
	}
	address := o.Host.ConnectAddressAndPort()
	if a.last == nil {
		a.last = make(map[string]error)
	}
	a.last[address] = o.Err
	if a.found == nil || !errors.Is(a.found.kind(), driver.ErrUnauthorised) {
		a.found = &failedAttempt{address, o.Err}
	}
}

// refused returns why no node lets the session in, or nil if one may do so later: it did not answer.
func (a *attempts) refused() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, err = range a.last {
		if _, kind := kindOf(err); kind != driver.ErrUnauthorised {
			return nil
		}
	}
	return err
}

// worst returns the last failure since a connection was made, or one that more attempts do not mend.
func (a *attempts) worst() *failedAttempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.found
}

func (f *failedAttempt) kind() error {
	_, kind := kindOf(f.err)
	return kind
}

// An openingDialer keeps the connections that are made until the session is there.
type openingDialer struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration
	tls     *tls.Config

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // nil once open
	aborted bool
}

// DialHost implements [gocql.HostDialer] as gocql does, but for a time that the handshake of TLS has: a node that hangs accepts
// connections, and never ends it.
func (d *openingDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	conn, err := d.DialContext(ctx, "tcp", host.ConnectAddressAndPort())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return gocql.WrapTLS(ctx, conn, host.HostnameAndPort(), d.tls)
}

func (d *openingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	aborted := d.aborted
	d.mu.Unlock()
	if aborted {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	if err == nil {
		conn = at(hooks.Gather(conn), network, address)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case d.aborted:
		_ = conn.Close()
		return nil, net.ErrClosed
	case d.conns != nil:
		d.conns[conn] = struct{}{}
	}
	return conn, nil
}

// at returns a connection that says it leads to address. Gocql takes the port of all nodes from the
// first connection, which may be one to a proxy.
func at(conn net.Conn, network, address string) net.Conn {
	if conn.RemoteAddr().String() == address {
		return conn
	}
	remote, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return conn
	}
	return located{conn, remote}
}

type located struct {
	net.Conn
	remote net.Addr
}

func (l located) RemoteAddr() net.Addr { return l.remote }

func (d *openingDialer) opened() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = nil
}

var errSpoke = errors.New("the server speaks TLS")

// speaksTLS reports whether a server that does not answer in the clear begins to speak TLS. Nothing
// is sent to it but the beginning of a handshake.
func (d *openingDialer) speaksTLS(ctx context.Context, address string) bool {
	err := d.greet(ctx, address, &tls.Config{
		InsecureSkipVerify: true, // nothing depends on who it is
		VerifyConnection:   func(tls.ConnectionState) error { return errSpoke },
	})
	var network *net.OpError
	return errors.Is(err, errSpoke) || errors.As(err, &network) && network.Op == "remote error"
}

// greet connects with TLS, and returns what is wrong with that.
func (d *openingDialer) greet(ctx context.Context, address string, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := d.dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if config = config.Clone(); config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	// In TLS 1.3 the server looks at the client's certificate after that.
	_ = secure.SetReadDeadline(time.Now().Add(time.Second))
	_, err = secure.Read(make([]byte, 1))
	return err
}

func (d *openingDialer) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aborted = true
	for conn := range d.conns {
		_ = conn.Close()
	}
}
