package repro

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiguresHaveNames(t *testing.T) {
	seen := map[string]bool{}
	require.NotEmpty(t, Figures())
	for _, f := range Figures() {
		require.NotEmpty(t, f.About)
		require.NotEmpty(t, f.Source)
		require.False(t, seen[f.Name], f.Name)
		seen[f.Name] = true
		found, err := Find(f.Name)
		require.NoError(t, err)
		require.Equal(t, f.Name, found.Name)
	}
	_, err := Find("waage-fig0")
	require.ErrorContains(t, err, "waage-fig1")
}

// The counts agree with those of an independent program for the same procedure, and are decided by
// the seed.
func TestWaageSamplings(t *testing.T) {
	cfg := Config{Seed: 1, Quick: true}
	fig1, err := waageFig1(context.Background(), cfg)
	require.NoError(t, err)
	fig2, err := waageFig2(context.Background(), cfg)
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
	require.Equal(t, "+-+", marks(fig1.Findings[:3])) // the fourth is of the machine
	require.Equal(t, "-++", marks(fig2.Findings))
	for _, r := range []*Result{fig1, fig2} {
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

	_, err = waageFig1(ended(), cfg)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCommas(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567"} {
		require.Equal(t, want, commas(n))
	}
}
