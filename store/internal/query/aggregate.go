package query

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
)

// Count returns how many rows a predicate holds for, at most limit of them; 0 is no limit. It reads no column that the
// predicate does not need.
func Count(ctx context.Context, t *engine.Engine, where *predicate.Where, limit int) (n int, err error) {
	for _, err := range RowsOf(ctx, t, Selection{Where: where, Columns: []string{}, Limit: limit}, new(inspect.Explanation)) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Extreme returns the least or the greatest value of a column, other than null and NaN, among the rows that a predicate
// holds for. It returns nil if there is none.
func Extreme(ctx context.Context, t *engine.Engine, column string, where *predicate.Where, greatest bool) (any, error) {
	is := func(op predicate.Op) *predicate.Where {
		return &predicate.Where{Op: predicate.Not, Of: []*predicate.Where{{Op: op, Term: predicate.Term{Column: column}}}}
	}
	some := is(predicate.Null)
	if c := t.ByName[column]; c != nil && predicate.IsFloat(c.Type) {
		some = is(predicate.NaN) // which is unknown where the column is null
	}
	q := Selection{Where: &predicate.Where{Op: predicate.All, Of: []*predicate.Where{where, some}}, Columns: []string{column}, OrderBy: column, Reverse: greatest, Limit: 1}
	for found, err := range RowsOf(ctx, t, q, new(inspect.Explanation)) {
		if err != nil {
			return nil, err
		}
		return found.by.table.ValueOf(found.by.table.ByName[column], found.record), nil
	}
	return nil, nil
}
