package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// A Table is an encrypted table. It is safe for concurrent use.
type Table struct {
	st      *Store
	id      tableID
	tenant  *tenantRef // that it is open for, or nil
	mu      sync.Mutex // held while current is replaced
	current atomic.Pointer[engine.Engine]
	env     engine.Environment
}

// newTable opens a table as meta describes it, for a tenant if it is for one.
func newTable(ctx context.Context, st *Store, meta *tableMeta, tenant *tenantMeta, version uint32) (*Table, error) {
	tbl := &Table{st: st, id: meta.ID}
	if tenant != nil {
		tbl.tenant = &tenantRef{ID: tenant.ID, Name: tenant.Name}
	}
	tbl.env = engine.Environment{
		Concurrency: st.concurrency,
		Warn:        st.observer.warn,
		Now:         tbl.now,
		Refresh:     tbl.refresh,
		Version:     func(ctx context.Context) (uint32, error) { return st.catalogue.Version(ctx, nil) },
		VersionIn: func(ctx context.Context, snapshot driver.Snapshot) (func(context.Context) (uint32, error), error) {
			family, err := snapshot.Family(ctx, catalogueSpec)
			return func(ctx context.Context) (uint32, error) { return st.catalogue.Version(ctx, family) }, err
		},
		Fill: func(ctx context.Context, index indexRef) error { return (&indexBuild{st: st}).finish(ctx, index) },
	}
	if db, ok := st.db.(driver.Snapshotter); ok {
		tbl.env.Snapshot = db.Snapshot
	}
	first, err := tbl.engine(ctx, meta, tenant, version, nil)
	if err != nil {
		return nil, err
	}
	tbl.current.Store(first)
	return tbl, nil
}

// engine returns an engine for what the catalogue says of the table at a version. It takes over from an earlier one what is the same.
func (tbl *Table) engine(ctx context.Context, meta *tableMeta, tenant *tenantMeta, version uint32, earlier *engine.Engine) (*engine.Engine, error) {
	st, indexes := tbl.st, make(map[string]ope.Index)
	src := rowcodec.ViewSource{Version: version, Meta: meta, Tenant: tenant, Keys: st.keys, Remembers: st.remembers}
	src.Index = func(family string) (_ ope.Index, err error) {
		if indexes[family] == nil {
			indexes[family], err = index.OpenFamily(ctx, st.db, family, true)
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
		return st.db.Family(ctx, spec)
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

// now returns the table as this client knows it. A call loads it once, so that all of it is of one schema.
func (tbl *Table) now() *engine.Engine { return tbl.current.Load() }

// adopt takes over what the catalogue says of the table, and of the tenant that it is open for, at
// a version, if that is news.
func (tbl *Table) adopt(ctx context.Context, meta *tableMeta, tenant *tenantMeta, version uint32) (*engine.Engine, error) {
	tbl.mu.Lock()
	defer tbl.mu.Unlock()
	now := tbl.now()
	if version <= now.Version {
		return now, nil
	}
	since := changed(meta, tenant)
	if since < now.Since {
		// Rows would be written as they were before, in the clear where that was so.
		return nil, putBack("what it says of the table is older than what this client knows")
	}
	next := now.At(version)
	if since != now.Since {
		var err error
		if next, err = tbl.engine(ctx, meta, tenant, version, now); err != nil {
			return nil, err
		}
	}
	tbl.current.Store(next)
	return next, nil
}

// refresh reads what the catalogue says of the table.
func (tbl *Table) refresh(ctx context.Context) (*engine.Engine, error) {
	meta, tenant, version, err := tbl.st.catalogue.Entry(ctx, tbl.now().Meta.Name, tbl.id, tbl.tenant)
	if err != nil {
		return nil, err
	}
	return tbl.adopt(ctx, meta, tenant, version)
}

// Schema returns the schema of the table, as this client knows it: it learns of a change by another
// client when it writes, reads what was written since, or is asked for a column that it does not know. Of
// a table that is open for a tenant, columns are encrypted as the tenant's policy says.
func (tbl *Table) Schema() Schema {
	t := tbl.now()
	schema, err := t.Meta.Schema()
	if err != nil {
		panic("store: " + err.Error()) // the view was made of it
	}
	for i, c := range t.Columns {
		schema.Columns[i] = c.Spec
	}
	return publicSchema(schema)
}

func init() {
	scheme.OfColumn = func(table any, name string) (ope.Scheme, error) {
		t, err := table.(*Table).use()
		if err != nil {
			return nil, err
		}
		c := t.ByName[name]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.Meta.Name, name)
		}
		return c.Scheme, nil
	}
}
