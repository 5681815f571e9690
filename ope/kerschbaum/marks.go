package kerschbaum

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// How many values a unit has is estimated, see [unitio.MarksAtLimit].

// most returns how many values a unit is to have.
func (b *base) most() int { return min(b.limit, b.full) }

// weight returns how many values a mark stands for.
func (b *base) weight() int { return max(1, b.most()/unitio.MarksAtLimit) }

// room returns how many values a client may count before it refuses more.
func (b *base) room() int { return unitio.Room(b.most(), b.weight()) }

// A tally is what a client knows of the number of values in a unit. It is guarded by shard.mu.
type tally struct {
	epoch  uint64
	values int // about so many, when they were counted
	since  int // so many were put there by this client after that
}

// checkLimit returns an error if the index has no room for n more values, and takes note that they are to come. It counts
// when this client has added an eighth of what there was still room for: so often that a few clients do not exceed the
// limit by much, and so seldom that it costs little. A unit that has too many values is to be divided.
func (s *shard) checkLimit(ctx context.Context, epoch uint64, n int) error {
	room, divides := s.room(), s.divides()
	if divides {
		room = s.full
	}
	s.mu.Lock()
	t, dividing := s.tally, s.known.part.Gives()
	s.mu.Unlock()
	counted := t.epoch != epoch || !dividing && (t.since > (room-t.values)/8 || t.values+t.since+n > room) || dividing && t.since > room/8
	if counted {
		values, err := s.units.CountValues(ctx, epoch)
		if err != nil {
			return err
		}
		t = tally{epoch: epoch, values: values}
	}
	t.since += n
	s.mu.Lock()
	s.tally = t
	s.mu.Unlock()
	if t.values+n <= room {
		return nil
	}
	if !divides {
		return s.errFull(s.most(), t.values)
	}
	s.crowded.Store(!dividing)
	if counted {
		return s.of.checkTotal(ctx, epoch, n)
	}
	return nil
}

func (b *base) errFull(most, values int) error {
	return fmt.Errorf("%w: the index %q takes %d values and has about %d", ope.ErrFull, b.name, most, values)
}

// checkTotal returns an error if all units together have no room for n more values.
func (s *Scheme) checkTotal(ctx context.Context, epoch uint64, n int) error {
	all := s.shards.all()
	if len(all)*s.room() <= s.limit {
		return nil
	}
	values := make([]int, len(all))
	err := s.index.Parallel(len(all), func(i int) (err error) {
		values[i], err = all[i].units.CountValues(ctx, epoch)
		return err
	})
	total := 0
	for _, n := range values {
		total += n
	}
	if err == nil && total+n > s.limit+s.limit/8 {
		err = s.errFull(s.limit, total)
	}
	return err
}
