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
	for _, w := range wishes {
		if w.given != nil {
			given[w.x] = *w.given
		}
		if _, twice := done[w.x]; !twice {
			done[w.x] = u192{}
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
	for refused := 0; ; {
		start := time.Now()
		open, err := s.ready(ctx)
		if err != nil {
			return err
		}
		var applied bool
		if !open {
			applied, err = s.openUnit(ctx)
		} else {
			var p *plan
			if p, err = s.locate(ctx, &left, given, done); err == nil && p == nil {
				return nil
			}
			if err == nil {
				applied, err = s.commit(ctx, p)
			}
			if applied {
				left = left[len(p.targets):]
				for _, t := range p.targets {
					done[t.x] = t.c
				}
			}
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
}

// openUnit draws the ciphertexts of the ends of the domain and opens the unit with them, unless
// another client does.
func (s *Indexed) openUnit(ctx context.Context) (bool, error) {
	cmin, cmax, err := s.drawEnds()
	if err != nil {
		return false, err
	}
	all := []pair{{x: 0, c: cmin}, {x: s.domain.Span(), c: cmax}}
	if s.domain.Span() == 0 {
		all = all[:1]
	}
	// Where records are but no meta, they are another scheme's.
	cond := ope.Condition{State: ope.StateAbsent, Absent: [][]byte{headerKey}}
	nonce, applied, err := s.put(ctx, cond, s.sealHeader(len(all), cmin, cmax), slices.Values(all))
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(nonce)
	s.open, s.counted, s.count, s.least, s.alone = true, true, len(all), len(all), true
	s.stats.Pairs += len(all)
	if err := s.putAll(all); err != nil {
		return false, err
	}
	low, _ := s.known.around(0)
	low.bare = s.view
	return true, nil
}

// put commits the header and pairs under a new nonce. An unknown outcome is reported as one that
// was not applied. Whether it was, or will be, shows when the values are looked up again: the
// condition on state and nonce keeps a late commit from following any other.
func (s *Indexed) put(ctx context.Context, cond ope.Condition, header ope.Record, ps iter.Seq[pair]) (nonce ope.Nonce, applied bool, err error) {
	rand.Read(nonce[:]) // never fails, as documented
	change := ope.Change{Puts: []ope.Record{header}, Meta: ope.Meta{State: ope.StateOpen, Nonce: nonce}}
	for p := range ps {
		change.Puts = append(change.Puts, s.seal(p))
	}
	applied, err = s.index.Commit(ctx, s.unit, cond, change)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Trips++
	switch {
	case errors.Is(err, ope.ErrUnknownOutcome):
		s.stats.Unknown++
		applied = false
	case err != nil:
		s.forget()
		return nonce, false, s.fail("commit to", err)
	case applied:
		s.stats.Commits++
		return nonce, true, nil
	default:
		s.stats.Refused++
	}
	s.forget()
	return nonce, false, nil
}

// A plan is a commit that is right in the unit as it was under a nonce.
type plan struct {
	nonce   ope.Nonce
	count   int // of pairs after it
	fresh   pairs
	targets []pair // what was asked for, among fresh
	header  ope.Record
}

// locate drops from the front of left what the index has already, and plans a commit of the first
// of the others as soon as their neighbours are known in one view. It returns nil when nothing is
// left.
func (s *Indexed) locate(ctx context.Context, left *[]uint64, given, done map[uint64]u192) (*plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.alone {
		s.forget()
	}
	// Once a commit: what is looked up for it has to stay.
	if s.known.n > s.cache {
		s.known.thin()
	}
	for {
		var lot, unknown []uint64
		kept := (*left)[:0]
		for i, x := range *left {
			low, _ := s.known.around(x)
			if low.x == x {
				done[x] = low.c
				continue
			}
			kept, lot = append(kept, x), append(lot, x)
			if low.bare != s.view {
				unknown = append(unknown, x)
			}
			if len(lot) == s.lot {
				kept = append(kept, (*left)[i+1:]...)
				break
			}
		}
		*left = kept
		if len(lot) == 0 {
			return nil, nil
		}
		if len(unknown) == 0 && s.counted {
			return s.plan(lot, given)
		}
		s.mu.Unlock()
		ahead, err := s.readAhead(ctx, len(*left))
		if err == nil && !ahead {
			_, err = s.search(ctx, unknown, true)
		}
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
}

// plan draws ciphertexts for the first of the values, as many as fit in a commit. It is called with
// the lock held.
func (s *Indexed) plan(lot []uint64, given map[uint64]u192) (*plan, error) {
	p := &plan{nonce: s.nonce, count: s.count}
	for _, x := range lot {
		low, high := s.known.around(x)
		if a, b := p.fresh.around(x); a != nil || b != nil {
			if a != nil && a.x > low.x {
				low = a
			}
			if b != nil && b.x < high.x {
				high = b
			}
		}
		if low.x == x { // it was drawn on the way to another
			p.targets = append(p.targets, *low)
			continue
		}
		var drawn []pair
		if c, some := given[x]; some && (pair{x: x, c: c}).fits(*low, *high) {
			drawn = []pair{{x: x, c: c}}
		} else if err := between(*low, *high).sample(x, s.coins, func(d uint64, c u192) {
			s.stats.Samplings++
			if s.keep || d == x {
				drawn = append(drawn, pair{x: d, c: c})
			}
		}); err != nil {
			return nil, err
		}
		if p.count+len(drawn) > s.limit {
			if len(p.targets) > 0 {
				break
			}
			return nil, fmt.Errorf("%w: unit %q has %d pairs, at most %d are allowed", ope.ErrFull, s.unit, p.count, s.limit)
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
	first, _ := s.known.around(0)
	last, _ := s.known.around(s.domain.Span())
	p.header = s.sealHeader(p.count, first.c, last.c)
	return p, nil
}

func (s *Indexed) commit(ctx context.Context, p *plan) (bool, error) {
	cond := ope.Condition{State: ope.StateOpen, Nonce: &p.nonce}
	nonce, applied, err := s.put(ctx, cond, p.header, p.fresh.all)
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The view goes on, since what has changed is known.
	s.nonce, s.count, s.least = nonce, p.count, p.count
	s.stats.Pairs += p.fresh.n
	s.lot = max(8, min(2*len(p.targets), commitRecords, s.cache/8))
	return true, s.putAll(slices.Collect(p.fresh.all))
}
