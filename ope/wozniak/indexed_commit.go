package wozniak

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/reads"
)

// commonTurn is how many values are encrypted before other callers take their turn.
const commonTurn = 1024

// A wish is a value that a caller wants to have a ciphertext, or the given one if that fits.
type wish struct {
	x     uint64
	given *u192
}

// encrypt returns the ciphertexts of the values, once all are in the index.
func (s *Indexed) encrypt(ctx context.Context, wishes []wish) ([]u192, error) {
	done := make(map[uint64]u192, len(wishes))
	left := make([]uint64, 0, len(wishes))
	given := make(map[uint64]u192)
	wanted := make(map[uint64]bool, len(wishes))
	for _, w := range wishes {
		if w.given != nil {
			given[w.x] = *w.given
		}
		if !wanted[w.x] {
			wanted[w.x] = true
			left = append(left, w.x)
		}
	}
	if err := s.encryptAll(ctx, left, given, done); err != nil {
		return nil, err
	}
	cs := make([]u192, len(wishes))
	for i, w := range wishes {
		cs[i] = done[w.x]
	}
	return cs, nil
}

// commitRecords is how many records a commit may have before no further value goes into it. Those of
// one value stay together, and are at most some 200.
const commitRecords = 256

// encryptAll sets done for what is left. What is given is taken, where it fits.
func (s *Indexed) encryptAll(ctx context.Context, left []uint64, given, done map[uint64]u192) error {
	for refused := 0; len(left) > 0; {
		start := time.Now()
		applied := false
		open, err := s.ready(ctx)
		switch {
		case err != nil:
		case open:
			applied, err = s.round(ctx, &left, given, done)
		default:
			applied, err = s.openUnit(ctx)
		}
		switch {
		case err != nil:
			return err
		case applied:
			refused = 0
		default:
			refused++
			// Where many clients write, one that waits as long as an attempt takes lets another through.
			took := max(time.Since(start), 100*time.Microsecond)
			if err := pause.For(ctx, pause.Grown(took, min(64*took, time.Second), refused-1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A job is what a round does in one unit.
type job struct {
	u     *unit
	lot   []uint64
	rest  int // values of the unit, those of the lot included
	plan  *plan
	found []pair // of the lot, that are in the index
	err   error
	done  bool // it has got on
}

// round looks up what comes first of what is left in each unit, and makes one commit to each. It reports whether it has got on.
// Ciphertexts are drawn in the order of units, so that the same coins give the same, however long requests take.
func (s *Indexed) round(ctx context.Context, left *[]uint64, given, done map[uint64]u192) (bool, error) {
	jobs := s.jobs(left, done)
	reads.Together(len(jobs), s.parallel, func(i int) bool {
		jobs[i].err = s.locate(ctx, jobs[i])
		return true
	})
	for _, j := range jobs {
		if j.err == nil {
			j.plan, j.err = s.plan(j.u, j.lot, given)
		}
	}
	reads.Together(len(jobs), s.parallel, func(i int) bool {
		j := jobs[i]
		j.done, j.err = s.finish(ctx, j)
		return true
	})
	applied := len(jobs) == 0
	for _, j := range jobs {
		for _, p := range j.found {
			done[p.x] = p.c
		}
		applied = applied || j.done
	}
	*left = slices.DeleteFunc(*left, func(x uint64) bool {
		_, is := done[x]
		return is
	})
	for _, j := range jobs {
		if j.err != nil {
			return false, j.err
		}
	}
	return applied, nil
}

// jobs drops what is known from what is left, and deals the rest to the units.
func (s *Indexed) jobs(left *[]uint64, done map[uint64]u192) (jobs []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Once a round: what is looked up for it has to stay.
	if s.known.n > s.cache {
		s.thin()
	}
	of := make(map[*unit]*job)
	*left = slices.DeleteFunc(*left, func(x uint64) bool {
		if low, _ := s.known.around(x); low.x == x {
			done[x] = low.c
			return true
		}
		u := s.root.leaf(x)
		j := of[u]
		if j == nil {
			j = &job{u: u}
			of[u], jobs = j, append(jobs, j)
		}
		if j.rest++; len(j.lot) < u.lot {
			j.lot = append(j.lot, x)
		}
		return false
	})
	return jobs
}

// locate reads until the neighbours of all values of a lot are known in one view of their unit.
func (s *Indexed) locate(ctx context.Context, j *job) error {
	u := j.u
	s.mu.Lock()
	defer s.mu.Unlock()
	if !u.alone {
		u.forget()
	}
	for {
		var unknown []uint64
		for _, x := range j.lot {
			if low, _ := s.known.around(x); low.x != x && low.bare != u.view {
				unknown = append(unknown, x)
			}
		}
		if len(unknown) == 0 && u.counted {
			return nil
		}
		if err := func() error {
			s.mu.Unlock()
			defer s.mu.Lock() // also where the index panics, since the lock is given back then
			ahead, err := s.readAhead(ctx, u, j.rest)
			if err == nil && !ahead {
				_, err = s.search(ctx, unknown, func(uint64) *unit { return u }, u)
			}
			return err
		}(); err != nil {
			return err
		}
	}
}

// finish does what comes next in the unit of a job: a commit or, if the unit cannot take one, what makes that others can.
func (s *Indexed) finish(ctx context.Context, j *job) (bool, error) {
	var e *elsewhere
	switch {
	case errors.Is(j.err, errDivide):
		return s.divide(ctx, j.u)
	case errors.As(j.err, &e) && e.divided:
		return true, s.loadAndList(ctx, j.u)
	case e != nil:
		return s.fillFor(ctx, j)
	case j.err != nil:
		return false, j.err
	}
	if j.plan.fresh.n > 0 {
		if applied, err := s.commit(ctx, j.u, j.plan); err != nil || !applied {
			return false, err
		}
	}
	j.found = j.plan.targets
	return true, nil
}

// openUnit draws the ciphertexts of the ends of the domain and opens the root with them, unless another client does.
func (s *Indexed) openUnit(ctx context.Context) (bool, error) {
	cmin, cmax, err := s.drawEnds()
	if err != nil {
		return false, err
	}
	u := s.root
	all := []pair{{x: 0, c: cmin}, {x: s.domain.Span(), c: cmax}}
	if s.domain.Span() == 0 {
		all = all[:1]
	}
	// Where records are but no meta, they are another scheme's.
	cond := ope.Condition{State: ope.StateAbsent, Absent: [][]byte{headerKey}}
	nonce := newNonce()
	applied, err := u.put(ctx, cond, u.opening(nonce, u.sealHeader(len(all), cmin, cmax), slices.Values(all)))
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.low.c, u.high.c = cmin, cmax
	s.stats.Pairs += len(all)
	return true, u.opened(nonce, all)
}

// opening returns a change that leaves a unit open.
func (u *unit) opening(nonce ope.Nonce, header ope.Record, ps iter.Seq[pair]) ope.Change {
	change := ope.Change{Puts: []ope.Record{header}, Meta: ope.Meta{State: ope.StateOpen, Nonce: nonce}}
	for p := range ps {
		change.Puts = append(change.Puts, u.seal(p))
	}
	return change
}

// opened takes note that a unit was opened with some pairs, which are all that it has. It is called with the lock held.
func (u *unit) opened(nonce ope.Nonce, all []pair) error {
	u.adopt(nonce)
	u.open, u.counted, u.count, u.least, u.alone = true, true, len(all), len(all), true
	if len(all) > u.s.cache {
		return nil
	}
	if odd := u.s.known.merge(all, u.view); odd != nil {
		return u.corrupt(u.s.bytes(odd.c), "contradicts its neighbours")
	}
	return nil
}

func newNonce() (nonce ope.Nonce) {
	rand.Read(nonce[:]) // never fails, as documented
	return nonce
}

// put commits a change under a new nonce. An unknown outcome is reported as one that
// was not applied. Whether it was, or will be, shows when the values are looked up again: the
// condition on state and nonce keeps a late commit from following any other.
func (u *unit) put(ctx context.Context, cond ope.Condition, change ope.Change) (applied bool, err error) {
	s := u.s
	applied, err = s.index.Commit(ctx, u.name, cond, change)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	switch {
	case errors.Is(err, ope.ErrUnknownOutcome):
		s.stats.Unknown++
	case err != nil:
		u.forget()
		return false, u.fail("commit to", err)
	case applied:
		s.stats.Commits++
		return true, nil
	default:
		s.stats.Refused++
	}
	u.forget()
	return false, nil
}

// A plan is a commit that is right in a unit as it was under a nonce.
type plan struct {
	nonce    ope.Nonce
	min, max u192 // ends of the unit
	count    int  // of pairs after it
	fresh    pairs
	targets  []pair // what was asked for, among fresh or in the index
}

// errDivide says that a unit is full.
var errDivide = errors.New("the unit is full")

// full returns an error if a unit with a number of pairs takes no more. That is decided before more are drawn, so that
// the law of what is drawn is the same.
func (u *unit) full(count int) error {
	switch {
	case count < u.s.limit || u.low.x == u.high.x:
		return nil
	case u.s.divisible():
		return errDivide
	}
	return fmt.Errorf("%w: unit %q has %d pairs, at most %d are allowed, and its name is too long for it to be divided",
		ope.ErrFull, u.name, count, u.s.limit)
}

// plan draws ciphertexts for the first of the values, as many as fit in a commit.
func (s *Indexed) plan(u *unit, lot []uint64, given map[uint64]u192) (*plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // also where the coins panic
	p := &plan{nonce: u.nonce, count: u.count, min: u.low.c, max: u.high.c}
	for _, x := range lot {
		low, high := s.known.around(x)
		a, b := p.fresh.around(x)
		if a != nil && a.x > low.x {
			low = a
		}
		if b != nil && b.x < high.x {
			high = b
		}
		if low.x == x { // it was drawn on the way to another
			p.targets = append(p.targets, *low)
			continue
		}
		if err := u.full(p.count); err != nil {
			if len(p.targets) > 0 {
				break
			}
			return nil, err
		}
		var drawn []pair
		if c, some := given[x]; some && (pair{x: x, c: c}).fits(*low, *high) {
			drawn = []pair{{x: x, c: c}}
		} else if !low.leavesRoom(*high) { // of a damaged unit, which a draw would damage more
			return nil, u.corrupt(s.bytes(high.c), "contradicts its neighbours")
		} else if err := between(*low, *high).sample(x, s.coins, func(d uint64, c u192) {
			s.stats.Samplings++
			if s.keep || d == x {
				drawn = append(drawn, pair{x: d, c: c})
			}
		}); err != nil {
			return nil, err
		}
		for _, d := range drawn {
			p.fresh.put(d)
		}
		p.count += len(drawn)
		p.targets = append(p.targets, drawn[len(drawn)-1])
		if p.fresh.n >= commitRecords {
			break
		}
	}
	return p, nil
}

func (s *Indexed) commit(ctx context.Context, u *unit, p *plan) (bool, error) {
	cond := ope.Condition{State: ope.StateOpen, Nonce: &p.nonce}
	nonce := newNonce()
	applied, err := u.put(ctx, cond, u.opening(nonce, u.sealHeader(p.count, p.min, p.max), p.fresh.all))
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The view goes on, since what has changed is known.
	u.nonce, u.count, u.least = nonce, p.count, p.count
	s.stats.Pairs += p.fresh.n
	u.lot = max(firstLot, min(2*len(p.targets), commitRecords, s.cache/8))
	return true, s.putAll(slices.Collect(p.fresh.all))
}
