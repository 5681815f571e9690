package waage

import (
	"context"
	"math"
	"testing"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/stretchr/testify/require"
)

// The counts agree with those of an independent program for the same procedure, and are decided by
// the seed.
func TestWaageSamplings(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true}
	fig1, err := figure1(context.Background(), cfg)
	require.NoError(t, err)
	fig2, err := figure2(context.Background(), cfg)
	require.NoError(t, err)

	for i, want := range []struct{ total, last float64 }{{239_587, 22.1}, {269_208, 25.0}} {
		total, ok := fig1.Curves[i].At(samplingValues)
		require.True(t, ok)
		require.InEpsilon(t, want.total, total, 0.01)
		// Both figures show one experiment.
		area, last := 0.0, 0.0
		for _, p := range fig2.Curves[i].Points {
			area += p.Y * (p.X - last)
			last = p.X
		}
		require.InEpsilon(t, total, area, 1e-9)
		rate, ok := fig2.Curves[i].At(samplingValues)
		require.True(t, ok)
		require.InDelta(t, want.last, rate, 2)
	}
	require.Equal(t, "+-+", reprotest.Marks(fig1.Findings[:3])) // the fourth is of the machine
	require.Equal(t, "-++", reprotest.Marks(fig2.Findings))
	for _, r := range []*experiment.Result{fig1, fig2} {
		require.Equal(t, []string{"all pairs kept", "targets only kept", "the paper's text"}, []string{r.Curves[0].Name, r.Curves[1].Name, r.Curves[2].Name})
		require.Contains(t, r.Notes[0], "All pairs kept: as the paper describes")
		require.NotEmpty(t, r.X)
		require.NotEmpty(t, r.Y)
		for _, x := range r.Marks {
			_, ok := r.Curves[0].At(x)
			require.True(t, ok, x)
		}
		for _, c := range r.Curves {
			for _, p := range c.Points {
				require.False(t, math.IsNaN(p.Y))
			}
		}
	}

	_, err = figure1(reprotest.Ended(), cfg)
	require.ErrorIs(t, err, context.Canceled)
}
