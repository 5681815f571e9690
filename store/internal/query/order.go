package query

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
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
		restricted, err := w.byRows(p.ctx, p.t, ss)
		w.whole = !restricted
		if err == errMultiplied || err == nil && !slices.Contains(w.sortedBy, c) {
			return nil, nil
		}
		return []way{w}, err
	}
	if c.Encryption != meta.Ordered || !c.Drives() || c.ServerIndex {
		return nil, nil
	}
	s := ss.Of(c)
	nulls := s == nil || s.Null
	w := way{driving: c, tree: tree, values: s}
	var err error
	if w.Ranges, err = rangesOf(p.ctx, c, c.Lead, s); err != nil {
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
}

func (f *execution) placeOf(hit *Found) place {
	v := f.table.ValueOf(f.plan.sort, hit.record)
	if v != nil && f.plan.sort.Type.Unordered(v) {
		v = nil
	}
	return place{v, hit.record.Key}
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

// A sorting is rows with the last of all on top, as a heap.
type sorting struct {
	f      *execution
	hits   []*Found
	places []place
}

func (s *sorting) Len() int           { return len(s.hits) }
func (s *sorting) Less(i, j int) bool { return s.f.compare(s.places[i], s.places[j]) > 0 }
func (s *sorting) Swap(i, j int) {
	s.hits[i], s.hits[j] = s.hits[j], s.hits[i]
	s.places[i], s.places[j] = s.places[j], s.places[i]
}
func (s *sorting) Push(any) { panic("query: a sorting is pushed to in add") }
func (s *sorting) Pop() any {
	n := len(s.hits) - 1
	hit := s.hits[n]
	s.hits, s.places = s.hits[:n], s.places[:n]
	return hit
}

// add adds a row, and drops the last one if there are more than most.
func (s *sorting) add(hit *Found, most int) {
	at := s.f.placeOf(hit)
	if len(s.hits) == most {
		if s.f.compare(at, s.places[0]) >= 0 {
			return
		}
		s.hits[0], s.places[0] = hit, at
		heap.Fix(s, 0)
		return
	}
	s.hits, s.places = append(s.hits, hit), append(s.places, at)
	for i := len(s.hits) - 1; i > 0 && s.Less(i, (i-1)/2); i = (i - 1) / 2 {
		s.Swap(i, (i-1)/2)
	}
}

// sorted yields the rows of all ways in the order of a column.
func (f *execution) sorted(ctx context.Context) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		s := &sorting{f: f}
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
			if from != nil && f.compare(f.placeOf(hit), *from) <= 0 {
				continue
			}
			if !cut && len(s.hits) == most {
				f.orderly(ctx, from, yield)
				return
			}
			s.add(hit, most)
		}
		ordered := make([]*Found, len(s.hits))
		for n := len(s.hits) - 1; n >= 0; n-- {
			last := s.hits[0]
			s.Swap(0, n)
			s.Pop()
			heap.Fix(s, 0)
			ordered[n] = last
		}
		for _, hit := range ordered {
			if !yield(hit, nil) {
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
	ss, _ := pl.tree.Implied()
	pl.tree.Columns(func(c *rowcodec.Column) {
		reason := predicate.Lacks(t, c, ss.Of(c))
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	})
	if len(reasons) == 0 {
		reasons = append(reasons, "it has no predicate")
	}
	return fmt.Errorf("%w: %s", fault.ErrScan, strings.Join(reasons, "; "))
}
