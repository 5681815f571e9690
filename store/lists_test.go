package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// embedded opens an embedded database.
func embedded(t *testing.T) driver.DB {
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// upTo returns the values from 0 to n-1, those that rows have among them.
func upTo(n int) []int64 {
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i)
	}
	return values
}

// equals returns a predicate for each value.
func equals(f store.Field[int64], values []int64) []store.Predicate {
	each := make([]store.Predicate, len(values))
	for i, v := range values {
		each[i] = f.Equal(v)
	}
	return each
}

// listed is a table with rows of few values of each part.
func listed(t *testing.T, st *store.Store, name string, key ...store.KeyPart) *store.Table {
	tbl := create(t, st, store.Schema{
		Name: name, Key: key,
		Columns: []store.Column{
			store.DeterministicColumn("v", store.Int64), store.OrderedColumn("o", store.Int64, store.Boldyreva), store.PlainColumn("p", store.Int64),
		},
	})
	var rows []store.Row
	for i := range 60 {
		row := store.Row{"v": i % 5, "o": i, "p": i}
		for j, part := range []string{"k", "l", "m"}[:len(key)] {
			row[part] = []int{i, 7 * i % 60, i % 6}[j]
		}
		rows = append(rows, row)
	}
	require.NoError(t, tbl.Put(background, rows...))
	return tbl
}

// inPages reads a query by pages, and checks that they are what it yields at once, also backwards and up to a limit.
func inPages(t *testing.T, tbl *store.Table, q store.Query) []store.Row {
	whole := collect(t, tbl, q)
	var rows []store.Row
	for q.Limit = 25; ; {
		page, next, err := tbl.Page(background, q)
		require.NoError(t, err)
		rows = append(rows, page...)
		if q.PageToken = next; next == "" {
			break
		}
	}
	require.Equal(t, show2(whole), show2(rows))
	q.Limit, q.Reverse = 3, true
	last := collect(t, tbl, q)
	slices.Reverse(last)
	require.Equal(t, show2(whole[max(0, len(whole)-3):]), show2(last))
	return whole
}

// inOrder requires that rows come in the order of some parts.
func inOrder(t *testing.T, rows []store.Row, parts ...string) {
	require.True(t, slices.IsSortedFunc(rows, func(a, b store.Row) int {
		for _, part := range parts {
			if c := cmp.Compare(a[part].(int64), b[part].(int64)); c != 0 {
				return c
			}
		}
		return 0
	}), "%v", rows)
}

var keyK, keyL, keyM, columnV = store.Int64.Field("k"), store.Int64.Field("l"), store.Int64.Field("m"), store.Int64.Field("v")

// A list of any length leads to the rows of a first part, which come in the order of its values.
func TestListsOfKeyPartsMayBeLong(t *testing.T) {
	st := open(t, embedded(t))
	const n = 10_001
	for name, part := range map[string]store.KeyPart{"hashed": store.HashedPart("k", store.Int64), "plain": store.PlainPart("k", store.Int64)} {
		tbl := listed(t, st, name, part)
		long := keyK.In(upTo(n)...)
		for _, where := range []store.Predicate{long, store.Or(equals(keyK, upTo(n))...)} {
			count, err := tbl.Count(background, where)
			require.NoError(t, err)
			require.Equal(t, 60, count)
		}
		rows := inPages(t, tbl, store.Query{Where: long, RequireIndex: true})
		require.Len(t, rows, 60)
		inOrder(t, rows, "k")
		e, err := tbl.Explain(background, store.Query{Where: long})
		require.NoError(t, err)
		require.Equal(t, "row key", e.Driver)
		require.Equal(t, n, e.Intervals)

		either, err := tbl.Analyze(background, store.Query{Where: store.Or(keyK.In(upTo(n)[20:]...), columnV.Equal(3)), RequireIndex: true})
		require.NoError(t, err)
		require.Equal(t, 40+4, either.Rows)
		none, err := tbl.Count(background, store.Not(long))
		require.NoError(t, err)
		require.Zero(t, none)
	}
	// The ordered part after it has three ranges for each value.
	tbl := listed(t, st, "ordered", store.HashedPart("k", store.Int64), store.OrderedPart("l", store.Int64, store.MOPE))
	for _, where := range []store.Predicate{keyK.In(upTo(3_334)...), store.And(keyK.In(upTo(3_334)...), keyL.Between(-1, 1<<20))} {
		rows := inPages(t, tbl, store.Query{Where: where, RequireIndex: true})
		require.Len(t, rows, 60)
		inOrder(t, rows, "k", "l")
	}
}

// Where a list is long, a column that is fixed to fewer values leads to the rows. A short list of key parts comes first.
func TestColumnsDriveBesideLongLists(t *testing.T) {
	tbl := listed(t, open(t, embedded(t)), "t", store.HashedPart("k", store.Int64))
	for _, c := range []struct {
		n      int
		other  store.Predicate
		driver string
		rows   int
	}{
		{10_000, columnV.Equal(3), "row key", 12},
		{10_001, columnV.Equal(3), "v", 12},
		{10_001, columnV.In(3, 4), "v", 24},
		{10_001, store.Int64.Field("o").Equal(3), "o", 1},
		{10_001, store.Int64.Field("o").AtLeast(3), "row key", 57},
		{10_001, columnV.In(upTo(10_002)...), "row key", 60},
		{10_001, store.Or(columnV.Equal(3), store.Int64.Field("o").Equal(4)), "v or o", 13},
	} {
		where := store.And(keyK.In(upTo(c.n)...), c.other)
		e, err := tbl.Explain(background, store.Query{Where: where, RequireIndex: true})
		require.NoError(t, err)
		require.Equal(t, c.driver, e.Driver, "%+v", c)
		require.Len(t, inPages(t, tbl, store.Query{Where: where}), c.rows, "%+v", c)
		inOrder(t, collect(t, tbl, store.Query{Where: where, OrderBy: "k"}), "k")
	}
}

// Lists that multiply to very many combinations bound the ranges by fewer parts, and the rest is checked row by row.
func TestListsThatMultiply(t *testing.T) {
	st := open(t, embedded(t))
	hashed := func(name string) store.KeyPart { return store.HashedPart(name, store.Int64) }
	some := func(f store.Field[int64]) store.Predicate { // 30 rows have even ones, and the list has gaps everywhere
		var even []int64
		for _, v := range upTo(400) {
			even = append(even, 2*v)
		}
		return f.In(even...)
	}
	for _, c := range []struct {
		name  string
		key   []store.KeyPart
		order []string
	}{
		{"hashed", []store.KeyPart{hashed("k"), hashed("l"), hashed("m")}, []string{"k"}},
		{"plain", []store.KeyPart{hashed("k"), store.PlainPart("l", store.Int64)}, []string{"k", "l"}},
		{"mope", []store.KeyPart{hashed("k"), store.OrderedPart("l", store.Int64, store.MOPE)}, []string{"k", "l"}},
		{"drawn", []store.KeyPart{hashed("k"), store.OrderedPart("l", store.Int64, store.WozniakIndexed)}, []string{"k", "l"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tbl := listed(t, st, c.name, c.key...)
			where := store.And(some(keyK), some(keyL))
			if len(c.key) > 2 {
				where = store.And(where, keyM.Equal(4)) // of a part after the one that multiplies
			}
			want := 0
			for i := 0; i < 60; i += 2 {
				if 7*i%60%2 == 0 && (len(c.key) < 3 || i%6 == 4) {
					want++
				}
			}
			rows := inPages(t, tbl, store.Query{Where: where, RequireIndex: true})
			require.Len(t, rows, want)
			inOrder(t, rows, c.order...)
			e, err := tbl.Analyze(background, store.Query{Where: where})
			require.NoError(t, err)
			require.Equal(t, "row key", e.Driver)
			require.LessOrEqual(t, e.Intervals, 3*400)
		})
	}
	t.Run("unauthenticated", func(t *testing.T) {
		tbl := listed(t, st, "open", hashed("k"), hashed("l"), hashed("m"))
		q := store.Query{Where: store.And(some(keyK), keyL.In(upTo(250)...), keyM.Equal(0)), Columns: []string{"p"}, Unauthenticated: true}
		require.Len(t, collect(t, tbl, q), 10) // exactly 100,000
		q.Where = store.And(some(keyK), keyL.In(upTo(251)...), keyM.Equal(0))
		for _, err := range tbl.Query(background, q) {
			require.ErrorIs(t, err, store.ErrColumn)
			require.ErrorContains(t, err, fmt.Sprint("multiply to ", 400*251, " combinations"))
			require.ErrorContains(t, err, `up to key part "l"`)
			require.ErrorContains(t, err, "leave Unauthenticated out")
		}
	})
}

// Logs and messages print what a program has at hand: the values that it looks for are not for them.
func TestPredicatesPrintNoValue(t *testing.T) {
	text, number := store.Field[string]("who"), store.Int64.Field("amount")
	for _, p := range []store.Predicate{
		text.Equal("a secret"), text.In("a secret", "another secret"), text.Between("a secret", "b secret"), number.Greater(7700770077), number.In(7700770077),
		store.And(text.Equal("a secret"), store.Not(number.AtMost(7700770077))),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T", "%!"} {
			for _, printed := range []string{fmt.Sprintf(verb, p), fmt.Sprintf(verb, &p), fmt.Sprintf(verb, store.Query{Where: p})} {
				require.NotContains(t, printed, "secret")
				require.NotContains(t, printed, "770077")
				require.NotContains(t, printed, "736563726574") // in hex
			}
		}
	}
}
