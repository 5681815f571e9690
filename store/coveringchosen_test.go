package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// chosen returns a schema of golden databases with copies of some columns.
func chosen(s store.Schema) store.Schema {
	some := map[string][]string{"i1": {"note", "id"}, "kind": {"zone", "i1", "kind"}, "text": {}}
	for i, c := range s.Columns {
		if names, is := some[c.Describe().Name]; is {
			s.Columns[i] = c.Covering(names...)
		}
	}
	return s
}

// chosenDump writes tables whose copies have some columns: rows that are only added and such as are replaced, of both layouts,
// of tenants, and where columns changed that copies have.
func chosenDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with copies of some columns in postings, as store wrote it, see docs/format.md.")
	added := h.create(chosen(copiesSchema("added")))
	h.dump.Tables["added"] = h.holds(added, h.addAndDelete(added, ""))
	replaced := chosen(replacedSchema("replaced"))
	replaced.CellPerColumn = cellPerColumn
	tbl := h.create(replaced)
	h.dump.Tables["replaced"] = h.holds(tbl, h.replaceAndDelete(tbl, ""))

	tenants := chosen(replacedSchema("of tenants"))
	tenants.Tenants = true
	unbound := h.create(tenants)
	require.NoError(t, h.st.CreateTenant(background, "alpha"))
	tbl, err := unbound.Tenant(background, "alpha")
	require.NoError(t, err)
	h.dump.Tenants[tenants.Name] = map[string][]map[string]string{"alpha": h.holds(tbl, h.replaceAndDelete(tbl, "alpha"))}

	for _, convert := range []bool{false, true} {
		name := map[bool]string{false: "changed", true: "converted"}[convert]
		tbl := h.create(chosen(replacedSchema(name)))
		h.put(tbl, copiesRows(0, 6)...)
		h.alter(name, store.ChangeColumn(store.DeterministicColumn("note", store.String)), store.DropColumn("zone"), store.RenameColumn("i1", "first"),
			store.ChangeColumn(store.OrderedColumn("i2", store.Int64, store.Kerschbaum).Covering("note", "first")))
		rows := copiesRows(4, 9)
		for _, row := range rows {
			row["first"] = row["i1"]
			delete(row, "i1")
			delete(row, "zone")
		}
		h.put(tbl, rows...)
		if convert {
			h.convert(tbl)
		}
		h.dump.Tables[name] = h.holds(tbl, 9)
	}
	require.NoError(t, h.st.SetLease(background, 100*time.Millisecond))
	return h.finish()
}

// Copies of some columns that the first version with them wrote are read in place of rows, by queries that ask for no others.
func TestFirstCopiesOfSomeColumnsStayReadable(t *testing.T) {
	d := golden(t, goldenChosen, chosenDump)
	st := openDump(t, d)
	for g, schema := range goldenTables(t, d, st) {
		g.check()
		if schema.AppendOnly {
			g.goOn()
		} else {
			g.rewrite()
		}
		g.check()
		g.mend()
		if schema.AppendOnly {
			continue // what a client had begun to delete stays a hint
		}
		first := schema.Columns[0].Describe().Name
		g.each(func(tbl *store.Table, _ []map[string]string) {
			for _, columns := range [][]string{{"id", "note"}, {first}, {"note", "text"}, nil} {
				e, err := tbl.Analyze(background, store.Query{Where: store.Field[int64](first).AtLeast(-100), Columns: columns})
				require.NoError(t, err)
				require.Equal(t, first, e.Driver)
				within := columns != nil && !slices.Contains(columns, "text")
				require.Equal(t, within && e.Rows > 0, e.Requests == e.Intervals, "rows are read for others only: %s %v", g.name, columns)
			}
		})
	}
}

// Copies of some columns answer queries that ask for no others. They follow the table's columns.
func TestCopiesOfSomeColumns(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, store.Schema{
			Name: "accounts", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int32)},
			Columns: []store.Column{
				store.OrderedColumn("balance", store.Int32, store.MOPE).Covering("city"), store.DeterministicColumn("city", store.String),
				store.RandomisedColumn("note", store.String), store.OrderedColumn("rank", store.Int32, store.MOPE).Covering("rank", "note"),
			},
		})
		row := func(i int) store.Row {
			return store.Row{"id": int32(i), "balance": int32(i), "city": []string{"Bonn", "Ulm"}[i%2], "note": strings.Repeat("n", i), "rank": int32(-i)}
		}
		for i := range 20 {
			require.NoError(t, tbl.Put(background, row(i)))
		}
		require.NoError(t, st.Close(background))
		q := store.Query{Where: store.Int32.Field("balance").Between(5, 14)}
		check := func(copied bool, columns ...string) {
			t.Helper()
			tbl, err := st.Table(background, "accounts")
			require.NoError(t, err)
			q := q
			if columns != nil {
				q.Columns = append([]string{"id"}, columns...)
			}
			rows := collect(t, tbl, q)
			require.Len(t, rows, 10)
			for _, r := range rows {
				whole, err := tbl.Get(background, store.Row{"id": r["id"]})
				require.NoError(t, err)
				for _, name := range columns {
					require.Equal(t, whole[name], r[name], name)
				}
			}
			e, err := tbl.Analyze(background, q)
			require.NoError(t, err)
			require.Equal(t, "balance", e.Driver)
			require.Equal(t, copied, e.Requests == e.Intervals, "%v", columns)
			require.Equal(t, copied, len(e.Copied) > 0, "%v", columns)
			require.Equal(t, !copied, len(e.Uncopied) > 0, "%v", columns)
		}
		check(true, "city", "balance")
		check(false, "note")
		check(false)
		q.Where = store.And(q.Where, store.String.Field("note").AtLeast(""))
		check(false, "city") // which the condition is not on
		q.Where = store.Int32.Field("balance").Between(5, 14)

		// Another column is copied in place of one that was changed.
		change := func(alterations ...store.Change) {
			t.Helper()
			require.NoError(t, st.Alter(background, "accounts", alterations...))
		}
		change(store.ChangeColumn(store.RandomisedColumn("city", store.String)), store.RenameColumn("city", "town"))
		check(true, "town")
		tbl, err := st.Table(background, "accounts")
		require.NoError(t, err)
		require.Equal(t, []string{"town"}, tbl.Schema().Columns[0].Describe().Copied)
		_, err = tbl.Convert(background, nil)
		require.NoError(t, err)
		check(true, "town")
		v, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound())
		require.Zero(t, v.Uncopied)

		// The same columns in another order are no change. Others are, and all are.
		before := v.Postings
		change(store.ChangeColumn(store.OrderedColumn("balance", store.Int32, store.MOPE).Covering("id", "town", "balance")))
		check(true, "town")
		change(store.ChangeColumn(store.OrderedColumn("balance", store.Int32, store.MOPE).Covering()))
		_, err = tbl.Convert(background, nil)
		require.NoError(t, err)
		check(true, "note")
		change(store.ChangeColumn(store.OrderedColumn("balance", store.Int32, store.MOPE).Covering("town")), store.DropColumn("town"))
		_, err = tbl.Convert(background, nil)
		require.NoError(t, err)
		check(true, "balance")
		check(false, "rank")
		tbl, err = st.Table(background, "accounts")
		require.NoError(t, err)
		require.Equal(t, []string{}, tbl.Schema().Columns[0].Describe().Copied)
		v, err = tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound())
		require.Equal(t, before, v.Postings)

		// A schema that was read makes the same table again.
		s := tbl.Schema()
		s.Name = "again"
		require.Equal(t, schemaText(s), schemaText(create(t, st, s).Schema()))
	})
}

// Names that are no columns are refused, and a value may be too large for a copy that has it only.
func TestColumnsToCopyAreChecked(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	s := store.Schema{
		Name: "t", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int32)},
		Columns: []store.Column{store.OrderedColumn("a", store.Int32, store.MOPE).Covering("b"), store.RandomisedColumn("note", store.String)},
	}
	_, err := st.Create(background, s)
	require.ErrorIs(t, err, store.ErrSchema)
	require.ErrorContains(t, err, `column "a" covers "b", and table "t" has no such column: correct the name, or leave it out`)
	s.Columns[0] = store.OrderedColumn("a", store.Int32, store.MOPE).Covering("id")
	tbl := create(t, st, s)
	require.ErrorContains(t, st.Alter(background, "t", store.ChangeColumn(store.OrderedColumn("a", store.Int32, store.MOPE).Covering("c"))), `covers "c"`)
	require.ErrorContains(t, st.Alter(background, "t", store.AddColumn(store.OrderedColumn("b", store.Int32, store.MOPE).Covering("c"))), `covers "c"`)
	large := strings.Repeat("x", 600_000)
	require.NoError(t, tbl.Put(background, store.Row{"id": int32(1), "a": int32(1), "note": large}))
}
