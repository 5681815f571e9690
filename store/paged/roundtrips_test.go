package paged_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// What operations ask of the database is as docs/architecture.md says.
func TestRoundTrips(t *testing.T) {
	doc, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		db := intercept.New(intercept.WithLatency(drivertest.NewMemory(), func() time.Duration { return time.Second }),
			func(_ context.Context, _ intercept.Op, c intercept.Call) error { calls.Add(1); return c.Make(nil) }, nil)
		schema := keyings[0].schema(store.RandomisedColumn("a", store.Int64), store.PlainColumn("b", store.Int64))
		schema.SpreadBits = -1
		schema.Key = []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 1000), store.Boldyreva)} // no range is two
		tbl, err := paged.Create(t.Context(), opened(t, db), schema, 64)
		require.NoError(t, err)
		put := func(from, to int64, step int64) {
			var rows []store.Row
			for i := from; i < to; i += step {
				rows = append(rows, store.Row{"at": i, "a": i})
			}
			require.NoError(t, tbl.Put(t.Context(), rows...))
		}
		ask := func(where store.Predicate, want int) {
			n := 0
			for _, err := range tbl.Query(t.Context(), store.Query{Where: where}) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, want, n)
		}
		measured := func(name string, do func()) {
			calls.Store(0)
			began := time.Now()
			do()
			line := fmt.Sprintf("| %s | %d | %d |\n", name, int(time.Since(began)/time.Second), calls.Load())
			require.Contains(t, string(doc), line)
		}
		measured("get from pages, where the partition has none", func() {
			row, err := tbl.Get(t.Context(), store.Row{"at": 400})
			require.NoError(t, err)
			require.Nil(t, row)
		})
		measured("put into pages, the first one of a partition", func() { put(0, 2, 2) })
		put(2, 640, 2)
		at := store.Field[int64]("at")
		for _, op := range []struct {
			name string
			do   func()
		}{
			{"get from pages", func() {
				row, err := tbl.Get(t.Context(), store.Row{"at": 400})
				require.NoError(t, err)
				require.NotNil(t, row)
			}},
			{"query of pages, within one", func() { ask(at.Equal(400), 1) }},
			{"query of pages, a range of the row key", func() { ask(at.Between(200, 500), 151) }},
			{"query of pages, all of a table", func() { ask(store.Predicate{}, 320) }},
			{"query of pages, 100 values of the row key", func() {
				var values []int64
				for i := range int64(100) {
					values = append(values, 6*i)
				}
				ask(at.In(values...), 100)
			}},
			{"put into pages, into one that has room", func() { put(400, 401, 1) }},
			{"put into pages, one that is cut in two", func() { put(301, 331, 2) }},
		} {
			measured(op.name, op.do)
		}
	})
}
