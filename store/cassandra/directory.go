package cassandra

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/clock"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/given"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The directory is a table with a row for each family, which is written by conditional changes
// only. It gives each family a table of its own, whose name and ID are random, and new whenever a
// family is created. So a family that was dropped and created again is another table, which the
// handles of the old one cannot reach; and clients that create a family at the same time, by
// whichever nodes, create one and the same table. Left to choose, each node takes an ID of its
// own, and the nodes then disagree about the table (CASSANDRA-10699).
//
// To drop a family, its row is marked, then the table is dropped, then the row deleted. Whoever
// meets a mark does the rest.
const (
	directoryTable = "rangecrypt_families"
	formatVersion  = 1

	// The row with what holds for the keyspace as a whole. No family can have the name.
	keyspaceRow = ".keyspace"
)

var directoryColumns = []column{
	{"dropping", "boolean", "regular", -1},
	{"format", "int", "regular", -1},
	{"layout", "text", "regular", -1},
	{"name", "text", "partition_key", 0},
	{"prefix_bytes", "int", "regular", -1},
	{"scope", "text", "regular", -1},
	{"spread_bits", "int", "regular", -1},
	{"table_id", "uuid", "regular", -1},
	{"table_name", "text", "regular", -1},
}

// An entry is a row of the directory.
type entry struct {
	format   int
	layout   string
	prefix   int
	spread   int
	table    string
	id       gocql.UUID
	dropping bool
}

func layoutName(l driver.Layout) string {
	switch l {
	case driver.LayoutOrdered:
		return "ordered"
	case driver.LayoutWide:
		return "wide"
	}
	panic("cassandra: no such layout")
}

// prepare makes the keyspace and its directory, where they do not exist, and checks them.
func (db *DB) prepare(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return pause.Ended(ctx)
	}
	var kept map[string]string
	err := db.system("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", db.keyspace).ScanContext(ctx, &kept)
	switch {
	case errors.Is(err, gocql.ErrNotFound) && db.options.MustExist:
		return db.missing()
	case errors.Is(err, gocql.ErrNotFound):
		replication := given.Literal(db.options.Replication)
		if err = db.change(ctx, fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s", db.keyspace, replication)); refusesOptions(err) {
			return db.failedPart(ctx, "make the keyspace with the replication "+replication, err)
		}
	}
	if err != nil {
		return db.failedPart(ctx, "make the keyspace", err)
	} else if err = given.KeptIn(db.options.Datacentre, kept); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrLayout, err)
	}
	create := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (name text PRIMARY KEY, format int, scope text, layout text, prefix_bytes int, spread_bits int, table_name text, table_id uuid, dropping boolean) WITH ID = %s",
		db.keyspace, directoryTable, directoryID(db.keyspace))
	if db.options.MustExist {
		create = ""
	}
	if _, err := db.table(ctx, directoryTable, create, directoryColumns); errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(db.checkLost(ctx), err)
	} else if err != nil {
		return err
	}
	return db.checkScope(ctx)
}

// checkLost returns an error if there are tables of families in the keyspace, whose directory is never empty then.
func (db *DB) checkLost(ctx context.Context) error {
	i := db.system("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", db.keyspace).IterContext(ctx)
	var name string
	for i.Scan(&name) {
		got, err := db.columns(ctx, name)
		if err != nil {
			return errors.Join(db.failedPart(ctx, "read the columns of tables", err), i.Close())
		}
		if slices.Equal(got, familyColumns(driver.LayoutWide)) || slices.Equal(got, familyColumns(driver.LayoutOrdered)) {
			_ = i.Close()
			return fmt.Errorf("%w: keyspace %s has tables of a store, and the table %s, which says what they are, lacks rows or is gone: restore that from a backup; after a change of the replication, run 'nodetool repair --full' on every node",
				driver.ErrCorrupt, db.keyspace, directoryTable)
		}
	}
	if err := i.Close(); err != nil {
		return db.failedPart(ctx, "list the tables of the keyspace", err)
	}
	return nil
}

// checkClock returns an error if a clock is too far from that of a node. It may be as far as the answer took.
func (db *DB) checkClock(ctx context.Context, now func() time.Time) error {
	var theirs time.Time
	before := now()
	if err := db.system("SELECT toTimestamp(now()) FROM system.local").ScanContext(ctx, &theirs); err != nil {
		return db.failedPart(ctx, "read the clock of a node", err)
	}
	return clock.Compare(before, theirs, now(), cmp.Or(db.options.MaxClockSkew, 10*time.Second))
}

// missing returns the error of a keyspace that is not there, or not ours.
func (db *DB) missing() error {
	return fmt.Errorf("cassandra: there is no store in keyspace %q: %w", db.keyspace, fs.ErrNotExist)
}

// checkScope records how clients of the keyspace make conditional changes, or checks it. The record is made at SERIAL by all of
// them: clients of two data centres that begin at a time would each make their own, and see no other's, at LOCAL_SERIAL.
func (db *DB) checkScope(ctx context.Context) error {
	read := func(level gocql.Consistency) (format int, scope string, err error) {
		q := db.session.Query(fmt.Sprintf("SELECT format, scope FROM %s.%s WHERE name = ?", db.keyspace, directoryTable), keyspaceRow)
		err = db.reading(q).Consistency(level).ScanContext(ctx, &format, &scope)
		return format, scope, err
	}
	format, scope, err := read(db.quorum)
	if errors.Is(err, gocql.ErrNotFound) {
		lost := db.checkLost(ctx)
		names, _ := db.Families(ctx)
		if format, scope, err = read(db.quorum); errors.Is(err, gocql.ErrNotFound) && lost != nil && (len(names) == 0 || db.options.MustExist) { // nobody has made the store meanwhile
			return lost
		}
	}
	if errors.Is(err, gocql.ErrNotFound) && db.options.MustExist {
		return db.missing()
	} else if errors.Is(err, gocql.ErrNotFound) {
		insert := fmt.Sprintf("INSERT INTO %s.%s (name, format, scope) VALUES (?, ?, ?) IF NOT EXISTS USING TTL 0", db.keyspace, directoryTable)
		q := db.once(db.session.Query(insert, keyspaceRow, formatVersion, db.scope)).SerialConsistency(gocql.Serial)
		if _, err = applied(q.IterContext(ctx)); err != nil && notApplied(err) {
			return db.failedPart(ctx, "record the consistency of the keyspace", err)
		}
		format, scope, err = read(gocql.Serial) // also settles an unknown outcome, or another client's
	}
	switch {
	case errors.Is(err, gocql.ErrNotFound):
		return fmt.Errorf("%w: the keyspace's directory could not be written; try again", driver.ErrUnavailable)
	case err != nil:
		return db.failedPart(ctx, "read the directory of families", err)
	case format > formatVersion:
		return newer(format)
	case scope != db.scope:
		return fmt.Errorf("%w: clients of this keyspace make conditional changes at %s, this one is configured for %s; set Datacentre accordingly",
			driver.ErrLayout, scope, db.scope)
	}
	return nil
}

func newer(format int) error {
	return fmt.Errorf("%w: made by a newer version, with format %d; this one reads format %d: take that version", driver.ErrLayout, format, formatVersion)
}

// Family implements [driver.DB].
func (db *DB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	// Each round meets a change by another client, which are rare.
	for range 8 {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cassandra: open family %s: %w", spec.Name, pause.Ended(ctx))
		}
		f, err := db.tryFamily(ctx, spec)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("cassandra: open family %s: %w: others keep dropping it", spec.Name, driver.ErrUnavailable)
}

// tryFamily returns nil when it has to be tried again.
func (db *DB) tryFamily(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	what := "open family " + spec.Name
	e, err := db.lookUp(ctx, spec.Name)
	switch {
	case errors.Is(err, gocql.ErrNotFound) && spec.Existing:
		return nil, fmt.Errorf("cassandra: %s: %w", what, driver.ErrNoFamily)
	case errors.Is(err, gocql.ErrNotFound):
		return nil, db.enter(ctx, spec)
	case err != nil:
		return nil, db.failed(ctx, what, err)
	case e.format > formatVersion:
		return nil, fmt.Errorf("cassandra: family %s: %w", spec.Name, newer(e.format))
	case e.dropping:
		return nil, db.finishDrop(ctx, spec.Name, e)
	case e.layout != layoutName(spec.Layout) || e.prefix != spec.PrefixBytes || e.spread != spec.SpreadBits:
		return nil, fmt.Errorf("cassandra: family %s: %w: it is %s with PrefixBytes %d and SpreadBits %d, not %s with %d and %d", spec.Name, driver.ErrLayout,
			e.layout, e.prefix, e.spread, layoutName(spec.Layout), spec.PrefixBytes, spec.SpreadBits)
	}
	create := familyDDL(db.keyspace, e.table, e.id, spec.Layout, db.options.SpeculateAfter)
	if spec.Existing {
		create = ""
	}
	made, err := db.table(ctx, e.table, create, familyColumns(spec.Layout))
	if spec.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, db.failed(ctx, what, db.await(ctx, spec.Name, e))
	} else if err != nil {
		return nil, fmt.Errorf("cassandra: %s: %w", what, err)
	}
	var id gocql.UUID
	if err := db.system("SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?", db.keyspace, e.table).ScanContext(ctx, &id); err != nil {
		return nil, db.failed(ctx, what, err)
	} else if id != e.id {
		return nil, fmt.Errorf("cassandra: family %s: %w: table %s has ID %s, the directory says %s: somebody has made it again. After a restore that left its ID out, end all clients and "+
			"UPDATE %[6]s.%[7]s SET table_id = %[4]s WHERE name = '%[1]s'; else DROP TABLE %[6]s.%[3]s, and restore it with its ID, or see what is said without it",
			spec.Name, driver.ErrLayout, e.table, id, e.id, db.keyspace, directoryTable)
	}
	if made {
		// The family may have been dropped between reading the directory and making the table,
		// which then would be nobody's.
		now, err := db.lookUp(ctx, spec.Name)
		if err != nil && !errors.Is(err, gocql.ErrNotFound) {
			return nil, db.failed(ctx, what, err)
		}
		if err != nil || now.id != e.id || now.dropping {
			if err := db.change(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %s.%s", db.keyspace, e.table)); err != nil {
				return nil, db.failed(ctx, what, err)
			}
			return nil, nil
		}
	}
	return newFamily(db, spec, e.table), nil
}

// await waits a little for the table of a family that is not there. A node that has just come back may not know of it yet, and a client
// that makes or drops the family may be in the middle of it. If the table is lost, as after somebody has dropped it by hand, the error is
// [driver.ErrNoFamily].
func (db *DB) await(ctx context.Context, name string, e entry) error {
	for range 30 {
		if columns, err := db.columns(ctx, e.table); err != nil || len(columns) > 0 {
			return err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	if now, err := db.lookUp(ctx, name); err == nil && now == e {
		return fmt.Errorf("%w: table %s of keyspace %s is gone", driver.ErrNoFamily, e.table, db.keyspace)
	}
	return nil // it has changed, or is read again
}

// enter puts a family into the directory, unless another client is faster.
func (db *DB) enter(ctx context.Context, spec driver.FamilySpec) error {
	id, err := gocql.RandomUUID()
	if err != nil {
		return fmt.Errorf("cassandra: create family %s: %w", spec.Name, err)
	}
	var suffix [5]byte
	rand.Read(suffix[:])
	// A table has at most 48 characters, a family 40.
	table := spec.Name + "_" + strings.ToLower(base32.StdEncoding.EncodeToString(suffix[:]))[:7]
	insert := fmt.Sprintf("INSERT INTO %s.%s (name, format, layout, prefix_bytes, spread_bits, table_name, table_id, dropping) VALUES (?, ?, ?, ?, ?, ?, ?, false) IF NOT EXISTS USING TTL 0",
		db.keyspace, directoryTable)
	_, err = db.conditional(ctx, insert, spec.Name, formatVersion, layoutName(spec.Layout), spec.PrefixBytes, spec.SpreadBits, table, id)
	return db.settled(ctx, "create family "+spec.Name, err)
}

// Families implements [driver.DB]. One whose drop was not finished, as where the role lacks the right, still has its data.
func (db *DB) Families(ctx context.Context) ([]string, error) {
	q := db.session.Query(fmt.Sprintf("SELECT name FROM %s.%s", db.keyspace, directoryTable))
	i := db.reading(q).PageSize(1000).IterContext(ctx)
	names := []string{}
	var name string
	for i.Scan(&name) {
		if name != keyspaceRow {
			names = append(names, name)
		}
	}
	if err := i.Close(); err != nil {
		return nil, db.failed(ctx, "list families", err)
	}
	slices.Sort(names)
	return names, nil
}

// Drop implements [driver.DB].
func (db *DB) Drop(ctx context.Context, name string) error {
	if !validName(name, 40) {
		return nil // such a family cannot exist
	}
	for range 8 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("cassandra: drop family %s: %w", name, pause.Ended(ctx))
		}
		e, err := db.lookUp(ctx, name)
		switch {
		case errors.Is(err, gocql.ErrNotFound):
			return nil
		case err != nil:
			return db.failed(ctx, "drop family "+name, err)
		case e.format > formatVersion:
			return fmt.Errorf("cassandra: drop family %s: %w", name, newer(e.format))
		case e.dropping:
			err = db.finishDrop(ctx, name, e)
		default:
			update := fmt.Sprintf("UPDATE %s.%s USING TTL 0 SET dropping = true WHERE name = ? IF table_id = ?", db.keyspace, directoryTable)
			_, err = db.conditional(ctx, update, name, e.id)
			err = db.settled(ctx, "drop family "+name, err)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("cassandra: drop family %s: %w: others keep creating it", name, driver.ErrUnavailable)
}

// finishDrop does what is left to do when a family has been marked.
func (db *DB) finishDrop(ctx context.Context, name string, e entry) error {
	what := "drop family " + name
	if err := db.change(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %s.%s", db.keyspace, e.table)); err != nil {
		err = db.failed(ctx, what, err)
		// A role without the rights takes back a family whose table it could not make.
		if columns, other := db.columns(ctx, e.table); other != nil || len(columns) > 0 || !errors.Is(err, driver.ErrUnauthorised) {
			return err
		}
	}
	db.doubts.Delete(e.table)
	_, err := db.conditional(ctx, fmt.Sprintf("DELETE FROM %s.%s WHERE name = ? IF table_id = ?", db.keyspace, directoryTable), name, e.id)
	return db.settled(ctx, what, err)
}

// settled returns the error of a change of the directory, or nil where its outcome is unknown:
// the caller reads the directory again anyway, and may make the change again, since it names the
// table whose entry it changes.
func (db *DB) settled(ctx context.Context, what string, err error) error {
	var request gocql.RequestError // an answer: the server lives
	if err == nil || ctx.Err() == nil && !notApplied(err) && errors.As(err, &request) {
		return nil
	}
	return db.failed(ctx, what, err)
}

// lookUp reads the entry of a family. At SERIAL it sees every change of the directory, also one
// whose author does not know whether it was made.
func (db *DB) lookUp(ctx context.Context, name string) (e entry, err error) {
	q := db.session.Query(fmt.Sprintf("SELECT format, layout, prefix_bytes, spread_bits, table_name, table_id, dropping FROM %s.%s WHERE name = ?",
		db.keyspace, directoryTable), name)
	err = db.reading(q).Consistency(db.serial).ScanContext(ctx, &e.format, &e.layout, &e.prefix, &e.spread, &e.table, &e.id, &e.dropping)
	if err == nil && e.format <= formatVersion && !validName(e.table, 48) {
		err = fmt.Errorf("%w: the directory names a table %q for it", driver.ErrLayout, e.table)
	}
	return e, err
}

// table makes a table unless it exists, checks its columns, and waits until every node that is up
// can serve it, whoever made it. It reports whether it did not exist. Without a statement that makes it, it must.
func (db *DB) table(ctx context.Context, name, create string, want []column) (made bool, err error) {
	within, cancel := context.WithTimeoutCause(ctx, agreementTimeout, errDisagree)
	defer cancel()
	for {
		ready := false
		got, err := db.columns(within, name)
		if err == nil && len(got) == 0 && create == "" {
			return false, db.missing()
		}
		if err == nil && len(got) == 0 {
			made = true
			err = db.change(within, create)
		} else if err == nil {
			if !slices.Equal(got, want) {
				return false, fmt.Errorf("%w: table %s.%s has the columns %v, need %v: a column was added, which ALTER TABLE drops again, or it was made "+
					"by a newer version, which is to be taken then, or by something else: then take another keyspace", driver.ErrLayout, db.keyspace, name, got, want)
			}
			ready, err = db.everywhere(within, name, want)
		}
		switch {
		case within.Err() != nil:
			return false, db.failedPart(ctx, "table "+name, pause.Ended(within))
		case err != nil && !unknownYet(err):
			return false, db.failedPart(ctx, "table "+name, err)
		case ready:
			return made, nil
		}
		_ = pause.For(within, 50*time.Millisecond) // its end is looked at above
	}
}

// everywhere reports whether all nodes that are up can serve a table. That they agree on the
// version of the schema does not say so: a table can be read of in system_schema before its node
// serves it and informs the others.
func (db *DB) everywhere(ctx context.Context, name string, columns []column) (bool, error) {
	key := columns[slices.IndexFunc(columns, func(c column) bool { return c.kind == "partition_key" })].name
	probe := fmt.Sprintf("SELECT %s FROM %s.%s WHERE %s = ? LIMIT 1", key, db.keyspace, name, key)
	for _, host := range db.session.GetHosts() {
		if !host.IsUp() {
			continue
		}
		i := db.system(probe, []byte{0}).SetHostID(host.HostID()).IterContext(ctx)
		err := i.Close()
		if ctx.Err() != nil {
			return false, pause.Ended(ctx)
		}
		if err != nil && unknownYet(err) {
			return false, nil
		}
		// Any other error comes from a node that knows the table, has gone, or is in another data
		// centre.
	}
	return true, nil
}

// columns returns the columns of a table, but for those of indexes.
func (db *DB) columns(ctx context.Context, table string) ([]column, error) {
	i := db.system("SELECT column_name, type, kind, position FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?", db.keyspace, table).IterContext(ctx)
	var all []column
	var c column
	for i.Scan(&c.name, &c.typ, &c.kind, &c.position) {
		if c.typ != "varint" || c.kind != "regular" {
			all = append(all, c)
		}
	}
	return all, i.Close()
}

// change changes the schema and waits until the nodes have it.
func (db *DB) change(ctx context.Context, stmt string) error {
	q := db.session.Query(stmt).Idempotent(true).RetryPolicy(new(retry)).DefaultTimestamp(false)
	if err := q.ExecContext(ctx); err != nil {
		return err
	}
	return db.agree(ctx)
}

// agree waits until all nodes that are up have the same schema.
//
// gocql's AwaitSchemaAgreement would also wait for nodes that are down, for as long as they are.
func (db *DB) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, agreementTimeout, errDisagree)
	defer cancel()
	for {
		versions := make(map[gocql.UUID]struct{})
		var failure error
		for _, host := range db.session.GetHosts() {
			if !host.IsUp() {
				continue
			}
			var version gocql.UUID
			err := db.system("SELECT schema_version FROM system.local WHERE key = 'local'").SetHostID(host.HostID()).ScanContext(ctx, &version)
			switch {
			case ctx.Err() != nil:
				return pause.Ended(ctx)
			case err != nil: // it has just gone, or belongs to another data centre
				failure = err
			default:
				versions[version] = struct{}{}
			}
		}
		switch len(versions) {
		case 0:
			return cmp.Or(failure, gocql.ErrNoConnections)
		case 1:
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// Nodes exchange their schemas within seconds.
const agreementTimeout = 30 * time.Second

var errDisagree = fmt.Errorf("%w: the nodes do not agree on the schema: 'nodetool describecluster' shows which differ; try again when they agree", driver.ErrUnavailable)

// system reads a table that is local to each node.
func (db *DB) system(stmt string, values ...any) *gocql.Query {
	return db.reading(db.session.Query(stmt, values...)).Consistency(gocql.One)
}

// conditional executes one conditional statement and reports whether it was applied.
func (db *DB) conditional(ctx context.Context, stmt string, values ...any) (bool, error) {
	return applied(db.once(db.session.Query(stmt, values...)).IterContext(ctx))
}

// reading prepares a query that may be repeated.
func (db *DB) reading(q *gocql.Query) *gocql.Query {
	return db.repeated(q.Consistency(db.quorum).DefaultTimestamp(false).PageSize(0))
}

// repeated prepares a query that takes effect once, however often it is sent: it is a read, or has its timestamp.
func (db *DB) repeated(q *gocql.Query) *gocql.Query {
	q = q.Idempotent(true).RetryPolicy(new(retry))
	if twice := db.twice(); twice != nil {
		q = q.SetSpeculativeExecutionPolicy(twice)
	}
	return q
}

// twice returns how such a query is sent to two nodes, or nil where it is not.
func (db *DB) twice() gocql.SpeculativeExecutionPolicy {
	if db.options.SpeculateAfter == 0 {
		return nil
	}
	return speculation{db}
}

type speculation struct{ db *DB }

// Attempts implements [gocql.SpeculativeExecutionPolicy]. Without a second node the second attempt would fail at once, and
// gocql takes the first answer, of whatever kind.
func (s speculation) Attempts() int {
	up := 0
	for _, host := range s.db.session.GetHosts() {
		if host.IsUp() {
			up++
		}
	}
	return min(1, max(0, up-1))
}

// Delay implements [gocql.SpeculativeExecutionPolicy].
func (s speculation) Delay() time.Duration { return s.db.options.SpeculateAfter }

// once prepares a conditional query.
func (db *DB) once(q *gocql.Query) *gocql.Query {
	// The columns of the answer depend on the outcome: not those of the prepared statement.
	// gocql asks the policy of a statement only where that is idempotent.
	return q.Consistency(db.quorum).SerialConsistency(db.serial).DefaultTimestamp(false).Idempotent(true).RetryPolicy(hooks.Elsewhere).NoSkipMetadata()
}

// applied reads the answer to a conditional statement or batch.
func applied(i *gocql.Iter) (bool, error) {
	columns := i.Columns()
	if len(columns) == 0 {
		if err := i.Close(); err != nil {
			return false, err
		}
		return false, errors.New("the server's answer does not say whether the change was applied")
	}
	var ok bool
	into := make([]any, len(columns)) // nil is skipped
	into[0] = &ok
	found := i.Scan(into...)
	if err := i.Close(); err != nil {
		return false, err
	}
	if !found {
		return false, errors.New("the server's answer does not say whether the change was applied")
	}
	return ok, nil
}

// directoryID is the ID of the directory's table, the same for all who create it.
func directoryID(keyspace string) gocql.UUID {
	sum := sha256.Sum256([]byte("rangecrypt directory of " + keyspace))
	id := gocql.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8, custom
	id[8] = id[8]&0x3f | 0x80
	return id
}
