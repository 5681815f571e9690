package kerschbaum

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
)

// The re-encryption pass writes an epoch anew as the next one (Kerschbaum and Schröpfer, CCS 2014,
// section 3; Waage et al. 2016, section 3.2.2). Any number of clients may make the same pass at the
// same time, and each may die at any step: every step is a condition on what the unit is, and what
// is written is a function of what was sealed.
//
//  1. The unit is sealed: nothing is put into it any more.
//  2. Its values are read, and copied to the next unit, with the labels that rules.spread gives
//     them, each if it is not there yet and the next unit was not opened yet.
//  3. The next unit is opened.
//  4. The unit is retired. Nobody uses the next one before.
//  5. The root is set to the next epoch.
//  6. The elements of the unit are deleted, and all of the unit before it. The meta of a unit is
//     never deleted, so that it is retired for ever.
//
// What a copier that slept from step 2 on does when it wakes is refused: the next unit is open.

// A passed is the result of a pass.
type passed struct {
	values        int
	before, after ope.Version
}

// pass makes the pass that ends an epoch, or finishes it. Of a unit that is retired already it
// returns the result.
func (s *Scheme) pass(ctx context.Context, epoch uint64, progress func(done, total int)) (passed, error) {
	// One goroutine of a process is enough.
	select {
	case s.passing <- struct{}{}:
		defer func() { <-s.passing }()
	case <-ctx.Done():
		return passed{}, ctx.Err()
	}
	u, err := s.unit(epoch)
	if err != nil {
		return passed{}, err
	}
	next, err := s.unit(epoch + 1)
	if err != nil {
		return passed{}, err
	}
	if epoch >= lastEpoch {
		return passed{}, fmt.Errorf("%w: unit %q is of the last epoch that can be", ope.ErrFull, u.name)
	}
	meta, err := s.seal(ctx, u)
	if err != nil {
		return passed{}, err
	}
	retired := false // by this call
	if meta.State == ope.StateSealed {
		s.count(func(n *Stats) { n.Passes++ })
		frozen, ok, err := s.frozen(ctx, u)
		if err != nil {
			return passed{}, err
		}
		if ok {
			if err := s.copyTo(ctx, next, frozen, meta.Generation, progress); err != nil {
				return passed{}, err
			}
			if retired, err = s.retire(ctx, u); err != nil {
				return passed{}, err
			}
		}
	}
	s.mu.Lock()
	if s.known.epoch <= epoch {
		s.known.enter(epoch + 1)
	}
	s.mu.Unlock()
	if err := s.point(ctx, epoch+1); err != nil {
		return passed{}, err
	}
	first, err := s.read(ctx, epoch+1, label{}, label{0, 1}, 1)
	if err != nil {
		return passed{}, err
	}
	if first.header == nil {
		return passed{}, corrupt(next, fmt.Errorf("%w: its header is missing", errCorrupt))
	}
	if retired {
		if err := s.clean(ctx, epoch); err != nil {
			return passed{}, fmt.Errorf("the pass is done, but not the cleaning up: %w", err)
		}
	}
	return passed{
		values: int(first.header.values),
		before: ope.Version{Epoch: epoch, Generation: first.header.generation},
		after:  ope.Version{Epoch: epoch + 1},
	}, nil
}

// seal seals the unit, and returns its meta: it is sealed, or retired by now.
func (s *Scheme) seal(ctx context.Context, u *unit) (ope.Meta, error) {
	for conflicts := 0; ; conflicts++ {
		s.count(func(n *Stats) { n.RoundTrips++ })
		p, err := s.read(ctx, u.epoch, label{}, label{0, 1}, 1)
		if err != nil {
			return ope.Meta{}, err
		}
		switch {
		case p.meta.State == ope.StateSealed || p.meta.State == ope.StateRetired:
			return p.meta, nil
		case p.meta.State > ope.StateRetired || p.meta.State == ope.StateAbsent && u.epoch > 1:
			return ope.Meta{}, corrupt(u, fmt.Errorf("%w: its state is %d", errCorrupt, p.meta.State))
		case s.guards.openUnsealed:
			p.meta.State = ope.StateSealed
			return p.meta, nil
		}
		if err := pause(ctx, conflicts); err != nil {
			return ope.Meta{}, err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateSealed, Generation: p.meta.Generation, Nonce: newNonce()}}
		if p.meta.State == ope.StateAbsent {
			change.Puts = []ope.Record{s.sealHeader(u, header{})}
		}
		if _, err := s.commit(ctx, u, ope.Condition{State: p.meta.State, Generation: p.meta.Generation}, change); err != nil {
			return ope.Meta{}, err
		}
		// Whether it was applied is seen by reading.
	}
}

// frozen returns the elements of a sealed unit. It reports false if the unit was retired meanwhile.
func (s *Scheme) frozen(ctx context.Context, u *unit) ([]element, bool, error) {
	var all []element
	_, high := s.rules.ends()
	for from := (label{}); ; {
		s.count(func(n *Stats) { n.RoundTrips++ })
		p, err := s.read(ctx, u.epoch, from, high.label, s.passPage)
		if err != nil {
			return nil, false, err
		}
		if p.meta.State != ope.StateSealed && !s.guards.openUnsealed {
			return nil, false, nil
		}
		for _, e := range p.elements {
			if n := len(all); n > 0 && all[n-1].value >= e.value {
				return nil, false, corrupt(u, fmt.Errorf("%w: record %x is out of order", errCorrupt, e.label.bytes()))
			}
			all = append(all, e)
		}
		if !p.more {
			return all, true, nil
		}
		if len(p.elements) > 0 {
			from = all[len(all)-1].label.plus(label{0, 1})
		}
	}
}

const (
	// lastEpoch is the last that a ciphertext has room for.
	lastEpoch = 1<<32 - 1

	// passPage is how many elements are read at once where all are.
	passPage = 1024
)

// copyTo copies the frozen elements of a unit to the next one and opens it, unless it is open.
func (s *Scheme) copyTo(ctx context.Context, next *unit, frozen []element, generation uint64, progress func(done, total int)) error {
	values := make([]int64, len(frozen))
	for i, e := range frozen {
		values[i] = e.value
	}
	copies, err := s.rules.spread(values)
	if err != nil {
		return corrupt(next, err)
	}
	if progress != nil {
		progress(0, len(copies))
	}
	for part := 0; part*s.chunk < len(copies); part++ {
		from, to := part*s.chunk, min((part+1)*s.chunk, len(copies))
		moves := make([]move, to-from)
		for i := range moves {
			moves[i] = move{values[from+i], frozen[from+i].label, copies[from+i].label}
		}
		open, err := s.copyPart(ctx, next, copies[from:to], sealMoves(next, passKey(part), moves))
		if err != nil {
			return err
		}
		if open {
			return nil
		}
		s.count(func(n *Stats) { n.Moved += len(moves) })
		if progress != nil {
			progress(to, len(copies))
		}
	}
	for conflicts := 0; ; conflicts++ {
		change := ope.Change{
			Puts: []ope.Record{s.sealHeader(next, header{uint64(len(copies)), generation})},
			Meta: ope.Meta{State: ope.StateOpen, Nonce: newNonce()},
		}
		applied, err := s.commit(ctx, next, ope.Condition{State: ope.StateAbsent}, change)
		if applied || err != nil {
			return err
		}
		meta, err := s.readMeta(ctx, next)
		if err != nil || meta.State != ope.StateAbsent {
			return err
		}
		if err := pause(ctx, conflicts); err != nil {
			return err
		}
	}
}

// copyPart writes some elements to the next unit, with the log of their moves. It reports whether
// the unit is open already, so that all of them are there or were.
func (s *Scheme) copyPart(ctx context.Context, next *unit, copies []element, log ope.Record) (open bool, err error) {
	missing := copies
	for conflicts := 0; ; conflicts++ {
		cond := ope.Condition{State: ope.StateAbsent}
		change := ope.Change{Puts: []ope.Record{log}, Meta: ope.Meta{Nonce: newNonce()}}
		for _, e := range missing {
			if !s.guards.copyOverExisting {
				cond.Absent = append(cond.Absent, e.label.bytes())
			}
			change.Puts = append(change.Puts, sealElement(next, e))
		}
		if s.guards.copyIntoOpen {
			meta, err := s.readMeta(ctx, next)
			if err != nil {
				return false, err
			}
			cond.State, cond.Generation = meta.State, meta.Generation
			change.Meta.State, change.Meta.Generation = meta.State, meta.Generation
		}
		applied, err := s.commit(ctx, next, cond, change)
		if applied || err != nil {
			return false, err
		}
		s.count(func(n *Stats) { n.RoundTrips++ })
		last := copies[len(copies)-1].label
		p, err := s.read(ctx, next.epoch, copies[0].label, last.plus(label{0, 1}), len(copies))
		if err != nil {
			return false, err
		}
		if p.meta.State != ope.StateAbsent && !s.guards.copyIntoOpen {
			return true, nil
		}
		there := make(map[label]int64, len(p.elements))
		for _, e := range p.elements {
			there[e.label] = e.value
		}
		missing = nil
		for _, e := range copies {
			if _, ok := there[e.label]; !ok {
				missing = append(missing, e)
			}
		}
		if len(missing) == 0 {
			return false, nil
		}
		if err := pause(ctx, conflicts); err != nil {
			return false, err
		}
	}
}

// retire retires a sealed unit whose successor is open, and reports whether it was this call that
// did.
func (s *Scheme) retire(ctx context.Context, u *unit) (bool, error) {
	for conflicts := 0; ; conflicts++ {
		meta, err := s.readMeta(ctx, u)
		if err != nil || meta.State == ope.StateRetired {
			return false, err
		}
		if err := pause(ctx, conflicts); err != nil {
			return false, err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateRetired, Generation: meta.Generation, Nonce: newNonce()}}
		applied, err := s.commit(ctx, u, ope.Condition{State: meta.State, Generation: meta.Generation}, change)
		if applied || err != nil {
			return applied, err
		}
	}
}

// point sets the root to an epoch that is open, or was, unless it is at a later one.
func (s *Scheme) point(ctx context.Context, epoch uint64) error {
	u, err := s.unit(root)
	if err != nil {
		return err
	}
	for conflicts := 0; ; conflicts++ {
		s.count(func(n *Stats) { n.RoundTrips++ })
		hint, meta, err := s.readRoot(ctx)
		if err != nil || hint >= epoch {
			return err
		}
		if err := pause(ctx, conflicts); err != nil {
			return err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateOpen, Generation: epoch, Nonce: newNonce()}}
		applied, err := s.commit(ctx, u, ope.Condition{State: meta.State, Generation: hint}, change)
		if applied || err != nil {
			return err
		}
	}
}

// clean deletes what a retired epoch leaves: its elements, and what is left of the epoch before.
// Of the retired one the log stays, for Moves.
func (s *Scheme) clean(ctx context.Context, epoch uint64) error {
	_, high := s.rules.ends()
	first := label{0, 1}.bytes()
	if epoch > 1 {
		if err := s.cleanUnit(ctx, epoch-1, first, nil); err != nil {
			return err
		}
	}
	return s.cleanUnit(ctx, epoch, first, high.label.bytes())
}

// cleanUnit deletes the records with from <= key < to of a retired unit.
func (s *Scheme) cleanUnit(ctx context.Context, epoch uint64, from, to []byte) error {
	u, err := s.unit(epoch)
	if err != nil {
		return err
	}
	for conflicts := 0; ; conflicts++ {
		s.count(func(n *Stats) { n.RoundTrips++ })
		view, err := s.readRecords(ctx, u, from, to, s.chunk)
		if err != nil || len(view.Records) == 0 {
			return err
		}
		if view.Meta.State != ope.StateRetired {
			return corrupt(u, fmt.Errorf("%w: it is not retired, but its successor is open", errCorrupt))
		}
		change := ope.Change{Meta: view.Meta}
		for _, r := range view.Records {
			change.Deletes = append(change.Deletes, r.Key)
		}
		if s.guards.forgetRetired && !view.More {
			change.Meta = ope.Meta{}
		}
		cond := ope.Condition{State: ope.StateRetired, Generation: view.Meta.Generation}
		applied, err := s.commit(ctx, u, cond, change)
		if err != nil || applied && !view.More {
			return err
		}
		if applied {
			from = append(view.Records[len(view.Records)-1].Key, 0)
			conflicts = 0
		} else if err := pause(ctx, conflicts); err != nil {
			return err
		}
	}
}

func (s *Scheme) readMeta(ctx context.Context, u *unit) (ope.Meta, error) {
	s.count(func(n *Stats) { n.RoundTrips++ })
	zero := label{}.bytes()
	view, err := s.readRecords(ctx, u, zero, append(zero, 0), 1)
	return view.Meta, err
}

// Rebalance implements [ope.Mutable]. It also wipes out what labels show of the order in which the
// values came. If another client's pass is under way, it helps to finish that one. Where cleaning
// up fails, the pass is done nevertheless, and the next one cleans up.
func (s *Scheme) Rebalance(ctx context.Context, progress func(done, total int)) (ope.RebalanceStats, error) {
	if err := s.connect(ctx); err != nil {
		return ope.RebalanceStats{}, err
	}
	s.mu.Lock()
	epoch := s.known.epoch
	s.mu.Unlock()
	for {
		// What is known may be out of date: an epoch that was over before the call is not meant.
		u, err := s.unit(epoch)
		if err != nil {
			return ope.RebalanceStats{}, err
		}
		meta, err := s.readMeta(ctx, u)
		if err != nil {
			return ope.RebalanceStats{}, err
		}
		if meta.State != ope.StateRetired {
			break
		}
		epoch++
	}
	p, err := s.pass(ctx, epoch, progress)
	if err != nil {
		return ope.RebalanceStats{}, err
	}
	return ope.RebalanceStats{Values: p.values, Moved: p.values, Before: p.before, After: p.after}, nil
}
