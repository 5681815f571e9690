package store_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// goldenRanked is a database that the first version with ranks wrote.
const goldenRanked = "../testdata/vectors/ranked-1.json"

// inwards returns 0 to n-1 from both ends inwards, as coins fall: a path that nothing predicts, on which ranks are used up.
func inwards(n int64) (values []int64) {
	r := rand.New(rand.NewPCG(1, 2))
	for low, high := int64(0), n-1; low <= high; {
		if r.IntN(2) == 0 {
			values = append(values, low)
			low++
		} else {
			values = append(values, high)
			high--
		}
	}
	return values
}

// rankedDump writes tables with columns that have ranks: in each way to write rows, with indexes of several units, with values
// that share a rank, and with one whose index was made again.
func rankedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	smallUnits(t)
	h := newChronicle(t, key, "A database with columns of kerschbaum-ranked, as store wrote it, see docs/format.md.")
	id, column := store.HashedPart("id", store.Int64), store.OrderedColumn("i1", store.Int64, store.KerschbaumRanked)

	// Ascending values, and then lower ones.
	tbl := h.create(store.Schema{Name: "readings", Key: []store.KeyPart{id}, Columns: []store.Column{column, store.RandomisedColumn("kind", store.String)}})
	for from := range 7 {
		h.put(tbl, rankedRows(10*from, 10*from+10)...)
	}
	for from := range 6 {
		h.put(tbl, rankedRows(-10*from-10, -10*from)...)
	}
	require.NoError(t, tbl.Delete(background, store.Row{"id": int64(3)}))
	h.dump.Tables["readings"] = h.holds(tbl, 129)

	// Most values are of rows that were replaced, and stay in the index.
	tbl = h.create(store.Schema{Name: "shared", CellPerColumn: true, Key: []store.KeyPart{id}, Columns: []store.Column{column}})
	for i, x := range inwards(330) {
		h.put(tbl, store.Row{"id": int64(max(i-230, 0)), "i1": 1000 * x})
	}
	h.dump.Tables["shared"] = h.holds(tbl, 100)
	h.dividing(id, column)

	for _, schema := range []store.Schema{
		{Name: "added", AppendOnly: true, Key: []store.KeyPart{id, store.TiePart("tie")}},
		{Name: "conditional", Conditional: true, Key: []store.KeyPart{id}},
	} {
		schema.Columns = []store.Column{
			column.Covering(), store.OrderedColumn("text", store.String, store.KerschbaumRanked).Covering(), store.PlainColumn("zone", store.String),
		}
		tbl = h.create(schema)
		h.put(tbl, featureRows(-6, 6, "i1", "text", "zone")...)
		h.dump.Tables[schema.Name] = h.holds(tbl, 12)
	}

	const tenants = "of tenants"
	unbound := h.create(store.Schema{Name: tenants, Tenants: true, Key: []store.KeyPart{id}, Columns: []store.Column{column}})
	h.dump.Tenants[tenants] = map[string][]map[string]string{}
	for i, name := range []string{"alpha", "beta"} {
		require.NoError(t, h.st.CreateTenant(background, name))
		tbl, err := unbound.Tenant(background, name)
		require.NoError(t, err)
		h.put(tbl, featureRows(i, 3*i+4, "i1")...)
		h.dump.Tenants[tenants][name] = h.holds(tbl, 2*i+4)
	}

	tbl = h.create(store.Schema{Name: "made again", Key: []store.KeyPart{id}, Columns: []store.Column{column}})
	h.put(tbl, featureRows(0, 5, "i1")...)
	require.NoError(t, tbl.RebuildIndex(background, "i1", nil))
	h.put(tbl, featureRows(5, 9, "i1")...)
	h.dump.Tables["made again"] = h.holds(tbl, 9)
	return h.finish()
}

// dividing makes a table with an index whose lowest values are frozen: the shard that is to take them cannot be written to.
func (h *chronicle) dividing(id store.KeyPart, column store.Column) {
	h.t.Helper()
	grow := func(tbl *store.Table, from, to int) { // by values of which most are of no row any more
		for ; from < to; from += 10 {
			rows := rankedRows(from, from+10)
			for i := range rows {
				rows[i]["id"] = int64(i)
				delete(rows[i], "kind")
			}
			h.put(tbl, rows...)
		}
	}
	tbl := h.create(store.Schema{Name: "dividing", Key: []store.KeyPart{id}, Columns: []store.Column{column}})
	grow(tbl, 0, 60)
	made := false
	grow(h.dying("dividing", "", func(op drivertest.Op) drivertest.Fault {
		if of := bytes.Split(op.Row, []byte("/")); op.Method != "Commit" || len(of) != 3 || string(of[1]) == "000000" {
			return drivertest.NoFault
		}
		if !made {
			made = true
			return drivertest.NoFault
		}
		return drivertest.FailBefore
	}), 60, 140)
	h.dump.Tables["dividing"] = h.holds(tbl, 10)
}

// rankedRows are rows that each have another value, but for every fifth.
func rankedRows(from, to int) (rows []store.Row) {
	for i := from; i < to; i++ {
		rows = append(rows, store.Row{"id": int64(i), "i1": int64(i-i%5/4) * 1_000_003, "kind": fmt.Sprint("kind ", i)})
	}
	return rows
}

// What the first version with ranks wrote is read: each row, and ranges both ways. It is written to: ranks that rows have stay,
// and new values find theirs between these, or share one.
func TestFirstRankedIndexesStayReadable(t *testing.T) {
	smallUnits(t)
	d := golden(t, goldenRanked, rankedDump)
	units, shared := 0, 0
	for _, f := range d.Families {
		for _, r := range f.Rows {
			switch {
			case f.Name[0] == 'i':
				units = max(units, len(f.Rows))
			case f.Name[0] == 'x' && len(r.Key) == 2*(4+25+16+16+16): // of tables without tenants and tie-breakers
				shared += int(r.Key[2*(4+25)-1] - '0')
			}
		}
	}
	require.Greater(t, units, 3, "no index is divided")
	require.Greater(t, shared, 50, "too few rows share ranks")
	st := openDump(t, d)
	for g := range goldenTables(t, d, st) {
		g.check()
		g.inOrder("i1")
		if !g.open().Schema().AppendOnly {
			g.rewrite()
			g.check()
		}
		before := 0
		g.each(func(tbl *store.Table, want []map[string]string) {
			before += len(want)
			rows := collect(t, tbl, store.Query{})
			for i, row := range rows {
				row["id"], row["i1"] = int64(1000+i), row["i1"].(int64)+500
				delete(row, "tie")
				require.NoError(t, tbl.Put(background, row))
			}
		})
		g.inOrder("i1")
		report, err := g.open().Verify(background, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), "%s: %+v", g.name, report)
		require.Equal(t, 2*before, report.Rows)
	}
}

// inOrder makes sure that ranges of a column hold the rows that belong there, in the order of their values or the other way round.
func (g *goldenTable) inOrder(column string) {
	g.t.Helper()
	g.each(func(tbl *store.Table, _ []map[string]string) {
		rows := collect(g.t, tbl, store.Query{})
		values := make([]int64, len(rows))
		for i, row := range rows {
			values[i] = row[column].(int64)
		}
		slices.Sort(values)
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 20 {
			lo, hi := values[r.IntN(len(values))], values[r.IntN(len(values))]
			switch lo, hi = min(lo, hi), max(lo, hi); {
			case n == 0:
				lo, hi = values[0]-1, values[len(values)-1]+1
			case n%3 == 0: // between values
				lo, hi = lo-r.Int64N(500), hi+r.Int64N(500)
			}
			where := store.Field[int64](column).Between(lo, hi)
			var want []int64
			for _, x := range values {
				if lo <= x && x <= hi {
					want = append(want, x)
				}
			}
			for _, reverse := range []bool{false, true} {
				var got []int64
				for _, row := range collect(g.t, tbl, store.Query{Where: where, Reverse: reverse}) {
					got = append(got, row[column].(int64))
				}
				if reverse {
					slices.Reverse(want)
				}
				require.Equal(g.t, want, got, "%s: [%d,%d]", g.name, lo, hi)
			}
		}
	})
}

// Rows whose ranks are those of another index are no table: whoever gives values their ranks in another order gives them others.
func TestIndependentReaderOfRanks(t *testing.T) {
	read := independentReader(t)
	key := ope.GenerateKey()
	db := newSpecDB(drivertest.NewMemory())
	tbl := create(t, openWith(t, db, key), store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.KerschbaumRanked)},
	})
	before := dump{Families: dumped(t, db)}
	put := func(tbl *store.Table, ids ...int) {
		for _, id := range ids {
			require.NoError(t, tbl.Put(background, store.Row{"id": int64(id), "i1": int64(id)}))
		}
	}
	put(tbl, 1, 2, 3)
	d := dump{Key: hex.EncodeToString(key.Secret()), Families: dumped(t, db)}
	reads := func() error {
		b, err := json.Marshal(d)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "dump.json")
		require.NoError(t, os.WriteFile(file, b, 0o600))
		_, err = read(file)
		return err
	}
	require.NoError(t, reads())

	db = newSpecDB(loaded(t, before))
	tbl, err := openWith(t, db, key).Table(background, "readings")
	require.NoError(t, err)
	put(tbl, 3, 2, 1)
	for i, f := range dumped(t, db) {
		if f.Name[0] == 'i' {
			require.Equal(t, f.Name, d.Families[i].Name)
			d.Families[i] = f
		}
	}
	require.ErrorContains(t, reads(), "a row has another rank than the index")

	// Verify says so, too. Repair gives the column another index.
	tbl, err = openDump(t, d).Table(background, "readings")
	require.NoError(t, err)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.NotEmpty(t, report.Faults)
	_, err = tbl.Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
	require.NoError(t, err)
	report, err = tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), "%+v", report)
	require.Equal(t, 3, report.Rows)
	for lo := range int64(5) {
		require.Len(t, collect(t, tbl, store.Query{Where: store.Field[int64]("i1").AtLeast(lo)}), int(min(4-lo, 3)))
	}
}
