package query

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// Count returns how many rows a predicate holds for, at most limit of them; 0 is no limit. It reads no column that the
// predicate does not need.
func Count(ctx context.Context, t *engine.Engine, where *Where, limit int) (n int, err error) {
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
func Extreme(ctx context.Context, t *engine.Engine, column string, where *Where, greatest bool) (any, error) {
	is := func(op Op) *Where { return &Where{Op: Not, Of: []*Where{{Op: op, Term: Term{Column: column}}}} }
	some := is(Null)
	if c := t.ByName[column]; c != nil && isFloat(c.Type) {
		some = is(NaN) // which is unknown where the column is null
	}
	q := Selection{Where: &Where{Op: All, Of: []*Where{where, some}}, Columns: []string{column}, OrderBy: column, Reverse: greatest, Limit: 1}
	for found, err := range RowsOf(ctx, t, q, new(inspect.Explanation)) {
		if err != nil {
			return nil, err
		}
		return found.by.table.ValueOf(found.by.table.ByName[column], found.record), nil
	}
	return nil, nil
}
