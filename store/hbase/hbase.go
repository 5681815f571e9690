// Package hbase implements package driver on Apache HBase, through the client tsuna/gohbase. It
// is tested with HBase 2.6, and with 2.5 and 2.4.
//
// # What is stored
//
// A [DB] is an HBase namespace, and a family is a table of it with the same name. A row key is the
// row key, and all cells of a row are in one column family, "c". A stored qualifier is the letter
// "q" followed by the qualifier, a stored value is the byte 0x01 followed by the value. Other first
// bytes are kept for later formats and refused.
//
// The letter is there because HBase sorts the deletion of a row among the cells with an empty
// qualifier. If such a cell were put after the deletion, a read that begins after it would not
// meet the deletion, and would return what was deleted. The byte is there because HBase's
// conditional put cannot distinguish an empty value from an absent one.
//
// The same step that creates a table writes into it how the family is read, as the table attribute
// "RANGECRYPT_LAYOUT", for example
//
//	format=1 layout=ordered prefix=16 spread=0
//
// A table without it, or with another one than the caller asks for, is [driver.ErrLayout].
//
// The column family keeps one version. Its blocks are encoded with FAST_DIFF, since the row key
// stands in every cell and neighbours share most of it; they are not compressed, because what is
// encrypted does not get smaller. Bloom filters are on rows in ordered families and on row and
// qualifier in wide ones, where a row may be in every file and a cell in one.
//
// # Time
//
// HBase orders the versions of a cell by the time at which a server took them, in milliseconds. A
// deletion covers all that is not younger than itself, even a put that follows in the same
// millisecond. So after a deletion, Apply returns two milliseconds after the server has answered:
// then no clock gives a later put the same time. Timestamps of the client would not need the wait,
// but with them the client whose clock is fast would win over later writes of others. A table with
// HBase's NEW_VERSION_BEHAVIOR, which orders deletions and puts as they came, is refused: it has
// not been tried. When a region moves to a server whose clock is slow, writes lose against older
// ones until that clock has caught up. Keep the servers' clocks synchronised, as HBase demands.
//
// Replace checks the value of the cell that was seen and writes in one atomic step for each row.
// Its deletions have the time of that cell.
//
// When a cell with a time to live ends, HBase shows the version before it, until a compaction
// removes that. So a put with a TTL first looks for an older version, and deletes that in the same
// atomic step, on the condition that the first of its cells is as it was. It costs a read; a put without TTL does not.
//
// # Limits
//
// A conditional put checks one cell and cannot delete, so families are no [driver.Committer]. Conditional tables of package
// store need none. Mutations with a TTL take two requests each, and replacements one if the server is older than HBase 2.4; all
// others go in batches. The server makes each mutation that both puts and deletes, and each replacement, by itself.
//
// The client has neither TLS nor Kerberos. Whoever can read the network sees what the server sees.
package hbase

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"github.com/tsuna/gohbase/zk"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/gate"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

// Options are what may be chosen. The zero value, or a nil pointer, is the default.
type Options struct {
	// Namespace holds the tables. It is created when it does not exist. Default "rangecrypt".
	// Two databases of one cluster have two namespaces.
	Namespace string

	// Root is the folder of the cluster in ZooKeeper. Default "/hbase".
	Root string

	// User is the name given to the servers, which a cluster without Kerberos believes. Default
	// "rangecrypt". Kerberos and TLS are not supported by the client.
	User string

	// Timeout bounds every call whose context has no deadline, and each page of a scan. Default
	// one minute: HBase takes up to that to give the regions of a dead server to another. A call
	// that meets it is [driver.ErrUnavailable].
	Timeout time.Duration

	// SplitRegions is how many regions a new family is divided into, so that several servers
	// take part from the first row on. It is for families whose keys begin with evenly spread
	// bits: those with a PrefixBytes or SpreadBits. Default 1; HBase splits regions that grow.
	SplitRegions int

	// Dial makes the connections to ZooKeeper and the servers, as net.Dialer does, which is the
	// default. It must return a *net.TCPConn where it can: the client writes one request from
	// several pieces, which another type does not keep together.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Client, if not nil, is used for all data instead of one of our own, and not closed. It must
	// come from gohbase.NewClient for the same cluster, with a RegionReadTimeout of more than 30
	// seconds and a FlushInterval of zero, as ours has. For minutes, it may not find a region that was merged after a split, and it waits longer for a server that hangs.
	Client gohbase.Client
}

const (
	layoutAttribute = "RANGECRYPT_LAYOUT"
	format          = 1

	// A server ends a scan that found nothing for half a minute with a message that says how far
	// it came. The client must not have given up by then.
	readTimeout = 70 * time.Second

	// Requests of one connection that wait at the same time are sent as one, at most so many.
	queueSize = 256
)

// A DB is a connection to one namespace of an HBase cluster.
type DB struct {
	quorum, namespace, root, user   string
	timeout, readTimeout, zkTimeout time.Duration
	splits                          int
	gate                            gate.Gate

	client gohbase.Client
	rpc    gohbase.RPCClient
	own    bool

	mu      sync.Mutex
	regions map[hrpc.RegionInfo]struct{} // that requests were sent to
	heed    map[string]hrpc.RegionClient // by address, whose servers heed conditions of single changes
	last    error                        // the last error of a connection, for messages
	closed  bool
}

// Open connects to the cluster whose ZooKeeper servers are given as host:port, separated by
// commas. The servers must answer. One that asks for Kerberos or TLS, which gohbase does not know, is
// [driver.ErrUnauthorised].
//
// Gohbase logs every lost connection to logrus's standard logger; from the first Open on, that
// logger leaves out lines from gohbase.
func Open(ctx context.Context, quorum string, o *Options) (*DB, error) {
	if o == nil {
		o = &Options{}
	}
	d := &DB{
		quorum: quorum, namespace: or(o.Namespace, "rangecrypt"), root: or(o.Root, "/hbase"), user: or(o.User, "rangecrypt"),
		timeout: or(o.Timeout, time.Minute), readTimeout: readTimeout, zkTimeout: 10 * time.Second, splits: o.SplitRegions,
		gate: gate.Gate{Dial: o.Dial}, client: o.Client, regions: make(map[hrpc.RegionInfo]struct{}), heed: make(map[string]hrpc.RegionClient),
	}
	if o.Dial == nil {
		d.gate.Dial = new(net.Dialer).DialContext
	}
	d.gate.Follow(quorum, d.root)
	switch err := gate.Quorum(quorum); {
	case err != nil:
		return nil, err
	case !validNamespace(d.namespace):
		return nil, fmt.Errorf("hbase: namespace %q: need 1 to 60 characters of a-z, A-Z, 0-9 and '_', and not \"hbase\"", d.namespace)
	case d.timeout < 0 || d.splits < 0 || d.splits > 4096:
		return nil, fmt.Errorf("hbase: Timeout %v and SplitRegions %d must not be negative, nor SplitRegions above 4096", d.timeout, d.splits)
	}
	silence()
	ctx, cancel := d.bound(ctx)
	defer cancel()
	ctx, done := d.gate.Opening(ctx)
	defer done()
	if err := d.reach(ctx); err != nil {
		return nil, d.fail(ctx, "open "+quorum, err)
	}
	if d.client == nil {
		d.own = true
		d.client = gohbase.NewClient(quorum,
			gohbase.ZookeeperRoot(d.root), gohbase.ZookeeperTimeout(d.zkTimeout), gohbase.ZooKeeperDialer(d.noting(d.gate.DialZooKeeper)),
			gohbase.RegionDialer(d.noting(d.gate.DialForClient)), gohbase.RegionReadTimeout(d.readTimeout), gohbase.RegionLookupTimeout(d.zkTimeout),
			gohbase.EffectiveUser(d.user), gohbase.RpcQueueSize(queueSize), gohbase.FlushInterval(0))
	}
	rpc, ok := d.client.(gohbase.RPCClient)
	if !ok {
		return nil, errors.New("hbase: Options.Client is not from gohbase.NewClient")
	}
	d.rpc = rpc
	probe := d.get(ctx, []byte("hbase:meta"), []byte{0}, &pb.Get{Row: []byte{0}, ExistenceOnly: pbTrue})
	if _, err := d.send(ctx, probe); err != nil {
		err = d.fail(ctx, "open "+quorum, err) // before it is closed, which would be the reason
		d.Close()
		return nil, err
	}
	return d, nil
}

// reach finds out whether the cluster answers, before there is a client: once that looks for a
// cluster, it does so for ever, also after it was closed.
func (d *DB) reach(ctx context.Context) error {
	for n := 0; ; n++ {
		rc, err := d.dial(ctx, zk.Meta, region.RegionClient)
		if err == nil {
			rc.Close()
			return nil
		}
		d.note(err)
		if refused := gate.RefusedBy(err); refused != nil {
			return refused
		}
		if backOff(ctx, "server_unavailable", n) != nil {
			return err
		}
	}
}

// Describe implements [driver.Describer].
func (d *DB) Describe() driver.Description {
	return driver.Description{System: "hbase", Namespace: d.namespace}
}

// Close releases the connections, unless the client was given.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if !d.own {
		return nil
	}
	d.gate.Shut()
	d.client.Close()
	// Goroutines of the client that look for a region go on after it was closed, until the region is dead.
	for r := range d.regions {
		r.MarkDead()
	}
	return nil
}

// Families implements [driver.DB].
func (d *DB) Families(ctx context.Context) ([]string, error) {
	ctx, m := d.atMaster(ctx)
	defer m.close()
	var r pb.GetTableDescriptorsResponse
	err := m.do(ctx, "GetTableDescriptors", &pb.GetTableDescriptorsRequest{Namespace: &d.namespace}, &r)
	if err != nil && javaClass(err) != "NamespaceNotFoundException" {
		return nil, d.fail(ctx, "list families", err)
	}
	names := []string{}
	for _, t := range r.GetTableSchema() {
		if attribute(t, layoutAttribute) != "" {
			names = append(names, string(t.GetTableName().GetQualifier()))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Family implements [driver.DB]. It needs the master.
func (d *DB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	ctx, m := d.atMaster(ctx)
	defer m.close()
	what := "open family " + spec.Name
	for n := 0; ; n++ {
		schema, err := m.describe(ctx, d.tableName(spec.Name))
		if err == nil && schema != nil {
			if err := d.verify(schema, spec); err != nil {
				return nil, err
			}
			return newFamily(d, spec), nil
		}
		if err == nil && spec.Existing {
			return nil, fmt.Errorf("hbase: %s: %w", what, driver.ErrNoFamily)
		}
		if err == nil {
			err = m.create(ctx, spec)
		}
		if err != nil {
			return nil, d.fail(ctx, what, err)
		}
		// Another client may be creating it: then look again until it is there.
		if err := backOff(ctx, "family_changed", n); err != nil {
			return nil, d.fail(ctx, what, err)
		}
	}
}

func (m *master) describe(ctx context.Context, name *pb.TableName) (*pb.TableSchema, error) {
	var r pb.GetTableDescriptorsResponse
	err := m.do(ctx, "GetTableDescriptors", &pb.GetTableDescriptorsRequest{TableNames: []*pb.TableName{name}}, &r)
	switch {
	case err != nil && (javaClass(err) == "TableNotFoundException" || javaClass(err) == "NamespaceNotFoundException"):
		return nil, nil
	case err != nil || len(r.GetTableSchema()) == 0:
		return nil, err
	}
	return r.GetTableSchema()[0], nil
}

// create makes a table. It returns nil when somebody else does.
func (m *master) create(ctx context.Context, spec driver.FamilySpec) error {
	bloom := "ROW"
	if spec.Layout == driver.LayoutWide {
		bloom = "ROWCOL"
	}
	schema := &pb.TableSchema{
		TableName:  m.db.tableName(spec.Name),
		Attributes: pairs("RANGECRYPT_LAYOUT", layout(spec)),
		ColumnFamilies: []*pb.ColumnFamilySchema{{Name: []byte(wire.ColumnFamily), Attributes: pairs(
			"VERSIONS", "1", "MIN_VERSIONS", "0", "TTL", "2147483647", "KEEP_DELETED_CELLS", "FALSE",
			"BLOOMFILTER", bloom, "DATA_BLOCK_ENCODING", "FAST_DIFF", "COMPRESSION", "NONE",
			"BLOCKSIZE", "65536", "BLOCKCACHE", "true", "IN_MEMORY", "false", "REPLICATION_SCOPE", "0")}},
	}
	request := &pb.CreateTableRequest{TableSchema: schema, SplitKeys: splitKeys(spec, m.db.splits)}
	err := m.procedure(ctx, "CreateTable", request, &pb.CreateTableResponse{})
	if err != nil && javaClass(err) == "NamespaceNotFoundException" {
		// In HBase 2 this has the same answer as CreateTable; gohbase's message is older.
		err = m.procedure(ctx, "CreateNamespace", &pb.CreateNamespaceRequest{
			NamespaceDescriptor: &pb.NamespaceDescriptor{Name: []byte(m.db.namespace)}}, &pb.CreateTableResponse{})
		if err == nil || javaClass(err) == "NamespaceExistException" {
			err = m.procedure(ctx, "CreateTable", request, &pb.CreateTableResponse{})
		}
	}
	if err != nil && javaClass(err) == "TableExistsException" {
		return nil
	}
	return err
}

// normal has attributes of a column family with the values without which reads return something else.
var normal = map[string]string{"VERSIONS": "1", "TTL": "2147483647", "MIN_VERSIONS": "0", "KEEP_DELETED_CELLS": "FALSE", "NEW_VERSION_BEHAVIOR": "FALSE"}

// verify compares a table with what a family needs.
func (d *DB) verify(t *pb.TableSchema, spec driver.FamilySpec) error {
	name := d.namespace + ":" + spec.Name
	found, want := attribute(t, layoutAttribute), layout(spec)
	switch {
	case found == "":
		return fmt.Errorf("hbase: %w: table %s has no attribute %s, as this library makes it: if somebody has taken it from the table, put it back in the shell of HBase: alter '%[2]s', METADATA => {'%[3]s' => '%[4]s'}; if the table is of something else, take another namespace, or drop it there when nobody needs it", driver.ErrLayout, name, layoutAttribute, want)
	case !strings.HasPrefix(found, thisFormat):
		return fmt.Errorf("hbase: %w: table %s has layout %q, which needs a newer version of this library; this one knows format %d",
			driver.ErrLayout, name, found, format)
	case found != want:
		return fmt.Errorf("hbase: %w: table %s has layout %q, not %q", driver.ErrLayout, name, found, want)
	}
	if set := attribute(t, "DURABILITY"); set == "SKIP_WAL" || set == "ASYNC_WAL" {
		return fmt.Errorf("hbase: %w: table %s was altered to DURABILITY=%s, so that acknowledged writes are lost with a server; in the shell of HBase, alter it to DURABILITY => 'USE_DEFAULT'", driver.ErrLayout, name, set)
	}
	for _, cf := range t.GetColumnFamilies() {
		if string(cf.GetName()) != wire.ColumnFamily {
			continue
		}
		for _, a := range cf.GetAttributes() {
			k, v := string(a.GetFirst()), string(a.GetSecond())
			if want := normal[k]; want != "" && !strings.EqualFold(v, want) {
				return fmt.Errorf("hbase: %w: column family %s of table %s was altered to %s=%s, which changes what reads return; in the shell of HBase, alter it to %[4]s => '%[6]s'",
					driver.ErrLayout, wire.ColumnFamily, name, k, v, want)
			}
		}
		return nil
	}
	return fmt.Errorf("hbase: %w: table %s has no column family %s any more: %s", driver.ErrLayout, name, wire.ColumnFamily, gate.Lost)
}

// Drop implements [driver.DB]. One that was interrupted leaves the table disabled; another Drop
// completes it. A table that this library, or this version of it, did not make is not dropped.
func (d *DB) Drop(ctx context.Context, name string) error {
	if (driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered}).Check() != nil {
		return nil // such a family cannot exist
	}
	ctx, m := d.atMaster(ctx)
	defer m.close()
	what := "drop family " + name
	schema, err := m.describe(ctx, d.tableName(name))
	if err != nil || schema == nil {
		return d.fail(ctx, what, err)
	}
	switch found := attribute(schema, layoutAttribute); {
	case found == "":
		return fmt.Errorf("hbase: %w: table %s:%s has no attribute %s, as this library makes it, and is not dropped: drop it in the shell of HBase, unless it is of something else", driver.ErrLayout, d.namespace, name, layoutAttribute)
	case !strings.HasPrefix(found, thisFormat):
		return fmt.Errorf("hbase: %w: table %s:%s has layout %q, which a newer version of this library has to drop", driver.ErrLayout, d.namespace, name, found)
	}
	return d.fail(ctx, what, m.drop(ctx, d.tableName(name)))
}

// drop removes a table. It returns nil when somebody else has.
func (m *master) drop(ctx context.Context, table *pb.TableName) error {
	err := m.procedure(ctx, "DisableTable", &pb.DisableTableRequest{TableName: table}, &pb.DisableTableResponse{})
	if err == nil || javaClass(err) == "TableNotEnabledException" {
		err = m.procedure(ctx, "DeleteTable", &pb.DeleteTableRequest{TableName: table}, &pb.DeleteTableResponse{})
	}
	if err != nil && javaClass(err) == "TableNotFoundException" {
		return nil
	}
	return err
}

// thisFormat is what the layouts of tables begin with that this version knows.
var thisFormat = "format=" + strconv.Itoa(format) + " "

// layout is what a table says of itself.
func layout(s driver.FamilySpec) string {
	kind := "ordered"
	if s.Layout == driver.LayoutWide {
		kind = "wide"
	}
	return fmt.Sprintf("format=%d layout=%s prefix=%d spread=%d", format, kind, s.PrefixBytes, s.SpreadBits)
}

// splitKeys divides the keys of a family evenly into n regions by their first two bytes, where
// those are evenly spread.
func splitKeys(s driver.FamilySpec, n int) [][]byte {
	bits := s.SpreadBits
	if s.PrefixBytes > 0 {
		bits = min(8*s.PrefixBytes, 16)
	}
	n = min(n, 1<<bits)
	var keys [][]byte
	for i := 1; i < n; i++ {
		k := i << 16 / n
		keys = append(keys, []byte{byte(k >> 8), byte(k)})
	}
	return keys
}

func (d *DB) tableName(name string) *pb.TableName {
	return &pb.TableName{Namespace: []byte(d.namespace), Qualifier: []byte(name)}
}

func attribute(t *pb.TableSchema, name string) string {
	for _, a := range t.GetAttributes() {
		if string(a.GetFirst()) == name {
			return string(a.GetSecond())
		}
	}
	return ""
}

func pairs(kv ...string) []*pb.BytesBytesPair {
	var ps []*pb.BytesBytesPair
	for i := 0; i < len(kv); i += 2 {
		ps = append(ps, &pb.BytesBytesPair{First: []byte(kv[i]), Second: []byte(kv[i+1])})
	}
	return ps
}

func validNamespace(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 60 && s != "hbase"
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// bound gives a context without deadline the default one. The key over marks one that had ended before the call.
func (d *DB) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithValue(ctx, over{}, true), func() {}
	}
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d.timeout-d.reserve(), errNoAnswer)
}

// reserve is how much of the time of a call is kept for finding out why there was no answer.
func (d *DB) reserve() time.Duration { return min(d.timeout/10, 500*time.Millisecond) }

// note keeps the reason of a lost connection, which a later timeout does not know. What succeeds makes it nil.
func (d *DB) note(err error) {
	d.mu.Lock()
	d.last = err
	d.mu.Unlock()
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// noting keeps why the client got no connection. The context is the client's own, which no deadline of a caller ends.
func (d *DB) noting(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			d.note(err)
		}
		return conn, err
	}
}

// see remembers the regions that requests were sent to, for Close. It says so where one is sent again, which the client does without
// a word. A change may then be made twice, with others between.
func (d *DB) see(ctx context.Context, before, r hrpc.RegionInfo) {
	if before != nil {
		pause.Repeats(ctx, "server_unavailable")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.regions[r]; ok {
		return
	}
	for old := range d.regions {
		if old.Context().Err() != nil {
			delete(d.regions, old)
		}
	}
	d.regions[r] = struct{}{}
}

// request is what a call of ours begins with.
func (d *DB) request(ctx context.Context, table, key []byte) call {
	return call{ctx: ctx, table: table, key: key, result: make(chan hrpc.RPCResult, 1), seen: d.see}
}

func (d *DB) get(ctx context.Context, table, key []byte, g *pb.Get) *getCall {
	return &getCall{call: d.request(ctx, table, key), get: g}
}
