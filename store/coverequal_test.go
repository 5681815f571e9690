package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A table with copies answers as one of the same rows without, whatever is asked and by which client, and reads no row for it.
func TestCopiesAnswerAsRows(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		db := kind.Open(t, nil)
		st := open(t, db)
		column := func(covers bool, c store.Column) store.Column {
			if covers {
				return c.Covering()
			}
			return c
		}
		var tables [2]*store.Table
		for i, name := range []string{"without", "with"} {
			covers := i == 1
			tables[i] = create(t, st, store.Schema{
				Name: name, AppendOnly: true,
				Key: []store.KeyPart{store.HashedPart("device", store.String), store.TiePart("id")},
				Columns: []store.Column{
					column(covers, store.OrderedColumn("celsius", store.Int32, store.MOPE).DatabaseWide()),
					column(covers, store.DeterministicColumn("room", store.String)),
					column(covers, store.OrderedColumn("name", store.String, store.Boldyreva)),
					column(covers, store.OrderedColumn("rank", store.Int32, store.Kerschbaum)),
					store.RandomisedColumn("note", store.String), store.PlainColumn("model", store.String), store.OrderedColumn("watt", store.Int32, store.Wozniak),
				},
			})
		}
		var rows []store.Row
		for i := range 120 {
			row := store.Row{"device": fmt.Sprint(i % 7), "id": store.LoadTie{byte(i)}, "model": fmt.Sprint("m", i%3), "watt": int32(-i)}
			if i%11 > 0 {
				row["celsius"], row["name"] = int32(i%40), fmt.Sprint("a common prefix ", i%5)
			}
			if i%4 > 0 {
				row["room"], row["note"], row["rank"] = fmt.Sprint("r", i%4), fmt.Sprint("n", i), int32(i%9)
			}
			rows = append(rows, row)
		}
		for _, tbl := range tables {
			require.NoError(t, tbl.Put(background, rows...))
		}
		another := open(t, db)
		compare := func(what string, ask func(tbl *store.Table) []string) {
			t.Helper()
			require.Equal(t, ask(tables[0]), ask(tables[1]), what)
		}
		celsius, room, name, rank := store.Int32.Field("celsius"), store.String.Field("room"), store.String.Field("name"), store.Int32.Field("rank")
		wheres := map[string]store.Predicate{
			"range": celsius.Between(5, 20), "equal": room.Equal("r2"), "in": room.In("r1", "r3", "x"), "text": name.AtLeast("a common prefix 2"),
			"rank": rank.Between(2, 6), "more": store.And(celsius.AtLeast(3), store.String.Field("model").Equal("m1"), store.String.Field("note").Greater("n3")),
			"or": store.Or(room.Equal("r1"), celsius.Between(30, 33)), "none": celsius.Greater(1000), "not": store.And(celsius.AtMost(20), store.Not(room.Equal("r1"))),
		}
		for what, where := range wheres {
			for _, q := range []store.Query{
				{Where: where}, {Where: where, Reverse: true}, {Where: where, Limit: 7}, {Where: where, Columns: []string{"note", "model"}},
				{Where: where, Columns: []string{}}, {Where: where, OrderBy: "name"}, {Where: where, OrderBy: "celsius", Reverse: true, Limit: 5}, {Where: where, RequireIndex: true},
			} {
				compare(fmt.Sprintf("%s: %+v", what, q), func(tbl *store.Table) []string {
					rows := collect(t, tbl, q)
					if q.Limit > 0 {
						return []string{fmt.Sprint(len(rows))} // which of equal ones is not said
					}
					texts := show2(rows)
					slices.Sort(texts)
					return texts
				})
				e, err := tables[1].Analyze(background, q)
				require.NoError(t, err)
				require.LessOrEqual(t, e.Requests, e.Intervals+e.Tokens, "%s: %+v: a row is read: %+v", what, q, e)
				planned, err := tables[1].Explain(background, q)
				require.NoError(t, err)
				require.Equal(t, e.Driver, planned.Driver)
			}
			compare("count "+what, func(tbl *store.Table) []string {
				n, err := tbl.Count(background, where)
				require.NoError(t, err)
				there, err := tbl.Exists(background, where)
				require.NoError(t, err)
				texts := []string{fmt.Sprint(n, there)}
				for _, column := range []string{"celsius", "rank", "watt"} {
					least, err := tbl.Min(background, column, where)
					require.NoError(t, err)
					most, err := tbl.Max(background, column, where)
					require.NoError(t, err)
					texts = append(texts, fmt.Sprint(column, least, most))
				}
				return texts
			})
			// Each page is asked for by another client.
			for _, reverse := range []bool{false, true} {
				compare("pages of "+what, func(tbl *store.Table) (texts []string) {
					theirs, err := another.Table(background, tbl.Schema().Name)
					require.NoError(t, err)
					q := store.Query{Where: where, Limit: 6, Reverse: reverse}
					for i := 0; ; i++ {
						page, next, err := []*store.Table{tbl, theirs}[i%2].Page(background, q)
						require.NoError(t, err)
						texts = append(texts, show2(page)...)
						if q.PageToken = next; next == "" {
							break
						}
					}
					slices.Sort(texts)
					return texts
				})
			}
		}
		// The index of a column whose ciphertexts move is made again.
		for _, tbl := range tables {
			_, err := tbl.Rebalance(background, "rank", nil)
			require.NoError(t, err)
			require.NoError(t, tbl.RebuildIndex(background, "rank", nil))
		}
		compare("rank", func(tbl *store.Table) []string {
			texts := show2(collect(t, tbl, store.Query{Where: wheres["rank"]}))
			slices.Sort(texts)
			return texts
		})
		pairs := func(by string, left, right *store.Table) (texts []string) {
			for pair, err := range store.Join(background, left, by, right, by, nil) {
				require.NoError(t, err)
				texts = append(texts, fmt.Sprint(pair))
			}
			slices.Sort(texts)
			return texts
		}
		joined := pairs("celsius", tables[0], tables[0])
		require.NotEmpty(t, joined)
		require.Equal(t, joined, pairs("celsius", tables[1], tables[1]))
		require.Equal(t, joined, pairs("celsius", tables[0], tables[1]))
		require.Equal(t, pairs("room", tables[0], tables[0]), pairs("room", tables[1], tables[1]))
		// By the key, rows are read. What was deleted is found in no way.
		for _, tbl := range tables {
			require.NoError(t, tbl.Delete(background, rows[17], rows[18]))
		}
		compare("get", func(tbl *store.Table) []string {
			got, err := tbl.GetBatch(background, rows)
			require.NoError(t, err)
			return show2(got)
		})
		for what, where := range wheres {
			compare("deleted, "+what, func(tbl *store.Table) []string {
				texts := show2(collect(t, tbl, store.Query{Where: where}))
				slices.Sort(texts)
				return texts
			})
		}
		for _, tbl := range tables {
			v, err := tbl.Verify(background, nil)
			require.NoError(t, err)
			require.True(t, v.Sound(), "%v", v.Faults)
			require.Zero(t, v.Uncopied)
			// The index entries of rows of a load stay when these are deleted, and are doubtful.
			require.LessOrEqual(t, v.Dangling, 10)
			require.Equal(t, map[inspect.FaultKind]int{}, v.Faults)
		}
	})
}
