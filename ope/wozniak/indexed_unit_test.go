package wozniak

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func newIndexed(tb testing.TB, ix ope.Index, d ope.Domain, opts *IndexedOptions) *Indexed {
	tb.Helper()
	s, err := NewIndexed(indexedKey(tb), d, ix, "unit", opts)
	require.NoError(tb, err)
	return s
}

var bg = context.Background()

func TestNewIndexedRefuses(t *testing.T) {
	key, ix := indexedKey(t), opetest.NewIndex()
	for _, c := range []struct {
		key  ope.Key
		d    ope.Domain
		unit ope.Unit
		opts IndexedOptions
		want error
	}{
		{ope.Key{}, ope.Int8, "u", IndexedOptions{}, ope.ErrKey},
		{key, ope.Domain{Min: 1}, "u", IndexedOptions{}, ope.ErrParams},
		{key, ope.Int8, ope.Unit(strings.Repeat("u", 65)), IndexedOptions{}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{RangeBits: 15, AllowSmallRange: true}, ope.ErrParams},
		{key, ope.Int32, "u", IndexedOptions{RangeBits: 95}, ope.ErrParams},
		{key, ope.Int32, "u", IndexedOptions{RangeBits: 31, AllowSmallRange: true}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{RangeBits: 193}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{RangeBits: -1, AllowSmallRange: true}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{CacheValues: -1}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{CacheValues: 5}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{UnitValues: 63}, ope.ErrParams},
		{key, ope.Int8, "u", IndexedOptions{UnitValues: -1}, ope.ErrParams},
	} {
		_, err := NewIndexed(c.key, c.d, ix, c.unit, &c.opts)
		require.ErrorIs(t, err, c.want, "%+v", c.opts)
	}
	_, err := NewIndexed(key, ope.Int8, nil, "u", nil)
	require.ErrorIs(t, err, ope.ErrParams)
	for d, bits := range map[ope.Domain]int{ope.Int8: 72, ope.Int16: 80, ope.Int32: 96, ope.Int64: 192, {Min: 3, Max: 3}: 64} {
		s := newIndexed(t, ix, d, nil)
		require.Equal(t, fmt.Sprintf("wozniak-indexed/1 domain=%s range=%d keep=all", d, bits), s.ID())
	}
	require.Zero(t, ix.Commits(), "a constructor writes nothing")
}

// With no room to spare the function is the identity, and every bit of the range is used.
func TestIndexedFullRange(t *testing.T) {
	s := newIndexed(t, opetest.NewIndex(), ope.Uint16, &IndexedOptions{RangeBits: 16, AllowSmallRange: true})
	for x := int64(0); x <= 0xffff; x += 255 {
		c, err := s.Encrypt(bg, x)
		require.NoError(t, err)
		require.Equal(t, ope.Ciphertext{byte(x >> 8), byte(x)}, c)
		got, err := newIndexed(t, s.index, ope.Uint16, &IndexedOptions{RangeBits: 16, AllowSmallRange: true}).Decrypt(bg, c)
		require.NoError(t, err)
		require.Equal(t, x, got)
		ivs, err := s.Intervals(bg, 0, x)
		require.NoError(t, err)
		require.Equal(t, ope.Ciphertext{0, 0}, ivs[0].Start)
		if x == 0xffff {
			require.Equal(t, ope.Ciphertext{0xff, 0xff, 0}, ivs[0].End)
		}
	}
}

// A unit of another scheme, key, domain, or option, or of a newer format, is refused at the first
// use, whatever it is, and stays as it is.
func TestIndexedRefusesForeignUnits(t *testing.T) {
	other := ope.GenerateKey()
	write := func(key ope.Key, d ope.Domain, opts *IndexedOptions) func(ix ope.Index) {
		return func(ix ope.Index) {
			s, err := NewIndexed(key, d, ix, "unit", opts)
			require.NoError(t, err)
			_, err = s.Encrypt(bg, d.Min+1)
			require.NoError(t, err)
		}
	}
	raw := func(state ope.State, records ...ope.Record) func(ix ope.Index) {
		return func(ix ope.Index) {
			ok, err := ix.Commit(bg, "unit", ope.Condition{}, ope.Change{Puts: records, Meta: ope.Meta{State: state}})
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
	for _, c := range []struct {
		name  string
		write func(ix ope.Index)
		says  string
	}{
		{"another key", write(other, ope.Int16, nil), "another key"},
		{"another domain", write(indexedKey(t), ope.Int32, nil), "domain=[-2147483648,2147483647]"},
		{"another domain and key", write(other, ope.Int32, nil), "another key"},
		{"another range", write(indexedKey(t), ope.Int16, &IndexedOptions{RangeBits: 100}), "range=100"},
		{"targets only", write(indexedKey(t), ope.Int16, &IndexedOptions{TargetsOnly: true}), "keep=targets"},
		{"another scheme", raw(ope.StateOpen, ope.Record{Key: []byte("0123456789abcdef"), Value: []byte{1}}), "another scheme"},
		{"a newer format", raw(ope.StateOpen, ope.Record{Key: headerKey, Value: []byte{3, 3, 4}}), "format 3"},
		{"an empty header", raw(ope.StateOpen, ope.Record{Key: headerKey, Value: []byte{}}), "empty"},
		{"nothing but the state", raw(ope.StateOpen), "another scheme"},
		{"retired", raw(ope.StateRetired), "another scheme"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ix := opetest.NewIndex()
			c.write(ix)
			before, err := ix.Read(bg, "unit", nil, nil, 0)
			require.NoError(t, err)
			refused := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, ope.ErrIndex)
				require.Contains(t, err.Error(), c.says)
				require.Contains(t, err.Error(), `"unit"`)
			}
			_, err = newIndexed(t, ix, ope.Int16, nil).Encrypt(bg, 5)
			refused(err)
			_, err = newIndexed(t, ix, ope.Int16, nil).EncryptBatch(bg, []int64{5, 6})
			refused(err)
			_, err = newIndexed(t, ix, ope.Int16, nil).Decrypt(bg, make(ope.Ciphertext, 10))
			refused(err)
			_, err = newIndexed(t, ix, ope.Int16, nil).Intervals(bg, 5, 6)
			refused(err)
			after, err := ix.Read(bg, "unit", nil, nil, 0)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

// A record that was changed, moved, or removed is noticed by who needs it, and named.
func TestIndexedNoticesTampering(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(all []ope.Record, i int) ope.Change
	}{
		{"changed", func(all []ope.Record, i int) ope.Change {
			v := bytes.Clone(all[i].Value)
			v[len(v)-1] ^= 1
			return ope.Change{Puts: []ope.Record{{Key: all[i].Key, Value: v}}}
		}},
		{"replaced by its neighbour", func(all []ope.Record, i int) ope.Change {
			return ope.Change{Puts: []ope.Record{{Key: all[i].Key, Value: all[i+1].Value}}}
		}},
		{"of a newer format", func(all []ope.Record, i int) ope.Change {
			return ope.Change{Puts: []ope.Record{{Key: all[i].Key, Value: append([]byte{2}, all[i].Value[1:]...)}}}
		}},
		{"cut short", func(all []ope.Record, i int) ope.Change {
			return ope.Change{Puts: []ope.Record{{Key: all[i].Key, Value: all[i].Value[:20]}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ix := opetest.NewIndex()
			xs := []int64{-20_000, -3, 5, 600, 20_000}
			cs, err := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true}).EncryptBatch(bg, xs)
			require.NoError(t, err)
			v, err := ix.Read(bg, "unit", cs[0], nil, 0)
			require.NoError(t, err)
			change := c.change(v.Records, 2) // of 5
			change.Meta = v.Meta
			ok, err := ix.Commit(bg, "unit", ope.Condition{State: ope.StateOpen}, change)
			require.NoError(t, err)
			require.True(t, ok)
			named := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, ope.ErrIndex)
				require.Contains(t, err.Error(), fmt.Sprintf("%x", []byte(cs[2])))
			}
			fresh := func() *Indexed { return newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true}) }
			_, err = fresh().Decrypt(bg, cs[2])
			named(err)
			_, err = fresh().Encrypt(bg, 5)
			named(err)
			_, err = fresh().Intervals(bg, 5, 7)
			named(err)
			x, err := fresh().Decrypt(bg, cs[4])
			require.NoError(t, err)
			require.Equal(t, int64(20_000), x, "other records are not harmed")
		})
	}

	t.Run("removed", func(t *testing.T) {
		ix := opetest.NewIndex()
		s := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})
		cs, err := s.EncryptBatch(bg, []int64{5, 600})
		require.NoError(t, err)
		v, err := ix.Read(bg, "unit", headerKey, nil, 1)
		require.NoError(t, err)
		v.Meta.Nonce = ope.Nonce{1} // or it would not look
		ok, err := ix.Commit(bg, "unit", ope.Condition{State: ope.StateOpen}, ope.Change{Deletes: [][]byte{cs[0]}, Meta: v.Meta})
		require.NoError(t, err)
		require.True(t, ok)
		_, err = s.Encrypt(bg, 50)
		require.ErrorIs(t, err, ope.ErrIndex)
		require.Contains(t, err.Error(), fmt.Sprintf("%x of unit \"unit\" is missing", []byte(cs[0])))
	})
}

// Only an index whose units cannot be named gets full.
func TestIndexedIsFull(t *testing.T) {
	ix := opetest.NewIndex()
	long := ope.Unit(strings.Repeat("u", 48))
	opened := func() *Indexed {
		s, err := NewIndexed(indexedKey(t), ope.Int16, ix, long, &IndexedOptions{TargetsOnly: true})
		require.NoError(t, err)
		s.limit = 100
		return s
	}
	s := opened()
	var given []ope.Ciphertext
	xs := rand.New(rand.NewPCG(1, 1)).Perm(30_000)
	for i := range 98 { // and the two ends
		c, err := s.Encrypt(bg, int64(xs[i])+1)
		require.NoError(t, err)
		given = append(given, c)
	}
	_, err := s.Encrypt(bg, -7)
	require.ErrorIs(t, err, ope.ErrFull)
	_, err = s.EncryptBatch(bg, []int64{int64(xs[0]) + 1, -7, -8})
	require.ErrorIs(t, err, ope.ErrFull)
	cold := opened()
	_, err = cold.Encrypt(bg, -7)
	require.ErrorIs(t, err, ope.ErrFull, "the number is kept in the index")
	for i, c := range given {
		again, err := cold.Encrypt(bg, int64(xs[i])+1)
		require.NoError(t, err, "what is in a full index is still given")
		require.Equal(t, c, again)
	}
}

// Once asked for, an interval holds all of its values that are encrypted later.
func TestIndexedIntervalsHoldWhatComesLater(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		s := newIndexed(t, opetest.NewIndex(), ope.Int8, &IndexedOptions{TargetsOnly: seed%2 == 0})
		value := func() int64 { return int64(random.IntN(256)) - 128 }
		for range random.IntN(20) {
			_, err := s.Encrypt(bg, value())
			require.NoError(t, err)
		}
		lo, hi := value(), value()
		lo, hi = min(lo, hi), max(lo, hi)
		ivs, err := s.Intervals(bg, lo, hi)
		require.NoError(t, err)
		require.Len(t, ivs, 1)
		exact := random.IntN(2) == 0
		if exact { // bounds that are encrypted have exact intervals for good
			for _, x := range []int64{lo, hi} {
				_, err := s.Encrypt(bg, x)
				require.NoError(t, err)
			}
			ivs, err = s.Intervals(bg, lo, hi)
			require.NoError(t, err)
		}
		for x := int64(-128); x < 128; x++ {
			c, err := s.Encrypt(bg, x)
			require.NoError(t, err)
			in := bytes.Compare(ivs[0].Start, c) <= 0 && bytes.Compare(c, ivs[0].End) < 0
			if lo <= x && x <= hi {
				require.True(t, in, "seed %d: the interval of [%d, %d] misses %d", seed, lo, hi, x)
			} else if exact {
				require.False(t, in, "seed %d: the interval of [%d, %d] holds %d", seed, lo, hi, x)
			}
		}
	}
}

// An index whose calls take some time, as those of a server do.
func slow(ix *opetest.Index, d time.Duration) *opetest.Index {
	ix.Inject(func(context.Context, opetest.Op) opetest.Fault {
		time.Sleep(d)
		return opetest.None
	})
	return ix
}

// Concurrent calls share commits, and clients of several processes agree.
func TestIndexedGroupCommit(t *testing.T) {
	ix := slow(opetest.NewIndex(), time.Millisecond)
	clients := []*Indexed{newIndexed(t, ix, ope.Int32, nil), newIndexed(t, ix, ope.Int32, nil)}
	const workers, each = 32, 20
	var mu sync.Mutex
	given := map[int64]ope.Ciphertext{}
	var wg sync.WaitGroup
	for w := range workers {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range each {
				x := int64(random.IntN(400)) * 1_000_003
				c, err := clients[w%2].Encrypt(bg, x)
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else if before, ok := given[x]; ok && !bytes.Equal(before, c) {
					t.Errorf("%d has two ciphertexts", x)
				}
				given[x] = c
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	commits := clients[0].Stats().Commits + clients[1].Stats().Commits
	t.Logf("%d values, %d commits; %+v", len(given), commits, clients[0].Stats())
	require.Less(t, commits, len(given)/2)
	values := make([]int64, 0, len(given))
	for x := range given {
		values = append(values, x)
	}
	slices.Sort(values)
	for i, x := range values[1:] {
		require.Negative(t, bytes.Compare(given[values[i]], given[x]))
	}
}

// fill puts n values into an index and returns them with their ciphertexts.
func fill(tb testing.TB, ix ope.Index, n int, opts *IndexedOptions) ([]int64, []ope.Ciphertext) {
	s := newIndexed(tb, ix, ope.Int32, opts)
	s.root.lot = commitRecords
	random := rand.New(rand.NewPCG(4, 4))
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = int64(int32(random.Uint32()))
	}
	cs, err := s.EncryptBatch(bg, xs)
	require.NoError(tb, err)
	return xs, cs
}

// A client without a cache finds a value in a few round trips, and never by reading the whole.
func TestIndexedColdLookUp(t *testing.T) {
	// With fixed coins: the figures below are of this index.
	opts := &IndexedOptions{TargetsOnly: true, Coins: rand.NewChaCha8([32]byte{1})}
	ix := opetest.NewIndex()
	const n = 30_000
	xs, cs := fill(t, ix, n, opts)
	worst, sum := 0, 0
	const looks = 40
	for i := range looks {
		s := newIndexed(t, ix, ope.Int32, opts)
		c, err := s.Encrypt(bg, xs[i*97])
		require.NoError(t, err)
		require.Equal(t, cs[i*97], c)
		st := s.Stats()
		worst, sum = max(worst, st.Trips), sum+st.Trips
		require.Less(t, s.known.n, n/10, "the whole index is not read")
		x, err := newIndexed(t, ix, ope.Int32, opts).Decrypt(bg, cs[i])
		require.NoError(t, err)
		require.Equal(t, xs[i], x)
	}
	t.Logf("%d values: %.1f round trips, at most %d", n, float64(sum)/looks, worst)
	require.LessOrEqual(t, worst, 9)
}

// A client that writes alone needs one round trip for a value, and one that does not at most two
// when its neighbours are known and nobody is in the way.
func TestIndexedWarmRoundTrips(t *testing.T) {
	ix := opetest.NewIndex()
	fixed := func(n byte) *IndexedOptions { return &IndexedOptions{Coins: rand.NewChaCha8([32]byte{n})} }
	a := newIndexed(t, ix, ope.Int32, fixed(1))
	_, err := a.Encrypt(bg, 0)
	require.NoError(t, err)
	trips := func(s *Indexed, x int64) int {
		before := s.Stats().Trips
		_, err := s.Encrypt(bg, x)
		require.NoError(t, err)
		return s.Stats().Trips - before
	}
	random := rand.New(rand.NewPCG(2, 2))
	for range 200 {
		require.LessOrEqual(t, trips(a, int64(random.Uint32()>>1)), 1)
	}
	b := newIndexed(t, ix, ope.Int32, fixed(2))
	trips(b, 12345)
	require.Equal(t, 3, trips(a, 1_000_000_007), "the first after another's commit: refused, read, commit")
	sum := 0
	for range 200 {
		trips(b, int64(random.Uint32()>>1))
		n := trips(a, int64(random.Uint32()>>1))
		require.LessOrEqual(t, n, 8)
		sum += n
	}
	require.LessOrEqual(t, float64(sum)/200, 3.5, "read and commit, and now and then further reads")
}

// manyBounded encrypts so many values with a client that may remember 1000, and returns their ciphertexts.
func manyBounded(t *testing.T, s *Indexed, n int) map[int64]ope.Ciphertext {
	t.Helper()
	random := rand.New(rand.NewPCG(4, 4))
	given := map[int64]ope.Ciphertext{}
	for len(given) < n {
		xs := make([]int64, 100)
		for i := range xs {
			xs[i] = int64(int32(random.Uint32()))
		}
		cs, err := s.EncryptBatch(bg, xs)
		require.NoError(t, err)
		for i, x := range xs {
			given[x] = cs[i]
		}
		require.LessOrEqual(t, s.known.n, 3000)
	}
	return given
}

// The cache stays within its bound, and what it dropped is found again.
func TestIndexedCacheIsBounded(t *testing.T) {
	opts := &IndexedOptions{TargetsOnly: true, CacheValues: 1000}
	ix := opetest.NewIndex()
	s := newIndexed(t, ix, ope.Int32, opts)
	given := manyBounded(t, s, 6000)
	for x, c := range given {
		got, err := s.Decrypt(bg, c)
		require.NoError(t, err)
		require.Equal(t, x, got)
		if x%10 == 0 {
			again, err := s.Encrypt(bg, x)
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
	}
	require.LessOrEqual(t, s.known.n, 3000)
}

// A cache of the largest number there is holds whatever is read.
func TestIndexedLargestCache(t *testing.T) {
	ix := opetest.NewIndex()
	given := manyBounded(t, newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true, CacheValues: 1000}), 2000)
	s := newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true, CacheValues: math.MaxInt})
	for range 2 {
		for x, c := range given {
			got, err := s.Decrypt(bg, c)
			require.NoError(t, err)
			require.Equal(t, x, got)
		}
	}
	require.GreaterOrEqual(t, s.known.n, len(given))
}

// A remembered pair takes at most 64 bytes.
func TestPairsMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s pairs
	random := rand.New(rand.NewPCG(1, 1))
	const n = 200_000
	for s.n < n {
		x := random.Uint64N(1 << 40)
		s.put(pair{x: x, c: u192{lo: x}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes a pair", each)
	require.LessOrEqual(t, each, 64.0)
	runtime.KeepAlive(&s)
}

func BenchmarkIndexed(b *testing.B) {
	for _, targets := range []bool{false, true} {
		opts := &IndexedOptions{TargetsOnly: targets}
		name := map[bool]string{false: "all", true: "targets"}[targets]
		b.Run("Encrypt/"+name, func(b *testing.B) {
			s := newIndexed(b, opetest.NewIndex(), ope.Int32, opts)
			s.limit = math.MaxInt
			random := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				if _, err := s.Encrypt(bg, int64(int32(random.Uint32()))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	opts := &IndexedOptions{TargetsOnly: true}
	ix := opetest.NewIndex()
	s := newIndexed(b, ix, ope.Int32, opts)
	random := rand.New(rand.NewPCG(1, 1))
	xs := make([]int64, 900_000)
	for i := range xs {
		xs[i] = int64(int32(random.Uint32()))
	}
	cs, err := s.EncryptBatch(bg, xs)
	require.NoError(b, err)
	runtime.GC() // what it took to fill the index is not measured
	b.Run("Decrypt/warm/900000", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Decrypt(bg, cs[i%len(cs)])
		}
	})
	b.Run("Known/warm/900000", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Encrypt(bg, xs[i%len(xs)])
		}
	})
	b.Run("Cold/900000", func(b *testing.B) {
		trips, reads := 0, 0
		for i := 0; b.Loop(); i++ {
			s := newIndexed(b, ix, ope.Int32, opts)
			if _, err := s.Encrypt(bg, xs[i*7919%len(xs)]); err != nil {
				b.Fatal(err)
			}
			trips, reads = trips+s.Stats().Trips, reads+s.Stats().Reads
		}
		b.ReportMetric(float64(trips)/float64(b.N), "trips/op")
		b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
	})
}
