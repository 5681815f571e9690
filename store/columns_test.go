package store_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// No columns are the key parts alone, and their cells are not read; nil is all columns.
func TestNoColumns(t *testing.T) {
	db := &specNoting{DB: drivertest.NewMemory(), specs: make(map[string]driver.FamilySpec)}
	tbl := create(t, open(t, db), store.Schema{
		Name: "t", CellPerColumn: cellPerColumn, Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.MOPE)},
		Columns: []store.Column{store.DeterministicColumn("d", store.Int64), store.RandomisedColumn("r", store.Int64)},
	})
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "d": 2, "r": 3}))
	key, all := store.Row{"id": int64(1)}, store.Row{"id": int64(1), "d": int64(2), "r": int64(3)}
	joined := func(o *store.JoinOptions) (left, right store.Row) {
		for j, err := range store.Join(background, tbl, "d", tbl, "d", o) {
			require.NoError(t, err)
			left, right = j[0], j[1]
		}
		return left, right
	}
	left, right := joined(&store.JoinOptions{Left: []string{}})
	require.Equal(t, []store.Row{key, all}, []store.Row{left, right})
	left, right = joined(&store.JoinOptions{Right: []string{}})
	require.Equal(t, []store.Row{all, key}, []store.Row{left, right})
	require.Equal(t, []store.Row{all}, collect(t, tbl, store.Query{}))
	got, err := tbl.Get(background, key, []string{}...)
	require.NoError(t, err)
	require.Equal(t, all, got, "a call without names is one for all")

	// Cells of columns that are damaged are noticed where they are opened.
	damaged := 0
	for name, spec := range db.specs {
		if name[0] != 't' {
			continue
		}
		family, err := db.Family(background, spec)
		require.NoError(t, err)
		for row, err := range family.Scan(background, driver.Range{}) {
			require.NoError(t, err)
			for _, cell := range row.Cells[1:] {
				require.NoError(t, family.Apply(background, driver.Mutation{Row: row.Key, Puts: []driver.Cell{{Qualifier: cell.Qualifier, Value: []byte("x")}}}))
				damaged++
			}
		}
	}
	require.Equal(t, 2, damaged)
	_, err = tbl.Get(background, key)
	require.Error(t, err)
	none := store.Query{Columns: []string{}}
	require.Equal(t, []store.Row{key}, collect(t, tbl, none))
	none.Limit = 1
	rows, _, err := tbl.Page(background, none)
	require.NoError(t, err)
	require.Equal(t, []store.Row{key}, rows)
	none.Limit = math.MaxInt
	rows, next, err := tbl.Page(background, none)
	require.NoError(t, err)
	require.Empty(t, next)
	require.Equal(t, []store.Row{key}, rows)
}

// specNoting notes the families that are opened.
type specNoting struct {
	driver.DB
	specs map[string]driver.FamilySpec
}

func (s *specNoting) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	s.specs[spec.Name] = spec
	return s.DB.Family(ctx, spec)
}

// A table without tenants has none, whether one of that name exists or not.
func TestTenantOfTableWithoutTenants(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
	require.NoError(t, st.CreateTenant(background, "there"))
	for _, name := range []string{"there", "x"} {
		_, err := tbl.Tenant(background, name)
		require.ErrorIs(t, err, store.ErrTenant)
		require.NotErrorIs(t, err, store.ErrNoTenant)
	}
}
