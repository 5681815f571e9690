package experiment

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommas(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567"} {
		require.Equal(t, want, Commas(n))
	}
}

func TestRatios(t *testing.T) {
	r := RatioOf([]float64{2, 4, 6, 8, 10, 12}, []float64{1, 2, 3, 4, 5, 6})
	require.Equal(t, Ratio{2, 2, 2}, r)
	require.Equal(t, Point{X: 7, Y: 2, Low: 2, High: 2}, r.At(7))
	require.Equal(t, Point{X: 7, Y: 2}, Ratio{math.NaN(), 2, math.NaN()}.At(7))
	require.Equal(t, IsSo, Every())
	require.Equal(t, IsNot, Every(IsSo, Unclear, IsNot))
	require.Equal(t, Unclear, Every(IsSo, Unclear, IsSo))
}
