package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Tenants are described by the ids of their keys, tables with tenants have none of their own, and what is
// database-wide in those is another key for each tenant, which no table without tenants has.
func TestDescribeTenants(t *testing.T) {
	ctx := t.Context()
	st := stores(t, driver.DB(drivertest.NewMemory()), 1)[0]
	wide := []Column{DeterministicColumn("user", String).DatabaseWide(), RandomisedColumn("note", String)}
	for name, tenants := range map[string]bool{"plain": false, "log": true, "trail": true} {
		_, err := st.Create(ctx, Schema{Name: name, Key: []KeyPart{HashedPart("id", Int64)}, Columns: wide, Tenants: tenants})
		require.NoError(t, err)
	}
	openTenants(t, st, "log", "beta", "alpha")
	require.NoError(t, st.RotateTenantKey(ctx, "beta"))
	d, err := st.Describe(ctx)
	require.NoError(t, err)
	require.Len(t, d.Tenants, 2)
	require.Equal(t, "alpha", d.Tenants[0].Name)
	require.Len(t, d.Tenants[0].Keys, 1)
	require.Equal(t, "beta", d.Tenants[1].Name)
	require.Len(t, d.Tenants[1].Keys, 2)
	newest := d.Tenants[1].Keys[0]
	require.NoError(t, st.RotateTenantKey(ctx, "beta"))
	d, err = st.Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, newest, d.Tenants[1].Keys[1], "the newest comes first")

	for _, table := range d.Tables {
		require.Equal(t, table.Name != "plain", table.Tenants)
		require.Equal(t, table.Tenants, len(table.RowKeys) == 0)
		shared := map[string][]string{"log": {"trail.user"}, "trail": {"log.user"}}
		require.Equal(t, shared[table.Name], table.Columns[0].SharedWith)
		require.Equal(t, table.Tenants, table.Columns[0].SearchKey == "")
		require.Equal(t, table.Tenants, len(table.Columns[1].CellKeys) == 0)
	}
}

// The schema of a table that is open for a tenant is as the tenant's policy says, and that of the table
// as it was made.
func TestSchemaOfTenant(t *testing.T) {
	ctx := t.Context()
	st := stores(t, driver.DB(drivertest.NewMemory()), 1)[0]
	unbound, err := st.Create(ctx, plainTenants(packed))
	require.NoError(t, err)
	tables := openTenants(t, st, "log", "alpha", "beta")
	encryptions := func(tbl *Table) (all []string) {
		for _, c := range tbl.Schema().Columns {
			all = append(all, c.Describe().Encryption)
		}
		return all
	}
	made := []string{"ordered", "deterministic", "randomised", "plain", "randomised"}
	require.Equal(t, made, encryptions(tables[0]))
	require.NoError(t, setPolicy(ctx, st, "alpha", "log", Policy{Sensitive: []string{"zone"}}))
	require.Equal(t, []string{"ordered", "deterministic", "plain", "randomised", "plain"}, encryptions(tables[0]))
	require.Equal(t, made, encryptions(tables[1]))
	require.Equal(t, made, encryptions(unbound))

	status, err := tables[0].Status(ctx)
	require.NoError(t, err)
	require.Less(t, status.Version, status.Latest)
	_, err = tables[0].Convert(ctx, nil)
	require.NoError(t, err)
	status, err = tables[0].Status(ctx)
	require.NoError(t, err)
	require.Equal(t, status.Latest, status.Version)
}
