package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// replacedSchema is a table whose rows have copies, and are replaced under conditions.
func replacedSchema(name string) store.Schema {
	s := copiesSchema(name)
	s.AppendOnly, s.Conditional, s.Key = false, true, []store.KeyPart{store.HashedPart("id", store.Int64)}
	return s
}

// dies returns a fault at the nth write of index entries.
func dies(nth int, fault drivertest.Fault) func(op drivertest.Op) drivertest.Fault {
	n := 0
	return func(op drivertest.Op) drivertest.Fault {
		if op.Family != "" && op.Family[0] == 'x' && !op.Reads() && op.Method != "Family" {
			if n++; n == nth {
				return fault
			}
		}
		return drivertest.NoFault
	}
}

// replaceAndDelete writes rows in all ways, with clients that die, and returns how many are there.
func (h *chronicle) replaceAndDelete(tbl *store.Table, tenant string) (rows int) {
	h.t.Helper()
	name := tbl.Schema().Name
	h.put(tbl, copiesRows(0, 12)...)
	require.NoError(h.t, tbl.Update(background, store.Row{"id": int64(0), "i1": int64(5)}, store.Row{"id": int64(1), "kind": nil}))
	require.NoError(h.t, tbl.Delete(background, store.Row{"id": int64(2)}, store.Row{"id": int64(3)}))
	require.NoError(h.t, tbl.Insert(background, copiesRows(3, 4)...))

	// Of rows that are there, postings are pending; doubtful, with a copy, of a row that stays; doubtful of one that went.
	other := func(id int) store.Row { return store.Row{"id": int64(id), "i1": int64(id + 50), "kind": "other"} }
	require.NoError(h.t, h.dying(name, tenant, dies(2, drivertest.Lose)).Put(background, copiesRows(12, 13)...))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashBefore)).Put(background, other(4)))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashAfter)).Put(background, other(5)))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashBefore)).Update(background, other(6)))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashBefore)).Delete(background, store.Row{"id": int64(7)}))
	require.Error(h.t, h.dying(name, tenant, diesAtRows(drivertest.CrashAfter)).Delete(background, store.Row{"id": int64(8)}))
	return 12 - 2 + 1 + 1 - 1
}

// replacedDump writes conditional tables with copies: of both layouts, of tenants, and with columns that cover since they were changed.
func replacedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database of conditional tables with copies of rows in postings, as store wrote it, see docs/format.md.")
	for _, layout := range []bool{packed, cellPerColumn} {
		s := replacedSchema(map[bool]string{packed: "packed", cellPerColumn: "cell per column"}[layout])
		s.CellPerColumn = layout
		tbl := h.create(s)
		h.dump.Tables[s.Name] = h.holds(tbl, h.replaceAndDelete(tbl, ""))
	}
	tenants := replacedSchema("of tenants")
	tenants.Tenants = true
	unbound := h.create(tenants)
	h.dump.Tenants[tenants.Name] = make(map[string][]map[string]string)
	for _, name := range []string{"alpha", "beta"} {
		require.NoError(t, h.st.CreateTenant(background, name))
		tbl, err := unbound.Tenant(background, name)
		require.NoError(t, err)
		h.dump.Tenants[tenants.Name][name] = h.holds(tbl, h.replaceAndDelete(tbl, name))
	}
	for _, convert := range []bool{false, true} {
		name := map[bool]string{false: "changed", true: "converted"}[convert]
		s := replacedSchema(name)
		s.Columns = []store.Column{
			store.OrderedColumn("i1", store.Int64, store.MOPE), store.DeterministicColumn("kind", store.String), store.OrderedColumn("i3", store.Int64, store.Wozniak), store.RandomisedColumn("note", store.String),
		}
		tbl := h.create(s)
		h.put(tbl, featureRows(0, 6, "i1", "kind", "i3", "note")...)
		require.NoError(t, h.st.RotateKeys(background, name))
		h.alter(name, store.ChangeColumn(store.OrderedColumn("i1", store.Int64, store.MOPE).Covering()), store.ChangeColumn(store.OrderedColumn("i3", store.Int64, store.Wozniak).Covering()))
		h.put(tbl, featureRows(4, 8, "i1", "kind", "i3", "note")...)
		if convert {
			h.convert(tbl)
		}
		h.dump.Tables[name] = h.holds(tbl, 8)
	}
	return h.finish()
}

// So are those of rows that are replaced.
func TestFirstCopiesOfReplacedRowsStayReadable(t *testing.T) {
	d := golden(t, goldenReplaced, replacedDump)
	doubts := 0
	for _, f := range d.Families {
		for _, row := range f.Rows {
			for _, cell := range row.Cells {
				if f.Name[0] == 'x' && cell[0] != "" {
					require.Len(t, cell[0], 18)
					doubts++
				}
			}
		}
	}
	require.Positive(t, doubts)
	st := openDump(t, d)
	for g, schema := range goldenTables(t, d, st) {
		name := g.name
		require.True(t, schema.Conditional, name)
		g.check()
		dead := name != "changed" && name != "converted"
		report, err := g.open().Verify(background, nil)
		require.NoError(t, err)
		require.Equal(t, dead, report.Uncopied > 0, name)
		g.rewrite()
		g.check()
		g.mend()
		g.each(func(tbl *store.Table, _ []map[string]string) {
			e, err := tbl.Analyze(background, store.Query{Where: store.Field[int64]("i1").AtLeast(-100)})
			require.NoError(t, err)
			require.Equal(t, "i1", e.Driver)
			require.Equal(t, e.Intervals, e.Requests, "no row is read: %s", name)
		})
	}
}

// A table whose rows are replaced answers by its copies as by its rows, on each database.
func TestCopiesOfReplacedRows(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		st := open(t, db)
		tbl := create(t, st, store.Schema{
			Name: "accounts", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int32)},
			Columns: []store.Column{
				store.OrderedColumn("balance", store.Int32, store.MOPE).Covering(), store.DeterministicColumn("city", store.String).Covering(), store.RandomisedColumn("note", store.String),
			},
		})
		model := make(map[int32]store.Row)
		id := func(i int32) store.Row { return store.Row{"id": i} }
		for i := range int32(60) {
			model[i] = store.Row{"id": i, "balance": i % 20, "city": fmt.Sprint("c", i%3), "note": fmt.Sprint(i)}
			require.NoError(t, tbl.Put(background, model[i]))
		}
		other, err := open(t, db).Table(background, "accounts")
		require.NoError(t, err)
		for i := range int32(60) {
			switch i % 5 {
			case 0:
				model[i]["balance"] = i + 100
				require.NoError(t, other.Update(background, store.Row{"id": i, "balance": i + 100}))
			case 1:
				model[i] = store.Row{"id": i, "city": "new"}
				require.NoError(t, tbl.Put(background, model[i]))
			case 2:
				delete(model, i)
				require.NoError(t, other.Delete(background, id(i)))
			case 3:
				model[i]["note"] = "changed"
				require.NoError(t, other.UpdateIf(background, store.Row{"id": i, "note": "changed"}, store.Row{"balance": i % 20}))
				require.ErrorIs(t, tbl.UpdateIf(background, store.Row{"id": i, "note": "no"}, store.Row{"balance": i%20 + 1}), store.ErrConflict)
			}
		}
		balance := func(from, to int32) func(store.Row) bool {
			return func(row store.Row) bool { b, ok := row["balance"].(int32); return ok && from <= b && b <= to }
		}
		for _, c := range []struct {
			where store.Predicate
			holds func(store.Row) bool
		}{
			{store.Int32.Field("balance").Between(3, 15), balance(3, 15)}, {store.Int32.Field("balance").AtLeast(100), balance(100, 1000)},
			{store.String.Field("city").In("c1", "new"), func(row store.Row) bool { return row["city"] == "c1" || row["city"] == "new" }},
		} {
			for _, asks := range []*store.Table{tbl, other} {
				var want []string
				for _, row := range model {
					if c.holds(row) {
						want = append(want, fmt.Sprint(row["id"], row["balance"], row["city"], row["note"]))
					}
				}
				var got []string
				for _, row := range collect(t, asks, store.Query{Where: c.where}) {
					got = append(got, fmt.Sprint(row["id"], row["balance"], row["city"], row["note"]))
				}
				require.ElementsMatch(t, want, got)
			}
		}
	})
}
