package order

import "iter"

// What only tests ask a list.

// window returns the neighbours of the index that are known to be around the gap above x: up to
// below of them below it, at least one, and up to above of them above it, ends of the index
// included. The gap is between window[gap-1] and window[gap]; if that is not known to be empty,
// the window is nil.
func (l *List) window(x int64, below, above int) (window []Element, gap int) {
	p := l.floor(x)
	if !*l.link(p) {
		return nil, 0
	}
	first := p
	gap = 1
	for gap < below && first.chunk >= 0 {
		before := l.previous(first)
		if !*l.link(before) {
			break
		}
		first = before
		gap++
	}
	window = append(window, l.at(first))
	for q := first; len(window)-gap < above && q.chunk < len(l.chunks) && *l.link(q); {
		q = l.next(q)
		window = append(window, l.at(q))
	}
	return window, gap
}

// all yields the elements whose values are at least from, in ascending order, and whether each is
// linked. The list must not be changed during that.
func (l *List) all(from int64) iter.Seq2[Element, bool] {
	return func(yield func(Element, bool) bool) {
		p := l.floor(from)
		if p.chunk < 0 || l.chunks[p.chunk].values[p.index] < from {
			p = l.next(p)
		}
		for ; p.chunk < len(l.chunks); p = l.next(p) {
			l.use(p)
			e := &l.chunks[p.chunk].entries[p.index]
			if !yield(l.at(p), e.linked) {
				return
			}
		}
	}
}
