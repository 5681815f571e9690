package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/structs"
)

// A Table is a table that is open, for one tenant or for none. It is safe for concurrent use. Package store gives it its
// public methods, so its fields are its own.
type Table struct {
	*shared
	ttl *time.Duration // of rows that are put, if not as the table says
}

// shared is what a table has in common with those that put rows of another time to live.
type shared struct {
	db      *Database
	id      meta.TableID
	tenant  *catalogue.TenantRef // that it is open for, or nil
	turn    chan struct{}        // has an element while current is replaced, which may ask the database for families
	current atomic.Pointer[engine.Engine]
	env     engine.Environment
}

// newTable opens a table as m describes it, for a tenant if it is for one.
func newTable(ctx context.Context, db *Database, m *meta.Table, tenant *meta.Tenant, version uint32) (*Table, error) {
	tbl := &Table{shared: &shared{db: db, id: m.ID, turn: make(chan struct{}, 1)}}
	if tenant != nil {
		tbl.tenant = &catalogue.TenantRef{ID: tenant.ID, Name: tenant.Name}
	}
	tbl.env = engine.Environment{
		Concurrency: db.Concurrency,
		Warn:        db.Observer.Warn,
		Later:       db.backlog.later,
		Now:         tbl.Now,
		Refresh: func(ctx context.Context) (*engine.Engine, error) {
			t, err := tbl.Refresh(ctx)
			if err == nil {
				err = structs.Guards(ctx, t.View)
			}
			return t, err
		},
		Writes:  db.writes,
		Version: db.version,
		Leased:  db.leased,
		VersionIn: func(ctx context.Context, snapshot driver.Snapshot) (func(context.Context) (uint32, error), error) {
			family, err := snapshot.Family(ctx, catalogue.Spec)
			return func(ctx context.Context) (uint32, error) { return db.Catalogue.Version(ctx, family) }, err
		},
		Fill: func(ctx context.Context, index meta.IndexRef) error { return db.Fill(ctx, db, index) },
	}
	if db.ReadRepair {
		tbl.env.Spare = db.backlog.spare
	}
	if snapshots, ok := db.Driver.(driver.Snapshotter); ok {
		tbl.env.Snapshot = snapshots.Snapshot
	}
	first, err := tbl.engine(ctx, m, tenant, version, nil)
	if err != nil {
		return nil, err
	}
	tbl.current.Store(first)
	return tbl, nil
}

// engine returns an engine for what the catalogue says of the table at a version. It takes over from an earlier one
// what is the same.
func (tbl *Table) engine(ctx context.Context, m *meta.Table, tenant *meta.Tenant, version uint32, earlier *engine.Engine) (*engine.Engine, error) {
	db, indexes := tbl.db, make(map[string]ope.Index)
	m, err := db.Whole(ctx, m)
	if err != nil {
		return nil, err
	}
	src := rowcodec.ViewSource{Version: version, Meta: m, Tenant: tenant, Keys: db.Keys, Remembers: db.Remembers, Clock: db.Clock}
	src.Index = func(family string) (_ ope.Index, err error) {
		if indexes[family] == nil {
			indexes[family], err = index.OpenFamily(ctx, db.Driver, family, true)
		}
		return indexes[family], err
	}
	if earlier != nil {
		src.Earlier = earlier.View
	}
	v, err := src.View()
	if err != nil {
		return nil, err
	}
	t := &engine.Engine{View: v, Env: &tbl.env}
	// The families were made before the table was in the catalogue: one that is not there was dropped.
	open := func(spec driver.FamilySpec) (driver.Family, error) {
		spec.Existing = true
		return db.Driver.Family(ctx, spec)
	}
	if earlier != nil {
		t.Data = earlier.Data
	} else if t.Data, err = open(v.Spec); err != nil {
		return nil, err
	}
	switch {
	case !v.Meta.HasPostings():
	case earlier != nil && earlier.Postings != nil:
		t.Postings = earlier.Postings
	default:
		if t.Postings, err = open(v.PostingSpec); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Database returns the database that the table is of.
func (tbl *Table) Database() *Database { return tbl.db }

// ID returns the id of the table.
func (tbl *Table) ID() meta.TableID { return tbl.id }

// Bound reports whether the table is open for a tenant.
func (tbl *Table) Bound() bool { return tbl.tenant != nil }

// Now returns the table as this client knows it. A call loads it once, so that all of it is of one schema.
func (tbl *Table) Now() *engine.Engine { return tbl.current.Load() }

// Schema returns the schema as this client knows it. Of a table that is open for a tenant, columns are as the tenant's policy says.
func (tbl *Table) Schema() meta.Schema {
	t := tbl.Now()
	schema, err := t.Meta.Schema()
	if err != nil {
		panic("store: " + err.Error()) // the view was made of it
	}
	for i, c := range t.Columns {
		schema.Columns[i] = c.Spec
	}
	return schema
}

// Use returns the table as this client knows it, if rows may be read and written.
func (tbl *Table) Use() (*engine.Engine, error) {
	t := tbl.Now()
	if t.Meta.Tenants && tbl.tenant == nil {
		return nil, fmt.Errorf("%w: table %q has tenants; open it for one with Table.Tenant", fault.ErrTenant, t.Meta.Name)
	}
	if tbl.ttl != nil {
		t = t.Expiring(*tbl.ttl)
	}
	return t, nil
}

// Expiring returns the table with a time to live of its own for the rows that are put; 0 is for ever.
func (tbl *Table) Expiring(ttl time.Duration) *Table { return &Table{tbl.shared, &ttl} }

// adopt takes over what the catalogue says of the table, and of the tenant that it is open for, at
// a version, if that is news.
func (tbl *Table) adopt(ctx context.Context, m *meta.Table, tenant *meta.Tenant, version uint32) (*engine.Engine, error) {
	if err := tbl.wait(ctx); err != nil {
		return nil, err
	}
	defer func() { <-tbl.turn }()
	now := tbl.Now()
	if version <= now.Version {
		return now, nil
	}
	since := meta.Changed(m, tenant)
	if since < now.Since {
		// Rows would be written as they were before, in the clear where that was so.
		return nil, catalogue.PutBack("what it says of the table is older than what this client knows")
	}
	next := now.At(version)
	if since != now.Since {
		var err error
		if next, err = tbl.engine(ctx, m, tenant, version, now); err != nil {
			return nil, err
		}
	}
	tbl.current.Store(next)
	return next, nil
}

// wait waits until it is the caller's turn to replace current, and no longer than its context lives.
func (tbl *Table) wait(ctx context.Context) error {
	select {
	case tbl.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case tbl.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return pause.Ended(ctx)
	}
}

// Entry reads what the catalogue says of the table, and of the tenant that it is open for, and at which version.
func (tbl *Table) Entry(ctx context.Context) (*meta.Table, *meta.Tenant, uint32, error) {
	return tbl.db.Catalogue.Entry(ctx, tbl.Now().Meta.Name, tbl.id, tbl.tenant)
}

// Refresh reads what the catalogue says of the table.
func (tbl *Table) Refresh(ctx context.Context) (*engine.Engine, error) {
	m, tenant, version, err := tbl.Entry(ctx)
	if err != nil {
		return nil, err
	}
	return tbl.adopt(ctx, m, tenant, version)
}

// Settled reads what the catalogue says of the table, and waits until all clients write rows so: from then on whoever scans
// the table finds what they have written in another way before. Changes of other tables and tenants are no reason to wait.
func (tbl *Table) Settled(ctx context.Context) (*engine.Engine, error) {
	t, err := tbl.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	return t, tbl.db.Catalogue.Quiesce(ctx, t.Since)
}

// Fresh returns an engine whose schemes remember nothing, or nil if the table has changed since a version.
func (tbl *Table) Fresh(ctx context.Context, since uint32) (*engine.Engine, error) {
	m, tenant, version, err := tbl.Entry(ctx)
	if err != nil || meta.Changed(m, tenant) != since {
		return nil, err
	}
	return tbl.engine(ctx, m, tenant, version, nil)
}

// ForTenant opens the table for a tenant.
func (tbl *Table) ForTenant(ctx context.Context, name string) (*Table, error) {
	table := tbl.Now().Meta.Name
	m, tenant, version, err := tbl.db.Catalogue.Entry(ctx, table, tbl.id, &catalogue.TenantRef{Name: name})
	if m != nil && !m.Tenants { // whether the tenant exists or not
		err = fmt.Errorf("%w: the table has none", fault.ErrTenant)
	}
	var of *Table
	if err == nil {
		if of, err = tbl.db.forTenant(ctx, m, tenant, version); err != nil {
			err = fault.Gone(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tenant %q of table %q: %w", name, table, err)
	}
	if tbl.ttl != nil {
		of = of.Expiring(*tbl.ttl)
	}
	return of, nil
}

// EachTenant calls do with the table opened for each tenant that there is, by name.
func (tbl *Table) EachTenant(ctx context.Context, do func(*Table) error) error {
	tenants, err := tbl.db.Catalogue.AllTenants(ctx)
	if err != nil {
		return fmt.Errorf("tenants: %w", err)
	}
	for _, tenant := range tenants {
		of, err := tbl.ForTenant(ctx, tenant.Name)
		if err == nil {
			err = do(of)
		}
		// One that has been dropped since is none.
		if err != nil && !errors.Is(err, fault.ErrNoTenant) {
			return fmt.Errorf("tenant %q: %w", tenant.Name, err)
		}
	}
	return nil
}

// Progress returns the progress of the last conversion, and its cell, which is empty if there was none.
func (tbl *Table) Progress(ctx context.Context) (catalogue.Progress, driver.Cell, error) {
	return tbl.db.Catalogue.Progress(ctx, tbl.progressCell())
}

// UpdateProgress replaces the progress by what next makes of it.
func (tbl *Table) UpdateProgress(ctx context.Context, next func(catalogue.Progress) (catalogue.Progress, bool)) (catalogue.Progress, error) {
	return tbl.db.Catalogue.UpdateProgress(ctx, tbl.progressCell(), next)
}

func (tbl *Table) progressCell() []byte { return catalogue.ProgressOf(tbl.id, tbl.Now().Prefix) }

// Operation begins an operation on the table, for the observer.
func (tbl *Table) Operation(ctx context.Context, name string) (context.Context, func(rows int, err error)) {
	return tbl.db.Observer.Operation(ctx, name, tbl.Now().Family())
}

// Refused observes a call that ends before its operation begins, and returns its error.
func (tbl *Table) Refused(ctx context.Context, name string, err error) error {
	_, end := tbl.Operation(ctx, name)
	end(0, err)
	return err
}
