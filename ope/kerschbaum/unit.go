package kerschbaum

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// unit returns an epoch.
func (s *shard) unit(epoch uint64) *unit.Unit {
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	if u := s.units[epoch]; u != nil {
		return u
	}
	if len(s.units) > 8 { // more than a pass uses at a time
		clear(s.units)
	}
	u := s.codec.New(s.number, epoch)
	s.units[epoch] = u
	return u
}

// readLeast returns how many values a unit has at least, as its last rebalancing has counted them; 0 if there was none.
func (s *shard) readLeast(ctx context.Context, u *unit.Unit) (uint64, error) {
	view, err := s.readRecords(ctx, u, unit.LeastKey, append(bytes.Clone(unit.LeastKey), 0), 1)
	if err != nil || len(view.Records) == 0 {
		return 0, err
	}
	return u.OpenCount(view.Records[0])
}

// addMoved adds to a change what says where elements move when its generation begins. Only the last ones are kept.
func (s *shard) addMoved(change *ope.Change, u *unit.Unit, m order.Moved) {
	generation := change.Meta.Generation
	change.Puts = append(change.Puts, u.SealMoved(generation, m))
	if kept := uint64(s.kept); generation > kept {
		change.Deletes = append(change.Deletes, unit.MovedKey(generation-kept))
	}
}

func newNonce() (n ope.Nonce) {
	rand.Read(n[:]) // never fails, as documented
	return n
}

// read returns the elements with from <= label < to, at most limit of them. Of those that another unit has by now, there
// are none.
func (s *shard) read(ctx context.Context, epoch uint64, from, to order.Label, limit int) (unit.Page, error) {
	u := s.unit(epoch)
	s.mu.Lock()
	if from == s.known.rules.From && !from.IsZero() {
		from = from.Next() // what is at the lower end is not in the unit any more
	}
	s.mu.Unlock()
	view, err := s.readRecords(ctx, u, from.Bytes(), to.Bytes(), limit)
	if err != nil {
		return unit.Page{}, err
	}
	return u.Open(view, from.IsZero())
}

// readHeader reads the header of a unit, and which part of the index it has.
func (s *shard) readHeader(ctx context.Context, u *unit.Unit) (unit.Page, error) {
	view, err := s.readRecords(ctx, u, unit.HeaderKey, order.Label{Lo: 1}.Bytes(), 2)
	if err != nil {
		return unit.Page{Unit: u}, err
	}
	return u.Open(view, true)
}

// readMeta reads what a unit is.
func (s *shard) readMeta(ctx context.Context, u *unit.Unit) (ope.Meta, error) {
	view, err := s.readRecords(ctx, u, unit.HeaderKey, append(bytes.Clone(unit.HeaderKey), 0), 1)
	return view.Meta, err
}

// eachRecord calls do for the records with from <= key < to of a unit, and reads so many at once.
func (s *shard) eachRecord(ctx context.Context, u *unit.Unit, from, to []byte, atOnce int, do func(ope.Record) error) error {
	for {
		view, err := s.readRecords(ctx, u, from, to, atOnce)
		if err != nil {
			return err
		}
		for _, r := range view.Records {
			if err := do(r); err != nil {
				return err
			}
			from = append(r.Key, 0)
		}
		if !view.More {
			return nil
		}
	}
}

// readRecords reads a unit as it is now, which is not before what this client knew when it asked.
//
// On Cassandra a read may have seen a change that is not yet decided for all replicas, and the next one
// miss it. So what is undecided is decided before an older answer counts as a unit that was put back.
func (s *shard) readRecords(ctx context.Context, u *unit.Unit, from, to []byte, limit int) (ope.View, error) {
	s.mu.Lock()
	met := s.known.met && s.known.epoch == u.Epoch
	state, generation := s.known.state, s.known.generation
	s.mu.Unlock()
	for attempt := 0; ; attempt++ {
		s.count(func(n *Stats) { n.Reads++; n.RoundTrips++ })
		view, err := s.index.Read(ctx, u.Name, from, to, limit)
		if err != nil {
			return view, fmt.Errorf("read unit %q: %w", u.Name, err)
		}
		is := view.Meta
		if !met || is.State >= state && is.Generation >= generation {
			return view, nil
		}
		latest, err := s.decide(ctx, u, is)
		if latest {
			err = u.Corrupt(fmt.Errorf("%w: it was put back to generation %d and state %d, and this client has seen %d and %d",
				order.ErrCorrupt, is.Generation, is.State, generation, state))
		} else if err == nil {
			err = backOff(ctx, attempt)
		}
		if err != nil {
			return ope.View{}, err
		}
	}
}

// decide makes a commit that changes nothing. It is applied if what was read is what the unit is, for all clients from then on.
func (s *shard) decide(ctx context.Context, u *unit.Unit, is ope.Meta) (bool, error) {
	return s.commit(ctx, u, ope.Condition{State: is.State, Generation: is.Generation, Nonce: &is.Nonce}, ope.Change{Meta: is})
}

// commit makes a change. A commit of unknown outcome is reported as not applied: the caller reads
// on in any case, and finds what it did itself as it finds what others did.
func (s *shard) commit(ctx context.Context, u *unit.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	s.count(func(n *Stats) { n.Commits++; n.RoundTrips++ })
	applied, err := s.index.Commit(ctx, u.Name, cond, change)
	if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {
		s.count(func(n *Stats) { n.Unknown++ })
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("commit to unit %q: %w", u.Name, err)
	}
	if !applied {
		s.count(func(n *Stats) { n.Conflicts++ })
	}
	return applied, nil
}
