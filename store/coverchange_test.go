package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// openWorking returns a client that puts copies after its calls.
func openWorking(t *testing.T, db driver.DB) *store.Store {
	st, err := store.Open(background, db, kms.NewLocal(testKey), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close(background) })
	return st
}

// paceOf returns how long a client of a load waits between two calls. Beside a server, clients that wait less take the
// processors that its passes need, and make tables grow for as long as these take: only in the long run they do.
func paceOf(kind testdb.Database) time.Duration {
	if kind.Server && !sim.Long() {
		return 10 * time.Millisecond
	}
	return time.Millisecond
}

// changesOf returns how many of n changes a test under load converts rows for. Cassandra lets the fourth conversion of a row within
// a minute wait for the end of that minute, while the load goes on: only the long run waits for it.
func changesOf(kind testdb.Database, n int) int {
	if kind.Name == "cassandra" && !sim.Long() {
		return min(n, 3)
	}
	return n
}

// Columns begin and cease to cover, and change their schemes, while clients add, delete and query rows that know the table as it
// was. No row is lost or returned after its deletion, and in the end each index entry has a copy.
func TestCoveringChangesUnderLoad(t *testing.T) {
	type change struct {
		name   string
		change []store.Change
	}
	celsius := func(s store.ColumnScheme) store.Column { return store.OrderedColumn("celsius", store.Int32, s) }
	room := store.DeterministicColumn("room", store.String)
	changes := []change{
		{"other scheme", []store.Change{store.ChangeColumn(celsius(store.Wozniak).Covering())}},
		{"stateful", []store.Change{store.ChangeColumn(celsius(store.Kerschbaum).Covering())}},
		{"ranked", []store.Change{store.ChangeColumn(celsius(store.KerschbaumRanked).Covering())}},
		{"new column", []store.Change{store.AddColumn(store.OrderedColumn("watt", store.Int32, store.Boldyreva).Covering())}},
		{"not covering", []store.Change{store.ChangeColumn(celsius(store.Kerschbaum)), store.ChangeColumn(room)}},
		{"dropped", []store.Change{store.DropColumn("note")}},
		{"covering again", []store.Change{store.ChangeColumn(celsius(store.MOPE).Covering())}},
		{"sealed only", []store.Change{store.ChangeColumn(store.RandomisedColumn("room", store.String))}},
		{"searched again", []store.Change{store.ChangeColumn(room.Covering()), store.DropColumn("watt")}},
		{"in the clear", []store.Change{store.ChangeColumn(store.PlainColumn("model", store.String))}},
		{"other keys", nil},
	}
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		st := openWorking(t, db)
		_, err := st.Create(background, store.Schema{
			Name: "events", AppendOnly: true,
			Key: []store.KeyPart{store.HashedPart("device", store.Int8), store.TiePart("id")},
			Columns: []store.Column{
				celsius(store.MOPE).Covering(), room.Covering(), store.RandomisedColumn("note", store.String), store.RandomisedColumn("model", store.String),
				store.RandomisedColumn("number", store.Int64),
			},
		})
		require.NoError(t, err)
		var mu sync.Mutex
		state := make(map[int64]bool) // what is there; a row that is being changed is not listed
		ids := make(map[int64]store.Row)
		var number atomic.Int64
		stop := make(chan struct{})
		var workers sync.WaitGroup
		run := func(do func(tbl *store.Table) error) {
			tbl, err := openWorking(t, db).Table(background, "events")
			require.NoError(t, err)
			workers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := do(tbl); err != nil {
						t.Errorf("%v", err)
						return
					}
					time.Sleep(paceOf(kind))
				}
			})
		}
		for range 2 {
			run(func(tbl *store.Table) error {
				mu.Lock()
				enough := kind.Server && !sim.Long() && len(state) >= 400
				mu.Unlock()
				if enough { // queries return them all
					return nil
				}
				n := number.Add(1)
				row := store.Row{"device": int8(n % 3), "celsius": int32(n % 50), "room": fmt.Sprint("r", n%4), "model": "m", "number": n}
				if n%2 == 0 {
					row["id"] = store.LoadTie{byte(n), byte(n >> 8), 1}
				}
				if err := tbl.Put(background, row); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				state[n] = true
				return nil
			})
		}
		query := func(tbl *store.Table, where store.Predicate, by string) (map[int64]bool, error) {
			rows := make(map[int64]bool)
			for row, err := range tbl.Query(background, store.Query{Where: where}) {
				if err != nil {
					return nil, fmt.Errorf("by %s: %w", by, err)
				}
				n := row["number"].(int64)
				if rows[n] {
					return nil, fmt.Errorf("by %s: row %d twice", by, n)
				}
				if row["celsius"] != int32(n%50) || row["room"] != fmt.Sprint("r", n%4) || row["model"] != "m" {
					return nil, fmt.Errorf("by %s: row %d is %v", by, n, row)
				}
				rows[n] = true
				mu.Lock()
				ids[n] = store.Row{"device": row["device"], "id": row["id"]}
				mu.Unlock()
			}
			return rows, nil
		}
		gone := make(map[int64]bool)
		look := func(tbl *store.Table, where store.Predicate, by string) error {
			mu.Lock()
			var there, notThere []int64
			for n := range state {
				there = append(there, n)
			}
			for n := range gone {
				notThere = append(notThere, n)
			}
			mu.Unlock()
			rows, err := query(tbl, where, by)
			if err != nil {
				if store.Retryable(err) {
					return nil
				}
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, n := range there {
				if !rows[n] && state[n] {
					return fmt.Errorf("by %s: row %d is missing", by, n)
				}
			}
			for _, n := range notThere {
				if rows[n] {
					return fmt.Errorf("by %s: row %d was deleted", by, n)
				}
			}
			return nil
		}
		run(func(tbl *store.Table) error { return look(tbl, store.Int32.Field("celsius").AtLeast(0), "celsius") })
		run(func(tbl *store.Table) error {
			return look(tbl, store.String.Field("room").In("r0", "r1", "r2", "r3"), "room")
		})
		run(func(tbl *store.Table) error {
			mu.Lock()
			var row store.Row
			var n int64
			for n, row = range ids {
				break
			}
			delete(ids, n)
			was := state[n]
			delete(state, n)
			mu.Unlock()
			if row == nil || !was {
				return nil
			}
			if err := tbl.Delete(background, row); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			gone[n] = true
			return nil
		})
		wait, made := 60*time.Millisecond, 0
		for i, c := range changes {
			if kind.Server && i%2 == 1 && i != 3 {
				continue
			}
			if made++; made > changesOf(kind, len(changes)) {
				break
			}
			time.Sleep(wait)
			if c.change == nil {
				require.NoError(t, st.RotateKeys(background, "events"))
			} else {
				require.NoError(t, st.Alter(background, "events", c.change...), c.name)
			}
			tbl, err := st.Table(background, "events")
			require.NoError(t, err)
			time.Sleep(wait)
			_, err = tbl.Convert(background, nil)
			require.NoError(t, err, c.name)
			require.NoError(t, look(tbl, store.Int32.Field("celsius").AtLeast(0), c.name))
			if t.Failed() {
				break
			}
		}
		close(stop)
		workers.Wait()
		require.False(t, t.Failed())
		require.Greater(t, len(state), 5)
		require.NotEmpty(t, gone)
		tbl, err := st.Table(background, "events")
		require.NoError(t, err)
		_, err = tbl.Convert(background, nil)
		require.NoError(t, err)
		for by, where := range map[string]store.Predicate{"all": {}, "celsius": store.Int32.Field("celsius").AtLeast(0), "room": store.String.Field("room").In("r0", "r1", "r2", "r3")} {
			rows, err := query(tbl, where, by)
			require.NoError(t, err)
			require.Equal(t, state, rows, by)
		}
		require.Eventually(t, func() bool {
			v, err := tbl.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound(), "%v", v.Faults)
			return v.Uncopied == 0
		}, 20*time.Second, 100*time.Millisecond)
		use, err := tbl.KeyUse(background, nil)
		require.NoError(t, err)
		require.Zero(t, use.Unknown+use.Dropped)
		for _, k := range use.Keys {
			require.True(t, k.Newest || k.Cells == 0, "%+v", k)
		}
		t.Logf("%d rows are there, %d were deleted", len(state), len(gone))
	})
}

// A list of columns to copy is a set: one that says the same in other words is no change.
func TestCopiesOfTheSameColumnsAreNoChange(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	create(t, st, store.Schema{
		Name: "t", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int32)},
		Columns: []store.Column{
			store.DeterministicColumn("a", store.Int32).Covering("c", "b", "c", "id", "a"), store.RandomisedColumn("b", store.String), store.RandomisedColumn("c", store.String),
		},
	})
	change := func(names ...string) (changed bool) {
		t.Helper()
		before, err := st.Describe(background)
		require.NoError(t, err)
		require.NoError(t, st.Alter(background, "t", store.ChangeColumn(store.DeterministicColumn("a", store.Int32).Covering(names...))))
		after, err := st.Describe(background)
		require.NoError(t, err)
		return before.Version != after.Version
	}
	require.False(t, change("b", "c"))
	require.False(t, change("c", "a", "b", "id", "b"))
	require.True(t, change("c"))
	require.False(t, change("c", "a"))
	require.True(t, change("a"))
	require.False(t, change([]string{}...), "which has the column itself and the row key only")
	require.True(t, change(), "which has all")
}
