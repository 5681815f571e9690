package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// comparedWithPlaintext puts the same rows into a table with a column of ranks and into one that is not encrypted, and asks
// both the same. Values come on a path that nothing predicts, so that they share ranks.
func comparedWithPlaintext[T any](t *testing.T, kind testdb.Database, field store.Field[T], typ store.Type, values []T) {
	ctx := t.Context()
	r := seeded(t)
	covers, conditional := r.IntN(2) == 0, true
	db := kind.Open(t, nil)
	st := open(t, db)
	tables := make([]*store.Table, 2)
	for i, scheme := range []store.ColumnScheme{store.KerschbaumRanked, store.Plaintext} {
		column := store.OrderedColumn("v", typ, scheme)
		if covers {
			column = column.Covering()
		} else {
			conditional = r.IntN(2) == 0
		}
		tables[i] = create(t, st, store.Schema{
			Name: fmt.Sprint("t", i), Conditional: conditional, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{column, store.DeterministicColumn("n", store.Int64)},
		})
	}
	small, err := store.Open(ctx, db, kms.NewLocal(testKey), &store.Options{CacheValues: 4096})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, small.Close(background)) })
	other, err := small.Table(ctx, "t0")
	require.NoError(t, err)

	low, high := 0, len(values)
	id := int64(0)
	put := func(v any) {
		row := store.Row{"id": id, "v": v, "n": id % 3}
		for _, tbl := range tables {
			require.NoError(t, tbl.Put(ctx, row))
		}
		id++
	}
	for low < high {
		i := low
		if r.IntN(2) == 0 {
			low++
		} else {
			high--
			i = high
		}
		switch r.IntN(8) {
		case 0:
			put(values[i])
			put(values[i])
		case 1: // is never there
		case 2:
			put(values[i])
			put(nil)
		default:
			put(values[i])
		}
	}
	for range 20 { // some go, and some get another value
		key := store.Row{"id": r.Int64N(id)}
		v := values[r.IntN(len(values))]
		for _, tbl := range tables {
			if key["id"].(int64)%2 == 0 {
				require.NoError(t, tbl.Delete(ctx, key))
			} else {
				require.NoError(t, tbl.Put(ctx, store.Row{"id": key["id"], "v": v, "n": key["id"].(int64) % 3}))
			}
		}
	}

	n := store.Int64.Field("n")
	some := func() T { return values[r.IntN(len(values))] }
	var where func(deep int) store.Predicate
	where = func(deep int) store.Predicate {
		switch x := r.IntN(12); {
		case x == 0:
			return field.AtLeast(some())
		case x == 1:
			return field.AtMost(some())
		case x == 2:
			return field.Greater(some())
		case x == 3:
			return field.Less(some())
		case x == 4:
			return field.Equal(some())
		case x == 5:
			return field.In(some(), some(), some())
		case x == 6:
			return store.IsNull("v")
		case x == 7 && deep > 0:
			return store.Or(where(deep-1), where(deep-1))
		case x == 8 && deep > 0:
			return store.And(where(deep-1), where(deep-1))
		case x == 9 && deep > 0:
			return store.Not(where(deep - 1))
		case x == 10:
			return n.Equal(r.Int64N(3))
		}
		return field.Between(some(), some())
	}
	ask := func(tbl *store.Table, q store.Query, paged bool) (got []any, ids map[int64]bool, err error) {
		ids = map[int64]bool{}
		take := func(row store.Row) {
			require.False(t, ids[row["id"].(int64)], "a row comes twice: %+v", q)
			ids[row["id"].(int64)] = true
			got = append(got, row["v"])
		}
		if !paged {
			for row, err := range tbl.Query(ctx, q) {
				if err != nil {
					return nil, nil, err
				}
				take(row)
			}
			return got, ids, nil
		}
		for {
			rows, next, err := tbl.Page(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			for _, row := range rows {
				take(row)
			}
			if q.PageToken = next; next == "" {
				return got, ids, nil
			}
		}
	}
	for range 50 {
		q := store.Query{Where: where(2), Reverse: r.IntN(2) == 0, Limit: []int{0, 1, 7}[r.IntN(3)]}
		if r.IntN(2) == 0 || q.Reverse {
			q.OrderBy = "v"
		}
		paged := q.Limit > 0 && r.IntN(2) == 0
		want, wantIDs, failed := ask(tables[1], q, paged)
		for _, tbl := range []*store.Table{tables[0], other} {
			got, ids, err := ask(tbl, q, paged)
			require.Equal(t, failed == nil, err == nil, "%v, %v", failed, err)
			if q.OrderBy == "v" {
				require.Equal(t, want, got, "%+v", q)
			}
			require.Len(t, ids, len(wantIDs))
			if q.Limit == 0 || paged {
				require.Equal(t, wantIDs, ids)
			}
		}
		for _, tbl := range tables {
			count, err := tbl.Count(ctx, q.Where)
			require.NoError(t, err)
			if q.Limit == 0 || paged {
				require.Equal(t, len(wantIDs), count)
			}
		}
	}
	for range 10 {
		p := where(1)
		var got [2][2]any
		for i, tbl := range tables {
			for j, extreme := range []func(*store.Table) (any, error){
				func(tbl *store.Table) (any, error) { return tbl.Min(ctx, "v", p) },
				func(tbl *store.Table) (any, error) { return tbl.Max(ctx, "v", p) },
			} {
				got[i][j], err = extreme(tbl)
				require.NoError(t, err)
			}
		}
		require.True(t, reflect.DeepEqual(got[0], got[1]), "%v", got)
	}
	found, err := tables[0].Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, found.Sound(), "%+v", found)
}

// A column with ranks answers as one that is not encrypted, for types whose order is that of their first bytes only, for
// numbers with two zeros and infinities, for a domain all of whose values are there, and at the ends of it.
func TestRankedColumnIsAsPlaintext(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		t.Run("int8", func(t *testing.T) {
			step := 1
			if kind.Server { // each is a round trip or two
				step = 8
			}
			var values []int8
			for v := math.MinInt8; v <= math.MaxInt8; v += step {
				values = append(values, int8(v))
			}
			comparedWithPlaintext(t, kind, store.Int8.Field("v"), store.Int8, values)
		})
		if !kind.Runs(false) {
			return
		}
		t.Run("int64", func(t *testing.T) {
			values := []int64{math.MinInt64, math.MinInt64 + 1}
			for v := range int64(300) {
				values = append(values, v-20)
			}
			comparedWithPlaintext(t, kind, store.Int64.Field("v"), store.Int64, append(values, math.MaxInt64-1, math.MaxInt64))
		})
		t.Run("float64", func(t *testing.T) {
			values := []float64{math.Inf(-1), -math.MaxFloat64}
			for v := -150; v < 150; v++ {
				values = append(values, float64(v)/8)
			}
			values = append(values, math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1))
			slices.Sort(values)
			comparedWithPlaintext(t, kind, store.Float64.Field("v"), store.Float64, values)
		})
		t.Run("string", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			values := []string{"", "a", "\x00"}
			for i := range 120 {
				values = append(values, fmt.Sprintf("%07d", i), fmt.Sprintf("%07d.%d", i, rng.IntN(9)), fmt.Sprintf("%07d..%d", i, rng.IntN(9)), fmt.Sprintf("%07d..x", i))
			}
			slices.Sort(values)
			comparedWithPlaintext(t, kind, store.String.Field("v"), store.String, slices.Compact(values))
		})
	})
}
