package kerschbaum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// A shard is one of the units, or of the successions of units, that an index consists of: it has a part of the values
// and, in the same order, a part of the labels. Most indexes have only the first one, number 0. See divide.go.
type shard struct {
	*base
	of     *Scheme
	number uint32

	mu    sync.Mutex
	known known
	tally tally

	commits *groupcommit.Group[int64, spot]
	passing chan struct{}
	turn    chan struct{} // of who goes by what the client knows and commits, so that no two in a process defeat each other
	reads   atomic.Int32  // elements that a read of an unknown part asks for: base.page, or fewer for the memory's sake
	used    atomic.Int64  // when it was used last, as shards.uses was then
	found   unitio.Search // for its middle, of who divides it
	crowded atomic.Bool   // it has more values than it is to have

	units *unitio.Shard
}

func newShard(of *Scheme, number uint32) *shard {
	s := &shard{
		base: of.base, of: of, number: number,
		known:   known{part: unit.Whole(of.domain), rules: of.rules, list: order.NewList(of.rules, of.cache)},
		passing: make(chan struct{}, 1),
		turn:    make(chan struct{}, 1),
	}
	s.units = of.index.Shard(number, s.seen, &s.mu, s.known.list)
	if s.listSize > 0 {
		s.known.list.Size = s.listSize
	}
	s.reads.Store(int32(s.page))
	s.commits = groupcommit.New(s.batch, s.put)
	return s
}

// errElsewhere says that a value is in another part of the index, as far as the unit knows.
var errElsewhere = errors.New("the unit has another part of the index")

// remembered returns where a value is that the client remembers, if only by what is decided where that is wanted.
func (s *shard) remembered(x int64, decided bool) (spot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.known.find(x)
	return spotOf(e, s.known.version()), ok && !(decided && s.known.list.Doubts(x))
}

// spots sets where ascending values are, all at one version, after putting those into the index that are not there.
// What is elsewhere gets the zero spot.
func (s *shard) spots(ctx context.Context, values []int64, spots []spot) error {
	turns := order.MedianFirst(make([]int, 0, len(values)), 0, len(values)) // of insertion
	for {
		missing, ok := s.find(values, spots, turns)
		if !ok {
			continue // the version has changed
		}
		if len(missing) == 0 {
			return nil
		}
		ask := make([]int64, len(missing))
		for n, i := range missing {
			ask[n] = values[i]
		}
		got, err := s.commits.Do(ctx, ask)
		if err != nil {
			return err
		}
		for n, i := range missing {
			spots[i] = got[n]
		}
		turns = slices.DeleteFunc(turns, func(i int) bool { return spots[i].version.Epoch == 0 })
	}
}

// find sets the spots of the values that the client remembers as decided, and returns those of the turns that
// have none of the present version. It reports false if the version changes in between.
func (s *shard) find(values []int64, spots []spot, turns []int) (missing []int, ok bool) {
	const atOnce = 4096 // so that others need not wait for long
	var version ope.Version
	for from := 0; from < len(turns); from += atOnce {
		s.mu.Lock()
		if from == 0 {
			version = s.known.version()
		}
		if s.known.version() != version {
			s.mu.Unlock()
			return nil, false
		}
		for _, i := range turns[from:min(from+atOnce, len(turns))] {
			if spots[i].version == version && version.Epoch != 0 {
				continue
			}
			if e, found := s.known.find(values[i]); found && !s.known.list.Doubts(values[i]) {
				spots[i] = spotOf(e, version)
			} else {
				missing = append(missing, i)
			}
		}
		s.mu.Unlock()
	}
	return missing, true
}

// decrypt returns nil if a value is at a label, and [ope.ErrStale] if it is not.
func (s *shard) decrypt(ctx context.Context, epoch uint64, x int64, at order.Label) error {
	for {
		s.mu.Lock()
		known := s.known.version()
		e, found := s.known.find(x)
		s.mu.Unlock()
		switch {
		case known.Epoch > epoch:
			return ope.ErrStale
		case known.Epoch == epoch && found && e.Label == at:
			return nil
		}
		if err := s.connect(ctx); err != nil {
			return err
		}
		if known, _ = s.version(); known.Epoch > epoch {
			continue
		}
		if !at.Less(order.Label{Hi: 1<<64 - 1, Lo: 1<<64 - 1}) || at.IsZero() {
			return ope.ErrCiphertext
		}
		p, err := s.read(ctx, known.Epoch, at, at.Next(), 1)
		if err != nil {
			return err
		}
		s.mu.Lock()
		ok, err := s.meet(p)
		elsewhere := ok && !s.known.part.Covers(x)
		if r := s.known.rules; ok && err == nil && len(p.Elements) > 0 && r.From.Less(at) && at.Less(r.High().Label) {
			err = s.learn(p.Unit, p.Elements)
		}
		s.mu.Unlock()
		switch {
		case err != nil:
			return err
		case p.Meta.State == ope.StateRetired:
			continue // the epoch of the ciphertext is over, or has only begun
		case known.Epoch < epoch:
			return ope.ErrCiphertext // of an epoch that has not begun
		case elsewhere:
			return errElsewhere
		case len(p.Elements) > 0 && p.Elements[0].Value == x:
			return nil
		case ok:
			return ope.ErrStale
		}
	}
}
