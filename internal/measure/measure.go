// Package measure compares two ways to do the same thing, for benchmarks. They take turns, so that both meet the
// same weather on the machine.
package measure

import (
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/median"
	"github.com/rangecrypt/rangecrypt/internal/process"
)

// Pairs does rows of work with ours and with the baseline, in turns, b.N times, and reports how
// much longer ours takes, in time on the clock and in processor time of this process: the median
// of the ratios of pairs and, of those on the clock, its 95 % confidence interval, which needs six pairs or more. Give
// -benchtime=40x or so.
func Pairs(b *testing.B, rows int, ours, baseline func() error) {
	b.Helper()
	timed := func(do func() error) (wall, cpu float64) {
		begin, used := time.Now(), process.CPU()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin).Seconds(), (process.CPU() - used).Seconds()
	}
	timed(ours)
	timed(baseline)
	var ratios, cpuRatios []float64
	var ourWall, ourCPU, baseCPU float64
	b.ResetTimer()
	for i := range b.N {
		var wall, cpu, baseWall, baseUsed float64
		if i%2 == 0 {
			wall, cpu = timed(ours)
			baseWall, baseUsed = timed(baseline)
		} else {
			baseWall, baseUsed = timed(baseline)
			wall, cpu = timed(ours)
		}
		ratios = append(ratios, wall/baseWall)
		if baseUsed > 0 {
			cpuRatios = append(cpuRatios, cpu/baseUsed)
		}
		ourWall, ourCPU, baseCPU = ourWall+wall, ourCPU+cpu, baseCPU+baseUsed
	}
	b.StopTimer()
	low, middle, high := median.Of(ratios)
	n := float64(b.N * rows)
	b.ReportMetric(middle, "ratio")
	b.ReportMetric(low, "ratio-low")
	b.ReportMetric(high, "ratio-high")
	if len(cpuRatios) > 0 {
		_, middle, _ = median.Of(cpuRatios)
		b.ReportMetric(middle, "cpu-ratio")
	}
	b.ReportMetric(1e6*ourCPU/n, "cpu-µs/row")
	b.ReportMetric(1e6*baseCPU/n, "baseline-cpu-µs/row")
	b.ReportMetric(n/ourWall, "rows/s")
	b.ReportMetric(0, "ns/op") // of no meaning here
}
