package kerschbaum

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// What a client knows is of one epoch and one generation of it, in which records neither move nor
// vanish: whatever was read of them at any instant can be put together. What may be out of date is
// only that two neighbours are neighbours still, and a commit finds that out: the first element
// that anyone puts between them has the label of order.Rules.Place.
//
// Each generation but the first has a record of where elements moved when it began. A client that meets a later
// one reads these, and forgets what it knew there. What is elsewhere goes on to hold.

// known is what a client knows of the index. It is guarded by shard.mu.
type known struct {
	epoch      uint64 // the present one, or an earlier one; 0: ask the root
	met        bool   // state and generation of the epoch were read
	state      ope.State
	generation uint64
	ahead      uint64          // a later generation was met, and where elements have moved since is to be read; 0: none
	part       unit.Part       // what of the index the unit has in this generation
	taken      []order.Element // of what the part says is being handed over, what the left neighbour has, and is to be deleted
	rules      order.Rules     // for that
	list       *order.List

	// The links of the list are exact as of the commit named nonce: as long as the unit's nonce
	// is this one, no element is missing between linked ones.
	exact bool
	nonce ope.Nonce

	disputes int // how often something read did not fit to the list, in this generation
	asked    int // elements that were asked for in this epoch, to find where values go

	readTo order.Label // below that, who puts few values at a time has read ahead
	front  order.Label // up to there, what moved last was read again
}

// version returns the version of the list.
func (k *known) version() ope.Version { return ope.Version{Epoch: k.epoch, Generation: k.generation} }

// find returns an element that is remembered, and of which nothing says that it may have moved since. A rank never moves.
func (k *known) find(x int64) (order.Element, bool) {
	e, ok := k.list.Find(x)
	return e, ok && (k.ahead == 0 || k.rules.RankBits > 0)
}

// enter goes on to a later epoch.
func (k *known) enter(epoch uint64) {
	k.epoch, k.met, k.generation, k.ahead, k.asked = epoch, false, 0, 0, 0
	k.forget()
}

func (k *known) forget() {
	k.list.Clear()
	k.exact, k.disputes, k.readTo = false, 0, order.Label{}
}

// begin takes the epoch as it is, of which nothing else is known.
func (k *known) begin(meta ope.Meta, is unit.Part, r order.Rules) {
	k.forget()
	k.setPart(is, r)
	k.met, k.generation, k.state, k.ahead = true, meta.Generation, meta.State, 0
	k.exact, k.nonce = true, meta.Nonce
}

// reach goes on to a generation of which everything is known that has changed.
func (k *known) reach(generation uint64) {
	if k.generation = generation; k.ahead <= generation {
		k.ahead = 0
	}
}

// setPart says which part of the index it is that is known, by the rules of the index. What of other parts is known must
// be forgotten then.
func (k *known) setPart(is unit.Part, r order.Rules) {
	k.part, k.rules, k.taken = is, is.Rules(r), nil
	k.list.SetRules(k.rules)
}

// meet takes note of the meta that came with a page, and reports whether the page is of the generation that is known now.
func (s *shard) meet(p unit.Page) (bool, error) {
	k, u, meta := &s.known, p.Unit, p.Meta
	if u.Epoch < k.epoch || k.met && u.Epoch == k.epoch && meta.Generation < k.generation {
		return false, nil // an old answer
	}
	switch {
	case meta.State > ope.StateDivided:
		return false, fmt.Errorf("%w: unit %q has the unknown state %d: a newer version of rangecrypt is needed", ope.ErrIndex, u.Name, meta.State)
	case meta.State == ope.StateRetired:
		k.enter(u.Epoch + 1)
		return false, nil
	case meta.State == ope.StateAbsent && s.number > 0:
		return false, u.Corrupt(fmt.Errorf("%w: it is missing, but others name it", order.ErrCorrupt))
	case meta.State == ope.StateAbsent && u.Epoch > 1:
		return false, u.Corrupt(fmt.Errorf("%w: it was never opened, but unit %d is retired", order.ErrCorrupt, u.Epoch-1))
	}
	if u.Epoch > k.epoch {
		k.enter(u.Epoch)
	}
	if !k.met {
		if meta.State == ope.StateDivided && p.Part == nil {
			return false, nil // which part it is must be read first
		}
		k.begin(meta, p.PartOf(), s.rules)
	}
	if meta.Generation > k.generation {
		k.ahead = max(k.ahead, meta.Generation)
		return false, nil
	}
	k.state = max(k.state, meta.State)
	k.exact = k.exact && meta.Nonce == k.nonce
	return true, nil
}

// note is meet with the lock.
func (s *shard) note(p unit.Page) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meet(p)
}

// learn takes note of a run that were neighbours at some instant of the known version. Others may have been put between
// them since, even by this client, which then forgets these. If the run does not fit to the list, one of both is wrong: the
// list is given up, and if it happens again and again it is the index.
func (s *shard) learn(u *unit.Unit, run []order.Element) error {
	k := &s.known
	err := k.list.Learn(run)
	if err == nil {
		return nil
	}
	if k.disputes++; k.disputes > 10 {
		return u.Corrupt(err)
	}
	k.list.Clear()
	k.exact = false
	if err := k.list.Learn(run); err != nil {
		return u.Corrupt(err)
	}
	return nil
}

// take takes note of the elements of a page that was read upwards from left to right, which were neighbours at a version,
// though perhaps with others between them. It reports whether that is the version of the page and of what is known now.
func (s *shard) take(p unit.Page, left, right order.Element, at ope.Version) (bool, error) {
	ok, err := s.meet(p)
	if !ok || err != nil {
		return false, err
	}
	whole := left == s.rules.Low() && right == s.rules.High() && s.known.part == unit.Whole(s.domain) // are so at any version
	if s.known.version() != at && !whole {
		return false, nil
	}
	run, err := p.Run(left, right)
	if err != nil {
		return false, err
	}
	return true, s.learn(p.Unit, run)
}

// version returns the version that is known, and whether it is the latest that was met.
func (s *shard) version() (v ope.Version, latest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.version(), s.known.latest()
}

// latest reports whether something of the version is known, and no later one was met.
func (k *known) latest() bool { return k.met && k.ahead == 0 }

// enter goes on to an epoch, unless a later one is known.
func (s *shard) enter(epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.epoch < epoch {
		s.known.enter(epoch)
	}
}

// connect finds out the present epoch and generation, unless something is known of them already.
func (s *shard) connect(ctx context.Context) error {
	for {
		s.mu.Lock()
		v, met, latest := s.known.version(), s.known.met, s.known.latest()
		s.mu.Unlock()
		if latest {
			return nil
		}
		if met {
			if err := s.catchUp(ctx, v); err != nil {
				return err
			}
			continue
		}
		var hint uint64
		var first unit.Page
		var err error
		header := func() { first, err = s.units.ReadHeader(ctx, s.unit(max(v.Epoch, 1))) }
		if v.Epoch > 0 {
			header()
		} else {
			// The root may name the first epoch, which most indexes never leave.
			rootErr := s.index.Parallel(2, func(i int) (rootErr error) {
				if i == 0 {
					hint, _, rootErr = s.readRoot(ctx)
				} else {
					header()
				}
				return rootErr
			})
			if rootErr != nil {
				return rootErr
			}
		}
		if hint > 1 {
			s.enter(hint)
			continue
		}
		if err == nil {
			err = s.takeFirst(first)
		}
		if err != nil {
			return err
		}
	}
}

// takeFirst takes note of the header of a unit.
func (s *shard) takeFirst(p unit.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, err := s.meet(p)
	if !ok || err != nil || p.Meta.State != ope.StateAbsent {
		return err
	}
	return s.learn(p.Unit, []order.Element{s.known.rules.Low(), s.known.rules.High()})
}

// catchUp goes on from a version to the latest generation of its epoch. It forgets what was known where elements
// have moved, or everything if not all of that is recorded any more. If few have moved, it reads them again, so that a client
// that inserts while others move elements does not come to know nothing.
func (s *shard) catchUp(ctx context.Context, from ope.Version) error {
	u := s.unit(from.Epoch)
	s.mu.Lock()
	far := s.known.ahead > from.Generation+uint64(s.kept) // what is recorded of that is deleted, and it can take long to read past it
	s.mu.Unlock()
	moved, err := s.units.ReadMoved(ctx, u, from.Generation, s.kept, !far)
	if err != nil {
		return err
	}
	g, limit, err := s.forget(from, moved)
	if err != nil {
		return err
	}
	return s.passBy(ctx, ope.Version{Epoch: from.Epoch, Generation: moved.Is.Generation}, moved, g, limit)
}

// passBy reads again what was known of what moved: so many elements of a gap. If a pass goes upwards, it also reads the element above the
// last that moved. Between these two are the labels that the pass has left. Who knows them does not read past those labels for
// other values. So then it reads the last elements that moved even where less was known.
func (s *shard) passBy(ctx context.Context, at ope.Version, moved unitio.Moved, g order.Gap, limit int) error {
	m := moved.Last()
	s.mu.Lock()
	k := &s.known
	upwards := k.rules.From.Less(m.From) && m.To.Less(k.rules.High().Label) && k.front.Less(m.From) && k.version() == at
	k.front = cmp.Or(m.From, k.front)
	s.mu.Unlock()
	spans := []span{{g.Left.Label, g.Right.Label, limit}}
	if upwards && limit < s.chunk*len(moved.All) {
		spans = append(spans, span{m.From, m.To, s.chunk - 1}) // two less than are there, as [order.List.ForgetAll]
	}
	if upwards {
		spans = append(spans, span{m.To, m.To.Next(), 1})
	}
	if limit == 0 {
		spans = spans[1:]
	}
	pages, err := s.readAll(ctx, at.Epoch, spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pages {
		ok := false
		if err == nil && i == 0 && limit > 0 {
			ok, err = s.take(p, g.Left, g.Right, at)
		} else if err == nil {
			ok, err = s.meet(p)
			if ok = ok && k.version() == at; ok {
				err = s.learn(p.Unit, p.Elements)
			}
		}
		if n := len(p.Elements); ok && n > 0 && spans[i].limit > 1 {
			k.front = p.Elements[n-1].Label
		}
	}
	return err
}

// forget forgets what has moved since a version. It returns the gap that this leaves, and how many elements of that to read
// again; 0 if that was not known, or is too much.
func (s *shard) forget(from ope.Version, moved unitio.Moved) (g order.Gap, limit int, err error) {
	is, first := moved.Is, moved.First
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	if k.version() != from {
		return g, 0, nil // somebody else was faster
	}
	if is.State == ope.StateRetired || is.State > ope.StateDivided || first.Meta.Generation != is.Generation {
		_, err := s.meet(first)
		return g, 0, err
	}
	if !moved.Whole {
		k.begin(first.Meta, first.PartOf(), s.rules)
		return g, 0, nil
	}
	k.setPart(first.PartOf(), s.rules)
	g, limit = k.list.ForgetAll(moved.All, k.front, s.ahead)
	// There may be no later one: what was met of it was never decided.
	k.generation, k.state, k.ahead, k.exact = is.Generation, max(k.state, is.State), 0, k.exact && is.Generation == from.Generation
	return g, limit, nil
}

// readRoot returns the epoch that the root names, or 0, and the root's meta. It takes note of the directory.
func (s *shard) readRoot(ctx context.Context) (uint64, ope.Meta, error) {
	is, directory, err := s.units.ReadRoot(ctx)
	s.of.shards.list(directory)
	return is.Generation, is, err
}

// narrow makes one step towards knowing whether values are in the index, and their neighbours if not: one round of parallel
// reads. Of each gap that is not known to be empty, it reads the lowest elements, and probes to split the rest evenly. The
// map of what probes found empty, which is kept between the steps, holds for the label of a right neighbour from where
// below it nothing was. Without a map there are no probes: so gaps are read again that another client may have filled.
func (s *shard) narrow(ctx context.Context, at ope.Version, gaps []order.Gap, empty map[order.Label]order.Label) error {
	const width = 4 // gaps that are probed with all probes; more of them share these
	perGap := 0
	if empty != nil {
		perGap = max(1, s.probes*width/max(width, len(gaps)))
	}
	var within []order.Gap // of the spans
	var spans []span
	for _, g := range gaps {
		within, spans = append(within, g), append(spans, span{g.Left.Label, g.Right.Label, s.pageSize()})
		to := g.Right.Label
		if below, ok := empty[to]; ok && g.Left.Label.Less(below) {
			to = below
		}
		// Each probe ends where the next one begins. So what was deleted in the gap is read past once, and not by each probe.
		probes := append(order.Probes(g.Left.Label, to, perGap), to)
		for i, to := range probes[1:] {
			within, spans = append(within, g), append(spans, span{probes[i], to, 1})
		}
	}
	pages, err := s.readAll(ctx, at.Epoch, spans)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pages { // before what was found in between, which may have come later
		if g := within[i]; spans[i].from == g.Left.Label {
			if _, err := s.take(p, g.Left, g.Right, at); err != nil {
				return err
			}
		}
	}
	above := order.Label{} // from there on nothing was found, up to the end of the gap
	for i, p := range slices.Backward(pages) {
		from, to, g := spans[i].from, spans[i].to, within[i]
		if from == g.Left.Label {
			continue
		}
		ok, err := s.meet(p)
		if s.known.version() != at && s.known.part != unit.Whole(s.domain) {
			ok = false // what was read may be elsewhere by now
		}
		if ok && err == nil && len(p.Elements) > 0 {
			err = s.learn(p.Unit, p.Elements[:1])
		} else if below, found := empty[g.Right.Label]; ok && (to == g.Right.Label || to == above || to == below) && (!found || from.Less(below)) {
			empty[g.Right.Label], above = from, from
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pageSize is how many elements a read of an unknown part asks for.
func (s *shard) pageSize() int { return int(s.reads.Load()) }

// A span is a read of the elements with from <= label < to, at most limit of them.
type span struct {
	from, to order.Label
	limit    int
}

// readAll reads spans of an epoch together.
func (s *shard) readAll(ctx context.Context, epoch uint64, spans []span) ([]unit.Page, error) {
	pages := make([]unit.Page, len(spans))
	return pages, s.index.Parallel(len(spans), func(i int) (err error) {
		pages[i], err = s.read(ctx, epoch, spans[i].from, spans[i].to, spans[i].limit)
		return err
	})
}

// readAhead reads all of the epoch that is not known, if the client seems to need that: once the reads that n more
// values take come to half of it, and if there is memory for it. Who loads values into an index that it does not know
// would else read most of it in small parts, some of them more than once. Who puts few values at a time reads about one page
// with each of them, so that none of them waits for long: some parts of one, where most is known. It reports whether it has
// read anything.
func (s *shard) readAhead(ctx context.Context, at ope.Version, n int) (done bool, err error) {
	s.mu.Lock()
	t := s.tally
	s.known.asked += n * s.pageSize()
	asked := s.known.asked
	s.mu.Unlock()
	few := n < s.pageSize()/16
	if t.epoch != at.Epoch {
		if few {
			return false, nil // to count would take longer
		}
		values, err := s.units.CountValues(ctx, at.Epoch)
		if err != nil {
			return false, err
		}
		t = tally{epoch: at.Epoch, values: values}
		s.mu.Lock()
		s.tally = t
		s.mu.Unlock()
	}
	if asked < (t.values+t.since)/2 {
		return false, nil
	}
	u := s.unit(at.Epoch)
	pages := u.ReadAhead(ctx, func(ctx context.Context, from, to []byte) (ope.View, error) {
		return s.units.ReadRecords(ctx, u, from, to, s.ahead)
	})
	defer pages.Stop()
	const parts = 8
	for from, read := (order.Label{}), 0; !few || read < s.ahead; done = true {
		s.mu.Lock()
		k := &s.known
		if few {
			from = k.readTo
		}
		g, more := k.list.Unlinked(from, s.ahead)
		if !more {
			k.asked, k.readTo = 0, order.Label{} // what is asked for from now on was forgotten, or has come since
		}
		more = more && k.latest() && k.version() == at && k.list.RoomFor(s.ahead)
		rules := k.rules
		s.mu.Unlock()
		if !more {
			break
		}
		p, err := pages.Page(g.Left, g.Right, rules)
		if err != nil {
			return done, err
		}
		read += max(len(p.Elements), s.ahead/parts)
		s.mu.Lock()
		ok, err := s.take(p, g.Left, g.Right, at)
		if err != nil || !ok {
			s.mu.Unlock()
			return true, err
		}
		if from = g.Right.Label; p.More {
			from = p.Elements[len(p.Elements)-1].Label
		}
		if few {
			k.readTo = from
		}
		s.mu.Unlock()
	}
	return done, nil
}

// locate calls use, with s.mu held, once the client knows of every value whether it is in the
// index, and its neighbours if not; use returns what is still unknown of, or nothing. It is called
// again after each step of reading. Who inserts also reads ahead.
func (s *shard) locate(ctx context.Context, inserts bool, use func() (unlinked []order.Gap, err error)) error {
	empty := map[order.Label]order.Label{}
	var version ope.Version
	s.share(false)
	for {
		if err := s.connect(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		if !s.known.latest() { // by now another goroutine has met a later version
			s.mu.Unlock()
			continue
		}
		if v := s.known.version(); v != version {
			version = v
			clear(empty)
		}
		unlinked, err := use()
		s.mu.Unlock()
		if err != nil || len(unlinked) == 0 {
			return err
		}
		if inserts {
			inserts = false // is decided once
			if done, err := s.readAhead(ctx, version, len(unlinked)); err != nil {
				return err
			} else if done {
				continue
			}
		}
		slices.SortFunc(unlinked, order.Gap.Compare)
		if err := s.narrow(ctx, version, slices.Compact(unlinked), empty); err != nil {
			return err
		}
	}
}

// inTurn waits until no other goroutine commits by what the client knows, and returns what ends the turn.
func (s *shard) inTurn(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// unit returns an epoch.
func (s *shard) unit(epoch uint64) *unit.Unit { return s.units.Unit(epoch) }

// seen returns the state and the generation that this client has met of an epoch, if it has met any, and whether it knows an
// element at a key in that generation.
func (s *shard) seen(epoch uint64, key []byte) (least ope.Meta, met, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.known
	met = k.met && k.epoch == epoch
	at, ok := order.ParseLabel(key)
	return ope.Meta{State: k.state, Generation: k.generation}, met, met && ok && k.list.Has(at)
}

// read returns the elements with from <= label < to, at most limit of them. Of those that another unit has by now, there
// are none.
func (s *shard) read(ctx context.Context, epoch uint64, from, to order.Label, limit int) (unit.Page, error) {
	s.mu.Lock()
	from = s.known.rules.ReadFrom(from)
	s.mu.Unlock()
	return s.units.Read(ctx, epoch, from, to, limit)
}
