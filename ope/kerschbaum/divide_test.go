package kerschbaum

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the order in which values come, units are divided, and the order of all ciphertexts is that of the values.
func TestDividedIndexKeepsTheOrder(t *testing.T) {
	for _, a := range arrival.All {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			index := opetest.NewIndex()
			s := newClient(t, index, ope.Int64, &Options{UnitValues: 128})
			values := a.Of(t, 3000)
			for batch := range slices.Chunk(values, 20) {
				_, err := s.EncryptBatch(t.Context(), batch)
				require.NoError(t, err)
			}
			require.Greater(t, len(s.shards.all()), 8)
			require.Greater(t, s.Stats().HandedOver, 1000)
			for range 2 {
				sorted := slices.Sorted(slices.Values(values))
				other := newClient(t, index, ope.Int64, nil)
				i := 0
				var last ope.Ciphertext
				for e, err := range other.Range(t.Context(), ope.Int64.Min, ope.Int64.Max) {
					require.NoError(t, err)
					require.Equal(t, sorted[i], e.Plaintext)
					require.Less(t, string(last), string(e.Ciphertext))
					x, err := s.Decrypt(t.Context(), e.Ciphertext)
					require.NoError(t, err)
					require.Equal(t, sorted[i], x)
					last = e.Ciphertext
					i++
				}
				require.Equal(t, len(values), i)
				requireCheckPasses(t, index)
				stats, err := other.Rebalance(t.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, len(values), stats.Values)
			}
		})
	}
}

// An interval of a divided index holds the ciphertexts of its values, whatever units its bounds are in.
func TestIntervalsOfADividedIndex(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{UnitValues: 64})
	xs := make([]int64, 600)
	for i := range xs {
		xs[i] = int64(i) * 10
	}
	for batch := range slices.Chunk(xs, 16) {
		_, err := s.EncryptBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	cs, err := s.EncryptBatch(t.Context(), xs)
	require.NoError(t, err)
	other := newClient(t, index, ope.Int64, nil)
	random := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		lo := random.Int64N(6100) - 50
		hi := lo + random.Int64N(6100)
		ivs, err := other.Intervals(t.Context(), lo, hi)
		require.NoError(t, err)
		require.Len(t, ivs, 1)
		for i, c := range cs {
			in := string(ivs[0].Start) <= string(c) && string(c) < string(ivs[0].End)
			require.Equal(t, lo <= xs[i] && xs[i] <= hi, in, "%d in [%d, %d]", xs[i], lo, hi)
		}
	}
}

// A client that knows nothing finds a value of an index of many units with one round trip more than of one unit.
func TestColdLookUpInADividedIndex(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{UnitValues: 2048})
	random := rand.New(rand.NewPCG(1, 2))
	xs := make([]int64, 100_000)
	for i := range xs {
		xs[i] = int64(random.Uint64())
	}
	for batch := range slices.Chunk(xs, 256) {
		_, err := s.EncryptBatch(t.Context(), batch)
		require.NoError(t, err)
	}
	require.Greater(t, len(s.shards.all()), 40)
	for _, x := range xs[:20] {
		other := newClient(t, index, ope.Int64, nil)
		_, err := other.Encrypt(t.Context(), x)
		require.NoError(t, err)
		require.LessOrEqual(t, other.Stats().RoundTrips, 5)
	}
}

// A client that is not to have more values than one unit takes does not divide it, and counts as before.
func TestLimitOfADividedIndex(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{UnitValues: 64, Limit: 300})
	n := 0
	for err := error(nil); err == nil; n++ {
		require.Less(t, n, 500)
		if _, err = s.Encrypt(t.Context(), int64(n)); err != nil {
			require.ErrorIs(t, err, ope.ErrFull)
		}
	}
	require.Greater(t, n, 300)

	for _, opts := range []*Options{{UnitValues: 64, Limit: 64}, {UnitValues: 64, Lambda: 2}} {
		whole := newClient(t, opetest.NewIndex(), ope.Int32, opts)
		for i := range int64(64) {
			_, err := whole.Encrypt(t.Context(), i)
			require.NoError(t, err)
		}
		_, err := whole.Encrypt(t.Context(), 64)
		require.ErrorIs(t, err, ope.ErrFull)
		require.ErrorContains(t, err, "takes 64 values and has about 64")
		require.Len(t, whole.shards.all(), 1)
	}
}

// dividedIndex returns an index of some units, and its client.
func dividedIndex(t *testing.T) (ope.Index, *Scheme) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{UnitValues: 64})
	for i := range int64(400) {
		_, err := s.Encrypt(t.Context(), i*i%401)
		require.NoError(t, err)
	}
	require.Greater(t, len(s.shards.all()), 2)
	return index, s
}

// A unit that is missing, or that lacks what says which part it has, is named, and is no reason for wrong answers.
func TestCheckNamesMissingUnits(t *testing.T) {
	for name, damage := range map[string]func(r []ope.Record) ope.Change{
		"lost": func(r []ope.Record) (c ope.Change) {
			for _, r := range r {
				c.Deletes = append(c.Deletes, r.Key)
			}
			return c
		},
		"without its part": func([]ope.Record) ope.Change {
			return ope.Change{Deletes: [][]byte{unit.PartKey}}
		},
		"with a damaged part": func([]ope.Record) ope.Change {
			return ope.Change{Puts: []ope.Record{{Key: unit.PartKey, Value: []byte("damaged")}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			index, s := dividedIndex(t)
			left := s.shards.get(first(s).known.part.Left, 1)
			tamper(t, index, left.unit(1).Name, damage)
			_, faults := checked(t, newClient(t, index, ope.Int64, nil))
			require.NotEmpty(t, faults)
			require.Contains(t, strings.Join(faults, "\n"), string(left.unit(1).Name))
			var failed error
			for _, err := range newClient(t, index, ope.Int64, nil).Range(t.Context(), ope.Int64.Min, ope.Int64.Max) {
				failed = errors.Join(failed, err)
			}
			require.ErrorIs(t, failed, ope.ErrIndex)
		})
	}
}

// dividingIndex returns an index of the multiples of 10 below 700, of which a division has begun, and a client that is about to freeze
// 8 of them at a time.
func dividingIndex(t *testing.T) (index ope.Index, s *Scheme, xs []int64) {
	t.Helper()
	index = opetest.NewIndex()
	s = newClient(t, index, ope.Int64, &Options{UnitValues: 64})
	for i := range int64(70) {
		xs = append(xs, i*10)
	}
	_, err := s.EncryptBatch(t.Context(), xs)
	require.NoError(t, err)
	of := first(s)
	for !of.known.part.Gives() {
		_, err := of.divide(t.Context(), []int64{1}) // is not there
		require.NoError(t, err)
	}
	of.chunk = 8
	return index, s, xs
}

// readOnly is an index as it is for who may only read.
type readOnly struct{ ope.Index }

func (readOnly) Commit(context.Context, ope.Unit, ope.Condition, ope.Change) (bool, error) {
	return false, errors.New("it may only be read")
}

// Who may only read finds all values, also while some are frozen and no unit has them.
func TestRangeOfFrozenValuesOnlyReads(t *testing.T) {
	index, s, xs := dividingIndex(t)
	of := first(s)
	for steps := 0; of.known.part.Gives(); steps++ {
		_, _, frozen, err := of.freeze(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, frozen)
		reader := newClient(t, readOnly{index}, ope.Int64, nil)
		for lo := -5; lo < 400; lo += 35 {
			for hi := lo; hi < 500; hi += 55 {
				var want, got []int64
				for _, x := range xs {
					if int64(lo) <= x && x <= int64(hi) {
						want = append(want, x)
					}
				}
				for e, err := range reader.Range(t.Context(), int64(lo), int64(hi)) {
					require.NoError(t, err)
					got = append(got, e.Plaintext)
				}
				require.Equal(t, want, got, "from %d to %d after %d steps", lo, hi, steps)
			}
		}
		// Who may write finds them, too, and takes them over.
		other := newClient(t, index, ope.Int64, nil)
		_, err = other.Encrypt(t.Context(), frozen[0].Value)
		require.NoError(t, err)
		_, _, err = of.latest(t.Context(), of.unit(1))
		require.NoError(t, err)
		require.NoError(t, of.connect(t.Context()))
	}
}

// Who looks for values that are there takes no step of a division: that is for who puts new ones.
func TestWhoFindsAllValuesDividesNothing(t *testing.T) {
	index, s, xs := dividingIndex(t)
	for i := range int64(3) {
		_, err := s.Encrypt(t.Context(), xs[60]+1+i)
		require.NoError(t, err)
	}
	is := first(s).known.part
	require.True(t, is.Gives() && is.N > 0, "%+v", is)
	reader := newClient(t, index, ope.Int64, &Options{UnitValues: 64})
	first(reader).page = 4 // so that it does not come to know all at once
	for _, x := range xs {
		want, err := s.Encrypt(t.Context(), x)
		require.NoError(t, err)
		got, err := reader.Encrypt(t.Context(), x)
		require.NoError(t, err, "%d", x)
		require.Equal(t, want, got)
	}
	require.Zero(t, reader.Stats().Commits)
}

// Where no unit has a part of the index, as can only be by damage, who asks for a value there is told so.
func TestHoleBetweenUnits(t *testing.T) {
	index, s := dividedIndex(t)
	left := s.shards.get(first(s).known.part.Left, 1)
	u := left.unit(1)
	var edges [2]int64
	tamper(t, index, u.Name, func(records []ope.Record) ope.Change {
		var run []order.Element
		for _, r := range records {
			if at, ok := order.ParseLabel(r.Key); ok && !at.IsZero() && at.Less(s.rules.High().Label) {
				e, err := u.OpenElement(r)
				require.NoError(t, err)
				run = append(run, e)
			}
		}
		p, _, err := left.latest(t.Context(), u)
		require.NoError(t, err)
		is := p.PartOf()
		edges[1] = is.High.Value
		is.High = run[len(run)/2]
		edges[0] = is.High.Value
		return ope.Change{Puts: []ope.Record{u.SealPart(is)}}
	})
	require.Greater(t, edges[1], edges[0]+1)
	for _, x := range []int64{edges[0], edges[0] + 1, edges[1] - 1} {
		_, err := newClient(t, index, ope.Int64, nil).Encrypt(t.Context(), x)
		require.ErrorIs(t, err, ope.ErrIndex)
		require.ErrorContains(t, err, string(u.Name))
		_, err = newClient(t, index, ope.Int64, nil).EncryptBatch(t.Context(), []int64{edges[0] - 1, x, edges[1] + 1})
		require.ErrorIs(t, err, ope.ErrIndex)
	}
	_, faults := checked(t, newClient(t, index, ope.Int64, nil))
	require.Contains(t, strings.Join(faults, "\n"), string(u.Name))
}

// deepen leaves no two neighbours of equal depth where those were unequal that it may not change.
func TestDeepen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depths := rapid.SliceOfN(rapid.Uint32Range(1, 4), 3, 9).Draw(t, "depths")
		may := make([]bool, len(depths))
		run := make([]order.Element, len(depths))
		for i, d := range depths {
			run[i].Shape.Depth = d
			if i > 0 && i < len(depths)-1 {
				may[i] = rapid.Bool().Draw(t, "may")
			}
			if i > 0 && !may[i] && !may[i-1] && d == depths[i-1] {
				t.Skip("neighbours that may not be changed are of equal depth already")
			}
		}
		was := slices.Clone(run)
		order.Deepen(run, may)
		for i := range run {
			if !may[i] {
				require.Equal(t, was[i], run[i])
			}
			if i > 0 {
				require.NotEqual(t, run[i-1].Shape.Depth, run[i].Shape.Depth)
			}
		}
	})
}
