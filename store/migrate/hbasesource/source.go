// Package hbasesource has tables that an application keeps itself in HBase as sources of package migrate.
//
// HBase knows bytes only. So a [Mapping] says which parts the row key has and which cells are columns, and how these are encoded:
//
//	src, err := hbasesource.New(ctx, db, "shop:orders", hbasesource.Mapping{
//		Key:     []hbasesource.KeyPart{{Name: "customer", As: "utf8", Until: "|"}, {Name: "at", As: "milliseconds"}},
//		Columns: []hbasesource.Column{{Name: "amount", Cell: "d:amount", As: "int64"}},
//	})
//	m, err := migrate.New(tbl, src)
//
// While the migration goes on, the application makes its writes through a [Client].
package hbasesource

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A Source is a table in HBase. It reads the newest version of each cell.
type Source struct {
	db      *hbase.DB
	name    string
	mapping Mapping
	cells   map[string]Column

	mu    sync.Mutex
	known *table // as Describe has seen it last
}

var _ migrate.Source = (*Source)(nil)

// New returns the table of a name, which is TABLE or NAMESPACE:TABLE. The mapping is checked; the table is asked for later.
func New(db *hbase.DB, name string, mapping Mapping) (*Source, error) {
	if err := mapping.Check(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "hbase:") {
		return nil, fmt.Errorf("hbasesource: HBase keeps its own state in %s: name a table of an application", name)
	}
	s := &Source{db: db, name: name, mapping: mapping, cells: make(map[string]Column)}
	for _, c := range mapping.Columns {
		s.cells[c.Cell] = c
	}
	return s, nil
}

// is reports whether a table of HBase is this one, whose name may be without the namespace "default".
func (s *Source) is(table string) bool {
	return strings.TrimPrefix(table, "default:") == strings.TrimPrefix(s.name, "default:")
}

// Name implements [migrate.Source].
func (s *Source) Name() string { return "hbase:" + s.name }

// table returns the table, and asks the cluster for it only if it has not been seen.
func (s *Source) table(ctx context.Context) (*table, error) {
	s.mu.Lock()
	t := s.known
	s.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return s.look(ctx)
}

func (s *Source) look(ctx context.Context) (*table, error) {
	of, err := s.db.Foreign(ctx, s.name)
	if err != nil {
		return nil, err
	}
	t := &table{of, livesOf(of.Families())}
	s.mu.Lock()
	s.known = t
	s.mu.Unlock()
	return t, nil
}

// Fingerprint implements [migrate.Source]. It has the mapping and the column families of the table. HBase has no other name for a
// table, so one that was dropped and made again looks the same.
func (s *Source) Fingerprint(ctx context.Context) (string, error) {
	t, err := s.look(ctx)
	if err != nil {
		return "", err
	}
	return s.print(t), nil
}

// print stays as it is, also in later versions: a migration that goes on would refuse a source with another one.
func (s *Source) print(t *table) string {
	prints := make([]struct {
		Name string
		TTL  time.Duration
	}, len(t.lives))
	for i, f := range t.lives {
		prints[i].Name, prints[i].TTL = f.family, f.ends()
	}
	return fmt.Sprintf("%s %q", s.identity(), prints)
}

// identity is what the fingerprint begins with.
func (s *Source) identity() string { return fmt.Sprintf("%q", s.mapping) }

// Meant returns an error if a fingerprint is that of another mapping: a program with one would bring other values into the table than
// the one that prepared it. Column families that are others than those of the fingerprint are asked for again, since the TTL of one
// may have been changed since this program has seen it.
func (s *Source) Meant(fingerprint string) error {
	s.mu.Lock()
	if s.known != nil && s.print(s.known) != fingerprint {
		s.known = nil
	}
	s.mu.Unlock()
	if strings.HasPrefix(fingerprint, s.identity()) {
		return nil
	}
	return fmt.Errorf("%w: it was prepared with another mapping than this one: take one mapping in all programs and commands or, before the cut-over, abort the migration and prepare it again", migrate.ErrSource)
}

// Now implements [migrate.Source]. It is within some seconds of the clock of the servers, see [hbase.DB.Now].
func (s *Source) Now(ctx context.Context) (time.Time, error) { return s.db.Now(ctx) }

// Describe implements [migrate.Source].
func (s *Source) Describe(ctx context.Context) (migrate.Description, error) {
	t, err := s.look(ctx)
	if err != nil {
		return migrate.Description{}, err
	}
	var d migrate.Description
	d.Key, d.Columns = s.mapping.columns()
	d.TTL, d.Notes = s.life(t)
	for _, c := range s.mapping.Columns {
		if family := c.family(); t.life(family).family == "" {
			d.Unmapped = append(d.Unmapped, fmt.Sprintf("The mapping has %q in cell %s, and the table has no column family %q: mend the mapping.", c.Name, c.Cell, family))
		}
	}
	d.BeforeDrop = []string{
		"Snapshots of the table keep its values: delete them in the shell of HBase with delete_snapshot.",
		"HBase keeps dropped files in its archive until a cleaner removes them (hbase.master.hfilecleaner.ttl, 5 minutes by default), and as long as a snapshot names them.",
	}
	return d, nil
}

// Propose returns a schema that takes all rows of the table, and says in sentences what else its columns may be, as
// [migrate.Description.Propose] does. The first part of the row key is hashed.
func (s *Source) Propose(ctx context.Context, name string) (schema store.Schema, hints []string, err error) {
	d, err := s.Describe(ctx)
	if err != nil {
		return store.Schema{}, nil, err
	}
	if len(d.Unmapped) > 0 {
		return store.Schema{}, nil, fmt.Errorf("%w: %s", migrate.ErrUnfit, d.Unmapped[0])
	}
	schema, hints = d.Propose(name, 1)
	return schema, hints, nil
}

// Scan implements [migrate.Source]. A part is a share of all keys by their first 8 bytes.
func (s *Source) Scan(ctx context.Context, part inspect.Part) iter.Seq2[migrate.Found, error] {
	return func(yield func(migrate.Found, error) bool) {
		if err := part.Check(); err != nil {
			yield(migrate.Found{}, err)
			return
		}
		t, err := s.table(ctx)
		if err != nil {
			yield(migrate.Found{}, err)
			return
		}
		start, end := bounds(part)
		for row, err := range t.Scan(ctx, start, end) {
			var found migrate.Found
			if err == nil {
				found = s.found(t, row.Key, row.Cells)
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// bounds returns the keys that a part has. They are cut from one line, so that a part of a finer cut is within one of a coarser cut
// whose number divides that of the finer.
func bounds(part inspect.Part) (start, end []byte) {
	at := func(i int) []byte {
		return binary.BigEndian.AppendUint32(nil, uint32(uint64(i)<<32/uint64(part.Of)))
	}
	if part.Index > 0 {
		start = at(part.Index)
	}
	if part.Index < part.Of-1 {
		end = at(part.Index + 1)
	}
	return start, end
}

// Read implements [migrate.Source].
func (s *Source) Read(ctx context.Context, keys []store.Row) ([]migrate.Found, error) {
	t, err := s.table(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]migrate.Found, 0, len(keys))
	for len(found) < len(keys) {
		batch := keys[len(found):min(len(keys), len(found)+driver.MaxBatch)]
		rows := make([][]byte, len(batch))
		for i, key := range batch {
			if rows[i], err = s.mapping.rowKey(key); err != nil {
				return nil, fmt.Errorf("hbasesource: %w", err)
			}
		}
		cells, err := t.GetBatch(ctx, rows)
		if err != nil {
			return nil, err
		}
		for i := range batch {
			found = append(found, s.found(t, rows[i], cells[i]))
		}
	}
	return found, nil
}

// found returns the row of a key, which has some cells. A row that has none does not exist.
func (s *Source) found(t *table, key []byte, cells []driver.Cell) migrate.Found {
	row, bad := s.mapping.readKey(key)
	f, err := migrate.Found{Row: row}, bad
	ends, ending := make(map[time.Time]bool), true
	for _, c := range cells {
		name := string(c.Qualifier)
		column, known := s.cells[name]
		if !known && s.mapping.ignores(name) {
			continue
		}
		f.Exists = true
		if written := time.UnixMilli(c.Stamp); written.After(f.Written) {
			f.Written = written
		}
		end, expires := t.expiry(name, c.Stamp)
		ending = ending && expires
		ends[end] = true
		if end.After(f.Expires) {
			f.Expires = end
		}
		if !known {
			family, _, _ := strings.Cut(name, ":")
			err = cmp.Or(err, fmt.Errorf("it has a cell of column family %s that the mapping does not name: name it as a column, or among those to ignore", family))
			continue
		}
		v, unread := column.readCell(c.Value)
		if unread == nil {
			row[column.Name] = v
		}
		err = cmp.Or(err, unread)
	}
	if !ending || !f.Exists {
		f.Expires = time.Time{}
	}
	f.Mixed = len(ends) > 1
	if err != nil && f.Exists {
		f.Refused = err.Error()
	}
	if bad != nil && f.Exists {
		f.Place = "row key " + binaryText(key)
	}
	return f
}

// binaryText writes a row key as the shell of HBase shows and takes it, within double quotes.
func binaryText(key []byte) string {
	text := []byte{'"'}
	for _, b := range key {
		if b < ' ' || b > '~' || b == '"' || b == '\\' {
			text = fmt.Appendf(text, "\\x%02X", b)
		} else {
			text = append(text, b)
		}
	}
	return string(append(text, '"'))
}

// Drop implements [migrate.Source].
func (s *Source) Drop(ctx context.Context) error {
	t, err := s.db.Foreign(ctx, s.name)
	if errors.Is(err, driver.ErrNoFamily) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.Drop(ctx)
}

// Remains implements [migrate.Source]. A client sees snapshots, and neither files nor logs.
func (s *Source) Remains(ctx context.Context) ([]migrate.Remain, error) {
	names, err := s.db.SnapshotsOf(ctx, s.name)
	if err != nil {
		return nil, err
	}
	var all []migrate.Remain
	for _, name := range names {
		all = append(all, migrate.Remain{What: "snapshot", Where: name, Seen: true, Advice: "delete_snapshot in the shell of HBase"})
	}
	return append(all,
		migrate.Remain{What: "archived files", Where: "the folder archive below hbase.rootdir", Advice: "wait for the cleaner of the archive (hbase.master.hfilecleaner.ttl), when no snapshot names them"},
		migrate.Remain{What: "write-ahead logs", Where: "the folders WALs and oldWALs below hbase.rootdir", Advice: "roll them (wal_roll in the shell), and wait for the cleaner of logs (hbase.master.logcleaner.ttl)"},
		migrate.Remain{What: "backups and replicas", Where: "other clusters and tools that copy the table", Advice: "delete the table there"},
	), nil
}
