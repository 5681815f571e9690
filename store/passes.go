package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/maintain"
)

// passes returns what the passes over the table need.
func (tbl *Table) passes() *maintain.Environment {
	st := tbl.st
	return &maintain.Environment{
		Now:     tbl.now,
		Refresh: tbl.refresh,
		Bound:   tbl.tenant != nil,
		ForTenants: func(ctx context.Context, do func(*maintain.Environment) error) error {
			return tbl.forTenants(ctx, func(bound *Table) error { return do(bound.passes()) })
		},
		Pseudonyms:  tbl.pseudonyms,
		DropUnused:  st.dropUnused,
		DropIndexes: st.dropIndexes,
		Parts:       st.conversionParts,
		Progress: func(ctx context.Context) (catalogue.Progress, error) {
			p, _, err := tbl.sweep(ctx)
			return p, err
		},
		UpdateProgress: tbl.updateSweep,
		Tenant: func(ctx context.Context) (*tenantMeta, error) {
			_, tenant, _, err := st.catalogue.Entry(ctx, tbl.now().Meta.Name, tbl.id, tbl.tenant)
			return tenant, err
		},
		RefreshBound: func(ctx context.Context) { st.refreshBound(ctx, func(b *Table) bool { return b.id == tbl.id }) },
		Settle: func(ctx context.Context, swept *tableMeta) (uint32, error) {
			return st.settle(ctx, swept.Name, swept.ID, swept.Version)
		},
		Reindex: func(ctx context.Context, t *engine.Engine, column string, progress func(int)) error {
			return (&indexBuild{st: st, progress: progress}).again(ctx, t, column)
		},
		Fresh: func(ctx context.Context, since uint32) (*engine.Engine, error) {
			meta, tenant, version, err := st.catalogue.Entry(ctx, tbl.now().Meta.Name, tbl.id, tbl.tenant)
			if err != nil || changed(meta, tenant) != since {
				return nil, err
			}
			return tbl.engine(ctx, meta, tenant, version, nil)
		},
	}
}
