package kerschbaum

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// labelsOf returns the labels of an index, ascending.
func labelsOf(t *testing.T, index ope.Index) (out []order.Label) {
	s := newClient(t, index, ope.Int64, nil)
	for e, err := range s.Range(t.Context(), s.domain.Min, s.domain.Max) {
		require.NoError(t, err)
		_, _, at, ok := s.ciphers.Parse(e.Ciphertext)
		require.True(t, ok)
		out = append(out, at)
	}
	return out
}

// After a rebalancing the labels are those of every index of so many values: nothing of the order in which these
// came is left.
func TestRebalanceForgetsTheOrderOfInsertion(t *testing.T) {
	for _, n := range []int{1, 2, 3, 199, 200, 201, 1000} {
		var want []order.Label
		for _, a := range arrival.All {
			index := opetest.NewIndex()
			s := newClient(t, index, ope.Int64, nil)
			for batch := range slices.Chunk(a.Of(t, n), 50) {
				_, err := s.EncryptBatch(t.Context(), batch)
				require.NoError(t, err)
			}
			before := labelsOf(t, index)
			stats, err := s.Rebalance(t.Context(), nil)
			require.NoError(t, err)
			got := labelsOf(t, index)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got, "%s, %d values", a.Name, n)
			moved := 0
			for i := range got {
				if got[i] != before[i] {
					moved++
				}
			}
			require.Equal(t, ope.RebalanceStats{Values: n, Moved: moved, Before: stats.Before, After: stats.After}, stats)
			again, err := s.Rebalance(t.Context(), nil)
			require.NoError(t, err)
			require.Zero(t, again.Moved, "a second one has nothing to do")
			requireCheckPasses(t, index)
		}
	}
}

// requireHas checks that an index has ascending values and no others, in their order.
func requireHas(t *testing.T, index ope.Index, values []int64) {
	t.Helper()
	var got []int64
	for e, err := range newClient(t, index, ope.Int64, nil).Range(t.Context(), ope.Int64.Min, ope.Int64.Max) {
		require.NoError(t, err)
		got = append(got, e.Plaintext)
	}
	require.Equal(t, values, got)
	requireCheckPasses(t, index)
}

func requireCheckPasses(t *testing.T, index ope.Index) {
	s := newClient(t, index, ope.Int64, nil)
	for _, err := range s.Check(t.Context(), func(record []byte, err error) { t.Errorf("%x: %v", record, err) }) {
		require.NoError(t, err)
	}
}

// A rebalancing beside a client that inserts: it ends, the other goes on between any two commits of it, and what the
// other remembers of where nothing has moved costs it nothing.
func TestRebalanceBesideInsertions(t *testing.T) {
	index := opetest.NewIndex()
	s, other := newClient(t, index, ope.Int64, nil), newClient(t, index, ope.Int64, nil)
	random := rand.New(rand.NewPCG(7, 7))
	var values []int64
	for range 10 {
		batch := make([]int64, 1000)
		for i := range batch {
			batch[i] = random.Int64()
		}
		_, err := s.EncryptBatch(t.Context(), batch)
		require.NoError(t, err)
		values = append(values, batch...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	inserted := make(chan []int64)
	go func() {
		var more []int64
		for x := int64(-1); ctx.Err() == nil; x-- {
			if _, err := other.Encrypt(context.WithoutCancel(ctx), x); err != nil {
				t.Error(err)
				break
			}
			more = append(more, x)
		}
		inserted <- more
	}()
	_, err := s.Rebalance(t.Context(), nil)
	cancel()
	more := <-inserted
	require.NoError(t, err)
	require.NotEmpty(t, more)
	values = append(values, more...)
	slices.Sort(values)
	requireHas(t, index, values)
}

// A leaving index counts the labels that were left which a read goes past, as databases do with what was deleted: up to
// two records more than it returns.
type leaving struct {
	ope.Index
	left   map[string]bool
	passed *atomic.Int64
}

func (l leaving) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	view, err := l.Index.Read(ctx, u, from, to, limit)
	end := to
	if next, failed := l.Index.Read(ctx, u, from, to, limit+2); failed == nil && limit > 0 && len(next.Records) > limit+1 {
		end = next.Records[limit+1].Key
	}
	for key := range l.left {
		if key >= string(from) && (end == nil || key < string(end)) {
			l.passed.Add(1)
		}
	}
	return view, err
}

func (l leaving) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	applied, err := l.Index.Commit(ctx, u, cond, change)
	if applied && err == nil {
		for _, key := range change.Deletes {
			l.left[string(key)] = true
		}
		for _, r := range change.Puts {
			delete(l.left, string(r.Key))
		}
	}
	return applied, err
}

// Who puts values beside a rebalancing does not read past all labels that it has left, however little that client knows of the index.
func TestReadsBesideARebalancingPassFewLabels(t *testing.T) {
	const n, window = 10_000, 256
	for _, known := range []int{1, n} {
		index := opetest.NewIndex()
		l := leaving{index, map[string]bool{}, new(atomic.Int64)}
		s, other := newClient(t, l, ope.Int64, nil), newClient(t, l, ope.Int64, nil)
		other.page = 16 // so that it does not read all ahead soon
		values := make([]int64, n)
		for i := range values {
			values[i] = int64(i) << 20
		}
		for batch := range slices.Chunk(values, window) {
			_, err := s.EncryptBatch(t.Context(), batch)
			require.NoError(t, err)
		}
		random := rand.New(rand.NewPCG(3, uint64(known)))
		random.Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		_, err := other.EncryptBatch(t.Context(), values[:known])
		require.NoError(t, err)
		puts, far := 0, 0
		_, err = s.Rebalance(t.Context(), func(int, int) {
			for range 5 {
				l.passed.Store(0)
				_, err := other.Encrypt(t.Context(), random.Int64N(n<<20))
				require.NoError(t, err)
				if puts++; l.passed.Load() > 8*window {
					far++
				}
			}
		})
		require.NoError(t, err)
		require.Greater(t, puts, n/window)
		require.LessOrEqual(t, far, 3, "of %d values, of a client that knew %d", puts, known)
	}
}

// A client that was behind forgets what has moved, and only that.
func TestCatchUpKeepsWhatHasNotMoved(t *testing.T) {
	index := opetest.NewIndex()
	s, other := newClient(t, index, ope.Int64, nil), newClient(t, index, ope.Int64, nil)
	values := make([]int64, 4000)
	for i := range values {
		values[i] = int64(i) << 20
	}
	_, err := s.EncryptBatch(t.Context(), values)
	require.NoError(t, err)
	for _, err := range other.Range(t.Context(), s.domain.Min, s.domain.Max) {
		require.NoError(t, err)
	}
	_, err = other.EncryptBatch(t.Context(), values)
	require.NoError(t, err)
	known := first(other).known.list.Len()
	of := first(s)
	of.mu.Lock()
	g := of.known.list.Gap(values[2000])
	of.mu.Unlock()
	w, err := of.readWindow(t.Context(), g.Left.Value+1)
	require.NoError(t, err)
	rel, advice, err := s.rules.Relabel(w.elements, w.gap, s.window)
	require.NoError(t, err)
	require.Equal(t, order.AdviseCommit, advice)
	applied, err := of.commitRelabelling(t.Context(), w, rel, g.Left.Value+1)
	require.NoError(t, err)
	require.True(t, applied)
	before := other.Stats()
	_, err = other.Encrypt(t.Context(), values[100]+1)
	require.NoError(t, err)
	require.Greater(t, first(other).known.list.Len(), known-2*s.window)
	require.LessOrEqual(t, other.Stats().RoundTrips-before.RoundTrips, 5, "refused, read, caught up, values counted, and put")
}

// A client returns what it remembers without a request, also from before a rebalancing that another one made, as the
// documentation says. From the call on that shows it a later version, it returns the ciphertexts of that.
func TestRemembersNothingFromBeforeAVersionThatItMet(t *testing.T) {
	const value = 50
	first := func(t *testing.T, s *Scheme) ope.Ciphertext {
		t.Helper()
		for e, err := range s.Range(t.Context(), value, value) {
			require.NoError(t, err)
			return e.Ciphertext
		}
		require.Fail(t, "the value is not there")
		return nil
	}
	for name, meet := range map[string]func(t *testing.T, s *Scheme, present, other ope.Ciphertext){
		"decrypting a present ciphertext": func(t *testing.T, s *Scheme, _, other ope.Ciphertext) {
			_, err := s.Decrypt(t.Context(), other)
			require.NoError(t, err)
		},
		"reading the value": func(t *testing.T, s *Scheme, present, _ ope.Ciphertext) { require.Equal(t, present, first(t, s)) },
	} {
		t.Run(name, func(t *testing.T) {
			index := opetest.NewIndex()
			a, b := newClient(t, index, ope.Int32, nil), newClient(t, index, ope.Int32, nil)
			for x := range int64(100) {
				_, err := a.Encrypt(t.Context(), x)
				require.NoError(t, err)
			}
			old, err := a.Encrypt(t.Context(), value)
			require.NoError(t, err)
			_, err = b.Rebalance(t.Context(), nil)
			require.NoError(t, err)
			present, err := b.Encrypt(t.Context(), value)
			require.NoError(t, err)
			require.NotEqual(t, old, present)
			other, err := b.Encrypt(t.Context(), value+1)
			require.NoError(t, err)

			trips := a.Stats().RoundTrips
			got, err := a.Encrypt(t.Context(), value)
			require.NoError(t, err)
			require.Equal(t, old, got, "nothing has told the client of the rebalancing")
			require.Equal(t, trips, a.Stats().RoundTrips)

			meet(t, a, present, other)
			cs, err := a.EncryptBatch(t.Context(), []int64{value, value + 1})
			require.NoError(t, err)
			require.Equal(t, []ope.Ciphertext{present, other}, cs)
			got, err = a.Encrypt(t.Context(), value)
			require.NoError(t, err)
			require.Equal(t, present, got)
			x, err := a.Decrypt(t.Context(), old)
			require.ErrorIs(t, err, ope.ErrStale)
			require.Zero(t, x)
		})
	}
}

// silentAtTimes is an index that makes every other commit without saying so.
type silentAtTimes struct {
	ope.Index
	commits int
}

func (x *silentAtTimes) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	applied, err := x.Index.Commit(ctx, u, cond, change)
	if x.commits++; applied && x.commits%2 == 0 {
		return false, ope.ErrUnknownOutcome
	}
	return applied, err
}

func TestRebalanceCountsCommitsOfUnknownOutcome(t *testing.T) {
	var all []ope.RebalanceStats
	for _, silent := range []bool{false, true} {
		index := opetest.NewIndex()
		s := newClient(t, index, ope.Int32, nil)
		for i := range int64(100) {
			_, err := s.Encrypt(t.Context(), i)
			require.NoError(t, err)
		}
		other := newClient(t, index, ope.Int32, nil)
		if silent {
			other = newClient(t, &silentAtTimes{Index: index}, ope.Int32, nil)
		}
		other.chunk = 16
		stats, err := other.Rebalance(t.Context(), nil)
		require.NoError(t, err)
		meta, err := first(s).units.ReadMeta(t.Context(), first(s).unit(1))
		require.NoError(t, err)
		require.Equal(t, ope.Version{Epoch: 1, Generation: meta.Generation}, stats.After)
		all = append(all, stats)
	}
	require.Equal(t, all[0].Moved, all[1].Moved)
}
