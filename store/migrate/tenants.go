package migrate

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
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
	return s.table.EachTenant(ctx, func(of *session.Table) error {
		return do(of.Now().TenantName(), encrypted{layouts.Of(of), s.name, s.db})
	})
}

// ofTenant implements tenanted.
func (s encrypted) ofTenant(ctx context.Context, tenant string) (Source, error) {
	if s.table == nil {
		return nil, ofSource(s.gone())
	}
	of, err := s.table.ForTenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	return encrypted{layouts.Of(of), s.name, s.db}, nil
}

// carryPolicy implements tenanted.
func (s encrypted) carryPolicy(ctx context.Context, tenant string, into *session.Table) error {
	return administer.CarryPolicy(ctx, tenant, s.table.Table, into)
}
