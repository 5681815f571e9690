package leakage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
)

// costs draws a matrix with n <= m; few different costs make many ties.
func costs(t *rapid.T, most int) (n, m int, cost func(i, j int) float64) {
	m = rapid.IntRange(1, most).Draw(t, "m")
	n = rapid.IntRange(0, m).Draw(t, "n")
	top := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "top")
	c := rapid.SliceOfN(rapid.IntRange(-top, top), n*m, n*m).Draw(t, "costs")
	return n, m, func(i, j int) float64 { return float64(c[i*m+j]) }
}

func total(to []int, cost func(i, j int) float64) float64 {
	sum := 0.0
	for i, j := range to {
		sum += cost(i, j)
	}
	return sum
}

// least tries every assignment, or every ascending one.
func least(n, m int, ascending bool, cost func(i, j int) float64) float64 {
	used := make([]bool, m)
	var from func(i, last int) float64
	from = func(i, last int) float64 {
		if i == n {
			return 0
		}
		best := math.Inf(1)
		for j := range m {
			if used[j] || ascending && j <= last {
				continue
			}
			used[j] = true
			best = min(best, cost(i, j)+from(i+1, j))
			used[j] = false
		}
		return best
	}
	return from(0, -1)
}

func TestAssignAgainstEveryAssignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, cost := costs(t, 6)
		to := assign(n, m, cost)
		require.Len(t, to, n)
		requireDistinct(t, to, m)
		require.Equal(t, least(n, m, false, cost), total(to, cost))
	})
}

func TestAlignAgainstEveryAscendingAssignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, cost := costs(t, 9)
		to := align(n, m, cost)
		require.Len(t, to, n)
		requireDistinct(t, to, m)
		require.True(t, slices.IsSorted(to))
		require.Equal(t, least(n, m, true, cost), total(to, cost))
	})
}

func requireDistinct(t require.TestingT, to []int, m int) {
	seen := make(map[int]bool)
	for _, j := range to {
		require.False(t, seen[j])
		require.True(t, 0 <= j && j < m)
		seen[j] = true
	}
}

// The potentials prove that an assignment is least, whatever its size: no assignment costs less
// than their sum.
func TestAssignIsProvedLeastByItsPotentials(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for _, size := range [][2]int{{1, 200}, {50, 200}, {200, 200}, {300, 301}} {
		n, m := size[0], size[1]
		c := make([]float64, n*m)
		for i := range c {
			c[i] = r.Float64()
		}
		cost := func(i, j int) float64 { return c[i*m+j] }
		to, row, column := assignDual(n, m, cost)
		requireDistinct(t, to, m)
		bound, has := 0.0, make([]bool, m)
		for i, j := range to {
			require.InDelta(t, cost(i, j), row[i]+column[j], 1e-9)
			bound += row[i] + column[j]
			has[j] = true
		}
		for j := range m {
			require.LessOrEqual(t, column[j], 0.0)
			require.True(t, has[j] || column[j] == 0)
			for i := range n {
				require.GreaterOrEqual(t, cost(i, j)-row[i]-column[j], -1e-9)
			}
		}
		require.InDelta(t, bound, total(to, cost), 1e-9)
		require.LessOrEqual(t, bound, total(align(n, m, cost), cost)+1e-9)
	}
}

// Beyond 64 columns to choose from, where the choices of a row are more than one word.
func TestAlignFindsTheOnlyFreePlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for range 50 {
		m := 1 + r.IntN(400)
		n := r.IntN(m + 1)
		want := r.Perm(m)[:n]
		slices.Sort(want)
		got := align(n, m, func(i, j int) float64 {
			if j == want[i] {
				return 0
			}
			return 1
		})
		require.Equal(t, want, got)
	}
}

// ages are drawn by how many of every thousand have an age, a bump with a long tail.
func ages(r *rand.Rand, n int) []int64 {
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = int64(min(100, math.Abs(40+22*r.NormFloat64())))
	}
	return xs
}

// The published effect: ages of most records are read with the help of another hospital's data,
// though not every age occurs in both.
func TestCumulativeReadsAges(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	xs, aux := ages(r, 5000), ages(r, 20000)
	column := encrypt(t, linear(t, 1, ope.Uint8), xs)
	cumulative := Share(xs, Cumulative(column, aux), Exactly)
	nonCrossing := Share(xs, NonCrossing(column, aux), Exactly)
	require.Greater(t, cumulative, 0.8)
	require.Greater(t, nonCrossing, 0.8)
}

func TestAttacksWithTheColumnItselfReadAll(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	xs := uniform(r, ope.Domain{Min: -1000, Max: 5000}, 300)
	column := encrypt(t, linear(t, 2, ope.Int16), xs)
	require.Equal(t, xs, Cumulative(column, xs), "the only assignment that costs nothing")
	require.Equal(t, xs, NonCrossing(column, xs))
	sorted, err := Sort(column, xs)
	require.NoError(t, err)
	require.Equal(t, xs, sorted)
}

// More ciphertexts than values, or fewer, or one only.
func TestMatchingOfUnequalSizes(t *testing.T) {
	column := plainly([]int64{10, 20, 30, 30, 40})
	for _, attack := range []func([]ope.Ciphertext, []int64) []int64{Cumulative, NonCrossing} {
		for _, aux := range [][]int64{{7}, {7, 8}, {7, 8, 9, 9, 10, 11, 12, 13}} {
			guesses := attack(column, aux)
			require.Len(t, guesses, 5)
			require.Equal(t, guesses[2], guesses[3], "equal rows have equal guesses")
			for _, g := range guesses {
				require.Contains(t, aux, g)
			}
		}
		require.Equal(t, []int64{7, 7, 7, 7, 7}, attack(column, []int64{7}))
		require.Empty(t, attack(nil, []int64{1}))
		require.Panics(t, func() { attack(column, nil) })
	}
	// 1/5, 1/5, 2/5, 1/5 against 2/5, 3/5: the values go where frequency and place are nearest.
	require.Equal(t, []int64{7, 7, 7, 7, 8}, NonCrossing(column, []int64{7, 7, 7, 7, 8}))
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Int64Range(0, 12)
		rows := rapid.SliceOfN(value, 1, 20).Draw(t, "rows")
		aux := rapid.SliceOfN(value, 1, 20).Draw(t, "aux")
		guesses := NonCrossing(plainly(rows), aux)
		for i := range rows {
			for j := range rows {
				require.False(t, rows[i] <= rows[j] && guesses[i] > guesses[j], "the order is kept")
			}
		}
	})
}

func BenchmarkCumulative1000(b *testing.B) {
	r := rand.New(rand.NewPCG(16, 16))
	column, aux := plainly(uniform(r, million, 1000)), uniform(r, million, 1000)
	for b.Loop() {
		Cumulative(column, aux)
	}
}

func BenchmarkNonCrossing10000(b *testing.B) {
	r := rand.New(rand.NewPCG(17, 17))
	column, aux := plainly(uniform(r, million, 10000)), uniform(r, million, 10000)
	for b.Loop() {
		NonCrossing(column, aux)
	}
}
