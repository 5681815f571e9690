package kerschbaum

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// A spot is where a value is at a version.
type spot struct {
	label   order.Label
	rank    order.Rank
	version ope.Version
}

func spotOf(e order.Element, v ope.Version) spot { return spot{e.Label, e.Rank, v} }

// put is insert, beside a step of the division of the unit, if there is one to take and values are put. Who looks for those that
// are there takes none.
func (s *shard) put(ctx context.Context, values []int64) (spots []spot, err error) {
	handOver, err := s.divide(ctx, values)
	if errors.Is(err, ope.ErrIndex) {
		return nil, err
	}
	if handOver == nil {
		return s.insert(ctx, values)
	}
	err = s.index.Parallel(2, func(i int) (err error) {
		if i == 1 {
			if err = handOver(); !errors.Is(err, ope.ErrIndex) {
				err = nil // another one does it, if the left neighbour cannot be reached
			}
			return err
		}
		spots, err = s.insert(ctx, values)
		return err
	})
	return spots, err
}

// mayDivide reports whether a step of a division may be due, and one of the values is in the part of the index that the unit
// has, but not in the index.
func (s *shard) mayDivide(ctx context.Context, values []int64) (is bool, err error) {
	if p, part, _, latest := s.knownPage(); latest && !s.due(p.Meta.State, part) {
		return false, nil
	}
	err = s.locate(ctx, true, func() (unlinked []order.Gap, err error) {
		for _, x := range values {
			if _, found := s.known.list.Find(x); found || !s.known.part.Covers(x) {
				continue
			}
			g := s.known.list.Gap(x)
			if is = g.Linked; is {
				return nil, nil // the others need not be known
			}
			unlinked = append(unlinked, g)
		}
		return unlinked, nil
	})
	return is, err
}

// insert makes sure that all values are in the index and returns where. New ones are placed in the order that they are given
// in. Values that occur twice are put once. Those that are in another part of the index are not put, and have the zero spot.
// What others have put is decided then, since they may have died, and others not find it.
func (s *shard) insert(ctx context.Context, values []int64) ([]spot, error) {
	spots := make([]spot, len(values))
	for conflicts, doubtful := 0, false; ; {
		var p plan
		err := s.locate(ctx, true, func() (unlinked []order.Gap, err error) {
			p, unlinked, err = s.plan(values, spots, &doubtful)
			return unlinked, err
		})
		switch {
		case err != nil:
			return nil, err
		case p.missing == 0 && doubtful:
			return spots, s.units.Settle(ctx, s.unit(p.version.Epoch))
		case p.missing == 0:
			return spots, nil
		case p.state == ope.StateSealed:
			if _, err := s.pass(ctx, p.version.Epoch, nil); err != nil {
				return nil, err
			}
			continue
		case len(p.Elements) == 0: // there is no room for any of them
			if err := s.makeRoom(ctx, p.Crowded); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.checkLimit(ctx, p.version.Epoch, len(p.Elements)); err != nil {
			return nil, err
		}
		applied, err := s.commitPlan(ctx, p)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if applied {
			conflicts, doubtful = 0, false
			for i, x := range values {
				if n, ok := slices.BinarySearchFunc(p.Elements, x, order.Element.CompareValue); ok {
					spots[i] = spotOf(p.Elements[n], p.version)
				}
			}
			continue
		}
		if p.exact {
			p.Gaps = p.Gaps[:1] // that anything has changed is enough to know
		}
		// What has come into the gaps, and where elements have moved: one of both is why it was refused.
		err = s.index.Parallel(2, func(i int) error {
			if i == 0 {
				return s.narrow(ctx, p.version, p.Gaps, nil)
			}
			return s.catchUp(ctx, p.version)
		})
		if err != nil {
			return nil, err
		}
		conflicts++
		if v, latest := s.version(); v != p.version || !latest {
			conflicts = 0 // who moves elements lets others go first
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return nil, err
		}
	}
}

// A plan is a commit that puts elements into gaps.
type plan struct {
	order.Batch
	version ope.Version
	state   ope.State
	missing int  // values that were not in the index
	exact   bool // the condition is the nonce, not the firsts
	nonce   ope.Nonce
}

// plan sets the spots of the values that are in the index, and plans to put the others there. It
// returns the gaps about which not enough is known for that, and sets doubtful if not all that is there is known to be decided. It
// is called with s.mu held.
func (s *shard) plan(values []int64, spots []spot, doubtful *bool) (p plan, unlinked []order.Gap, err error) {
	k := &s.known
	// It is cheaper to be conditional on the unit's nonce, as long as that is known to stand for all gaps, than on the place
	// in each gap being free. Any other client's commit defeats it, but only once in a generation: then k.exact is over.
	p = plan{version: k.version(), state: k.state, exact: k.exact, nonce: k.nonce}
	for i, x := range values {
		if spots[i].version == p.version {
			continue // put there by an earlier commit
		}
		if !k.part.Covers(x) {
			spots[i] = spot{}
			continue
		}
		if e, ok := k.list.Find(x); ok {
			spots[i], *doubtful = spotOf(e, p.version), *doubtful || k.list.Doubts(x)
			continue
		}
		p.missing++
		g := k.list.Gap(x)
		if !g.Linked {
			unlinked = append(unlinked, g)
			continue
		}
		if len(unlinked) > 0 || p.state == ope.StateSealed {
			continue
		}
		if err := p.Add(k.rules, x, g); err != nil {
			return p, nil, s.unit(k.epoch).Corrupt(err)
		}
	}
	return p, unlinked, nil
}

// commitPlan puts what is planned. It returns errMoved if the client knows better by now.
func (s *shard) commitPlan(ctx context.Context, p plan) (bool, error) {
	done, err := s.inTurn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	s.mu.Lock()
	k := &s.known
	outdated := k.version() != p.version || p.exact && (!k.exact || k.nonce != p.nonce)
	s.mu.Unlock()
	if outdated {
		return false, errMoved
	}
	u := s.unit(p.version.Epoch)
	cond := ope.Condition{State: p.state, Generation: p.version.Generation}
	if p.exact {
		cond.Nonce = &p.nonce
	} else {
		cond.Absent = p.Firsts
	}
	nonce := unitio.NewNonce()
	change := ope.Change{Meta: ope.Meta{State: max(p.state, ope.StateOpen), Generation: p.version.Generation, Nonce: nonce}}
	if p.state == ope.StateAbsent {
		change.Puts = append(change.Puts, u.SealHeader(unit.Header{}))
	}
	for _, e := range p.Elements {
		change.Puts = append(change.Puts, u.SealElement(e))
	}
	change.Puts = append(change.Puts, u.Marks(nonce, len(p.Elements), s.weight())...)
	applied, err := s.units.Commit(ctx, u, cond, change)
	if err != nil || !applied {
		return false, err
	}
	s.count(func(n *Stats) { n.Inserted += len(p.Elements) })

	s.mu.Lock()
	defer s.mu.Unlock()
	if k.version() != p.version {
		return true, nil
	}
	k.state = max(k.state, ope.StateOpen)
	k.exact = k.exact && p.exact && k.nonce == p.nonce
	k.nonce = nonce
	return true, s.inserted(u, p)
}

// inserted takes note of what was put into gaps, which were empty until then.
func (s *shard) inserted(u *unit.Unit, p plan) error {
	l := s.known.list
	elements := p.Elements
	slices.SortFunc(p.Gaps, order.Gap.Compare)
	for _, g := range p.Gaps {
		run := []order.Element{g.Left}
		for len(elements) > 0 && elements[0].Label.Less(g.Right.Label) {
			run = append(run, elements[0])
			elements = elements[1:]
		}
		run = append(run, g.Right)
		for i := 1; i < len(run)-1; i++ {
			// By now, an answer that came late may have made the list forget an end of the gap. A
			// link to what is beyond that end would be one between two that never were neighbours,
			// and no condition would stop the next value from being put between these.
			if l.Gap(run[i].Value) == (order.Gap{Left: run[i-1], Right: g.Right, Linked: true}) {
				if err := l.Insert(run[i]); err == nil {
					continue
				}
			}
			if err := s.learn(u, run); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// errMoved says that something has changed while it was read, so that it must be read again.
var errMoved = errors.New("the unit has changed")

// makeRoom makes room for the value x, which is not in the index as it is known, and whose gap is
// exhausted. It puts x there as well.
func (s *shard) makeRoom(ctx context.Context, x int64) error {
	for conflicts := 0; ; conflicts++ {
		applied, err := s.relabel(ctx, x)
		if applied || err != nil && !errors.Is(err, errMoved) {
			return err
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return err
		}
		// Perhaps there is room by now, or even x.
		s.mu.Lock()
		g, v, met := s.known.list.Gap(x), s.known.version(), s.known.met
		s.mu.Unlock()
		if met {
			if err := s.narrow(ctx, v, []order.Gap{g}, nil); err != nil {
				return err
			}
		}
		settled := false
		err = s.locate(ctx, false, func() ([]order.Gap, error) {
			if _, settled = s.known.list.Find(x); settled || !isOpen(s.known.state) || !s.known.part.Covers(x) {
				settled = true
				return nil, nil
			}
			g := s.known.list.Gap(x)
			if !g.Linked {
				return []order.Gap{g}, nil
			}
			_, settled, _ = s.known.rules.Place(g.Left, g.Right)
			return nil, nil
		})
		if settled || err != nil {
			return err
		}
	}
}

// relabel moves what is around the gap of x, by one commit or by a pass. It returns errMoved if
// what it read did not belong together, and false if another client's commit came first.
func (s *shard) relabel(ctx context.Context, x int64) (bool, error) {
	w, err := s.readWindow(ctx, x)
	if err != nil {
		return false, err
	}
	if !w.large {
		if w.gap < 0 {
			return false, nil // x is there by now
		}
		if _, ok, err := w.rules.Place(w.elements[w.gap-1], w.elements[w.gap]); err != nil {
			return false, w.unit.Corrupt(err)
		} else if ok {
			return false, nil // there is room by now
		}
	}
	for !w.large {
		rel, advice, err := w.rules.Relabel(w.elements, w.gap, s.window)
		if err != nil {
			return false, w.unit.Corrupt(err)
		}
		switch advice {
		case order.AdviseCommit:
			return s.commitRelabelling(ctx, w, rel, x)
		case order.AdviseLower:
			err = s.readLower(ctx, &w, x)
		case order.AdviseUpper:
			err = s.readUpper(ctx, &w)
		case order.AdvisePass:
			w.large = true
		}
		if err != nil {
			return false, err
		}
	}
	if s.rules.Published {
		_, err = s.pass(ctx, w.unit.Epoch, nil)
		return err == nil, err
	}
	return true, s.spreadOut(ctx, w.unit)
}

// A window is a run of neighbours around the gap of a value, as of one instant.
type window struct {
	unit     *unit.Unit
	meta     ope.Meta
	rules    order.Rules     // of the part of the index that the unit has
	header   *unit.Header    // is written again, if it is known
	least    uint64          // is written too, if it is not 0: so many values at least came into the unit
	elements []order.Element // ends of the index included
	gap      int             // the value belongs between gap-1 and gap; -1 if it is there
	large    bool            // no single commit can make room

	firsts [][]byte // of gaps, the places that must be free
	beside bool     // that is enough: others may have committed
}

// readWindow reads the neighbours of x: the whole unit if it is small.
func (s *shard) readWindow(ctx context.Context, x int64) (window, error) {
	s.mu.Lock()
	version, covers := s.known.version(), s.known.part.Covers(x)
	lowest := s.known.list.Lowest(x, s.window)
	w := window{rules: s.known.rules}
	s.mu.Unlock()
	w.unit = s.unit(version.Epoch)
	if !covers {
		return w, errMoved
	}
	from, high := w.rules.Low(), w.rules.High()
	limit := s.window + 2
	first, err := s.readPart(ctx, &w, from, high, limit)
	if err != nil {
		return w, err
	}
	if first.More {
		if s.rules.Published {
			w.large = true // everything moves, but not in one commit
			return w, nil
		}
		from = lowest
		if first, err = s.readPart(ctx, &w, from, high, 2*limit); err != nil {
			return w, err
		}
		if len(first.Elements) == 0 || first.Elements[0].Label != from.Label && from.Shape.Depth > 0 {
			return w, errMoved
		}
	}
	if w.meta.Generation != version.Generation {
		return w, errMoved // the unit may have another part by now
	}
	w.elements = first.Elements
	if from.Shape.Depth == 0 {
		w.elements = append([]order.Element{from}, w.elements...)
	}
	if !first.More {
		w.elements = append(w.elements, high)
	}
	w.gap = order.Seek(w.elements, x)
	if w.gap == 0 || w.gap == len(w.elements) {
		// Others may have put many below it. The next read begins nearer if these are known.
		s.mu.Lock()
		_, err := s.take(first, from, high, version)
		s.mu.Unlock()
		return w, cmp.Or(err, errMoved)
	}
	return w, nil
}

// readPart reads from a label on, as of the instant that the window is of.
func (s *shard) readPart(ctx context.Context, w *window, from, to order.Element, limit int) (unit.Page, error) {
	p, err := s.read(ctx, w.unit.Epoch, from.Label, to.Label, limit)
	if err != nil {
		return p, err
	}
	if _, err := s.note(p); err != nil {
		return p, err
	}
	return p, w.join(p)
}

// join checks that a page is of the same instant as what was read before.
func (w *window) join(p unit.Page) error {
	if len(w.elements) == 0 {
		w.meta = p.Meta
	}
	if p.Meta != w.meta || !isOpen(p.Meta.State) {
		return errMoved
	}
	return nil
}

// readLower adds to the window neighbours below it, at most as many as one commit moves. How far
// down these reach is not known: it asks for several distances at once and takes the largest that
// brings all; if there is nothing in that, it goes on from there.
func (s *shard) readLower(ctx context.Context, w *window, x int64) error {
	lowest := w.elements[0].Label
	for base, rounds := lowest, 0; rounds < 16; rounds++ {
		bottom := w.rules.From
		spans := []span{{bottom, lowest, s.window + 1}}
		for n := s.rules.Bits - 2; n >= 2 && n < 128; n -= 2 {
			if distance := order.Power(n); distance.Less(base.Minus(bottom)) {
				spans = append(spans, span{base.Minus(distance), lowest, s.window + 1})
			}
		}
		pages, err := s.readAll(ctx, w.unit.Epoch, spans)
		if err != nil {
			return err
		}
		for _, p := range pages {
			if err := w.join(p); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(pages, func(p unit.Page) bool { return !p.More })
		if i < 0 {
			break // more than one commit moves, within some labels
		}
		more := pages[i].Elements
		if spans[i].from == bottom {
			more = append([]order.Element{w.rules.Low()}, more...)
		}
		if len(more) > 0 {
			w.elements = slices.Concat(more, w.elements)
			w.gap = order.Seek(w.elements, x)
			return nil
		}
		base = spans[i].from
	}
	w.large = true
	return nil
}

// readUpper adds to the window neighbours above it.
func (s *shard) readUpper(ctx context.Context, w *window) error {
	high := w.rules.High()
	highest := w.elements[len(w.elements)-1]
	p, err := s.readPart(ctx, w, highest, high, s.window+2)
	if err != nil {
		return err
	}
	if len(p.Elements) == 0 || p.Elements[0] != highest {
		return errMoved
	}
	w.elements = append(w.elements, p.Elements[1:]...)
	if !p.More {
		w.elements = append(w.elements, high)
	}
	return nil
}

// commitRelabelling moves the elements of a window, and puts x among them.
func (s *shard) commitRelabelling(ctx context.Context, w window, rel order.Relabelling, x int64) (bool, error) {
	if err := s.checkLimit(ctx, w.unit.Epoch, 1); err != nil {
		return false, err
	}
	rel.Elements[w.gap-rel.From].Value = x
	applied, err := s.commitMoves(ctx, w, unitio.NewNonce(), rel)
	if applied {
		s.count(func(n *Stats) { n.Relabels++; n.Inserted++ })
	}
	return applied, err
}

// commitMoves gives the elements of a window other places, and begins a generation with that. Others may have
// been put between them since they were read. So the commit is conditional on the unit being as it was then, or, beside
// others, on the first place in each gap of the window being free.
func (s *shard) commitMoves(ctx context.Context, w window, nonce ope.Nonce, rel order.Relabelling) (bool, error) {
	u, old := w.unit, w.elements[rel.From:rel.To]
	meta := ope.Meta{State: w.meta.State, Generation: w.meta.Generation + 1, Nonce: nonce}
	change := ope.Change{Meta: meta}
	moves := u.Move(&change, old, rel.Elements)
	u.AddMoved(&change, order.Moved{From: w.elements[rel.From-1].Label, To: w.elements[rel.To].Label}, s.kept)
	if w.header != nil {
		change.Puts = append(change.Puts, u.SealHeader(*w.header))
	}
	if w.least > 0 {
		change.Puts = append(change.Puts, u.SealLeast(w.least))
	}
	change.Puts = append(change.Puts, u.Marks(meta.Nonce, len(rel.Elements)-len(old), s.weight())...)
	cond := ope.Condition{State: w.meta.State, Generation: w.meta.Generation, Absent: w.firsts}
	if !w.beside {
		cond.Nonce = &w.meta.Nonce
	}
	applied, err := s.units.Commit(ctx, u, cond, change)
	if err != nil || !applied {
		return false, err
	}
	s.count(func(n *Stats) { n.Moved += moves })

	run := slices.Concat(w.elements[:rel.From], rel.Elements, w.elements[rel.To:])
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	if (k.version() != ope.Version{Epoch: u.Epoch, Generation: w.meta.Generation}) {
		return true, nil // more has happened since
	}
	// Outside of the window, everything is where it was.
	k.reach(meta.Generation)
	k.exact = k.exact && !w.beside && k.nonce == w.meta.Nonce
	k.nonce = meta.Nonce
	if err := k.list.Put(run); err != nil {
		k.list.Clear()
		k.exact = false
	}
	return true, nil
}
