package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// Describe reads what the catalogue says of the table by now. It reads the entries of all tables,
// since these say which columns share keys.
func (tbl *Table) Describe(ctx context.Context) (inspect.Table, error) {
	st, name := &Store{tbl.open().Database()}, tbl.open().Now().Meta.Name
	e, err := st.db.Catalogue.All(ctx)
	if err != nil {
		return inspect.Table{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	meta, err := e.Find(name, tbl.open().ID())
	if err != nil {
		return inspect.Table{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	d, err := st.describe(e, meta)
	if err != nil {
		return inspect.Table{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	return d, nil
}

func (st *Store) describe(e *edit, meta *tableMeta) (inspect.Table, error) {
	d := inspect.Table{
		Name: meta.Name, ID: hex.EncodeToString(meta.ID[:]), Version: meta.Version,
		SpreadBits: meta.SpreadBits, Conditional: meta.Conditional, Tenants: meta.Tenants, Clear: meta.Clear,
	}
	schema, err := meta.Schema()
	if err != nil {
		return d, err
	}
	d.Layout = Layout(schema.Layout).String()
	specs, err := st.specs(meta)
	if err != nil {
		return d, err
	}
	d.Families = slices.Sorted(maps.Keys(specs))
	k := st.db.Keys.Table(meta.ID)
	rows, err := k.Rows(meta)
	if err != nil {
		return d, err
	}
	if !meta.Tenants {
		d.RowKeys = rows.IDs()
	}
	metas, err := e.Tables()
	if err != nil {
		return d, err
	}
	for _, list := range []struct {
		fields []fieldMeta
		to     *[]inspect.Field
	}{{meta.Key, &d.Key}, {meta.Columns, &d.Columns}} {
		for i := range list.fields {
			f, err := describeField(k, meta, &list.fields[i], metas)
			if err != nil {
				return d, err
			}
			*list.to = append(*list.to, f)
		}
	}
	return d, nil
}

func describeField(k tableKeys, of *tableMeta, m *fieldMeta, all []*tableMeta) (inspect.Field, error) {
	f, err := m.Spec()
	if err != nil {
		return inspect.Field{}, err
	}
	d := inspect.Field{
		Name: m.Name, Type: f.Type.String(), Encryption: string(m.Encryption), Scheme: m.Scheme,
		ID: hex.EncodeToString(m.ID[:]), Since: m.Since, Converted: m.Converted,
	}
	key, err := k.Search(m)
	if err != nil {
		return d, fmt.Errorf("column %q: %w", m.Name, err)
	}
	if !key.IsZero() {
		d.SearchKey = keyID(key)
	}
	if m.Encryption == ordered || m.Encryption == deterministic {
		if d.Confidentiality = string(m.Confidentiality); m.Confidentiality == ofColumn {
			d.Confidentiality = "column"
		}
		d.SharedWith = m.Sharers(of, all)
	}
	cells, err := k.Cells(m)
	if err != nil {
		return d, fmt.Errorf("column %q: %w", m.Name, err)
	}
	d.CellKeys = cells.IDs()
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

// Describe reads what the catalogue says, of all tables and tenants. Each key is unwrapped for its id: one that
// was changed or moved is [ErrTampered].
func (st *Store) Describe(ctx context.Context) (inspect.Database, error) {
	e, err := st.db.Catalogue.All(ctx)
	if err != nil {
		return inspect.Database{}, fmt.Errorf("store: describe: %w", err)
	}
	metas, err := e.Tables()
	if err != nil {
		return inspect.Database{}, fmt.Errorf("store: describe: %w", err)
	}
	d := inspect.Database{ID: hex.EncodeToString(st.db.Catalogue.Database[:]), Key: keyID(st.db.Catalogue.Key), Version: e.Version()}
	for _, meta := range metas {
		table, err := st.describe(e, meta)
		if err != nil {
			return inspect.Database{}, fmt.Errorf("store: describe %q: %w", meta.Name, err)
		}
		d.Tables = append(d.Tables, table)
	}
	tenants, err := e.Tenants()
	if err != nil {
		return inspect.Database{}, fmt.Errorf("store: describe: %w", err)
	}
	for _, tenant := range tenants {
		keys, err := st.db.Keys.TenantKeys(tenant)
		if err != nil {
			return inspect.Database{}, fmt.Errorf("store: describe tenant %q: %w", tenant.Name, err)
		}
		t := inspect.Tenant{Name: tenant.Name}
		for _, key := range slices.Backward(keys) {
			t.Keys = append(t.Keys, keyID(key))
		}
		d.Tenants = append(d.Tenants, t)
	}
	return d, nil
}
