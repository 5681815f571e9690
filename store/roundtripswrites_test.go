package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// How many round trips and requests the writes of single columns take, and those that save a read, as in TestRoundTrips.
func TestRoundTripsOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 10
		ctx, memory := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		_ = stores(t, memory, 1) // there is a catalogue
		var calls []string
		st, err := Open(ctx, timed(memory, &calls), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		table := func(name string, conditional bool) *Table {
			tbl, err := st.Create(ctx, Schema{
				Name: name, Key: []KeyPart{HashedPart("id", Int64)}, Conditional: conditional,
				Columns: []Column{OrderedColumn("value", Int16, MOPE), RandomisedColumn("note", Int16)},
			})
			require.NoError(t, err)
			return tbl
		}
		plain, conditional := table("plain", false), table("conditional", true)
		// Each knows the newest version of the catalogue.
		for _, tbl := range []*Table{plain, conditional} {
			require.NoError(t, tbl.Put(ctx, Row{"id": -1}))
		}
		batch := func(from int) (batch []Row) {
			for i := range rows {
				batch = append(batch, Row{"id": from + i, "value": i})
			}
			return batch
		}
		for _, c := range []struct {
			operation       string
			trips, requests int
			do              func() error
		}{
			{"insert", 3, 3, func() error { return plain.Insert(ctx, batch(0)...) }},
			{"insert, conditional", 3, 12, func() error { return conditional.Insert(ctx, batch(0)...) }},
			{"get, a batch", 1, 1, func() error { _, err := plain.GetBatch(ctx, batch(0)); return err }},
			{"upsert, new rows", 3, 13, func() error { return conditional.Upsert(ctx, batch(rows)...) }},
			{"upsert, rows that exist", 3, 14, func() error { return conditional.Upsert(ctx, batch(0)...) }},
			{"update if", 3, 5, func() error { return conditional.UpdateIf(ctx, Row{"id": 1, "value": 9}, Row{"value": 1}) }},
			{"increment", 4, 5, func() error { _, err := conditional.Increment(ctx, Row{"id": 1}, "value", 1); return err }},
		} {
			calls = nil
			began := time.Now()
			require.NoError(t, c.do(), c.operation)
			trips := int(time.Since(began) / time.Second)
			time.Sleep(time.Minute) // for what it left to do
			synctest.Wait()
			t.Logf("%-30s %v", c.operation, calls)
			require.Equal(t, [2]int{c.trips, c.requests}, [2]int{trips, len(calls)}, c.operation)
			requireDocumented(t, c.operation, c.trips, c.requests)
		}
	})
}
