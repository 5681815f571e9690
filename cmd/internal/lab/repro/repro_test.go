package repro

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

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

// BenchmarkHarnessOfFigures measures figures in an embedded database, and says for how much of the time the processor was in the
// laboratory itself, where it has called nothing of the library. A figure has at most that much of its own: generating rows
// and comparing answers counts, also where it is not timed.
func BenchmarkHarnessOfFigures(b *testing.B) {
	binary, err := os.Executable()
	require.NoError(b, err)
	for _, figure := range Figures() {
		b.Run(figure.Name, func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "profile"))
			require.NoError(b, err)
			defer file.Close()
			cfg := Config{Seed: 1, Quick: true, Batch: 256, Writers: 32}
			if figure.Stored {
				cfg.Database = database(b)
				cfg.Database.Disk = diskInMemory(func(string) uint64 { return 1 })
			}
			require.NoError(b, pprof.StartCPUProfile(file))
			start := time.Now()
			_, err = figure.Run(b.Context(), cfg)
			elapsed := time.Since(start)
			pprof.StopCPUProfile()
			require.NoError(b, err)
			traces, err := exec.Command("go", "tool", "pprof", "-traces", binary, file.Name()).Output()
			require.NoError(b, err)
			harness, all := harnessOf(b, string(traces))
			b.ReportMetric(100*harness.Seconds()/elapsed.Seconds(), "harness-%")
			b.ReportMetric(100*all.Seconds()/elapsed.Seconds(), "cpu-%")
		})
	}
}

// harnessOf returns how much of the time of traces is in the laboratory, and all of it. A trace has its time and functions, the
// innermost one first.
func harnessOf(t testing.TB, traces string) (harness, all time.Duration) {
	const module = "github.com/rangecrypt/rangecrypt/"
	for _, trace := range strings.Split(traces, "-----------+") {
		words := strings.Fields(trace)
		at := slices.IndexFunc(words, func(w string) bool { _, err := time.ParseDuration(w); return err == nil && w != "0" })
		if at < 0 || strings.Contains(trace, "Duration:") {
			continue // what stands before the first one
		}
		took, err := time.ParseDuration(words[at])
		require.NoError(t, err)
		all += took
		if own := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, module) }); own >= 0 && strings.HasPrefix(words[own], module+"cmd/") {
			harness += took
		}
	}
	return harness, all
}

func TestHarnessOf(t *testing.T) {
	harness, all := harnessOf(t, `File: repro.test
Duration: 1.20s, Total samples = 370ms
-----------+-------------------------------------------------------
      30ms   runtime.memmove
             github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro.attribute (inline)
             testing.tRunner
-----------+-------------------------------------------------------
     1.20s   crypto/aes.encrypt
             github.com/rangecrypt/rangecrypt/store.(*Table).Put
             github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro.insert
-----------+-------------------------------------------------------
      10ms   runtime.gcBgMarkWorker
-----------+-------------------------------------------------------
`)
	require.Equal(t, 30*time.Millisecond, harness)
	require.Equal(t, 1240*time.Millisecond, all)
}
