package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// badNames are names that nothing can be given, but some tables of earlier versions have.
var badNames = []string{" ", " n", "n ", "\tn", "n\u00a0", "a\nb", "a\x1b[31mb", "a\u0085b", "\x7f"}

func TestNamesThatAreGiven(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	column := func(name string) Column { return RandomisedColumn(name, String) }
	for _, name := range append([]string{"", "a\xffb"}, badNames...) {
		withPart, withColumn := alterSchema("other"), alterSchema("other")
		withPart.Key[1] = OrderedPart(name, Int64, MOPE)
		withColumn.Columns[0] = column(name)
		for what, schema := range map[string]Schema{"table": alterSchema(name), "part": withPart, "column": withColumn} {
			_, err := st.Create(ctx, schema)
			require.ErrorIs(t, err, ErrSchema, "%s %q", what, name)
			require.ErrorIs(t, schema.Check(), ErrSchema, "%s %q", what, name)
		}
		require.ErrorIs(t, st.RenameTable(ctx, "t", name), ErrSchema, "%q", name)
		require.ErrorIs(t, st.Alter(ctx, "t", AddColumn(column(name))), ErrSchema, "%q", name)
		require.ErrorIs(t, st.Alter(ctx, "t", RenameColumn("note", name)), ErrSchema, "%q", name)
		require.ErrorIs(t, st.Alter(ctx, "t", RenameColumn("at", name)), ErrSchema, "%q", name)
		require.ErrorIs(t, st.CreateTenant(ctx, name), ErrTenant, "%q", name)
	}
	require.Equal(t, []string{"note", "zone"}, columnNames(schemaOf(t, db, "t")))
	require.NoError(t, st.Alter(ctx, "t", RenameColumn("note", "a b\u202e(ü)"), AddColumn(column(".")))) // nor is any other a fault
}

// What has a name from before these rules is used as ever, and can get another.
func TestNamesThatAreThere(t *testing.T) {
	for _, name := range badNames {
		ctx, db := t.Context(), drivertest.NewMemory()
		old := stores(t, db, 1)[0]
		_, err := old.Create(ctx, plainTenants(packed))
		require.NoError(t, err)
		require.NoError(t, old.CreateTenant(ctx, "acme"))
		require.NoError(t, old.db.Catalogue.ChangeEntries(ctx, [][]byte{old.db.Catalogue.TenantQualifier("acme"), old.db.Catalogue.Qualifier("log")}, func(e *edit) error {
			meta, tenant := e.Table("log").Clone(), *e.Tenant("acme")
			meta.Name, tenant.Name = name, name
			for i := range meta.Columns {
				if meta.Columns[i].Name == "note" {
					meta.Columns[i].Name = name
				}
			}
			e.Remove("log")
			e.Put(meta)
			e.RemoveTenant("acme")
			e.PutTenant(&tenant)
			return nil
		}), "%q", name)

		st := stores(t, db, 1)[0]
		bound := func(table string) *Table {
			unbound, err := st.Table(ctx, table)
			require.NoError(t, err)
			tbl, err := unbound.Tenant(ctx, name)
			require.NoError(t, err)
			return tbl
		}
		tbl := bound(name)
		require.ErrorIs(t, st.CreateTenant(ctx, name), ErrExists, "as programs ask when they start")
		_, err = st.Create(ctx, tbl.Schema())
		require.ErrorIs(t, err, ErrExists)
		row := tenantRow(1)
		row[name] = row["note"]
		delete(row, "note")
		require.NoError(t, tbl.Put(ctx, row))
		got, err := tbl.Get(ctx, row)
		require.NoError(t, err)
		require.Equal(t, row[name], got[name])
		require.NoError(t, st.Alter(ctx, name, ChangeColumn(DeterministicColumn(name, String))), "%q", name)
		_, err = bound(name).Convert(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, st.RotateTenantKey(ctx, name))
		require.NoError(t, setPolicy(ctx, st, name, name, Policy{Whole: true}))
		require.NoError(t, st.Alter(ctx, name, RenameColumn(name, "note")))
		require.NoError(t, st.RenameTable(ctx, name, "log"))
		got, err = bound("log").Get(ctx, tenantRow(1))
		require.NoError(t, err)
		require.Equal(t, row[name], got["note"])
		require.NoError(t, st.DropTenant(ctx, name))
	}
}
