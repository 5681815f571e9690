package store_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
)

// Long lists, empty prefixes and bounds beyond a domain select what they say.
func TestEdgesOfPredicates(t *testing.T) {
	tbl := create(t, open(t, testdb.All[0].Open(t, nil)), store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.Int64)},
		Columns: []store.Column{
			store.OrderedColumn("o", store.Int64.Within(0, 100), store.MOPE), store.DeterministicColumn("d", store.Int64), store.OrderedColumn("s", store.Bytes, store.Boldyreva),
		},
	})
	var rows []store.Row
	for i := range 50 {
		rows = append(rows, store.Row{"k": i, "o": i, "d": i, "s": []byte(strings.Repeat("\xff", i%12))})
	}
	require.NoError(t, tbl.Put(background, append(rows, store.Row{"k": 1000})...))
	var many []int64
	for i := range int64(10_000) {
		many = append(many, i+25)
	}
	o, s := store.Int64.Field("o"), store.Bytes.Field("s")
	for i, c := range []struct {
		p    store.Predicate
		want int
	}{
		{o.In(), 0}, {o.In(many...), 25}, {store.Int64.Field("d").In(many...), 25}, {store.Int64.Field("k").In(many...), 26}, {store.Not(o.In(many...)), 25},
		{o.AtLeast(200), 0}, {o.Less(200), 50}, {o.Greater(-1), 50}, {o.AtMost(-1), 0}, {o.Between(30, 20), 0}, {store.Not(o.Between(30, 20)), 50},
		{store.HasPrefix(s, []byte{}), 50}, {store.HasPrefix(s, []byte{255}), 45}, {store.Not(store.HasPrefix(s, []byte(strings.Repeat("\xff", 9)))), 38},
	} {
		n, err := tbl.Count(background, c.p)
		require.NoError(t, err)
		require.Equal(t, c.want, n, "predicate %d", i)
	}
}

// After the greatest value of a plain part no key follows, so that its ranges have no end.
func TestEdgesAfterTheGreatestPart(t *testing.T) {
	tbl := create(t, open(t, testdb.All[0].Open(t, nil)), store.Schema{
		Name: "t", Key: []store.KeyPart{store.PlainPart("a", store.Int64), store.PlainPart("b", store.Int64.Within(0, 100))},
	})
	a, b := store.Int64.Field("a"), store.Int64.Field("b")
	for _, at := range []int64{7, math.MaxInt64} {
		for i := range 10 {
			require.NoError(t, tbl.Put(background, store.Row{"a": at, "b": i}))
		}
		for i, c := range []struct {
			p    store.Predicate
			want int
		}{
			{store.Or(b.Between(3, 150), b.Between(200, 300)), 7}, {store.Or(b.Between(-9, 2), b.Between(5, 150), b.Greater(160)), 8},
			{store.Or(b.Equal(1), b.Greater(101)), 1}, {b.AtLeast(3), 7}, {store.Not(b.Equal(4)), 9},
		} {
			n, err := tbl.Count(background, store.And(a.Equal(at), c.p))
			require.NoError(t, err, "predicate %d", i)
			require.Equal(t, c.want, n, "predicate %d", i)
		}
	}
}

// A page may end with the greatest row key that there is, behind which the index entries of a value have no key any more.
func TestPagesThatEndWithTheGreatestKey(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		schemes := []store.ColumnScheme{store.Kerschbaum, store.KerschbaumRanked, store.WozniakIndexed, store.Wozniak, store.Boldyreva, store.MOPE}
		schema := store.Schema{Name: "t", Key: []store.KeyPart{store.PlainPart("id", store.Int64)}}
		for i, scheme := range schemes {
			schema.Columns = append(schema.Columns, store.OrderedColumn(string(rune('a'+i)), store.Int64, scheme))
		}
		tbl := create(t, open(t, kind.Open(t, nil)), schema)
		ids := []int64{math.MinInt64, 7, math.MaxInt64 - 1, math.MaxInt64}
		for i, id := range ids {
			for _, row := range []store.Row{{"id": id}, {"id": id/2 + 1}} {
				for _, c := range schema.Columns {
					row[c.Describe().Name] = int64(5)
					if row["id"] != id {
						row[c.Describe().Name] = int64(i + 10)
					}
				}
				require.NoError(t, tbl.Put(background, row))
			}
		}
		for _, c := range schema.Columns {
			v := store.Int64.Field(c.Describe().Name)
			for _, where := range []store.Predicate{v.Equal(5), v.In(5, 12), v.AtMost(11), v.Greater(math.MinInt64)} {
				want, err := tbl.Count(background, where)
				require.NoError(t, err)
				for _, reverse := range []bool{false, true} {
					q, got := store.Query{Where: where, By: c.Describe().Name, Limit: 1, Reverse: reverse}, make(map[any]bool)
					for more := true; more; more = q.PageToken != "" {
						var rows []store.Row
						rows, q.PageToken, err = tbl.Page(background, q)
						require.NoError(t, err, c.Describe().Name)
						for _, row := range rows {
							require.False(t, got[row["id"]])
							got[row["id"]] = true
						}
					}
					require.Len(t, got, want, "%s, reverse %t", c.Describe().Name, reverse)
				}
			}
		}
	})
}
