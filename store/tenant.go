package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
)

// Tenants share tables and nothing else (Rafique et al. 2017, section III): each has random keys of
// its own in the catalogue, and whatever a table with tenants stores for one of them is under keys
// that derive from these. Rows of a tenant stand together, behind a token of the tenant.
//
// A tenant's policy for a table says which of its unsearched columns are sealed. It is changed at run
// time and counts for what is written from then on: cells and key cells say how they are stored, so
// that rows of any earlier policy are read, until [Table.Convert] has written them anew.

// A Policy says which columns of a table are sealed for a tenant. It is about the columns that are
// plain or randomised in the schema: those which it names are sealed, the others are plain. Columns
// that are searched are sealed in any case, and may be named.
//
// A column that is added later is as the schema says, until the policy is set anew.
type Policy struct {
	Whole     bool     // all columns are sealed
	Sensitive []string // names of columns that are
}

type tenantID [16]byte

func (id tenantID) MarshalText() ([]byte, error)     { return []byte(hex.EncodeToString(id[:])), nil }
func (id *tenantID) UnmarshalText(text []byte) error { return unhex(id[:], text) }

// tenantMeta is what the catalogue says of a tenant.
type tenantMeta struct {
	ID       tenantID               `json:"id"`
	Name     string                 `json:"name"`
	Since    uint32                 `json:"since"` // the version that the last key came with
	Keys     []wrappedKey           `json:"keys"`  // what is searched is under the first for ever, new cells under the last
	Policies map[tableID]policyMeta `json:"policies,omitempty"`
}

// policyMeta is a Policy with ids in the place of names, so that it does not depend on these.
type policyMeta struct {
	Whole     bool       `json:"whole,omitempty"`
	Sensitive []columnID `json:"sensitive,omitempty"`
	Since     uint32     `json:"since"` // the version that it came with
}

// tenantRef names the tenant that a table is open for.
type tenantRef struct {
	id   tenantID
	name string
}

// openFor names a table that is open for a tenant.
type openFor struct {
	table  tableID
	tenant tenantID
}

// check returns err or, if what the catalogue says is of another tenant, which has got the name since,
// [ErrNoTenant].
func (r *tenantRef) check(found *tenantMeta, err error) error {
	if err == nil && r != nil && (found == nil || found.ID != r.id) {
		return ErrNoTenant
	}
	return err
}

// same reports whether two tables are open for one tenant, or both for none.
func (r *tenantRef) same(other *tenantRef) bool {
	return r == nil && other == nil || r != nil && other != nil && r.id == other.id
}

// CreateTenant makes a tenant, with keys of its own. A name has 1 to 100 bytes of valid UTF-8; the
// database does not see it. One that exists is [ErrExists].
func (st *Store) CreateTenant(ctx context.Context, name string) (err error) {
	ctx, end := st.observer.operation(ctx, "create tenant", "")
	defer func() { end(0, err) }()
	if err := checkTenantName(name); err != nil {
		return fmt.Errorf("store: create tenant: %w", err)
	}
	made := tenantMeta{Name: name}
	rand.Read(made.ID[:])
	made.Keys = []wrappedKey{st.keys.freshTenant(made.ID)}
	err = st.changeTenant(ctx, name, nil, func(e *edit) error {
		if e.tenant(name) != nil {
			return ErrExists
		}
		next := made
		next.Since = e.version()
		e.putTenant(&next)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: create tenant %q: %w", name, err)
	}
	return nil
}

func checkTenantName(name string) error {
	if len(name) == 0 || len(name) > 100 {
		return fmt.Errorf("%w: the name of a tenant has 1 to 100 bytes, this one %d", ErrTenant, len(name))
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: the name %q of a tenant is not valid UTF-8", ErrTenant, name)
	}
	return nil
}

// Tenants returns the names of all tenants in ascending order.
func (st *Store) Tenants(ctx context.Context) ([]string, error) {
	metas, err := st.catalogue.allTenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: tenants: %w", err)
	}
	var names []string
	for _, meta := range metas {
		names = append(names, meta.Name)
	}
	return names, nil
}

// allTenants returns the metas of all tenants, by name.
func (c *catalogue) allTenants(ctx context.Context) ([]*tenantMeta, error) {
	e := edit{c: c, whole: true}
	if _, err := e.read(ctx); err != nil {
		return nil, err
	}
	return e.tenants()
}

// A pseudonym is what the keys of rows and postings of a tenant begin with, in one table: its token
// there. It is zero where there are no tenants.
type pseudonym [tokenSize]byte

// pseudonymAt returns the one at a position of a key, or the zero one where the key is too short.
func pseudonymAt(key []byte, at int) (p pseudonym) {
	if len(key) >= at+len(p) {
		copy(p[:], key[at:])
	}
	return p
}

// pseudonyms returns those of all tenants in a table.
func (tbl *Table) pseudonyms(ctx context.Context) (map[pseudonym]bool, error) {
	metas, err := tbl.st.catalogue.allTenants(ctx)
	if err != nil {
		return nil, err
	}
	k, all := tbl.st.keys.table(tbl.id), make(map[pseudonym]bool, len(metas))
	for _, meta := range metas {
		all[pseudonym(k.token(meta.ID))] = true
	}
	return all, nil
}

// eachTenant calls do with the table opened for each tenant that there is, by name.
func (tbl *Table) eachTenant(ctx context.Context, do func(*Table) error) error {
	names, err := tbl.st.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		bound, err := tbl.Tenant(ctx, name)
		if err == nil {
			err = do(bound)
		}
		// One that was dropped meanwhile is none.
		if err != nil && !errors.Is(err, ErrNoTenant) {
			return fmt.Errorf("tenant %q: %w", name, err)
		}
	}
	return nil
}

// DropTenant removes a tenant with its keys, so that nothing which was stored for it can be read any
// more. Its rows stay, as bytes that nobody can open, and so does what they show without keys: plain
// columns, and how many rows there are. Delete them before, where they are not to stay.
//
// Who has an old copy of the catalogue and the master key can still read what an old or new copy of
// the rows has. A client that has a table open for the tenant keeps the keys in memory, and notices
// with its next Put. A tenant that is made later with the same name is another one.
func (st *Store) DropTenant(ctx context.Context, name string) (err error) {
	ctx, end := st.observer.operation(ctx, "drop tenant", "")
	defer func() { end(0, err) }()
	err = st.changeTenant(ctx, name, nil, func(e *edit) error {
		if e.tenant(name) == nil {
			return ErrNoTenant
		}
		e.removeTenant(name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: drop tenant %q: %w", name, err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	maps.DeleteFunc(st.bound, func(_ openFor, tbl *Table) bool { return tbl.tenant.name == name })
	return nil
}

// RotateTenantKey gives a tenant a new key, for all cells that are written from now on, in any table.
// What is there stays readable, under the keys whose ids it carries. Row keys, ciphertexts and tokens,
// which values are found by, stay under the first key.
func (st *Store) RotateTenantKey(ctx context.Context, name string) (err error) {
	ctx, end := st.observer.operation(ctx, "rotate tenant key", "")
	defer func() { end(0, err) }()
	var fresh wrappedKey
	err = st.changeTenant(ctx, name, nil, func(e *edit) error {
		before := e.tenant(name)
		if before == nil {
			return ErrNoTenant
		}
		if fresh == nil {
			fresh = st.keys.freshTenant(before.ID)
		}
		next := *before
		next.Keys = append(slices.Clone(before.Keys), fresh)
		next.Since = e.version()
		e.putTenant(&next)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: rotate the key of tenant %q: %w", name, err)
	}
	return nil
}

// SetPolicy says which columns of a table are sealed for a tenant, of the rows that are written from
// now on. It is one small write, and no row is touched: [Table.Convert] does that. Other clients notice
// before they acknowledge their next write.
//
// A policy that names a part of the row key, or what is no column, is [ErrPolicy]. It is kept by
// columns, whatever they are named later. A column that is dropped goes from the policy when it is
// next set.
func (st *Store) SetPolicy(ctx context.Context, tenant, table string, p Policy) (err error) {
	ctx, end := st.observer.operation(ctx, "set policy", "")
	defer func() { end(0, err) }()
	err = st.changeTenant(ctx, tenant, []string{table}, func(e *edit) error {
		meta, before := e.table(table), e.tenant(tenant)
		switch {
		case meta == nil:
			return ErrNoTable
		case !meta.Tenants:
			return fmt.Errorf("%w: the table has none", ErrTenant)
		case before == nil:
			return ErrNoTenant
		}
		policy := policyMeta{Whole: p.Whole, Since: e.version()}
		for _, name := range p.Sensitive {
			if slices.ContainsFunc(meta.Key, func(f fieldMeta) bool { return f.Name == name }) {
				return fmt.Errorf("%w: %q is a part of the row key, which the schema says how to encrypt", ErrPolicy, name)
			}
			i := slices.IndexFunc(meta.Columns, func(f fieldMeta) bool { return f.Name == name })
			if i < 0 {
				return fmt.Errorf("%w: there is no column %q", ErrPolicy, name)
			}
			policy.Sensitive = append(policy.Sensitive, meta.Columns[i].ID)
		}
		next := *before
		next.Policies = map[tableID]policyMeta{meta.ID: policy}
		for id, other := range before.Policies {
			if id != meta.ID {
				next.Policies[id] = other
			}
		}
		e.putTenant(&next)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: set the policy of tenant %q for table %q: %w", tenant, table, err)
	}
	return nil
}

// Policy returns the policy of a tenant for a table, with the columns that it names in the order of
// the schema; ok is false if none was set, so that columns are as the schema says.
func (st *Store) Policy(ctx context.Context, tenant, table string) (p Policy, ok bool, err error) {
	meta, of, _, err := st.catalogue.lookUp(ctx, table, tenant)
	if err == nil && of == nil {
		err = ErrNoTenant
	}
	if err == nil && !meta.Tenants {
		err = fmt.Errorf("%w: the table has none", ErrTenant)
	}
	if err != nil {
		return Policy{}, false, fmt.Errorf("store: policy of tenant %q for table %q: %w", tenant, table, err)
	}
	policy, ok := of.Policies[meta.ID]
	p.Whole = policy.Whole
	for i := range meta.Columns {
		if policy.names(&meta.Columns[i]) {
			p.Sensitive = append(p.Sensitive, meta.Columns[i].Name)
		}
	}
	return p, ok, nil
}

// changeTenant makes one change of the entry of a tenant, knowing those of some tables, and lets
// tables that are open for the tenant know.
func (st *Store) changeTenant(ctx context.Context, name string, tables []string, next func(*edit) error) error {
	c := st.catalogue
	only := [][]byte{c.tenantQualifier(name)}
	for _, table := range tables {
		only = append(only, c.qualifier(table))
	}
	if err := c.changeEntries(ctx, only, next); err != nil {
		return err
	}
	st.refreshBound(ctx, func(tbl *Table) bool { return tbl.tenant.name == name })
	return nil
}

// refreshBound lets tables that are open for tenants know what the catalogue says.
func (st *Store) refreshBound(ctx context.Context, which func(*Table) bool) {
	var tables []*Table
	st.mu.Lock()
	for _, tbl := range st.bound {
		if which(tbl) {
			tables = append(tables, tbl)
		}
	}
	st.mu.Unlock()
	for _, tbl := range tables {
		_, _ = tbl.refresh(ctx) // what cannot be read now, the next write or query will
	}
}

// Tenant opens a table for a tenant. Rows that are put are the tenant's, and the tenant's rows only are
// found. One that does not exist is [ErrNoTenant]; a table without tenants is [ErrTenant].
//
// Tables that are open are kept, about 10 kB for each tenant, and more where columns have stateful
// schemes, which remember values.
func (tbl *Table) Tenant(ctx context.Context, name string) (*Table, error) {
	st, table := tbl.st, tbl.now().schema.Name
	meta, tenant, version, err := st.catalogue.lookUp(ctx, table, name)
	switch {
	case err == nil && meta.ID != tbl.id:
		err = ErrNoTable
	case err == nil && !meta.Tenants:
		err = fmt.Errorf("%w: the table has none", ErrTenant)
	case err == nil && tenant == nil:
		err = ErrNoTenant
	}
	if err != nil {
		return nil, fmt.Errorf("store: tenant %q of table %q: %w", name, table, err)
	}
	of := openFor{meta.ID, tenant.ID}
	st.mu.Lock()
	open := st.bound[of]
	st.mu.Unlock()
	if open == nil {
		open = &Table{st: st, id: meta.ID, tenant: &tenantRef{tenant.ID, tenant.Name}}
		var v *view
		if v, err = newView(ctx, open, meta, tenant, version, nil); err == nil {
			open.current.Store(v)
			st.mu.Lock()
			if first := st.bound[of]; first != nil {
				open = first
			} else {
				st.bound[of] = open
			}
			st.mu.Unlock()
		}
	} else {
		_, err = open.adopt(ctx, meta, tenant, version)
	}
	if err != nil {
		return nil, fmt.Errorf("store: tenant %q of table %q: %w", name, table, tbl.now().gone(err))
	}
	return open, nil
}

// use returns the view of the table, if it may be used for reading and writing rows.
func (tbl *Table) use() (*view, error) {
	t := tbl.now()
	if t.meta.Tenants && tbl.tenant == nil {
		return nil, fmt.Errorf("store: %w: table %q has tenants; open it for one with Table.Tenant", ErrTenant, t.schema.Name)
	}
	return t, nil
}

// changed returns the version of the catalogue at which it became how a table stores rows, for a
// tenant if it has some.
func changed(meta *tableMeta, tenant *tenantMeta) uint32 {
	if tenant == nil {
		return meta.Version
	}
	return max(meta.Version, tenant.Since, tenant.Policies[meta.ID].Since)
}

// stored returns how a column is stored for the tenant.
func (m *tenantMeta) stored(table tableID, f field, column *fieldMeta) field {
	p, ok := m.Policies[table]
	if !ok || f.encryption != plain && f.encryption != randomised {
		return f
	}
	switch {
	case p.Whole || p.names(column):
		f.encryption = randomised
	case column.Since < p.Since:
		f.encryption = plain
	}
	return f
}

// names reports whether the policy names a column, under the id that it has or one that it had.
func (p policyMeta) names(column *fieldMeta) bool {
	return slices.Contains(p.Sensitive, column.ID) ||
		slices.ContainsFunc(column.Former, func(f fieldMeta) bool { return slices.Contains(p.Sensitive, f.ID) })
}

// tenant returns the meta of a tenant whose entry was read, or nil.
func (e *edit) tenant(name string) *tenantMeta {
	return e.entries[string(e.c.tenantQualifier(name))].Tenant
}

// putTenant replaces or makes the entry of a tenant.
func (e *edit) putTenant(meta *tenantMeta) {
	e.puts[string(e.c.tenantQualifier(meta.Name))] = metaEntry{Tenant: meta}
}

// removeTenant makes that no tenant has the name.
func (e *edit) removeTenant(name string) {
	e.puts[string(e.c.tenantQualifier(name))] = metaEntry{}
}

// tenantKeys are the keys of a tenant, the first one first.
type tenantKeys struct{ keys []ope.Key }

func (k keys) wrapTenant() *seal.Sealer { return sealer(k.database.Derive("tenants", "wrap")) }

// freshTenant returns a new key of a tenant.
func (k keys) freshTenant(id tenantID) wrappedKey {
	return k.wrapTenant().Seal(nil, newHeader(), ope.GenerateKey().Secret(), place("tenant key", id[:]))
}

// ofTenant returns the keys of a table for a tenant.
func (k keys) ofTenant(table tableKeys, m *tenantMeta) (tableKeys, error) {
	own, err := k.tenant(m)
	if err != nil {
		return table, err
	}
	t := &tenantKeys{own}
	table.tenant = t
	table.page = t.derive(0, "page token", columnRef{Table: table.id})
	table.secrets = t.keys[0].Derive("secure type")
	return table, nil
}

// tenant returns the keys of a tenant, the first one first.
func (k keys) tenant(m *tenantMeta) ([]ope.Key, error) {
	if len(m.Keys) == 0 {
		return nil, fmt.Errorf("%w: a tenant has no keys", ErrFormat)
	}
	own, wrap := make([]ope.Key, len(m.Keys)), k.wrapTenant()
	for i, wrapped := range m.Keys {
		var err error
		if own[i], err = wrapped.open(wrap, place("tenant key", m.ID[:]), "wrapped key of a tenant"); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// token returns what the keys of rows and postings of a tenant begin with, in one table.
func (k tableKeys) token(id tenantID) []byte {
	return k.tenants.Expand(tokenSize, hex.EncodeToString(id[:]))
}

// derive returns the key of one purpose of a column or, with the zero id, of a table.
func (t *tenantKeys) derive(key int, purpose string, of columnRef) ope.Key {
	return t.keys[key].Derive(purpose, hex.EncodeToString(of.Table[:]), hex.EncodeToString(of.Column[:]))
}

func (t *tenantKeys) sealers(purpose string, of columnRef) *sealers {
	var s sealers
	for i := range slices.Backward(t.keys) {
		s.keys = append(s.keys, sealer(t.derive(i, purpose, of)))
	}
	return &s
}

// fingerprint returns bytes that are equal for fields of the table that have equal ciphers.
func (k tableKeys) fingerprint(m *fieldMeta) []byte {
	if k.tenant == nil {
		return m.fingerprint()
	}
	return append(m.fingerprint(), strings.Repeat("k", len(k.tenant.keys))...)
}
