package order

import "math"

// Where a read may show what is not decided yet, a list knows of each element whether that is decided. For that, elements have a
// number of when they were learnt.
type marks struct {
	now   uint16 // of what is learnt now; 0: everything that is read is decided
	sure  uint16 // up to this number, elements are decided
	turns uint64 // of what came before number 0
}

// decided is the number of what this client has written.
func decided(int) uint16 { return 0 }

// Doubt says that what is learnt from now on need not be decided.
func (l *List) Doubt() { l.now = 1 }

// Doubts reports whether an element that is known, or is not known any more, may not be decided.
func (l *List) Doubts(x int64) bool {
	if l.now == 0 {
		return false
	}
	p := l.floor(x)
	return p.chunk < 0 || l.at(p).Value != x || l.chunks[p.chunk].entries[p.index].learnt > l.sure
}

// A Mark is all that a list knows at a time.
type Mark uint64

// Mark returns what the list knows now.
func (l *List) Mark() Mark {
	m := Mark(l.turns + uint64(l.now))
	switch {
	case l.now == 0:
	case l.now < math.MaxUint16:
		l.now++
	default: // what is decided gets the number 0, and all else 1
		for _, c := range l.chunks {
			for i := range c.entries {
				e := &c.entries[i]
				if e.learnt <= l.sure {
					e.learnt = 0
				}
				e.learnt = min(e.learnt, 1)
			}
		}
		l.turns += uint64(l.now) - 1
		l.now, l.sure = 2, 0
	}
	return m
}

// Decided says that what the list knew is decided.
func (l *List) Decided(m Mark) {
	if m := uint64(m); m > l.turns {
		l.sure = max(l.sure, uint16(m-l.turns))
	}
}

// learnt returns the numbers of elements that are learnt, of which those from a position on may be known already.
func (l *List) learnt(run []Element, from position) func(i int) uint16 {
	return func(i int) uint16 {
		if l.now == 0 {
			return 0
		}
		for from.chunk < len(l.chunks) && l.chunks[from.chunk].entries[from.index].label.Less(run[i].Label) {
			from = l.next(from)
		}
		if from.chunk < len(l.chunks) && l.at(from).Label == run[i].Label && l.at(from).Value == run[i].Value {
			return min(l.chunks[from.chunk].entries[from.index].learnt, l.now)
		}
		return l.now
	}
}
