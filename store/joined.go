package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
)

// JoinOptions are the optional parameters of [Join]. The zero value is the default.
type JoinOptions struct {
	// Left and Right are the names of the columns that are returned of either table; nil means all.
	// Key parts are always returned, and nothing else where the names are empty but not nil.
	Left, Right []string

	// Limit is how many pairs are yielded at most; 0 is no limit. One below 0 is [driver.ErrRange].
	Limit int
}

// Join yields all pairs of rows of two tables, left and right, or of one with itself, that have equal values in two columns:
// the inner join. Duplicates give their product, and null equals nothing. The pairs come in an order of their own.
//
// Both columns must be deterministic or ordered and have one search key, see [Column.SharedWith] and [Column.DatabaseWide];
// otherwise it is [ErrColumn], with the reason. Then what the database has of equal values is equal, and the postings of both
// columns are merged without a row being read: only rows that have a partner are. Every row is verified like one that a query
// finds, and what is promised when rows change during it is what [Table.Query] promises of each table; on a database with
// snapshots a join sees one instant.
//
// It reads lazily. Its memory is that of the largest set of rows with one value, and 16 bytes a row
// on a database without snapshots. Both tables must be of one [Store].
func Join(ctx context.Context, left *Table, leftColumn string, right *Table, rightColumn string, opts *JoinOptions) iter.Seq2[[2]Row, error] {
	var o JoinOptions
	if opts != nil {
		o = JoinOptions{Left: slices.Clone(opts.Left), Right: slices.Clone(opts.Right), Limit: opts.Limit}
	}
	return func(yield func([2]Row, error) bool) {
		if left == nil || right == nil {
			yield([2]Row{}, errors.New("store: join: a table is nil"))
			return
		}
		n, err := 0, error(nil)
		ctx, end := left.open().Operation(ctx, "join")
		defer func() { end(n, err) }()
		if left.open().Database() != right.open().Database() {
			err = fmt.Errorf("store: join %q and %q: %w: the tables are of two Stores", left.open().Now().Meta.Name, right.open().Now().Meta.Name, ErrColumn)
			yield([2]Row{}, err)
			return
		}
		for _, tbl := range []*Table{left, right} {
			if _, err = tbl.open().Use(); err != nil {
				yield([2]Row{}, err)
				return
			}
		}
		err = query.UntilNotOvertaken(ctx, func() error {
			l := query.JoinSide{Table: left.open().Now(), Column: leftColumn, Columns: o.Left}
			r := query.JoinSide{Table: right.open().Now(), Column: rightColumn, Columns: o.Right}
			return query.Join(ctx, l, r, o.Limit, func(a, b *query.Found) bool {
				n++
				return yield([2]Row{a.Row(), b.Row()}, nil) && n != o.Limit
			}, func() bool { return n > 0 })
		})
		if err != nil {
			err = fmt.Errorf("store: join %q and %q: %w", left.open().Now().Meta.Name, right.open().Now().Meta.Name, fault.Gone(err))
			yield([2]Row{}, err)
		}
	}
}
