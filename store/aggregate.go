package store

import (
	"context"
)

// Count returns how many rows the predicate holds for. It opens the key cell of each row, which vouches for the row, and the
// cells of the columns that the predicate names. That is so too where postings lead to the rows: a posting is a hint
// and may be left over, so that the row has to confirm it.
func (tbl *Table) Count(ctx context.Context, p Predicate) (n int, err error) {
	for _, err := range tbl.Query(ctx, Query{Where: p, Columns: []string{}}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Exists reports whether the predicate holds for any row. It stops at the first, and opens what [Table.Count] does.
func (tbl *Table) Exists(ctx context.Context, p Predicate) (bool, error) {
	for _, err := range tbl.Query(ctx, Query{Where: p, Columns: []string{}, Limit: 1}) {
		return err == nil, err
	}
	return false, nil
}

// Min returns the least value of a column or key part among the rows that the predicate holds for, or nil where all of them
// are null or NaN, or there are none.
func (tbl *Table) Min(ctx context.Context, column string, p Predicate) (any, error) {
	return tbl.extreme(ctx, column, p, false)
}

// Max returns the greatest value of a column or key part among the rows that the predicate holds for, or nil as [Table.Min] does.
func (tbl *Table) Max(ctx context.Context, column string, p Predicate) (any, error) {
	return tbl.extreme(ctx, column, p, true)
}

func (tbl *Table) extreme(ctx context.Context, column string, p Predicate, greatest bool) (any, error) {
	q := Query{Where: And(p, Not(IsNull(column))), Columns: []string{column}, OrderBy: column, Reverse: greatest, Limit: 1}
	for row, err := range tbl.Query(ctx, q) {
		return row[column], err
	}
	return nil, nil
}
