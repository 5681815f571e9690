package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// Estimates are of the right size where rows are evenly spread, and never far above what there is, however wide the domain.
// With few keys of the database, the places that are looked at happen to be where rows are many. So the keys are those of a seed.
func TestEstimates(t *testing.T) {
	sim.Seed(t, 1)
	embedded, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, embedded.Close()) }()
	for name, db := range map[string]driver.DB{"memory": drivertest.NewMemory(), "pebble": embedded} {
		const rows = 5000
		st := open(t, db)
		lead := map[string]store.KeyPart{
			"hashed": store.HashedPart("k", store.Int64), "plain": store.PlainPart("k", store.Int64), "ordered": store.OrderedPart("k", store.Int64, store.MOPE),
		}
		for first, part := range lead {
			for _, values := range []int{4, rows} {
				tbl := create(t, st, store.Schema{
					Name: fmt.Sprint(first, values), Key: []store.KeyPart{part, store.OrderedPart("n", store.Int64, store.MOPE)},
					Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE), store.OrderedColumn("m", store.Int64, store.Kerschbaum)},
				})
				var batch []store.Row
				for i := range rows {
					batch = append(batch, store.Row{"k": i % values, "n": i, "c": i, "m": i % 100})
				}
				require.NoError(t, tbl.Put(background, batch...))
				c, m := store.Int64.Field("c"), store.Int64.Field("m")
				for _, q := range []struct {
					where store.Predicate
					close bool // rows are evenly spread
				}{
					{store.Predicate{}, first == "hashed" || values == rows && first != "plain"}, {c.AtLeast(0), true}, {c.AtMost(4000), true}, {c.Between(100, 4000), true},
					{c.Greater(1 << 40), true}, {c.Equal(7), true}, {store.Int64.Field("k").Equal(3), false}, {m.AtLeast(0), false},
				} {
					e, err := tbl.Explain(background, store.Query{Where: q.where})
					require.NoError(t, err)
					a, err := tbl.Analyze(background, store.Query{Where: q.where})
					require.NoError(t, err)
					require.LessOrEqual(t, e.Estimate, 3*a.Hits+10, "%s, %s of %d values: %+v, %+v", name, first, values, e, a)
					if e.Exact {
						require.Equal(t, a.Hits, e.Estimate)
					}
					if q.close {
						require.GreaterOrEqual(t, 3*e.Estimate+10, a.Hits, "%s, %s of %d values: %+v, %+v", name, first, values, e, a)
					}
				}
			}
		}
	}
}
