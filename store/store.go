package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/observe"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Options are the optional parameters of [Open]. The zero value is the default.
type Options struct {
	// Logger receives events worth knowing, such as a posting that points to nothing, never a value, key or ciphertext. Default: none.
	// A call that fails is WARN, also by the end of a deadline, since the database may be slow. It is DEBUG where the caller
	// cancelled it or made a mistake. What a call survives is WARN. No other levels are used.
	Logger *slog.Logger

	// TracerProvider and MeterProvider receive spans and metrics. Default: the global ones of
	// OpenTelemetry, which do nothing unless the application has set them.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Concurrency is the number of requests that one call keeps under way at a time. Default 32. A read of many rows counts
	// as one; what it sends for that, the package of the database bounds.
	// More hides more latency; it also takes more memory and, on a small server, throughput.
	Concurrency int

	// CacheValues is how many values of each column with a stateful scheme are remembered, at most 64 bytes each, with
	// [KerschbaumRanked] 112; at least 4096. Default 1,000,000. Values that are not remembered, since there are more and they
	// were not used lately, take more round trips to write.
	CacheValues int

	// NoLease lets writes go without the lease of [Store.SetLease]: for a machine whose clock may stop.
	NoLease bool

	// ReadRepair has queries put the copies that index entries lack, see [Column.Covering]. They neither wait for that nor fail by it.
	ReadRepair bool
}

// A Store is an encrypted database: the tables of one catalogue. It is safe for concurrent use.
type Store struct{ db *session.Database }

// Open opens the encrypted database in db and creates its catalogue when there is none. It does
// not take db over: the caller closes db after the last use of the Store, and after [Store.Close].
//
// The master key is with a key management service, or is given by [kms.NewLocal]. The service is asked once, to
// unwrap the key of the database or, where there is no catalogue yet, to wrap a new one; and by [Store.RotateMaster],
// if another client has rotated the master key since.
//
// A key that is not the database's master key is [ErrWrongKey]; a database of a newer format is [ErrFormat].
func Open(ctx context.Context, db driver.DB, master kms.KMS, opts *Options) (_ *Store, err error) {
	if opts == nil {
		opts = &Options{}
	}
	if db == nil {
		return nil, errors.New("store: no database given")
	}
	if master == nil {
		return nil, errNoKMS
	}
	if opts.Concurrency < 0 {
		return nil, fmt.Errorf("store: Concurrency is %d", opts.Concurrency)
	}
	if opts.CacheValues != 0 && opts.CacheValues < 4096 {
		return nil, fmt.Errorf("store: CacheValues is %d, need at least 4096, or 0 for the default", opts.CacheValues)
	}
	within := session.Options{
		Observer:    observe.New(opts.Logger, opts.TracerProvider, opts.MeterProvider),
		Concurrency: cmp.Or(opts.Concurrency, 32),
		Remembers:   opts.CacheValues,
		NoLease:     opts.NoLease,
		ReadRepair:  opts.ReadRepair,
		Fill:        rewrite.FinishIndex,
	}
	ctx, end := within.Observer.Operation(ctx, "open", "")
	defer func() { end(0, err) }()
	opened, err := session.Open(ctx, observe.Requests(db), master, within)
	if errors.Is(err, ErrWrongKey) {
		return nil, fault.Prefixed(err)
	}
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	return &Store{opened}, nil
}

// Close waits for what writes have left to do: they return when their rows are durable and found, and the index entries of
// rows that were replaced go afterwards. A program that ends without Close may leave some of these, which do no harm and
// take space until 'rangecrypt verify --repair'. A call after Close leaves nothing.
//
// Close does not close the database that [Open] was given. Its error is that of ctx, if that ends first.
func (st *Store) Close(ctx context.Context) error { return st.db.Close(ctx) }

var errNoKMS = errors.New("store: no key management service given; kms.NewLocal makes one of a key")

// RotateMaster replaces the master key of the database: the key of the database, which all others depend on, is wrapped by
// another service in place of the one it was opened with. That is one small write; no data is touched, and clients that have
// the database open go on. From now on [Open] needs the new service. Whoever has the old master key and an old copy of the
// catalogue can still read the database.
//
// An error may leave either of the two; the old service is to be kept until Open accepts the new, and as long as there are backups from
// before. Where another client has rotated the master key to a third since this one knows it, that stays, and the error is
// [ErrWrongKey]: open the database again with the present master key.
func (st *Store) RotateMaster(ctx context.Context, to kms.KMS) error {
	if to == nil {
		return errNoKMS
	}
	return st.call(ctx, "rotate master", "rotate the master key", func(ctx context.Context) error {
		return st.db.Catalogue.RotateMaster(ctx, to)
	})
}

// Create makes a table. A table of the same name is [ErrExists]; a schema that makes no sense is
// [ErrSchema], with the part or column named.
func (st *Store) Create(ctx context.Context, schema Schema) (_ *Table, err error) {
	var tbl *session.Table
	err = st.call(ctx, "create", "", func(ctx context.Context) (err error) {
		tbl, err = administer.Create(ctx, st.db, schema.inner())
		return err
	})
	return (*Table)(tbl), err
}

// Table opens a table. One that does not exist is [ErrNoTable].
func (st *Store) Table(ctx context.Context, name string) (_ *Table, err error) {
	var tbl *session.Table
	err = st.call(ctx, "open table", fmt.Sprintf("table %q", name), func(ctx context.Context) (err error) {
		tbl, err = st.db.Named(ctx, name)
		return err
	})
	return (*Table)(tbl), err
}

// Tables returns the schemas of all tables, by name in ascending order, but for those of packages cell and paged: see [Store.Describe].
func (st *Store) Tables(ctx context.Context) (schemas []Schema, err error) {
	err = st.call(ctx, "list tables", "tables", func(ctx context.Context) error {
		metas, _, err := st.db.Catalogue.Tables(ctx)
		for _, meta := range metas {
			schema, err := meta.Schema()
			if err != nil {
				return fmt.Errorf("table %q: %w", meta.Name, err)
			}
			schemas = append(schemas, publicSchema(schema))
		}
		return err
	})
	return schemas, err
}

// SetLease lets the writers of all clients do with fewer requests. A Put or an Update need not read the version of the
// catalogue if its client has begun to do so within d. In return each change of a schema, a policy or a tenant takes 17/16 d
// and 50 ms more. So does the beginning of [Table.Convert]. 0 switches the lease off, as it is at first. A lease that becomes
// shorter, or ends, does so at once, and SetLease returns when the former one is over. d is 100 ms to 1 minute, and long enough
// for some reads of the version: else the error is [ErrLease]. Programs that know no lease refuse the database, with [ErrFormat].
// A lease relies on clocks, which must be right to 3 % and never stop. If one stops while a row is written, the row may stay as
// the schema was, perhaps in the clear, until the next [Table.Convert]. docs/operations.md has all limits.
func (st *Store) SetLease(ctx context.Context, d time.Duration) error {
	return st.call(ctx, "set lease", "set the lease", func(ctx context.Context) error { return st.db.Catalogue.SetLease(ctx, d) })
}

// Lease returns the lease that the catalogue gives to writers.
func (st *Store) Lease(ctx context.Context) (lease inspect.Lease, err error) {
	err = st.call(ctx, "lease", "lease", func(ctx context.Context) (err error) {
		lease, err = st.db.Catalogue.Lease(ctx)
		return err
	})
	return lease, err
}

// call observes a call of the store. Its error begins with what was being done, if that says more than the error.
func (st *Store) call(ctx context.Context, name, doing string, do func(context.Context) error) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, name, "")
	defer func() { end(0, err) }()
	if err = do(ctx); err != nil && doing != "" {
		return fmt.Errorf("store: %s: %w", doing, err)
	}
	return fault.Prefixed(err)
}
