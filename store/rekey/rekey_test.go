package rekey_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/paged"
	"github.com/rangecrypt/rangecrypt/store/pebble"
	"github.com/rangecrypt/rangecrypt/store/rekey"
)

var master = ope.GenerateKey()

func open(t *testing.T, db driver.DB) *store.Store {
	st, err := store.Open(t.Context(), db, kms.NewLocal(master), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
	return st
}

var readings = store.Schema{
	Name: "readings", Key: []store.KeyPart{store.HashedPart("device", store.Int64), store.OrderedPart("at", store.Int64, store.MOPE)},
	Columns: []store.Column{
		store.OrderedColumn("celsius", store.Int64, store.Boldyreva), store.OrderedColumn("level", store.Int64, store.Kerschbaum),
		store.RandomisedColumn("note", store.String), store.PlainColumn("model", store.String),
	},
}

const rows = 60

// filled returns the table with rows.
func filled(t *testing.T, st *store.Store) *store.Table {
	tbl, err := st.Create(t.Context(), readings)
	require.NoError(t, err)
	for i := range int64(rows) {
		require.NoError(t, tbl.Put(t.Context(), store.Row{"device": i % 4, "at": i, "celsius": i, "level": i % 9, "note": "n", "model": "m"}))
	}
	return tbl
}

func describe(t *testing.T, st *store.Store) inspect.Database {
	d, err := st.Describe(t.Context())
	require.NoError(t, err)
	return d
}

func tableOf(d inspect.Database, name string) inspect.Table {
	for _, table := range d.Tables {
		if table.Name == name {
			return table
		}
	}
	return inspect.Table{}
}

// under counts what is under listed keys in a table.
func under(t *testing.T, st *store.Store, name string, list rekey.List) rekey.Under {
	tbl, err := st.Table(t.Context(), name)
	require.NoError(t, err)
	use, err := tbl.KeyUse(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, use.Left+use.Unknown)
	d := describe(t, st)
	return list.Under(d, tableOf(d, name), use)
}

func found(t *testing.T, tbl *store.Table, where store.Predicate) int {
	n, err := tbl.Count(t.Context(), where)
	require.NoError(t, err)
	return n
}

// All keys but those of the row key are replaced, once, however often that is done and by how many.
func TestReplace(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := open(t, db)
		tbl := filled(t, st)
		list := rekey.All(describe(t, st))
		all := under(t, st, "readings", list)
		require.GreaterOrEqual(t, all.Records, 9, "of each value there is one, and some are of the index itself")
		all.Records = 0
		require.Equal(t, rekey.Under{Cells: 3 * rows, Entries: 2 * rows, Rows: 2 * rows}, all)
		clients := []*store.Store{open(t, db), open(t, db), st}
		var wg sync.WaitGroup
		failed := make([]error, len(clients))
		for i, one := range clients {
			wg.Go(func() {
				for range 2 {
					failed[i] = errors.Join(failed[i], rekey.Replace(ctx, one, "readings", list, true, true))
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(failed...))
		table := tableOf(describe(t, st), "readings")
		require.Len(t, table.RowKeys, 2)
		for _, c := range table.Columns[:2] {
			require.Len(t, c.Former, 1)
			require.False(t, list.Has(c.SearchKey))
			require.Len(t, c.CellKeys, 1)
			require.False(t, list.Has(c.CellKeys[0]))
		}
		require.Len(t, table.Columns[2].CellKeys, 2)
		require.Equal(t, rows-10, found(t, tbl, store.Int64.Field("celsius").AtLeast(10)))

		_, err := tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, rekey.Under{Rows: 2 * rows}, under(t, st, "readings", list))
		require.Equal(t, rows-10, found(t, tbl, store.Int64.Field("celsius").AtLeast(10)))
		require.NoError(t, rekey.Replace(ctx, st, "readings", list, true, true))
		require.Equal(t, table.RowKeys, tableOf(describe(t, st), "readings").RowKeys, "what is done is not done again")
	})
}

// What deleted rows of a conditional table leave keeps its key. It is counted for itself, as it has no values.
func TestReplaceWithDeletedRows(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, st := t.Context(), open(t, kind.Open(t, nil))
		schema := readings
		schema.Conditional = true
		tbl, err := st.Create(ctx, schema)
		require.NoError(t, err)
		for i := range int64(5) {
			require.NoError(t, tbl.Put(ctx, store.Row{"device": 1, "at": i}))
		}
		require.NoError(t, tbl.Delete(ctx, store.Row{"device": 1, "at": 2}, store.Row{"device": 1, "at": 3}))
		list := rekey.All(describe(t, st))
		require.Equal(t, 2, under(t, st, "readings", list).Deleted)
		require.NoError(t, rekey.Replace(ctx, st, "readings", list, true, true))
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, rekey.Under{Cells: 2, Deleted: 2, Rows: 10}, under(t, st, "readings", list))
		require.NoError(t, tbl.Put(ctx, store.Row{"device": 1, "at": 2}))
		require.Equal(t, rekey.Under{Cells: 1, Deleted: 1, Rows: 10}, under(t, st, "readings", list))
	})
}

// Whoever dies at any call of a rekeying, or is told nothing, leaves what the next one ends: each key is replaced once.
func TestReplaceThatIsInterrupted(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"dies before": drivertest.CrashBefore, "dies after": drivertest.CrashAfter, "answer lost": drivertest.FailAfter, "lost": drivertest.Lose,
	} {
		t.Run(name, func(t *testing.T) {
			for n, reached := 1, true; reached; n++ {
				ctx, memory := t.Context(), drivertest.NewMemory()
				st := open(t, memory)
				tbl := filled(t, st)
				list := rekey.All(describe(t, st))
				calls, armed := 0, false
				dying := open(t, drivertest.NewFaulty(memory, func(drivertest.Op) drivertest.Fault {
					if !armed {
						return drivertest.NoFault
					}
					if calls++; calls == n {
						return fault
					}
					return drivertest.NoFault
				}))
				armed = true
				_ = rekey.Replace(ctx, dying, "readings", list, true, true)
				reached = calls >= n
				require.NoError(t, rekey.Replace(ctx, st, "readings", list, true, true))
				table := tableOf(describe(t, st), "readings")
				require.Len(t, table.RowKeys, 2)
				require.Len(t, table.Columns[0].Former, 1)
				require.Len(t, table.Columns[2].CellKeys, 2)
				_, err := tbl.Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, rekey.Under{Rows: 2 * rows}, under(t, st, "readings", list))
			}
		})
	}
}

// Search keys that columns share stay, and others are replaced.
func TestReplaceOfSharedKeys(t *testing.T) {
	ctx, st := t.Context(), open(t, drivertest.NewMemory())
	tbl, err := st.Create(ctx, store.Schema{
		Name: "people", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{
			store.DeterministicColumn("name", store.String), store.DeterministicColumn("friend", store.String).SharedWith("people", "name"),
			store.DeterministicColumn("town", store.String).DatabaseWide(), store.DeterministicColumn("job", store.String),
		},
	})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, store.Row{"id": int64(1), "name": "a", "friend": "b", "town": "c", "job": "d"}))
	list := rekey.All(describe(t, st))
	require.NoError(t, rekey.Replace(ctx, st, "people", list, true, true))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, rekey.Under{Entries: 3, Shared: 3, Rows: 1}, under(t, st, "people", list))
	require.False(t, list.Has(tableOf(describe(t, st), "people").Columns[3].SearchKey))
}

// An embedded store forgets keys that nothing is under; other stores keep them, since a client that sleeps may write under them.
func TestPrune(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, db := t.Context(), kind.Open(t, nil)
		st := open(t, db)
		tbl := filled(t, st)
		prune := func() (int, error) {
			use, err := tbl.KeyUse(ctx, nil)
			require.NoError(t, err)
			return rekey.Prune(ctx, st, "readings", use)
		}
		list := rekey.All(describe(t, st))
		require.NoError(t, rekey.Replace(ctx, st, "readings", list, true, true))
		if kind.Server {
			_, err := prune()
			require.ErrorIs(t, err, rekey.ErrKept)
			return
		}
		if kind.Name != "pebble" {
			return
		}
		n, err := prune()
		require.NoError(t, err)
		require.Equal(t, 1, n, "of a column that is in the key cells no cell is under a key of its own")
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		// Of key cells there is one, of the two searched columns two each.
		n, err = prune()
		require.NoError(t, err)
		require.Equal(t, 1+2+2, n)
		for _, id := range rekey.KeysOf(tableOf(describe(t, st), "readings")) {
			isPart := id == tableOf(describe(t, st), "readings").Key[0].SearchKey || id == tableOf(describe(t, st), "readings").Key[1].SearchKey
			require.Equal(t, isPart, list.Has(id), "the catalogue has old keys of the row key only")
		}
		s, err := tbl.Status(ctx)
		require.NoError(t, err)
		require.Equal(t, s.Latest, s.Version, "it counts as converted")
		again := open(t, db)
		other, err := again.Table(ctx, "readings")
		require.NoError(t, err)
		for _, tbl := range []*store.Table{tbl, other} {
			require.Equal(t, rows-10, found(t, tbl, store.Int64.Field("celsius").AtLeast(10)))
			require.Equal(t, rows, found(t, tbl, store.Int64.Field("level").AtLeast(0)))
		}
		v, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		n, err = prune()
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// The cost of a rekeying does not grow with their number where old keys are pruned: the catalogue has as many keys after many as after one.
func TestKeysDoNotGrow(t *testing.T) {
	ctx := t.Context()
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st := open(t, db)
	tbl := filled(t, st)
	n := 0
	for round := range 5 {
		require.NoError(t, rekey.Replace(ctx, st, "readings", rekey.All(describe(t, st)), true, true))
		_, err := tbl.Convert(ctx, nil)
		require.NoError(t, err)
		use, err := tbl.KeyUse(ctx, nil)
		require.NoError(t, err)
		_, err = rekey.Prune(ctx, st, "readings", use)
		require.NoError(t, err)
		keys := len(rekey.KeysOf(tableOf(describe(t, st), "readings")))
		if round == 0 {
			n = keys
		}
		require.Equal(t, n, keys)
	}
}

// Into another store, all comes under other keys, with its tenants.
func TestCopyIntoAnotherStore(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx := t.Context()
		old, young := open(t, kind.Open(t, nil)), open(t, drivertest.NewMemory())
		filled(t, old)
		shared := store.Schema{
			Name: "alarms", Tenants: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{
				store.OrderedColumn("level", store.Int64, store.Boldyreva), store.OrderedColumn("first", store.Int64, store.Boldyreva).SharedWith("alarms", "level"),
			},
		}
		alarms, err := old.Create(ctx, shared)
		require.NoError(t, err)
		for _, name := range []string{"acme", "beta"} {
			require.NoError(t, old.CreateTenant(ctx, name))
			of, err := alarms.Tenant(ctx, name)
			require.NoError(t, err)
			require.NoError(t, of.Put(ctx, store.Row{"id": int64(1), "level": int64(2), "first": int64(3)}))
		}
		list := rekey.All(describe(t, old))
		require.Equal(t, rekey.Under{Cells: 6, Entries: 4, Rows: 2}, under(t, old, "alarms", list))
		for _, name := range []string{"readings", "alarms"} {
			for range 2 { // and what was begun is found
				m, err := rekey.Copy(ctx, old, name, young, name)
				require.NoError(t, err)
				_, err = m.Copy(ctx, inspect.Part{Of: 1}, nil)
				require.NoError(t, err)
				_, err = m.Verify(ctx, inspect.Part{Of: 1}, nil)
				require.NoError(t, err)
			}
			m, err := rekey.Copy(ctx, old, name, young, name)
			require.NoError(t, err)
			require.NoError(t, m.Cutover(ctx))
			_, err = m.Verify(ctx, inspect.Part{Of: 1}, nil)
			require.NoError(t, err)
			_, err = m.Drop(ctx, false, nil)
			require.NoError(t, err)
			require.Zero(t, under(t, young, name, list))
		}
		for id := range rekey.All(describe(t, young)) {
			require.False(t, list.Has(id))
		}
		require.Empty(t, describe(t, old).Tables)
		tbl, err := young.Table(ctx, "readings")
		require.NoError(t, err)
		require.Equal(t, rows, found(t, tbl, store.Int64.Field("celsius").AtLeast(0)))
		moved, err := young.Table(ctx, "alarms")
		require.NoError(t, err)
		of, err := moved.Tenant(ctx, "beta")
		require.NoError(t, err)
		require.Equal(t, 1, found(t, of, store.Int64.Field("first").Equal(3)))
	})
}

// A policy that is set while the rows of a tenant come into another table is to be set there, too: else that would have in the clear, and
// for ever, what the other one seals.
func TestPolicyThatIsSetDuringACopy(t *testing.T) {
	ctx := t.Context()
	old, young := open(t, drivertest.NewMemory()), open(t, drivertest.NewMemory())
	logs, err := old.Create(ctx, store.Schema{
		Name: "logs", Tenants: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.PlainColumn("zone", store.String), store.PlainColumn("note", store.String)},
	})
	require.NoError(t, err)
	for _, name := range []string{"acme", "beta"} {
		require.NoError(t, old.CreateTenant(ctx, name))
		of, err := logs.Tenant(ctx, name)
		require.NoError(t, err)
		require.NoError(t, of.Put(ctx, store.Row{"id": int64(1), "zone": "z", "note": "n"}))
	}
	require.NoError(t, old.SetPolicy(ctx, "acme", "logs", store.Policy{Sensitive: []string{"note"}}))
	m, err := rekey.Copy(ctx, old, "logs", young, "logs")
	require.NoError(t, err)
	_, err = m.Copy(ctx, inspect.Part{Of: 1}, nil)
	require.NoError(t, err)
	_, err = rekey.Copy(ctx, old, "logs", young, "logs")
	require.NoError(t, err)

	require.NoError(t, old.SetPolicy(ctx, "beta", "logs", store.Policy{Whole: true})) // which the next pass takes over
	require.NoError(t, old.SetPolicy(ctx, "acme", "logs", store.Policy{Whole: true}))
	_, err = rekey.Copy(ctx, old, "logs", young, "logs")
	require.ErrorIs(t, err, migrate.ErrUnfit)
	require.ErrorContains(t, err, `tenant "acme": `)
	require.ErrorContains(t, err, `by the policy of table "logs", column "zone" is sealed`)
	require.NoError(t, young.SetPolicy(ctx, "acme", "logs", store.Policy{Whole: true}))
	_, err = rekey.Copy(ctx, old, "logs", young, "logs")
	require.NoError(t, err)
}

// A tenant's key is replaced once; what its rows are found by stays under its first key.
func TestReplaceTenant(t *testing.T) {
	ctx, st := t.Context(), open(t, drivertest.NewMemory())
	schema := readings
	schema.Tenants = true
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	require.NoError(t, st.CreateTenant(ctx, "acme"))
	acme, err := tbl.Tenant(ctx, "acme")
	require.NoError(t, err)
	for i := range int64(10) {
		require.NoError(t, acme.Put(ctx, store.Row{"device": i, "at": i, "celsius": i}))
	}
	list := rekey.All(describe(t, st))
	before := under(t, st, "readings", list)
	require.Equal(t, rekey.Under{Cells: 20, Entries: 10, Rows: 20}, before)
	for range 3 {
		require.NoError(t, rekey.ReplaceTenant(ctx, st, "acme", list))
	}
	require.Len(t, describe(t, st).Tenants[0].Keys, 2)
	require.NoError(t, rekey.Replace(ctx, st, "readings", list, true, true))
	require.Equal(t, before, under(t, st, "readings", list))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, rekey.Under{Entries: 10, Rows: 20}, under(t, st, "readings", list))
	require.ErrorIs(t, rekey.ReplaceTenant(ctx, st, "nobody", list), store.ErrNoTenant)
}

// A copy begins only into an empty table that takes the rows.
func TestCopyThatDoesNotFit(t *testing.T) {
	ctx, st := t.Context(), open(t, drivertest.NewMemory())
	filled(t, st)
	_, err := rekey.Copy(ctx, st, "nothing", st, "nothing.next")
	require.ErrorIs(t, err, store.ErrNoTable)
	next := readings
	next.Name = "readings.next"
	tbl, err := st.Create(ctx, next)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, store.Row{"device": int64(1), "at": int64(1)}))
	_, err = rekey.Copy(ctx, st, "readings", st, "readings.next")
	require.ErrorIs(t, err, migrate.ErrUnfit)
	require.ErrorContains(t, err, "has rows, or marks of deleted ones: drop or rename that one")

	// Nor does one of a table that rows are coming into: nothing is wrong with the other table.
	next.Name = "coming"
	_, err = st.Create(ctx, next)
	require.NoError(t, err)
	_, err = rekey.Copy(ctx, st, "readings", st, "coming")
	require.NoError(t, err)
	_, err = rekey.Copy(ctx, st, "coming", open(t, drivertest.NewMemory()), "coming")
	require.ErrorIs(t, err, migrate.ErrUnfit)
	require.ErrorContains(t, err, "rows are coming into table \"coming\" itself")
}

// The list of all keys has each one that is described, and nothing else.
func TestAll(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	filled(t, st)
	d := describe(t, st)
	list := rekey.All(d)
	for _, id := range rekey.KeysOf(d.Tables[0]) {
		require.True(t, list.Has(id), fmt.Sprint(id))
	}
	require.True(t, list.Has(d.Key))
	require.Len(t, maps.Clone(list), 1+1+2+2*2+1)
}

// A table of pages is copied as any other, in a store and into another one. What is there in its place must have pages of as many rows.
func TestCopyOfPages(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx := t.Context()
		old, young := open(t, kind.Open(t, nil)), open(t, drivertest.NewMemory())
		schema := store.Schema{
			Name: "log", Key: []store.KeyPart{store.HashedPart("device", store.Int64), store.OrderedPart("at", store.Int64, store.MOPE)},
			Columns: []store.Column{store.RandomisedColumn("note", store.String), store.PlainColumn("model", store.String)},
		}
		tbl, err := paged.Create(ctx, old, schema, 4)
		require.NoError(t, err)
		var all []store.Row
		for i := range int64(rows) {
			all = append(all, store.Row{"device": i % 4, "at": i, "note": "n", "model": "m"})
		}
		require.NoError(t, tbl.Put(ctx, all...))
		list := rekey.All(describe(t, old))

		other := schema
		other.Name = "log.next"
		_, err = paged.Create(ctx, old, other, 8)
		require.NoError(t, err)
		_, err = rekey.Copy(ctx, old, "log", old, "log.next")
		require.ErrorIs(t, err, migrate.ErrUnfit)
		require.ErrorContains(t, err, "rows of a page")
		require.NoError(t, old.Drop(ctx, "log.next"))

		for _, to := range []struct {
			st       *store.Store
			from, as string
		}{{old, "log", "log.next"}, {young, "log.next", "log"}} {
			for range 2 { // and what was begun is found
				m, err := rekey.Copy(ctx, old, to.from, to.st, to.as)
				require.NoError(t, err)
				_, err = m.Copy(ctx, inspect.Part{Of: 1}, nil)
				require.NoError(t, err)
				done, err := m.Verify(ctx, inspect.Part{Of: 1}, nil)
				require.NoError(t, err)
				require.Equal(t, migrate.Counts{Equal: rows}, done.Rows)
			}
			m, err := rekey.Copy(ctx, old, to.from, to.st, to.as)
			require.NoError(t, err)
			require.NoError(t, m.Cutover(ctx))
			_, err = m.Verify(ctx, inspect.Part{Of: 1}, nil)
			require.NoError(t, err)
			_, err = m.Drop(ctx, false, nil)
			require.NoError(t, err)
			for _, id := range rekey.KeysOf(tableOf(describe(t, to.st), to.as)) {
				require.False(t, list.Has(id))
			}
		}
		require.Empty(t, describe(t, old).Tables)
		moved, err := paged.Open(ctx, young, "log")
		require.NoError(t, err)
		require.Equal(t, 4, moved.PageRows())
		n, err := moved.Count(ctx, store.Predicate{})
		require.NoError(t, err)
		require.Equal(t, rows, n)
	})
}
