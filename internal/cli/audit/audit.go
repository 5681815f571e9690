// Package audit measures what a column would give away under each scheme: it encrypts the column
// under fresh keys and attacks it with package leakage, as adversaries of several kinds would.
package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
)

// Bounds of an audit.
const (
	MinRows = 20        // fewer have no distribution to speak of
	MaxRows = 1_000_000 // held in memory, and what one unit of a mutable scheme's index holds
	// MinTrials is what a verdict needs: that the median of all trials lies between the least and
	// the greatest of 15 is as good as certain, and the greatest is above 80 % of all trials with a
	// probability of 96 %.
	MinTrials = 15
	MaxTrials = 100

	// Nearness is the share of the column's spread, from its least to its greatest value, that a
	// guess may be away from the value and still be near.
	Nearness = 0.01

	// maxAssign bounds the work of the cumulative attack, maxAlign that of its non-crossing form:
	// beyond it, values hardly repeat, and the attack by rank finds as much.
	maxAssign = 1_000_000_000 // square of the smaller number of distinct values times the larger
	maxAlign  = 200_000_000   // product of both
)

// Config says what is audited.
type Config struct {
	Kind   values.Kind
	Domain ope.Domain // of the schemes, within the kind's
	Values []int64    // codes, in the order of the rows

	// What the adversary knows of the distribution: similar values, or quantiles. With neither, a
	// half of the values that is chosen at random is known, and the other half is attacked: in each
	// trial another one.
	Aux  []int64
	Dist func(u float64) int64

	Schemes []string
	Trials  int // each with a key, known rows and, where the column is halved, halves of its own
	Known   int // rows whose plaintext the third adversary knows
	Seed    uint64

	Progress progress.Reporter // may be nil
}

// An Adversary is what somebody has and knows.
type Adversary string

// The adversaries, in the order of reports.
const (
	// KnowsDomain has a snapshot, and knows the type and domain of the column.
	KnowsDomain Adversary = "domain"
	// KnowsDistribution has a snapshot, and knows how such values are distributed.
	KnowsDistribution Adversary = "distribution"
	// KnowsRows has a snapshot, and knows the plaintexts of some rows.
	KnowsRows Adversary = "rows"
	// Server knows the domain and distribution, and has watched queries for a while.
	Server Adversary = "server"
)

// Adversaries lists them.
func Adversaries() []Adversary {
	return []Adversary{KnowsDomain, KnowsDistribution, KnowsRows, Server}
}

// A Finding is what an attack, or the best one for each figure, read of the column.
type Finding struct {
	Exact float64 // share of the rows that were guessed
	Near  float64 // share of the rows that were guessed to within Nearness
	Bits  float64 // by which a guess narrows a value down more than one without ciphertexts
}

// Figures are what all trials found: the median of each figure, the least and the greatest.
//
// One trial is no figure: how far the order of one half of the rows is from that of the other moves
// all rows of the trial together, so that their number does not make it more certain.
type Figures struct {
	Finding     // medians
	Least, Most Finding
}

func figuresOf(trials []Finding) Figures {
	var f Figures
	for _, figure := range []func(*Finding) *float64{
		func(f *Finding) *float64 { return &f.Exact },
		func(f *Finding) *float64 { return &f.Near },
		func(f *Finding) *float64 { return &f.Bits },
	} {
		var all []float64
		for _, t := range trials {
			all = append(all, *figure(&t))
		}
		slices.Sort(all)
		*figure(&f.Least), *figure(&f.Most), *figure(&f.Finding) = all[0], all[len(all)-1], median(all)
	}
	return f
}

// median returns that of sorted numbers.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (f Finding) best(other Finding) Finding {
	return Finding{max(f.Exact, other.Exact), max(f.Near, other.Near), max(f.Bits, other.Bits)}
}

// An Attack is what one attack read.
type Attack struct {
	Name string
	Figures
}

// A View is what an adversary read of the column under a scheme.
type View struct {
	Adversary Adversary
	Figures   // of the best of the attacks, each figure by itself
	Attacks   []Attack
}

// Best returns the attack that guessed the most rows to within Nearness, and of these the one that
// guessed the most exactly, and gained the most bits.
func (v View) Best() Attack {
	return slices.MaxFunc(v.Attacks, func(a, b Attack) int {
		return cmp.Or(cmp.Compare(a.Near, b.Near), cmp.Compare(a.Exact, b.Exact), cmp.Compare(a.Bits, b.Bits))
	})
}

// A Result is what a scheme gives away.
type Result struct {
	Scheme   string
	SchemeID string
	Views    []View

	Mutable bool
	Traced  float64 // share of the pairs of values of which a snapshot shows which came first: the median

	// Errors of the best attack of the adversary who knows the distribution, as shares of the
	// column's spread, ascending: of all trials, or an even choice of them.
	Errors []float64
}

// View returns what an adversary read.
func (r Result) View(a Adversary) View {
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Adversary == a })
	return r.Views[i]
}

// Worst returns the greatest figures of all adversaries in any trial, and the adversary who reads the
// most exactly. Verdicts are about these: somebody who attacks a column is in one trial, too, and
// may be the lucky one.
func (r Result) Worst() (Finding, Adversary) {
	worst := r.Views[0]
	all := worst.Most
	for _, v := range r.Views[1:] {
		all = all.best(v.Most)
		if v.Most.Exact > worst.Most.Exact || v.Most.Exact == worst.Most.Exact && v.Most.Near > worst.Most.Near {
			worst = v
		}
	}
	return all, worst.Adversary
}

// A Report is what was found about a column.
type Report struct {
	Rows     int
	Distinct int
	Halved   bool // a half of the rows was attacked, and the other was the adversary's knowledge
	Domain   ope.Domain
	Density  float64 // of the domain
	Entropy  float64 // bits of a row's value
	Trials   int
	Known    int

	Without Figures // what knowing the distribution gives without any ciphertext
	Results []Result
}

type usageError string

func (e usageError) Error() string        { return string(e) }
func (e usageError) Is(target error) bool { return target == exit.ErrUsage }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// Run audits a column. The same configuration gives the same report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	var specs []schemeSpec
	for _, name := range cfg.Schemes {
		spec, err := schemeByName(name)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	sample, err := newSampler(ctx, cfg, specs)
	if err != nil {
		return nil, err
	}
	if cfg.Progress != nil {
		cfg.Progress.Start("auditing", len(specs)*cfg.Trials)
		defer cfg.Progress.Done()
	}
	trials := make([]*trial, cfg.Trials)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range trials {
		g.Go(func() (err error) {
			trials[k], err = sample.trial(ctx, specs, k)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}

	// In the order of the trials, whatever the order in which they were done.
	report := &Report{
		Rows: len(cfg.Values), Distinct: len(distinct(cfg.Values)), Halved: sample.halved, Domain: cfg.Domain,
		Density: leakage.Density(cfg.Values, cfg.Domain), Entropy: leakage.Entropy(cfg.Values), Trials: cfg.Trials, Known: trials[0].known,
		Without: figuresOf(each(trials, func(t *trial) Finding { return t.without })),
	}
	for i, spec := range specs {
		report.Results = append(report.Results, result(spec, each(trials, func(t *trial) attacked { return t.schemes[i] })))
	}
	return report, nil
}

// result sums up what the trials found of a scheme.
func result(spec schemeSpec, trials []attacked) Result {
	res := Result{Scheme: spec.name, SchemeID: trials[0].id, Mutable: spec.trace != nil}
	traced := each(trials, func(t attacked) float64 { return t.traced })
	slices.Sort(traced)
	res.Traced = median(traced)
	for _, a := range Adversaries() {
		v := View{Adversary: a}
		var names []string
		for _, t := range trials {
			for _, at := range t.views[a] {
				if !slices.Contains(names, at.name) {
					names = append(names, at.name)
				}
			}
		}
		for _, name := range names {
			v.Attacks = append(v.Attacks, Attack{name, figuresOf(each(trials, func(t attacked) Finding {
				i := slices.IndexFunc(t.views[a], func(at attack) bool { return at.name == name })
				if i < 0 {
					return Finding{} // the halves of this trial do not allow it
				}
				return t.views[a][i].Finding
			}))})
		}
		v.Figures = figuresOf(each(trials, func(t attacked) Finding {
			best := t.views[a][0].Finding
			for _, at := range t.views[a][1:] {
				best = best.best(at.Finding)
			}
			return best
		}))
		res.Views = append(res.Views, v)
	}
	res.Errors = evenly(slices.Concat(each(trials, func(t attacked) []float64 { return t.errors })...))
	return res
}

func each[T, U any](all []T, of func(T) U) []U {
	out := make([]U, len(all))
	for i, x := range all {
		out[i] = of(x)
	}
	return out
}

// maxErrors bounds the errors that are kept for a plot.
const maxErrors = 2000

// evenly sorts errors and returns an even choice of them.
func evenly(all []float64) []float64 {
	slices.Sort(all)
	if len(all) <= maxErrors {
		return all
	}
	even := make([]float64, maxErrors)
	for i := range even {
		even[i] = all[int64(2*i+1)*int64(len(all))/(2*maxErrors)] // which an int of 32 bits does not hold
	}
	return even
}

func (cfg Config) check() error {
	switch {
	case len(cfg.Values) > MaxRows || len(cfg.Aux) > MaxRows:
		return fmt.Errorf("an audit takes at most %d rows; --n takes the first ones", MaxRows)
	case len(cfg.Values) == 0:
		return errors.New("the input holds no values")
	case cfg.Aux != nil && cfg.Dist != nil:
		return usagef("the adversary knows either other values or a distribution")
	case cfg.Trials < 1 || cfg.Trials > MaxTrials:
		return usagef("the number of trials is %d, need 1 to %d", cfg.Trials, MaxTrials)
	case cfg.Known < 0:
		return usagef("the number of known rows is %d", cfg.Known)
	}
	outside := 0
	for _, x := range cfg.Values {
		if !cfg.Domain.Contains(x) {
			outside++
		}
	}
	if outside > 0 {
		return fmt.Errorf("the column has %d of %d values outside of the domain: widen --min and --max", outside, len(cfg.Values))
	}
	number, _ := numbers(cfg.Kind)
	infinite := func(x int64) bool { return math.IsInf(number(x), 0) }
	switch {
	case slices.ContainsFunc(cfg.Values, infinite):
		return errors.New("the column has infinite values, which no guess is near to: leave them out")
	case slices.ContainsFunc(cfg.Aux, infinite):
		return errors.New("the values that the adversary knows have infinite ones among them, which no guess is made of: leave them out")
	case math.IsInf(number(slices.Max(cfg.Values))-number(slices.Min(cfg.Values)), 0):
		return fmt.Errorf("the least and the greatest value are further apart than any %s, so that all guesses would be near: leave the outermost values out", cfg.Kind.Name)
	}
	return nil
}

func newRand(seed uint64, purpose string) *rand.Rand {
	var state [32]byte
	binary.BigEndian.PutUint64(state[:], seed)
	copy(state[8:], purpose)
	return rand.New(rand.NewChaCha8(state))
}
