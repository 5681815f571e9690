package store

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
)

// backUp reads a family, and returns what puts it back to this moment.
func backUp(t *testing.T, f driver.Family) (restore func()) {
	t.Helper()
	read := func() (rows []driver.Row) {
		for row, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		return rows
	}
	rows := read()
	return func() {
		for _, row := range read() {
			require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, DeleteRow: true}))
		}
		for _, row := range rows {
			require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: row.Cells}))
		}
	}
}

// repaired opens a table anew, as after a restore. A verification names faults of one kind there, and mends them.
func repaired(t *testing.T, db driver.DB, kind inspect.FaultKind) *Table {
	t.Helper()
	var tbl *Table
	for _, repair := range []bool{false, true, false} {
		one, err := stores(t, db, 1)[0].Table(t.Context(), "t")
		require.NoError(t, err)
		found, err := one.Verify(t.Context(), &VerifyOptions{Repair: repair, Grace: time.Millisecond})
		require.NoError(t, err)
		if mended := tbl != nil && !repair; mended {
			require.True(t, found.Sound(), found.Faults)
		} else {
			require.NotZero(t, found.Faults[kind])
			require.Equal(t, repair, found.Sound(), found.Faults)
		}
		tbl = one
	}
	return tbl
}

func keysBy(t *testing.T, tbl *Table, where Predicate) (keys []int64) {
	t.Helper()
	for row, err := range tbl.Query(t.Context(), Query{Where: where, By: "v"}) {
		require.NoError(t, err)
		keys = append(keys, row["k"].(int64))
	}
	return keys
}

// While a column is converted, ranges find rows by the index that it had before. One of an earlier moment than the rows misses some.
func TestIndexOfEarlierFormAndMoment(t *testing.T) {
	for name, from := range map[string]ColumnScheme{"kerschbaum": Kerschbaum, "ranked": KerschbaumRanked, "indexed": WozniakIndexed} {
		for change, to := range map[string]Column{"scheme": OrderedColumn("v", Int64, MOPE), "index": OrderedColumn("v", Int64, Kerschbaum)} {
			t.Run(name+" to another "+change, func(t *testing.T) {
				db := drivertest.NewMemory()
				st := stores(t, db, 1)[0]
				tbl, err := st.Create(t.Context(), Schema{
					Name: "t", Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, from)},
				})
				require.NoError(t, err)
				put := func(from, to int64) (all []int64) {
					for i := from; i < to; i++ {
						require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i * 37 % 50}))
						all = append(all, i)
					}
					return all
				}
				all := put(0, 10)
				index, err := db.Family(t.Context(), driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
				require.NoError(t, err)
				restore := backUp(t, index)
				all = append(all, put(10, 20)...)
				if name == "kerschbaum" && change == "index" {
					require.NoError(t, st.RotateSearchKeys(t.Context(), "t", "v"))
				} else {
					require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(to)))
				}
				restore()
				tbl = repaired(t, db, inspect.FaultHidden)
				require.ElementsMatch(t, all, keysBy(t, tbl, Int64.Field("v").AtLeast(0)))
				require.Len(t, keysBy(t, tbl, Int64.Field("v").Between(10, 39)), 11)
			})
		}
	}
}

// Rows of before a conversion may come back to copies of after it. Who deletes such a row takes away its index entries of before.
func TestCopiesOfRowsYetToBeConverted(t *testing.T) {
	for _, appendOnly := range []bool{false, true} {
		db := drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		schema := Schema{
			Name: "t", Conditional: !appendOnly, AppendOnly: appendOnly, Key: []KeyPart{HashedPart("k", Int64)},
			Columns: []Column{OrderedColumn("v", Int64, Boldyreva).Covering()},
		}
		if appendOnly {
			schema.Key = append(schema.Key, TiePart("tie"))
		}
		tbl, err := st.Create(t.Context(), schema)
		require.NoError(t, err)
		for i := range int64(5) {
			require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i}))
		}
		require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("v", Int64, MOPE).Covering())))
		restore := backUp(t, tbl.now().Data)
		_, err = tbl.Convert(t.Context(), nil)
		require.NoError(t, err)
		restore()
		tbl = repaired(t, db, inspect.FaultCopy)
		for row, err := range tbl.Query(t.Context(), Query{Where: Int64.Field("k").Equal(3)}) {
			require.NoError(t, err)
			delete(row, "v")
			require.NoError(t, tbl.Delete(t.Context(), row))
		}
		require.ElementsMatch(t, []int64{0, 1, 2, 4}, keysBy(t, tbl, Int64.Field("v").AtLeast(0)))
		_, err = tbl.Convert(t.Context(), nil)
		require.NoError(t, err)
		require.ElementsMatch(t, []int64{0, 1, 2, 4}, keysBy(t, tbl, Int64.Field("v").AtLeast(0)))
	}
}

// A conversion may have come further than the rows that come back. It takes these up, too, before it ends.
func TestConversionThatCameFurtherThanTheRows(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		db := drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		of := func(st *Store) *Table {
			tbl, err := st.Table(t.Context(), "t")
			require.NoError(t, err)
			if tenants {
				tbl, err = tbl.Tenant(t.Context(), "one")
				require.NoError(t, err)
			}
			return tbl
		}
		_, err := st.Create(t.Context(), Schema{
			Name: "t", Tenants: tenants, Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, MOPE)},
		})
		require.NoError(t, err)
		if tenants {
			require.NoError(t, st.CreateTenant(t.Context(), "one"))
		}
		tbl := of(st)
		var all []int64
		for i := range int64(40) {
			require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i}))
			all = append(all, i)
		}
		require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("v", Int64, Wozniak))))
		tbl = of(st)
		restore := []func(){backUp(t, tbl.now().Data), backUp(t, tbl.now().Postings)}
		for part := range 2 {
			if part == 0 || tenants { // all rows of a tenant, while the table may have others
				_, err = tbl.ConvertPart(t.Context(), inspect.Part{Index: part, Of: 2})
				require.NoError(t, err)
			}
		}
		for _, back := range restore {
			back()
		}
		st = stores(t, db, 1)[0]
		tbl = of(st)
		found, err := tbl.Verify(t.Context(), &VerifyOptions{Repair: true, Grace: time.Millisecond})
		require.NoError(t, err)
		require.True(t, found.Sound())
		whole, err := st.Table(t.Context(), "t")
		require.NoError(t, err)
		_, err = whole.Convert(t.Context(), nil)
		require.NoError(t, err)
		require.ElementsMatch(t, all, keysBy(t, tbl, Int64.Field("v").AtLeast(0)))
		found, err = tbl.Verify(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, found.Faults)
	}
}

// A catalogue that is older than the rows is not changed by a repair: after a change the rows would be no newer, and lose values.
func TestRepairUnderOlderCatalogue(t *testing.T) {
	for name, scheme := range map[string]ColumnScheme{"kerschbaum": Kerschbaum, "ranked": KerschbaumRanked, "indexed": WozniakIndexed} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			st := stores(t, db, 1)[0]
			tbl, err := st.Create(t.Context(), Schema{
				Name: "t", Key: []KeyPart{HashedPart("k", Int64)},
				Columns: []Column{OrderedColumn("v", Int64, scheme), OrderedColumn("w", Int64, scheme)},
			})
			require.NoError(t, err)
			root, err := db.Family(t.Context(), catalogue.Spec)
			require.NoError(t, err)
			index, err := db.Family(t.Context(), driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
			require.NoError(t, err)
			gone := backUp(t, index)
			for i := range int64(5) {
				require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i, "w": i}))
			}
			older := backUp(t, root)
			require.NoError(t, st.Alter(t.Context(), "t", AddColumn(RandomisedColumn("later", Int64))))
			for i := int64(5); i < 10; i++ {
				require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i, "w": i, "later": i}))
			}
			newest := backUp(t, root)
			older()
			gone()
			behind, err := stores(t, db, 1)[0].Table(t.Context(), "t")
			require.NoError(t, err)
			found, err := behind.Verify(t.Context(), &VerifyOptions{Repair: true, Grace: time.Millisecond})
			require.NoError(t, err)
			require.True(t, found.PutBack)
			require.False(t, found.Sound())
			newest()
			tbl = repaired(t, db, inspect.FaultIndex)
			require.Len(t, keysBy(t, tbl, Int64.Field("v").AtLeast(0)), 10)
			n, err := tbl.Count(t.Context(), Int64.Field("later").AtLeast(5))
			require.NoError(t, err)
			require.Equal(t, 5, n)
		})
	}
}

// The index of ranks of a column that is being converted is made again by one repair, which ends the conversion first.
func TestLostRanksOfColumnUnderConversion(t *testing.T) {
	db := drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(t.Context(), Schema{
		Name: "t", Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, MOPE)},
	})
	require.NoError(t, err)
	require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("v", Int64, KerschbaumRanked))))
	index, err := db.Family(t.Context(), driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
	require.NoError(t, err)
	gone := backUp(t, index)
	for i := range int64(5) {
		require.NoError(t, tbl.Put(t.Context(), Row{"k": i, "v": i}))
	}
	gone()
	tbl = repaired(t, db, inspect.FaultIndex)
	require.Len(t, keysBy(t, tbl, Int64.Field("v").AtLeast(0)), 5)
}

// To make an index again is a change of the catalogue, so nobody does that under one that is older than the rows, of whichever table.
func TestReindexUnderOlderCatalogue(t *testing.T) {
	for name, scheme := range map[string]ColumnScheme{"kerschbaum": Kerschbaum, "ranked": KerschbaumRanked, "indexed": WozniakIndexed} {
		for _, newer := range []string{"t", "other"} {
			t.Run(name+" and newer rows of "+newer, func(t *testing.T) {
				db := drivertest.NewMemory()
				st := stores(t, db, 1)[0]
				tables := make(map[string]*Table)
				for _, name := range []string{"t", "other"} {
					var err error
					tables[name], err = st.Create(t.Context(), Schema{Name: name, Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, scheme)}})
					require.NoError(t, err)
					require.NoError(t, tables[name].Put(t.Context(), Row{"k": int64(0), "v": int64(0)}))
				}
				root, err := db.Family(t.Context(), catalogue.Spec)
				require.NoError(t, err)
				older := backUp(t, root)
				require.NoError(t, st.Alter(t.Context(), newer, AddColumn(RandomisedColumn("later", Int64))))
				require.NoError(t, tables[newer].Put(t.Context(), Row{"k": int64(1), "v": int64(1), "later": int64(1)}))
				newest := backUp(t, root)
				older()
				behind, err := stores(t, db, 1)[0].Table(t.Context(), "t")
				require.NoError(t, err)
				require.ErrorIs(t, behind.RebuildIndex(t.Context(), "v", nil), errPutBack)
				newest()
				is, err := stores(t, db, 1)[0].Table(t.Context(), newer)
				require.NoError(t, err)
				require.Equal(t, []int64{0, 1}, slices.Sorted(slices.Values(keysBy(t, is, Int64.Field("v").AtLeast(0)))))
				n, err := is.Count(t.Context(), Int64.Field("later").Equal(1))
				require.NoError(t, err)
				require.Equal(t, 1, n)
			})
		}
	}
}

// Nor is it if the rows are those of another tenant, whose index is made again with it.
func TestRepairUnderOlderCatalogueOfTenants(t *testing.T) {
	db := drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	for _, name := range []string{"one", "other"} {
		require.NoError(t, st.CreateTenant(t.Context(), name))
	}
	tbl, err := st.Create(t.Context(), Schema{
		Name: "t", Tenants: true, Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, Kerschbaum)},
	})
	require.NoError(t, err)
	put := func(tenant string, row Row) {
		of, err := tbl.Tenant(t.Context(), tenant)
		require.NoError(t, err)
		require.NoError(t, of.Put(t.Context(), row))
	}
	root, err := db.Family(t.Context(), catalogue.Spec)
	require.NoError(t, err)
	index, err := db.Family(t.Context(), driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
	require.NoError(t, err)
	gone := backUp(t, index)
	put("one", Row{"k": int64(1), "v": int64(1)})
	older := backUp(t, root)
	require.NoError(t, st.Alter(t.Context(), "t", AddColumn(RandomisedColumn("later", Int64))))
	put("other", Row{"k": int64(2), "v": int64(2), "later": int64(3)})
	older()
	gone()
	behind, err := stores(t, db, 1)[0].Table(t.Context(), "t")
	require.NoError(t, err)
	of, err := behind.Tenant(t.Context(), "one")
	require.NoError(t, err)
	version := behind.now().Version
	found, err := of.Verify(t.Context(), &VerifyOptions{Repair: true, Grace: time.Millisecond})
	require.NoError(t, err)
	require.True(t, found.PutBack)
	one, err := stores(t, db, 1)[0].Table(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, version, one.now().Version)
}

// The head of a cell says at which version a row was written. Of one that somebody has changed it says nothing, and the index is made again.
func TestRepairOfIndexBesideChangedRow(t *testing.T) {
	db := drivertest.NewMemory()
	tbl, err := stores(t, db, 1)[0].Create(t.Context(), Schema{
		Name: "t", Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, Kerschbaum)},
	})
	require.NoError(t, err)
	index, err := db.Family(t.Context(), driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
	require.NoError(t, err)
	gone := backUp(t, index)
	require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(1), "v": int64(1)}, Row{"k": int64(2), "v": int64(2)}))
	gone()
	for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true, Limit: 1}) {
		require.NoError(t, err)
		row.Cells[0].Value[1+len(seal.KeyID{})] ^= 1
		require.NoError(t, tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: row.Cells[:1]}))
	}
	one, err := stores(t, db, 1)[0].Table(t.Context(), "t")
	require.NoError(t, err)
	found, err := one.Verify(t.Context(), &VerifyOptions{Repair: true, Grace: time.Millisecond})
	require.NoError(t, err)
	require.False(t, found.PutBack)
	require.Equal(t, 1, found.Faults[inspect.FaultCell])
	require.Equal(t, 1, found.Repaired)
}

// A tenant that was made since the catalogue was saved looks as if it had been dropped, but its rows are newer.
func TestTenantNewerThanCatalogue(t *testing.T) {
	db := drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(t.Context(), plainTenants(false))
	require.NoError(t, err)
	root, err := db.Family(t.Context(), catalogue.Spec)
	require.NoError(t, err)
	gone := openTenants(t, st, "log", "gone")[0]
	require.NoError(t, gone.Put(t.Context(), tenantRow(1)))
	require.NoError(t, st.DropTenant(t.Context(), "gone"))
	older := backUp(t, root)
	later := openTenants(t, st, "log", "later")[0]
	require.NoError(t, later.Put(t.Context(), tenantRow(2)))
	newest := backUp(t, root)
	older()
	behind, err := stores(t, db, 1)[0].Table(t.Context(), "log")
	require.NoError(t, err)
	for _, repair := range []bool{false, true} {
		found, err := behind.Verify(t.Context(), &VerifyOptions{Repair: repair, Grace: time.Millisecond})
		require.NoError(t, err)
		require.True(t, found.PutBack)
		require.False(t, found.Sound())
	}
	_, err = behind.DeleteOrphans(t.Context(), nil)
	require.ErrorIs(t, err, errPutBack)
	newest()
	is, err := stores(t, db, 1)[0].Table(t.Context(), "log")
	require.NoError(t, err)
	deleted, err := is.DeleteOrphans(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, deleted.Rows)
	found, err := is.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, found.Sound(), found.Faults)
	require.Equal(t, 1, found.Rows)
}

// A copy that is newer than the catalogue says so. Nothing puts the row there again where it is gone.
func TestCopyNewerThanCatalogue(t *testing.T) {
	for _, gone := range []bool{false, true} {
		db := drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		tbl, err := st.Create(t.Context(), Schema{
			Name: "t", Conditional: true, Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, MOPE).Covering()},
		})
		require.NoError(t, err)
		root, err := db.Family(t.Context(), catalogue.Spec)
		require.NoError(t, err)
		none := backUp(t, tbl.now().Data)
		require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(1), "v": int64(1)}))
		before, older := backUp(t, tbl.now().Data), backUp(t, root)
		require.NoError(t, st.Alter(t.Context(), "t", AddColumn(RandomisedColumn("later", Int64))))
		require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(1), "v": int64(2), "later": int64(1)}))
		if older(); gone {
			none()
		} else {
			before()
		}
		is, err := stores(t, db, 1)[0].Table(t.Context(), "t")
		require.NoError(t, err)
		said := 0
		found, err := is.Verify(t.Context(), &VerifyOptions{Fault: func(f inspect.Fault) {
			if f.Kind == inspect.FaultCopy {
				require.ErrorIs(t, f.Err, errPutBack)
				require.NotContains(t, f.Err.Error(), "--repair")
				said++
			}
		}})
		require.NoError(t, err)
		require.Equal(t, 1, said)
		require.True(t, found.PutBack)
	}
}

// Where the index of ranks is made again, queries open all rows: those of before may lack postings. So they do after one more change.
func TestRanksMadeAgainAndChanged(t *testing.T) {
	db := drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(t.Context(), Schema{Name: "t", Key: []KeyPart{HashedPart("k", Int64)}, Columns: []Column{OrderedColumn("v", Int64, KerschbaumRanked)}})
	require.NoError(t, err)
	none := backUp(t, tbl.now().Postings)
	require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(1), "v": int64(1)}))
	none()
	require.NoError(t, st.RotateSearchKeys(t.Context(), "t", "v"))
	require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("v", Int64, MOPE))))
	is, err := stores(t, db, 1)[0].Table(t.Context(), "t")
	require.NoError(t, err)
	n, err := is.Count(t.Context(), Int64.Field("v").AtLeast(0))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// The number that an index gets when it is made again may be one that it had under a newer catalogue. One repair finds another one.
func TestIndexNumberOfNewerCatalogue(t *testing.T) {
	for reindexes := range 4 {
		db := drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		tbl, err := st.Create(t.Context(), Schema{Name: "t", Key: []KeyPart{OrderedPart("k", Int64, WozniakIndexed)}, Columns: []Column{OrderedColumn("v", Int64, MOPE)}})
		require.NoError(t, err)
		root, err := db.Family(t.Context(), catalogue.Spec)
		require.NoError(t, err)
		require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(1), "v": int64(1)}))
		older := backUp(t, root)
		for range reindexes + 1 {
			require.NoError(t, tbl.RebuildIndex(t.Context(), "k", nil))
		}
		older()
		tbl = repaired(t, db, inspect.FaultIndex)
		require.NoError(t, tbl.Put(t.Context(), Row{"k": int64(2), "v": int64(2)}))
		require.Equal(t, []int64{1, 2}, keysBy(t, tbl, Int64.Field("v").AtLeast(0)))
	}
}
