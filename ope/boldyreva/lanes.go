package boldyreva

import (
	"math/bits"

	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// A lane walks from a node down to the ciphertext of one point of it.
type lane struct {
	node
	rank     uint64     // of the point in the node
	mask     coins.Mask // of the labels of nodes of at most 64 bits, once there are some
	masked   bool
	from, to int // what of the batch gets the ciphertext
}

// lanes walk together, so that no block of coins waits for another. Those who have arrived make room for others.
type lanes struct {
	*coins.Lanes
	waiting []lane
	now     [coins.LaneCount]lane
	labels  [coins.LaneCount]coins.Label
}

// enqueue lets ranks[from:to] of the batch, which are equal, be encrypted below a node.
func (w *walker) enqueue(t *tree, n node, rank uint64, b *batch, from, to int) {
	if w.lanes == nil {
		w.lanes = &lanes{Lanes: t.source.NewLanes()}
	}
	l := lane{node: n, rank: rank, from: from, to: to}
	if t.bits <= 64 {
		l.mask, l.masked = t.source.Mask(0), true
	}
	if w.lanes.waiting = append(w.lanes.waiting, l); len(w.lanes.waiting) == 8*coins.LaneCount {
		w.flush(t, b)
	}
}

// flush encrypts what waits.
func (w *walker) flush(t *tree, b *batch) {
	l := w.lanes
	if l == nil {
		return
	}
	above := t.source.Mask(1)
	next, count := 0, 0
	for {
		for ; count < len(l.now) && next < len(l.waiting); next++ {
			l.now[count] = l.waiting[next]
			count++
		}
		if count == 0 {
			l.waiting = l.waiting[:0]
			return
		}
		for i := range count {
			s := &l.now[i]
			counter := uint64(0)
			if s.last == 0 {
				counter = leafCounter
			}
			// See node.middle. A node of no bits needs no coins, so that it does not matter which are computed.
			if s.bits > 64 {
				l.labels[i] = above.Label(s.hi | 1<<((s.bits-65)&63))
			} else {
				if !s.masked {
					s.mask, s.masked = w.Mask(0, s.hi), true
				}
				l.labels[i] = s.mask.Label(s.lo | 1<<((s.bits-1)&63))
			}
			l.Set(i, l.labels[i], counter)
		}
		l.Blocks(count)
		for i := count - 1; i >= 0; i-- {
			if s := &l.now[i]; s.last >= popcountMost && !w.exact {
				hi, lo := l.Get(i)
				if lower, ok := quickly(s.bits, s.last, hi, lo); ok {
					s.enterHalf(lower)
					continue
				}
			}
			if l.step(w, i, b) {
				count--
				l.now[i] = l.now[count]
			}
		}
	}
}

// step goes down by a node whose first block is known, and reports whether the lane has arrived.
func (l *lanes) step(w *walker, i int, b *batch) (arrived bool) {
	s := &l.now[i]
	hi, lo := l.Get(i)
	switch {
	case s.last == 0:
		hi, lo = s.fill(hi, lo)
		b.setAll(s.from, s.to, hi, lo)
		return true
	case s.full():
		b.setAll(s.from, s.to, s.hi, s.lo|s.rank)
		return true
	}
	w.Use(l.labels[i]) // for further blocks
	if s.scattered() {
		places := w.scatterBy(s.bits, s.last, hi, lo)
		s.rank = s.enter(&places, s.rank)
		return false
	}
	s.enterHalf(w.splitBy(s.bits, s.last, hi, lo))
	return false
}

// enterHalf narrows the node of a lane to the half that has its point.
func (s *lane) enterHalf(lower uint64) {
	// Whether it is the upper half can be foreseen by nobody, a processor included: so there is no branch.
	_, borrow := bits.Sub64(s.rank, lower, 0)
	upper := borrow - 1
	s.rank -= lower & upper
	s.last = (s.last-lower)&upper | (lower-1)&^upper
	s.bits--
	if s.bits >= 64 {
		s.hi |= 1 & upper << ((s.bits - 64) & 63)
	} else {
		s.lo |= 1 & upper << (s.bits & 63)
	}
}
