package kerschbaum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// A filled index is read only, and seals what is asked for when it is asked for.
type filled struct {
	s        *Scheme
	epoch    uint64
	elements []order.Element
	served   atomic.Int64 // records
}

func (f *filled) Read(_ context.Context, name ope.Unit, from, to []byte, limit int) (ope.View, error) {
	u := first(f.s).unit(f.epoch)
	rootUnit := first(f.s).unit(unit.Root)
	switch {
	case name == rootUnit.Name && f.epoch > 1:
		return ope.View{Meta: ope.Meta{State: ope.StateOpen, Generation: f.epoch}}, nil
	case name == rootUnit.Name:
		return ope.View{}, nil
	case name != u.Name:
		return ope.View{Meta: ope.Meta{State: ope.StateRetired}}, nil
	}
	view := ope.View{Meta: ope.Meta{State: ope.StateOpen}}
	lowest, _ := order.ParseLabel(from)
	if lowest.IsZero() {
		view.Records = append(view.Records, u.SealHeader(unit.Header{}))
	}
	for i := sort.Search(len(f.elements), func(i int) bool { return !f.elements[i].Label.Less(lowest) }); i < len(f.elements); i++ {
		if bytes.Compare(f.elements[i].Label.Bytes(), to) >= 0 {
			break
		}
		if limit > 0 && len(view.Records) == limit {
			view.More = true
			break
		}
		view.Records = append(view.Records, u.SealElement(f.elements[i]))
	}
	f.served.Add(int64(len(view.Records)))
	return view, nil
}

func (f *filled) Commit(context.Context, ope.Unit, ope.Condition, ope.Change) (bool, error) {
	return false, errors.New("read only")
}

// A client that knows nothing finds a value in an index of a million in a few round trips, without
// reading much of it.
func TestColdLookUp(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i) * 1000
	}
	even, err := order.DefaultRules().Spread(values)
	require.NoError(t, err)
	ascending, err := insertAll(values)
	require.NoError(t, err)
	backwards := slices.Clone(values)
	slices.Reverse(backwards)
	descending, err := insertAll(backwards)
	require.NoError(t, err)
	slices.Reverse(descending)
	for name, c := range map[string]struct {
		elements []order.Element
		epoch    uint64
		most     int
	}{
		"even":            {even, 1, 4},
		"even, in a copy": {even, 7, 5},
		"ascending":       {ascending, 1, 9},
		"descending":      {descending, 1, 9},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 1))
			worst, reads := 0, 0
			const trials = 12
			for i := range trials {
				index := &filled{epoch: c.epoch, elements: c.elements}
				s := newClient(t, index, ope.Int64, nil)
				index.s = s
				at := []int{0, n - 1, n / 2}
				e := c.elements[append(at, random.IntN(n))[min(i, 3)]]
				x := e.Value + int64(i%2) // present or not
				err := first(s).locate(t.Context(), false, func() ([]order.Gap, error) {
					if e, ok := first(s).known.list.Find(x); ok {
						require.Equal(t, c.elements[x/1000], e)
						return nil, nil
					}
					g := first(s).known.list.Gap(x)
					if !g.Linked {
						return []order.Gap{g}, nil
					}
					require.Equal(t, e, g.Left)
					return nil, nil
				})
				require.NoError(t, err)
				stats := s.Stats()
				worst, reads = max(worst, stats.RoundTrips), max(reads, stats.Reads)
				require.LessOrEqual(t, index.served.Load(), int64(10_000), "records read of %d", n)
			}
			t.Logf("at most %d round trips, %d reads", worst, reads)
			require.LessOrEqual(t, worst, c.most)
		})
	}
}

// insertAll puts values into an index in their order, each beside the one before.
func insertAll(values []int64) ([]order.Element, error) {
	r := order.DefaultRules()
	low, high := order.Element{}, r.High()
	out := make([]order.Element, 0, len(values))
	left, right := low, high
	for i, x := range values {
		e, ok, err := r.Place(left, right)
		if err != nil || !ok {
			return nil, fmt.Errorf("no place for value %d: %w", i, err)
		}
		e.Value = x
		out = append(out, e)
		if i+1 < len(values) && values[i+1] > x {
			left = e
		} else {
			right = e
		}
	}
	return out, nil
}

// A client that is alone needs one round trip for a value beside what it knows, and one commit for
// a batch.
func TestRoundTrips(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, nil)
	random := rand.New(rand.NewPCG(1, 1))
	batch := func(n int) []int64 {
		xs := make([]int64, n)
		for i := range xs {
			xs[i] = int64(random.Uint64())
		}
		return xs
	}
	for range 8 {
		before := index.Commits()
		_, err := s.EncryptBatch(t.Context(), batch(256))
		require.NoError(t, err)
		require.Equal(t, before+1, index.Commits(), "a batch is one commit")
	}
	before := s.Stats()
	for range 100 {
		_, err := s.Encrypt(t.Context(), int64(random.Uint64()))
		require.NoError(t, err)
	}
	after := s.Stats()
	require.Equal(t, 100, after.RoundTrips-before.RoundTrips)
	require.Equal(t, 100, after.Commits-before.Commits)
	require.Zero(t, after.Reads-before.Reads)

	// What is known costs nothing.
	x := int64(5)
	c, err := s.Encrypt(t.Context(), x)
	require.NoError(t, err)
	before = s.Stats()
	_, err = s.Encrypt(t.Context(), x)
	require.NoError(t, err)
	_, err = s.Decrypt(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, before, s.Stats())
	_, err = s.Intervals(t.Context(), x-10, x+10)
	require.NoError(t, err)
	require.Equal(t, 1, s.Stats().RoundTrips-before.RoundTrips)

	// A client that knows nothing needs one read to decrypt, after it has met the index.
	other := newClient(t, index, ope.Int64, nil)
	got, err := other.Decrypt(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, x, got)
	require.LessOrEqual(t, other.Stats().RoundTrips, 2)

	// Big batches are put there some hundred at a time.
	commits := index.Commits()
	_, err = s.EncryptBatch(t.Context(), batch(10_000))
	require.NoError(t, err)
	require.Equal(t, commits+40, index.Commits())
	require.Zero(t, s.Stats().Conflicts)
}

// Clients that run at the same time, with goroutines each. The race detector does the rest.
func TestConcurrentClients(t *testing.T) {
	index := opetest.NewIndex()
	const bits, values = 13, 120
	var wg sync.WaitGroup
	for i := range 3 {
		s := tight(newClient(t, index, ope.Int64, nil), bits)
		for j := range 3 {
			wg.Go(func() {
				for n := range values {
					x := int64((n*(2*i+3) + j) % values)
					c, err := s.Encrypt(t.Context(), x)
					if err == nil {
						var got int64
						if got, err = s.Decrypt(t.Context(), c); errors.Is(err, ope.ErrStale) {
							err = nil
						} else if err == nil && got != x {
							err = fmt.Errorf("Decrypt = %d, want %d", got, x)
						}
					}
					if err == nil && n%20 == j {
						_, err = s.Intervals(t.Context(), x, x+10)
					}
					if err == nil && n%40 == 7*j {
						last := int64(-1)
						for e, rangeErr := range s.Range(t.Context(), 0, values) {
							if err = rangeErr; err == nil && e.Plaintext <= last {
								err = errors.New("a range out of order")
							}
							last = e.Plaintext
						}
					}
					if err == nil && n == 60+10*i && j == 0 {
						_, err = s.Rebalance(t.Context(), nil)
					}
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	next := int64(0)
	for e, err := range tight(newClient(t, index, ope.Int64, nil), bits).Range(t.Context(), ope.Int64.Min, ope.Int64.Max) {
		require.NoError(t, err)
		require.Equal(t, next, e.Plaintext)
		next++
	}
	require.EqualValues(t, values, next)
}

// A client that may remember little puts large batches into a large index all the same.
func TestSmallCache(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, nil)
	random := rand.New(rand.NewPCG(1, 1))
	batch := func(n int) []int64 {
		xs := make([]int64, n)
		for i := range xs {
			xs[i] = int64(random.Uint64())
		}
		return xs
	}
	_, err := s.EncryptBatch(t.Context(), batch(40_000))
	require.NoError(t, err)
	for _, most := range []int{4096, 10_000} {
		small := newClient(t, index, ope.Int64, &Options{CacheValues: most})
		xs := batch(500)
		cs, err := small.EncryptBatch(t.Context(), xs)
		require.NoError(t, err)
		for i, c := range cs {
			x, err := s.Decrypt(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, xs[i], x)
		}
		require.LessOrEqual(t, first(small).known.list.Len(), most)
		stats := small.Stats()
		require.Less(t, stats.RoundTrips, 500, "%+v", stats)
		t.Logf("%+v", stats)
	}
}

// A conditions is an index that counts the conditions of commits.
type conditions struct {
	ope.Index
	nonce, absent atomic.Int64
}

func (c *conditions) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	c.absent.Add(int64(len(cond.Absent)))
	if cond.Nonce != nil {
		c.nonce.Add(1)
	}
	return c.Index.Commit(ctx, u, cond, change)
}

// Who is alone has no database check each place that a batch takes. Who is not, has after one
// refused commit, so that insertions into different gaps do not get in each other's way.
func TestConditions(t *testing.T) {
	index := &conditions{Index: opetest.NewIndex()}
	a := newClient(t, index, ope.Int64, nil)
	random := rand.New(rand.NewPCG(1, 1))
	insert := func(s *Scheme, n int) {
		t.Helper()
		xs := make([]int64, n)
		for i := range xs {
			xs[i] = int64(random.Uint64())
		}
		_, err := s.EncryptBatch(t.Context(), xs)
		require.NoError(t, err)
	}
	for _, n := range []int{1, 1000, 1, 1000} {
		insert(a, n)
	}
	require.Equal(t, int64(10), index.nonce.Load())
	require.Zero(t, index.absent.Load())

	// A client that comes to an index that is there is as well off, as long as it is alone.
	b := newClient(t, index, ope.Int64, nil)
	insert(b, 200)
	require.Equal(t, int64(11), index.nonce.Load())
	require.Zero(t, index.absent.Load())

	for i := range int64(20) {
		for _, c := range []struct {
			s *Scheme
			x int64
		}{{a, math.MaxInt64 - i}, {b, math.MinInt64 + i}} {
			_, err := c.s.Encrypt(t.Context(), c.x)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 1, a.Stats().Conflicts)
	require.Equal(t, 1, b.Stats().Conflicts)
	require.Equal(t, int64(40), index.absent.Load())
}

// A client makes room in a gap although others have put more values below it than it reads at once, which it does not know.
func TestRoomBesideWhatOthersHavePut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var values []int64
	for i := range int64(200) {
		values = append(values, i*1000)
	}
	for _, x := range arrival.OutsideIn(400, func(int) bool { return random.IntN(2) == 0 }) {
		values = append(values, 300_000+x)
	}
	put := func(ctx context.Context, s *Scheme, x int64) {
		t.Helper()
		_, err := s.Encrypt(ctx, x)
		require.NoError(t, err)
	}
	crowded := 0 // the first that there is no room for
	for alone := newClient(t, opetest.NewIndex(), ope.Int64, nil); alone.Stats().Relabels == 0; crowded++ {
		put(t.Context(), alone, values[crowded])
	}
	index := opetest.NewIndex()
	s, other := newClient(t, index, ope.Int64, nil), newClient(t, index, ope.Int64, nil)
	for _, x := range values[:crowded-1] {
		put(t.Context(), s, x)
	}
	for i := range int64(400) {
		put(t.Context(), other, (150+i%49)*1000+1+i/49)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	put(ctx, s, values[crowded-1])
	require.Equal(t, 1, s.Stats().Relabels)
	requireCheckPasses(t, index)
}
