package kerschbaum

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// A unit that has too many values hands the lower half of them over to a new one, its left neighbour: the protocol of
// Lehman and Yao's B-link trees (ACM TODS 1981), mirrored. Each shard, as the succession of units from then on is called,
// has a record that says which part of the index it has, and which shard has what is below that. Shard 0 keeps the highest
// values for ever. So what a client knows of shards may be out of date, but what it finds there leads it on:
// values below are to the left, and only values above are lost from sight, for which it begins further to the right.
//
// A shard takes these steps, each a commit, and any client may take the next one:
//
//  1. A new shard is made. It has nothing yet, and its high edge is where the shard's low edge is.
//  2. The shard says that this is its left neighbour, and how many values are to be handed over.
//  3. It raises its low edge above some hundred of its lowest values. These belong to nobody now, and are frozen.
//  4. The left neighbour takes them, and raises its high edge as far.
//  5. The shard deletes them, and goes on with step 3 until enough are handed over.
//
// Steps 2 to 4 begin a generation of the shard that they change, so that a client that does not know of them is refused, and
// reads. Labels and ciphertexts stay what they are. Who looks for a value between the edges, after step 3, takes step 4 first.
//
// A shard that was ever divided or came of that is in [ope.StateDivided], which earlier versions do not know and refuse.

// A part is what of the index a shard has.
type part struct {
	low   order.Element // the lowest label and value that belong here
	high  order.Element // the first that was above when it was handed over up to there
	top   bool          // nothing is above; high counts for nothing
	left  uint32        // the shard that has what is below; 0: none
	give  uint64        // so many values, the lowest ones, are yet to be handed over
	given order.Element // low, before the last that are being handed over
	n     uint32        // number of these, which are yet to be deleted; 0: none
	since uint64        // the generation that began when these were frozen
	gone  uint64        // values that were handed over so far
	came  uint64        // values that came from the right neighbour so far
}

// wholePart returns what a shard has that was never divided.
func (b *base) wholePart() part { return part{low: order.Element{Value: b.domain.Min}, top: true} }

// covers reports whether the part has the place of a value.
func (p part) covers(x int64) bool { return p.low.Value <= x && (p.top || x < p.high.Value) }

// rules returns the rules of the index for the part.
func (p part) rules(r order.Rules) order.Rules {
	var to order.Element
	if !p.top {
		to = p.high
	}
	return r.Within(p.low.Label.Previous(), to)
}

// partKey is the key of the record that says which part a unit has.
var partKey = append(order.Label{}.Bytes(), 'r')

const partSize = 3*(order.LabelSize+elementSize) + 1 + 2*4 + 4*8

func sealPart(u *unit, p part) ope.Record {
	b := make([]byte, 0, partSize)
	for _, e := range []order.Element{p.low, p.high, p.given} {
		b = appendElement(e.Label.Append(b), e)
	}
	top := byte(0)
	if p.top {
		top = 1
	}
	b = append(b, top)
	b = binary.BigEndian.AppendUint32(b, p.left)
	b = binary.BigEndian.AppendUint32(b, p.n)
	for _, n := range []uint64{p.since, p.give, p.gone, p.came} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return ope.Record{Key: partKey, Value: u.sealer.Seal(partKey, b)}
}

func (s *shard) openPart(u *unit, r ope.Record) (p part, err error) {
	b, err := u.sealer.Open(partKey, r.Value, partSize)
	if err != nil {
		return p, err
	}
	for _, e := range []*order.Element{&p.low, &p.high, &p.given} {
		at, _ := order.ParseLabel(b[:order.LabelSize])
		*e = parseElement(at, b[order.LabelSize:])
		b = b[order.LabelSize+elementSize:]
	}
	p.top = b[0] == 1
	p.left, p.n = binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint32(b[5:])
	for i, n := range []*uint64{&p.since, &p.give, &p.gone, &p.came} {
		*n = binary.BigEndian.Uint64(b[9+8*i:])
	}
	return p, nil
}

// partOf returns which part of the index a unit has, of which label 0 was read.
func (s *shard) partOf(p page) part {
	if p.part != nil {
		return *p.part
	}
	return s.wholePart()
}

// isOpen reports whether a unit in a state takes new records.
func isOpen(s ope.State) bool { return s == ope.StateOpen || s == ope.StateDivided }

// divides reports whether units are divided by this client.
func (b *base) divides() bool { return !b.rules.Published && b.limit > b.full }

// divide takes a step of the division of a unit, if there is one to take.
func (s *shard) divide(ctx context.Context) error {
	s.mu.Lock()
	k := &s.known
	due := s.divides() && k.latest() && isOpen(k.state) && (k.part.give > 0 || k.part.n > 0 || s.crowded.Load())
	u := s.unit(max(k.epoch, 1))
	s.mu.Unlock()
	if !due {
		return nil
	}
	p, err := s.readHeader(ctx, u)
	if err != nil || !isOpen(p.meta.State) {
		return err
	}
	if ok, err := s.note(p); err != nil || !ok {
		return err
	}
	is := s.partOf(p)
	switch {
	case is.n > 0:
		return s.handOver(ctx, p)
	case is.give > 0:
		return s.giveSome(ctx, p, is)
	case s.roomy():
		return s.beginDivision(ctx, p, is)
	}
	// A half of the unit could have too few labels for what comes, for ever: its edges will not move.
	w, err := s.counted(ctx, is.low.Value)
	if err == nil {
		err = w.run(ctx)
	}
	if errors.Is(err, errElsewhere) {
		return nil
	}
	if err == nil {
		p, err = s.readHeader(ctx, u)
	}
	if err != nil || !isOpen(p.meta.State) {
		return err
	}
	is = s.partOf(p)
	if is.n > 0 || is.give > 0 {
		return nil // others divide it by now
	}
	return s.beginDivision(ctx, p, is)
}

// roomyBits is how many bits the labels of a part must span that is not spread evenly before it is divided again. Each
// division of what is spread evenly takes one more.
const roomyBits = 84

// roomy reports whether, as far as the client knows the unit, both halves of its values have labels enough.
func (s *shard) roomy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, r := s.known.list, s.known.rules
	if l.Len() < s.full/2 {
		return false
	}
	middle := l.Middle().Label
	return middle.Minus(r.From).Length() > roomyBits && r.High().Label.Minus(middle).Length() > roomyBits
}

// beginDivision takes steps 1 and 2: it makes a left neighbour for a unit that has too many values.
func (s *shard) beginDivision(ctx context.Context, p page, is part) error {
	values, err := s.countValues(ctx, p.unit.epoch)
	if err != nil || values <= s.full {
		s.crowded.Store(false)
		return err
	}
	nonce := newNonce()
	number := binary.BigEndian.Uint32(nonce[:]) >> 8 // 24 bits
	if number == 0 {
		return nil // the first one has it; the next call draws another
	}
	left := s.of.shards.get(number, p.unit.epoch)
	u := left.unit(p.unit.epoch)
	made, err := left.commit(ctx, u, ope.Condition{State: ope.StateAbsent}, ope.Change{
		Puts: []ope.Record{left.sealHeader(u, header{}), sealPart(u, part{low: is.low, high: is.low, left: is.left})},
		Meta: ope.Meta{State: ope.StateDivided, Generation: p.meta.Generation + 1, Nonce: newNonce()},
	})
	if err != nil || !made {
		return err
	}
	is.left, is.give = number, uint64(values/2)
	began, err := s.commitPart(ctx, &p, &is, order.Moved{To: order.Label{Lo: 1}}, ope.Condition{})
	if began {
		s.crowded.Store(false)
	}
	return err
}

// commitPart changes which part of the index a unit has, or what it says of that, and begins a generation, with which
// the page goes on.
func (s *shard) commitPart(ctx context.Context, p *page, is *part, m order.Moved, cond ope.Condition) (bool, error) {
	meta := ope.Meta{State: ope.StateDivided, Generation: p.meta.Generation + 1, Nonce: newNonce()}
	change := ope.Change{Meta: meta, Puts: []ope.Record{sealPart(p.unit, *is)}}
	s.addMoved(&change, p.unit, m)
	cond.State, cond.Generation = p.meta.State, p.meta.Generation
	applied, err := s.commit(ctx, p.unit, cond, change)
	if applied {
		s.now(p.unit, p.meta.Generation, meta, *is, m, nil)
		p.meta = meta
	}
	return applied, err
}

// now takes note of what a commit of this client has made of a unit that was of a generation: its part, and a run of
// elements where some have come or gone.
func (s *shard) now(u *unit, was uint64, meta ope.Meta, is part, m order.Moved, run []order.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	if (k.version() != ope.Version{Epoch: u.epoch, Generation: was}) {
		return
	}
	k.generation, k.state, k.exact = meta.Generation, meta.State, false
	k.setPart(is, s.rules)
	k.list.Forget(m)
	if run != nil && k.list.Learn(run) != nil {
		k.list.Clear()
	}
}

// giveSome takes step 3, and those that follow: it freezes some of the lowest values of a unit.
func (s *shard) giveSome(ctx context.Context, p page, is part) error {
	rules := is.rules(s.rules)
	// From label 0 on, it would read past all that was deleted.
	lowest, err := s.read(ctx, p.unit.epoch, rules.From.Next(), s.rules.High().Label, s.chunk+1)
	if err != nil || lowest.meta.Generation != p.meta.Generation {
		return err
	}
	p.elements = lowest.elements
	n := int(min(uint64(s.chunk), is.give, uint64(max(len(p.elements)-1, 0))))
	if n == 0 {
		is.give = 0 // there are fewer than were thought
		_, err := s.commitPart(ctx, &p, &is, order.Moved{To: order.Label{Lo: 1}}, ope.Condition{})
		return err
	}
	w := window{unit: p.unit, rules: rules, elements: append([]order.Element{rules.Low()}, p.elements[:n+1]...)}
	free, err := w.places()
	if err != nil {
		return err
	}
	next := p.elements[n]
	is.given, is.low = is.low, next
	is.n, is.since = uint32(n), p.meta.Generation+1
	is.give, is.gone = is.give-uint64(n), is.gone+uint64(n)
	given, err := s.commitPart(ctx, &p, &is, order.Moved{From: rules.From, To: next.Label}, ope.Condition{Absent: free})
	if err != nil || !given {
		return err
	}
	return s.finishHandOver(ctx, p, is, p.elements[:n])
}

// handOver takes steps 4 and 5 of a unit of which label 0 was read: the left neighbour takes what is frozen, which is
// deleted then. Who finds that something has changed in between does nothing.
func (s *shard) handOver(ctx context.Context, p page) error {
	is := s.partOf(p)
	if is.n == 0 {
		return nil
	}
	frozen, meta, err := s.frozenPart(ctx, p.unit, is)
	if err != nil || meta.Generation != p.meta.Generation || len(frozen) != int(is.n) {
		return err
	}
	return s.finishHandOver(ctx, p, is, frozen)
}

// finishHandOver is handOver, of a unit of which the meta, the part and what is frozen are known.
func (s *shard) finishHandOver(ctx context.Context, p page, is part, frozen []order.Element) error {
	left := s.of.shards.get(is.left, p.unit.epoch)
	taken, err := left.takeOver(ctx, p.unit.epoch, is, frozen)
	if err != nil || !taken {
		return err
	}
	u, was := p.unit, is
	is.n, is.since, is.given = 0, 0, order.Element{}
	change := ope.Change{Meta: p.meta, Puts: []ope.Record{sealPart(u, is)}}
	change.Meta.Nonce = newNonce()
	for _, e := range frozen {
		change.Deletes = append(change.Deletes, e.Label.Bytes())
	}
	deleted, err := s.commit(ctx, u, ope.Condition{State: p.meta.State, Generation: p.meta.Generation}, change)
	if err != nil || !deleted {
		return err
	}
	s.count(func(n *Stats) { n.HandedOver += len(frozen) })
	s.mu.Lock()
	if (s.known.version() == ope.Version{Epoch: u.epoch, Generation: p.meta.Generation}) && s.known.part == was {
		s.known.part, s.known.exact = is, false
		s.tally.values -= len(frozen)
		if is.give == 0 {
			s.tally = tally{} // is counted again
		}
	}
	s.mu.Unlock()
	if is.give > 0 && is.gone/directoryEvery == (is.gone-uint64(len(frozen)))/directoryEvery {
		return nil
	}
	return s.of.direct(ctx, left.number, is.low, u.epoch)
}

// directoryEvery is after how many values that were handed over the directory says where a shard ends.
const directoryEvery = 50_000

// frozenPart returns the elements of a unit that are being handed over, and the unit's meta.
func (s *shard) frozenPart(ctx context.Context, u *unit, is part) ([]order.Element, ope.Meta, error) {
	from := is.given.Label.Previous().Next() // 1 for 0
	view, err := s.readRecords(ctx, u, from.Bytes(), is.low.Label.Bytes(), int(is.n)+1)
	if err != nil {
		return nil, ope.Meta{}, err
	}
	frozen := make([]order.Element, len(view.Records))
	for i, r := range view.Records {
		if frozen[i], err = s.openElement(u, r); err != nil {
			return nil, ope.Meta{}, err
		}
	}
	return frozen, view.Meta, nil
}

// takeOver takes step 4: what its right neighbour, of a part, has frozen. It reports whether it is here by now.
func (s *shard) takeOver(ctx context.Context, epoch uint64, of part, frozen []order.Element) (bool, error) {
	u := s.unit(epoch)
	p, err := s.readHeader(ctx, u)
	if err != nil {
		return false, err
	}
	if _, err := s.note(p); err != nil {
		return false, err
	}
	is := s.partOf(p)
	switch was := is.high; {
	case sameEdge(was, of.low):
		return true, nil
	case is.top || !sameEdge(was, of.given):
		return false, nil
	}
	m := order.Moved{From: is.high.Label.Previous(), To: of.low.Label}
	frozen, is.high = joined(is.high, frozen, of.low)
	is.came += uint64(len(frozen))
	// A value's generation rises with it, so that versions do.
	meta := ope.Meta{State: ope.StateDivided, Generation: max(p.meta.Generation, of.since) + 1, Nonce: newNonce()}
	change := ope.Change{Meta: meta, Puts: []ope.Record{sealPart(u, is)}}
	s.addMoved(&change, u, m)
	for _, e := range frozen {
		change.Puts = append(change.Puts, sealElement(u, e))
	}
	applied, err := s.commit(ctx, u, ope.Condition{State: p.meta.State, Generation: p.meta.Generation}, change)
	if applied {
		s.now(u, p.meta.Generation, meta, is, m, append(frozen[:len(frozen):len(frozen)], is.rules(s.rules).High()))
		s.of.shards.note(s, is)
	}
	return applied, err
}

// sameEdge reports whether the edges of two neighbours are the same. Each has a shape of its own.
func sameEdge(a, b order.Element) bool { return a.Label == b.Label && a.Value == b.Value }

// joined returns elements as they go to a shard with a high edge, and the next edge. The first is what the edge was taken
// for when others were put below it. Where others, or the next edge, are as deep as what they come beside, they are taken
// to be deeper.
func joined(edge order.Element, elements []order.Element, next order.Element) ([]order.Element, order.Element) {
	run := append(slices.Clone(elements), next, order.Element{})
	may := make([]bool, len(run))
	if edge.Shape.Depth > 0 && run[0].Shape != edge.Shape {
		run[0].Shape = edge.Shape
		for i := range may {
			may[i] = i > 0
		}
	}
	deepen(run, may)
	return run[:len(elements)], run[len(elements)]
}

// follow goes to where a value is that a shard, as far as this client knows, does not have: it takes note of what the
// shards say by now, and completes a step that was begun.
func (s *Scheme) follow(ctx context.Context, sh *shard, x int64) error {
	for from := sh; ; {
		if err := sh.connect(ctx); err != nil {
			return err
		}
		sh.mu.Lock()
		is, epoch, latest := sh.known.part, sh.known.epoch, sh.known.latest()
		sh.mu.Unlock()
		s.shards.note(sh, is)
		if !latest || is.left == 0 || x >= is.low.Value || s.shards.at(x) != from {
			return nil
		}
		left := s.shards.get(is.left, epoch)
		p, err := left.readHeader(ctx, left.unit(epoch))
		if err != nil {
			return err
		}
		if _, err := left.note(p); err != nil {
			return err
		}
		has := left.partOf(p)
		s.shards.note(left, has)
		if x >= has.high.Value && !has.top {
			p, err := sh.readHeader(ctx, sh.unit(epoch))
			if err == nil {
				_, err = sh.note(p)
			}
			if err != nil {
				return err
			}
			return sh.handOver(ctx, p)
		}
		if x >= has.low.Value {
			return nil
		}
		sh = left // which may have nothing, so that nothing else leads there
	}
}
