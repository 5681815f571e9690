package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Server indexes come and go, and change their schemes, while clients that know the table as it was put, delete and query rows.
// A row that nobody writes is found once by each way, and in the end each index has what the rows have.
func TestServerIndexesChangeUnderLoad(t *testing.T) {
	celsius := func(s store.ColumnScheme) store.Column { return store.OrderedColumn("celsius", store.Int32, s) }
	room := store.DeterministicColumn("room", store.String)
	changes := []struct {
		name   string
		change []store.Change
	}{
		{"added", []store.Change{store.ChangeColumn(celsius(store.MOPE).ServerIndex())}},
		{"other scheme", []store.Change{store.ChangeColumn(celsius(store.Wozniak).ServerIndex()), store.ChangeColumn(room.ServerIndex())}},
		{"removed", []store.Change{store.ChangeColumn(celsius(store.MOPE))}},
		{"another column", []store.Change{store.AddColumn(store.OrderedColumn("watt", store.Int32, store.Boldyreva).ServerIndex())}},
		{"sealed only", []store.Change{store.ChangeColumn(store.RandomisedColumn("room", store.String))}},
		{"added again", []store.Change{store.ChangeColumn(celsius(store.MOPE).ServerIndex()), store.ChangeColumn(room.ServerIndex())}},
		{"dropped", []store.Change{store.DropColumn("watt")}},
		{"other keys", nil},
	}
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		if kind.Name == "memory" {
			db = struct{ driver.Indexer }{db.(driver.Indexer)} // without snapshots
		}
		st := openWorking(t, db)
		_, err := st.Create(background, store.Schema{
			Name: "events", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{celsius(store.MOPE), room, store.RandomisedColumn("note", store.String)},
		})
		require.NoError(t, err)
		const rows, still = 60, 20 // of which nobody writes the first
		row := func(id, turn int) store.Row {
			return store.Row{"id": int64(id), "celsius": int32((id + turn) % 50), "room": fmt.Sprint("r", (id+turn)%4), "note": "n"}
		}
		first, err := st.Table(background, "events")
		require.NoError(t, err)
		for id := range rows {
			require.NoError(t, first.Put(background, row(id, 0)))
		}
		stop := make(chan struct{})
		var workers sync.WaitGroup
		run := func(do func(tbl *store.Table, turn int) error) {
			tbl, err := openWorking(t, db).Table(background, "events")
			require.NoError(t, err)
			workers.Go(func() {
				for turn := 0; ; turn++ {
					select {
					case <-stop:
						return
					case <-time.After(paceOf(kind)):
					}
					if err := do(tbl, turn); err != nil {
						t.Errorf("%v", err)
						return
					}
				}
			})
		}
		for w := range 2 {
			run(func(tbl *store.Table, turn int) error {
				id := still + (turn*7+w)%(rows-still)
				if turn%5 == 0 {
					return tbl.Delete(background, store.Row{"id": int64(id)})
				}
				return tbl.Put(background, row(id, turn))
			})
		}
		look := func(tbl *store.Table, where store.Predicate, by string) error {
			seen := make(map[int64]bool)
			for row, err := range tbl.Query(background, store.Query{Where: where}) {
				if store.Retryable(err) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("by %s: %w", by, err)
				}
				id := row["id"].(int64)
				if seen[id] {
					return fmt.Errorf("by %s: row %d twice", by, id)
				}
				seen[id] = true
			}
			for id := range int64(still) {
				if !seen[id] {
					e, err := tbl.Analyze(background, store.Query{Where: where})
					row, failed := tbl.Get(background, store.Row{"id": id})
					return fmt.Errorf("by %s: row %d is missing: asked again, %d rows are found by %q, %v, where the first had %d, and it is %v, %v",
						by, id, e.Rows, e.Driver, err, len(seen), row, failed)
				}
			}
			return nil
		}
		ways := map[string]store.Predicate{"celsius": celsiusField.AtLeast(0), "room": roomField.In("r0", "r1", "r2", "r3")}
		for by, where := range ways {
			run(func(tbl *store.Table, _ int) error { return look(tbl, where, by) })
		}
		for _, c := range changes[:changesOf(kind, len(changes))] {
			time.Sleep(40 * time.Millisecond)
			if c.change == nil {
				require.NoError(t, st.RotateKeys(background, "events"))
			} else {
				require.NoError(t, st.Alter(background, "events", c.change...), c.name)
			}
			tbl, err := st.Table(background, "events")
			require.NoError(t, err)
			time.Sleep(40 * time.Millisecond)
			_, err = tbl.Convert(background, nil)
			require.NoError(t, err, c.name)
			for by, where := range ways {
				require.NoError(t, look(tbl, where, by), c.name)
			}
			if t.Failed() {
				break
			}
		}
		close(stop)
		workers.Wait()
		require.False(t, t.Failed())
		tbl, err := st.Table(background, "events")
		require.NoError(t, err)
		_, err = tbl.Convert(background, nil)
		require.NoError(t, err)
		all := collect(t, tbl, store.Query{OrderBy: "id"})
		for by, where := range ways {
			e, err := tbl.Analyze(background, store.Query{Where: where})
			require.NoError(t, err)
			require.Equal(t, by, e.Driver)
			require.Equal(t, all, collect(t, tbl, store.Query{Where: where, OrderBy: "id"}), by)
		}
		v, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
	})
}

// A conversion makes the rows of a table found by an index that was added, and drops one that was removed. A client that
// learned of neither goes on.
func TestConvertAddsAndRemovesServerIndexes(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	tbl := create(t, st, unserved(served("places")))
	for i := range 40 {
		require.NoError(t, tbl.Put(background, place(i)))
	}
	asleep, err := open(t, memory).Table(background, "places")
	require.NoError(t, err)
	q := store.Query{Where: celsiusField.Between(3, 9)}
	drives := func(tbl *store.Table, want string) {
		t.Helper()
		e, err := tbl.Analyze(background, q)
		require.NoError(t, err)
		require.Equal(t, 7, e.Rows)
		require.Equal(t, want, e.Driver)
	}
	indexes := func() (n int) {
		d, err := tbl.Describe(background)
		require.NoError(t, err)
		for _, c := range d.Columns {
			for _, f := range append(c.Former, c) {
				err := error(nil)
				data, failed := memory.Family(background, driver.FamilySpec{Name: d.Families[0], Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
				require.NoError(t, failed)
				for _, err = range data.Scan(background, driver.Range{AnyOrder: true, Cells: driver.Slice{Only: [][]byte{{}}}, Index: &driver.IndexRange{Index: "s" + f.ID}}) {
					if err != nil {
						break
					}
				}
				if err == nil {
					n++
				}
			}
		}
		return n
	}
	require.NoError(t, st.Alter(background, "places", store.ChangeColumn(store.OrderedColumn("celsius", store.Int32, store.MOPE).ServerIndex())))
	drives(tbl, "all rows")
	require.NoError(t, asleep.Put(background, place(41)), "by a client that knows the table as it was")
	require.NoError(t, asleep.Delete(background, place(41)))
	_, err = tbl.Convert(background, nil)
	require.NoError(t, err)
	drives(tbl, "celsius")
	require.Equal(t, 1, indexes())
	drives(asleep, "all rows") // until it learns that all are converted
	require.NoError(t, asleep.Put(background, place(3)))
	drives(asleep, "celsius")

	sleeps, err := open(t, memory).Table(background, "places")
	require.NoError(t, err)
	drives(sleeps, "celsius")
	require.NoError(t, st.Alter(background, "places", store.ChangeColumn(store.OrderedColumn("celsius", store.Int32, store.MOPE))))
	drives(tbl, "all rows")
	require.Equal(t, 1, indexes(), "others still read it")
	_, err = tbl.Convert(background, nil)
	require.NoError(t, err)
	require.Zero(t, indexes())
	drives(tbl, "celsius")
	drives(sleeps, "celsius") // which finds that the index is gone
	require.NoError(t, sleeps.Put(background, place(3)))

	require.NoError(t, st.Alter(background, "places", store.AddColumn(store.OrderedColumn("more", store.Int32, store.MOPE).ServerIndex())))
	require.Equal(t, 1, indexes())
	require.NoError(t, st.Alter(background, "places", store.DropColumn("more")))
	_, err = tbl.Convert(background, nil)
	require.NoError(t, err)
	require.Zero(t, indexes())
	v, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, v.Sound(), "%v", v.Faults)
}

// An index that was made for a change of the schema which failed is dropped.
func TestFailedAlterLeavesNoIndex(t *testing.T) {
	var made []string
	st := open(t, noting{drivertest.NewMemory().(driver.Indexer), &made})
	create(t, st, unserved(served("places")))
	err := st.Alter(background, "places", store.AddColumn(store.OrderedColumn("more", store.Int32, store.MOPE).ServerIndex().SharedWith("nowhere", "x")))
	require.ErrorIs(t, err, store.ErrNoTable)
	require.Empty(t, made)
	require.NoError(t, st.Alter(background, "places", store.AddColumn(store.OrderedColumn("more", store.Int32, store.MOPE).ServerIndex())))
	require.Len(t, made, 1)
}

// noting is a database that notes which indexes there are.
type noting struct {
	driver.Indexer
	made *[]string
}

func (db noting) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	*db.made = append(*db.made, name)
	return db.Indexer.AddIndex(ctx, spec, name)
}

func (db noting) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	*db.made = slices.DeleteFunc(*db.made, func(made string) bool { return made == name })
	return db.Indexer.DropIndex(ctx, spec, name)
}

// Wherever a client dies that adds or removes a server index, or converts for that, another one goes on.
func TestDeadClientsThatChangeServerIndexes(t *testing.T) {
	step := sim.Every(5)
	for first, fate := range []drivertest.Fault{drivertest.CrashBefore, drivertest.CrashAfter, drivertest.FailBefore, drivertest.FailAfter, drivertest.FailPartly} {
		for _, removes := range []bool{false, true} {
			for doomed := (doomedCall{fate: fate, n: 1 + first%step - step, reached: true}); doomed.reached; {
				doomed.next(step)
				memory := drivertest.NewMemory()
				st := open(t, memory)
				schema := served("places")
				next := store.ChangeColumn(unserved(schema).Columns[0])
				if !removes {
					next = store.ChangeColumn(schema.Columns[0])
					schema = unserved(schema)
				}
				tbl := create(t, st, schema)
				require.NoError(t, tbl.Put(background, place(1), place(2), place(3)))
				theirs := open(t, drivertest.NewFaulty(memory, doomed.fault))
				theirTable, err := theirs.Table(background, "places")
				require.NoError(t, err)
				doomed.armed = true
				if err := theirs.Alter(background, "places", next); err == nil {
					_, _ = theirTable.Convert(background, nil)
				}
				require.Len(t, collect(t, tbl, store.Query{Where: celsiusField.Between(1, 3)}), 3, "%v at call %d", fate, doomed.n)
				require.NoError(t, st.Alter(background, "places", next), "%v at call %d", fate, doomed.n)
				_, err = tbl.Convert(background, nil)
				require.NoError(t, err, "%v at call %d", fate, doomed.n)
				e, err := tbl.Analyze(background, store.Query{Where: celsiusField.Between(1, 3)})
				require.NoError(t, err, "%v at call %d", fate, doomed.n)
				require.Equal(t, "celsius", e.Driver)
				require.Equal(t, 3, e.Rows)
				v, err := tbl.Verify(background, nil)
				require.NoError(t, err)
				require.True(t, v.Sound(), "%v at call %d: %v", fate, doomed.n, v.Faults)
			}
		}
	}
}
