// Package measure compares two ways to do the same thing, for benchmarks. They take turns, so that both meet the
// same weather on the machine.
package measure

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/median"
	"github.com/rangecrypt/rangecrypt/internal/process"
)

var server = flag.Int("measure.server", 0, "number of the process of a server on this machine, whose processor time is reported, too")

// serverCPU returns the processor time that the server has used, or zero where none is named or the system does not tell.
func serverCPU() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", *server))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // after the name of the command, which may have spaces
	var user, system int64
	if len(fields) < 13 {
		return 0
	}
	_, _ = fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond // Linux says it in these
}

// Pairs does rows of work with ours and with the baseline, in turns, b.N times, and reports how
// much longer ours takes, in time on the clock and in processor time of this process: the median
// of the ratios of pairs and, of those on the clock, its 95 % confidence interval, which needs six pairs or more. Give
// -benchtime=40x or so. With -measure.server it also says how much more processor time of this process and of a server ours takes.
func Pairs(b *testing.B, rows int, ours, baseline func() error) {
	b.Helper()
	type used struct{ wall, cpu, server float64 }
	timed := func(do func() error) used {
		begin, cpu, server := time.Now(), process.CPU(), serverCPU()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		return used{time.Since(begin).Seconds(), (process.CPU() - cpu).Seconds(), (serverCPU() - server).Seconds()}
	}
	timed(ours)
	timed(baseline)
	var ratios, cpuRatios, bothRatios []float64
	var ourSum, baseSum used
	add := func(to *used, u used) { to.wall, to.cpu, to.server = to.wall+u.wall, to.cpu+u.cpu, to.server+u.server }
	b.ResetTimer()
	for i := range b.N {
		var us, base used
		if i%2 == 0 {
			us = timed(ours)
			base = timed(baseline)
		} else {
			base = timed(baseline)
			us = timed(ours)
		}
		ratios = append(ratios, us.wall/base.wall)
		if base.cpu > 0 {
			cpuRatios = append(cpuRatios, us.cpu/base.cpu)
		}
		if base.server > 0 {
			bothRatios = append(bothRatios, (us.cpu+us.server)/(base.cpu+base.server))
		}
		add(&ourSum, us)
		add(&baseSum, base)
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
	if len(bothRatios) > 0 {
		_, middle, _ = median.Of(bothRatios)
		b.ReportMetric(middle, "both-cpu-ratio")
		b.ReportMetric(1e6*ourSum.server/n, "server-cpu-µs/row")
		b.ReportMetric(1e6*baseSum.server/n, "baseline-server-cpu-µs/row")
	}
	b.ReportMetric(1e6*ourSum.cpu/n, "cpu-µs/row")
	b.ReportMetric(1e6*baseSum.cpu/n, "baseline-cpu-µs/row")
	b.ReportMetric(n/ourSum.wall, "rows/s")
	b.ReportMetric(0, "ns/op") // of no meaning here
}
