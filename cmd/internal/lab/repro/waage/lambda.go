package waage

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// What Waage, Homann and Wiese (SECRYPT 2016) say of lambda in section 3.2.2: with ciphertexts of lambda
// times as many bits as plaintexts, how often does Kerschbaum's scheme encrypt everything again? That is
// decided by the order of insertion and by the length of labels alone, so that it is counted in memory.

var lambdaFigures = []experiment.Figure{{
	Name:   "waage-lambda",
	About:  "rebalancing passes by lambda (Kerschbaum as published)",
	Source: "Waage, Homann and Wiese, SECRYPT 2016, section 3.2.2",
	Drawn:  true,
	Run:    lambdaPasses,
}}

const (
	lambdaSteps     = 10
	lambdaStep      = 2000
	lambdaQuickStep = 100

	lambdaRuns      = 20 // in random order; the others do not depend on chance
	lambdaQuickRuns = 3

	narrowBits  = 20      // of plaintexts: as many as labels of 128 bits have room for under the greatest lambda
	denseBits   = 16      // of plaintexts of which a good part comes
	paperLambda = 6.31107 // the "theoretical safe upper bound"
)

// A room is a plaintext space with a lambda.
type room struct {
	plain  string
	bits   int // of plaintexts
	lambda string
	domain ope.Domain
	option int // that makes the labels
}

func (r room) name() string { return r.plain + ", lambda " + r.lambda }

// labelBits returns how long labels are. They have a bit more than the paper says, since ciphertexts may be negative.
func (r room) labelBits() int {
	return r.option*bits.Len64(r.domain.Span()) + 1
}

// value returns a value of the room for one of 32 bits, in the same order.
func (r room) value(x int64) int64 {
	if r.domain.Min < 0 {
		return x
	}
	return (x - math.MinInt32) >> (32 - r.bits)
}

// rooms lists them. The option is a whole number. For 6.3 the domain is given with a bit more than the
// values have: 6 * 21 is 6.3 * 20, and labels do not depend on which values come.
var rooms = []room{
	{"int32", 32, "2", ope.Int32, 2},
	{"int32", 32, "3", ope.Int32, 3},
	{"20 bits", narrowBits, "2", ope.Domain{Max: 1<<narrowBits - 1}, 2},
	{"20 bits", narrowBits, "3", ope.Domain{Max: 1<<narrowBits - 1}, 3},
	{"20 bits", narrowBits, "6.3", ope.Domain{Max: 1<<(narrowBits+1) - 1}, 6},
	{"16 bits", denseBits, "2", ope.Domain{Max: 1<<denseBits - 1}, 2},
	{"16 bits", denseBits, "3", ope.Domain{Max: 1<<denseBits - 1}, 3},
}

// The orders of section 3.2.2.
const (
	bestOrder    = "best"
	averageOrder = "average"
	worstOrder   = "worst"
)

var lambdaOrders = []struct{ name, order string }{
	{bestOrder, "preorder"}, {averageOrder, "random"}, {worstOrder, "sorted"},
}

// A passing is what was counted in a room and order.
type passing struct {
	room
	order  string
	runs   int
	with   int   // runs that had a pass
	passes []int // by step: since the first value, in all runs
	moved  int   // values that were encrypted again, in all runs
}

func (p *passing) total() int { return p.passes[lambdaSteps-1] }

type passings []*passing

// of returns what was counted under a lambda in an order.
func (ps passings) of(lambda, order string) (some passings) {
	for _, p := range ps {
		if p.lambda == lambda && p.order == order {
			some = append(some, p)
		}
	}
	return some
}

// none reports whether there was no pass.
func (ps passings) none() bool {
	for _, p := range ps {
		if p.total() > 0 {
			return false
		}
	}
	return true
}

// count encrypts values one after the other.
func (p *passing) count(ctx context.Context, values []int64) error {
	s, err := kerschbaum.New(ope.GenerateKey(), p.domain, memindex.New(), &kerschbaum.Options{Name: "repro", Lambda: p.option})
	if err != nil {
		return err
	}
	passes := func() int { // a small index is encrypted again by one commit
		n := s.Stats()
		return n.Passes + n.Relabels
	}
	for i, x := range values {
		if _, err := s.Encrypt(ctx, p.value(x)); err != nil {
			return err
		}
		if step := len(values) / lambdaSteps; (i+1)%step == 0 {
			p.passes[i/step] += passes()
		}
	}
	p.runs++
	p.moved += s.Stats().Moved
	if passes() > 0 {
		p.with++
	}
	return nil
}

func countPasses(ctx context.Context, cfg experiment.Config) (all passings, err error) {
	n, runs := lambdaSteps*cfg.Size(lambdaStep, lambdaQuickStep), cfg.Size(lambdaRuns, lambdaQuickRuns)
	cfg.Bar().Start("encrypt", n*len(rooms)*(runs+len(lambdaOrders)-1))
	defer cfg.Bar().Done()
	for _, r := range rooms {
		for _, order := range lambdaOrders {
			p := &passing{room: r, order: order.name, passes: make([]int, lambdaSteps)}
			for run := range runs {
				if run > 0 && order.name != averageOrder {
					break
				}
				_, values, err := uniform(n, cfg.Seed+uint64(run), "int32", order.order)
				if err != nil {
					return nil, err
				}
				if err := p.count(ctx, values); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", p.name(), p.order, err)
				}
				cfg.Bar().Add(n)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

func lambdaPasses(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	all, err := countPasses(ctx, cfg)
	if err != nil {
		return nil, err
	}
	step, runs := cfg.Size(lambdaStep, lambdaQuickStep), cfg.Size(lambdaRuns, lambdaQuickRuns)
	n := experiment.Commas(float64(step * lambdaSteps))
	r := &experiment.Result{
		Title: fmt.Sprintf("Passes of Kerschbaum's scheme as published by lambda: up to %s uniform values, encrypted one by one", n),
		X:     "number of values encrypted", Y: "passes", Runs: runs,
		Table: &experiment.Table{
			Names: 3, Columns: []string{"values", "lambda", "order", "label bits", "runs", "with a pass", "passes", "moved"},
			Words: []bool{true, false, true, false, false, false, false, false},
		},
		Notes: []string{
			"passes: how often everything was encrypted again, and moved: values that were, both in all runs together. The best order is the pre-order of a balanced tree, the average one random, and the worst one ascending; only the average one depends on chance.",
			fmt.Sprintf("Labels have lambda times as many bits as values, and one more for the sign; 128 at most. So int32 values have no room for lambda %v. Beside them stand their upper %d bits, with 6.3 (127 bits, which is 6.35 with that for the sign), and their upper %d, of which a good part comes. What comes twice is encrypted once.",
				paperLambda, narrowBits, denseBits),
		},
		Findings: lambdaFindings(all, n),
	}
	for _, p := range all {
		c := experiment.Curve{Name: p.name() + ", " + p.order, Kin: p.name(), Panel: p.order}
		for i, passes := range p.passes {
			c.Points = append(c.Points, experiment.Point{X: float64((i + 1) * step), Y: float64(passes) / float64(p.runs)})
		}
		r.Curves = append(r.Curves, c)
		row := []experiment.Cell{experiment.Words("%s", p.plain), experiment.Words("%s", p.lambda), experiment.Words("%s", p.order)}
		for _, count := range []int{p.labelBits(), p.runs, p.with, p.total(), p.moved} {
			row = append(row, experiment.Numeral(float64(count), 0))
		}
		r.Table.Rows = append(r.Table.Rows, row)
	}
	if cfg.Quick {
		r.Below(experiment.Commas(lambdaStep*lambdaSteps) + " values")
	}
	return r, nil
}

// lambdaFindings compares n values with what section 3.2.2 of the paper says.
func lambdaFindings(all passings, n string) []experiment.Finding {
	// each writes what was counted in the rooms of a lambda.
	each := func(some passings, write func(p *passing) string) string {
		var all []string
		for _, p := range some {
			all = append(all, write(p)+" ("+p.plain+")")
		}
		return strings.Join(all, ", ")
	}
	with := func(p *passing) string { return fmt.Sprintf("%d of %d", p.with, p.runs) }
	times := func(p *passing) string { return experiment.Commas(float64(p.total())) }
	random := func(lambda string) passings { return all.of(lambda, averageOrder) }
	sorted := func(lambda string) passings { return all.of(lambda, worstOrder) }
	always := true // with sorted values
	for _, p := range all {
		always = always && (p.order != worstOrder || p.total() > 0)
	}
	return []experiment.Finding{
		{Holds: random("3").none() && all.of("3", bestOrder).none(), Text: fmt.Sprintf(
			"The paper: lambda = 3, and sometimes 2, is already sufficient for most datasets. Runs with %s values in random order that have a pass with lambda 3: %s; with lambda 2: %s. Passes with lambda 3 in the best order: %s. A tree of n random values is up to 3 log2(n) high, and a label needs a bit for each level: 2 is enough where the values are few of their domain.",
			n, each(random("3"), with), each(random("2"), with), each(all.of("3", bestOrder), times))},
		{Holds: random("6.3").none(), Text: fmt.Sprintf(
			"The paper: the theoretical safe upper bound is lambda = %v. Runs in random order that have a pass with lambda 6.3: %s.",
			paperLambda, each(random("6.3"), with))},
		{Holds: always, Text: fmt.Sprintf(
			"The paper: the worst case is inserting pre-sorted values, which should be avoided at all. Passes over %s of them with lambda 2: %s; with lambda 3: %s; with lambda 6.3: %s. A lambda that is safe for random values is not for sorted ones.",
			n, each(sorted("2"), times), each(sorted("3"), times), each(sorted("6.3"), times))},
	}
}
