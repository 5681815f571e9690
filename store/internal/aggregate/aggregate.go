// Package aggregate does what it takes all rows of a query for: it counts them, puts them on a page, and finds the least and the
// greatest value among them.
package aggregate

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
)

// A By is the name of a column for [query.Selection]'s By.
type By string

// one returns the column that is named, or "".
func one(by []By) (string, error) {
	switch len(by) {
	case 0:
		return "", nil
	case 1:
		return string(by[0]), nil
	}
	return "", fmt.Errorf("%w: one column leads to the rows, and By names %d: name one of them", fault.ErrColumn, len(by))
}

// Count returns how many rows a predicate holds for, at most limit of them; 0 is no limit. It reads no column that the
// predicate does not need.
func Count(ctx context.Context, t *engine.Engine, where *predicate.Where, by []By, limit int) (n int, err error) {
	named, err := one(by)
	if err != nil {
		return 0, err
	}
	for _, err := range query.RowsOf(ctx, t, query.Selection{Where: where, By: named, Columns: []string{}, Limit: limit}, new(inspect.Explanation)) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Extreme returns the least or the greatest value of a column, other than null and NaN, among the rows that a predicate
// holds for. It returns nil if there is none.
func Extreme(ctx context.Context, t *engine.Engine, column string, where *predicate.Where, by []By, greatest bool) (any, error) {
	named, err := one(by)
	if err != nil {
		return nil, err
	}
	// The type is not known before rows are read: the column may be another one by then. So nothing is said of NaN here, which comes last.
	some := &predicate.Where{Op: predicate.Not, Of: []*predicate.Where{{Op: predicate.Null, Term: predicate.Term{Column: column}}}}
	q := query.Selection{
		Where: &predicate.Where{Op: predicate.All, Of: []*predicate.Where{where, some}}, By: named,
		Columns: []string{column}, OrderBy: column, Reverse: greatest, Limit: 1,
	}
	for found, err := range query.RowsOf(ctx, t, q, new(inspect.Explanation)) {
		if err != nil {
			return nil, err
		}
		of, record, _ := found.Record()
		c := of.ByName[column]
		if v := of.ValueOf(c, record); !c.Type.Unordered(v) {
			return v, nil
		}
	}
	return nil, nil
}

// Analyze counts the rows of a query and says how it was answered.
func Analyze(ctx context.Context, t *engine.Engine, q query.Selection) (inspect.Explanation, error) {
	e, rows := new(inspect.Explanation), 0
	for _, err := range query.RowsOf(ctx, t, q, e) {
		if err != nil {
			return *e, err
		}
		rows++
	}
	e.Rows = rows
	return *e, nil
}

// Page returns the rows of one page of a query, each as read returns it, and the token for the next page.
func Page[R any](ctx context.Context, t *engine.Engine, q query.Selection, read func(*query.Found) (R, error)) (rows []R, next string, err error) {
	limit := q.Limit
	if limit <= 0 {
		return nil, "", fmt.Errorf("%w: a page needs a positive Limit", driver.ErrRange)
	}
	q.Limit, q.Paged = max(limit, limit+1), true // one more, if there is such a number, shows whether there is a next page
	var last *query.Found
	for f, err := range query.RowsOf(ctx, t, q, new(inspect.Explanation)) {
		if err == nil && len(rows) == limit {
			return rows, last.Token(), nil
		}
		var row R
		if err == nil {
			row, err = read(f)
		}
		if err != nil {
			return nil, "", err
		}
		rows, last = append(rows, row), f
	}
	return rows, "", nil
}
