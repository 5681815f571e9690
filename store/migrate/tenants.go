package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// hasTenants implements tenanted.
func (s encrypted) hasTenants(gone bool) bool {
	if s.table == nil {
		return gone
	}
	return s.table.Now().Meta.Tenants
}

// eachTenant implements tenanted.
func (s encrypted) eachTenant(ctx context.Context, do func(tenant string, of Source) error) error {
	if s.table == nil {
		return ofSource(s.gone())
	}
	return s.table.EachTenant(ctx, func(of *session.Table) error { return do(of.Now().TenantName(), encrypted{of, s.name}) })
}

// ofTenant implements tenanted.
func (s encrypted) ofTenant(ctx context.Context, tenant string) (Source, error) {
	if s.table == nil {
		return nil, ofSource(s.gone())
	}
	of, err := s.table.ForTenant(ctx, tenant)
	return encrypted{of, s.name}, err
}

// carryPolicy gives a tenant the policy of the source, unless it has one for the table. Otherwise values that are sealed in the source
// might come in the clear.
func (s encrypted) carryPolicy(ctx context.Context, tenant string, into *session.Table) error {
	db, was, is := into.Database(), s.table.Now().Meta, into.Now().Meta
	_, has, err := administer.PolicyOf(ctx, db, tenant, is.Name)
	if errors.Is(err, fault.ErrNoTenant) {
		// It is no tenant that was dropped: its rows would be passed over.
		return fmt.Errorf("%w: the store of table %q has no tenant %q: create it there", ErrUnfit, is.Name, tenant)
	}
	if err != nil || has {
		return err
	}
	p, has, err := administer.PolicyOf(ctx, s.table.Database(), tenant, was.Name)
	if err != nil || !has {
		return err
	}
	err = administer.SetPolicy(ctx, db, tenant, is.Name, p, nil)
	unnamed := (*fault.UnsealError)(nil)
	if !errors.As(err, &unnamed) {
		return err
	}
	// What is plain in the source by its policy may be plain here, if both schemas say the same of it.
	if slices.ContainsFunc(unnamed.Columns, func(c string) bool { return encryption(was, c) != encryption(is, c) }) {
		return fmt.Errorf("%w: by the policy of the source, columns of tenant %q would become plain that the schema of the table seals: set the tenant's policy for the table",
			ErrUnfit, tenant)
	}
	return administer.SetPolicy(ctx, db, tenant, is.Name, p, unnamed.Columns)
}

// encryption returns that of a column in a table's schema, or "" where there is none.
func encryption(m *meta.Table, column string) meta.Encryption {
	f, err := m.PolicyColumn(column)
	if err != nil {
		return ""
	}
	return f.Encryption
}
