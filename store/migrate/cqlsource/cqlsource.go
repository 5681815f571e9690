// Package cqlsource reads a CQL table that an application keeps, so that package migrate brings it into an encrypted one.
//
//  1. [Open] or [New] names the table. [Source.Describe] says which types its columns get, and all that cannot be mapped.
//     [Source.Propose] makes a schema for the encrypted table.
//  2. The application writes through a [Session]: each INSERT, UPDATE or DELETE of the table goes to it first, and then the rows that
//     it names are brought into the encrypted table. A statement whose rows cannot be told from its text and values is refused, before it is sent.
//  3. A copier scans the table in parts, and reads single rows again: [Source.Scan], [Source.Read].
//  4. At the end the table is dropped, and [Source.Remains] lists where its values may still be in the clear.
//
// # What clients of the table keep to
//
// What one client was told that it has written, a Source reads. For that, all clients write with the consistency of the
// Source or a stronger one: QUORUM, or LOCAL_QUORUM with a Datacentre. A Session does, whatever that of its statements is.
//
// # What is lost
//
// A row whose values are all null is there if it was inserted, until the end of the time to live that the INSERT had. CQL shows this end for values
// only. So a row that keeps nothing but its key may stay longer in the encrypted table, or go sooner, and a verification finds it.
package cqlsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// Options are what can be chosen for a source.
type Options struct {
	// Datacentre, where it is given, is the one that all clients of the table work in: reads are at LOCAL_QUORUM then, and else at QUORUM.
	Datacentre string

	// Consistency is that of reads, and of writes through a [Session], if another one is needed: EACH_QUORUM or ALL.
	Consistency gocql.Consistency
}

// A Source is a CQL table. Several goroutines may use it at a time.
type Source struct {
	session         *gocql.Session
	end             func() error // closes a session of our own; nil for another
	keyspace, table string
	consistency     gocql.Consistency
	layout          atomic.Pointer[layout] // as it was read last; nil at first
	looking         sync.Mutex             // held while it is read: what is read later is stored later
	stale           atomic.Bool            // whether it is not the one that a migration was prepared with
}

var _ migrate.Source = (*Source)(nil)

// Open connects to the cluster of a URL as --store takes it, with a table after the keyspace: cassandra://HOST/KEYSPACE.TABLE?OPTION=VALUE.
// Nobody is asked for a password: a file or the environment gives it.
func Open(ctx context.Context, url string) (*Source, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	if scheme == "hbase" {
		return nil, errors.New("cqlsource: a table of HBase is a source of package hbasesource, with a mapping of its bytes")
	}
	usage := "it is " + cassandraurl.TableUsage
	if scheme != "cassandra" {
		return nil, fmt.Errorf("cqlsource: %q names no table: %s", cassandraurl.Shown(url), usage)
	}
	n, table, err := cassandraurl.ParseTable(rest)
	if err != nil {
		return nil, fmt.Errorf("cqlsource: %q: %w; %s", cassandraurl.Shown(url), err, usage)
	}
	config := cassandra.Config{Hosts: n.Hosts, Username: n.User, AllowPlaintextPassword: n.PlaintextPassword, Timeout: n.Timeout}
	config.Datacentre, config.Consistency = n.Datacentre, n.Consistency
	if config.Password, config.TLS, err = n.Access(ctx, nil); err != nil {
		return nil, fmt.Errorf("cqlsource: %w", err)
	}
	session, end, err := cassandra.Connect(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("cqlsource: connect to %s: %w", strings.Join(n.Hosts, ", "), err)
	}
	s, err := New(ctx, session, n.Keyspace, table, Options{Datacentre: n.Datacentre, Consistency: n.Consistency})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	s.end = end
	return s, nil
}

// New uses a session that the application has made, and that Close leaves open. The names are as the database has them,
// without quotes. There need not be such a table: what remains of one that was dropped can still be asked for.
func New(ctx context.Context, session *gocql.Session, keyspace, table string, o Options) (*Source, error) {
	s := &Source{session: session, keyspace: keyspace, table: table, consistency: gocql.Quorum}
	if o.Datacentre != "" {
		s.consistency = gocql.LocalQuorum
	}
	if o.Consistency != 0 {
		s.consistency = o.Consistency
	}
	var partitioner string
	if err := s.about("SELECT partitioner FROM system.local").ScanContext(ctx, &partitioner); err != nil {
		return nil, s.failed(ctx, "open", err)
	}
	if !strings.HasSuffix(partitioner, ".Murmur3Partitioner") {
		return nil, fmt.Errorf("cqlsource: %w: the cluster has %s, and tables are cut into parts by the hashes of Murmur3Partitioner only: copy the table to a cluster that has it",
			driver.ErrLayout, partitioner)
	}
	if _, err := s.refresh(ctx); err != nil && !errors.Is(err, driver.ErrNoFamily) {
		return nil, err
	}
	return s, nil
}

// Close ends the connections that Open has made. Where they were lost just before, some may stay until the process ends.
func (s *Source) Close() {
	if s.end != nil {
		_ = s.end()
	}
}

// Name implements [migrate.Source].
func (s *Source) Name() string { return "cassandra:" + s.keyspace + "." + s.table }

// Meant has the layout read again before it is used if it is not the one of a fingerprint: a program may run since before the table
// was altered. It never returns an error, since writers go on where the table is altered in the midst.
func (s *Source) Meant(fingerprint string) error {
	if l := s.layout.Load(); l != nil && l.fingerprint != fingerprint {
		s.stale.Store(true)
	}
	return nil
}

// refresh reads the layout again. Where a column was added that is not mapped, writers go on by the one of before.
func (s *Source) refresh(ctx context.Context) (*layout, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.stale.Store(false)
	l, err := s.read(ctx)
	if err != nil {
		s.stale.Store(true)
		return nil, err
	}
	if before := s.layout.Load(); before == nil || before.id != l.id || len(before.unmapped) > 0 || len(l.unmapped) == 0 {
		s.layout.Store(l)
	}
	return l, nil
}

// usable returns the layout as it was read last, if all of it is mapped. What keeps it from being so may be gone by now.
func (s *Source) usable(ctx context.Context) (*layout, error) {
	l := s.layout.Load()
	if l == nil || s.stale.Load() || len(l.unmapped) > 0 {
		if _, err := s.refresh(ctx); err != nil {
			return nil, err
		}
		l = s.layout.Load()
	}
	return l, l.mapped()
}

// changed is the error of a table that somebody alters, or makes again.
func (s *Source) changed() error {
	return fmt.Errorf("cqlsource: the table %s.%s was altered, or dropped and made again: look at what it is now, and begin again", s.keyspace, s.table)
}

func (s *Source) failed(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cqlsource: %w", cassandra.Failed(ctx, what+" of "+s.keyspace+"."+s.table, err))
}

// query returns a query with the consistency of reads.
func (s *Source) query(stmt string, values ...any) *gocql.Query {
	return s.about(stmt, values...).Consistency(s.consistency)
}

// about returns a query of what any node knows. As it is idempotent, the retry policy of the session may ask another one.
func (s *Source) about(stmt string, values ...any) *gocql.Query {
	return s.session.Query(stmt, values...).Idempotent(true)
}

// atLeast returns a consistency under which what is written is read by the source, where an application would take another one.
func (s *Source) atLeast(c gocql.Consistency) gocql.Consistency {
	if c == gocql.EachQuorum || c == gocql.All {
		return c
	}
	return s.consistency
}

// A raw value is as the server has it: nil is null, which no bytes are not.
type raw struct{ data []byte }

// MarshalCQL implements [gocql.Marshaler].
func (r raw) MarshalCQL(gocql.TypeInfo) ([]byte, error) { return r.data, nil }

// UnmarshalCQL implements [gocql.Unmarshaler]. What it is given is of a buffer for all rows of a page.
func (r *raw) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	if r.data = nil; data != nil {
		r.data = append([]byte{}, data...)
	}
	return nil
}

// number returns an integer of up to 8 bytes.
func (r raw) number() (n uint64) {
	for _, b := range r.data {
		n = n<<8 | uint64(b)
	}
	return n
}

// pointers returns what a row is scanned into.
func pointers(values []raw) []any {
	to := make([]any, len(values))
	for i := range values {
		to[i] = &values[i]
	}
	return to
}
