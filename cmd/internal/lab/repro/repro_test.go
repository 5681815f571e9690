package repro

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
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
			cfg := experiment.Config{Seed: 1, Quick: true, Batch: 256, Writers: 32}
			if figure.Stored {
				cfg.Database = reprotest.Database(b)
				cfg.Database.Disk = reprotest.DiskInMemory(func(string) uint64 { return 1 })
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
