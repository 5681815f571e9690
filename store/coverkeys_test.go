package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func coverKeys(tenants bool) Schema {
	return Schema{
		Name: "events", AppendOnly: true, Tenants: tenants,
		Key: []KeyPart{HashedPart("device", String), TiePart("id")},
		Columns: []Column{
			OrderedColumn("celsius", Int32, MOPE).Covering(), DeterministicColumn("room", String).Covering(),
			OrderedColumn("watt", Int32, Boldyreva), RandomisedColumn("note", String),
		},
	}
}

func coverKeyRows(from, n int) (rows []Row) {
	for i := from; i < from+n; i++ {
		rows = append(rows, Row{"device": fmt.Sprint(i % 3), "celsius": i, "room": "r", "watt": i, "note": fmt.Sprint("note ", i)})
	}
	return rows
}

// found returns how many rows a query by a column returns, and whether it read none besides the index entries.
func found(t *testing.T, tbl *Table, q Query) (n int, copied bool) {
	t.Helper()
	e, err := tbl.Analyze(t.Context(), q)
	require.NoError(t, err)
	return e.Rows, e.Requests == e.Intervals+e.Tokens
}

// keyCells returns the cells of the keys of a table's key cells, the newest first, or those of a tenant.
func keyCells(t *testing.T, tbl *Table, tenant string) (cells []int) {
	t.Helper()
	use, err := tbl.KeyUse(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, use.Unknown)
	for _, k := range use.Keys {
		if k.Column == "" && k.Tenant == tenant {
			cells = append(cells, k.Cells)
		}
	}
	return cells
}

// The key that seals key cells seals copies, which are counted as its cells; after a rotation and a conversion the old key has
// none left.
func TestKeyUseOfCopies(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		tbl, err := st.Create(ctx, coverKeys(false))
		require.NoError(t, err)
		require.NoError(t, st.Close(ctx)) // copies are put before a call returns
		require.NoError(t, tbl.Put(ctx, coverKeyRows(0, 20)...))
		require.Equal(t, []int{3 * 20}, keyCells(t, tbl, ""))
		require.NoError(t, st.RotateKeys(ctx, "events"))
		require.NoError(t, tbl.Put(ctx, coverKeyRows(20, 5)...))
		require.Equal(t, []int{3 * 5, 3 * 20}, keyCells(t, tbl, ""))
		q := Query{Where: Int32.Field("celsius").AtLeast(0)}
		n, copied := found(t, tbl, q)
		require.Equal(t, 25, n)
		require.True(t, copied, "copies of both keys open")
		stats, err := tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 20, stats.Converted)
		require.Equal(t, []int{3 * 25, 0}, keyCells(t, tbl, ""))
		n, copied = found(t, tbl, q)
		require.Equal(t, 25, n)
		require.True(t, copied)

		// Of a dropped column index entries with copies are left until all is converted.
		require.NoError(t, st.Alter(ctx, "events", DropColumn("room")))
		require.Equal(t, []int{3 * 25, 0}, keyCells(t, tbl, ""))
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, []int{2 * 25, 0}, keyCells(t, tbl, ""))

		// One that was cut short is of no key.
		for row, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			if rowcodec.HasCopy(row.Cells[0].Value) {
				cut := []driver.Cell{{Qualifier: []byte{}, Value: row.Cells[0].Value[:20]}}
				require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: row.Key, Puts: cut}))
				break
			}
		}
		use, err := tbl.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 1, use.Unknown)
		v, err := tbl.Verify(ctx, &VerifyOptions{Repair: true, Grace: 1})
		require.NoError(t, err)
		require.Equal(t, 1, v.Repaired)
		require.Equal(t, []int{2 * 25, 0}, keyCells(t, tbl, ""))

		// A new master key leaves the copies as they are.
		other, err := ope.NewKey(make([]byte, 32))
		require.NoError(t, err)
		require.NoError(t, st.RotateMaster(ctx, kms.NewLocal(other)))
		again, err := Open(ctx, db, kms.NewLocal(other), nil)
		require.NoError(t, err)
		defer again.Close(ctx)
		tbl, err = again.Table(ctx, "events")
		require.NoError(t, err)
		n, copied = found(t, tbl, q)
		require.Equal(t, 25, n)
		require.True(t, copied)
	})
}

// Where a table's cells are all plain, so are copies.
func TestKeyUseOfPlainCopies(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(ctx, Schema{
		Name: "clear", AppendOnly: true, Key: []KeyPart{PlainPart("device", Int32), TiePart("id")},
		Columns: []Column{OrderedColumn("celsius", Int32, Plaintext).Covering(), PlainColumn("note", String)},
	})
	require.NoError(t, err)
	require.NoError(t, st.Close(ctx))
	for i := range 10 {
		require.NoError(t, tbl.Put(ctx, Row{"device": i, "celsius": i, "note": "n"}))
	}
	n, copied := found(t, tbl, Query{Where: Int32.Field("celsius").AtLeast(4)})
	require.Equal(t, 6, n)
	require.True(t, copied)
	use, err := tbl.KeyUse(ctx, nil)
	require.NoError(t, err)
	v, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, v.Sound())
	require.Equal(t, inspect.KeyUse{Keys: use.Keys, Search: use.Search, Plain: v.Cells + 10, Catalogue: 1}, use)
	for row, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		for cut := range row.Cells[0].Value {
			value := row.Cells[0].Value[:cut]
			require.NoError(t, tbl.now().Postings.Apply(ctx, driver.Mutation{Row: row.Key, Puts: []driver.Cell{{Qualifier: []byte{}, Value: value}}}))
			rows, err := tbl.Count(ctx, Int32.Field("celsius").AtLeast(0))
			if err == nil {
				require.Equal(t, 10, rows)
			} else {
				require.True(t, detected(err), "%v", err)
				require.ErrorContains(t, err, "rangecrypt verify --repair")
			}
		}
		break
	}
}

// A tenant's copies are sealed with its own key, and go when the tenant goes, with what says that rows are being deleted.
func TestCopiesOfTenants(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		unbound, err := st.Create(ctx, coverKeys(true))
		require.NoError(t, err)
		require.NoError(t, st.Close(ctx))
		tables := openTenants(t, st, "events", "alpha", "beta")
		alpha, beta := tables[0], tables[1]
		require.NoError(t, alpha.Put(ctx, coverKeyRows(0, 12)...))
		require.NoError(t, beta.Put(ctx, coverKeyRows(0, 6)...))
		q := Query{Where: Int32.Field("celsius").AtLeast(0)}
		n, copied := found(t, beta, q)
		require.Equal(t, 6, n)
		require.True(t, copied)
		require.Equal(t, []int{3 * 12}, keyCells(t, unbound, "alpha"))
		require.Equal(t, []int{3 * 6}, keyCells(t, unbound, "beta"))
		require.Equal(t, []int{3 * 6}, keyCells(t, beta, "beta"))

		require.NoError(t, st.RotateTenantKey(ctx, "beta"))
		require.NoError(t, beta.Put(ctx, coverKeyRows(6, 2)...))
		require.Equal(t, []int{3 * 2, 3 * 6}, keyCells(t, unbound, "beta"))
		require.Equal(t, []int{3 * 12}, keyCells(t, unbound, "alpha"))
		_, err = beta.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, []int{3 * 8, 0}, keyCells(t, beta, "beta"))
		n, copied = found(t, beta, q)
		require.Equal(t, 8, n)
		require.True(t, copied)

		// What is not sensitive of beta is stored in the clear, and copies are sealed whole.
		require.NoError(t, setPolicy(ctx, st, "beta", "events", Policy{Sensitive: []string{"celsius"}}))
		_, err = beta.Convert(ctx, nil)
		require.NoError(t, err)
		n, copied = found(t, beta, q)
		require.Equal(t, 8, n)
		require.True(t, copied)
		require.Equal(t, []int{3 * 8, 0}, keyCells(t, beta, "beta"))

		// A client that died says that a row is being deleted.
		says := func(row []byte) driver.Mutation {
			return driver.Mutation{Row: beta.now().DeletionKey(row), Puts: []driver.Cell{{Qualifier: []byte("12345678"), Value: []byte{}}}}
		}
		gone := append(bytes.Clone(beta.now().Prefix), make([]byte, 32)...)
		require.NoError(t, beta.now().Postings.Apply(ctx, says(gone)))
		if kind.Name == "memory" { // what no client leaves is a fault, and none of the call
			short := says([]byte("row"))
			require.NoError(t, beta.now().Postings.Apply(ctx, short))
			v, err := unbound.Verify(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, map[inspect.FaultKind]int{inspect.FaultPosting: 1}, v.Faults)
			require.NoError(t, beta.now().Postings.Apply(ctx, driver.Mutation{Row: short.Row, DeleteRow: true}))
		}
		v, err := unbound.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		require.Zero(t, v.Uncopied)
		postings := func() (n int) {
			for _, err := range alpha.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		require.Equal(t, 3*12+3*8+1, postings())
		require.NoError(t, st.DropTenant(ctx, "beta"))
		use, err := unbound.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Positive(t, use.Orphans)
		orphans, err := unbound.DeleteOrphans(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 8, orphans.Rows)
		require.Equal(t, 3*8+1, orphans.Postings)
		require.Equal(t, 3*12, postings(), "nothing of the tenant is left")
		use, err = unbound.KeyUse(ctx, nil)
		require.NoError(t, err)
		require.Zero(t, use.Orphans)
		require.Equal(t, []int{3 * 12}, keyCells(t, unbound, "alpha"))
	})
}
