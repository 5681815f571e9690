package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// eachEstimated calls do with tables whose first key part has few values, or as many as there are rows. The keys of the database
// are those of a seed.
func eachEstimated(t *testing.T, rows int, columns []store.Column, row func(i int) store.Row, do func(what string, tbl *store.Table)) {
	sim.Seed(t, 1)
	hashed := store.HashedPart("k", store.Int64)
	st := open(t, drivertest.NewMemory())
	type lead struct {
		what   string
		part   store.KeyPart
		values int
	}
	leads := []lead{
		{"partitions", hashed, 300}, {"few partitions", hashed, 4}, {"plain", store.PlainPart("k", store.Int64), rows},
		{"ordered", store.OrderedPart("k", store.Int64, store.MOPE), 300}, {"hashed", hashed, rows},
	}
	for _, k := range leads[:sim.LongShare(len(leads), 2, 2)] {
		tbl := create(t, st, store.Schema{Name: k.what, Key: []store.KeyPart{k.part, store.PlainPart("n", store.Int64)}, Columns: columns})
		var batch []store.Row
		for i := range rows {
			r := row(i)
			r["k"], r["n"] = i%k.values, i
			batch = append(batch, r)
		}
		require.NoError(t, tbl.Put(background, batch...))
		do(k.what, tbl)
	}
}

// checkEstimate compares an estimate with what there is.
func checkEstimate(t *testing.T, e inspect.Estimate, hits int, about string) {
	t.Helper()
	about = fmt.Sprintf("%s: %+v, there are %d", about, e, hits)
	require.LessOrEqual(t, e.AtLeast, hits, about)
	switch {
	case e.Exact:
		require.Equal(t, hits, e.Rows, about)
		require.False(t, e.Rough, about)
	case !e.Rough:
		require.Less(t, float64(hits), 1.7*float64(e.Rows), about)
		require.Less(t, float64(e.Rows), 1.7*float64(hits), about)
	default:
		require.GreaterOrEqual(t, e.Rows, e.AtLeast, about)
	}
	require.True(t, e.Exact || hits > 4096, about)
}

// Up to 4,096 keys are counted. Of more, an estimate says itself whether it is of the right size, however values are shared.
func TestEstimates(t *testing.T) {
	const rows = 8000
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.1, 1, 1000)
	ordered := func(name string) store.Column { return store.OrderedColumn(name, store.Int64, store.MOPE) }
	columns := []store.Column{
		ordered("even"), ordered("few"), ordered("heavy"), ordered("zipf"), ordered("gaps"),
		store.OrderedColumn("mutable", store.Int64, store.Kerschbaum), store.DeterministicColumn("equal", store.Int64),
	}
	number := func(i int) store.Row {
		r := store.Row{
			"even": i, "few": min(i%7, 3), "heavy": 500, "zipf": int64(zipf.Uint64()), "gaps": i%10*1_000_000_000_000 + i*i%1000, "mutable": i % 100,
			"equal": min(i%9, 1),
		}
		if i%10 == 0 {
			r["heavy"] = i % 2000
		}
		if i%4 == 0 {
			delete(r, "few")
		}
		return r
	}
	eachEstimated(t, rows, columns, number, func(what string, tbl *store.Table) {
		decided := 0
		field := store.Int64.Field
		for i, where := range []store.Predicate{
			{}, field("even").AtLeast(0), field("even").Between(100, 7000), field("even").Greater(1 << 40), field("even").Equal(7), field("few").AtLeast(1),
			field("few").Equal(3), field("heavy").AtLeast(0), field("heavy").Equal(500), field("heavy").Greater(500), field("heavy").Between(3, 1900),
			field("zipf").AtLeast(1), field("zipf").Less(50), field("gaps").AtLeast(0), field("gaps").Less(7_000_000_000_000),
			field("mutable").AtLeast(10), field("equal").Equal(1), field("equal").In(0, 1, 2), store.Or(field("even").Less(3000), field("few").Equal(3)),
		} {
			about := fmt.Sprintf("%s, %d", what, i)
			e, err := tbl.Explain(background, store.Query{Where: where})
			require.NoError(t, err, about)
			a, err := tbl.Analyze(background, store.Query{Where: where})
			require.NoError(t, err, about)
			checkEstimate(t, e.Estimate, a.Hits, about)
			require.Equal(t, inspect.Estimate{Exact: true}, e.Nulls, about)
			if !e.Estimate.Rough {
				decided++
			}
		}
		require.GreaterOrEqual(t, decided, 17, what)
	})
}

// Rows without a value come after all others in the order of a column, and are a number of their own.
func TestEstimatesOfNulls(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)}, Columns: []store.Column{store.OrderedColumn("n", store.Int64, store.MOPE)}})
	explained := func(q store.Query) inspect.Explanation {
		e, err := tbl.Explain(background, q)
		require.NoError(t, err)
		return e
	}
	none := inspect.Estimate{Exact: true}
	e := explained(store.Query{OrderBy: "n"})
	require.Equal(t, []inspect.Estimate{none, none}, []inspect.Estimate{e.Estimate, e.Nulls}, "the table is empty")
	require.NoError(t, tbl.Put(background, store.Row{"k": 1, "n": 5}, store.Row{"k": 2, "n": 6}, store.Row{"k": 3}))
	e = explained(store.Query{OrderBy: "n"})
	require.Equal(t, inspect.Estimate{Rows: 2, AtLeast: 2, Exact: true}, e.Estimate)
	require.Equal(t, inspect.Estimate{Rows: 3, AtLeast: 3, Exact: true}, e.Nulls, "all rows are looked at for those")
	e = explained(store.Query{OrderBy: "n", Where: store.Int64.Field("n").Greater(5)})
	require.Equal(t, []int{1, 0}, []int{e.Estimate.Rows, e.Nulls.Rows})
}

// Each database has its own order of rows, and its own ranges of them.
func TestEstimatesOnEachDatabase(t *testing.T) {
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		rows := sim.LongShare(5000, 2000, 2000)
		st := open(t, kind.Open(t, nil))
		for first, part := range map[string]store.KeyPart{
			"hashed": store.HashedPart("k", store.Int64), "plain": store.PlainPart("k", store.Int64), "ordered": store.OrderedPart("k", store.Int64, store.MOPE),
		} {
			for _, values := range []int{2, rows} {
				if !kind.Runs(first == "hashed" || values == rows) {
					continue
				}
				tbl := create(t, st, store.Schema{
					Name: fmt.Sprint(first, values), Key: []store.KeyPart{part, store.OrderedPart("n", store.Int64, store.MOPE)},
					Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE)},
				})
				var batch []store.Row
				for i := range rows {
					batch = append(batch, store.Row{"k": i % values, "n": i, "c": max(0, i-rows*9/10)})
				}
				require.NoError(t, tbl.Put(background, batch...))
				for what, where := range map[string]store.Predicate{"all": {}, "heavy": store.Int64.Field("c").Equal(0), "few": store.Int64.Field("c").Greater(9)} {
					about := fmt.Sprint(first, values, what)
					e, err := tbl.Explain(background, store.Query{Where: where})
					require.NoError(t, err, about)
					a, err := tbl.Analyze(background, store.Query{Where: where})
					require.NoError(t, err, about)
					checkEstimate(t, e.Estimate, a.Hits, about)
					require.False(t, e.Estimate.Rough, about)
				}
			}
		}
	})
}
