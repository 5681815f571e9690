package wozniak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// small returns a client that divides units at a number of pairs, into some parts.
func small(tb testing.TB, ix ope.Index, d ope.Domain, limit, fanOut int, opts *IndexedOptions) *Indexed {
	s := newIndexed(tb, ix, d, opts)
	s.limit, s.fanOut, s.page, s.ahead = limit, fanOut, 8, 16
	return s
}

// all collects what a check of a sound index yields.
func all(tb testing.TB, s *Indexed) map[int64]string {
	has := make(map[int64]string)
	last := s.domain.Min
	for e, err := range s.Check(bg, func(record []byte, err error) { tb.Errorf("%x: %v", record, err) }) {
		require.NoError(tb, err)
		require.True(tb, len(has) == 0 || last < e.Plaintext)
		has[e.Plaintext], last = string(e.Ciphertext), e.Plaintext
	}
	return has
}

// Values get the ciphertexts that they would get in one unit, from the same coins, whatever their order and wherever units are cut:
// what is drawn depends on the neighbours of a value alone.
func TestDivisionDrawsAsOneUnit(t *testing.T) {
	for seed := range uint64(sim.Share(60, 24)) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := []ope.Domain{{Min: 0, Max: 30}, ope.Int8, ope.Int32, ope.Int64}[r.IntN(4)]
		opts := func() *IndexedOptions {
			return &IndexedOptions{TargetsOnly: seed%2 == 0, Coins: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})}
		}
		ix := opetest.NewIndex()
		limit, fanOut := 3+r.IntN(10), 2+r.IntN(5)
		divided, whole := small(t, ix, d, limit, fanOut, opts()), newIndexed(t, opetest.NewIndex(), d, opts())
		if seed%3 == 0 {
			divided.cache = 20
		}
		has := make(map[int64]ope.Ciphertext)
		for i := range uint64(80) {
			x := d.At(r.Uint64N(min(d.Span(), 1<<62) + 1))
			switch seed % 4 {
			case 1:
				x = d.At(min(i, d.Span()))
			case 2:
				x = d.At(d.Span() - min(i, d.Span()))
			}
			want, err := whole.Encrypt(bg, x)
			require.NoError(t, err)
			got, err := divided.Encrypt(bg, x)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d: %d", seed, x)
			has[x] = want
		}
		require.Positive(t, divided.Stats().Divided)
		cold := func() *Indexed { return small(t, ix, d, limit, fanOut, opts()) }
		known := all(t, whole)
		require.Equal(t, known, all(t, cold()))
		for x, c := range has {
			got, err := cold().Decrypt(bg, c)
			require.NoError(t, err)
			require.Equal(t, x, got)
			again, err := cold().Encrypt(bg, x)
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		reader := cold()
		for range 20 {
			lo, hi := d.At(r.Uint64N(min(d.Span(), 1<<62)+1)), d.At(r.Uint64N(min(d.Span(), 1<<62)+1))
			lo, hi = min(lo, hi), max(lo, hi)
			want, err := whole.Intervals(bg, lo, hi)
			require.NoError(t, err)
			got, err := reader.Intervals(bg, lo, hi)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		require.Zero(t, reader.Stats().Commits, "who reads does not copy")
		_, err := cold().Decrypt(bg, make(ope.Ciphertext, cold().size()))
		if err != nil { // unless it is one
			require.ErrorIs(t, err, ope.ErrCiphertext)
		}
		pairs, sound, err := cold().Seal(bg)
		require.NoError(t, err)
		require.True(t, sound)
		require.Len(t, pairs, len(known))
		for x := range d.Span() { // nor is it in units that nobody has opened
			if _, is := known[d.At(x)]; !is {
				_, err = cold().Encrypt(bg, d.At(x))
				require.ErrorIs(t, err, ope.ErrIndex)
			}
			if x == 20 {
				break
			}
		}
	}
}

// Values that ascend, and others, are found by a new client in as many round trips as in one unit, and two more where the pairs
// of their part were not copied.
func TestDividedColdLookUp(t *testing.T) {
	for _, arrival := range []string{"ascending", "random"} {
		trips := make(map[int]int)
		for _, limit := range []int{1 << 20, 2000} {
			ix := opetest.NewIndex()
			opts := func() *IndexedOptions { return &IndexedOptions{TargetsOnly: true, Coins: rand.NewChaCha8([32]byte{3})} }
			s := newIndexed(t, ix, ope.Int32, opts())
			s.limit = limit
			const n = 40_000
			xs := make([]int64, n)
			for i := range xs {
				if xs[i] = int64(i); arrival == "random" {
					xs[i] = int64(int32(i * -0x61c88647))
				}
			}
			cs, err := s.EncryptBatch(bg, xs)
			require.NoError(t, err)
			require.Equal(t, limit < n, s.Stats().Divided > 0)
			for i := 0; i < n; i += 997 {
				cold := newIndexed(t, ix, ope.Int32, opts())
				c, err := cold.Encrypt(bg, xs[i])
				require.NoError(t, err)
				require.Equal(t, cs[i], c)
				require.Zero(t, cold.Stats().Commits, "what is there is not copied")
				trips[limit] = max(trips[limit], cold.Stats().Trips)
			}
			cold := newIndexed(t, ix, ope.Int32, opts())
			_, err = cold.Decrypt(bg, cs[n-1])
			require.NoError(t, err)
			require.LessOrEqual(t, cold.Stats().Trips, 2+1)
		}
		t.Log(arrival, trips)
		require.LessOrEqual(t, trips[2000], trips[1<<20]+1)
	}
}

// Clients remember no more of all units together than they may.
func TestDividedCacheIsBounded(t *testing.T) {
	ix := opetest.NewIndex()
	s := small(t, ix, ope.Int32, 500, 16, &IndexedOptions{TargetsOnly: true, CacheValues: 1000})
	given := manyBounded(t, s, 10_000)
	require.Greater(t, s.Stats().Divided, 10)
	for x, c := range given {
		got, err := s.Decrypt(bg, c)
		require.NoError(t, err)
		require.Equal(t, x, got)
	}
	require.LessOrEqual(t, s.known.n, 3000)
}

// Concurrent calls of several clients agree while units are divided.
func TestDividedUnderLoad(t *testing.T) {
	ix := opetest.NewIndex()
	clients := []*Indexed{
		small(t, ix, ope.Int32, 30, 4, &IndexedOptions{TargetsOnly: true}),
		small(t, ix, ope.Int32, 30, 4, &IndexedOptions{TargetsOnly: true, CacheValues: 1000}),
		small(t, ix, ope.Int32, 30, 3, &IndexedOptions{TargetsOnly: true}),
	}
	var mu sync.Mutex
	given := map[int64]string{}
	var wg sync.WaitGroup
	for w := range 12 {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range 40 {
				s := clients[w%3]
				xs := make([]int64, 5)
				for i := range xs {
					xs[i] = int64(random.IntN(3000)) * 1003
				}
				cs, err := s.EncryptBatch(bg, xs)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, x := range xs {
					if before, ok := given[x]; ok && before != string(cs[i]) {
						t.Errorf("%d has two ciphertexts", x)
					}
					given[x] = string(cs[i])
				}
				mu.Unlock()
				if x, err := s.Decrypt(bg, cs[0]); err != nil || x != xs[0] {
					t.Errorf("decrypt: %d, %v", x, err)
				}
				if _, err := s.Intervals(bg, xs[0]-7, xs[1]+max(0, xs[0]-xs[1])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	has := all(t, small(t, ix, ope.Int32, 30, 4, &IndexedOptions{TargetsOnly: true}))
	for x, c := range given {
		require.Equal(t, c, has[x])
	}
}

// Who was alone, and finds its full unit divided, goes on where the others do.
func TestDividedByAnother(t *testing.T) {
	ix := opetest.NewIndex()
	opts := &IndexedOptions{TargetsOnly: true}
	s := small(t, ix, ope.Int16, 20, 3, opts)
	for s.root.count < 20 {
		_, err := s.Encrypt(bg, int64(s.root.count))
		require.NoError(t, err)
	}
	require.True(t, s.root.alone)
	_, err := small(t, ix, ope.Int16, 20, 3, opts).Encrypt(bg, 100)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	_, err = s.Encrypt(ctx, 200)
	require.NoError(t, err)
	require.Equal(t, 0, s.Stats().Divided)
}

// without hides a unit, as if somebody had removed it.
type without struct {
	ope.Index
	unit ope.Unit
}

func (ix without) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if unit == ix.unit {
		return ope.View{}, nil
	}
	return ix.Index.Read(ctx, unit, from, to, limit)
}

// A unit that was opened and is gone is named, and nobody opens it again. So is one that is damaged, and a directory.
func TestDividedNoticesDamage(t *testing.T) {
	ix := opetest.NewIndex()
	opts := &IndexedOptions{TargetsOnly: true}
	s := small(t, ix, ope.Int16, 100, 4, opts)
	var xs []int64
	for i := range 250 {
		xs = append(xs, int64(i*7919%30000))
	}
	cs, err := s.EncryptBatch(bg, xs)
	require.NoError(t, err)
	u := s.root.leaf(s.domain.Offset(xs[0]))
	require.True(t, u.open)
	checked := func(ix ope.Index) (faults []string) {
		for _, err := range small(t, ix, ope.Int16, 100, 4, opts).Check(bg, func(_ []byte, err error) { faults = append(faults, err.Error()) }) {
			if err != nil {
				faults = append(faults, err.Error())
			}
		}
		return faults
	}
	require.Empty(t, checked(ix))

	hidden := without{ix, u.name}
	named := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, ope.ErrIndex)
		require.Contains(t, err.Error(), string(u.name))
	}
	cold := func() *Indexed { return small(t, hidden, ope.Int16, 100, 4, opts) }
	_, err = cold().Encrypt(bg, xs[0])
	named(err)
	fresh := s.domain.At(s.domain.Offset(xs[0]) + 1)
	_, err = cold().Encrypt(bg, fresh)
	named(err)
	_, err = cold().Intervals(bg, fresh, fresh)
	named(err)
	_, err = cold().Decrypt(bg, cs[0])
	named(err)
	faults := checked(hidden)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], string(u.name))

	// One whose header was replaced by that of another unit.
	v, err := ix.Read(bg, u.name, headerKey, []byte{0, 0}, 1)
	require.NoError(t, err)
	other, err := ix.Read(bg, s.root.parts[0].name, headerKey, []byte{0, 0}, 1)
	require.NoError(t, err)
	if u == s.root.parts[0] {
		other, err = ix.Read(bg, "unit", headerKey, []byte{0, 0}, 1)
		require.NoError(t, err)
	}
	commit := func(unit ope.Unit, meta ope.Meta, r ope.Record) {
		ok, err := ix.Commit(bg, unit, ope.Condition{State: meta.State, Generation: meta.Generation}, ope.Change{Puts: []ope.Record{r}, Meta: meta})
		require.NoError(t, err)
		require.True(t, ok)
	}
	commit(u.name, v.Meta, other.Records[0])
	faults = checked(ix)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], string(u.name))
	commit(u.name, v.Meta, v.Records[0])

	// A directory that was changed.
	root, err := ix.Read(bg, "unit", s.directoryKey(), append(s.directoryKey(), 0), 1)
	require.NoError(t, err)
	changed := root.Records[0]
	changed.Value = bytes.Clone(changed.Value)
	changed.Value[40] ^= 1
	commit("unit", root.Meta, changed)
	_, err = small(t, ix, ope.Int16, 100, 4, opts).Encrypt(bg, fresh)
	require.ErrorIs(t, err, ope.ErrIndex)
	require.Contains(t, err.Error(), fmt.Sprintf("%x", s.directoryKey()))
	require.NotEmpty(t, checked(ix))
}

// Who stops anywhere, also between two commits of a copy, leaves what others go on with. Listings are hints.
func TestDivisionIsInterrupted(t *testing.T) {
	for at := range sim.Share(90, 12) {
		ix := opetest.NewIndex()
		opts := func() *IndexedOptions { return &IndexedOptions{TargetsOnly: true, Coins: rand.NewChaCha8([32]byte{9})} }
		commits := 0
		ix.Inject(func(_ context.Context, op opetest.Op) opetest.Fault {
			if !op.Commit {
				return opetest.None
			}
			if commits++; commits == at {
				return []opetest.Fault{opetest.Fail, opetest.LostBefore, opetest.LostAfter}[at%3]
			}
			return opetest.None
		})
		var xs []int64
		for i := range 300 {
			xs = append(xs, int64(i*7919%30000))
		}
		given := make(map[int64]string)
		for i := 0; i < len(xs); {
			s := small(t, ix, ope.Int16, 20, 3, opts())
			for ; i < len(xs); i++ {
				c, err := s.Encrypt(bg, xs[i])
				if errors.Is(err, opetest.ErrInjected) {
					break
				}
				require.NoError(t, err)
				given[xs[i]] = string(c)
			}
		}
		ix.Inject(nil)
		has := all(t, small(t, ix, ope.Int16, 20, 3, opts()))
		maps.DeleteFunc(has, func(x int64, _ string) bool { return !slices.Contains(xs, x) })
		require.Equal(t, given, has)
	}
}

// The records of a closed unit are never changed, and earlier versions refuse it by its state.
func TestClosedUnit(t *testing.T) {
	ix := opetest.NewIndex()
	s := small(t, ix, ope.Int16, 50, 4, &IndexedOptions{TargetsOnly: true})
	var before ope.View
	for i := range int64(400) {
		_, err := s.Encrypt(bg, i*7919%30000)
		require.NoError(t, err)
		v, err := ix.Read(bg, "unit", bytes.Repeat([]byte{0}, s.size()+9), nil, 0)
		require.NoError(t, err)
		if v.Meta.State != ope.StateOpen {
			require.Equal(t, ope.StateSealed, v.Meta.State)
			require.Equal(t, uint64(divided), v.Meta.Generation)
			v.Records = slices.DeleteFunc(v.Records, func(r ope.Record) bool { return !s.isPair(r.Key) })
			if before.Meta.State == ope.StateSealed {
				require.Equal(t, before.Records, v.Records)
			}
			before = v
		}
	}
	require.NotEmpty(t, before.Records)
	for u := range s.root.leaves {
		require.True(t, strings.HasPrefix(string(u.name), "unit/"))
		require.Len(t, string(u.name), len("unit/")+16)
	}
}

// Values that ascended crowd at one place of a gap that is empty else. A new client finds them as fast as others.
func TestColdLookUpOfAscending(t *testing.T) {
	for _, unit := range []int{0, 20_000} {
		ix := opetest.NewIndex()
		opts := &IndexedOptions{TargetsOnly: true, UnitValues: unit}
		s := newIndexed(t, ix, ope.Int64, opts)
		xs := make([]int64, 50_000)
		for i := range xs {
			xs[i] = int64(i)
		}
		cs, err := s.EncryptBatch(bg, xs)
		require.NoError(t, err)
		for i := 0; i < len(xs); i += 6000 {
			cold := newIndexed(t, ix, ope.Int64, opts)
			c, err := cold.Encrypt(bg, xs[i])
			require.NoError(t, err)
			require.Equal(t, cs[i], c)
			require.LessOrEqual(t, cold.Stats().Trips, 12)
		}
	}
}

// Who leaves a check early is told of no more faults, and nothing more is read.
func TestACheckThatIsLeftEndsThere(t *testing.T) {
	ix, left := opetest.NewIndex(), false
	s := small(t, ix, ope.Int16, 100, 4, nil)
	for x := range int64(20) {
		_, err := s.Encrypt(bg, x*7919%30000)
		require.NoError(t, err)
	}
	require.NotEmpty(t, s.root.parts)
	ix.Inject(func(context.Context, opetest.Op) opetest.Fault {
		require.False(t, left)
		return opetest.None
	})
	for _, err := range small(t, ix, ope.Int16, 100, 4, nil).Check(bg, func([]byte, error) {}) {
		require.NoError(t, err)
		left = true
		break
	}
	require.True(t, left)
}
