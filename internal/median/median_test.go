package median

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	low, median, high := Of([]float64{5, 1, 4, 2, 3})
	require.Equal(t, 3.0, median)
	require.True(t, math.IsNaN(low) && math.IsNaN(high), "five values are too few for 95 %%")

	// With six, all but 2 of 2^6 outcomes lie between the extremes: 1 - 2/64 > 0.95.
	low, median, high = Of([]float64{6, 5, 1, 4, 2, 3})
	require.Equal(t, []float64{1, 3.5, 6}, []float64{low, median, high})

	_, median, _ = Of(nil)
	require.True(t, math.IsNaN(median))
}

// The interval has to cover the median of the law in at least 95 % of all samples.
func TestMedianCovers(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	covered, samples := 0, 4000
	for range samples {
		values := make([]float64, 25)
		for i := range values {
			values[i] = r.ExpFloat64()
		}
		if low, _, high := Of(values); low <= math.Ln2 && math.Ln2 <= high {
			covered++
		}
	}
	// Five standard deviations of a binomial below 95 %.
	require.Greater(t, float64(covered)/float64(samples), 0.95-5*math.Sqrt(0.95*0.05/float64(samples)))
}
