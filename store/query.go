package store

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/aggregate"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
)

// A Query selects rows of a table.
type Query struct {
	// Where restricts the rows. The zero Predicate selects all.
	Where Predicate

	// Columns are the names of the columns that are returned; nil means all. Key parts are always
	// returned, and nothing else where Columns is empty but not nil.
	Columns []string

	// OrderBy is the name of the column or key part by whose values the rows are sorted, ascending or, with Reverse,
	// descending; "" is the order that [Table.Query] says. Rows that are null or NaN there come last in both directions.
	// Rows of equal values are in the order of their stored keys, or with Reverse in the opposite one: an order that
	// stays, but means nothing where key parts are hashed. Values of type UUID have no order: [ErrColumn].
	//
	// Where the postings of an ordered column, or an ordered part of the row key, give the order, the memory does not
	// depend on the number of rows, and rows that are null there come in no order. Otherwise, and where the predicate
	// fixes key parts or another column to values, or restricts one to a smaller share of its domain, the client reads
	// all rows that the predicate selects and sorts them, for each page again. It keeps at most Limit rows, or 100,000.
	// If there are more than these, it takes the order of the column; where that gives none the query is [ErrColumn].
	OrderBy string

	// By is the name of the column whose postings lead to the rows; "" leaves the choice to the store. The store prefers
	// the row key, where the predicate fixes or restricts its first parts, since it never counts rows to choose. By is for
	// a key part of few values beside a column of many: [Table.Explain] estimates the rows of either way. The rows then
	// come in the order of the column, unless OrderBy says otherwise.
	//
	// By is [ErrColumn] unless the predicate restricts the column: an ordered one in any way, a deterministic one to values.
	// While the index of a column is made again, or rows are converted that had no such postings, By has no effect.
	By string

	// Limit is how many rows are returned at most; 0 is no limit. One below 0 is [driver.ErrRange].
	Limit int

	// Reverse returns the rows in the opposite order. Where all rows of a table whose key begins with a
	// hashed or plain part are read, without OrderBy, it is [driver.ErrRange].
	Reverse bool

	// RequireIndex refuses, with [ErrScan], a query that would read all rows of the table or, in a table with tenants, of the tenant.
	RequireIndex bool

	// PageToken goes on after the page that returned it, with the same Where, OrderBy, By, Reverse and Unauthenticated. The
	// same Where has its predicates in the same order, too: And and Or of others are another query ([ErrToken]).
	PageToken string

	// Unauthenticated takes plain columns as the database gives them. It opens no sealed cell, so that nothing is authenticated:
	// whoever operates the database can forge values, leave out rows, invent them, and move them to other keys.
	//
	// Columns may name columns of [PlainColumn] only, and nil means all of these. A Row has the key parts that the database sees, and no
	// others; fields of structs for others are zero. OrderBy and Where may name these columns and parts. Where may also fix hashed parts to
	// values, with all parts before them, outside of Or and Not. Where nothing else gives an order, rows come in that of their stored keys.
	//
	// All else is [ErrColumn], also By, and any query where rows expire and anything is encrypted. So is a row that may hold a
	// column sealed, from before it was made plain: convert such rows first.
	Unauthenticated bool
}

func (q Query) selection() query.Selection {
	return query.Selection{
		Where: q.Where.where, Columns: q.Columns, Limit: q.Limit, Reverse: q.Reverse, OrderBy: q.OrderBy, By: q.By,
		RequireIndex: q.RequireIndex, PageToken: q.PageToken, Unauthenticated: q.Unauthenticated,
	}
}

// Query yields the rows that the query selects. They come in the order of what drives the query ([Table.Explain] says which): of the
// column, or of the first parts of the row key, up to one that is ordered or not fixed to values. Long lists of several parts fix the first
// ones only ([Field.In]). What an Or of several columns selects comes column by column. All rows of a table whose key begins with a hashed
// or plain part come in no order, and so do those that a column selects while it is being converted, or has a [MutableScheme] whose index
// is being made again ([Table.Describe] says so). Pages, Reverse and OrderBy give an order while it is being converted, unless all rows
// have to be read ([inspect.Explanation.Unconverted]).
//
// It reads lazily; its memory does not depend on the number of rows, but for 16 bytes a row where a column drives the query, or several
// ways lead to its rows, on a database without snapshots; and but for rows that the client sorts ([Query.OrderBy]). An error, or the end of
// ctx, is the last thing yielded. The package comment says what is promised when rows change during the query.
func (tbl *Table) Query(ctx context.Context, q Query) iter.Seq2[Row, error] {
	q.Columns = slices.Clone(q.Columns)
	return tbl.reader(q).query(ctx, tbl)
}

// Page returns the rows of one page, at most q.Limit, which must be positive or it is [driver.ErrRange], and the token for the next page,
// which is empty when there is none. Pages follow the order of [Table.Query]. All rows of a table whose key begins with a hashed or plain
// part come in an order of stored keys that the database has: it stays, but means nothing, and cannot be reversed.
func (tbl *Table) Page(ctx context.Context, q Query) (rows []Row, next string, err error) {
	return tbl.reader(q).page(ctx, tbl)
}

// A reader says in which form a query returns its rows.
type reader[R any] struct {
	use  func(context.Context) (*engine.Engine, query.Selection, error)
	read func(*query.Found) (R, error)
	says func(error) error // what an error means
}

func (tbl *Table) reader(q Query) reader[Row] {
	return reader[Row]{
		use: func(context.Context) (*engine.Engine, query.Selection, error) {
			t, err := tbl.open().Use()
			return t, q.selection(), err
		},
		read: func(f *query.Found) (Row, error) { return f.Row(), nil },
		says: func(err error) error { return err },
	}
}

func (r reader[R]) query(ctx context.Context, tbl *Table) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		t, of, err := r.use(ctx)
		if err != nil {
			yield(none, tbl.open().Refused(ctx, "query", err))
			return
		}
		n := 0
		ctx, end := tbl.open().Operation(ctx, "query")
		defer func() { end(n, err) }()
		var f *query.Found
		for f, err = range query.RowsOf(ctx, t, of, new(inspect.Explanation)) {
			var row R
			if err == nil {
				row, err = r.read(f)
			}
			if err != nil {
				err = r.says(fmt.Errorf("store: query %q: %w", t.Meta.Name, fault.Gone(err)))
				yield(none, err)
				return
			}
			n++
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (r reader[R]) page(ctx context.Context, tbl *Table) (rows []R, next string, err error) {
	t, of, err := r.use(ctx)
	if err != nil {
		return nil, "", tbl.open().Refused(ctx, "page", err)
	}
	ctx, end := tbl.open().Operation(ctx, "page")
	defer func() { end(len(rows), err) }()
	if rows, next, err = aggregate.Page(ctx, t, of, r.read); err != nil {
		return nil, "", r.says(fmt.Errorf("store: query %q: %w", t.Meta.Name, fault.Gone(err)))
	}
	return rows, next, nil
}

// Explain says how a query would be answered, without running it, and how many rows and postings the query would look at.
// Up to 4,096 it counts them. Of more it draws some, also rows of the table, of which it opens up to 2,048. So it needs some
// hundreds of requests then. What it returns says whether that tells enough ([inspect.Estimate]).
func (tbl *Table) Explain(ctx context.Context, q Query) (e inspect.Explanation, err error) {
	err = tbl.call(ctx, "explain", "explain", 0, func(ctx context.Context, t *engine.Engine) (err error) {
		e, err = query.Explain(ctx, t, q.selection())
		return err
	})
	return e, err
}

// Analyze runs a query without returning its rows and says how it was answered.
func (tbl *Table) Analyze(ctx context.Context, q Query) (e inspect.Explanation, err error) {
	err = tbl.call(ctx, "analyze", "analyze", 0, func(ctx context.Context, t *engine.Engine) (err error) {
		e, err = aggregate.Analyze(ctx, t, q.selection())
		return err
	})
	return e, err
}
