package query

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/inorder"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// maxSorted is how many rows the client keeps to sort them, but for those of a page.
const maxSorted = 100_000

// order lets the rows come in the order of a column, by other ways or by sorting them.
func (pl *plan) order(p *planner, name string) error {
	c := p.t.ByName[name]
	switch {
	case c == nil:
		return fmt.Errorf("%w: table %q has no column %q to order by", fault.ErrColumn, p.t.Meta.Name, name)
	case !c.Type.Orderable():
		return fmt.Errorf("%w: column %q: values of type %s have no order", fault.ErrColumn, c.Name, c.Type.ID())
	}
	if len(pl.Ways) == 1 && pl.Ways[0].driving == nil && slices.Contains(pl.Ways[0].sortedBy, c) {
		return nil
	}
	ways, err := p.orderWays(&pl.tree, c)
	if err != nil {
		return err
	}
	// Rows without a value may come by a server index, which has no pages.
	if ways != nil && (p.by == nil || p.by == c) && !pl.narrower(c) && !slices.ContainsFunc(ways, way.served) {
		pl.Ways = ways
		return nil
	}
	pl.sort, pl.instead = c, ways
	return nil
}

// narrower reports whether the ways lead to fewer rows than those that have a value of the column, as far as can be seen.
func (pl *plan) narrower(c *rowcodec.Column) bool {
	if len(pl.Ways) == 1 && pl.Ways[0].driving == c {
		return false
	}
	ss, _ := pl.tree.Implied()
	share := 1.0
	if s := ss.Of(c); s != nil {
		share = s.Share()
	}
	for _, w := range pl.Ways {
		if !w.fixed && (w.whole || w.values != nil && w.values.Share() >= share) {
			return false
		}
	}
	return true
}

// orderWays returns the ways on which rows come in the order of a column: first those that have a value there, and then
// the others. It returns nil if there are none.
func (p *planner) orderWays(tree *predicate.Tree, c *rowcodec.Column) ([]way, error) {
	ss, _ := tree.Implied()
	if c.Part >= 0 {
		w := way{tree: tree}
		restricted, _, err := w.byRows(p, ss)
		w.whole = !restricted
		if err == nil && !slices.Contains(w.sortedBy, c) {
			return nil, nil
		}
		return []way{w}, err
	}
	if !ordered(p.forms(c)) || c.ServerIndex {
		return nil, nil
	}
	s := ss.Of(c)
	nulls := s == nil || s.Null
	w := way{tree: tree, merged: true}
	if err := w.drivenBy(p.ctx, c, s); err != nil {
		return nil, err
	}
	if nulls {
		null := predicate.And(*tree, predicate.IsNull(p.t, c))
		return p.ways(&null, []way{w})
	}
	return []way{w}, nil
}

// A place is where a row stands in the order of a column: null and NaN last, and equal values by the row key.
type place struct {
	value any // nil for null and NaN
	key   []byte
	hit   *Found
}

func (f *execution) placeOf(hit *Found) place {
	v := f.table.ValueOf(f.plan.sort, hit.record)
	if v != nil && f.plan.sort.Type.Unordered(v) {
		v = nil
	}
	return place{v, hit.record.Key, hit}
}

// compare compares places in the order of the answer.
func (f *execution) compare(a, b place) int {
	switch {
	case a.value == nil && b.value != nil:
		return 1
	case a.value != nil && b.value == nil:
		return -1
	}
	order := 0
	if a.value != nil {
		order = f.plan.sort.Type.Compare(a.value, b.value)
	}
	if order = cmp.Or(order, bytes.Compare(a.key, b.key)); f.plan.reverse {
		return -order
	}
	return order
}

// sorted yields the rows of all ways in the order of a column.
func (f *execution) sorted(ctx context.Context) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		s := inorder.First[place]{Compare: f.compare}
		most, cut := f.of.Limit, true
		if !f.of.Paged && (most == 0 || most > f.mostSorted) {
			most, cut = f.mostSorted, false
		}
		var from *place
		if f.from != nil {
			from = f.from.place(f.plan.sort)
		}
		for hit, err := range f.allWays(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			at := f.placeOf(hit)
			if from != nil && f.compare(at, *from) <= 0 {
				continue
			}
			if !cut && s.Len() == most {
				f.orderly(ctx, from, yield)
				return
			}
			s.Add(at, most)
		}
		for _, at := range s.Sorted() {
			if !yield(at.hit, nil) {
				return
			}
		}
	}
}

// orderly yields the rows by ways on which they come in order, since there are too many to sort.
func (f *execution) orderly(ctx context.Context, from *place, yield func(*Found, error) bool) {
	c := f.plan.sort
	if f.plan.instead == nil {
		advice := "make it an ordered column, whose order is taken instead"
		if c.ServerIndex {
			advice = "leave out its server index: index entries have its order"
		}
		yield(nil, fmt.Errorf("%w: there are more than %d rows to sort by column %q: limit them to at most that, ask for pages, or %s",
			fault.ErrColumn, f.mostSorted, c.Name, advice))
		return
	}
	f.ways = f.plan.instead
	f.last = nil
	clear(f.seen)
	for hit, err := range f.allWays(ctx) {
		if err == nil && from != nil && f.compare(f.placeOf(hit), *from) <= 0 {
			continue
		}
		if !yield(hit, err) {
			return
		}
	}
}

// requireIndex returns an error if a way goes through all rows.
func (pl *plan) requireIndex(t *rowcodec.View) error {
	if !slices.ContainsFunc(pl.Ways, func(w way) bool { return w.whole }) {
		return nil
	}
	var reasons []string
	if len(pl.Ways) > 1 || pl.Ways[0].driving != nil {
		reasons = append(reasons, fmt.Sprintf("rows that are null in column %q have no index entry, so that only reading all rows finds them: exclude them, as by: is not null",
			pl.Ways[0].driving.Name))
	}
	reasons = append(reasons, pl.tree.Lacks(t)...)
	if len(reasons) == 0 {
		reasons = append(reasons, "it has no predicate")
	}
	return fmt.Errorf("%w: %s", fault.ErrScan, strings.Join(reasons, "; "))
}
