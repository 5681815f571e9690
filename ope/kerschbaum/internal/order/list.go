package order

import (
	"fmt"
	"slices"
	"sort"
)

// A List is the part of an index that a client knows: elements ascending by value and by label at
// once. Of each element, and of the low end, it is known whether it is linked: whether the next
// element here is also the next in the index. It is not safe for concurrent use.
//
// It is a directory of chunks. Everything in it moves on an insertion of one value only within a
// chunk, so that a million values take some hundred nanoseconds; a tree would take less memory
// traffic and more code.
type List struct {
	rules  Rules
	limit  int
	Size   int // most entries of a chunk
	n      int
	linked bool // the low end
	chunks []chunkRef
	finger position // of an entry that is looked at first; it may be anywhere in the list or beyond
	hand   int      // of the clock that evicts
	marks
}

const (
	chunkSize  = 256
	chunkGrain = 32 // chunks are allocated in multiples of this, and grow by half, so that they waste little
)

// A chunkRef is a chunk and its first element, which searches compare with.
type chunkRef struct {
	value int64
	label Label
	*chunk
}

type chunk struct {
	piece
	used bool // since the hand of the clock last passed
}

// A piece is entries, of which a chunk has at least one and at most list.size, their values, and their ranks where elements
// have these. Values are apart, since searches read nothing else: in a large list each step among whole entries would wait for memory.
type piece struct {
	values  []int64
	entries []entry
	ranks   []Rank
}

// An entry is an element without its value and rank, its link, and when it was learnt, in 32 bytes.
type entry struct {
	label           Label
	depth, run, alt uint32
	learnt          uint16
	dir             int8
	linked          bool
}

func newEntry(e Element, linked bool, learnt uint16) entry {
	return entry{e.Label, e.Shape.Depth, e.Shape.Run, e.Shape.Alt, learnt, e.Shape.Dir, linked}
}

func (s piece) element(i int) Element {
	e := &s.entries[i]
	out := Element{Value: s.values[i], Label: e.label, Shape: Shape{e.depth, e.run, e.alt, e.dir}}
	if s.ranks != nil {
		out.Rank = s.ranks[i]
	}
	return out
}

// part returns what is from an index to another one, excluded.
func (s piece) part(from, to int) piece {
	out := piece{values: s.values[from:to], entries: s.entries[from:to]}
	if s.ranks != nil {
		out.ranks = s.ranks[from:to]
	}
	return out
}

// add appends others.
func (s *piece) add(o piece) {
	s.values = append(s.values, o.values...)
	s.entries = append(s.entries, o.entries...)
	s.ranks = append(s.ranks, o.ranks...)
}

// insert puts others before an index.
func (s *piece) insert(i int, o piece) {
	s.values = slices.Insert(s.values, i, o.values...)
	s.entries = slices.Insert(s.entries, i, o.entries...)
	if o.ranks != nil {
		s.ranks = slices.Insert(s.ranks, i, o.ranks...)
	}
}

// grown returns a copy with room for so many.
func (s piece) grown(size int) piece {
	out := newPiece(size, s.ranks != nil)
	out.add(s)
	return out
}

func newPiece(size int, ranked bool) piece {
	out := piece{values: make([]int64, 0, size), entries: make([]entry, 0, size)}
	if ranked {
		out.ranks = make([]Rank, 0, size)
	}
	return out
}

// between returns elements as entries, between two pieces.
func (l *List) between(below piece, elements []Element, above piece, linked func(i int) bool, learnt func(i int) uint16) (s piece) {
	s = newPiece(len(below.entries)+len(elements)+len(above.entries), l.rules.RankBits > 0)
	s.add(below)
	for i, e := range elements {
		s.values = append(s.values, e.Value)
		s.entries = append(s.entries, newEntry(e, linked(i), learnt(i)))
		if s.ranks != nil {
			s.ranks = append(s.ranks, e.Rank)
		}
	}
	s.add(above)
	return s
}

// NewList returns an empty list for an index under the rules. It holds at most limit elements, or
// what was written last and the rest of its chunks if that is more, and forgets runs of those that
// were not used for long; 0 is no limit.
func NewList(r Rules, limit int) *List { return &List{rules: r, limit: limit, Size: chunkSize} }

// Len returns the number of elements.
func (l *List) Len() int { return l.n }

// Middle returns about the middle one of the elements, of which there must be one.
func (l *List) Middle() Element {
	at := 0
	for i, c := range l.chunks {
		if at += len(c.entries); at > l.n/2 {
			return l.at(position{i, len(c.entries) / 2})
		}
	}
	return l.at(position{0, 0})
}

// RoomFor reports whether the list takes n more elements without forgetting others for them.
func (l *List) RoomFor(n int) bool { return l.limit == 0 || l.n+n < l.limit }

// SetRules says of which part of the index the list is from now on. What is outside of that must be forgotten, too.
func (l *List) SetRules(r Rules) { l.rules = r }

// SetLimit bounds how many elements the list holds.
func (l *List) SetLimit(limit int) {
	l.limit = limit
	l.evict(0, 0)
}

// Clear forgets everything.
func (l *List) Clear() { *l = List{rules: l.rules, limit: l.limit, Size: l.Size, marks: l.marks} }

// A position is that of an entry, or of the low end: chunk -1, index 0. That after the last entry
// of a chunk is the first of the next, or chunk len(chunks).
type position struct{ chunk, index int }

// floor returns the last entry whose value is at most x.
func (l *List) floor(x int64) position {
	// Who has asked for a gap goes on to insert there, and the next value is often near.
	if f := l.finger; f.chunk < len(l.chunks) {
		values := l.chunks[f.chunk].values
		if f.index < len(values) && values[f.index] <= x {
			next := l.next(f)
			if next.chunk == len(l.chunks) || x < l.chunks[next.chunk].values[next.index] {
				return f
			}
		}
	}
	c := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].value > x }) - 1
	if c < 0 {
		return position{-1, 0}
	}
	values := l.chunks[c].values
	l.finger = position{c, sort.Search(len(values), func(i int) bool { return values[i] > x }) - 1}
	return l.finger
}

// floorLabel returns the last entry whose label is at most c.
func (l *List) floorLabel(c Label) position {
	i := sort.Search(len(l.chunks), func(i int) bool { return c.Less(l.chunks[i].label) }) - 1
	if i < 0 {
		return position{-1, 0}
	}
	entries := l.chunks[i].entries
	return position{i, sort.Search(len(entries), func(i int) bool { return c.Less(entries[i].label) }) - 1}
}

func (l *List) next(p position) position {
	if p.chunk < 0 || p.index == len(l.chunks[p.chunk].entries)-1 {
		return position{p.chunk + 1, 0}
	}
	return position{p.chunk, p.index + 1}
}

func (l *List) previous(p position) position {
	if p.index > 0 {
		return position{p.chunk, p.index - 1}
	}
	if p.chunk == 0 {
		return position{-1, 0}
	}
	return position{p.chunk - 1, len(l.chunks[p.chunk-1].entries) - 1}
}

// at returns the element at p, or the end that is there.
func (l *List) at(p position) Element {
	if p.chunk >= 0 && p.chunk < len(l.chunks) {
		return l.chunks[p.chunk].element(p.index)
	}
	if p.chunk < 0 {
		return l.rules.Low()
	}
	return l.rules.High()
}

// link is where it is kept whether the entry at p, or the low end, is linked.
func (l *List) link(p position) *bool {
	if p.chunk < 0 {
		return &l.linked
	}
	return &l.chunks[p.chunk].entries[p.index].linked
}

func (l *List) use(p position) {
	if p.chunk >= 0 {
		l.chunks[p.chunk].used = true
	}
}

// Find returns the element of value x.
func (l *List) Find(x int64) (Element, bool) {
	p := l.floor(x)
	l.use(p)
	e := l.at(p)
	return e, p.chunk >= 0 && e.Value == x
}

// Has reports whether an element is at a label.
func (l *List) Has(c Label) bool {
	p := l.floorLabel(c)
	return p.chunk >= 0 && l.at(p).Label == c
}

// A Gap is what is between two elements known to be in the index.
type Gap struct {
	Left, Right Element // the nearest known elements, or ends of the index
	Linked      bool    // whether they are neighbours in the index: the gap is really empty
}

func (g Gap) Compare(h Gap) int { return g.Left.Label.Compare(h.Left.Label) }

// Gap returns the place of value x between known elements. If x itself is in the list, that is
// the gap above it.
func (l *List) Gap(x int64) Gap { return l.above(l.floor(x)) }

func (l *List) above(p position) Gap {
	l.use(p)
	return Gap{l.at(p), l.at(l.next(p)), *l.link(p)}
}

// Unlinked returns the first gap that is not known to be empty, at or above a label. It reaches up to the end of further such
// gaps, as long as few elements are between one and the next, and not many in all.
func (l *List) Unlinked(from Label, most int) (g Gap, found bool) {
	const apart = 64
	since := 0 // elements above the gap
	for p := l.floorLabel(from); p.chunk < len(l.chunks) && (!found || since < apart && most > 0); p = l.next(p) {
		if found {
			since, most = since+1, most-1
		}
		if *l.link(p) {
			continue
		}
		if !found {
			g.Left = l.at(p)
		}
		g.Right, found, since = l.at(l.next(p)), true, 0
	}
	return g, found
}

// Lowest returns the lowest neighbour that is known below the gap above x: up to most elements are between the two.
func (l *List) Lowest(x int64, most int) Element {
	p := l.floor(x)
	for linked := *l.link(p); linked && most > 0 && p.chunk >= 0 && *l.link(l.previous(p)); most-- {
		p = l.previous(p)
	}
	return l.at(p)
}

// Bottom returns the lowest n elements. It reports false unless all of these are known.
func (l *List) Bottom(n int) ([]Element, bool) {
	out := make([]Element, 0, n)
	for p := (position{-1, 0}); len(out) < n; {
		linked := *l.link(p)
		if p = l.next(p); !linked || p.chunk == len(l.chunks) {
			return nil, false
		}
		out = append(out, l.at(p))
	}
	return out, true
}

// Insert adds an element that this client has put into the index between its neighbours here: where they were
// linked, both are linked to it. An element that is there already is left as it is. One that is
// out of order is ErrCorrupt and not inserted.
func (l *List) Insert(e Element) error {
	p := l.floor(e.Value)
	left, right := l.at(p), l.at(l.next(p))
	if p.chunk >= 0 && left.Value == e.Value && left.Label == e.Label {
		l.use(p)
		return nil
	}
	if p.chunk >= 0 && !left.Rises(e) || !left.Label.Less(e.Label) || !e.Label.Less(right.Label) {
		return fmt.Errorf("%w: an element is out of order", ErrCorrupt)
	}
	linked := *l.link(p)
	n := l.between(piece{}, []Element{e}, piece{}, func(int) bool { return linked }, decided)
	switch {
	case len(l.chunks) == 0:
		l.replace(0, 0, n)
	case p.chunk < 0:
		l.insertAt(position{0, 0}, n)
	default:
		l.insertAt(position{p.chunk, p.index + 1}, n)
	}
	return nil
}

// insertAt puts an entry before the index of a chunk.
func (l *List) insertAt(p position, n piece) {
	c := &l.chunks[p.chunk]
	if len(c.entries) == l.Size {
		switch p.index {
		case 0: // so ascending and descending values leave full chunks
			l.replace(p.chunk, p.chunk, n)
		case l.Size:
			l.replace(p.chunk+1, p.chunk+1, n)
		default:
			both := c.grown(l.Size + 1)
			both.insert(p.index, n)
			l.replace(p.chunk, p.chunk+1, both)
		}
		return
	}
	if len(c.entries) == cap(c.entries) {
		size := min(len(c.entries)+max(chunkGrain, len(c.entries)/2), l.Size)
		c.piece = c.grown(size)
	}
	c.insert(p.index, n)
	l.finger = p
	if p.index == 0 {
		c.value, c.label = n.values[0], n.entries[0].label
	}
	c.used = true
	l.n++
	l.evict(p.chunk, p.chunk+1)
}

// replace puts a piece in the place of the chunks from to to, excluded.
func (l *List) replace(from, to int, s piece) {
	for _, c := range l.chunks[from:to] {
		l.n -= len(c.entries)
	}
	n := len(s.entries)
	l.n += n
	var refs []chunkRef
	for pieces := (n + l.Size - 1) / l.Size; pieces > 0; pieces-- {
		size := (n + pieces - 1) / pieces
		grains := (size + chunkGrain - 1) / chunkGrain
		c := &chunk{piece: s.part(0, size).grown(grains * chunkGrain)}
		refs = append(refs, chunkRef{c.values[0], c.entries[0].label, c})
		s, n = s.part(size, n), n-size
	}
	l.chunks = slices.Replace(l.chunks, from, to, refs...)
	l.evict(from, from+len(refs))
}

// evict forgets chunks until the limit is kept, other than those from from to to, excluded: what
// was just written is what its writer looks for next.
func (l *List) evict(from, to int) {
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

// Moved says that, when a generation began, elements between two labels moved, but none out of there. Both
// labels are excluded.
type Moved struct{ From, To Label }

// Forget forgets what is between two labels, and that what is next to it there is.
func (l *List) Forget(m Moved) {
	before := l.floorLabel(m.From)
	end := l.previous(position{len(l.chunks), 0})
	if m.To.Less(l.rules.High().Label) {
		if end = l.floorLabel(m.To); end.chunk >= 0 && l.at(end).Label == m.To {
			end = l.previous(end)
		}
	}
	*l.link(before) = false
	if end == before {
		return
	}
	from := max(before.chunk, 0)
	var rest piece
	if before.chunk >= 0 {
		rest.add(l.chunks[from].part(0, before.index+1))
	}
	rest.add(l.chunks[end.chunk].part(end.index+1, len(l.chunks[end.chunk].entries)))
	l.replace(from, end.chunk+1, rest)
}

// ForgetAll forgets what has moved in several generations, and returns the gap that this leaves. It also returns how many
// elements of that to read again, with the left end: 0 if they were not known, or are more than most. What is below the
// gap must have been known, up to where elements were last read again for that reason, the front.
func (l *List) ForgetAll(all []Moved, front Label, most int) (g Gap, limit int) {
	known, lowest := l.n, l.rules.High().Label
	for _, m := range all {
		l.Forget(m)
		if m.From.Less(lowest) {
			lowest = m.From
		}
	}
	forgotten := known - l.n
	if forgotten < 4 || forgotten > most { // the low end has up to two records instead of an element
		return g, 0
	}
	// A read looks for one element more than it returns, or for two, as HBase does. So two less are read than are there, or
	// those would be looked for among the labels that were left.
	g, _ = l.Unlinked(lowest, most)
	switch at := g.Left; {
	case at.Label == lowest:
		limit = forgotten - 1
	case at.Label == front:
		limit = forgotten + 1 // two were left the last time
	}
	return g, limit
}

// Put is Learn for a run as this client has written it, and as it is decided.
func (l *List) Put(run []Element) error {
	now := l.now
	l.now = 0
	defer func() { l.now = now }()
	return l.Learn(run)
}

// Learn takes note of a run of neighbours of the index, as read at one instant: ascending, the ends of the index among them where the run reaches these. What was
// known from its first to its last label is replaced. A run that is out of order in itself or with
// what is around it is ErrCorrupt, and not learnt: either the index is corrupt, or the list is of
// another generation of it.
func (l *List) Learn(run []Element) error {
	high := l.rules.High()
	lowest := len(run) > 0 && run[0] == l.rules.Low()
	highest := len(run) > 0 && run[len(run)-1] == high
	inner := run
	if lowest {
		inner = inner[1:]
	}
	if highest {
		inner = inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		if lowest && highest { // the index is empty
			l.Clear()
			l.linked = true
		}
		return nil
	}
	first, last := inner[0], inner[len(inner)-1]

	// What is replaced is after before and up to end; oldLast is what was known of last.
	before, end := position{-1, 0}, l.previous(position{len(l.chunks), 0})
	knowsFirst, linkedLast := false, highest
	if !lowest {
		before = l.floorLabel(first.Label)
		if before.chunk >= 0 && l.at(before).Label == first.Label {
			knowsFirst = l.at(before).Value == first.Value
			before = l.previous(before)
		}
	}
	if !highest {
		end = l.floorLabel(last.Label)
		if end.chunk >= 0 && l.at(end).Label == last.Label {
			linkedLast = *l.link(end) && l.at(end).Value == last.Value
		}
	}

	after := l.next(end)
	ok := before.chunk < 0 || l.at(before).Rises(first)
	ok = ok && (after.chunk == len(l.chunks) || last.Rises(l.at(after)))
	ok = ok && l.rules.From.Less(first.Label) && last.Label.Less(high.Label)
	for i := 1; ok && i < len(inner); i++ {
		ok = inner[i-1].Rises(inner[i]) && inner[i-1].Label.Less(inner[i].Label)
	}
	if !ok {
		return fmt.Errorf("%w: a run of elements is out of order", ErrCorrupt)
	}

	if lowest {
		l.linked = true
	} else if !knowsFirst {
		*l.link(before) = false
	}
	// The chunks of before and after are replaced: the run goes between what remains of them.
	var below, above piece
	from := max(before.chunk, 0)
	to := min(max(end.chunk, from)+1, len(l.chunks))
	if before.chunk >= 0 {
		below = l.chunks[from].part(0, before.index+1)
	}
	if after.chunk < to {
		above = l.chunks[after.chunk].part(after.index, len(l.chunks[after.chunk].entries))
	}
	l.replace(from, to, l.between(below, inner, above, func(i int) bool { return i < len(inner)-1 || linkedLast }, l.learnt(inner, l.next(before))))
	return nil
}
