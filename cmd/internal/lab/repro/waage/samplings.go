package waage

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// Figures 1 and 2 of Waage, Homann and Wiese (SECRYPT 2016), section 3.2.1: how often the on-demand
// form of RUS executes its sample procedure, in all and for each value, when 10,000 uniform 32-bit
// integers are encrypted one after the other; means of 20 runs.

var samplingFigures = []experiment.Figure{
	{
		Name: "waage-fig1", About: "samplings in all, by values encrypted (Wozniak on demand)",
		Source: "Waage, Homann and Wiese, SECRYPT 2016, figure 1",
		Drawn:  true,
		Run:    figure1,
	},
	{
		Name: "waage-fig2", About: "samplings for the next value, by values encrypted (Wozniak on demand)",
		Source: "Waage, Homann and Wiese, SECRYPT 2016, figure 2",
		Drawn:  true,
		Run:    figure2,
	},
}

const (
	samplingValues    = 10_000
	samplingRuns      = 20
	samplingQuickRuns = 1

	// What the text of the paper says.
	paperTotal = 186_287
	paperFirst = 32
	paperLast  = 21
)

// The readings of the paper's text: RUS adds every pair that it draws to the function; the
// modification says only that the aimed pair is wanted.
var samplingReadings = []struct {
	name    string
	targets bool
}{{"all pairs kept", false}, {"targets only kept", true}}

// samplingCurve is what was counted of one reading, as means over the runs.
type samplingCurve struct {
	name    string
	each    []float64 // samplings for the value i+1
	pairs   float64   // in the index at the end
	elapsed time.Duration
}

// sum returns the samplings for the values from+1 to to, added in their order.
func (c samplingCurve) sum(from, to int) float64 {
	sum := 0.0
	for _, n := range c.each[from:to] {
		sum += n
	}
	return sum
}

func (c samplingCurve) total() float64 { return c.sum(0, len(c.each)) }

// mean returns the mean of the values from+1 to to.
func (c samplingCurve) mean(from, to int) float64 { return c.sum(from, to) / float64(to-from) }

func countSamplings(ctx context.Context, cfg experiment.Config) (curves []samplingCurve, runs int, err error) {
	runs = cfg.Size(samplingRuns, samplingQuickRuns)
	cfg.Bar().Start("encrypt", runs*len(samplingReadings)*samplingValues)
	defer cfg.Bar().Done()
	for _, reading := range samplingReadings {
		c := samplingCurve{name: reading.name, each: make([]float64, samplingValues)}
		for run := range runs {
			// The same values for every reading.
			values := rand.New(rand.NewPCG(cfg.Seed, uint64(run)))
			var coins [32]byte
			copy(coins[:], fmt.Sprintf("%d %d", cfg.Seed, run))
			s, err := wozniak.NewIndexed(ope.GenerateKey(), ope.Int32, memindex.New(), "repro", &wozniak.IndexedOptions{
				TargetsOnly: reading.targets, Coins: rand.NewChaCha8(coins),
			})
			if err != nil {
				return nil, 0, err
			}
			start, before := time.Now(), 0
			for i := range c.each {
				if _, err := s.Encrypt(ctx, int64(int32(values.Uint32()))); err != nil {
					return nil, 0, err
				}
				n := s.Stats().Samplings
				c.each[i] += float64(n-before) / float64(runs)
				before = n
				if i%100 == 99 {
					cfg.Bar().Add(100)
				}
			}
			c.elapsed += time.Since(start) / time.Duration(runs)
			c.pairs += float64(s.Stats().Pairs) / float64(runs)
		}
		curves = append(curves, c)
	}
	return curves, runs, nil
}

// samplingEnds are the numbers of values that have a point.
func samplingEnds() []int {
	ends := []int{1, 2, 5, 10, 20, 50}
	for n := 100; n <= samplingValues; n += 100 {
		ends = append(ends, n)
	}
	return ends
}

var samplingMarks = []float64{1, 10, 100, 1000, 2000, 5000, samplingValues}

// samplingResult counts samplings, and draws for each end what of says of the values since the end
// before.
func samplingResult(ctx context.Context, cfg experiment.Config, what, detail string, of func(c samplingCurve, last, end int) float64, paper []experiment.Point, findings func(all, targets samplingCurve) []experiment.Finding) (*experiment.Result, error) {
	counted, runs, err := countSamplings(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("Samplings %s: %s uniform int32 values, %s%s", what, experiment.Commas(samplingValues), experiment.MeanOf(runs), detail),
		X:     "number of values encrypted", Y: "samplings " + what,
		Runs: runs, Marks: samplingMarks, Findings: findings(counted[0], counted[1]),
		Notes: []string{"All pairs kept: as the paper describes RUS, which adds every pair that it draws. Targets only kept: the other reading of its modification, and what tables here do."},
	}
	for _, c := range counted {
		var points []experiment.Point
		last := 0
		for _, end := range samplingEnds() {
			points = append(points, experiment.Point{X: float64(end), Y: of(c, last, end)})
			last = end
		}
		r.Curves = append(r.Curves, experiment.Curve{Name: c.name, Points: points})
	}
	r.Curves = append(r.Curves, experiment.Curve{Name: "the paper's text", Paper: true, Points: paper})
	return r, nil
}

func figure1(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	return samplingResult(ctx, cfg, "in all", "",
		func(c samplingCurve, _, end int) float64 { return c.sum(0, end) },
		[]experiment.Point{{X: samplingValues, Y: paperTotal}}, totalFindings)
}

func totalFindings(all, targets samplingCurve) []experiment.Finding {
	domain := math.Exp2(32)
	return []experiment.Finding{
		{Holds: all.total() < domain/1000, Text: fmt.Sprintf(
			"The paper: encrypting on demand takes a tiny part of the 4,294,967,296 samplings of the whole domain. Here it takes %.4f %% of them (all pairs) and %.4f %% (targets only).",
			100*all.total()/domain, 100*targets.total()/domain)},
		{Holds: near(all.total(), paperTotal) || near(targets.total(), paperTotal), Text: fmt.Sprintf(
			"The paper: 186,287 samplings for 10,000 values. Here they are %s (all pairs) and %s (targets only). The description does not lead to the paper's number: it is 18.6 for a value, while the curve of its own figure 2 never falls below 21.",
			experiment.Commas(all.total()), experiment.Commas(targets.total()))},
		{Holds: all.mean(samplingValues-1000, samplingValues) < 0.9*all.mean(0, 1000), Text: fmt.Sprintf(
			"The paper: the more values are encrypted, the fewer samplings the next one takes. Here the first thousand take %.1f each and the last %.1f (all pairs), and %.1f and %.1f (targets only).",
			all.mean(0, 1000), all.mean(samplingValues-1000, samplingValues), targets.mean(0, 1000), targets.mean(samplingValues-1000, samplingValues))},
		{Holds: all.elapsed < time.Second && targets.elapsed < time.Second, Unclear: (all.elapsed < time.Second) != (targets.elapsed < time.Second), Text: fmt.Sprintf(
			"The paper: less than a second for 10,000 values. Here %.2f s (all pairs, %s records sealed and put into an index in memory) and %.2f s (targets only, %s records); the machine decides.",
			all.elapsed.Seconds(), experiment.Commas(all.pairs), targets.elapsed.Seconds(), experiment.Commas(targets.pairs))},
	}
}

func figure2(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	return samplingResult(ctx, cfg, "for the next value", ", a point for up to 100 values", samplingCurve.mean,
		[]experiment.Point{{X: 1, Y: paperFirst}, {X: samplingValues, Y: paperLast}}, nextFindings)
}

func nextFindings(all, targets samplingCurve) []experiment.Finding {
	// The mean depth in a random binary search tree of n nodes.
	n := math.Exp2(32)
	expected := 2*(1+1/n)*(math.Log(n)+0.57721566) - 3
	first := (all.each[0] + targets.each[0]) / 2
	lastAll, lastTargets := all.mean(samplingValues-500, samplingValues), targets.mean(samplingValues-500, samplingValues)
	return []experiment.Finding{
		{Holds: near(expected, paperFirst), Text: fmt.Sprintf(
			"The paper: the first encryption takes log2(2^32) = 32 samplings. The procedure's expectation is 2 (1 + 1/n) H(n) - 3 = %.1f for n = 2^32, as for the depth in a random search tree; here the first took %.1f, the first ten %.1f. The axis of the paper's figure 2, up to 50, fits that and not 32.",
			expected, first, (all.mean(0, 10)+targets.mean(0, 10))/2)},
		{Holds: near(lastAll, paperLast), Text: fmt.Sprintf(
			"The paper: the 10,000th encryption takes 21 samplings. Here the last 500 take %.1f (all pairs) and %.1f (targets only): the reading that keeps all pairs agrees to within a tenth.",
			lastAll, lastTargets)},
		{Holds: lastAll < 0.9*all.mean(0, 100) && lastTargets < 0.9*targets.mean(0, 100), Text: fmt.Sprintf(
			"The paper: the number falls as values are encrypted. Here from %.1f for the first hundred to %.1f (all pairs), and from %.1f to %.1f (targets only).",
			all.mean(0, 100), lastAll, targets.mean(0, 100), lastTargets)},
	}
}

// near reports whether a measured number is within a tenth of the paper's.
func near(measured, paper float64) bool { return math.Abs(measured-paper) <= paper/10 }
