package kerschbaum

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// beforeCommits is an index that calls a function before each commit but those that the function makes itself. It is told how
// many there were before.
type beforeCommits struct {
	ope.Index
	do     func(n int)
	n      int
	within bool
}

func (x *beforeCommits) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if x.do != nil && !x.within {
		x.within = true
		x.do(x.n)
		x.within = false
		x.n++
	}
	return x.Index.Commit(ctx, u, cond, change)
}

func put(t *testing.T, s *Scheme, values ...int64) {
	t.Helper()
	_, err := s.EncryptBatch(t.Context(), values)
	require.NoError(t, err)
}

// spaced returns values of which any two neighbours have room between them.
func spaced(n int) []int64 {
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i) << 20
	}
	return values
}

// outsideIn returns values between which there is soon no room.
func outsideIn() []int64 {
	random := rand.New(rand.NewPCG(1, 1))
	return append([]int64{-1000, 1000}, arrival.OutsideIn(400, func(int) bool { return random.IntN(2) == 0 })...)
}

// A rebalancing moves nothing across what others have put where it does not read, as it knows what was there.
func TestRebalanceBesideValuesBetweenItsCommits(t *testing.T) {
	for _, ascending := range []bool{true, false} { // so that it moves values down, or up
		index := opetest.NewIndex()
		s, other := newClient(t, index, ope.Int64, nil), newClient(t, index, ope.Int64, nil)
		s.chunk = 16
		values := spaced(100)
		if !ascending {
			slices.Reverse(values)
		}
		for _, x := range values {
			put(t, s, x)
		}
		had, calls := slices.Clone(values), 0
		_, err := s.Rebalance(t.Context(), func(done, total int) {
			if down := done < total/2; down != ascending || calls == 12 {
				return // it has to come to its end
			}
			if calls++; calls%3 != 1 {
				return
			}
			more := make([]int64, len(had))
			for i, x := range had {
				more[i] = x + int64(calls)
			}
			put(t, other, more...)
			values = append(values, more...)
		})
		require.NoError(t, err)
		require.Greater(t, calls, 3)
		slices.Sort(values)
		requireHas(t, index, values)
	}
}

// A client that rebalances, and that inserts meanwhile, puts nothing where another one has put something beside that.
func TestInsertionsBesideOnesOwnRebalancingAndOthers(t *testing.T) {
	index := &beforeCommits{Index: opetest.NewIndex()}
	s, other := newClient(t, index, ope.Int64, nil), newClient(t, index.Index, ope.Int64, nil)
	s.chunk = 16
	values := spaced(200)
	put(t, s, values...)
	const far = 150 // of the values, which it comes to later
	index.do = func(n int) {
		switch n {
		case 0: // is refused thereby, and goes on beside others
			put(t, s, values[far-20]+1)
		case 1:
			put(t, other, values[far]+1)
		case 2:
			put(t, s, values[far]+2)
		}
	}
	_, err := s.Rebalance(t.Context(), nil)
	require.NoError(t, err)
	require.Greater(t, index.n, 2)
	values = append(values, values[far-20]+1, values[far]+1, values[far]+2)
	slices.Sort(values)
	requireHas(t, index, values)
}

// Who is alone is refused nothing after values were moved, either.
func TestWhoIsAloneIsNeverRefused(t *testing.T) {
	for name, opts := range map[string]*Options{"one unit": nil, "divided": {UnitValues: 64}} {
		t.Run(name, func(t *testing.T) {
			s := newClient(t, opetest.NewIndex(), ope.Int64, opts)
			for _, x := range outsideIn() {
				put(t, s, x)
			}
			require.NotZero(t, s.Stats().Relabels+s.Stats().HandedOver)
			_, err := s.Rebalance(t.Context(), nil)
			require.NoError(t, err)
			put(t, s, 2000)
			require.Zero(t, s.Stats().Conflicts)
		})
	}
}
