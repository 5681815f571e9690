// Package session has what one client has open of a database: its catalogue, its keys, and its tables, each as of the
// newest version that the client knows.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"
	"weak"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/lease"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/observe"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/structs"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Options are what a session needs besides the database.
type Options struct {
	Observer    *observe.Observer
	Concurrency int // requests of one call that are under way at a time
	Remembers   int // values of each column with a stateful scheme, or 0 for all
	Clock       rowcodec.Clock
	NoLease     bool // writes read the version, whatever lease there is
	ReadRepair  bool // queries put the copies that postings lack

	// Fill finishes an index that is being made again.
	Fill func(ctx context.Context, db *Database, of meta.IndexRef) error
}

// A Database is an encrypted database as one client has it open. It is safe for concurrent use.
type Database struct {
	Options
	Driver    driver.DB
	Catalogue *catalogue.Catalogue
	Keys      keyring.Keys
	Parts     int // of a table, which clients convert one by one

	backlog  *backlog
	versions *groupcommit.Shared[uint32] // nil where a read is faster than to share it

	mu     sync.Mutex
	tables map[meta.TableID]openTable
	bound  map[openFor]weak.Pointer[Table] // tables that were opened for a tenant, as long as somebody has them

	// Those that were opened lately stay open without that, between KeptTenants and twice as many: a store may have tenants without number.
	KeptTenants    int
	lately, before map[openFor]*Table

	// A table for no tenant stays open without that for so long after it was opened last. Who drops it need not be this client.
	KeptFor time.Duration

	archives map[meta.TableID]archive
}

// Of returns the database that a store has open, which is a *store.Store. Package store sets it, for package cell: users of
// a store do not reach its keys.
var Of func(st any) *Database

// SchemaOf returns what the layers below have of a store.Schema, PublicSchema undoes that, and SelectionOf returns what they have of a
// store.Query. Package store sets them, for package paged.
var (
	SchemaOf     func(schema any) meta.Schema
	PublicSchema func(meta.Schema) any
	SelectionOf  func(query any) query.Selection
	PlanOf       func(reflect.Type) (*structs.Plan, error) // of a struct with tags
)

// An openTable is one that is open for no tenant, as long as somebody has it.
type openTable struct {
	is   weak.Pointer[Table]
	kept *Table    // the same, if it stays open without that
	last time.Time // that it was opened
}

// openFor names a table that is open for a tenant.
type openFor struct {
	table  meta.TableID
	tenant meta.TenantID
}

// Open opens the catalogue of a database, and makes it when there is none.
func Open(ctx context.Context, db driver.DB, service kms.KMS, opts Options) (*Database, error) {
	c, err := catalogue.Open(ctx, db, service)
	if err != nil {
		return nil, err
	}
	opened := &Database{
		Options: opts, Driver: db, Catalogue: c, Keys: keyring.New(c.Key, c.Database), Parts: catalogue.ProgressParts,
		backlog: newBacklog(opts.Concurrency), tables: make(map[meta.TableID]openTable), bound: make(map[openFor]weak.Pointer[Table]), archives: make(map[meta.TableID]archive),
		KeptTenants: 1 << 11, lately: make(map[openFor]*Table), KeptFor: time.Hour,
	}
	opened.NoLease = opts.NoLease || !lease.SleepCounts
	if _, embedded := db.(driver.Snapshotter); !embedded {
		opened.versions = groupcommit.NewShared(func(ctx context.Context) (uint32, error) { return c.Version(ctx, nil) })
	}
	return opened, nil
}

// Close waits for what calls have left to do. The database can still be used.
func (db *Database) Close(ctx context.Context) error {
	if err := db.backlog.close(ctx); err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

// version returns the version of the catalogue, as a read has it that begins after this call. Calls that are made at the
// same time share reads.
func (db *Database) version(ctx context.Context) (uint32, error) {
	if db.versions == nil {
		return db.Catalogue.Version(ctx, nil)
	}
	version, err := db.versions.Do(ctx)
	if err != nil && ctx.Err() != nil {
		return 0, pause.Ended(ctx)
	}
	return version, err
}

// leased reports whether the version that the catalogue has may be taken to be a given one without a read. It may not be where
// the clock of this machine stops while it sleeps.
func (db *Database) leased(version uint32) bool { return !db.NoLease && db.Catalogue.Leased(version) }

// fewRows is how many rows a Put has at most that others wait for, to share the read of the version. More take longer
// than the read is worth.
const fewRows = 8

// writes is told that rows are going to be written, and returns what is to be called when they are, before the version is
// read.
func (db *Database) writes(rows int) (written func()) {
	if db.versions == nil || rows > fewRows {
		return func() {}
	}
	db.versions.Announce()
	return db.versions.Arrive
}

// Named opens the table that has a name.
func (db *Database) Named(ctx context.Context, name string) (*Table, error) {
	return db.named(ctx, name, (*meta.Table).Apart)
}

// Paged opens the table of pages that has a name.
func (db *Database) Paged(ctx context.Context, name string) (*Table, error) {
	return db.named(ctx, name, func(m *meta.Table) string {
		if m.Paged() {
			return ""
		}
		return "it has no pages: Store.Table of package store opens it, or package store/cell if the application keeps its rows"
	})
}

// Kept opens the table that has a name, and whose rows the store keeps, alone or in pages.
func (db *Database) Kept(ctx context.Context, name string) (*Table, error) {
	return db.named(ctx, name, func(m *meta.Table) string {
		if m.Elsewhere() {
			return m.Apart()
		}
		return ""
	})
}

// named opens a table unless there is a reason why it is another one's.
func (db *Database) named(ctx context.Context, name string, apart func(*meta.Table) string) (*Table, error) {
	var last *meta.Table
	for {
		m, version, err := db.Catalogue.Table(ctx, name)
		if err == nil && apart(m) != "" {
			err = fmt.Errorf("%w here: %s", fault.ErrNoTable, apart(m))
		}
		if err != nil {
			return nil, err
		}
		tbl, err := db.Table(ctx, m, version)
		if err == nil {
			return tbl, nil
		}
		// A family that is not there was dropped with its table after the entry was read, unless
		// the entry still says so.
		if !errors.Is(err, driver.ErrNoFamily) {
			return nil, err
		}
		if last != nil && last.ID == m.ID && last.Version == m.Version {
			return nil, db.Lost(ctx, m, err)
		}
		last = m
		pause.Repeats(ctx, "schema_changed")
	}
}

// Lost returns the error of a table that the catalogue has, and of which the database has lost a part, as another error says.
func (db *Database) Lost(ctx context.Context, m *meta.Table, err error) error {
	return fmt.Errorf("%w: the database has lost a part of table %q: %s: %w", fault.ErrTampered, m.Name, db.wayOut(ctx, m), err)
}

// wayOut says what to do about a table of which a family is lost.
func (db *Database) wayOut(ctx context.Context, m *meta.Table) string {
	const restore = "restore that from a backup"
	spec, err := m.DataSpec()
	spec.Existing = true
	if err == nil {
		_, err = db.Driver.Family(ctx, spec)
	}
	if err != nil {
		return restore + "; without one, the table can only be dropped"
	}
	return restore + ", or end all clients and have 'rangecrypt verify --repair' make it again from the rows"
}

// Table returns the table that the catalogue, at a version, describes: from memory where it was opened before.
func (db *Database) Table(ctx context.Context, m *meta.Table, version uint32) (*Table, error) {
	return db.opened(ctx, func() *Table { return db.tables[m.ID].is.Value() }, func(tbl *Table) { db.keepTable(m.ID, tbl) }, m, nil, version)
}

// keepTable notes that a table was opened just now. It is called with the lock held.
func (db *Database) keepTable(id meta.TableID, tbl *Table) {
	now := time.Now()
	if _, has := db.tables[id]; !has {
		for other, open := range db.tables {
			switch {
			case open.is.Value() == nil:
				delete(db.tables, other)
				delete(db.archives, other)
			case now.Sub(open.last) >= db.KeptFor:
				open.kept = nil
				db.tables[other] = open
			}
		}
	}
	db.tables[id] = openTable{weak.Make(tbl), tbl, now}
}

// forTenant returns a table for a tenant, from memory where it was opened before.
func (db *Database) forTenant(ctx context.Context, m *meta.Table, tenant *meta.Tenant, version uint32) (*Table, error) {
	key := openFor{m.ID, tenant.ID}
	return db.opened(ctx, func() *Table { return db.bound[key].Value() }, func(tbl *Table) { db.keep(key, tbl) }, m, tenant, version)
}

// keep notes that a table was opened for a tenant just now. It is called with the lock held.
func (db *Database) keep(key openFor, tbl *Table) {
	db.bound[key], db.lately[key] = weak.Make(tbl), tbl
	if len(db.lately) >= db.KeptTenants {
		db.before, db.lately = db.lately, make(map[openFor]*Table)
		maps.DeleteFunc(db.bound, func(_ openFor, tbl weak.Pointer[Table]) bool { return tbl.Value() == nil })
	}
}

// opened returns one of the tables that are open, or opens it. It is known as of the version, or of a later one, although another call
// that has read an earlier one may have opened it meanwhile. find and keep are called with the lock held.
func (db *Database) opened(ctx context.Context, find func() *Table, keep func(*Table), m *meta.Table, tenant *meta.Tenant, version uint32) (*Table, error) {
	look := func(own *Table) *Table {
		db.mu.Lock()
		defer db.mu.Unlock()
		tbl := cmp.Or(find(), own)
		if tbl != nil {
			keep(tbl)
		}
		return tbl
	}
	tbl := look(nil)
	if tbl == nil {
		own, err := newTable(ctx, db, m, tenant, version)
		if err != nil {
			return nil, err
		}
		tbl = look(own)
	}
	_, err := tbl.adopt(ctx, m, tenant, version)
	return tbl, err
}

// Show lets the table, if it is open, know what the catalogue says of it since a change.
func (db *Database) Show(ctx context.Context, m *meta.Table) {
	db.mu.Lock()
	tbl := db.tables[m.ID].is.Value()
	db.mu.Unlock()
	if tbl != nil {
		// If families cannot be opened now, the next write or query will.
		_, _ = tbl.adopt(ctx, m, nil, m.Version)
	}
	db.RefreshTenants(ctx, m.ID)
}

// Refresh lets the table, if it is open, know what the catalogue says of it.
func (db *Database) Refresh(ctx context.Context, id meta.TableID) {
	db.mu.Lock()
	tbl := db.tables[id].is.Value()
	db.mu.Unlock()
	if tbl != nil {
		_, _ = tbl.Refresh(ctx) // what cannot be read now, the next write or query will
	}
	db.RefreshTenants(ctx, id)
}

// RefreshTenants lets the table, where it is open for tenants, know what the catalogue says.
func (db *Database) RefreshTenants(ctx context.Context, id meta.TableID) {
	db.refresh(ctx, func(tbl *Table) bool { return tbl.id == id })
}

// RefreshTenant lets all tables that are open for a tenant know what the catalogue says.
func (db *Database) RefreshTenant(ctx context.Context, name string) {
	db.refresh(ctx, func(tbl *Table) bool { return tbl.tenant.Name == name })
}

func (db *Database) refresh(ctx context.Context, which func(*Table) bool) {
	var tables []*Table
	db.mu.Lock()
	for _, open := range db.bound {
		if tbl := open.Value(); tbl != nil && which(tbl) {
			tables = append(tables, tbl)
		}
	}
	db.mu.Unlock()
	for _, tbl := range tables {
		_, _ = tbl.Refresh(ctx) // what cannot be read now, the next write or query will
	}
}

// Forget closes a table that is gone, for all tenants.
func (db *Database) Forget(id meta.TableID) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.tables, id)
	delete(db.archives, id)
	db.forget(func(b openFor, _ *Table) bool { return b.table == id })
}

// ForgetTenant closes all tables that are open for a tenant that is gone.
func (db *Database) ForgetTenant(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.forget(func(_ openFor, tbl *Table) bool { return tbl.tenant.Name == name })
}

// forget closes tables that are open for tenants. It is called with the lock held.
func (db *Database) forget(which func(openFor, *Table) bool) {
	maps.DeleteFunc(db.bound, func(b openFor, open weak.Pointer[Table]) bool {
		tbl := open.Value()
		return tbl == nil || which(b, tbl)
	})
	maps.DeleteFunc(db.lately, which)
	maps.DeleteFunc(db.before, which)
}
