package boldyreva

import "math/bits"

// A single value has to wait at each node for the block of its coins, which says what the next node is. That can only be
// one of two. So the labels of both are written while the node is split, and what is left to choose is which is read.

// aheadLeast is the number of bits of the smallest node both of whose halves have labels.
const aheadLeast = 2

// runAhead narrows a node that is to be split to a smaller one that has the point m, and returns the point's rank there. It
// ends at a node that is not split, or does not differ from the first in the same word of the base.
func (n *node) runAhead(w *walker, m uint64) (rank uint64) {
	// k of the node's bits are in the word of its base that changes.
	base, k, below, mask := n.lo, n.bits, uint(0), w.Mask(0, n.hi)
	if k > 64 {
		base, k, below, mask = n.hi, k-64, 64, w.Mask(1, 0)
	}
	if k < aheadLeast {
		return m
	}
	a, last := w.ahead, n.last
	a.Set(0, mask.Label(base|1<<(k-1)), 0)
	a.Block(0)
	hi, lo := a.Get(0)
	for children := 0; ; { // their lanes are this one and the next
		children ^= 2
		// So early because of what Lanes.Block says.
		a.Set(children, mask.Label(base|1<<((k-2)&63)), 0)
		a.Set(children+1, mask.Label(base|3<<((k-2)&63)), 0)
		w.Use(mask.Label(base | 1<<((k-1)&63))) // for further blocks
		lower := w.splitBy(k+below, last, hi, lo)
		// There is no branch, as in lane.enterHalf.
		_, borrow := bits.Sub64(m, lower, 0)
		upper := borrow - 1
		m -= lower & upper
		last = (last-lower)&upper | (lower-1)&^upper
		k--
		base |= 1 & upper << (k & 63)
		child := children + int(1&upper)
		a.Block(child)
		hi, lo = a.Get(child)
		if last < scatterMost || k < aheadLeast || below == 0 && last == 1<<k-1 {
			break
		}
	}
	n.bits, n.last = k+below, last
	if below != 0 {
		n.hi = base
	} else {
		n.lo = base
	}
	if last != 0 && n.scattered() {
		w.Use(mask.Label(base | 1<<(k-1)))
		places := w.scatterBy(n.bits, n.last, hi, lo)
		m = n.enter(&places, m)
	}
	return m
}
