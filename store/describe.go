package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// A Description is what the catalogue says of a table, for administration. It holds ids of keys,
// which tell nothing about them, and no keys. Ids are in hex.
type Description struct {
	Name       string
	ID         string
	Version    uint32 // of the catalogue, that the last change of the table made
	Layout     Layout
	SpreadBits int // 0 is one partition

	Conditional bool     // rows are written by compare-and-set
	Tenants     bool     // rows are of tenants, and all keys those of the tenants: see TenantDescription
	Clear       bool     // nothing is encrypted, nor can be
	Families    []string // of the database, that the table has: of rows, postings and indexes
	RowKeys     []string // ids of the keys of key cells, the one for new cells first
	Key         []FieldDescription
	Columns     []FieldDescription
}

// A FieldDescription is what the catalogue says of a part of a row key or of a column.
type FieldDescription struct {
	Name            string
	Type            string // as [ParseType] reads it
	Encryption      string // "plain", "hashed", "ordered", "tie", "randomised" or "deterministic"
	Scheme          string // of an ordered one
	Confidentiality string // of a column with a search key: "column", "multicolumn" or "database"

	// SharedWith are the columns that have its search key, as table.column in ascending order.
	SharedWith []string

	ID        string   // the physical name
	Since     uint32   // the version of the catalogue that it came with
	SearchKey string   // id of the key of its ciphertexts and tokens, or empty
	CellKeys  []string // ids of the keys of its cells, the one for new cells first

	// Former are the ids that the column had before its encryption was changed, the latest first.
	// Unless one is Converted, rows may have values there.
	Former    []FieldDescription
	Converted bool
}

// Describe reads what the catalogue says of the table by now. It reads the entries of all tables,
// since these say which columns share keys.
func (tbl *Table) Describe(ctx context.Context) (Description, error) {
	st, name := tbl.st, tbl.now().Meta.Name
	e, err := st.catalogue.All(ctx)
	if err != nil {
		return Description{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	meta, err := e.Find(name, tbl.id)
	if err != nil {
		return Description{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	d, err := st.describe(e, meta)
	if err != nil {
		return Description{}, fmt.Errorf("store: describe %q: %w", name, err)
	}
	return d, nil
}

func (st *Store) describe(e *edit, meta *tableMeta) (Description, error) {
	d := Description{
		Name: meta.Name, ID: hex.EncodeToString(meta.ID[:]), Version: meta.Version,
		SpreadBits: meta.SpreadBits, Conditional: meta.Conditional, Tenants: meta.Tenants, Clear: meta.Clear,
	}
	schema, err := meta.Schema()
	if err != nil {
		return d, err
	}
	d.Layout = Layout(schema.Layout)
	specs, err := st.specs(meta)
	if err != nil {
		return d, err
	}
	d.Families = slices.Sorted(maps.Keys(specs))
	k := st.keys.Table(meta.ID)
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
		to     *[]FieldDescription
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

func describeField(k tableKeys, of *tableMeta, m *fieldMeta, all []*tableMeta) (FieldDescription, error) {
	f, err := m.Spec()
	if err != nil {
		return FieldDescription{}, err
	}
	d := FieldDescription{
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

// A DatabaseDescription is what the catalogue says.
type DatabaseDescription struct {
	ID      string              // random, in hex
	Key     string              // id of the database key, in hex
	Version uint32              // how often the catalogue was changed
	Tables  []Description       // by name
	Tenants []TenantDescription // by name
}

// A TenantDescription is what the catalogue says of a tenant.
type TenantDescription struct {
	Name string
	Keys []string // ids of its keys in hex, the one that new cells are sealed under first
}

// Describe reads what the catalogue says, of all tables and tenants. Each key is unwrapped for its id: one that
// was changed or moved is [ErrTampered].
func (st *Store) Describe(ctx context.Context) (DatabaseDescription, error) {
	e, err := st.catalogue.All(ctx)
	if err != nil {
		return DatabaseDescription{}, fmt.Errorf("store: describe: %w", err)
	}
	metas, err := e.Tables()
	if err != nil {
		return DatabaseDescription{}, fmt.Errorf("store: describe: %w", err)
	}
	d := DatabaseDescription{ID: hex.EncodeToString(st.catalogue.Database[:]), Key: keyID(st.catalogue.Key), Version: e.Version()}
	for _, meta := range metas {
		table, err := st.describe(e, meta)
		if err != nil {
			return DatabaseDescription{}, fmt.Errorf("store: describe %q: %w", meta.Name, err)
		}
		d.Tables = append(d.Tables, table)
	}
	tenants, err := e.Tenants()
	if err != nil {
		return DatabaseDescription{}, fmt.Errorf("store: describe: %w", err)
	}
	for _, tenant := range tenants {
		keys, err := st.keys.TenantKeys(tenant)
		if err != nil {
			return DatabaseDescription{}, fmt.Errorf("store: describe tenant %q: %w", tenant.Name, err)
		}
		t := TenantDescription{Name: tenant.Name}
		for _, key := range slices.Backward(keys) {
			t.Keys = append(t.Keys, keyID(key))
		}
		d.Tenants = append(d.Tenants, t)
	}
	return d, nil
}
