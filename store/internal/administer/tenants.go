package administer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// CreateTenant makes a tenant, with keys of its own.
func CreateTenant(ctx context.Context, db *session.Database, name string) error {
	made := meta.Tenant{Name: name}
	rand.Read(made.ID[:])
	made.Keys = []meta.WrappedKey{db.Keys.FreshTenant(made.ID)}
	err := changeTenant(ctx, db, name, nil, func(e *catalogue.Edit) error {
		if e.Tenant(name) != nil {
			return fault.ErrExists
		}
		if err := meta.CheckTenantName(name); err != nil {
			return err
		}
		next := made
		next.Since = e.NextVersion()
		e.PutTenant(&next)
		return nil
	})
	if err != nil {
		return fmt.Errorf("create tenant %q: %w", name, err)
	}
	return nil
}

// DropTenant removes a tenant with its keys: the one that has the name when it begins. Another one may get the name meanwhile.
func DropTenant(ctx context.Context, db *session.Database, name string) error {
	// One of the name that is made again has no rows, whatever was verified of those that come from another database.
	doubted := func() (bool, error) {
		read := sync.OnceValues(func() ([]*meta.Table, error) {
			tables, _, err := db.Catalogue.Tables(ctx)
			return tables, err
		})
		return doubtEach(ctx, db, func(into meta.TableID, rec catalogue.Migration) (bool, error) {
			tables, err := read()
			return slices.ContainsFunc(tables, func(t *meta.Table) bool { return t.ID == into && t.Tenants }) && !slices.ContainsFunc(tables, rec.From), err
		})
	}
	doubts, err := doubted()
	if err != nil {
		return err
	}
	var of *meta.Tenant
	err = changeTenant(ctx, db, name, nil, func(e *catalogue.Edit) error {
		now := e.Tenant(name)
		of = cmp.Or(of, now)
		switch {
		case now == nil:
			return fault.ErrNoTenant
		case now.ID != of.ID:
			return another(fault.ErrNoTenant)
		}
		e.RemoveTenant(name)
		return nil
	})
	if err != nil {
		return err
	}
	db.ForgetTenant(name)
	if doubts {
		_, err = doubted() // what was verified while the tenant was dropped
	}
	return err
}

// RotateTenantKey gives a tenant a new key, for all cells that are written from now on; if listed is not nil, only where that
// says so of the newest one.
func RotateTenantKey(ctx context.Context, db *session.Database, name string, listed func(id string) bool) error {
	var fresh meta.WrappedKey
	var of meta.TenantID // that it is wrapped for: another tenant may get the name meanwhile
	return changeTenant(ctx, db, name, nil, func(e *catalogue.Edit) error {
		before := e.Tenant(name)
		if before == nil {
			return fault.ErrNoTenant
		}
		if listed != nil {
			if ids, err := db.Keys.TenantIDs(before); err != nil || !listed(ids[0]) {
				return err
			}
		}
		if fresh == nil || of != before.ID {
			fresh, of = db.Keys.FreshTenant(before.ID), before.ID
		}
		next := *before
		next.Keys = append(slices.Clone(before.Keys), fresh)
		next.Since = e.NextVersion()
		e.PutTenant(&next)
		return nil
	})
}

// A Policy is one of package store.
type Policy struct {
	Whole     bool
	Sensitive []string
}

// SetPolicy says which columns of a table are sealed for a tenant, and which of them may become plain.
func SetPolicy(ctx context.Context, db *session.Database, tenant, table string, p Policy, unseal []string) error {
	return setPolicy(ctx, db, tenant, table, p, unseal, true)
}

// setPolicy is SetPolicy that may leave a policy as it is which the tenant has for the table.
func setPolicy(ctx context.Context, db *session.Database, tenant, table string, p Policy, unseal []string, replace bool) error {
	return changeTenant(ctx, db, tenant, []string{table}, func(e *catalogue.Edit) error {
		m, before := e.Table(table), e.Tenant(tenant)
		switch {
		case m == nil:
			return fault.ErrNoTable
		case !m.Tenants:
			return fmt.Errorf("%w: the table has none", fault.ErrTenant)
		case before == nil:
			return fault.ErrNoTenant
		}
		if _, has := before.Policies[m.ID]; has && !replace {
			return nil
		}
		policy := meta.Policy{Whole: p.Whole, Since: e.NextVersion()}
		for _, name := range p.Sensitive {
			c, err := m.PolicyColumn(name)
			if err != nil {
				return err
			}
			if replace && c.Clear() && c.Searchable() {
				return fmt.Errorf("%w: %q has a scheme that encrypts nothing, and no policy seals what is searched: leave it out, or change the column's encryption",
					fault.ErrPolicy, name)
			}
			policy.Sensitive = append(policy.Sensitive, c.ID)
		}
		next := *before
		next.Policies = map[meta.TableID]meta.Policy{m.ID: policy}
		for id, other := range before.Policies {
			if id != m.ID {
				next.Policies[id] = other
			}
		}
		unnamed, err := meta.Unsealed(m, before, &next, unseal)
		if err != nil {
			return err
		}
		if len(unnamed) > 0 {
			return &fault.UnsealError{Columns: unnamed}
		}
		e.PutTenant(&next)
		return nil
	})
}

// PolicyOf returns the policy of a tenant for a table, if one was set.
func PolicyOf(ctx context.Context, db *session.Database, tenant, table string) (p Policy, ok bool, err error) {
	m, of, _, err := db.Catalogue.LookUp(ctx, table, tenant)
	if err == nil && of == nil {
		err = fault.ErrNoTenant
	}
	if err == nil && !m.Tenants {
		err = fmt.Errorf("%w: the table has none", fault.ErrTenant)
	}
	if err != nil {
		return Policy{}, false, err
	}
	policy, ok := of.Policies[m.ID]
	p.Whole = policy.Whole
	for i := range m.Columns {
		if policy.Names(&m.Columns[i]) {
			p.Sensitive = append(p.Sensitive, m.Columns[i].Name)
		}
	}
	return p, ok, nil
}

// changeTenant makes one change of the entry of a tenant, knowing those of some tables, and lets
// tables that are open for the tenant know.
func changeTenant(ctx context.Context, db *session.Database, name string, tables []string, next func(*catalogue.Edit) error) error {
	c := db.Catalogue
	only := [][]byte{c.TenantQualifier(name)}
	for _, table := range tables {
		only = append(only, c.Qualifier(table))
	}
	if err := c.ChangeEntries(ctx, only, next); err != nil {
		return err
	}
	db.RefreshTenant(ctx, name)
	return nil
}

// CarryPolicy gives a tenant the policy for a table that it has for another one, unless it has one already. Otherwise values that
// are sealed in the other might come into the table in the clear. The two may be of different databases.
func CarryPolicy(ctx context.Context, tenant string, from, into *session.Table) error {
	db, was, is := into.Database(), from.Now().Meta, into.Now().Meta
	_, has, err := PolicyOf(ctx, db, tenant, is.Name)
	if errors.Is(err, fault.ErrNoTenant) {
		// It is no tenant that was dropped: its rows would be passed over.
		return fmt.Errorf("%w: the store of table %q has no tenant %q: create it there", fault.ErrUnfit, is.Name, tenant)
	}
	if err != nil || has {
		return err
	}
	p, has, err := PolicyOf(ctx, from.Database(), tenant, was.Name)
	if err != nil || !has {
		return err
	}
	err = setPolicy(ctx, db, tenant, is.Name, p, nil, false) // somebody may have set one just now, which seals more
	unnamed := (*fault.UnsealError)(nil)
	if !errors.As(err, &unnamed) {
		return err
	}
	// What is plain in the source by its policy may be plain here, if both schemas say the same of it.
	if slices.ContainsFunc(unnamed.Columns, func(c string) bool { return encryption(was, c) != encryption(is, c) }) {
		return fmt.Errorf("%w: by the policy of the source, columns of tenant %q would become plain that the schema of the table seals: set the tenant's policy for the table",
			fault.ErrUnfit, tenant)
	}
	of, err := from.ForTenant(ctx, tenant)
	if err != nil {
		return err
	}
	// A column that is newer than the policy is as its schema says. Here all are older.
	for _, c := range of.Schema().Columns {
		if c.Encryption != meta.Plain && slices.Contains(unnamed.Columns, c.Name) {
			p.Sensitive = append(p.Sensitive, c.Name)
		}
	}
	plain := slices.DeleteFunc(unnamed.Columns, func(c string) bool { return slices.Contains(p.Sensitive, c) })
	return setPolicy(ctx, db, tenant, is.Name, p, plain, false)
}

// NoStrangers returns an error if a table has rows of a tenant that the source of rows has not: it was dropped there. The source says
// [fault.ErrNoTenant] of one that it has not.
func NoStrangers(ctx context.Context, in *session.Table, has func(tenant string) error) error {
	return in.EachTenant(ctx, func(of *session.Table) error {
		name := of.Now().TenantName()
		if err := has(name); !errors.Is(err, fault.ErrNoTenant) {
			return err
		}
		first := of.Now().Rows(0, 1)
		first.Limit = 1
		for _, err := range of.Now().Data.Scan(ctx, first) {
			if err == nil {
				err = fmt.Errorf("%w: the table has rows of tenant %q, or marks of deleted ones, and the store of the source has no such tenant: drop it here, too", fault.ErrUnfit, name)
			}
			return err
		}
		return nil
	})
}

// encryption returns that of a column in a table's schema, or "" where there is none.
func encryption(m *meta.Table, column string) meta.Encryption {
	f, err := m.PolicyColumn(column)
	if err != nil {
		return ""
	}
	return f.Encryption
}
