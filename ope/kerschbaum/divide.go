package kerschbaum

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sort"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
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
//  2. The shard says that this is its left neighbour, and up to which label values are to be handed over.
//  3. It raises its low edge above some hundred of its lowest values. These belong to nobody now, and are frozen.
//  4. The left neighbour takes them, and raises its high edge as far.
//  5. The shard deletes them, with the commit of the next step 3, as long as there is one.
//
// Steps 2 to 4 begin a generation of the shard that they change, so that a client that does not know of them is refused, and
// reads. Labels and ciphertexts stay what they are. Who wants to insert between the edges, after step 3, takes step 4 first.
//
// A shard that was ever divided or came of that is in [ope.StateDivided], which earlier versions do not know and refuse.

// isOpen reports whether a unit in a state takes new records.
func isOpen(s ope.State) bool { return s == ope.StateOpen || s == ope.StateDivided }

// divides reports whether units are divided by this client.
func (b *base) divides() bool { return !b.rules.Published && b.limit > b.full }

// due reports whether there is a step of a division to take in a unit of a state, which has a part.
func (s *shard) due(state ope.State, is unit.Part) bool {
	return s.divides() && isOpen(state) && (is.Gives() || is.N > 0 || s.crowded.Load())
}

// divide takes a step of the division of a unit, if there is one to take and values are to be put. It returns what remains of
// that, which others need not wait for. Where other clients come first, it tries again: if not each of them handed over as
// much as it inserts, the unit would go on growing. Of one that has grown too much, it takes more steps.
func (s *shard) divide(ctx context.Context, values []int64) (handOver func() error, err error) {
	if may, err := s.mayDivide(ctx, values); err != nil || !may {
		return nil, err
	}
	const most = 8
	for tries, more := 0, s.excess(); tries < most; {
		var done bool
		if handOver, done, err = s.divideOnce(ctx); err != nil || done && (handOver == nil || more == 0) {
			return handOver, err
		}
		if done {
			tries, more = 0, more-1
			err = handOver()
		} else {
			tries++
			err = unitio.BackOff(ctx, tries)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// excess returns how many more steps than one it takes to divide a unit, as far as the client knows how much is in it: 8 where that
// is twice of what it is to have.
func (s *shard) excess() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(0, 8*(s.tally.values+s.tally.since-s.full)/s.full), 8)
}

// divideOnce is divide, for one try. It reports whether no other is due.
func (s *shard) divideOnce(ctx context.Context) (handOver func() error, done bool, err error) {
	p, is, taken, latest := s.knownPage()
	if !latest || !s.due(p.Meta.State, is) {
		return nil, true, nil
	}
	if known := int(is.N) == len(taken) && (is.N > 0 || is.Gives()); !known {
		p, ok, err := s.latest(ctx, p.Unit)
		switch {
		case err != nil:
			return nil, false, err
		case !ok:
			return nil, false, s.connect(ctx)
		case p.PartOf().N > 0:
			return nil, false, s.handOver(ctx, p)
		case !p.PartOf().Gives():
			return nil, true, s.beginDivision(ctx, p)
		}
	}
	return s.giveSome(ctx)
}

// beginDivision begins to divide a unit that has too many values.
func (s *shard) beginDivision(ctx context.Context, p unit.Page) error {
	is := p.PartOf()
	values, err := s.units.CountValues(ctx, p.Unit.Epoch)
	if err != nil {
		return err
	}
	if values <= s.full {
		s.crowded.Store(false)
		return nil
	}
	middle, err := s.middle(ctx, p.Unit, is, values)
	if err != nil || middle.IsZero() {
		return err
	}
	if !s.roomy(is, middle) {
		// A half of the unit could have too few labels for what comes, for ever: its edges will not move.
		w, err := s.counted(ctx, is.Low.Value)
		if err == nil {
			err = w.run(ctx)
		}
		if errors.Is(err, errElsewhere) {
			return nil
		}
		if err != nil {
			return err
		}
		// Others may divide it by now.
		var ok bool
		if p, ok, err = s.latest(ctx, p.Unit); err != nil || !ok {
			return err
		}
		if is = p.PartOf(); is.N > 0 || is.Gives() {
			return nil
		}
		if middle, err = s.middle(ctx, p.Unit, is, values); err != nil {
			return err
		}
	}
	if !is.Low.Label.Less(middle) {
		return nil // it is not what it was
	}
	return s.addNeighbour(ctx, p, is, middle)
}

// latest reads what a unit is and which part it has, and takes note of that. It reports whether this is the version that
// is known now, and open.
func (s *shard) latest(ctx context.Context, u *unit.Unit) (p unit.Page, ok bool, err error) {
	if p, err = s.units.ReadHeader(ctx, u); err == nil {
		ok, err = s.note(p)
	}
	return p, ok && isOpen(p.Meta.State), err
}

// roomyBits is how many bits the labels of a part must span that is not spread evenly before it is divided again. Each
// division of what is spread evenly takes one more.
const roomyBits = 84

// roomy reports whether what a unit has below a label, and what it has above, has labels enough.
func (s *shard) roomy(is unit.Part, middle order.Label) bool {
	r := is.Rules(s.rules)
	return middle.Minus(r.From).Length() > roomyBits && r.High().Label.Minus(middle).Length() > roomyBits
}

// middle returns about the label that half of the values of a unit are below, or zero if it is not known yet. It reads some of the
// unit if the client does not remember it.
func (s *shard) middle(ctx context.Context, u *unit.Unit, is unit.Part, values int) (order.Label, error) {
	s.mu.Lock()
	if l := s.known.list; l.Len() >= values/2 {
		defer s.mu.Unlock()
		return l.Middle().Label, nil
	}
	s.mu.Unlock()
	at, fewer, err := s.units.Middle(ctx, u, &s.found, is.Rules(s.rules), values, s.ahead)
	if fewer {
		s.crowded.Store(false) // it has fewer than was estimated
	}
	return at, err
}

// addNeighbour takes steps 1 and 2: it makes a left neighbour for a unit, to which the values below a label are to go.
func (s *shard) addNeighbour(ctx context.Context, p unit.Page, is unit.Part, until order.Label) error {
	nonce := unitio.NewNonce()
	number := binary.BigEndian.Uint32(nonce[:]) >> 8 // 24 bits
	if number == 0 {
		return nil // the first one has it; the next call draws another
	}
	left := s.of.shards.get(number, p.Unit.Epoch)
	u := left.unit(p.Unit.Epoch)
	made, err := left.units.Commit(ctx, u, ope.Condition{State: ope.StateAbsent}, ope.Change{
		Puts: []ope.Record{u.SealHeader(unit.Header{}), u.SealPart(unit.Part{Low: is.Low, High: is.Low, Left: is.Left})},
		Meta: ope.Meta{State: ope.StateDivided, Generation: p.Meta.Generation + 2, Nonce: unitio.NewNonce()},
	})
	if err != nil || !made {
		return err
	}
	is.Left, is.Until = number, until
	began, err := s.commitPart(ctx, &p, is, nothing, ope.Change{})
	if began {
		s.crowded.Store(false)
	}
	return err
}

// An edit is what a change of a unit's part does to its elements.
type edit struct {
	moved order.Moved     // between these labels some come or go
	free  [][]byte        // places that must be free for that, if others may have inserted
	run   []order.Element // are neighbours afterwards
	below *order.Element  // is the left neighbour of these, if nobody else has inserted
}

// nothing is an edit by which no element comes or goes.
var nothing = edit{moved: order.Moved{To: order.Label{Lo: 1}}}

// commitPart changes which part of the index a unit has, and begins a generation, with which the page goes on.
func (s *shard) commitPart(ctx context.Context, p *unit.Page, is unit.Part, e edit, change ope.Change) (bool, error) {
	change.Meta = ope.Meta{State: ope.StateDivided, Generation: max(p.Meta.Generation, change.Meta.Generation) + 1, Nonce: unitio.NewNonce()}
	change.Puts = append(change.Puts, p.Unit.SealPart(is))
	p.Unit.AddMoved(&change, e.moved, s.kept)
	was := ope.Version{Epoch: p.Unit.Epoch, Generation: p.Meta.Generation}
	s.mu.Lock()
	k := &s.known
	exact := k.exact && k.version() == was && k.nonce == p.Meta.Nonce
	s.mu.Unlock()
	cond := ope.Condition{State: p.Meta.State, Generation: p.Meta.Generation, Absent: e.free}
	if exact {
		cond.Absent, cond.Nonce = nil, &p.Meta.Nonce
		if e.below != nil {
			e.run = slices.Concat([]order.Element{*e.below}, e.run)
		}
	}
	applied, err := s.units.Commit(ctx, p.Unit, cond, change)
	if err != nil || !applied {
		return false, err
	}
	p.Meta = change.Meta
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.version() != was {
		return true, nil
	}
	k.reach(p.Meta.Generation)
	k.state, k.exact, k.nonce = p.Meta.State, exact && k.exact, p.Meta.Nonce
	k.setPart(is, s.rules)
	k.list.Forget(e.moved)
	if e.run != nil && k.list.Put(e.run) != nil {
		k.list.Clear()
		k.exact = false
	}
	return true, nil
}

// lowest returns the lowest elements of a unit, at most n of them: those that the client remembers, or else what it reads.
// It returns none if something has changed.
func (s *shard) lowest(ctx context.Context, p unit.Page, rules order.Rules, n int) ([]order.Element, error) {
	version := ope.Version{Epoch: p.Unit.Epoch, Generation: p.Meta.Generation}
	s.mu.Lock()
	lowest, ok := s.known.list.Bottom(n)
	ok = ok && s.known.version() == version
	s.mu.Unlock()
	if ok {
		return lowest, nil
	}
	read, err := s.read(ctx, p.Unit.Epoch, rules.From.Next(), rules.High().Label, n)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// If it is of another commit than what is known, the next one is not conditional on that.
	if ok, err := s.take(read, rules.Low(), rules.High(), version); err != nil || !ok {
		return nil, err
	}
	return read.Elements, nil
}

// giveSome takes step 3, and returns step 4. It reports whether it has done that, or there was nothing to do.
func (s *shard) giveSome(ctx context.Context) (handOver func() error, done bool, err error) {
	p, is, frozen, err := s.freeze(ctx)
	if err != nil || len(frozen) == 0 {
		return nil, false, cmp.Or(err, s.connect(ctx))
	}
	return func() error {
		left := s.of.shards.get(is.Left, p.Unit.Epoch)
		done, err := left.takeOver(ctx, p.Unit.Epoch, is, frozen)
		if err != nil || !done {
			return err
		}
		s.mu.Lock()
		if s.known.part == is {
			s.known.taken = frozen
		}
		s.mu.Unlock()
		if is.Gives() && is.Gone/directoryEvery == (is.Gone-uint64(len(frozen)))/directoryEvery {
			return nil
		}
		return left.list(ctx, is.Low, p.Unit.Epoch)
	}, true, nil
}

// knownPage returns what the client knows of a unit, in the place of a page, and whether there is nothing later.
func (s *shard) knownPage() (p unit.Page, is unit.Part, taken []order.Element, latest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	p = unit.Page{Unit: s.unit(max(k.epoch, 1)), Meta: ope.Meta{State: k.state, Generation: k.generation, Nonce: k.nonce}}
	return p, k.part, k.taken, k.latest()
}

// freeze takes step 3: it freezes some of the lowest values of a unit, and returns them. What was taken before, by the left
// neighbour, it deletes with the same commit. It goes by what the client knows. If that is out of date, or there is nothing
// to freeze any more, it returns none.
func (s *shard) freeze(ctx context.Context) (p unit.Page, is unit.Part, frozen []order.Element, err error) {
	done, err := s.inTurn(ctx)
	if err != nil {
		return p, is, nil, err
	}
	defer done()
	p, is, taken, latest := s.knownPage()
	if !latest || int(is.N) != len(taken) || is.N == 0 && !is.Gives() {
		return p, is, nil, nil
	}
	rules := is.Rules(s.rules)
	if !is.Gives() {
		return p, is, nil, s.endDivision(ctx, p, is, taken)
	}
	lowest, err := s.lowest(ctx, p, rules, s.chunk+1)
	if err != nil || lowest == nil {
		return p, is, nil, err
	}
	n := sort.Search(len(lowest)-1, func(i int) bool { return !lowest[i].Label.Less(is.Until) })
	if n == 0 {
		return p, is, nil, s.endDivision(ctx, p, is, taken)
	}
	frozen, next := lowest[:n], lowest[n]
	free, err := rules.Firsts(slices.Concat([]order.Element{rules.Low()}, lowest[:n+1]), nil)
	if err != nil {
		return p, is, nil, p.Unit.Corrupt(err)
	}
	is.Given, is.Low = is.Low, next
	is.N, is.Since = uint32(n), p.Meta.Generation+1
	is.Gone += uint64(n)
	applied, err := s.commitPart(ctx, &p, is, edit{
		moved: order.Moved{From: rules.From, To: next.Label},
		free:  free,
		run:   []order.Element{is.Rules(s.rules).Low(), next},
	}, ope.Change{Deletes: order.KeysOf(taken)})
	if err == nil && !applied {
		s.mu.Lock()
		// Others may have put values among these, so that they are to be read.
		s.known.list.Forget(order.Moved{From: rules.From, To: rules.From.Next()})
		s.mu.Unlock()
		_, _, err = s.latest(ctx, p.Unit)
	}
	if err != nil || !applied {
		return p, is, nil, err
	}
	s.mu.Lock()
	s.tally.values -= n
	s.mu.Unlock()
	return p, is, frozen, nil
}

// endDivision deletes what was taken last of a unit, and says that no more is to be handed over.
func (s *shard) endDivision(ctx context.Context, p unit.Page, is unit.Part, taken []order.Element) error {
	is.Until, is.N, is.Since, is.Given = order.Label{}, 0, 0, order.Element{}
	ended, err := s.commitPart(ctx, &p, is, nothing, ope.Change{Deletes: order.KeysOf(taken)})
	if err != nil {
		return err
	}
	if !ended {
		_, _, err := s.latest(ctx, p.Unit)
		return err
	}
	s.mu.Lock()
	s.tally = tally{} // is counted again
	s.mu.Unlock()
	return nil
}

// handOver takes steps 4 and 5 of a unit of which label 0 was read, and which has frozen some: the left neighbour takes these, which are
// deleted then. Who finds that something has changed in between does nothing.
func (s *shard) handOver(ctx context.Context, p unit.Page) error {
	is := p.PartOf()
	frozen, err := s.units.Frozen(ctx, p)
	if err != nil || frozen == nil {
		return err
	}
	if err := s.units.Settle(ctx, p.Unit); err != nil {
		return err // what others put into the neighbour then would be missed by who finds its place here yet
	}
	left := s.of.shards.get(is.Left, p.Unit.Epoch)
	taken, err := left.takeOver(ctx, p.Unit.Epoch, is, frozen)
	if err != nil || !taken {
		return err
	}
	if is.Gives() {
		is.N, is.Since, is.Given = 0, 0, order.Element{}
		_, err = s.commitPart(ctx, &p, is, nothing, ope.Change{Deletes: order.KeysOf(frozen)})
	} else {
		err = s.endDivision(ctx, p, is, frozen)
	}
	if err != nil {
		return err
	}
	return left.list(ctx, is.Low, p.Unit.Epoch)
}

// list puts a shard that ends at an edge into the directory.
func (s *shard) list(ctx context.Context, high order.Element, epoch uint64) error {
	return s.of.shards.first().units.List(ctx, unit.Listing{Number: s.number, High: high, Epoch: epoch})
}

// directoryEvery is after how many values that were handed over the directory says where a shard ends.
const directoryEvery = 50_000

// takeOver takes step 4: what its right neighbour, of a part, has frozen. It reports whether it is here by now.
func (s *shard) takeOver(ctx context.Context, epoch uint64, of unit.Part, frozen []order.Element) (bool, error) {
	done, err := s.inTurn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	s.share(true)
	p, is, _, known := s.knownPage()
	if known = known && p.Unit.Epoch == epoch; !known {
		p.Unit = s.unit(epoch)
	}
	for ; ; known = false {
		if !known {
			var err error
			if p, _, err = s.latest(ctx, p.Unit); err != nil {
				return false, err
			}
			is = p.PartOf()
		}
		if unit.SameEdge(is.High, of.Low) {
			if known {
				continue
			}
			return s.units.Decide(ctx, p.Unit, p.Meta) // others may not have seen yet what another client has committed
		}
		if !is.Top && unit.SameEdge(is.High, of.Given) {
			taken, err := s.takeFrozen(ctx, p, is, of, frozen)
			if taken || err != nil {
				return taken, err
			}
		}
		if !known {
			if is.High.Label.Less(of.Given.Label) {
				return false, s.hole(ctx, p)
			}
			return false, nil
		}
	}
}

// takeFrozen adds to a unit, of a part, what its right neighbour has frozen.
func (s *shard) takeFrozen(ctx context.Context, p unit.Page, is, of unit.Part, frozen []order.Element) (bool, error) {
	e := edit{moved: order.Moved{From: is.High.Label.Previous(), To: of.Low.Label}}
	s.mu.Lock()
	if last := s.known.list.Gap(s.domain.Max); last.Linked {
		e.below = &last.Left
	}
	s.mu.Unlock()
	frozen, is.High = order.Joined(is.High, frozen, of.Low)
	e.run = slices.Concat(frozen, []order.Element{is.Rules(s.rules).High()})
	is.Came += uint64(len(frozen))
	// A value's generation rises with it, so that versions do.
	change := ope.Change{Meta: ope.Meta{Generation: of.Since}}
	for _, e := range frozen {
		change.Puts = append(change.Puts, p.Unit.SealElement(e))
	}
	taken, err := s.commitPart(ctx, &p, is, e, change)
	if taken {
		s.count(func(n *Stats) { n.HandedOver += len(frozen) })
		s.of.shards.note(s, is)
	}
	return taken, err
}

// A gap between two neighbours holds what a unit has frozen, and its left neighbour has not taken yet.
type frozenGap struct {
	right *shard
	page  unit.Page // of that
}

// entries yields the values within that are in the gap, and raises the lower bound beyond them. It reports whether there may
// be more: all of them, if others have gone on.
func (g *frozenGap) entries(ctx context.Context, within *reading, yield func(order.Element, ope.Version) bool) (bool, error) {
	s, u, is := g.right, g.page.Unit, g.page.PartOf()
	frozen, err := s.units.Frozen(ctx, g.page)
	if err != nil || frozen == nil {
		return err == nil, err
	}
	version := ope.Version{Epoch: u.Epoch, Generation: is.Since}
	for _, e := range frozen {
		if e.Value < within.Min {
			within.below = &e
			continue
		}
		if e.Value > within.Max || !yield(e, version) {
			return false, nil
		}
	}
	within.Min = is.Low.Value
	return within.Min <= within.Max, nil
}

// follow goes to where a value is that a shard, as far as this client knows, does not have: it takes note of what the
// shards say by now. If the value is in none of them, it returns the gap where it is.
func (s *Scheme) follow(ctx context.Context, sh *shard, x int64) (*frozenGap, error) {
	for from := sh; ; {
		if err := sh.connect(ctx); err != nil {
			return nil, err
		}
		sh.mu.Lock()
		is, epoch, latest := sh.known.part, sh.known.epoch, sh.known.latest()
		sh.mu.Unlock()
		s.shards.note(sh, is)
		if !latest || s.shards.at(x) != from {
			return nil, nil
		}
		if !is.Top && x >= is.High.Value {
			return nil, s.below(ctx, sh, epoch, x)
		}
		if is.Left == 0 || x >= is.Low.Value {
			return nil, nil
		}
		left := s.shards.get(is.Left, epoch)
		below, _, err := left.latest(ctx, left.unit(epoch))
		if err != nil {
			return nil, err
		}
		has := below.PartOf()
		s.shards.note(left, has)
		if x >= has.High.Value && !has.Top {
			p, _, err := sh.latest(ctx, sh.unit(epoch))
			switch is := p.PartOf(); {
			case err != nil || x >= is.Low.Value:
				return nil, err
			case is.N > 0 && x >= is.Given.Value:
				return &frozenGap{sh, p}, nil
			}
			return nil, s.below(ctx, left, epoch, x) // it was taken before that was read
		}
		if x >= has.Low.Value {
			return nil, nil
		}
		sh = left // which may have nothing, so that nothing else leads there
	}
}

// lead is follow, and takes steps 4 and 5 for what is in the gap.
func (s *Scheme) lead(ctx context.Context, sh *shard, x int64) error {
	gap, err := s.follow(ctx, sh, x)
	if err != nil || gap == nil {
		return err
	}
	return gap.right.handOver(ctx, gap.page)
}

// below looks again whether a unit has a value that is above what it had, and below where it has once ended.
func (s *Scheme) below(ctx context.Context, sh *shard, epoch uint64, x int64) error {
	p, _, err := sh.latest(ctx, sh.unit(epoch))
	if err == nil && p.Meta.State != ope.StateRetired && x >= p.PartOf().High.Value {
		err = sh.hole(ctx, p)
	}
	return err
}

// hole returns that a unit, of which a page was read, should have more values, unless others have not yet decided a change of it.
func (s *shard) hole(ctx context.Context, p unit.Page) error {
	latest, err := s.units.Decide(ctx, p.Unit, p.Meta)
	if latest {
		err = p.Unit.Corrupt(order.ErrHole)
	}
	return err
}
