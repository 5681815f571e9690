package store

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The table of docs/architecture.md: how many round trips that follow each other an operation takes on a
// database without snapshots, and how many requests these are, with those that come after it. Where there are rows, they
// are ten.
var roundTrips = []struct {
	operation       string
	trips, requests int
}{
	{"open a database", 2, 2},
	{"create a table", 7, 7},
	{"first use of a table", 3, 3},
	{"put, nothing searched", 2, 2},
	{"put, new rows", 3, 3},
	{"put, rows that may exist", 3, 4},
	{"put, rows that exist", 3, 6},
	{"put, append-only", 3, 5},
	{"put, append-only, rows of a load", 4, 8},
	{"put, append-only, rows of a load again", 2, 3},
	{"put, values new to a Kerschbaum column", 5, 9},
	{"put, values known to a Kerschbaum column", 3, 6},
	{"put, conditional, new rows", 3, 13},
	{"put, conditional, rows that exist", 3, 14},
	{"put, conditional, covering, new rows", 3, 15},
	{"put, conditional, covering, rows that exist", 4, 18},
	{"update", 3, 14},
	{"update, covering", 4, 18},
	{"delete", 2, 4},
	{"delete, append-only", 4, 9},
	{"delete, conditional", 2, 12},
	{"delete, conditional, covering", 3, 14},
	{"get", 1, 1},
	{"query by row key", 1, 1},
	{"query by ordered column", 3, 3},
	{"query by ordered column, being converted", 4, 4},
	{"query by covering column", 2, 3},
	{"query by server index", 2, 3},
	{"put, server index", 2, 3},
	{"alter, add a server index", 4, 4},
	{"query by Kerschbaum column, a value", 3, 3},
	{"query by Kerschbaum column, a range", 4, 4},
	{"alter, change a column", 3, 3},
	{"alter, rename a column", 4, 4},
	{"rotate keys", 2, 2},
	{"put under an old schema", 6, 6},
	{"get of a row of a later schema", 3, 3},
	{"convert, a batch", 2, 2},
	{"convert, a batch with changed searched columns", 4, 4},
}

// A timed database takes a second for each call, and counts them.
func timed(db driver.DB, calls *[]string) driver.DB {
	counted := drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
		*calls = append(*calls, op.Method+" "+op.Family[:1])
		return drivertest.NoFault
	})
	return intercept.WithLatency(counted, func() time.Duration { return time.Second })
}

func TestRoundTrips(t *testing.T) {
	const rows = 10
	measured := make(map[string][2]int)
	synctest.Test(t, func(t *testing.T) {
		ctx, memory := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		var calls []string
		measure := func(operation string, do func() error) {
			t.Helper()
			calls = nil
			began := time.Now()
			require.NoError(t, do(), operation)
			took := time.Since(began)
			time.Sleep(time.Minute) // for what it left to do
			synctest.Wait()
			require.Zero(t, took%time.Second, operation)
			measured[operation] = [2]int{int(took / time.Second), len(calls)}
			t.Logf("%-50s %2d %3d %v", operation, took/time.Second, len(calls), calls)
		}
		schema := func(name string, conditional bool, columns ...Column) Schema {
			return Schema{Name: name, Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)}, Columns: columns}
		}
		batch := func(value int16) (rows_ []Row) {
			for i := range int64(rows) {
				rows_ = append(rows_, Row{"id": i, "value": value, "note": int16(i)})
			}
			return rows_
		}
		drain := func(tbl *Table, p Predicate) error {
			n := 0
			for _, err := range tbl.Query(ctx, Query{Where: p}) {
				if err != nil {
					return err
				}
				n++
			}
			if n == 0 {
				return fmt.Errorf("nothing is found")
			}
			return nil
		}
		value, id := Field[int16]("value"), Field[int64]("id")
		_ = stores(t, memory, 1) // there is a catalogue
		var st *Store
		measure("open a database", func() (err error) {
			st, err = Open(ctx, timed(memory, &calls), kms.NewLocal(testMaster), nil)
			return err
		})
		tables := make(map[string]*Table)
		schemas := []Schema{
			schema("plain", false, RandomisedColumn("value", Int16), RandomisedColumn("note", Int16)),
			schema("ordered", false, OrderedColumn("value", Int16, Boldyreva), RandomisedColumn("note", Int16)),
			schema("mutable", false, OrderedColumn("value", Int16, Kerschbaum), RandomisedColumn("note", Int16)),
			schema("conditional", true, OrderedColumn("value", Int16, MOPE), RandomisedColumn("note", Int16)),
			{Name: "tie", Key: []KeyPart{HashedPart("id", Int64), TiePart("tie")}, Columns: []Column{OrderedColumn("value", Int16, MOPE), RandomisedColumn("note", Int16)}},
			{
				Name: "covering", AppendOnly: true, Key: []KeyPart{HashedPart("id", Int64), TiePart("tie")},
				Columns: []Column{OrderedColumn("value", Int16, Boldyreva).Covering(), RandomisedColumn("note", Int16)},
			},
			schema("copied", true, OrderedColumn("value", Int16, MOPE).Covering(), RandomisedColumn("note", Int16)),
			schema("served", false, OrderedColumn("value", Int16, Boldyreva), RandomisedColumn("note", Int16)),
		}
		for _, s := range schemas {
			measure("create a table", func() (err error) {
				_, err = st.Create(ctx, s)
				return err
			})
		}
		measure("alter, add a server index", func() error {
			return st.Alter(ctx, "served", ChangeColumn(OrderedColumn("value", Int16, Boldyreva).ServerIndex()))
		})
		served, err := st.Table(ctx, "served")
		require.NoError(t, err)
		_, err = served.Convert(ctx, nil)
		require.NoError(t, err)
		for _, s := range schemas {
			other, err := Open(ctx, timed(memory, &calls), kms.NewLocal(testMaster), nil)
			require.NoError(t, err)
			measure("first use of a table", func() (err error) {
				tables[s.Name], err = other.Table(ctx, s.Name)
				return err
			})
		}
		put := func(operation, table string, value int16) {
			t.Helper()
			measure(operation, func() error { return tables[table].Put(ctx, batch(value)...) })
		}
		put("put, nothing searched", "plain", 5)
		put("put, new rows", "tie", 5)
		put("put, append-only", "covering", 5)
		load := batch(6)
		for i := range load {
			load[i]["tie"] = LoadTie{byte(i)}
		}
		measure("put, append-only, rows of a load", func() error { return tables["covering"].Put(ctx, load...) })
		measure("put, append-only, rows of a load again", func() error { return tables["covering"].Put(ctx, load...) })
		put("put, server index", "served", 5)
		put("put, rows that may exist", "ordered", 5)
		put("put, rows that exist", "ordered", 6)
		put("put, values new to a Kerschbaum column", "mutable", 5)
		put("put, values known to a Kerschbaum column", "mutable", 5)
		put("put, conditional, new rows", "conditional", 5)
		put("put, conditional, rows that exist", "conditional", 6)
		put("put, conditional, covering, new rows", "copied", 5)
		put("put, conditional, covering, rows that exist", "copied", 6)
		update := func(operation, table string) {
			t.Helper()
			measure(operation, func() error {
				var rows []Row
				for _, row := range batch(7) {
					delete(row, "note")
					rows = append(rows, row)
				}
				return tables[table].Update(ctx, rows...)
			})
		}
		update("update", "conditional")
		update("update, covering", "copied")
		measure("get", func() error {
			_, err := tables["ordered"].Get(ctx, Row{"id": int64(1)})
			return err
		})
		measure("query by row key", func() error { return drain(tables["ordered"], id.Equal(1)) })
		measure("query by ordered column", func() error { return drain(tables["ordered"], value.AtLeast(0)) })
		measure("query by Kerschbaum column, a value", func() error { return drain(tables["mutable"], value.Equal(5)) })
		measure("query by Kerschbaum column, a range", func() error { return drain(tables["mutable"], value.AtLeast(0)) })
		measure("query by covering column", func() error { return drain(tables["covering"], value.AtLeast(0)) })
		measure("query by server index", func() error { return drain(tables["served"], value.AtLeast(0)) })
		var ties []Row
		for row, err := range tables["covering"].Query(ctx, Query{Where: value.Equal(5)}) {
			require.NoError(t, err)
			ties = append(ties, Row{"id": row["id"], "tie": row["tie"]})
		}
		require.Len(t, ties, rows)
		measure("delete, append-only", func() error { return tables["covering"].Delete(ctx, ties...) })
		measure("delete", func() error { return tables["mutable"].Delete(ctx, batch(0)...) })
		measure("delete, conditional", func() error { return tables["conditional"].Delete(ctx, batch(0)...) })
		measure("delete, conditional, covering", func() error { return tables["copied"].Delete(ctx, batch(0)...) })
		measure("alter, change a column", func() error {
			return st.Alter(ctx, "ordered", ChangeColumn(OrderedColumn("value", Int16, Wozniak))) // not MOPE, which may take two scans
		})
		measure("alter, rename a column", func() error { return st.Alter(ctx, "mutable", RenameColumn("value", "other")) })
		measure("rotate keys", func() error { return st.RotateKeys(ctx, "plain") })
		put("put under an old schema", "plain", 8)

		// The table itself, as its other clients do not know it.
		now, err := st.Table(ctx, "ordered")
		require.NoError(t, err)
		measure("query by ordered column, being converted", func() error { return drain(now, value.AtLeast(0)) })
		stamped := func() (read []driver.Row) {
			r := now.now().Rows(0, 1)
			r.Cells.Stamps = true
			for row, err := range now.now().Data.Scan(ctx, r) {
				require.NoError(t, err)
				read = append(read, row)
			}
			require.Len(t, read, rows)
			return read
		}
		read := stamped()
		measure("convert, a batch with changed searched columns", func() error {
			done, err := now.now().ConvertAndSettle(ctx, read)
			require.Equal(t, rows, done.Converted)
			return err
		})
		measure("get of a row of a later schema", func() error {
			_, err := tables["ordered"].Get(ctx, Row{"id": int64(1)})
			return err
		})
		require.NoError(t, st.RotateKeys(ctx, "ordered"))
		read = stamped()
		measure("convert, a batch", func() error {
			done, err := now.now().ConvertAndSettle(ctx, read)
			require.Equal(t, rows, done.Converted)
			return err
		})
	})
	for _, want := range roundTrips {
		got, there := measured[want.operation]
		require.True(t, there, want.operation)
		require.Equal(t, [2]int{want.trips, want.requests}, got, want.operation)
		requireDocumented(t, want.operation, want.trips, want.requests)
	}
	require.Len(t, measured, len(roundTrips))
}

// requireDocumented requires that docs/architecture.md says how many round trips and requests an operation takes.
func requireDocumented(t *testing.T, operation string, trips, requests int) {
	t.Helper()
	text, err := os.ReadFile("../docs/architecture.md")
	require.NoError(t, err)
	line := fmt.Sprintf("| %s | %d | %d |", operation, trips, requests)
	require.Contains(t, strings.Split(string(text), "\n"), line, "docs/architecture.md")
}
