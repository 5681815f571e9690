package leakage

import (
	"context"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// near1 is to within 1 per cent of the domain of 2^20 values.
var near1 = Near(0.01 * (1 << 20))

// RUS splits domain and range at places that have nothing to do with each other, so that scaling reads
// few values: 4.7 per cent of them between the ends of the range that it uses. Of that part RSS
// shows nothing to who knows the whole range only, and scaling reads half as many.
func TestScaleOfKeyedRUS(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 31))
	const keys = 500
	ends, whole, linearShare := 0.0, 0.0, 0.0
	for key := range uint64(keys) {
		s, err := wozniak.New(testKey(t, key), million, nil)
		require.NoError(t, err)
		xs := append(uniform(r, million, 16), million.Min, million.Max)
		column := encrypt(t, s, xs)
		least, greatest := column[16], column[17]
		guesses, err := Interpolate(column, 84, million, []Pair{{least, million.Min}, {greatest, million.Max}})
		require.NoError(t, err)
		ends += Share(xs[:16], guesses[:16], near1) / keys
		whole += Share(xs[:16], Scale(column[:16], 84, million), near1) / keys
		linearShare += Share(xs[:16], Scale(encrypt(t, linear(t, key, million), xs[:16]), 0, million), near1) / keys
	}
	require.InDelta(t, 0.047, ends, 0.01)
	require.InDelta(t, 0.024, whole, 0.01)
	require.InDelta(t, 1, linearShare, 1e-9)
}

// labelsOf inserts values one by one and returns the label of each, as the database sees it in the
// end.
func labelsOf(t testing.TB, d ope.Domain, values []int64, opts *kerschbaum.Options) []ope.Ciphertext {
	ctx := context.Background()
	s, err := kerschbaum.New(testKey(t, 1), d, opetest.NewIndex(), opts)
	require.NoError(t, err)
	for _, x := range values {
		_, err := s.Encrypt(ctx, x)
		require.NoError(t, err)
	}
	label := make(map[int64]ope.Ciphertext)
	for e, err := range s.Range(ctx, d.Min, d.Max) {
		require.NoError(t, err)
		label[e.Plaintext] = e.Ciphertext[:16]
	}
	labels := make([]ope.Ciphertext, len(values))
	for i, x := range values {
		labels[i] = label[x]
	}
	return labels
}

// distinct returns n uniform values of which no two are equal.
func distinct(r *rand.Rand, d ope.Domain, n int) []int64 {
	seen := make(map[int64]bool)
	var xs []int64
	for len(xs) < n {
		if x := uniform(r, d, 1)[0]; !seen[x] {
			seen[x] = true
			xs = append(xs, x)
		}
	}
	return xs
}

// Labels depend on the order alone; scaling reads of them what the tree has in common with the values:
// about 6 per cent.
func TestScaleOfKerschbaum(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 32))
	const columns, n = 20, 1000
	share := 0.0
	for range columns {
		xs := distinct(r, million, n)
		share += Share(xs, Scale(labelsOf(t, million, xs, nil), 0, million), near1) / columns
	}
	require.InDelta(t, 0.062, share, 0.02)
}

// The placing rules here are those of the package.
func TestTraceOfKerschbaum(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 33))
	one := big.NewInt(1)
	check := func(values []int64, parents []int) {
		require.InDelta(t, searchTree(values), Traced(parents), 1e-12)
		for row, parent := range parents {
			require.Less(t, parent, row, "a value came after its parent")
		}
	}
	top := new(big.Int).Lsh(one, 128)
	top.Sub(top, one)
	for _, values := range [][]int64{distinct(r, million, 1000), uniformlyAll(1000)} {
		labels := labelsOf(t, million, values, nil)
		check(values, Trace(labels, new(big.Int), top, Turns{}, Adaptive))
	}
	published := &kerschbaum.Options{Lambda: 3} // labels of 61 bits
	values := distinct(r, million, 500)
	labels := labelsOf(t, million, values, published)
	check(values, Trace(labels, new(big.Int), new(big.Int).Lsh(one, 61), struct{}{}, Midpoint))
}

// The re-encryption pass leaves a trace of its own, which says nothing of the insertions.
func TestTraceAfterRebalance(t *testing.T) {
	ctx := context.Background()
	s, err := kerschbaum.New(testKey(t, 1), million, opetest.NewIndex(), nil)
	require.NoError(t, err)
	const n = 1000
	for _, x := range uniformlyAll(n) {
		_, err := s.Encrypt(ctx, x)
		require.NoError(t, err)
	}
	_, err = s.Rebalance(ctx, nil)
	require.NoError(t, err)
	var labels []ope.Ciphertext
	for e, err := range s.Range(ctx, million.Min, million.Max) {
		require.NoError(t, err)
		labels = append(labels, e.Ciphertext[:16])
	}
	require.Len(t, labels, n)
	top := new(big.Int).Lsh(big.NewInt(1), 128)
	parents := Trace(labels, new(big.Int), top.Sub(top, big.NewInt(1)), Turns{}, Adaptive)
	require.Less(t, Traced(parents), 0.02, "a balanced tree")
}

// Whatever the scheme, order reads the same.
func TestRankOfEveryScheme(t *testing.T) {
	xs := distinct(rand.New(rand.NewPCG(34, 34)), million, 300)
	q := Uniform(million)
	want := Rank(encrypt(t, linear(t, 1, million), xs), q)
	keyed, err := wozniak.New(testKey(t, 1), million, nil)
	require.NoError(t, err)
	require.Equal(t, want, Rank(encrypt(t, keyed, xs), q))
	require.Equal(t, want, Rank(labelsOf(t, million, xs, nil), q))
}
