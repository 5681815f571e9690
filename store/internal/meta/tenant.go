package meta

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A Tenant is what the catalogue says of a tenant.
type Tenant struct {
	ID       TenantID           `json:"id"`
	Name     string             `json:"name"`
	Since    uint32             `json:"since"` // the version that the last key came with
	Keys     []WrappedKey       `json:"keys"`  // what is searched is under the first for ever, new cells under the last
	Policies map[TableID]Policy `json:"policies,omitempty"`
}

// A Policy is a store.Policy with ids in the place of names, so that it does not depend on these.
type Policy struct {
	Whole     bool       `json:"whole,omitempty"`
	Sensitive []ColumnID `json:"sensitive,omitempty"`
	Since     uint32     `json:"since"` // the version that it came with
}

// CheckTenantName returns an error if no tenant can be given the name.
func CheckTenantName(name string) error {
	if err := checkName("the name of a tenant", name); err != nil {
		return fault.As(err.Error(), fault.ErrTenant)
	}
	return nil
}

// PolicyColumn returns the column of the name, which a policy may be about.
func (m *Table) PolicyColumn(name string) (*Field, error) {
	if slices.ContainsFunc(m.Key, func(f Field) bool { return f.Name == name }) {
		return nil, fmt.Errorf("%w: %q is a part of the row key, which the schema says how to encrypt", fault.ErrPolicy, name)
	}
	i := slices.IndexFunc(m.Columns, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no column %q", fault.ErrPolicy, name)
	}
	return &m.Columns[i], nil
}

// Unsealed returns the columns that become plain and are not among those to be unsealed, and an error
// if one of these would not be plain then.
func Unsealed(meta *Table, before, after *Tenant, unseal []string) (unnamed []string, err error) {
	storedAs := func(t *Tenant, c *Field) Encryption {
		return t.Stored(meta.ID, Spec{Encryption: c.Encryption}, c).Encryption
	}
	for _, name := range unseal {
		c, err := meta.PolicyColumn(name)
		if err != nil {
			return nil, err
		}
		if as := storedAs(after, c); as != Plain {
			return nil, fmt.Errorf("%w: %q is to be unsealed, and would be %s: leave it out", fault.ErrPolicy, name, as)
		}
	}
	for i := range meta.Columns {
		c := &meta.Columns[i]
		if storedAs(before, c) != Plain && storedAs(after, c) == Plain && !slices.Contains(unseal, c.Name) {
			unnamed = append(unnamed, c.Name)
		}
	}
	return unnamed, nil
}

// Changed returns the version of the catalogue at which it became how a table stores rows, for a
// tenant if it has some.
func Changed(meta *Table, tenant *Tenant) uint32 {
	if tenant == nil {
		return meta.Version
	}
	return max(meta.Version, tenant.Since, tenant.Policies[meta.ID].Since)
}

// Stored returns how a column is stored for the tenant.
func (m *Tenant) Stored(table TableID, f Spec, column *Field) Spec {
	p, ok := m.Policies[table]
	if !ok || f.Encryption != Plain && f.Encryption != Randomised {
		return f
	}
	switch {
	case p.Whole || p.Names(column):
		f.Encryption = Randomised
	case column.Since < p.Since:
		f.Encryption = Plain
	}
	return f
}

// Names reports whether the policy names a column, under the id that it has or one that it had.
func (p Policy) Names(column *Field) bool {
	return slices.Contains(p.Sensitive, column.ID) ||
		slices.ContainsFunc(column.Former, func(f Field) bool { return slices.Contains(p.Sensitive, f.ID) })
}
