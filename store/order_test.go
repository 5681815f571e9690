package store

import (
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
