package pages

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A plan is a query as of one view.
type plan struct {
	tree   predicate.Tree
	want   []bool // by column, as [rowcodec.View.Row] takes it
	needed []bool // by value of a record: what the answer and the predicate need
	sealed bool   // pages are authenticated
	ranges []ranges.Range
	whole  bool
	limit  int
}

func newPlan(ctx context.Context, t *rowcodec.View, q query.Selection) (p *plan, err error) {
	if err := refused(q); err != nil {
		return nil, err
	}
	p = &plan{limit: q.Limit, sealed: !q.Unauthenticated}
	names := q.Columns
	if q.Unauthenticated && names == nil {
		names = []string{}
		for _, c := range t.Columns {
			if c.Clear() {
				names = append(names, c.Name)
			}
		}
	}
	if p.want, err = t.Want(names); err != nil {
		return nil, err
	}
	if p.tree, err = predicate.New(t, q.Where); err != nil {
		return nil, err
	}
	p.needed = make([]bool, len(t.Parts)+len(t.Stored))
	for i, c := range t.Parts {
		p.needed[i] = p.sealed || c.Clear()
	}
	for i := range t.Columns {
		p.needed[len(t.Parts)+i] = p.want == nil || p.want[i]
	}
	p.tree.Columns(func(c *rowcodec.Column) { p.needed[t.ValueIndex(c)] = true })
	if q.Unauthenticated {
		for at, c := range columns(t) {
			if p.needed[at] && !c.Clear() {
				return nil, fmt.Errorf("%w: column %q is sealed, and an Unauthenticated query opens nothing: leave out the column, or Unauthenticated", fault.ErrColumn, c.Name)
			}
		}
	}
	ss, none := p.tree.Implied()
	if none {
		return p, nil
	}
	rows, err := ranges.OfRows(ctx, t, ss, func(*rowcodec.Column) bool { return true })
	if err != nil {
		return nil, err
	}
	p.ranges, p.whole = rows.Ranges, rows.Many() || !rows.Restricted
	if q.RequireIndex && p.whole {
		return nil, fmt.Errorf("%w: the predicate does not restrict the first parts of the row key", fault.ErrScan)
	}
	slices.SortFunc(p.ranges, func(a, b ranges.Range) int { return bytes.Compare(a.Start, b.Start) })
	return p, nil
}

// refused returns an error if a query asks for what tables of pages do not have.
func refused(q query.Selection) error {
	what := ""
	switch {
	case q.OrderBy != "":
		what = "OrderBy: sort the rows"
	case q.By != "":
		what = "By: its columns have no index entries, leave it out"
	case q.Reverse:
		what = "Reverse: sort the rows"
	case q.PageToken != "":
		what = "PageToken: read all rows, or divide them by conditions on the row key; they need not come in the order of its values"
	case q.Limit < 0:
		return fmt.Errorf("%w: Limit is %d", driver.ErrRange, q.Limit)
	default:
		return nil
	}
	return fmt.Errorf("%w: a table of pages does not take %s", fault.ErrColumn, what)
}

// Rows yields what a query selects. Rows with neighbouring keys come one after the other, in the order of their keys.
func (t *Table) Rows(ctx context.Context, e *engine.Engine, q query.Selection) iter.Seq2[rowcodec.RowValues, error] {
	return func(yield func(rowcodec.RowValues, error) bool) {
		n := 0
		err := t.retry(ctx, e, func(e *engine.Engine) (err error) {
			err = t.rows(ctx, e, q, func(row rowcodec.RowValues) bool {
				n++
				return yield(row, nil)
			})
			since, is := newer(err)
			if !is || n == 0 {
				return err
			}
			// Another attempt would yield rows twice. The caller's next one is to know the schema, or it would end in the same way.
			if _, err = e.Env.AtLeast(ctx, since); err != nil {
				return err
			}
			return fmt.Errorf("%w: ask again", fault.ErrSchemaChanged)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// rows is one attempt at it.
func (t *Table) rows(ctx context.Context, e *engine.Engine, q query.Selection, yield func(rowcodec.RowValues) bool) error {
	var p *plan
	e, err := e.WithSecondLook(ctx, func(e *engine.Engine) (err error) {
		p, err = newPlan(ctx, e.View, q)
		return err
	})
	if err != nil {
		return err
	}
	left, failed := p.limit, error(nil)
	w := &walk{t: t, e: e, sealed: p.sealed, yield: func(r run) bool {
		var rows []*rowcodec.Record
		if rows, failed = r.read(e.View, p.needed); failed != nil {
			return false
		}
		for _, row := range rows[:r.to] {
			if !p.tree.Holds(row.Values) {
				continue
			}
			if !yield(e.Row(row, p.want)) {
				return false
			}
			if left--; left == 0 {
				return false
			}
		}
		return true
	}}
	if err := w.plan(ctx, p); err != nil {
		return err
	}
	return failed
}

// plan goes along the pages that a query needs, each once.
func (w *walk) plan(ctx context.Context, p *plan) error {
	if p.whole {
		return w.all(ctx)
	}
	for i := 0; i < len(p.ranges) && !w.done; i++ {
		if i%mostAhead == 0 && len(p.ranges) > 1 {
			if err := w.readAhead(ctx, p.ranges[i:min(len(p.ranges), i+mostAhead)]); err != nil {
				return err
			}
		}
		r := p.ranges[i]
		start := startOf(r.Start)
		if w.past != nil {
			switch till := w.past.end; {
			case !w.past.has(start):
			case till == nil || r.End != nil && bytes.Compare(r.End, till) <= 0:
				continue // which has been yielded
			default:
				start = till
			}
		}
		if err := w.between(ctx, start, r.End); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the row with a key, or nil.
func (t *Table) Get(ctx context.Context, e *engine.Engine, key rowcodec.RowValues, columns []string) (row rowcodec.RowValues, err error) {
	if len(columns) == 0 {
		columns = nil
	}
	err = t.retry(ctx, e, func(e *engine.Engine) error {
		var want []bool
		var asked *rowcodec.Record
		e, err := e.WithSecondLook(ctx, func(e *engine.Engine) (err error) {
			if want, err = e.Want(columns); err != nil {
				return err
			}
			if asked, err = bykey.Named(e.View, key); err == nil {
				err = e.EncodeKey(ctx, asked)
			}
			return err
		})
		if err != nil {
			return err
		}
		p, err := t.find(ctx, e, asked.Key, true)
		if err != nil || p == nil {
			return err
		}
		needed := slices.Repeat([]bool{true}, len(e.Parts))
		for i := range e.Columns {
			needed = append(needed, want == nil || want[i])
		}
		rows, err := p.read(e.View, needed)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(rows, func(r *rowcodec.Record) bool { return sameKey(e.View, r, asked) }); i >= 0 {
			row = e.Row(rows[i], want)
		}
		return nil
	})
	return row, err
}

// sameKey reports whether two records have equal key parts.
func sameKey(t *rowcodec.View, a, b *rowcodec.Record) bool {
	for i, c := range t.Parts {
		if a.Values[i] == nil || c.Type.Compare(a.Values[i], b.Values[i]) != 0 {
			return false
		}
	}
	return true
}
