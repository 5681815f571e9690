package store_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// holders is a table whose rows are written by compare-and-set.
func holders(layout bool) store.Schema {
	return store.Schema{
		Name: "holders",
		Key:  []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{
			store.OrderedColumn("balance", store.Int64, store.Boldyreva),
			store.OrderedColumn("rank", store.Int64, store.Kerschbaum),
			store.DeterministicColumn("owner", store.String),
			store.RandomisedColumn("note", store.String),
			store.RandomisedColumn("remark", store.String),
			store.PlainColumn("branch", store.Int64),
		},
		CellPerColumn: layout,
		Conditional:   true,
	}
}

const rank = store.Field[int64]("rank")

// randomHolder returns a row with some columns, null ones among them.
func randomHolder(r *rand.Rand) store.Row {
	row := make(store.Row)
	for name, value := range map[string]any{
		"balance": r.Int64N(5), "rank": r.Int64N(5), "branch": r.Int64N(5),
		"owner": string(rune('a' + r.IntN(3))), "note": string(rune('k' + r.IntN(9))), "remark": "",
	} {
		switch r.IntN(4) {
		case 0:
			row[name] = nil
		case 1, 2:
			row[name] = value
		}
	}
	return row
}

// Rows are as a map has them after any calls, whose outcomes are sometimes unknown, and are found
// by all of their columns.
func TestConditionalTable(t *testing.T) {
	testdb.Every(t, func(t *testing.T, database testdb.Database) {
		for _, layout := range []bool{packed, cellPerColumn} {
			if !database.Runs(layout == packed) {
				continue
			}
			t.Run(inspect.Layout(layout), func(t *testing.T) {
				seed := rand.Uint64()
				t.Log("seed", seed)
				r := rand.New(rand.NewPCG(seed, 0))
				db := database.Open(t, nil)
				steps := 400
				faults := drivertest.Randomly(seed, 0.05)
				if database.Shared() {
					steps = 60
				}
				created := create(t, open(t, db), holders(layout))
				tbl, err := open(t, drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
					if op.Family == "catalogue" || op.Method == "Family" || !op.Conditional() {
						return drivertest.NoFault
					}
					return faults(op)
				})).Table(background, "holders")
				require.NoError(t, err)
				want := make(map[int64]store.Row)
				kinds := make(map[string]int)
				for range steps {
					id := r.Int64N(6)
					row := randomHolder(r)
					row["id"] = id
					is := want[id]
					var err error
					switch kind := []string{"put", "update", "update", "update", "delete", "insert", "upsert", "increment"}[r.IntN(8)]; {
					case kind == "put":
						kinds[kind]++
						do(t, func() error { return tbl.Put(background, row) })
						want[id] = without(row)
					case kind == "delete":
						kinds[kind]++
						do(t, func() error { return tbl.Delete(background, store.Row{"id": id}) })
						delete(want, id)
					case kind == "insert":
						kinds[kind]++
						attempts := 0
						do(t, func() error {
							attempts++
							if err = tbl.Insert(background, row); errors.Is(err, store.ErrRowExists) && (is != nil || attempts > 1) {
								return nil
							}
							return err
						})
						if is == nil {
							want[id] = without(row)
						} else {
							require.ErrorIs(t, err, store.ErrRowExists)
						}
					case kind == "upsert":
						kinds[kind]++
						do(t, func() error { return tbl.Upsert(background, row) })
						becomes := store.Row{}
						maps.Copy(becomes, is)
						maps.Copy(becomes, row)
						want[id] = without(becomes)
					case kind == "increment" && is != nil && is["balance"] != nil:
						kinds[kind]++
						sum := is["balance"].(int64) + 1
						if incrementOnce(t, tbl, created, store.Row{"id": id}, sum); sum > 4 {
							do(t, func() error { return tbl.Update(background, store.Row{"id": id, "balance": int64(0)}) })
							sum = 0
						}
						want[id] = maps.Clone(is)
						want[id]["balance"] = sum
					case is == nil:
						kinds["missing"]++
						do(t, func() error {
							if err = tbl.Update(background, row); errors.Is(err, store.ErrNoRow) {
								return nil
							}
							return err
						})
						require.ErrorIs(t, err, store.ErrNoRow)
					default:
						kinds[kind]++
						do(t, func() error { return tbl.Update(background, row) })
						becomes := maps.Clone(is)
						maps.Copy(becomes, row)
						want[id] = without(becomes)
					}
					got, err := created.Get(background, store.Row{"id": id})
					require.NoError(t, err)
					require.Equal(t, showRow(want[id]), showRow(got))
				}
				t.Log(kinds)
				for _, kind := range []string{"put", "update", "delete", "missing", "insert", "upsert", "increment"} {
					require.True(t, kinds[kind] > 0 || steps < 400, kind) // a few steps need not have all
				}
				for value := range int64(5) {
					for _, field := range []store.Field[int64]{balance, rank} {
						requireFound(t, created, want, string(field), value, field.Equal(value))
					}
				}
				for _, value := range []string{"a", "b", "c"} {
					requireFound(t, created, want, "owner", value, owner.Equal(value))
				}
				require.Len(t, collect(t, created, store.Query{}), len(want))
				report, err := created.Verify(background, nil)
				require.NoError(t, err)
				require.True(t, report.Sound(), report.Faults)
				require.Equal(t, len(want), report.Rows)
			})
		}
	})
}

// incrementOnce adds 1 to a balance so that it is a sum, and finds out by reading what is not known.
func incrementOnce(t *testing.T, tbl, reader *store.Table, key store.Row, sum int64) {
	t.Helper()
	do(t, func() error {
		got, err := tbl.Increment(background, key, "balance", 1)
		if err == nil {
			require.Equal(t, sum, got)
			return nil
		}
		if store.Retryable(err) {
			return err // it was not made
		}
		require.ErrorIs(t, err, driver.ErrUnknownOutcome)
		for range 3 { // what is late comes
			_, _ = tbl.Get(background, key)
		}
		if row, failed := reader.Get(background, key); failed == nil && row["balance"] == sum {
			return nil
		}
		return err
	})
}

// do makes a call until it succeeds.
func do(t *testing.T, call func() error) {
	t.Helper()
	for range 100 {
		err := call()
		if err == nil {
			return
		}
		require.ErrorIs(t, err, drivertest.ErrInjected)
	}
	t.Fatal("no call succeeded")
}

// without returns the row without its nulls.
func without(row store.Row) store.Row {
	row = maps.Clone(row)
	maps.DeleteFunc(row, func(_ string, v any) bool { return v == nil })
	return row
}

func requireFound(t *testing.T, tbl *store.Table, want map[int64]store.Row, column string, value any, where store.Predicate) {
	t.Helper()
	var expected, found []string
	for _, row := range want {
		if row[column] == value {
			expected = append(expected, showRow(row))
		}
	}
	for _, row := range collect(t, tbl, store.Query{Where: where}) {
		found = append(found, showRow(row))
	}
	slices.Sort(expected)
	slices.Sort(found)
	require.Equal(t, expected, found, "%s = %v", column, value)
}

// hooked is a database whose changes of rows are told to a function before they are made. If it is
// blind, their conditions are not looked at.
type hooked struct {
	driver.DB
	before func()
	blind  bool
}

func (db hooked) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil || spec.Name[0] != 't' {
		return f, err
	}
	return hookedFamily{f.(driver.Committer), db}, nil
}

type hookedFamily struct {
	driver.Committer
	db hooked
}

func (f hookedFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	f.db.before()
	if f.db.blind {
		expect = nil
	}
	return f.Committer.Commit(ctx, row, expect, puts, deletes)
}

// Two clients that update different columns of one row at the same time lose nothing, since each
// replaces only what it has read: without that, they would.
func TestUpdatesOfOneRowLoseNothing(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		for _, blind := range []bool{false, true} {
			memory := drivertest.NewMemory()
			other := create(t, open(t, memory), holders(layout))
			require.NoError(t, other.Put(background, store.Row{"id": int64(1), "note": "old", "balance": int64(1)}))
			between := 0
			tbl, err := open(t, hooked{memory, func() {
				if between++; between == 1 {
					require.NoError(t, other.Update(background, store.Row{"id": int64(1), "note": "theirs", "balance": int64(2)}))
				}
			}, blind}).Table(background, "holders")
			require.NoError(t, err)
			require.NoError(t, tbl.Update(background, store.Row{"id": int64(1), "remark": "ours"}))
			row, err := other.Get(background, store.Row{"id": int64(1)})
			require.NoError(t, err)
			want := store.Row{"id": int64(1), "note": "theirs", "remark": "ours", "balance": int64(2)}
			if blind {
				require.NotEqual(t, showRow(want), showRow(row), "the condition was not needed")
				continue
			}
			require.Equal(t, showRow(want), showRow(row))
			require.Equal(t, 2, between, "the second attempt followed the first")
			require.Len(t, collect(t, other, store.Query{Where: balance.Equal(2)}), 1)
			report, err := other.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, report.Sound(), report.Faults)
			require.Zero(t, report.Dangling, "postings of attempts that came to nothing go")
		}
	}
}

// A client that learns of a newer schema in the middle of an Update does not repeat what is done.
func TestUpdateIsDoneOnce(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	other := create(t, st, holders(packed))
	one, two := store.Row{"id": int64(1)}, store.Row{"id": int64(2)}
	with := func(key store.Row, note string) store.Row {
		row := maps.Clone(key)
		row["note"] = note
		return row
	}
	require.NoError(t, other.Put(background, with(one, "old"), with(two, "old")))
	var mu sync.Mutex
	calls := 0
	tbl, err := open(t, hooked{memory, func() {
		mu.Lock()
		defer mu.Unlock()
		switch calls++; calls {
		case 1:
			// The second row is replaced by a client that knows more of the table.
			require.NoError(t, st.Alter(background, "holders", store.AddColumn(store.RandomisedColumn("added", store.String))))
			now, err := open(t, memory).Table(background, "holders")
			require.NoError(t, err)
			require.NoError(t, now.Put(background, store.Row{"id": int64(2), "note": "old", "added": "kept"}))
		case 3:
			// Once the first row is updated, somebody else updates it.
			require.NoError(t, other.Update(background, with(one, "theirs")))
		}
	}, false}).Table(background, "holders")
	require.NoError(t, err)
	require.NoError(t, tbl.Update(background, with(one, "ours"), with(two, "ours")))
	require.Equal(t, 3, calls)
	fresh, err := open(t, memory).Table(background, "holders")
	require.NoError(t, err)
	for _, want := range []store.Row{with(one, "theirs"), {"id": int64(2), "note": "ours", "added": "kept"}} {
		row, err := fresh.Get(background, want)
		require.NoError(t, err)
		require.Equal(t, showRow(want), showRow(row))
	}
	report, err := fresh.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Faults)
	require.Zero(t, report.Dangling)
}

// Many clients update one row, each a column of its own, and each column has the last value.
func TestConcurrentUpdates(t *testing.T) {
	testdb.Every(t, func(t *testing.T, database testdb.Database) {
		db := database.Open(t, nil)
		created := create(t, open(t, db), holders(packed))
		require.NoError(t, created.Put(background, store.Row{"id": int64(1)}))
		const times = 5
		columns := []string{"balance", "rank", "branch"}
		var group sync.WaitGroup
		errs := make(chan error, len(columns))
		for _, column := range columns {
			group.Go(func() {
				st, err := store.Open(background, db, kms.NewLocal(testKey), nil)
				var tbl *store.Table
				if err == nil {
					tbl, err = st.Table(background, "holders")
				}
				for i := int64(1); i <= times && err == nil; i++ {
					err = tbl.Update(background, store.Row{"id": int64(1), column: i})
				}
				errs <- err
			})
		}
		group.Wait()
		for range columns {
			require.NoError(t, <-errs)
		}
		row, err := created.Get(background, store.Row{"id": int64(1)})
		require.NoError(t, err)
		require.Equal(t, showRow(store.Row{"id": int64(1), "balance": int64(times), "rank": int64(times), "branch": int64(times)}), showRow(row))
		for _, p := range []store.Predicate{balance.Equal(times), rank.Equal(times), balance.AtLeast(0), rank.AtLeast(0)} {
			require.Len(t, collect(t, created, store.Query{Where: p}), 1)
		}
	})
}

// A deletion that is decided very late does not bring back what was there in between, nor does an
// insertion.
func TestLateChanges(t *testing.T) {
	for _, remove := range []bool{false, true} {
		memory := drivertest.NewMemory()
		tbl := create(t, open(t, memory), holders(packed))
		if remove {
			require.NoError(t, tbl.Put(background, store.Row{"id": int64(1), "note": "first"}))
		}
		ctx, cancel := context.WithCancel(background)
		late := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Conditional() && op.Family[0] == 't' {
				cancel() // the caller gives up; the change is still under way
				return drivertest.FailLate
			}
			return drivertest.NoFault
		})
		slow, err := open(t, late).Table(background, "holders")
		require.NoError(t, err)
		if remove {
			require.Error(t, slow.Delete(ctx, store.Row{"id": int64(1)}))
		} else {
			require.Error(t, slow.Put(ctx, store.Row{"id": int64(1), "note": "late"}))
		}
		require.NoError(t, tbl.Put(background, store.Row{"id": int64(1), "note": "second"}))
		if !remove {
			require.NoError(t, tbl.Delete(background, store.Row{"id": int64(1)}))
		}
		for range 5 { // among which the change is made
			_, err := slow.Get(background, store.Row{"id": int64(7)})
			require.NoError(t, err)
		}
		row, err := tbl.Get(background, store.Row{"id": int64(1)})
		require.NoError(t, err)
		if remove {
			require.Equal(t, "second", row["note"])
		} else {
			require.Nil(t, row)
		}
	}
}

func TestUpdateRefuses(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	tbl := create(t, st, holders(packed))
	whole := create(t, st, accounts)
	require.NoError(t, tbl.Put(background, store.Row{"id": int64(1), "note": "kept"}))
	for name, c := range map[string]struct {
		tbl  *store.Table
		rows []store.Row
		err  error
		says string
	}{
		"not conditional": {whole, []store.Row{{"id": int64(1)}}, store.ErrSchema, "use Put"},
		"no row":          {tbl, []store.Row{{"id": int64(2), "note": "x"}}, store.ErrNoRow, "row 0"},
		"second no row":   {tbl, []store.Row{{"id": int64(1)}, {"id": int64(2), "note": "x"}}, store.ErrNoRow, "row 1"},
		"no key":          {tbl, []store.Row{{"note": "x"}}, store.ErrColumn, `"id"`},
		"unknown column":  {tbl, []store.Row{{"id": int64(1), "nope": 1}}, store.ErrColumn, `"nope"`},
		"wrong type":      {tbl, []store.Row{{"id": int64(1), "note": 5}}, store.ErrColumn, `"note"`},
		"twice":           {tbl, []store.Row{{"id": int64(1)}, {"id": int64(1)}}, driver.ErrOverlap, "row 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.tbl.Update(background, c.rows...)
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
		})
	}
	row, err := tbl.Get(background, store.Row{"id": int64(1)})
	require.NoError(t, err)
	require.Equal(t, "kept", row["note"])
}

// A repair gives rows whose key parts have no place in an index that was lost, and has others by now, new keys. A row that a client
// puts there meanwhile stays: the condition says so, and not a look before.
func TestRepairedKeysReplaceNoRows(t *testing.T) {
	for puts, worlds := 0, 0; puts == 0; worlds++ { // once in some forty times the keys have their places by chance
		require.Less(t, worlds, 20, "no key was put")
		memory := drivertest.NewMemory()
		schema := store.Schema{
			Name: "steps", Conditional: true, Key: []store.KeyPart{store.OrderedPart("n", store.Int32, store.WozniakIndexed)},
			Columns: []store.Column{store.RandomisedColumn("note", store.String)},
		}
		row := func(n int32, note string) store.Row { return store.Row{"n": n, "note": note} }
		tbl := create(t, open(t, memory), schema)
		require.NoError(t, tbl.Put(background, row(1, "one")))
		require.NoError(t, tbl.Put(background, row(3, "three")))
		f, rows := units(t, memory)
		for _, unit := range rows {
			require.NoError(t, f.Apply(background, driver.Mutation{Row: unit.Key, DeleteRow: true}))
		}
		other, err := open(t, memory).Table(background, "steps")
		require.NoError(t, err)
		require.NoError(t, other.Put(background, row(9, "nine"))) // with the ciphertext that 1 had

		st := open(t, hooked{memory, func() {
			if puts++; puts == 1 {
				require.NoError(t, other.Put(background, row(3, "new")))
			}
		}, false})
		tbl, err = st.Table(background, "steps")
		require.NoError(t, err)
		_, err = tbl.Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
		require.NoError(t, err)
		if puts == 0 {
			continue
		}
		for _, want := range []store.Row{row(1, "one"), row(3, "new"), row(9, "nine")} {
			got, err := other.Get(background, want)
			require.NoError(t, err)
			require.Equal(t, showRow(want), showRow(got))
		}
		require.Len(t, collect(t, other, store.Query{}), 3)
	}
}
