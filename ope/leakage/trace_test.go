package leakage

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

// insert gives labels to values as they come: the tree that a placing rule builds. Labels have 16
// bytes, and the range is 0 to 2^127 exclusively.
func insert[S any](t testing.TB, values []int64, root S, place Placing[S]) []ope.Ciphertext {
	type node struct {
		value        int64
		label        *big.Int
		below, above S
		left, right  *node
	}
	var top *node
	labels := make([]ope.Ciphertext, len(values))
	for i, x := range values {
		low, high, state, at := new(big.Int), limit(), root, &top
		for *at != nil && (*at).value != x {
			n := *at
			if x < n.value {
				high, state, at = n.label, n.below, &n.left
			} else {
				low, state, at = n.label, n.above, &n.right
			}
		}
		if *at == nil {
			label, below, above := place(low, high, state)
			require.NotNil(t, label, "no room")
			*at = &node{value: x, label: label, below: below, above: above}
		}
		labels[i] = (*at).label.FillBytes(make([]byte, 16))
	}
	return labels
}

func limit() *big.Int { return new(big.Int).Lsh(big.NewInt(1), 127) }

func TestMidpoint(t *testing.T) {
	for _, c := range []struct{ low, high, want int64 }{{0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {-1, 2, 1}, {7, 9, 8}, {-9, -6, -7}} {
		label, _, _ := Midpoint(big.NewInt(c.low), big.NewInt(c.high), struct{}{})
		require.Equal(t, c.want, label.Int64(), "(%d, %d)", c.low, c.high)
	}
	label, _, _ := Midpoint(big.NewInt(5), big.NewInt(6), struct{}{})
	require.Nil(t, label)
}

// What is read is true, and it is the whole tree.
func TestTraceReadsTheTree(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for _, n := range []int{0, 1, 2, 3, 10, 300} {
		values := uniform(r, million, n)
		check := func(labels []ope.Ciphertext, parents []int) {
			roots := 0
			for row, parent := range parents {
				if parent == -1 {
					roots++
					require.Equal(t, values[0], values[row])
				} else {
					require.Less(t, parent, row, "a value came after its parent")
				}
			}
			require.Equal(t, min(n, 1), roots)
			require.InDelta(t, searchTree(values), Traced(parents), 1e-12)
		}
		labels := insert(t, values, struct{}{}, Midpoint)
		check(labels, Trace(labels, new(big.Int), limit(), struct{}{}, Midpoint))
		labels = insert(t, values, Turns{}, Adaptive)
		check(labels, Trace(labels, new(big.Int), limit(), Turns{}, Adaptive))
	}
}

// searchTree returns the share of pairs that are ancestor and descendant in the binary search tree.
func searchTree(values []int64) float64 {
	var pairs func(xs []int64) int
	pairs = func(xs []int64) int {
		if len(xs) == 0 {
			return 0
		}
		var below, above []int64
		for _, x := range xs[1:] {
			if x < xs[0] {
				below = append(below, x)
			} else {
				above = append(above, x)
			}
		}
		return len(xs) - 1 + pairs(below) + pairs(above)
	}
	n := float64(len(values))
	if n < 2 {
		return 0
	}
	return float64(pairs(values)) / (n * (n - 1) / 2)
}

// Random insertion shows of few pairs which came first, as many as a random search tree has
// ancestors on average.
func TestTraceOfRandomInsertion(t *testing.T) {
	const n, trees = 1000, 100
	r := rand.New(rand.NewPCG(22, 22))
	mean := 0.0
	for range trees {
		values := make([]int64, n)
		for i, p := range r.Perm(n) {
			values[i] = int64(p)
		}
		labels := insert(t, values, struct{}{}, Midpoint)
		mean += Traced(Trace(labels, new(big.Int), limit(), struct{}{}, Midpoint)) / trees
	}
	harmonic := 0.0
	for i := 1; i <= n; i++ {
		harmonic += 1 / float64(i)
	}
	want := 2 * ((n+1)*harmonic - 2*n) / (n * (n - 1) / 2)
	require.InDelta(t, 0.0220, want, 0.0001)
	require.InEpsilon(t, want, mean, 0.05)
}

// Sorted insertion is read completely. With midpoints there are no labels for more than one value a
// bit, with runs there are.
func TestTraceOfSortedInsertion(t *testing.T) {
	labels := insert(t, uniformlyAll(120), struct{}{}, Midpoint)
	require.Equal(t, 1.0, Traced(Trace(labels, new(big.Int), limit(), struct{}{}, Midpoint)))

	const n = 20_000
	labels = make([]ope.Ciphertext, n)
	low, high, state := new(big.Int), limit(), Turns{}
	for i := range labels {
		label, _, above := Adaptive(low, high, state)
		require.NotNil(t, label)
		labels[i], low, state = label.FillBytes(make([]byte, 16)), label, above
	}
	shuffled := slices.Clone(labels)
	rand.New(rand.NewPCG(23, 23)).Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	parents := Trace(shuffled, new(big.Int), limit(), Turns{}, Adaptive)
	require.Equal(t, 1.0, Traced(parents))
	// The rows in the order of their insertion.
	order, at := []int{}, slices.Index(parents, -1)
	child := make(map[int]int)
	for row, parent := range parents {
		child[parent] = row
	}
	for len(order) < n {
		order = append(order, at)
		at = child[at]
	}
	for i, row := range order {
		require.Equal(t, labels[i], shuffled[row])
	}
}

// Where labels were moved, or are of another rule, nothing is made up.
func TestTraceOfOtherLabels(t *testing.T) {
	values := uniform(rand.New(rand.NewPCG(24, 24)), million, 50)
	labels := insert(t, values, Turns{}, Adaptive)
	slices.Sort(values)
	for i := range labels {
		labels[i][15] ^= 1
	}
	parents := Trace(labels, new(big.Int), limit(), Turns{}, Adaptive)
	for row, parent := range parents {
		require.Equal(t, row, parent)
	}
	require.Zero(t, Traced(parents))

	// A part of them.
	middle := new(big.Int).Rsh(limit(), 1)
	quarter := new(big.Int).Rsh(middle, 1)
	three := []ope.Ciphertext{middle.FillBytes(make([]byte, 16)), quarter.FillBytes(make([]byte, 16)),
		new(big.Int).Add(middle, big.NewInt(5)).FillBytes(make([]byte, 16))}
	parents = Trace(three, new(big.Int), limit(), struct{}{}, Midpoint)
	require.Equal(t, []int{-1, 0, 2}, parents)
	require.InDelta(t, 1.0/3, Traced(parents), 1e-15)
	// A label that is there twice.
	require.Equal(t, []int{-1, 0, 0}, Trace([]ope.Ciphertext{three[0], three[1], three[1]}, new(big.Int), limit(), struct{}{}, Midpoint))
}

// The labels of random insertions scale badly: about 6 per cent of the values are read to 1 per
// cent of the domain.
func TestScaleOfMidpointLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 25))
	const n, columns = 2000, 50
	share := 0.0
	for range columns {
		values := uniform(r, million, n)
		labels := insert(t, values, struct{}{}, Midpoint)
		share += Share(values, Scale(labels, 127, million), Near(0.01*(1<<20))) / columns
	}
	require.InDelta(t, 0.062, share, 0.015)
}
