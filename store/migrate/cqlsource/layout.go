package cqlsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A layout is what the database says of a table. It never changes.
type layout struct {
	table       string // with its keyspace, as CQL has it
	id          gocql.UUID
	key         []column // the parts of the partition key first
	partition   int      // how many parts these are
	columns     []column // in the order of their names
	fingerprint string
	unmapped    []string
	ttl         time.Duration
	views       []string
	indexes     []string
	cdc         bool // changes go to files for others to read
}

// A column is a part of the key, or a column.
type column struct {
	name, cql string
	kind      kind
	info      gocql.TypeInfo // as gocql binds its values
}

// quoted returns a name as CQL takes it, whatever it is.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// list returns the names of columns, each by a format that takes one, with a text between them.
func list(columns []column, format, between string) string {
	var texts []string
	for _, c := range columns {
		texts = append(texts, fmt.Sprintf(format, quoted(c.name)))
	}
	return strings.Join(texts, between)
}

// all returns the parts of the key and the columns.
func (l *layout) all() []column { return append(slices.Clip(l.key), l.columns...) }

// mapped returns an error with all that cannot be mapped.
func (l *layout) mapped() error {
	if len(l.unmapped) == 0 {
		return nil
	}
	return fmt.Errorf("%w: table %s: %s", store.ErrSchema, l.table, strings.Join(l.unmapped, " "))
}

// read reads the layout.
func (s *Source) read(ctx context.Context) (*layout, error) {
	l, err := s.readTable(ctx)
	if err != nil {
		return nil, err
	}
	of := []any{s.keyspace, s.table}
	if l.views, err = s.names(ctx, "SELECT view_name FROM system_schema.views WHERE keyspace_name = ? AND base_table_name = ? ALLOW FILTERING", of...); err != nil {
		return nil, err
	}
	if l.indexes, err = s.names(ctx, "SELECT index_name FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = ?", of...); err != nil {
		return nil, err
	}
	masked, err := s.names(ctx, "SELECT column_name FROM system_schema.column_masks WHERE keyspace_name = ? AND table_name = ?", of...)
	if errors.Is(err, driver.ErrNoFamily) {
		err = nil // before Cassandra 5 there are none
	} else if err != nil {
		return nil, err
	}
	for _, name := range masked {
		l.unmapped = append(l.unmapped, fmt.Sprintf("The column %s has a mask, in place of which values would be copied: ALTER it to be DROP MASKED for the time.", name))
	}
	if len(l.unmapped) == 0 {
		err = s.readTypes(ctx, l)
	}
	return l, err
}

// readTable reads what a fingerprint is of: the table and its columns.
func (s *Source) readTable(ctx context.Context) (*layout, error) {
	l := &layout{table: quoted(s.keyspace) + "." + quoted(s.table)}
	var ttl int
	err := s.about("SELECT id, default_time_to_live, cdc FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?", s.keyspace, s.table).
		ScanContext(ctx, &l.id, &ttl, &l.cdc)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, s.missing(ctx)
	}
	if err != nil {
		return nil, s.failed(ctx, "read the schema", err)
	}
	l.ttl = time.Duration(ttl) * time.Second
	return l, s.readColumns(ctx, l)
}

// names returns the first column of all rows of a query.
func (s *Source) names(ctx context.Context, stmt string, values ...any) (names []string, err error) {
	i := s.about(stmt, values...).IterContext(ctx)
	for name := ""; i.Scan(&name); {
		names = append(names, name)
	}
	return names, s.failed(ctx, "read the schema", i.Close())
}

// tables returns the names of all tables and materialised views of the keyspace.
func (s *Source) tables(ctx context.Context) (tables, views []string, err error) {
	tables, err = s.names(ctx, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", s.keyspace)
	if err != nil {
		return nil, nil, err
	}
	views, err = s.names(ctx, "SELECT view_name FROM system_schema.views WHERE keyspace_name = ?", s.keyspace)
	return tables, views, err
}

// missing returns the error of a table that is not there, with one that may be meant.
func (s *Source) missing(ctx context.Context) error {
	tables, views, err := s.tables(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the keyspace %s has no table %s", s.keyspace, s.table)
	switch i := slices.IndexFunc(tables, func(t string) bool { return strings.EqualFold(t, s.table) }); {
	case i >= 0:
		what += ", but " + tables[i] + ": names have capital letters or not"
	case slices.Contains(views, s.table):
		what += ": that is a materialised view; name the table that it is of"
	case len(tables) == 0:
		what = fmt.Sprintf("there is no keyspace %s with tables", s.keyspace)
	}
	return fmt.Errorf("cqlsource: %w: %s", driver.ErrNoFamily, what)
}

// readColumns reads the columns of a layout.
func (s *Source) readColumns(ctx context.Context, l *layout) error {
	type place struct {
		column
		of       string // partition_key, clustering, regular or static
		position int
	}
	var all []place
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", l.id)
	i := s.about("SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?", s.keyspace, s.table).IterContext(ctx)
	for {
		var p place
		var order string
		if !i.Scan(&p.name, &p.of, &p.position, &p.cql, &order) {
			break
		}
		fmt.Fprintf(hash, "%q %s %d %s %s\n", p.name, p.of, p.position, p.cql, order) // in the order of names
		all = append(all, p)
	}
	if err := i.Close(); err != nil {
		return s.failed(ctx, "read the schema", err)
	}
	l.fingerprint = hex.EncodeToString(hash.Sum(nil)[:16])
	slices.SortStableFunc(all, func(a, b place) int { return a.position - b.position })
	take := func(of string, to *[]column) {
		for _, p := range all {
			if p.of == of {
				l.checkColumn(&p.column, of)
				*to = append(*to, p.column)
			}
		}
	}
	take("partition_key", &l.key)
	l.partition = len(l.key)
	take("clustering", &l.key)
	take("regular", &l.columns)
	take("static", &l.columns)
	return nil
}

// checkColumn finds the kind of a column, and notes why it cannot be mapped.
func (l *layout) checkColumn(c *column, of string) {
	k, ok := kinds[c.cql]
	c.kind = k
	no := func(why string) {
		l.unmapped = append(l.unmapped, fmt.Sprintf("The column %s (%s) %s.", c.name, c.cql, why))
	}
	const rename = ": rename it if it is in the key, or add one with another name, and drop this one"
	switch {
	case !ok:
		l.unmapped = append(l.unmapped, unmapped(c.name, c.cql))
	case of == "static":
		no("is static, that is, one value of many rows: put it into a table of its own, whose key is the partition key, and drop it")
	case of == "partition_key" && k.rigid:
		no("is in the partition key, where 1.0 and 1.00 are two keys, and an encrypted table has one: make a table with another type, and take that as the source")
	case len(c.name) > 100:
		no("has a name of more than 100 bytes" + rename)
	case strings.ContainsFunc(c.name, unicode.IsControl), c.name != strings.TrimSpace(c.name):
		l.unmapped = append(l.unmapped, fmt.Sprintf("The column %q (%s) has a name with a control character, or with a space at an end%s.", c.name, c.cql, rename))
	}
}

// readTypes reads how values are bound to the columns.
func (s *Source) readTypes(ctx context.Context, l *layout) error {
	prepared, err := s.session.StatementMetadata(ctx, "SELECT "+list(l.all(), "%s", ", ")+" FROM "+l.table, s.keyspace)
	if err != nil {
		return s.failed(ctx, "prepare a read", err)
	}
	if len(prepared.ResultColumns) != len(l.all()) {
		return s.changed()
	}
	for i, c := range prepared.ResultColumns {
		if i < len(l.key) {
			l.key[i].info = c.TypeInfo
		} else {
			l.columns[i-len(l.key)].info = c.TypeInfo
		}
	}
	return nil
}

// Fingerprint implements [migrate.Source].
func (s *Source) Fingerprint(ctx context.Context) (string, error) {
	l, err := s.readTable(ctx)
	if err != nil {
		return "", err
	}
	return l.fingerprint, nil
}

// Now implements [migrate.Source]. It is the clock of the node that answers: those of clients, who give the times of writes, should be the same.
func (s *Source) Now(ctx context.Context) (at time.Time, err error) {
	err = s.about("SELECT toTimestamp(now()) FROM system.local").ScanContext(ctx, &at)
	return at, s.failed(ctx, "read the clock of a node", err)
}

// Describe implements [migrate.Source].
func (s *Source) Describe(ctx context.Context) (migrate.Description, error) {
	l, err := s.refresh(ctx)
	if err != nil {
		return migrate.Description{}, err
	}
	d := l.describe()
	if d.BeforeDrop, err = s.beforeDrop(ctx, l); err != nil || len(l.unmapped) > 0 {
		return d, err
	}
	e, err := s.estimate(ctx, l)
	d.Rows, d.Bytes, d.AtLeast = e.rows, e.bytes, e.atLeast
	return d, err
}

// describe returns what the schema of the table says.
func (l *layout) describe() migrate.Description {
	public := func(columns []column) (to []migrate.Column) {
		for _, c := range columns {
			to = append(to, migrate.Column{Name: c.name, Type: c.kind.typ, Foreign: c.cql})
		}
		return to
	}
	return migrate.Description{Key: public(l.key), Columns: public(l.columns), Unmapped: l.unmapped, TTL: l.ttl}
}

// Propose returns a schema that takes all rows of the table, and says in sentences what else its columns may be, as
// [migrate.Description.Propose] does. Parts of the partition key are hashed.
func (s *Source) Propose(ctx context.Context, name string) (schema store.Schema, hints []string, err error) {
	l, err := s.refresh(ctx)
	if err == nil {
		err = l.mapped()
	}
	if err != nil {
		return store.Schema{}, nil, err
	}
	schema, hints = l.describe().Propose(name, l.partition)
	return schema, hints, nil
}

// What an estimate reads: of tables of up to so many rows the hashes of all. Of others so many rows of each place, and places.
const counted, sampled, places = 10_000, 200, 8

// An estimated table has about so many rows, and bytes of values. It may have far more if only a few of its partitions were seen.
type estimated struct {
	rows, bytes int64
	atLeast     bool
}

// estimate counts the rows of a small table. It estimates those of another by how close the hashes of some partitions are.
func (s *Source) estimate(ctx context.Context, l *layout) (estimated, error) {
	n, all, err := s.count(ctx, l)
	if err != nil {
		return estimated{}, err
	}
	e, sample, err := s.sample(ctx, l)
	switch {
	case err != nil || sample.rows == 0:
		return e, err
	case all:
		return estimated{rows: n, bytes: n * sample.bytes / sample.rows}, nil
	case e.rows < n:
		e = estimated{rows: n, bytes: n * sample.bytes / sample.rows, atLeast: true}
	}
	return e, nil
}

// count counts rows, at most so many, and reports whether these are all.
func (s *Source) count(ctx context.Context, l *layout) (n int64, all bool, err error) {
	hash := "token(" + list(l.key[:l.partition], "%s", ", ") + ")"
	i := s.query("SELECT "+hash+" FROM "+l.table+" LIMIT ?", counted).PageSize(mostPage).IterContext(ctx)
	for hash := int64(0); i.Scan(&hash); {
		n++
	}
	if err = i.Close(); cassandra.TooManyMarkers(err) { // an estimate need not know
		return n, false, nil
	}
	return n, n < counted, s.failed(ctx, "count", err)
}

// sample reads some rows of each place, and returns what they say of all, and how many they are.
func (s *Source) sample(ctx context.Context, l *layout) (all, sample estimated, err error) {
	const few = 40 // partitions, which say too little of all others
	var line float64
	cut, partitions := false, 0
	hash := "token(" + list(l.key[:l.partition], "%s", ", ") + ")"
	stmt := "SELECT " + hash + ", " + list(l.all(), "%s", ", ") + " FROM " + l.table + " WHERE " + hash + " >= ? AND " + hash + " <= ? LIMIT ?"
	for place := range places {
		from, to := cassandra.Tokens(place, places)
		values := make([]raw, 1+len(l.all()))
		i := s.query(stmt, from, to, sampled).PageSize(sampled).IterContext(ctx)
		n, last := 0, int64(0)
		for ; i.Scan(pointers(values)...); n++ {
			if is := int64(values[0].number()); n == 0 || is != last {
				partitions, last = partitions+1, is
			}
			for _, v := range values[1:] {
				sample.bytes += int64(len(v.data))
			}
		}
		if err := i.Close(); err != nil {
			if cassandra.TooManyMarkers(err) {
				continue // an estimate need not know
			}
			return all, sample, s.failed(ctx, "estimate", err)
		}
		if cut = cut || n == sampled; n < sampled {
			last = to
		}
		sample.rows, line = sample.rows+int64(n), line+(float64(last)-float64(from))
	}
	if line <= 0 {
		return all, sample, nil
	}
	all.atLeast = cut && partitions < few
	whole := 18446744073709551616 / line // of the line of hashes
	all.rows, all.bytes = int64(float64(sample.rows)*whole), int64(float64(sample.bytes)*whole)
	return all, sample, nil
}
