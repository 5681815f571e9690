// Package median computes medians with confidence intervals.
package median

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Of returns the median of values and its 95 % confidence interval. Its ends are NaN where there are too few
// values. They are the k-th least and greatest value, where the number of values below
// the median, which is binomial, is below k with a probability of at most 0.025.
func Of(values []float64) (low, median, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	below := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for below.CDF(float64(k)) <= 0.025 {
		k++
	}
	if k == 0 {
		return math.NaN(), median, math.NaN()
	}
	return sorted[k-1], median, sorted[n-k]
}
