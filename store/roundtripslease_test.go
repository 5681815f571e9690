package store

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// How many round trips and requests writes take with a lease, as in TestRoundTrips: one less of each, where no row is read back.
func TestRoundTripsWithALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 10
		ctx, memory := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		require.NoError(t, stores(t, memory, 1)[0].SetLease(ctx, time.Minute))
		var calls []string
		open := time.Now()
		st, err := Open(ctx, timed(memory, &calls), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		st.useLeases(func() time.Duration { return time.Since(open) })
		table := func(s Schema, columns ...Column) *Table {
			s.Key, s.Columns = append([]KeyPart{HashedPart("id", Int64)}, s.Key...), append(columns, RandomisedColumn("note", Int16))
			tbl, err := st.Create(ctx, s)
			require.NoError(t, err)
			return tbl
		}
		tie := []KeyPart{TiePart("tie")}
		plain := table(Schema{Name: "plain"}, RandomisedColumn("value", Int16))
		searched := table(Schema{Name: "searched"}, OrderedColumn("value", Int16, MOPE))
		fresh := table(Schema{Name: "fresh", Key: tie}, OrderedColumn("value", Int16, MOPE))
		added := table(Schema{Name: "added", Key: tie, AppendOnly: true}, OrderedColumn("value", Int16, MOPE).Covering())
		mutable := table(Schema{Name: "mutable"}, OrderedColumn("value", Int16, Kerschbaum))
		conditional := table(Schema{Name: "conditional", Conditional: true}, OrderedColumn("value", Int16, MOPE))
		covering := table(Schema{Name: "covering", Conditional: true}, OrderedColumn("value", Int16, MOPE).Covering())
		served := table(Schema{Name: "served"}, OrderedColumn("value", Int16, Boldyreva).ServerIndex())
		for _, tbl := range []*Table{plain, searched, fresh, added, mutable, conditional, covering, served} {
			require.NoError(t, tbl.Put(ctx, Row{"id": -1})) // each knows the newest version of the catalogue
		}
		batch := func(from int, value int) (batch []Row) {
			for i := range rows {
				batch = append(batch, Row{"id": from + i, "value": value})
			}
			return batch
		}
		load := batch(0, 6)
		for i := range load {
			load[i]["tie"] = LoadTie{byte(i)}
		}
		put := func(tbl *Table, rows []Row) func() error { return func() error { return tbl.Put(ctx, rows...) } }
		for _, c := range []struct {
			operation       string
			trips, requests int
			do              func() error
		}{
			{"put, nothing searched", 1, 1, put(plain, batch(0, 5))},
			{"put, new rows", 2, 2, put(fresh, batch(0, 5))},
			{"put, rows that may exist", 2, 3, put(searched, batch(0, 5))},
			{"put, rows that exist", 2, 5, put(searched, batch(0, 6))},
			{"put, append-only", 2, 4, put(added, batch(0, 5))},
			{"put, append-only, rows of a load", 3, 7, put(added, load)},
			{"put, append-only, rows of a load again", 1, 2, put(added, load)},
			{"put, values new to a Kerschbaum column", 4, 8, put(mutable, batch(0, 5))},
			{"put, values known to a Kerschbaum column", 2, 5, put(mutable, batch(0, 5))},
			{"put, conditional, new rows", 2, 12, put(conditional, batch(0, 5))},
			{"put, conditional, rows that exist", 2, 13, put(conditional, batch(0, 6))},
			{"put, conditional, covering, new rows", 2, 14, put(covering, batch(0, 5))},
			{"put, conditional, covering, rows that exist", 3, 17, put(covering, batch(0, 6))},
			{"insert", 2, 2, func() error { return searched.Insert(ctx, batch(100, 5)...) }},
			{"insert, conditional", 2, 11, func() error { return conditional.Insert(ctx, batch(100, 5)...) }},
			{"update", 2, 13, func() error { return conditional.Update(ctx, batch(0, 7)...) }},
			{"update, covering", 3, 17, func() error { return covering.Update(ctx, batch(0, 7)...) }},
			{"upsert, new rows", 2, 12, func() error { return conditional.Upsert(ctx, batch(200, 5)...) }},
			{"upsert, rows that exist", 2, 13, func() error { return conditional.Upsert(ctx, batch(0, 8)...) }},
			{"update if", 2, 4, func() error { return conditional.UpdateIf(ctx, Row{"id": 1, "value": 9}, Row{"value": 8}) }},
			{"increment", 3, 4, func() error { _, err := conditional.Increment(ctx, Row{"id": 1}, "value", 1); return err }},
		} {
			_, err := st.Lease(ctx) // so that the version was just read
			require.NoError(t, err)
			calls = nil
			began := time.Now()
			require.NoError(t, c.do(), c.operation)
			trips := int(time.Since(began) / time.Second)
			time.Sleep(time.Minute) // for what it left to do
			synctest.Wait()
			t.Logf("%-45s %v", c.operation, calls)
			require.NotContains(t, strings.Join(calls, ","), "Get c", c.operation)
			require.Equal(t, [2]int{c.trips, c.requests}, [2]int{trips, len(calls)}, c.operation)
			requireDocumented(t, c.operation+", with a lease", c.trips, c.requests)
			requireDocumented(t, c.operation, c.trips+1, c.requests+1)
		}
		// Rows that a server index leads to are read back. The version is read at the same time.
		_, err = st.Lease(ctx)
		require.NoError(t, err)
		calls = nil
		began := time.Now()
		require.NoError(t, served.Put(ctx, batch(0, 5)...))
		require.Equal(t, [2]int{2, 3}, [2]int{int(time.Since(began) / time.Second), len(calls)})
		requireDocumented(t, "put, server index, with a lease", 2, 3)
	})
}
