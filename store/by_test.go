package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A query that names a column reads the postings of its values, and not the many rows of a key part.
func TestQueryByColumn(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, store.Schema{
			Name: "people", Key: []store.KeyPart{store.HashedPart("region", store.String), store.OrderedPart("id", store.Int64, store.MOPE)},
			Columns: []store.Column{
				store.DeterministicColumn("mail", store.String), store.OrderedColumn("pay", store.Int64, store.Boldyreva),
				store.OrderedColumn("score", store.Int64, store.Kerschbaum), store.RandomisedColumn("note", store.Int64),
			},
		})
		const n = 300
		var rows []store.Row
		for i := range n {
			row := store.Row{"region": []string{"eu", "us"}[i%2], "id": i, "mail": fmt.Sprint("m", i/4), "pay": 10 * (n - i), "note": i}
			if i%3 > 0 {
				row["score"] = i % 5
			}
			rows = append(rows, row)
		}
		require.NoError(t, tbl.Put(background, rows...))
		eu, mail, pay := store.String.Field("region").Equal("eu"), store.String.Field("mail"), store.Int64.Field("pay")

		for _, c := range []struct {
			by    string
			where store.Predicate
			hits  int
			ids   []int64
		}{
			{"mail", mail.Equal("m7"), 4, nil},
			{"mail", mail.In("m7", "m9", "none"), 8, nil},
			{"pay", pay.Between(100, 150), 6, []int64{290, 288, 286}},
			{"pay", store.And(pay.Between(100, 150), mail.Equal("m72")), 6, []int64{290, 288}},
			{"score", store.Int64.Field("score").Greater(3), n / 5 * 2 / 3, nil},
			{"pay", pay.Greater(1 << 40), 0, []int64{}},
			{"pay", store.And(pay.Greater(5), pay.Less(5)), 0, []int64{}},
		} {
			where := store.And(eu, c.where)
			plain, err := tbl.Analyze(background, store.Query{Where: where})
			require.NoError(t, err)
			by, err := tbl.Analyze(background, store.Query{Where: where, By: c.by, RequireIndex: true})
			require.NoError(t, err)
			require.Equal(t, plain.Rows, by.Rows, "%+v", c)
			require.Equal(t, c.hits, by.Hits, "%+v", c)
			require.Equal(t, "row key", plain.Driver, "%+v", c)
			if c.hits > 0 {
				require.Equal(t, n/2, plain.Hits, "%+v", c)
				require.Equal(t, c.by, by.Driver, "%+v", c)
				planned, err := tbl.Explain(background, store.Query{Where: where, By: c.by})
				require.NoError(t, err)
				require.Equal(t, c.hits, planned.Estimate.Rows, "%+v", c)
			}
			for _, orderBy := range []string{"", "id", "pay", c.by} {
				q := store.Query{Where: where, By: c.by, OrderBy: orderBy}
				got := collect(t, tbl, q)
				require.ElementsMatch(t, show2(collect(t, tbl, store.Query{Where: where})), show2(got), "%+v", c)
				if orderBy == "" && c.ids != nil {
					require.Equal(t, c.ids, ids(got), "%+v", c)
				}
				q.Reverse = true
				backwards := collect(t, tbl, q)
				if orderBy == "id" {
					require.True(t, slices.IsSortedFunc(got, func(a, b store.Row) int { return int(a["id"].(int64) - b["id"].(int64)) }))
				}
				if orderBy == "id" || orderBy == "" {
					slices.Reverse(backwards)
					require.Equal(t, show2(got), show2(backwards), "%+v by %s", c, orderBy)
				}
				q.Reverse, q.Limit = false, 2
				var paged []store.Row
				for more := true; more; more = q.PageToken != "" {
					page, next, err := tbl.Page(background, q)
					require.NoError(t, err)
					paged, q.PageToken = append(paged, page...), next
				}
				require.Equal(t, show2(got), show2(paged), "%+v by %s", c, orderBy)
			}
		}

		// An order that another column has does not change what leads to the rows.
		e, err := tbl.Analyze(background, store.Query{
			Where: store.And(pay.Between(0, 1000), store.Int64.Field("score").Between(0, 3)), By: "pay", OrderBy: "score",
		})
		require.NoError(t, err)
		require.Equal(t, "pay", e.Driver)
		require.True(t, e.Sorted)

		_, token, err := tbl.Page(background, store.Query{Where: store.And(eu, pay.Greater(0)), By: "pay", Limit: 2})
		require.NoError(t, err)
		_, _, err = tbl.Page(background, store.Query{Where: store.And(eu, pay.Greater(0)), Limit: 2, PageToken: token})
		require.ErrorIs(t, err, store.ErrToken)

		// What returns one value goes by it, too.
		some := store.And(eu, pay.Between(100, 150))
		count, err := tbl.Count(background, some, "pay")
		require.NoError(t, err)
		require.Equal(t, 3, count)
		exists, err := tbl.Exists(background, store.And(some, mail.Equal("none")), "mail")
		require.NoError(t, err)
		require.False(t, exists)
		least, err := tbl.Min(background, "id", some, "pay")
		require.NoError(t, err)
		require.Equal(t, int64(286), least)
		most, err := tbl.Max(background, "pay", eu, "pay")
		require.NoError(t, err)
		require.Equal(t, int64(10*n), most)
		_, err = tbl.Count(background, some, "pay", "mail")
		require.ErrorIs(t, err, store.ErrColumn)
		require.ErrorContains(t, err, "one column leads to the rows, and By names 2: name one of them")

		for _, c := range []struct {
			by, message string
			where       store.Predicate
		}{
			{"none", `table "people" has no column "none" for By`, eu},
			{"region", `key part "region" is none`, eu},
			{"pay", `column "pay" is not restricted`, eu},
			{"pay", `or not in each branch of an Or`, store.And(eu, store.Or(pay.Equal(1), mail.Equal("m1")))},
			{"pay", `may be null or NaN`, store.And(eu, store.IsNull("pay"))},
			{"mail", `it would need single values`, store.And(eu, mail.Greater("m"))},
			{"note", `column "note" is randomised`, store.And(eu, store.Int64.Field("note").Equal(1))},
		} {
			_, err := all(tbl, store.Query{Where: c.where, By: c.by})
			require.ErrorIs(t, err, store.ErrColumn, c.message)
			require.ErrorContains(t, err, c.message)
			_, err = tbl.Count(background, c.where, store.By(c.by))
			require.ErrorIs(t, err, store.ErrColumn, c.message)
			require.ErrorContains(t, err, c.message)
			_, err = tbl.Exists(background, c.where, store.By(c.by))
			require.ErrorContains(t, err, c.message)
			_, err = tbl.Min(background, "id", c.where, store.By(c.by))
			require.ErrorContains(t, err, c.message)
		}
	})
}

// What returns one value reads the rows that the named column leads to, and no others.
func TestOneValueByColumn(t *testing.T) {
	read := 0
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		return c.Make(func(rows int) error {
			if rows > 0 {
				read++
			}
			return nil
		})
	}, nil)
	tbl := create(t, open(t, db), store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64), store.OrderedPart("n", store.Int64, store.MOPE)},
		Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE)},
	})
	var rows []store.Row
	for i := range 200 {
		rows = append(rows, store.Row{"k": 1, "n": i, "c": i})
	}
	require.NoError(t, tbl.Put(background, rows...))
	where := store.And(store.Int64.Field("k").Equal(1), store.Int64.Field("c").AtLeast(195))
	for name, value := range map[string]func(by ...store.By) (any, error){
		"count": func(by ...store.By) (any, error) { return tbl.Count(background, where, by...) },
		"min":   func(by ...store.By) (any, error) { return tbl.Min(background, "c", where, by...) },
		"max":   func(by ...store.By) (any, error) { return tbl.Max(background, "n", where, by...) },
	} {
		read = 0
		want, err := value()
		require.NoError(t, err)
		if name == "count" {
			require.Equal(t, 200, read)
		}
		read = 0
		got, err := value("c")
		require.NoError(t, err)
		require.Equal(t, want, got, name)
		require.LessOrEqual(t, read, 5, name)
	}
}

func ids(rows []store.Row) []int64 {
	out := []int64{}
	for _, row := range rows {
		out = append(out, row["id"].(int64))
	}
	return out
}

// Until a column is converted it drives no query, also not one that names it.
func TestQueryByColumnBeforeConversion(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	tbl := create(t, st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64), store.OrderedPart("n", store.Int64, store.MOPE)},
		Columns: []store.Column{store.RandomisedColumn("c", store.Int64)},
	})
	require.NoError(t, tbl.Put(background, store.Row{"k": 1, "n": 1, "c": 5}, store.Row{"k": 1, "n": 2, "c": 6}))
	q := store.Query{Where: store.And(store.Int64.Field("k").Equal(1), store.Int64.Field("c").AtLeast(6)), By: "c"}
	_, err := all(tbl, q)
	require.ErrorIs(t, err, store.ErrColumn)
	require.NoError(t, st.Alter(background, "t", store.ChangeColumn(store.OrderedColumn("c", store.Int64, store.MOPE))))
	tbl, err = st.Table(background, "t")
	require.NoError(t, err)
	e, err := tbl.Analyze(background, q)
	require.NoError(t, err)
	require.Equal(t, 1, e.Rows)
	require.Equal(t, "row key", e.Driver)
	require.Equal(t, []string{"c"}, e.Unconverted)
	_, err = tbl.Convert(background, nil)
	require.NoError(t, err)
	e, err = tbl.Analyze(background, q)
	require.NoError(t, err)
	require.Equal(t, "c", e.Driver)
	require.Equal(t, 1, e.Hits)
}
