package store

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Rows that are too many to sort come in the order of the column's postings, or are refused; and a query that
// would read all rows is refused where it must not.
func TestOrderOfManyRows(t *testing.T) {
	ctx := t.Context()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name:    "t",
		Key:     []KeyPart{HashedPart("device", Int64), HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("level", Int64, Boldyreva), RandomisedColumn("note", Int64)},
	})
	require.NoError(t, err)
	for i := range int64(40) {
		row := Row{"device": i % 2, "id": i, "note": i}
		if i%5 != 0 {
			row["level"] = 100 - i%7
		}
		require.NoError(t, tbl.Put(ctx, row))
	}
	where := Field[int64]("device").Equal(1)
	ask := func(column string, most int, reverse bool) (levels []any, err error) {
		q := query.Selection{Where: where.where, OrderBy: column, Reverse: reverse, MostSorted: most}
		for found, err := range query.RowsOf(ctx, tbl.now(), q, new(inspect.Explanation)) {
			if err != nil {
				return nil, err
			}
			levels = append(levels, found.Row()[column])
		}
		return levels, nil
	}
	for _, reverse := range []bool{false, true} {
		sorted, err := ask("level", 0, reverse)
		require.NoError(t, err)
		require.Len(t, sorted, 20)
		require.Nil(t, sorted[19])
		few, err := ask("level", 3, reverse)
		require.NoError(t, err)
		require.Equal(t, sorted, few)
	}
	_, err = ask("note", 3, false)
	require.ErrorIs(t, err, ErrColumn)
	require.ErrorContains(t, err, "more than 3 rows to sort")
	for text, p := range map[string]Predicate{
		"it has no predicate": {},
		`column "note" is randomised: it would need to be ordered`:                     Field[int64]("note").Less(3),
		`column "note" is randomised: it would need to be deterministic or ordered`:    Field[int64]("note").Equal(3),
		`key part "device" would need single values`:                                   Field[int64]("device").Less(3),
		`key part "id" would need that the parts before it, first "device", are fixed`: Field[int64]("id").Equal(3),
		`column "level" may be null`:                                                   IsNull("level"),
		`column "level" is not restricted in each branch of an Or`:                     Or(Field[int64]("note").Equal(3), Field[int64]("level").Equal(3)),
	} {
		for _, err := range tbl.Query(ctx, Query{Where: p, RequireIndex: true}) {
			require.ErrorIs(t, err, ErrScan)
			require.ErrorContains(t, err, text)
		}
	}
	for _, p := range []Predicate{where, Or(where, Field[int64]("level").Greater(97)), Not(IsNull("level"))} {
		_, err := tbl.Analyze(ctx, Query{Where: p, RequireIndex: true})
		require.NoError(t, err)
	}
}

// A server index has no order: rows by its column that are too many to sort are refused, with words for such a column.
func TestServerIndexHasNoOrder(t *testing.T) {
	ctx := t.Context()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("level", Int64, Boldyreva).ServerIndex()}})
	require.NoError(t, err)
	for i := range int64(5) {
		require.NoError(t, tbl.Put(ctx, Row{"id": i, "level": -i}))
	}
	where := Field[int64]("level").AtMost(0)
	for most, want := range map[int]int{4: 0, 5: 5} {
		q := query.Selection{Where: where.where, OrderBy: "level", MostSorted: most}
		n, failed := 0, error(nil)
		for _, err := range query.RowsOf(ctx, tbl.now(), q, new(inspect.Explanation)) {
			if failed = err; err == nil {
				n++
			}
		}
		require.Equal(t, want, n)
		if want == 0 {
			require.ErrorIs(t, failed, ErrColumn)
			require.ErrorContains(t, failed, "more than 4 rows to sort by column")
			require.ErrorContains(t, failed, "leave out its server index: index entries have its order")
		}
	}
}

// A query has the rows that its predicate selects, in the order of any part of the row key, whatever the parts before it are.
func TestOrderOfParts(t *testing.T) {
	a, b := Field[int64]("a"), Field[int64]("b")
	selects := map[string]struct {
		where Predicate
		holds func(a, b int64) bool
	}{
		"all":                 {Predicate{}, func(_, _ int64) bool { return true }},
		"one a":               {a.Equal(1), func(a, _ int64) bool { return a == 1 }},
		"some a":              {a.In(0, 2), func(a, _ int64) bool { return a != 1 }},
		"a range of b":        {b.Between(3, 11), func(_, b int64) bool { return 3 <= b && b <= 11 }},
		"of one a, a range":   {And(a.Equal(1), b.Between(3, 11)), func(a, b int64) bool { return a == 1 && 3 <= b && b <= 11 }},
		"of some a, a range":  {And(a.In(0, 2), b.Less(9)), func(a, b int64) bool { return a != 1 && b < 9 }},
		"of one a, several b": {And(a.Equal(1), b.In(13, 4, 7)), func(a, b int64) bool { return a == 1 && (b == 13 || b == 4 || b == 7) }},
	}
	kinds := map[string]func(name string) KeyPart{
		"hashed":  func(name string) KeyPart { return HashedPart(name, Int64) },
		"plain":   func(name string) KeyPart { return PlainPart(name, Int64) },
		"ordered": func(name string) KeyPart { return OrderedPart(name, Int64.Within(0, 100), Boldyreva) },
	}
	st, err := Open(t.Context(), drivertest.NewMemory(), kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	for first, partA := range kinds {
		for second, partB := range kinds {
			tbl, err := st.Create(t.Context(), Schema{Name: first + "_" + second, Key: []KeyPart{partA("a"), partB("b")}})
			require.NoError(t, err)
			var rows []Row
			for i := range int64(24) {
				rows = append(rows, Row{"a": i * 7 % 3, "b": i % 17})
			}
			require.NoError(t, tbl.Put(t.Context(), rows...))
			for what, s := range selects {
				want := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !s.holds(r["a"].(int64), r["b"].(int64)) })
				for _, by := range []string{"", "a", "b"} {
					for _, reverse := range []bool{false, true} {
						var found []Row
						for row, err := range tbl.Query(t.Context(), Query{Where: s.where, OrderBy: by, Reverse: reverse && by != ""}) {
							require.NoError(t, err)
							found = append(found, row)
						}
						require.ElementsMatch(t, want, found, "%s by %s", first+" and "+second+", "+what, by)
						require.True(t, by == "" || slices.IsSortedFunc(found, func(x, y Row) int {
							if reverse {
								x, y = y, x
							}
							return cmp.Compare(x[by].(int64), y[by].(int64))
						}), "%s by %s", first+" and "+second+", "+what, by)
					}
				}
			}
		}
	}
}
