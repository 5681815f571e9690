package administer

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Describe reads what the catalogue says of all tables and tenants.
func Describe(ctx context.Context, db *session.Database) (inspect.Database, error) {
	e, err := db.Catalogue.All(ctx)
	if err != nil {
		return inspect.Database{}, fmt.Errorf("describe: %w", err)
	}
	metas, err := e.Tables()
	if err != nil {
		return inspect.Database{}, fmt.Errorf("describe: %w", err)
	}
	d := inspect.Database{ID: hex.EncodeToString(db.Catalogue.Database[:]), Key: keyring.ID(db.Catalogue.Key), Version: e.Version()}
	for _, m := range metas {
		table, err := describe(ctx, db, metas, m)
		if err != nil {
			return inspect.Database{}, fmt.Errorf("describe %q: %w", m.Name, err)
		}
		d.Tables = append(d.Tables, table)
	}
	tenants, err := e.Tenants()
	if err != nil {
		return inspect.Database{}, fmt.Errorf("describe: %w", err)
	}
	for _, tenant := range tenants {
		ids, err := db.Keys.TenantIDs(tenant)
		if err != nil {
			return inspect.Database{}, fmt.Errorf("describe tenant %q: %w", tenant.Name, err)
		}
		d.Tenants = append(d.Tenants, inspect.Tenant{Name: tenant.Name, Keys: ids})
	}
	return d, nil
}

// DescribeTable reads what the catalogue says of a table.
func DescribeTable(ctx context.Context, tbl *session.Table) (inspect.Table, error) {
	db := tbl.Database()
	e, err := db.Catalogue.All(ctx)
	if err != nil {
		return inspect.Table{}, err
	}
	m, err := e.Find(tbl.Now().Meta.Name, tbl.ID())
	if err != nil {
		return inspect.Table{}, err
	}
	metas, err := e.Tables()
	if err != nil {
		return inspect.Table{}, err
	}
	return describe(ctx, db, metas, m)
}

// describe returns what the catalogue, which says metas of all tables, says of one of them.
func describe(ctx context.Context, db *session.Database, metas []*meta.Table, m *meta.Table) (inspect.Table, error) {
	d := inspect.Table{
		Name: m.Name, ID: hex.EncodeToString(m.ID[:]), Version: m.Version,
		Layout: m.PlainLayout(), PageRows: m.PageRows, TTL: m.Lifetime(), SpreadBits: m.SpreadBits, Conditional: m.Conditional, AppendOnly: m.AppendOnly(), Tenants: m.Tenants, Clear: m.Clear,
	}
	if _, err := m.Schema(); err != nil { // a layout that is not known to this version, for one
		return d, err
	}
	m, err := db.Whole(ctx, m)
	if err != nil {
		return d, err
	}
	specs, err := familiesOf(db, m, false)
	if err != nil {
		return d, err
	}
	d.Families = slices.Sorted(maps.Keys(specs))
	k := db.Keys.Of(m)
	if !m.Elsewhere() {
		rows, err := k.Rows(m)
		if err != nil {
			return d, err
		}
		if !m.Tenants {
			if d.RowKeys, err = rows.IDs(); err != nil {
				return d, err
			}
		}
	}
	for _, list := range []struct {
		fields []meta.Field
		to     *[]inspect.Field
	}{{m.Key, &d.Key}, {m.Columns, &d.Columns}} {
		for i := range list.fields {
			f, err := describeField(k, m, &list.fields[i], metas)
			if err != nil {
				return d, err
			}
			*list.to = append(*list.to, f)
		}
	}
	return d, nil
}

func describeField(k keyring.Table, of *meta.Table, m *meta.Field, all []*meta.Table) (inspect.Field, error) {
	f, err := of.SpecOf(m)
	if err != nil {
		return inspect.Field{}, err
	}
	d := f.Inspect()
	d.ID, d.Since, d.Remaking, d.Converted = hex.EncodeToString(m.ID[:]), m.Since, m.Filling, m.Converted
	key, err := k.Search(m)
	if err != nil {
		return d, fmt.Errorf("column %q: %w", m.Name, err)
	}
	if !key.IsZero() {
		d.SearchKey = keyring.ID(key)
	}
	if d.Confidentiality != "" {
		d.SharedWith = m.Sharers(of, all)
	}
	cells, err := k.Cells(m)
	if err == nil {
		d.CellKeys, err = cells.IDs()
	}
	if err != nil {
		return d, fmt.Errorf("column %q: %w", m.Name, err)
	}
	if of.Tenants {
		d.SearchKey, d.CellKeys = "", nil // nothing is under those
	}
	for i := range m.Former {
		former, err := describeField(k, of, &m.Former[i], all)
		if err != nil {
			return d, err
		}
		d.Former = append(d.Former, former)
	}
	return d, nil
}
