package kerschbaum

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// shards are those that a client knows, in the order of their values. What they say of their edges may be out of date:
// a value may be further to the left than it seems, but never further to the right.
type shards struct {
	of   *Scheme
	uses atomic.Int64 // of shards so far

	mu    sync.RWMutex
	known map[uint32]*shard
	seats []place // ascending; shard 0, which has the highest values, is the last
}

// A place is that a shard has the values below an edge, and above those of the place before.
type place struct {
	high  int64 // excluded; it does not count for shard 0
	shard *shard
}

func newShards(of *Scheme) *shards {
	first := newShard(of, 0)
	return &shards{of: of, known: map[uint32]*shard{0: first}, seats: []place{{shard: first}}}
}

// first returns shard 0.
func (m *shards) first() *shard {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.known[0]
}

// at returns the shard where a value is, or to the right of that.
func (m *shards) at(x int64) *shard {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.seats[m.seat(x)].shard
}

// seat returns the index of the first place whose edge is above x.
func (m *shards) seat(x int64) int {
	last := len(m.seats) - 1
	return sort.Search(last, func(i int) bool { return x < m.seats[i].high })
}

// A stretch is of ascending values those, from from to to, excluded, that are in a shard.
type stretch struct {
	shard    *shard
	from, to int
}

// split returns the stretches of ascending values.
func (m *shards) split(values []int64) (out []stretch) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for from := 0; from < len(values); {
		i := m.seat(values[from])
		to := len(values)
		if i < len(m.seats)-1 {
			to, _ = slices.BinarySearch(values, m.seats[i].high)
		}
		out = append(out, stretch{m.seats[i].shard, from, to})
		from = to
	}
	return out
}

// get returns a shard by its number. Its epoch is known.
func (m *shards) get(number uint32, epoch uint64) *shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.known[number]
	if s == nil {
		s = newShard(m.of, number)
		s.known.epoch = epoch
		m.known[number] = s
	}
	return s
}

// all returns the shards, by their numbers.
func (m *shards) all() []*shard {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.SortedFunc(maps.Values(m.known), func(a, b *shard) int { return cmp.Compare(a.number, b.number) })
}

// note takes note of which part a shard has.
func (m *shards) note(s *shard, is unit.Part) {
	if s.number == 0 || unit.SameEdge(is.Low, is.High) {
		return // it is the last in any case, or has nothing yet
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.IndexFunc(m.seats, func(p place) bool { return p.shard == s }); i >= 0 {
		if m.seats[i].high >= is.High.Value {
			return
		}
		m.seats = slices.Delete(m.seats, i, i+1)
	}
	i := sort.Search(len(m.seats)-1, func(i int) bool { return is.High.Value < m.seats[i].high })
	m.seats = slices.Insert(m.seats, i, place{is.High.Value, s})
}

// share bounds what the shard remembers to what others leave of the cache, but so that one commit fits into a quarter
// of it. If that is less than half, others forget what is more than their part, or most of it if they were not used for long,
// unless the shard is to be modest.
func (s *shard) share(modest bool) {
	if s.cache == 0 {
		return
	}
	all, now := s.of.shards.all(), s.of.shards.uses.Add(1)
	least, left := min(s.cache, 16*s.batch), s.cache
	for _, other := range all {
		if other != s {
			other.mu.Lock()
			left -= other.known.list.Len()
			other.mu.Unlock()
		}
	}
	for _, other := range all {
		if modest || other == s || left >= s.cache/2 {
			continue
		}
		keep := least
		if now-other.used.Load() < 256 {
			keep = max(s.cache/len(all), least)
		}
		other.mu.Lock()
		if l := other.known.list; l.Len() > keep {
			left += l.Len()
			l.SetLimit(keep)
			left -= l.Len()
		}
		other.mu.Unlock()
	}
	s.used.Store(now)
	limit := max(left, least)
	s.reads.Store(int32(min(s.page, max(4, limit/(4*s.batch)))))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.list.SetLimit(limit)
}

// at calls do with the shard where a value is, again where that turns out to be another one.
func (s *Scheme) at(ctx context.Context, x int64, do func(*shard) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		sh := s.shards.at(x)
		if err := do(sh); !errors.Is(err, errElsewhere) {
			return err
		}
		if err := s.lead(ctx, sh, x); err != nil {
			return err
		}
	}
}

// list takes note of the shards that the directory has, see [unitio.Shard.ReadRoot].
func (m *shards) list(directory []unit.Listing) {
	for _, l := range directory {
		m.note(m.get(l.Number, l.Epoch), unit.Part{High: l.High})
	}
}
