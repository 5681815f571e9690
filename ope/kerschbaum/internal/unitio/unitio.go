// Package unitio reads and commits the units of an index of Kerschbaum's scheme, and counts the calls. It remembers
// nothing of what it reads: what a client knows by now, it asks for.
package unitio

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// A Shard is the units of a shard of the index: its epochs.
type Shard struct {
	*Index
	Number uint32
	seen   func(epoch uint64, key []byte) (least ope.Meta, met, has bool)
	mu     sync.Locker // guards the list
	list   *order.List // what the client knows of the epoch that it has met

	unitsMu sync.Mutex
	units   map[uint64]*unit.Unit
}

// Shard returns the units of a shard. Of each epoch, seen returns the state and the generation that the client has met, if it
// has met any, and whether it knows an element at a key in that generation. What is read later is not before these. The list is of
// the latest of these epochs, and mu guards it. It gets to know what is decided.
func (x *Index) Shard(number uint32, seen func(epoch uint64, key []byte) (least ope.Meta, met, has bool), mu sync.Locker, list *order.List) *Shard {
	if _, is := x.index.(ope.Decider); is {
		list.Doubt()
	}
	return &Shard{Index: x, Number: number, seen: seen, mu: mu, list: list, units: map[uint64]*unit.Unit{}}
}

// Unit returns an epoch.
func (s *Shard) Unit(epoch uint64) *unit.Unit {
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	if u := s.units[epoch]; u != nil {
		return u
	}
	if len(s.units) > 8 { // more than a pass uses at a time
		clear(s.units)
	}
	u := s.codec.New(s.Number, epoch)
	s.units[epoch] = u
	return u
}

// Read returns the elements with from <= label < to, at most limit of them. Of those that another unit has by now, there
// are none.
func (s *Shard) Read(ctx context.Context, epoch uint64, from, to order.Label, limit int) (unit.Page, error) {
	u := s.Unit(epoch)
	view, err := s.ReadRecords(ctx, u, from.Bytes(), to.Bytes(), limit)
	if err != nil {
		return unit.Page{}, err
	}
	return u.Open(view, from.IsZero())
}

// ReadHeader reads the header of a unit, and which part of the index it has.
func (s *Shard) ReadHeader(ctx context.Context, u *unit.Unit) (unit.Page, error) {
	view, err := s.ReadRecords(ctx, u, unit.HeaderKey, order.Label{Lo: 1}.Bytes(), 2)
	if err != nil {
		return unit.Page{Unit: u}, err
	}
	return u.Open(view, true)
}

// ReadMeta reads what a unit is.
func (s *Shard) ReadMeta(ctx context.Context, u *unit.Unit) (ope.Meta, error) {
	view, err := s.ReadRecords(ctx, u, unit.HeaderKey, append(bytes.Clone(unit.HeaderKey), 0), 1)
	return view.Meta, err
}

// ReadLeast returns how many values a unit has at least, as its last rebalancing has counted them; 0 if there was none.
func (s *Shard) ReadLeast(ctx context.Context, u *unit.Unit) (uint64, error) {
	view, err := s.ReadRecords(ctx, u, unit.LeastKey, append(bytes.Clone(unit.LeastKey), 0), 1)
	if err != nil || len(view.Records) == 0 {
		return 0, err
	}
	return u.OpenCount(view.Records[0])
}

// eachRecord calls do for the records with from <= key < to of a unit, and reads so many at once.
func (s *Shard) eachRecord(ctx context.Context, u *unit.Unit, from, to []byte, atOnce int, do func(ope.Record) error) error {
	for {
		view, err := s.ReadRecords(ctx, u, from, to, atOnce)
		if err != nil {
			return err
		}
		for _, r := range view.Records {
			if err := do(r); err != nil {
				return err
			}
			from = append(bytes.Clone(r.Key), 0) // what is behind it may be the index's
		}
		if !view.More {
			return nil
		}
	}
}

// ReadRecords reads a unit as it is now, which is not before what this client knew when it asked.
//
// On Cassandra a read may have seen a change that is not yet decided for all replicas, and the next one
// miss it. So what is undecided is decided before an older answer counts as a unit that was put back, or that has lost
// the element from which on it is read.
func (s *Shard) ReadRecords(ctx context.Context, u *unit.Unit, from, to []byte, limit int) (ope.View, error) {
	least, met, has := s.seen(u.Epoch, from)
	has = has && (to == nil || bytes.Compare(from, to) < 0)
	for attempt := 0; ; attempt++ {
		s.count(func(n *Stats) { n.Reads++; n.RoundTrips++ })
		view, err := s.index.Read(ctx, u.Name, from, to, limit)
		if err != nil {
			return view, fmt.Errorf("read unit %q: %w", u.Name, err)
		}
		is := view.Meta
		back := met && (is.State < least.State || is.Generation < least.Generation)
		gone := has && is.Generation == least.Generation && is.State != ope.StateRetired &&
			(len(view.Records) == 0 || !bytes.Equal(view.Records[0].Key, from))
		if !back && !gone {
			if is.State == ope.StateRetired {
				err = s.Settle(ctx, u) // or others, who know of no later epoch yet, would miss what is put there
			}
			return view, err
		}
		latest, err := s.Decide(ctx, u, is)
		switch {
		case latest && back:
			err = u.Corrupt(fmt.Errorf("%w: it was put back to generation %d and state %d, and this client has seen %d and %d; if the database was restored from a backup, open it again",
				order.ErrCorrupt, is.Generation, is.State, least.Generation, least.State))
		case latest:
			err = u.Corrupt(fmt.Errorf("%w: record %x is gone", order.ErrCorrupt, from))
		case err == nil:
			err = BackOff(ctx, attempt)
		}
		if err != nil {
			return ope.View{}, err
		}
	}
}

// Decide makes a commit that changes nothing. It is applied if what was read is what the unit is, for all clients from then on.
func (s *Shard) Decide(ctx context.Context, u *unit.Unit, is ope.Meta) (bool, error) {
	return s.Commit(ctx, u, ope.Condition{State: is.State, Generation: is.Generation, Nonce: &is.Nonce}, ope.Change{Meta: is})
}

// Settle has decided, for all clients, what was read of a unit before. It changes nothing.
func (s *Shard) Settle(ctx context.Context, u *unit.Unit) error {
	d, is := s.index.(ope.Decider)
	if !is {
		return nil
	}
	decided := s.mark(u)
	s.count(func(n *Stats) { n.Reads++; n.RoundTrips++ })
	if err := d.Decide(ctx, u.Name); err != nil {
		return fmt.Errorf("unit %q: %w", u.Name, err)
	}
	decided()
	return nil
}

// mark returns what takes note that all that is known of a unit by now is decided.
func (s *Shard) mark(u *unit.Unit) (decided func()) {
	s.mu.Lock()
	mark := s.list.Mark()
	s.mu.Unlock()
	if _, met, _ := s.seen(u.Epoch, nil); !met {
		return func() {} // the list is of another epoch
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list.Decided(mark)
	}
}

// Commit makes a change. A commit of unknown outcome is reported as not applied: the caller reads
// on in any case, and finds what it did itself as it finds what others did.
func (s *Shard) Commit(ctx context.Context, u *unit.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	s.count(func(n *Stats) { n.Commits++; n.RoundTrips++ })
	decided := s.mark(u)
	applied, err := s.index.Commit(ctx, u.Name, cond, change)
	if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {
		s.count(func(n *Stats) { n.Unknown++ })
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("commit to unit %q: %w", u.Name, err)
	}
	decided()
	if !applied {
		s.count(func(n *Stats) { n.Conflicts++ })
	}
	return applied, nil
}

// NewNonce draws the nonce of a commit.
func NewNonce() (n ope.Nonce) {
	rand.Read(n[:]) // never fails, as documented
	return n
}

// BackOff waits after the n-th conflict in a row, so that clients do not stay in step.
func BackOff(ctx context.Context, n int) error {
	if n < 2 {
		return pause.Ended(ctx)
	}
	return pause.For(ctx, pause.Grown(time.Millisecond, 128*time.Millisecond, n-2))
}
