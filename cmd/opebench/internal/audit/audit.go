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

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
)

// Bounds of an audit.
const (
	MinRows = 20        // fewer have no distribution to speak of
	MaxRows = 1_000_000 // held in memory, and what one unit of a mutable scheme's index holds
	MaxKeys = 100

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
	Kind   bench.Kind
	Domain ope.Domain // of the schemes, within the kind's
	Values []int64    // codes, in the order of the rows

	// What the adversary knows of the distribution: similar values, or quantiles. With neither, a
	// half of the values that is chosen at random is known, and the other half is attacked.
	Aux  []int64
	Dist func(u float64) int64

	Schemes []string
	Keys    int // shares are means over so many keys
	Known   int // rows whose plaintext the third adversary knows
	Seed    uint64

	Progress bench.Progress // may be nil
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

func (f Finding) best(other Finding) Finding {
	return Finding{max(f.Exact, other.Exact), max(f.Near, other.Near), max(f.Bits, other.Bits)}
}

// An Attack is what one attack read.
type Attack struct {
	Name string
	Finding
}

// A View is what an adversary read of the column under a scheme.
type View struct {
	Adversary Adversary
	Finding   // the best of the attacks, each figure by itself
	Attacks   []Attack
}

// Best returns the attack that guessed the most rows to within Nearness, and of these the one that
// guessed the most exactly.
func (v View) Best() Attack {
	return slices.MaxFunc(v.Attacks, func(a, b Attack) int {
		return cmp.Or(cmp.Compare(a.Near, b.Near), cmp.Compare(a.Exact, b.Exact))
	})
}

// A Result is what a scheme gives away.
type Result struct {
	Scheme   string
	SchemeID string
	Views    []View

	Mutable bool
	Traced  float64 // share of the pairs of values of which a snapshot tells which came first

	// Errors of the best attack of the adversary who knows the distribution, as shares of the
	// column's spread, ascending: every row under every key, or an even choice of them.
	Errors []float64
}

// View returns what an adversary read.
func (r Result) View(a Adversary) View {
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Adversary == a })
	return r.Views[i]
}

// Worst returns the best figures of all adversaries, and the one that reads the most exactly.
func (r Result) Worst() (Finding, Adversary) {
	worst := r.Views[0]
	all := worst.Finding
	for _, v := range r.Views[1:] {
		all = all.best(v.Finding)
		if v.Exact > worst.Exact || v.Exact == worst.Exact && v.Near > worst.Near {
			worst = v
		}
	}
	return all, worst.Adversary
}

// A Report is what was found about a column.
type Report struct {
	Rows     int // attacked
	Distinct int
	Halved   bool // the other half of the rows was the adversary's knowledge
	Domain   ope.Domain
	Density  float64 // of the domain
	Entropy  float64 // bits of a row's value
	Keys     int
	Known    int

	Without Finding // what knowing the distribution gives without any ciphertext
	Results []Result
}

type usageError string

func (e usageError) Error() string        { return string(e) }
func (e usageError) Is(target error) bool { return target == bench.ErrUsage }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// Run audits a column. The same configuration gives the same report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	values, aux := cfg.Values, cfg.Aux
	halved := aux == nil && cfg.Dist == nil
	if halved {
		values, aux = halve(values, newRand(cfg.Seed, "halves"))
	}
	if len(values) < MinRows || aux != nil && len(aux) < MinRows {
		return nil, fmt.Errorf("%d rows are too few to attack with %d: an audit needs %d of each, or %d of which one half is held against the other, or --dist",
			len(values), len(aux), MinRows, 2*MinRows)
	}
	c := &column{Config: cfg, values: values, aux: aux, quantile: cfg.Dist}
	if aux != nil {
		c.quantile = leakage.Empirical(aux)
	}
	c.prepare()
	report := &Report{
		Rows: len(values), Distinct: len(c.distinct), Halved: halved, Domain: cfg.Domain,
		Density: leakage.Density(values, cfg.Domain), Entropy: leakage.Entropy(values), Keys: cfg.Keys, Known: c.known,
		Without: c.without(),
	}
	if cfg.Progress != nil {
		cfg.Progress.Start("auditing", len(cfg.Schemes)*cfg.Keys)
		defer cfg.Progress.Done()
	}
	for _, name := range cfg.Schemes {
		r, err := c.scheme(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("audit of %s: %w", name, err)
		}
		report.Results = append(report.Results, *r)
	}
	return report, nil
}

func (cfg Config) check() error {
	switch {
	case len(cfg.Values) > MaxRows || len(cfg.Aux) > MaxRows:
		return fmt.Errorf("an audit takes at most %d rows; --n takes the first ones", MaxRows)
	case len(cfg.Values) == 0:
		return errors.New("the input holds no values")
	case cfg.Aux != nil && cfg.Dist != nil:
		return usagef("the adversary knows either other values or a distribution")
	case cfg.Keys < 1 || cfg.Keys > MaxKeys:
		return usagef("the number of keys is %d, need 1 to %d", cfg.Keys, MaxKeys)
	case cfg.Known < 0:
		return usagef("the number of known rows is %d", cfg.Known)
	}
	number, _ := numbers(cfg.Kind)
	for _, x := range cfg.Values {
		switch {
		case !cfg.Domain.Contains(x):
			return errors.New("the column has values outside of the domain: widen --min and --max")
		case math.IsInf(number(x), 0):
			return errors.New("the column has infinite values, which no guess is near to: leave them out")
		}
	}
	return nil
}

func newRand(seed uint64, purpose string) *rand.Rand {
	var state [32]byte
	binary.BigEndian.PutUint64(state[:], seed)
	copy(state[8:], purpose)
	return rand.New(rand.NewChaCha8(state))
}

// halve deals the values out to two halves, each in the order of the rows.
func halve(values []int64, r *rand.Rand) (a, b []int64) {
	second := make([]bool, len(values))
	for _, i := range r.Perm(len(values))[:len(values)/2] {
		second[i] = true
	}
	a, b = make([]int64, 0, (len(values)+1)/2), make([]int64, 0, len(values)/2)
	for i, x := range values {
		if second[i] {
			b = append(b, x)
		} else {
			a = append(a, x)
		}
	}
	return a, b
}

// A column is what is attacked, and what does not depend on the scheme.
type column struct {
	Config
	values   []int64
	aux      []int64 // or nil
	quantile func(u float64) int64
	known    int

	distinct    []int64      // ascending
	near        []ope.Domain // codes near each row's value
	number      func(code int64) float64
	spread      float64
	snap        func(guess int64) int64 // to how the values are written
	prior, mode int64                   // the best guesses without ciphertexts
}

func (c *column) prepare() {
	c.distinct = slices.Sorted(slices.Values(c.values))
	c.distinct = slices.Compact(c.distinct)
	number, code := numbers(c.Kind)
	c.number, c.snap = number, snapping(c.Kind, c.distinct, c.Domain)
	least, greatest := c.distinct[0], c.distinct[len(c.distinct)-1]
	c.spread = number(greatest) - number(least)
	tolerance := Nearness * c.spread
	for _, x := range c.values {
		low, high := min(code(number(x)-tolerance), x), max(code(number(x)+tolerance), x)
		// Inwards, where the code of the end was rounded outwards.
		for number(low) < number(x)-tolerance && low < x {
			low++
		}
		for number(high) > number(x)+tolerance && high > x {
			high--
		}
		c.near = append(c.near, ope.Domain{Min: low, Max: high})
	}
	// Half of the rows at most: of a short column something has to be left to guess.
	c.known = min(c.Known, len(c.values)/2)
	c.prior = c.quantile(0.5)
	c.mode = c.prior
	if c.aux != nil {
		counts, most := make(map[int64]int), 0
		for _, x := range slices.Sorted(slices.Values(c.aux)) {
			if counts[x]++; counts[x] > most {
				most, c.mode = counts[x], x
			}
		}
	}
}

// find returns what guesses of all rows have right, given the best guess without ciphertexts.
func (c *column) find(guesses []int64, prior int64) Finding {
	return findIn(c.values, c.near, guesses, prior)
}

// findIn returns what guesses of rows have right that have the values truth, and codes near to them.
func findIn(truth []int64, nearTo []ope.Domain, guesses []int64, prior int64) Finding {
	near := 0
	for i, g := range guesses {
		if nearTo[i].Contains(g) {
			near++
		}
	}
	return Finding{
		Exact: leakage.Share(truth, guesses, leakage.Exactly),
		Near:  float64(near) / float64(len(truth)),
		Bits:  leakage.Bits(truth, guesses, prior),
	}
}

func (c *column) guessAll(x int64, rows int) []int64 { return slices.Repeat([]int64{x}, rows) }

// without returns what the distribution alone gives: the most frequent value for each row, or the
// median.
func (c *column) without() Finding {
	n := len(c.values)
	f := c.find(c.guessAll(c.prior, n), c.prior)
	return f.best(Finding{Exact: leakage.Share(c.values, c.guessAll(c.mode, n), leakage.Exactly)})
}

// A trial is what the attacks under one key found.
type trial struct {
	id     string
	traced float64
	views  map[Adversary][]attack
	best   []int64 // guesses of the best attack of KnowsDistribution
}

// scheme attacks the column under a scheme with several keys.
func (c *column) scheme(ctx context.Context, name string) (*Result, error) {
	spec, err := schemeByName(name)
	if err != nil {
		return nil, err
	}
	keyFree, err := c.keyFree(ctx, spec)
	if err != nil {
		return nil, err
	}
	trials := make([]trial, c.Keys)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range trials {
		g.Go(func() (err error) {
			trials[k], err = c.trial(ctx, spec, keyFree, k)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}

	// In the order of the keys, whatever the order in which they were done.
	res := &Result{Scheme: name, SchemeID: trials[0].id, Mutable: spec.trace != nil}
	var best [][]int64
	for _, t := range trials {
		res.Traced += t.traced / float64(c.Keys)
		best = append(best, t.best)
	}
	for _, a := range Adversaries() {
		v := View{Adversary: a}
		for i, first := range trials[0].views[a] {
			mean := Attack{Name: first.name}
			for _, t := range trials {
				f := t.views[a][i].Finding
				mean.Exact += f.Exact
				mean.Near += f.Near
				mean.Bits += f.Bits
			}
			// Once at the end, so that the mean of equal shares is that share.
			n := float64(c.Keys)
			mean.Exact, mean.Near, mean.Bits = mean.Exact/n, mean.Near/n, mean.Bits/n
			v.Attacks = append(v.Attacks, mean)
			v.Finding = v.best(mean.Finding)
		}
		res.Views = append(res.Views, v)
	}
	res.Errors = c.errors(best)
	return res, nil
}

// keyFree returns the column under a scheme whose labels do not depend on the key, and nil for
// others.
func (c *column) keyFree(ctx context.Context, spec schemeSpec) (*encrypted, error) {
	if spec.trace == nil {
		return nil, nil
	}
	e, err := spec.encrypt(ctx, keyFor(c.Seed, spec.name, 0), c.Domain, c.values)
	if err == nil {
		e.traced = c.traced(e, spec)
	}
	return e, err
}

// trial attacks the column as it is, or else under the k-th key.
func (c *column) trial(ctx context.Context, spec schemeSpec, e *encrypted, k int) (t trial, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	if e == nil {
		if e, err = spec.encrypt(ctx, keyFor(c.Seed, spec.name, k), c.Domain, c.values); err != nil {
			return t, err
		}
	}
	t = trial{id: e.id, traced: e.traced}
	if t.views, err = c.attack(e, newRand(c.Seed, fmt.Sprintf("known %d", k))); err != nil {
		return t, err
	}
	t.best = slices.MaxFunc(t.views[KnowsDistribution], func(a, b attack) int { return cmp.Compare(a.Near, b.Near) }).guesses
	for _, attacks := range t.views {
		for i := range attacks {
			attacks[i].guesses = nil // many rows, many attacks, many keys
		}
	}
	if c.Progress != nil {
		c.Progress.Add(1)
	}
	return t, nil
}

// maxErrors bounds the errors that are kept for a plot.
const maxErrors = 2000

func (c *column) errors(guesses [][]int64) []float64 {
	var all []float64
	for _, g := range guesses {
		for i, x := range c.values {
			e := 0.0
			if c.spread > 0 {
				e = math.Abs(c.number(g[i])-c.number(x)) / c.spread
			}
			all = append(all, e)
		}
	}
	slices.Sort(all)
	if len(all) <= maxErrors {
		return all
	}
	even := make([]float64, maxErrors)
	for i := range even {
		even[i] = all[(2*i+1)*len(all)/(2*maxErrors)]
	}
	return even
}

// An attack is one of one column under one key.
type attack struct {
	name string
	Finding
	guesses []int64
}

// attack lets every adversary attack the column. The lists of attacks do not depend on the key.
func (c *column) attack(e *encrypted, r *rand.Rand) (map[Adversary][]attack, error) {
	views := make(map[Adversary][]attack)
	add := func(a Adversary, name string, prior int64, guesses []int64) {
		for i, g := range guesses {
			guesses[i] = c.snap(g)
		}
		views[a] = append(views[a], attack{name, c.find(guesses, prior), guesses})
	}
	middle := leakage.Uniform(c.Domain)(0.5)
	n := len(c.values)

	add(KnowsDomain, "no ciphertext", middle, c.guessAll(middle, n))
	add(KnowsDomain, "scaling", middle, leakage.Scale(e.rows, e.bits, c.Domain))

	seen := e.rows
	if e.turned != nil {
		seen = leakage.Unshift(e.rows, e.bits)
	}
	if err := c.withDistribution(KnowsDistribution, seen, e.bits, add); err != nil {
		return nil, err
	}
	if e.turned == nil {
		add(KnowsDistribution, "scaling", c.prior, leakage.Scale(e.rows, e.bits, c.Domain))
	}

	// Whoever knows a row of a shifted scheme knows the shift about as well as the row's place.
	straight := e.rows
	if e.turned != nil {
		straight = e.turned
	}
	if err := c.withRows(straight, e.bits, r, views); err != nil {
		return nil, err
	}

	// The server learns the shift from queries.
	if err := c.withDistribution(Server, straight, e.bits, add); err != nil {
		return nil, err
	}
	add(Server, "scaling", c.prior, leakage.Scale(straight, e.bits, c.Domain))
	return views, nil
}

func (c *column) withDistribution(a Adversary, rows []ope.Ciphertext, bits int, add func(a Adversary, name string, prior int64, guesses []int64)) error {
	n := len(rows)
	add(a, "no ciphertext", c.prior, c.guessAll(c.prior, n))
	if c.mode != c.prior {
		add(a, "most frequent value", c.prior, c.guessAll(c.mode, n))
	}
	add(a, "rank", c.prior, leakage.Rank(rows, c.quantile))

	// The least and the greatest of so many values of the distribution.
	byOrder := func(a, b ope.Ciphertext) int { return slices.Compare(a, b) }
	low := min(max(c.quantile(1/float64(n+1)), c.Domain.Min), c.Domain.Max)
	high := min(max(c.quantile(float64(n)/float64(n+1)), c.Domain.Min), c.Domain.Max)
	if least, greatest := slices.MinFunc(rows, byOrder), slices.MaxFunc(rows, byOrder); low < high && byOrder(least, greatest) < 0 {
		guesses, err := leakage.Interpolate(rows, bits, c.Domain, []leakage.Pair{{Ciphertext: least, Plaintext: low}, {Ciphertext: greatest, Plaintext: high}})
		if err != nil {
			return err
		}
		add(a, "scaling between the ends", c.prior, guesses)
	}
	if c.aux == nil {
		return nil
	}
	others := len(slices.Compact(slices.Sorted(slices.Values(c.aux))))
	less, more := min(len(c.distinct), others), max(len(c.distinct), others)
	if less == more {
		guesses, err := leakage.Sort(rows, c.aux)
		if err != nil {
			return err
		}
		add(a, "sorting", c.prior, guesses)
	}
	if less*less <= maxAssign/more {
		add(a, "cumulative", c.prior, leakage.Cumulative(rows, c.aux))
	}
	if less <= maxAlign/more {
		add(a, "non-crossing", c.prior, leakage.NonCrossing(rows, c.aux))
	}
	return nil
}

// withRows attacks the rows other than those that are known.
func (c *column) withRows(rows []ope.Ciphertext, bits int, r *rand.Rand, views map[Adversary][]attack) error {
	known := make([]bool, len(rows))
	var pairs []leakage.Pair
	for _, i := range r.Perm(len(rows))[:c.known] {
		known[i] = true
		pairs = append(pairs, leakage.Pair{Ciphertext: rows[i], Plaintext: c.values[i]})
	}
	if c.known == 0 { // there is no such adversary: others scale
		middle := leakage.Uniform(c.Domain)(0.5)
		all := c.guessAll(middle, len(rows))
		views[KnowsRows] = []attack{{"no ciphertext", c.find(all, middle), all}}
		return nil
	}
	guesses, err := leakage.Interpolate(rows, bits, c.Domain, pairs)
	if err != nil {
		return err
	}
	var truth, others []int64
	var near []ope.Domain
	for i, x := range c.values {
		if !known[i] {
			truth, near, others = append(truth, x), append(near, c.near[i]), append(others, c.snap(guesses[i]))
		}
	}
	middle := leakage.Uniform(c.Domain)(0.5)
	views[KnowsRows] = []attack{
		{"no ciphertext", findIn(truth, near, c.guessAll(middle, len(truth)), middle), nil},
		{"interpolation", findIn(truth, near, others, middle), guesses},
	}
	return nil
}

// traced returns the share of the pairs of values whose order of insertion the labels tell. What
// they tell wrongly, after labels were moved, counts against what they tell rightly.
func (c *column) traced(e *encrypted, spec schemeSpec) float64 {
	// One row for each value: when it was first inserted.
	var labels []ope.Ciphertext
	seen := make(map[int64]bool)
	for row, x := range c.values {
		if !seen[x] {
			seen[x] = true
			labels = append(labels, e.rows[row])
		}
	}
	parents := spec.trace(labels)
	for i, parent := range parents {
		if parent > i { // rows are in the order of insertion
			parents[i] = i
		}
	}
	return leakage.Traced(parents)
}
