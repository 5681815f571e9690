// Package store keeps encrypted tables in a wide-column database and runs range queries on them
// in the database. The database sees the order and equality of ordered columns, never a value;
// the keys stay with the client. Any number of independent clients share a database without a
// proxy: all that they have to agree on is in the database itself, sealed.
//
// A [Store] is opened on a [driver.DB] (packages store/pebble, store/cassandra and store/hbase)
// with a master key. Tables have a [Schema]: a row key out of plain, hashed and ordered parts,
// and columns that are plain, randomised, deterministic or ordered. Rows are written with
// [Table.Put] and found with [Table.Query], whose predicate is turned into ranges of ciphertexts.
//
// # What is stored
//
// The sealed cell is the truth, everything that is searched is a hint. A cell holds the exact
// value under XChaCha20-Poly1305, bound to its table, column and row key. An ordered column
// besides has postings: keys of an index family that consist of the ciphertext of the value, the
// row key and the id of the write. A posting counts only if the cell it points to is of the same
// write and its value satisfies the predicate, so that postings that were left behind by a
// client that died do no harm.
//
// # What a query promises
//
// A row that is not written during the query is returned exactly once. A row that is written
// meanwhile, be it with the values it had, may be seen with either values or missed; it is never
// returned twice. On a database with snapshots (store/pebble) a query sees one instant.
//
// # What is given away
//
// See docs/security.md: order and equality, the number and sizes of cells, which columns of a row
// are null, and which rows a query touches. An operator who puts old cells back, or leaves rows
// out, is not noticed.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Options are the optional parameters of [Open]. The zero value is the default.
type Options struct {
	// Logger receives events worth knowing, such as a posting that points to nothing, never a
	// value, key or ciphertext. Default: none.
	Logger *slog.Logger

	// TracerProvider and MeterProvider receive spans and metrics. Default: the global ones of
	// OpenTelemetry, which do nothing unless the application has set them.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Concurrency is the number of requests that one call keeps under way at a time. Default 32.
	// More hides more latency; it also takes more memory and, on a small server, throughput.
	Concurrency int

	// CacheValues is how many values of each column with a stateful scheme are remembered, at most
	// 64 bytes each; at least 4096. Default 1,000,000, which is all that a column can have. With
	// fewer, values that were not used lately take more round trips to write.
	CacheValues int
}

// A Store is an encrypted database: the tables of one catalogue. It is safe for concurrent use.
type Store struct {
	db          driver.DB
	keys        keys
	catalogue   *catalogue
	observer    *observer
	concurrency int
	remembers   int

	mu     sync.Mutex
	tables map[tableID]*Table
}

// Open opens the encrypted database in db and creates its catalogue when there is none. It does
// not take db over: the caller closes db after the last use of the Store.
//
// A key that is not the one the database was made with is [ErrWrongKey]; a database of a newer
// format is [ErrFormat].
func Open(ctx context.Context, db driver.DB, master ope.Key, opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	if db == nil {
		return nil, errors.New("store: no database given")
	}
	if master.IsZero() {
		return nil, fmt.Errorf("store: %w: the zero Key holds no secret", ope.ErrKey)
	}
	if opts.Concurrency < 0 {
		return nil, fmt.Errorf("store: Concurrency is %d", opts.Concurrency)
	}
	if opts.CacheValues != 0 && opts.CacheValues < 4096 {
		return nil, fmt.Errorf("store: CacheValues is %d, need at least 4096, or 0 for the default", opts.CacheValues)
	}
	st := &Store{
		db:          db,
		observer:    newObserver(opts),
		concurrency: opts.Concurrency,
		remembers:   opts.CacheValues,
		tables:      make(map[tableID]*Table),
	}
	if st.concurrency == 0 {
		st.concurrency = 32
	}
	var err error
	if st.catalogue, err = openCatalogue(ctx, db, master); err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	st.keys = newKeys(master, st.catalogue.database)
	return st, nil
}

// Create makes a table. A table of the same name is [ErrExists]; a schema that makes no sense is
// [ErrSchema], with the part or column named.
func (st *Store) Create(ctx context.Context, schema Schema) (_ *Table, err error) {
	ctx, end := st.observer.operation(ctx, "create", "")
	defer func() { end(0, err) }()
	meta, err := newTableMeta(schema)
	if err != nil {
		return nil, fmt.Errorf("store: create: %w", err)
	}
	// The families come first: a client that sees the table in the catalogue finds them.
	// Families of a Create that died here are empty, and nothing points to them.
	tbl, _, err := st.open(ctx, meta)
	if err != nil {
		return nil, fmt.Errorf("store: create table %q: %w", schema.Name, err)
	}
	if err := st.catalogue.add(ctx, meta); err != nil {
		if errors.Is(err, ErrExists) {
			// After any other error the table may be in the catalogue, and others may use it.
			st.forget(ctx, meta)
		}
		return nil, fmt.Errorf("store: create table %q: %w", schema.Name, err)
	}
	return tbl, nil
}

// Table opens a table. One that does not exist is [ErrNoTable].
func (st *Store) Table(ctx context.Context, name string) (*Table, error) {
	meta, err := st.catalogue.table(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("store: table %q: %w", name, err)
	}
	for {
		tbl, known, err := st.open(ctx, meta)
		if err != nil {
			return nil, fmt.Errorf("store: table %q: %w", name, err)
		}
		if known {
			return tbl, nil
		}
		// Opening a family makes it where it is not. Had the table been dropped after its entry
		// was read, its rows would go to families that nothing refers to.
		now, err := st.catalogue.table(ctx, name)
		if err == nil && now.ID == meta.ID {
			return tbl, nil
		}
		if err == nil || errors.Is(err, ErrNoTable) {
			st.forget(ctx, meta)
		}
		if err != nil {
			return nil, fmt.Errorf("store: table %q: %w", name, err)
		}
		meta = now
	}
}

// Tables returns the schemas of all tables, by name in ascending order.
func (st *Store) Tables(ctx context.Context) ([]Schema, error) {
	metas, err := st.catalogue.tables(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: tables: %w", err)
	}
	schemas := make([]Schema, len(metas))
	for i, meta := range metas {
		if schemas[i], err = meta.schema(); err != nil {
			return nil, fmt.Errorf("store: table %q: %w", meta.Name, err)
		}
	}
	return schemas, nil
}

// Drop removes a table with all its rows. One that does not exist is [ErrNoTable]. Readers and
// writers of the table get errors from now on.
func (st *Store) Drop(ctx context.Context, name string) (err error) {
	ctx, end := st.observer.operation(ctx, "drop", "")
	defer func() { end(0, err) }()
	meta, err := st.catalogue.remove(ctx, name)
	if err != nil {
		return fmt.Errorf("store: drop table %q: %w", name, err)
	}
	if err := st.dropFamilies(ctx, meta); err != nil {
		return fmt.Errorf("store: drop table %q: it is gone from the catalogue, but its data is not yet; drop families %s: %w",
			name, strings.Join(meta.families(), ", "), err)
	}
	return nil
}

// open returns the table that meta describes, with its families, from memory where it was opened
// before, and whether it was.
func (st *Store) open(ctx context.Context, meta *tableMeta) (_ *Table, known bool, _ error) {
	st.mu.Lock()
	tbl := st.tables[meta.ID]
	st.mu.Unlock()
	if tbl != nil {
		return tbl, true, nil
	}
	tbl, err := newTable(ctx, st, meta)
	if err != nil {
		return nil, false, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if first := st.tables[meta.ID]; first != nil {
		return first, true, nil
	}
	st.tables[meta.ID] = tbl
	return tbl, false, nil
}

func (st *Store) forget(ctx context.Context, meta *tableMeta) {
	// Nothing refers to these families; failing to drop them costs their empty space.
	_ = st.dropFamilies(context.WithoutCancel(ctx), meta)
}

func (st *Store) dropFamilies(ctx context.Context, meta *tableMeta) error {
	st.mu.Lock()
	delete(st.tables, meta.ID)
	st.mu.Unlock()
	var err error
	for _, family := range meta.families() {
		err = errors.Join(err, st.db.Drop(ctx, family))
	}
	return err
}

// each calls do for 0 to n-1, as many at a time as Concurrency allows, and returns the first error.
// A goroutine does many, so that it need not grow its stack for each.
func (st *Store) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(st.concurrency, n) {
		group.Go(func() error {
			for {
				i := int(taken.Add(1)) - 1
				if i >= n {
					return nil
				}
				if ctx.Err() != nil {
					return ended(ctx)
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}
