package values

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

func all(t testing.TB, values iter.Seq2[int64, error]) []int64 {
	t.Helper()
	var xs []int64
	for x, err := range values {
		require.NoError(t, err)
		xs = append(xs, x)
	}
	return xs
}

func generate(t testing.TB, name string, n int, seed uint64, kind, order string) []int64 {
	t.Helper()
	s, err := Generate(name, n, seed, kind, order)
	require.NoError(t, err)
	return all(t, s.Values())
}

// Every workload with every type and order that it has: as many values as asked for, in the
// domain, the same for the same seed and others for another; and the same values in every order.
func TestEveryWorkload(t *testing.T) {
	const n = 3000
	names, abouts := Orders()
	require.Equal(t, []string{"random", "sorted", "reverse", "preorder", "timeseries", "bursts"}, names)
	require.Len(t, abouts, len(names))
	tested := 0
	for _, w := range workloads {
		for _, kind := range w.kinds {
			var sorted []int64
			for _, order := range names {
				if w.name == "sorted" && order != "sorted" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", w.name, kind, order), func(t *testing.T) {
					s, err := Generate(w.name, n, 5, kind, order)
					require.NoError(t, err)
					xs := all(t, s.Values())
					require.Len(t, xs, n)
					require.Equal(t, n, s.Len())
					require.Equal(t, xs, all(t, s.Values()), "a second pass gives the same")
					require.Equal(t, xs, generate(t, w.name, n, 5, kind, order), "so does the same seed")
					require.NotEqual(t, xs, generate(t, w.name, n, 6, kind, order), "another seed does not")
					for _, x := range xs {
						require.True(t, s.Kind().Domain.Contains(x))
					}
					require.Equal(t, order == "sorted", slices.IsSorted(xs))
					again := slices.Sorted(slices.Values(xs))
					if sorted == nil {
						sorted = again
					}
					require.Equal(t, sorted, again, "the values do not depend on the order")
				})
				tested++
			}
		}
	}
	require.Greater(t, tested, 80)
}

// permuted returns the places of 0 to n-1 in an order.
func permuted(t *testing.T, name string, n int, seed uint64) []int64 {
	t.Helper()
	sorted := make([]int64, n)
	for i := range sorted {
		sorted[i] = int64(i)
	}
	o, err := orderByName(name)
	require.NoError(t, err)
	xs := slices.Collect(o.permute(sorted, Rand(seed, name)))
	require.Equal(t, sorted, slices.Sorted(slices.Values(xs)), "each value once")
	return xs
}

func TestOrders(t *testing.T) {
	require.Equal(t, []int64{0, 1, 2, 3, 4}, permuted(t, "sorted", 5, 1))
	require.Equal(t, []int64{4, 3, 2, 1, 0}, permuted(t, "reverse", 5, 1))
	require.Equal(t, []int64{3, 1, 0, 2, 5, 4, 6}, permuted(t, "preorder", 7, 1))
	require.Equal(t, []int64{3, 1, 0, 2, 5, 4}, permuted(t, "preorder", 6, 1))

	// Of a time series, every place comes at a time that is at most 50 from it; so it is never
	// behind one that is more than 100 higher. All delays are taken.
	const n = 100_000
	xs := permuted(t, "timeseries", n, 1)
	latest, most := int64(0), int64(0)
	late := 0
	for _, x := range xs {
		most = max(most, latest-x)
		if x < latest {
			late++
		}
		latest = max(latest, x)
	}
	require.LessOrEqual(t, most, int64(2*jitter))
	require.Greater(t, most, int64(2*jitter-10))
	require.Greater(t, late, n/2)
	require.Equal(t, []int64{0}, permuted(t, "timeseries", 1, 1))

	// Bursts are runs of consecutive places, as many as their mean length says, and not in order.
	xs = permuted(t, "bursts", n, 1)
	var runs []int
	length := 0
	for i, x := range xs {
		length++
		if i+1 == n || xs[i+1] != x+1 {
			runs = append(runs, length)
			length = 0
		}
	}
	require.InDelta(t, n/burst, len(runs), 15)
	for _, length := range runs[:len(runs)-1] {
		require.LessOrEqual(t, length, 3*burst) // two may meet by chance
	}
	require.GreaterOrEqual(t, slices.Min(runs), 1)

	for _, name := range []string{"timeseries", "bursts"} {
		require.Equal(t, permuted(t, name, n, 1), permuted(t, name, n, 1))
		require.NotEqual(t, permuted(t, name, n, 1), permuted(t, name, n, 2))
	}

	// One who has seen enough gets no more.
	for _, o := range orders {
		s, err := Generate("uniform", 5000, 1, "", o.name)
		require.NoError(t, err)
		for _, stop := range []int{1, 2, 3, 777, 4999} {
			n := 0
			for range s.Values() {
				if n++; n == stop {
					break
				}
			}
			require.Equal(t, stop, n, o.name)
		}
	}
}

// kolmogorov fails the test if the values are not of the distribution: the bound is exceeded by
// chance once in 10^9.
func kolmogorov(t *testing.T, xs []float64, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(xs)
	n := float64(len(xs))
	distance := 0.0
	for i, x := range xs {
		p := cdf(x)
		distance = max(distance, math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n))
	}
	// P(D > d) <= 2 exp(-2 n d^2) (Massart 1990)
	bound := math.Sqrt(math.Log(2e9) / (2 * n))
	require.Less(t, distance, bound)
}

func floats(xs []int64) []float64 {
	fs := make([]float64, len(xs))
	for i, x := range xs {
		fs[i] = float64(x)
	}
	return fs
}

// Values in order are a sample of the same distribution as values in none.
func TestDistributions(t *testing.T) {
	const n = 50_000
	span := math.Ldexp(1, 32)
	flat := distuv.Uniform{Min: -span / 2, Max: span / 2}
	bell := distuv.Normal{Mu: 0, Sigma: span / 32}
	for _, order := range []string{"random", "bursts"} {
		t.Run(order, func(t *testing.T) {
			kolmogorov(t, floats(generate(t, "uniform", n, 1, "", order)), flat.CDF)
			kolmogorov(t, floats(generate(t, "normal", n, 1, "", order)), bell.CDF)
			times := floats(generate(t, "timestamps", n, 1, "", order))
			first := slices.Min(times)
			kolmogorov(t, times, distuv.Uniform{Min: first, Max: first + n*1e6}.CDF)
			wide := floats(generate(t, "uniform", n, 1, "int64", order))
			kolmogorov(t, wide, distuv.Uniform{Min: -math.Ldexp(1, 63), Max: math.Ldexp(1, 63)}.CDF)
		})
	}
	t.Run("the test can fail", func(t *testing.T) {
		xs := floats(generate(t, "uniform", n, 1, "", ""))
		mean, dev := stat.MeanStdDev(xs, nil)
		require.InDelta(t, 0, mean/dev, 0.1)
		slices.Sort(xs)
		require.Greater(t, math.Abs(bell.CDF(xs[n/4])-0.25), 0.1)
	})
}

func TestZipf(t *testing.T) {
	const n = 200_000
	for _, order := range []string{"random", "sorted"} {
		counts := map[int64]int{}
		for _, x := range generate(t, "zipf", n, 3, "", order) {
			counts[x]++
		}
		require.Greater(t, len(counts), 5000)
		require.LessOrEqual(t, len(counts), zipfValues)
		var byFrequency []int
		for _, c := range counts {
			byFrequency = append(byFrequency, c)
		}
		slices.Sort(byFrequency)
		slices.Reverse(byFrequency)
		harmonic := 0.0
		for r := 1; r <= zipfValues; r++ {
			harmonic += math.Pow(float64(r), -zipfExponent)
		}
		for rank, c := range byFrequency[:5] {
			want := n * math.Pow(float64(rank+1), -zipfExponent) / harmonic
			require.InDelta(t, want, c, 6*math.Sqrt(want), "rank %d", rank+1)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for name, call := range map[string]func() (Source, error){
		"name":            func() (Source, error) { return Generate("gamma", 1, 1, "", "") },
		"type":            func() (Source, error) { return Generate("uniform", 1, 1, "date", "") },
		"order":           func() (Source, error) { return Generate("uniform", 1, 1, "", "up") },
		"order of sorted": func() (Source, error) { return Generate("sorted", 1, 1, "", "reverse") },
		"memory":          func() (Source, error) { return Generate("uniform", MaxOrdered+1, 1, "", "sorted") },
		"n":               func() (Source, error) { return Generate("uniform", 0, 1, "", "") },
		"many":            func() (Source, error) { return Generate("uniform", MaxGenerated+1, 1, "", "") },
	} {
		_, err := call()
		require.ErrorIs(t, err, exit.ErrUsage, name)
	}
}
