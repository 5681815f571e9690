package kerschbaum

import (
	"fmt"
	"slices"
	"sort"
)

// A list is the part of an index that a client knows: elements ascending by value and by label at
// once. Of each element, and of the low end, it is known whether it is linked: whether the next
// element here is also the next in the index. It is not safe for concurrent use.
//
// It is a directory of chunks. Everything in it moves on an insertion of one value only within a
// chunk, so that a million values take some hundred nanoseconds; a tree would take less memory
// traffic and more code.
type list struct {
	rules  rules
	limit  int
	size   int // most entries of a chunk
	n      int
	linked bool // the low end
	chunks []chunkRef
	finger position // of an entry that is looked at first; it may be anywhere in the list or beyond
	hand   int      // of the clock that evicts
}

const (
	chunkSize  = 256
	chunkGrain = 32 // chunks are allocated in multiples of this, and grow by half, so that they waste little
)

// A chunkRef is a chunk and its first element, which searches compare with.
type chunkRef struct {
	value int64
	label label
	*chunk
}

type chunk struct {
	entries []entry // at least one, at most list.size
	used    bool    // since the hand of the clock last passed
}

// An entry is an element and its link, in 40 bytes.
type entry struct {
	value           int64
	label           label
	depth, run, alt uint32
	dir             int8
	linked          bool
}

func newEntry(e element, linked bool) entry {
	return entry{e.value, e.label, e.shape.depth, e.shape.run, e.shape.alt, e.shape.dir, linked}
}

func (e *entry) element() element {
	return element{e.value, e.label, shape{e.depth, e.run, e.alt, e.dir}}
}

// newList returns an empty list for an index under the rules. It holds at most limit elements, or
// what was written last and the rest of its chunks if that is more, and forgets runs of those that
// were not used for long; 0 is no limit.
func newList(r rules, limit int) *list { return &list{rules: r, limit: limit, size: chunkSize} }

// clear forgets everything.
func (l *list) clear() { *l = list{rules: l.rules, limit: l.limit, size: l.size} }

// A position is that of an entry, or of the low end: chunk -1, index 0. That after the last entry
// of a chunk is the first of the next, or chunk len(chunks).
type position struct{ chunk, index int }

// floor returns the last entry whose value is at most x.
func (l *list) floor(x int64) position {
	// Who has asked for a gap goes on to insert there, and the next value is often near.
	if f := l.finger; f.chunk < len(l.chunks) {
		entries := l.chunks[f.chunk].entries
		if f.index < len(entries) && entries[f.index].value <= x {
			next := l.next(f)
			if next.chunk == len(l.chunks) || x < l.chunks[next.chunk].entries[next.index].value {
				return f
			}
		}
	}
	c := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].value > x }) - 1
	if c < 0 {
		return position{-1, 0}
	}
	entries := l.chunks[c].entries
	l.finger = position{c, sort.Search(len(entries), func(i int) bool { return entries[i].value > x }) - 1}
	return l.finger
}

// floorLabel returns the last entry whose label is at most c.
func (l *list) floorLabel(c label) position {
	i := sort.Search(len(l.chunks), func(i int) bool { return c.less(l.chunks[i].label) }) - 1
	if i < 0 {
		return position{-1, 0}
	}
	entries := l.chunks[i].entries
	return position{i, sort.Search(len(entries), func(i int) bool { return c.less(entries[i].label) }) - 1}
}

func (l *list) next(p position) position {
	if p.chunk < 0 || p.index == len(l.chunks[p.chunk].entries)-1 {
		return position{p.chunk + 1, 0}
	}
	return position{p.chunk, p.index + 1}
}

func (l *list) previous(p position) position {
	if p.index > 0 {
		return position{p.chunk, p.index - 1}
	}
	if p.chunk == 0 {
		return position{-1, 0}
	}
	return position{p.chunk - 1, len(l.chunks[p.chunk-1].entries) - 1}
}

// at returns the element at p, or the end that is there.
func (l *list) at(p position) element {
	if p.chunk >= 0 && p.chunk < len(l.chunks) {
		return l.chunks[p.chunk].entries[p.index].element()
	}
	if p.chunk < 0 {
		return element{}
	}
	return l.rules.high()
}

// link is where it is kept whether the entry at p, or the low end, is linked.
func (l *list) link(p position) *bool {
	if p.chunk < 0 {
		return &l.linked
	}
	return &l.chunks[p.chunk].entries[p.index].linked
}

func (l *list) use(p position) {
	if p.chunk >= 0 {
		l.chunks[p.chunk].used = true
	}
}

// find returns the element of value x.
func (l *list) find(x int64) (element, bool) {
	p := l.floor(x)
	l.use(p)
	e := l.at(p)
	return e, p.chunk >= 0 && e.value == x
}

// A gap is what is between two elements known to be in the index.
type gap struct {
	left, right element // the nearest known elements, or ends of the index
	linked      bool    // whether they are neighbours in the index: the gap is really empty
}

func (g gap) compare(h gap) int { return g.left.label.compare(h.left.label) }

// gap returns the place of value x between known elements. If x itself is in the list, that is
// the gap above it.
func (l *list) gap(x int64) gap { return l.above(l.floor(x)) }

func (l *list) above(p position) gap {
	l.use(p)
	return gap{l.at(p), l.at(l.next(p)), *l.link(p)}
}

// unlinked returns the first gap that is not known to be empty, at or above an element or the low end.
func (l *list) unlinked(from element) (gap, bool) {
	for p := l.floorLabel(from.label); p.chunk < len(l.chunks); p = l.next(p) {
		if !*l.link(p) {
			return gap{left: l.at(p), right: l.at(l.next(p))}, true
		}
	}
	return gap{}, false
}

// lowest returns the lowest neighbour that is known below the gap above x: up to most elements are between the two.
func (l *list) lowest(x int64, most int) element {
	p := l.floor(x)
	for linked := *l.link(p); linked && most > 0 && p.chunk >= 0 && *l.link(l.previous(p)); most-- {
		p = l.previous(p)
	}
	return l.at(p)
}

// insert adds an element that was put into the index between its neighbours here: where they were
// linked, both are linked to it. An element that is there already is left as it is. One that is
// out of order is errCorrupt and not inserted.
func (l *list) insert(e element) error {
	p := l.floor(e.value)
	left, right := l.at(p), l.at(l.next(p))
	if p.chunk >= 0 && left.value == e.value && left.label == e.label {
		l.use(p)
		return nil
	}
	if p.chunk >= 0 && left.value == e.value || !left.label.less(e.label) || !e.label.less(right.label) {
		return fmt.Errorf("%w: an element is out of order", errCorrupt)
	}
	n := newEntry(e, *l.link(p))
	switch {
	case len(l.chunks) == 0:
		l.replace(0, 0, []entry{n})
	case p.chunk < 0:
		l.insertAt(position{0, 0}, n)
	default:
		l.insertAt(position{p.chunk, p.index + 1}, n)
	}
	return nil
}

// insertAt puts an entry before the index of a chunk.
func (l *list) insertAt(p position, n entry) {
	c := &l.chunks[p.chunk]
	if len(c.entries) == l.size {
		switch p.index {
		case 0: // so ascending and descending values leave full chunks
			l.replace(p.chunk, p.chunk, []entry{n})
		case l.size:
			l.replace(p.chunk+1, p.chunk+1, []entry{n})
		default:
			l.replace(p.chunk, p.chunk+1, slices.Insert(slices.Clone(c.entries), p.index, n))
		}
		return
	}
	if len(c.entries) == cap(c.entries) {
		size := min(len(c.entries)+max(chunkGrain, len(c.entries)/2), l.size)
		c.entries = append(make([]entry, 0, size), c.entries...)
	}
	c.entries = slices.Insert(c.entries, p.index, n)
	l.finger = p
	if p.index == 0 {
		c.value, c.label = n.value, n.label
	}
	c.used = true
	l.n++
	l.evict(p.chunk, p.chunk+1)
}

// replace puts entries in the place of the chunks from to to, excluded.
func (l *list) replace(from, to int, entries []entry) {
	for _, c := range l.chunks[from:to] {
		l.n -= len(c.entries)
	}
	l.n += len(entries)
	var refs []chunkRef
	for pieces := (len(entries) + l.size - 1) / l.size; pieces > 0; pieces-- {
		size := (len(entries) + pieces - 1) / pieces
		grains := (size + chunkGrain - 1) / chunkGrain
		c := &chunk{append(make([]entry, 0, grains*chunkGrain), entries[:size]...), false}
		refs = append(refs, chunkRef{entries[0].value, entries[0].label, c})
		entries = entries[size:]
	}
	l.chunks = slices.Replace(l.chunks, from, to, refs...)
	l.evict(from, from+len(refs))
}

// evict forgets chunks until the limit is kept, other than those from from to to, excluded: what
// was just written is what its writer looks for next.
func (l *list) evict(from, to int) {
	for l.limit > 0 && l.n > l.limit && len(l.chunks) > to-from {
		if l.hand >= len(l.chunks) {
			l.hand = 0
		}
		c := l.chunks[l.hand].chunk
		if c.used || from <= l.hand && l.hand < to {
			c.used = false
			l.hand++
			continue
		}
		*l.link(l.previous(position{l.hand, 0})) = false
		l.n -= len(c.entries)
		l.chunks = slices.Delete(l.chunks, l.hand, l.hand+1)
		if l.hand < from {
			from--
			to--
		}
	}
}

// forget forgets what is between two labels, and that what is next to it there is.
func (l *list) forget(m moved) {
	before := l.floorLabel(m.from)
	end := l.previous(position{len(l.chunks), 0})
	if m.to.less(l.rules.high().label) {
		if end = l.floorLabel(m.to); end.chunk >= 0 && l.at(end).label == m.to {
			end = l.previous(end)
		}
	}
	*l.link(before) = false
	if end == before {
		return
	}
	from := max(before.chunk, 0)
	var entries []entry
	if before.chunk >= 0 {
		entries = append(entries, l.chunks[from].entries[:before.index+1]...)
	}
	entries = append(entries, l.chunks[end.chunk].entries[end.index+1:]...)
	l.replace(from, end.chunk+1, entries)
}

// learn takes note of a run of neighbours of the index, as read at one instant or as written by a
// relabelling: ascending, the ends of the index among them where the run reaches these. What was
// known from its first to its last label is replaced. A run that is out of order in itself or with
// what is around it is errCorrupt, and not learnt: either the index is corrupt, or the list is of
// another generation of it.
func (l *list) learn(run []element) error {
	high := l.rules.high()
	lowest := len(run) > 0 && run[0].label.isZero()
	highest := len(run) > 0 && run[len(run)-1].label == high.label
	inner := run
	if lowest {
		inner = inner[1:]
	}
	if highest {
		inner = inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		if lowest && highest { // the index is empty
			l.clear()
			l.linked = true
		}
		return nil
	}
	first, last := inner[0], inner[len(inner)-1]

	// What is replaced is after before and up to end; oldLast is what was known of last.
	before, end := position{-1, 0}, l.previous(position{len(l.chunks), 0})
	knowsFirst, linkedLast := false, highest
	if !lowest {
		before = l.floorLabel(first.label)
		if before.chunk >= 0 && l.at(before).label == first.label {
			knowsFirst = l.at(before).value == first.value
			before = l.previous(before)
		}
	}
	if !highest {
		end = l.floorLabel(last.label)
		if end.chunk >= 0 && l.at(end).label == last.label {
			linkedLast = *l.link(end) && l.at(end).value == last.value
		}
	}

	after := l.next(end)
	ok := before.chunk < 0 || l.at(before).value < first.value
	ok = ok && (after.chunk == len(l.chunks) || last.value < l.at(after).value)
	ok = ok && !first.label.isZero() && last.label.less(high.label)
	for i := 1; ok && i < len(inner); i++ {
		ok = inner[i-1].value < inner[i].value && inner[i-1].label.less(inner[i].label)
	}
	if !ok {
		return fmt.Errorf("%w: a run of elements is out of order", errCorrupt)
	}

	if lowest {
		l.linked = true
	} else if !knowsFirst {
		*l.link(before) = false
	}
	// The chunks of before and after are replaced: the run goes between what remains of them.
	var entries []entry
	from := max(before.chunk, 0)
	to := min(max(end.chunk, from)+1, len(l.chunks))
	if before.chunk >= 0 {
		entries = append(entries, l.chunks[from].entries[:before.index+1]...)
	}
	for i, e := range inner {
		entries = append(entries, newEntry(e, i < len(inner)-1 || linkedLast))
	}
	if after.chunk < to {
		entries = append(entries, l.chunks[after.chunk].entries[after.index:]...)
	}
	l.replace(from, to, entries)
	return nil
}
