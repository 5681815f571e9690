package boldyreva

import (
	"math/bits"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// The values of a batch go down the tree side by side, so that no block of coins waits for another. Nodes of one kind are
// split together: a processor that foresees what comes next works on several at a time.

// A lane is a node, and which ranks of a batch lie in it.
type lane struct {
	node
	rank     uint64     // of the first of them in the node
	from, to int        // their places in the batch
	counter  uint64     // of the block that is next
	mask     coins.Mask // of the labels of nodes of at most 64 bits, once there are some
	masked   bool
}

// The kinds of lanes. All but shared ones have a single rank.
const (
	shared = iota // several ranks
	large         // split by a histogram
	small         // split by counting bits
	few           // scattered
	alone         // a single point
	kinds
)

// lanes are those that wait to go down, by their kinds, the next ones last.
type lanes struct {
	*coins.Lanes
	waiting [kinds][]*lane
	now     [coins.LaneCount]*lane
	idle    []*lane
	above   coins.Mask // of the labels of nodes of more than 64 bits
}

// walk encrypts ranks[from:to] of the batch, all of which are below the node.
func (t *tree) walk(w *walker, n node, b *batch, from, to int) {
	if w.lanes == nil {
		w.lanes = &lanes{Lanes: t.source.NewLanes(), above: t.source.Mask(1)}
	}
	root := w.lanes.like(&lane{node: n, rank: b.ranks[from], from: from, to: to})
	if t.bits <= 64 {
		root.mask, root.masked = t.source.Mask(0), true
	}
	w.lanes.put(root, b)
	for {
		switch w.lanes.next() {
		case shared:
			w.goShared(b)
		case large:
			w.goLarge(b)
		case small:
			w.goSmall(b)
		case few:
			w.goFew(b)
		case alone:
			w.goAlone(b)
		default:
			return
		}
	}
}

// next returns the kind of lanes to go down next: the lowest that are enough, or the highest.
func (l *lanes) next() (kind int) {
	for kind = kinds - 1; kind >= 0; kind-- {
		if len(l.waiting[kind]) >= coins.LaneCount {
			return kind
		}
	}
	for kind = range l.waiting {
		if len(l.waiting[kind]) > 0 {
			return kind
		}
	}
	return kinds
}

// like returns a copy of a lane.
func (l *lanes) like(s *lane) *lane {
	n := len(l.idle)
	if n == 0 {
		l.idle, n = append(l.idle, new(lane)), 1
	}
	c := l.idle[n-1]
	l.idle = l.idle[:n-1]
	*c = *s
	return c
}

// end takes back a lane that has no ranks any more.
func (l *lanes) end(s *lane) { l.idle = append(l.idle, s) }

// put lets a lane wait that may have several ranks.
func (l *lanes) put(s *lane, b *batch) {
	if b.ranks[s.from] != b.ranks[s.to-1] {
		l.waiting[shared] = append(l.waiting[shared], s)
		return
	}
	l.putOne(s)
}

// putOne lets a lane wait that has a single rank.
func (l *lanes) putOne(s *lane) {
	kind := small
	switch {
	case s.last >= popcountMost:
		kind = large
	case s.last == 0:
		kind, s.counter = alone, leafCounter
	case s.scattered():
		kind = few
	}
	l.waiting[kind] = append(l.waiting[kind], s)
}

// take returns some lanes of a kind, which do not wait any more.
func (l *lanes) take(kind int) []*lane {
	waiting := l.waiting[kind]
	rest := max(0, len(waiting)-coins.LaneCount)
	l.waiting[kind] = waiting[:rest]
	return l.now[:copy(l.now[:], waiting[rest:])]
}

// label returns the label of a lane's node; see node.middle. A node of no bits needs no coins, so that it does not matter
// which are computed.
func (s *lane) label(above coins.Mask) coins.Label {
	if s.bits > 64 {
		return above.Label(s.hi | 1<<((s.bits-65)&63))
	}
	return s.mask.Label(s.lo | 1<<((s.bits-1)&63))
}

// set sets lanes for their next blocks.
func (w *walker) set(lanes []*lane) {
	l := w.lanes
	for i, s := range lanes {
		if s.bits <= 64 && !s.masked {
			s.mask, s.masked = w.Mask(0, s.hi), true
		}
		l.Set(i, s.label(l.above), s.counter)
	}
}

// toss computes the next blocks of lanes.
func (w *walker) toss(lanes []*lane) {
	w.set(lanes)
	w.lanes.Blocks(len(lanes))
}

// serialMost is how many shared lanes go down one by one, as what is remembered of them saves more than others cost.
const serialMost = 4

// goShared takes lanes of several ranks down by a node.
func (w *walker) goShared(b *batch) {
	l := w.lanes
	now := l.take(shared)
	serial := len(now) <= serialMost
	if !serial {
		w.toss(now)
	}
	for i, s := range now {
		switch {
		case s.full():
			s.fillAll(b)
			l.end(s)
			continue
		case serial && s.last >= popcountMost:
			lower, _ := s.split(w)
			w.halve(s, lower, b)
			continue
		case serial:
			w.toss(now[i : i+1])
			i = 0
		}
		hi, lo := l.Get(i)
		w.Use(s.label(l.above)) // for further blocks
		if !s.scattered() {
			w.halve(s, w.splitBy(s.bits, s.last, hi, lo), b)
			continue
		}
		places := w.scatterBy(s.bits, s.last, hi, lo)
		for more := true; more; {
			child := l.like(s)
			child.rank = child.enter(&places, s.rank)
			more = s.cut(child, child.last-child.rank, b)
			l.put(child, b)
		}
		l.end(s)
	}
}

// halve puts the ranks of a shared lane into the halves of its node.
func (w *walker) halve(s *lane, lower uint64, b *batch) {
	l := w.lanes
	if s.rank < lower {
		child := l.like(s)
		more := s.cut(child, lower-1-s.rank, b)
		child.enterHalf(lower)
		l.put(child, b)
		if !more {
			l.end(s)
			return
		}
	}
	s.enterHalf(lower)
	l.put(s, b)
}

// cut gives to a child the ranks of a lane that are at most so far above the first of them, and reports whether there are
// others. The lane keeps those.
func (s *lane) cut(child *lane, above uint64, b *batch) (more bool) {
	ranks := b.ranks[s.from:s.to]
	first, last := ranks[0], 0 // of the child
	for n := len(ranks); n > 1; {
		half := n / 2
		next := last
		if ranks[last+half]-first <= above {
			next += half // no branch, since nobody can foresee it
		}
		last, n = next, n-half
	}
	s.from += last + 1
	child.to = s.from
	if s.from == s.to {
		return false
	}
	s.rank += ranks[last+1] - first
	return true
}

// fillAll sets the ciphertexts of a full node.
func (s *lane) fillAll(b *batch) {
	first := b.ranks[s.from] - s.rank
	for i := s.from; i < s.to; i++ {
		b.set(i, s.hi, s.lo|(b.ranks[i]-first))
	}
}

// goLarge takes lanes down by a node whose split is drawn from a histogram. Its loops are short, so that a processor works
// on several lanes at a time, and what is not decided quickly is left to the end.
func (w *walker) goLarge(b *batch) {
	l := w.lanes
	waiting := l.waiting[large]
	rest := max(0, len(waiting)-coins.LaneCount)
	now := waiting[rest:]
	w.toss(now)
	var lowers [coins.LaneCount]uint64
	var slow [coins.LaneCount]uint8
	slows := 0
	for i, s := range now {
		hi, lo := l.Get(i)
		lower, ok := quickly(s.bits, s.last, hi, lo)
		lowers[i&(coins.LaneCount-1)] = lower
		slow[slows&(coins.LaneCount-1)] = uint8(i)
		if !ok || w.exact {
			slows++
		}
	}
	ready := len(now)
	for _, at := range slices.Backward(slow[:slows]) {
		i := int(at)
		var ok bool
		if lowers[i], ok = w.drawSlowly(now[i], i); !ok { // it goes behind those that are ready
			ready--
			now[i], now[ready], lowers[i] = now[ready], now[i], lowers[ready]
		}
	}
	for i := ready - 1; i >= 0; i-- {
		s := now[i]
		s.counter = 0
		s.enterHalf(lowers[i])
		if s.last < popcountMost {
			l.putOne(s)
			now[i] = now[len(now)-1]
			now = now[:len(now)-1]
		}
	}
	l.waiting[large] = waiting[:rest+len(now)]
}

// drawSlowly returns how many points of a lane's node are in its lower half, or false if the lane needs another block.
func (w *walker) drawSlowly(s *lane, i int) (lower uint64, ok bool) {
	w.Use(s.label(w.lanes.above)) // for further blocks
	hi, lo := w.lanes.Get(i)
	switch {
	case s.full():
		return 1 << (s.bits - 1), true
	case s.last < popcountMost || s.bits <= 64 && s.last>>(s.bits-1) != 0:
		return w.splitSlowly(s.bits, s.last, hi, lo), true
	}
	if lower, ok = w.propose(s.bits, s.last, s.counter, hi, lo); !ok {
		s.counter += 1 << proposal
	}
	return lower, ok
}

// goSmall takes lanes down by a node whose split is drawn by counting bits.
func (w *walker) goSmall(b *batch) {
	l := w.lanes
	waiting := l.waiting[small]
	rest := max(0, len(waiting)-coins.LaneCount/2) // which may need two blocks
	now := waiting[rest:]
	w.set(now)
	n := len(now)
	for _, s := range now {
		if s.last >= 64 {
			l.Set(n, s.label(l.above), 1)
			n++
		}
	}
	l.Blocks(n)
	for i := len(now) - 1; i >= 0; i-- {
		s := now[i]
		hi, lo := l.Get(i)
		var b1, b2 uint64
		if s.last >= 64 {
			n--
			b1, b2 = l.Get(n)
		}
		lower, ok := countQuickly(s.bits, s.last, hi, lo, b1, b2)
		if !ok || w.exact {
			lower, _ = w.drawSlowly(s, i)
		}
		s.enterHalf(lower)
		if s.last == 0 || s.scattered() {
			l.putOne(s)
			now[i] = now[len(now)-1]
			now = now[:len(now)-1]
		}
	}
	l.waiting[small] = waiting[:rest+len(now)]
}

// goFew takes lanes down by a node whose points are placed one by one.
func (w *walker) goFew(b *batch) {
	l := w.lanes
	now := l.take(few)
	w.toss(now)
	for i, s := range now {
		hi, lo := l.Get(i)
		w.Use(s.label(l.above))
		places := w.scatterBy(s.bits, s.last, hi, lo)
		s.rank = s.enter(&places, s.rank)
		l.putOne(s)
	}
}

// goAlone sets the ciphertexts of lanes that have arrived.
func (w *walker) goAlone(b *batch) {
	l := w.lanes
	now := l.take(alone)
	w.maskAll(now)
	w.toss(now)
	for i, s := range now {
		hi, lo := s.fill(l.Get(i))
		b.setAll(s.from, s.to, hi, lo)
		l.end(s)
	}
}

// maskAll gives masks to lanes that need some.
func (w *walker) maskAll(lanes []*lane) {
	l := w.lanes
	n := 0
	for _, s := range lanes {
		if s.bits <= 64 && !s.masked {
			l.SetMask(n, 0, s.hi)
			n++
		}
	}
	l.Masks(n)
	n = 0
	for _, s := range lanes {
		if s.bits <= 64 && !s.masked {
			s.mask, s.masked = l.GetMask(n), true
			n++
		}
	}
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
