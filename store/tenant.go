package store

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/administer"
)

// Tenants share tables and nothing else (Rafique et al. 2017, section III): each has random keys of
// its own in the catalogue, and whatever a table with tenants stores for one of them is under keys
// that derive from these. Rows of a tenant stand together, after a token of the tenant.
//
// A tenant's policy for a table says which of its unsearched columns are sealed. It is changed at run
// time and counts for what is written from then on: cells and key cells say how they are stored, so
// that rows of any earlier policy are read, until [Table.Convert] has rewritten them.

// A Policy says which columns of a table are sealed for a tenant. It is about the columns that are plain or randomised in the schema: those
// which it names are sealed, the others are plain. Columns that are searched are as the schema says in any case, and may be named if that seals them.
//
// A column that is added later is as the schema says, until the policy is set again.
type Policy struct {
	Whole     bool     // all columns are sealed
	Sensitive []string // names of columns that are
}

// CreateTenant makes a tenant, with keys of its own. The name is one that a table may have, see [Schema], and the
// database does not see it; another is [ErrTenant]. One that exists is [ErrExists].
func (st *Store) CreateTenant(ctx context.Context, name string) error {
	return st.call(ctx, "create tenant", "", func(ctx context.Context) error { return administer.CreateTenant(ctx, st.db, name) })
}

// Tenants returns the names of all tenants in ascending order.
func (st *Store) Tenants(ctx context.Context) (names []string, err error) {
	err = st.call(ctx, "list tenants", "tenants", func(ctx context.Context) error {
		metas, err := st.db.Catalogue.AllTenants(ctx)
		for _, meta := range metas {
			names = append(names, meta.Name)
		}
		return err
	})
	return names, err
}

// DropTenant removes a tenant with its keys, so that nothing which was stored for it can be read any
// more. Its rows stay, as bytes that nobody can open, and so does what they show without keys: plain
// columns, and how many rows there are, until [Table.DeleteOrphans] deletes them.
//
// Whoever has an old copy of the catalogue and the master key can still read what an old or new copy of
// the rows has. A client that has a table open for the tenant keeps the keys in memory, and notices with its next
// Put. Its reads return rows until DeleteOrphans, also then. A tenant that is made later with the same name is another one.
func (st *Store) DropTenant(ctx context.Context, name string) error {
	return st.call(ctx, "drop tenant", fmt.Sprintf("drop tenant %q", name), func(ctx context.Context) error {
		return administer.DropTenant(ctx, st.db, name)
	})
}

// RotateTenantKey gives a tenant a new key, for all cells that are written from now on, in any table. What is there stays readable, under
// the keys whose ids it carries. Row keys, ciphertexts and tokens, which values are found by, stay under the first key.
func (st *Store) RotateTenantKey(ctx context.Context, name string) error {
	return st.call(ctx, "rotate tenant key", fmt.Sprintf("rotate the key of tenant %q", name), func(ctx context.Context) error {
		return administer.RotateTenantKey(ctx, st.db, name, nil)
	})
}

// SetPolicy says which columns of a table are sealed for a tenant, of the rows that are written from now on. It is one small
// write, and no row is touched: [Table.Convert] does that. Other clients notice when they do after [Store.Alter].
//
// A column that was sealed for the tenant so far, by an earlier policy or by the schema, becomes plain
// only if unseal names it. Otherwise nothing is changed, and an [UnsealError] lists all such columns. A
// column that is plain already may be named too, so that the call can be made again.
//
// A policy that names a part of the row key, or what is no column, is [ErrPolicy]. So is a column in unseal that stays sealed. The policy
// is kept by columns, whatever they are named later. A column that is dropped goes from the policy when it is next set.
func (st *Store) SetPolicy(ctx context.Context, tenant, table string, p Policy, unseal ...string) error {
	return st.call(ctx, "set policy", fmt.Sprintf("set the policy of tenant %q for table %q", tenant, table), func(ctx context.Context) error {
		return administer.SetPolicy(ctx, st.db, tenant, table, administer.Policy(p), unseal)
	})
}

// Policy returns the policy of a tenant for a table, with the columns that it names in the order of
// the schema; ok is false if none was set, so that columns are as the schema says.
func (st *Store) Policy(ctx context.Context, tenant, table string) (p Policy, ok bool, err error) {
	var of administer.Policy
	err = st.call(ctx, "policy", fmt.Sprintf("policy of tenant %q for table %q", tenant, table), func(ctx context.Context) (err error) {
		of, ok, err = administer.PolicyOf(ctx, st.db, tenant, table)
		return err
	})
	return Policy(of), ok, err
}
