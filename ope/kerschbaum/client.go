package kerschbaum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
)

// What a client knows is of one epoch and one generation of it, in which records neither move nor
// vanish: whatever was read of them at any instant can be put together. What may be out of date is
// only that two neighbours are neighbours still, and a commit finds that out: the first element
// that anyone puts between them has the label of rules.place.

// known is what a client knows of the index. It is guarded by Scheme.mu.
type known struct {
	epoch      uint64 // the present one, or an earlier one; 0: ask the root
	met        bool   // state and generation of the epoch were read
	state      ope.State
	generation uint64
	list       *list

	// The links of the list are exact as of the commit named nonce: as long as the unit's nonce
	// is this one, no element is missing between linked ones.
	exact bool
	nonce ope.Nonce

	disputes int // how often something read did not fit to the list, in this generation
}

// version returns the version of the list.
func (k *known) version() ope.Version { return ope.Version{Epoch: k.epoch, Generation: k.generation} }

// enter goes on to a later epoch.
func (k *known) enter(epoch uint64) {
	k.epoch, k.met, k.generation = epoch, false, 0
	k.forget()
}

func (k *known) forget() {
	k.list.clear()
	k.exact, k.disputes = false, 0
}

// meet takes note of the meta that came with an answer, and reports whether the answer is of the
// generation that is known now.
func (s *Scheme) meet(u *unit, meta ope.Meta) (bool, error) {
	k := &s.known
	if u.epoch < k.epoch || k.met && u.epoch == k.epoch && meta.Generation < k.generation {
		return false, nil // an old answer
	}
	switch {
	case meta.State > ope.StateRetired:
		return false, fmt.Errorf("%w: unit %q has the unknown state %d: a newer version of rangecrypt is needed", ope.ErrIndex, u.name, meta.State)
	case meta.State == ope.StateRetired:
		k.enter(u.epoch + 1)
		return false, nil
	case meta.State == ope.StateAbsent && u.epoch > 1:
		return false, corrupt(u, fmt.Errorf("%w: it was never opened, but unit %d is retired", errCorrupt, u.epoch-1))
	}
	if u.epoch > k.epoch {
		k.enter(u.epoch)
	}
	if !k.met || meta.Generation > k.generation {
		if !s.guards.refreshAnyGeneration || !k.met {
			k.forget()
		}
		k.met, k.generation, k.state = true, meta.Generation, meta.State
		k.exact, k.nonce = true, meta.Nonce
	}
	k.state = max(k.state, meta.State)
	k.exact = k.exact && meta.Nonce == k.nonce
	return true, nil
}

// learn takes note of a run that were neighbours at some instant of the known version. Others may
// have been put between them since, even by this client, which then forgets these. If the run does
// not fit to the list, one of both is wrong: the list is given up, and if it happens again and
// again it is the index.
func (s *Scheme) learn(u *unit, run []element) error {
	k := &s.known
	err := k.list.learn(run)
	if err == nil {
		return nil
	}
	if k.disputes++; k.disputes > 10 {
		return corrupt(u, err)
	}
	k.list.clear()
	k.exact = false
	if err := k.list.learn(run); err != nil {
		return corrupt(u, err)
	}
	return nil
}

// take takes note of the elements of a page that was read upwards from left to right, which were
// neighbours at a version, though perhaps with others between them. It reports whether that is the
// version of the page and of what is known now.
func (s *Scheme) take(p page, left, right element, at ope.Version) (bool, error) {
	ok, err := s.meet(p.unit, p.meta)
	if !ok || err != nil {
		return false, err
	}
	whole := left.label.isZero() && s.isHigh(right.label) // are so at any version
	if s.known.version() != at && !whole && !s.guards.refreshAnyGeneration {
		return false, nil
	}
	run := p.elements
	if left.label.isZero() {
		run = append([]element{left}, run...)
	} else if len(run) == 0 || run[0] != left {
		if s.guards.refreshAnyGeneration {
			s.known.list.clear()
			return true, nil
		}
		return false, corrupt(p.unit, fmt.Errorf("%w: record %x is gone", errCorrupt, left.label.bytes()))
	}
	if !p.more {
		run = append(run, right)
	}
	return true, s.learn(p.unit, run)
}

// connect finds out the present epoch and generation, unless something is known of them already.
func (s *Scheme) connect(ctx context.Context) error {
	for {
		s.mu.Lock()
		epoch, met := s.known.epoch, s.known.met
		s.mu.Unlock()
		if met {
			return nil
		}
		low, high := s.rules.ends()
		if epoch == 0 {
			// The root may name the first epoch, which most indexes never leave.
			var p page
			var hint uint64
			var err, rootErr error
			var wg sync.WaitGroup
			s.count(func(n *Stats) { n.RoundTrips++ })
			wg.Go(func() { hint, _, rootErr = s.readRoot(ctx) })
			wg.Go(func() { p, err = s.read(ctx, 1, low.label, high.label, s.page) })
			wg.Wait()
			if rootErr != nil {
				return rootErr
			}
			if hint > 1 {
				s.mu.Lock()
				if s.known.epoch < hint {
					s.known.enter(hint)
				}
				s.mu.Unlock()
				// It has been written anew, so it is large: look beyond the first page at once.
				if err := s.narrow(ctx, ope.Version{Epoch: hint}, []gap{{left: low, right: high}}, map[label]label{}); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			if err := s.takeLowest(p); err != nil {
				return err
			}
			continue
		}
		s.count(func(n *Stats) { n.RoundTrips++ })
		p, err := s.read(ctx, epoch, low.label, high.label, s.page)
		if err != nil {
			return err
		}
		if err := s.takeLowest(p); err != nil {
			return err
		}
	}
}

// takeLowest takes note of a page that was read from the low end on.
func (s *Scheme) takeLowest(p page) error {
	low, high := s.rules.ends()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.take(p, low, high, ope.Version{})
	return err
}

// readRoot returns the epoch that the root names, or 0, and the root's meta.
func (s *Scheme) readRoot(ctx context.Context) (uint64, ope.Meta, error) {
	u, err := s.unit(root)
	if err != nil {
		return 0, ope.Meta{}, err
	}
	view, err := s.readRecords(ctx, u, nil, nil, 1)
	return view.Meta.Generation, view.Meta, err
}

// narrow makes one step towards knowing whether values are in the index, and their neighbours if
// not: one round of parallel reads. Of each gap that is not known to be empty, it reads the lowest
// elements, and probes to split the rest evenly. The map of what probes found empty, which is kept
// between the steps, holds for the label of a right neighbour from where below it nothing was.
func (s *Scheme) narrow(ctx context.Context, at ope.Version, gaps []gap, empty map[label]label) error {
	const width = 4 // gaps that are probed with all probes; more of them share these
	perGap := max(1, s.probes*width/max(width, len(gaps)))
	type query struct {
		gap   gap
		at    label
		probe bool
		page  page
		err   error
	}
	var queries []*query
	for _, g := range gaps {
		queries = append(queries, &query{gap: g, at: g.left.label})
		to := g.right.label
		if below, ok := empty[to]; ok && g.left.label.less(below) {
			to = below
		}
		for _, at := range probes(g.left.label, to, perGap) {
			queries = append(queries, &query{gap: g, at: at, probe: true})
		}
	}
	s.parallel(len(queries), func(i int) {
		q := queries[i]
		limit := s.page
		if q.probe {
			limit = 1
		}
		q.page, q.err = s.read(ctx, at.Epoch, q.at, q.gap.right.label, limit)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range queries {
		if q.err != nil {
			return q.err
		}
		if !q.probe {
			if _, err := s.take(q.page, q.gap.left, q.gap.right, at); err != nil {
				return err
			}
			continue
		}
		ok, err := s.meet(q.page.unit, q.page.meta)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if len(q.page.elements) > 0 {
			if err := s.learn(q.page.unit, q.page.elements[:1]); err != nil {
				return err
			}
		} else if below, ok := empty[q.gap.right.label]; !ok || q.at.less(below) {
			empty[q.gap.right.label] = q.at
		}
	}
	return nil
}

// refresh reads gaps anew in which another client may have put elements.
func (s *Scheme) refresh(ctx context.Context, at ope.Version, gaps []gap) error {
	pages := make([]page, len(gaps))
	errs := make([]error, len(gaps))
	s.parallel(len(gaps), func(i int) {
		pages[i], errs[i] = s.read(ctx, at.Epoch, gaps[i].left.label, gaps[i].right.label, s.page)
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range gaps {
		if _, err := s.take(pages[i], g.left, g.right, at); err != nil {
			return err
		}
	}
	return nil
}

// parallel calls do for 0 to n-1, some at a time. Together they count as one round trip.
func (s *Scheme) parallel(n int, do func(i int)) {
	s.count(func(n *Stats) { n.RoundTrips++ })
	if n == 1 {
		do(0)
		return
	}
	const most = 256 // what a batch of random values may ask for at once
	slots := make(chan struct{}, most)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			do(i)
			<-slots
		})
	}
	wg.Wait()
}

// distinctGaps returns the gaps that differ, in their order.
func distinctGaps(gaps []gap) []gap {
	slices.SortFunc(gaps, func(a, b gap) int { return a.left.label.compare(b.left.label) })
	return slices.CompactFunc(gaps, func(a, b gap) bool { return a.left.label == b.left.label })
}

// locate calls use, with s.mu held, once the client knows of every value whether it is in the
// index, and its neighbours if not; use returns what is still unknown of, or nothing. It is called
// again after each step of reading.
func (s *Scheme) locate(ctx context.Context, use func() (unlinked []gap, err error)) error {
	empty := map[label]label{}
	var version ope.Version
	for {
		if err := s.connect(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		if !s.known.met { // meanwhile, another goroutine has seen the next epoch
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
		if err := s.narrow(ctx, version, distinctGaps(unlinked), empty); err != nil {
			return err
		}
	}
}

// pause waits after the n-th conflict in a row, at random, so that clients do not stay in step.
func pause(ctx context.Context, n int) error {
	if n < 2 {
		return ctx.Err()
	}
	longest := time.Millisecond << min(n-2, 7)
	nonce := newNonce()
	timer := time.NewTimer(time.Duration(binary.BigEndian.Uint64(nonce[:]) % uint64(longest)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
