package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
)

// A column is what is attacked, and what does not depend on the scheme.
type column struct {
	Config
	values   []int64
	aux      []int64 // or nil
	quantile func(u float64) int64
	known    int

	distinct     []int64      // ascending
	ascending    []int        // the rows in the order of their values
	near         []ope.Domain // codes near each row's value
	number       func(code int64) float64
	code         func(number float64) int64
	spread       float64
	snap         func(guess int64) int64 // to how the values are written
	distribution knowledge
	byOrder      []attack // of whoever knows the distribution and sees the order of the rows
}

// newColumn returns a column of values, and what is known of their distribution: similar values, or
// nil and the distribution of the configuration.
func newColumn(cfg Config, values, aux []int64) *column {
	c := &column{Config: cfg, values: values, aux: aux, quantile: cfg.Dist}
	if aux != nil {
		c.quantile = leakage.Empirical(aux)
	}
	c.distinct = distinct(values)
	c.ascending = make([]int, len(values))
	for i := range c.ascending {
		c.ascending[i] = i
	}
	slices.SortFunc(c.ascending, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	c.number, c.code = numbersFrom(c.Kind, c.distinct[0])
	c.snap = snapping(c.Kind, c.distinct, c.Domain)
	least, greatest := c.distinct[0], c.distinct[len(c.distinct)-1]
	c.spread = c.number(greatest) - c.number(least)
	c.near = make([]ope.Domain, len(values))
	for k, row := range c.ascending {
		if k > 0 && values[c.ascending[k-1]] == values[row] {
			c.near[row] = c.near[c.ascending[k-1]]
		} else {
			c.near[row] = c.around(values[row])
		}
	}
	// Half of the rows at most: of a short column something has to be left to guess.
	c.known = min(c.Known, len(c.values)/2)
	c.distribution = c.know(cmp.Or(len(aux), lawValues), c.quantile)
	c.byOrder = c.attackByOrder(ranks(c.ascending, values))
	return c
}

func distinct(values []int64) []int64 {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// around returns the codes of the values near one.
func (c *column) around(x int64) ope.Domain {
	number, tolerance := c.number, Nearness*c.spread
	low, high := min(c.code(number(x)-tolerance), x), max(c.code(number(x)+tolerance), x)
	// Inwards, where the code of the end was rounded outwards.
	for number(low) < number(x)-tolerance && low < x {
		low++
	}
	for number(high) > number(x)+tolerance && high > x {
		high--
	}
	return ope.Domain{Min: low, Max: high}
}

// ranks returns ciphertexts that show the order of the rows and nothing else.
func ranks(ascending []int, values []int64) []ope.Ciphertext {
	rows := make([]ope.Ciphertext, len(values))
	for k, row := range ascending {
		if k > 0 && values[ascending[k-1]] == values[row] {
			rows[row] = rows[ascending[k-1]]
		} else {
			rows[row] = binary.BigEndian.AppendUint64(nil, uint64(k))
		}
	}
	return rows
}

// encrypted returns the column under the k-th key of a scheme.
func (c *column) encrypted(ctx context.Context, spec schemeSpec, k int) (*encrypted, error) {
	e, err := spec.encrypt(ctx, keyFor(c.Seed, spec.name, k), c.Domain, c.values)
	if err == nil && spec.trace != nil {
		e.traced = c.traced(e, spec)
	}
	return e, err
}

// knowledge is what an adversary guesses from some values alone, without ciphertexts.
type knowledge struct {
	median  int64
	mode    int64      // the most frequent value
	densest int64      // what the most values are near to
	bounds  ope.Domain // what values to expect
}

// lawValues is how many values stand for a law.
const lawValues = 10_000

// know returns the knowledge of somebody who has n values, or a law in their place, by its quantiles.
func (c *column) know(n int, quantile func(u float64) int64) knowledge {
	sorted := make([]int64, n)
	for i := range sorted {
		sorted[i] = quantile((float64(i) + 0.5) / float64(n))
	}
	k := knowledge{median: quantile(0.5), bounds: c.Domain}
	numbers := make([]float64, n)
	for i, x := range sorted {
		numbers[i] = c.number(x)
	}
	mostOften, mostNear, run := 0, 0, 0
	tolerance := Nearness * c.spread
	// The most that a window of the width of what is near holds has a value at its lower end.
	for i, from := 0, 0; i < n; i++ {
		if i > 0 && sorted[i] == sorted[i-1] {
			run++
		} else {
			run = 1
		}
		if run > mostOften {
			mostOften, k.mode = run, sorted[i]
		}
		for numbers[i]-numbers[from] > 2*tolerance {
			from++
		}
		// The middle of a window need not be a value. What is near to it is counted, not what the window holds.
		if i-from+1 <= mostNear {
			continue
		}
		for _, guess := range []int64{c.snap(c.code(numbers[from] + (numbers[i]-numbers[from])/2)), sorted[from+(i-from)/2]} {
			at := c.number(guess)
			first, _ := slices.BinarySearch(numbers, at-tolerance)
			last, _ := slices.BinarySearchFunc(numbers, at+tolerance, func(x, end float64) int {
				if x <= end {
					return -1
				}
				return 1
			})
			if last-first > mostNear {
				mostNear, k.densest = last-first, guess
			}
		}
	}
	if n > 1 {
		// As far beyond the ends as values are apart: of n values of a range, that is where its ends are.
		step := (numbers[n-1] - numbers[0]) / float64(n-1)
		low, high := c.code(numbers[0]-step), c.code(numbers[n-1]+step)
		k.bounds = ope.Domain{Min: max(low, c.Domain.Min), Max: min(high, c.Domain.Max)}
	}
	return k
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

// constants are the attacks that guess the same for all rows.
func (c *column) constants(k knowledge) []attack {
	return constantsOf(c.values, c.near, k)
}

func constantsOf(truth []int64, near []ope.Domain, k knowledge) []attack {
	var all []attack
	for _, constant := range []struct {
		name  string
		guess int64
	}{{"no ciphertext", k.median}, {"most frequent value", k.mode}, {"densest values", k.densest}} {
		guesses := slices.Repeat([]int64{constant.guess}, len(truth))
		all = append(all, attack{constant.name, findIn(truth, near, guesses, k.median), guesses})
	}
	return all
}

// errors returns how far guesses are from the values, as shares of the spread.
func (c *column) errors(guesses []int64) []float64 {
	all := make([]float64, len(guesses))
	for i, x := range c.values {
		if c.spread > 0 {
			all[i] = math.Abs(c.number(guesses[i])-c.number(x)) / c.spread
		}
	}
	return evenly(all)
}

// An attack is one of one column under one key.
type attack struct {
	name string
	Finding
	guesses []int64
}

// guess returns the attack of such guesses, which it rounds to how values are written. Who knows which
// values to expect guesses no others.
func (c *column) guess(name string, guesses []int64, prior int64, bounds ope.Domain) attack {
	for i, g := range guesses {
		guesses[i] = c.snap(min(max(g, bounds.Min), bounds.Max))
	}
	return attack{name, c.find(guesses, prior), guesses}
}

// attack lets every adversary attack the column.
func (c *column) attack(e *encrypted, r *rand.Rand) (map[Adversary][]attack, error) {
	middle := leakage.Uniform(c.Domain)(0.5)
	nothing := constantsOf(c.values, c.near, knowledge{median: middle})[:1]
	prior, bounds := c.distribution.median, c.distribution.bounds
	views := map[Adversary][]attack{
		KnowsDomain: append(nothing, c.guess("scaling", leakage.Scale(e.rows, e.bits, c.Domain), middle, c.Domain)),
	}

	seen := e.rows
	if e.turned != nil {
		seen = leakage.Unshift(e.rows, e.bits)
	}
	var err error
	if views[KnowsDistribution], err = c.withDistribution(seen, e.bits); err != nil {
		return nil, err
	}

	// Whoever knows a row of a shifted scheme knows the shift about as well as the row's place.
	straight := e.rows
	if e.turned != nil {
		straight = e.turned
	}
	if views[KnowsRows], err = c.withRows(straight, e.bits, r); err != nil {
		return nil, err
	}

	// The server learns the shift from queries.
	if views[Server], err = c.withDistribution(straight, e.bits); err != nil {
		return nil, err
	}
	scaled := c.guess("scaling", leakage.Scale(straight, e.bits, c.Domain), prior, bounds)
	views[Server] = append(views[Server], scaled)
	if e.turned == nil {
		views[KnowsDistribution] = append(views[KnowsDistribution], scaled)
	}
	return views, nil
}

// withDistribution returns the attacks of whoever knows the distribution, but for scaling.
func (c *column) withDistribution(rows []ope.Ciphertext, bits int) ([]attack, error) {
	attacks := append(c.constants(c.distribution), c.byOrder...)
	if !c.inOrder(rows) { // a shift that was not found
		attacks = append(c.constants(c.distribution), c.attackByOrder(rows)...)
	}
	// The least and the greatest of so many values of the distribution.
	n := len(rows)
	low := min(max(c.quantile(1/float64(n+1)), c.Domain.Min), c.Domain.Max)
	high := min(max(c.quantile(float64(n)/float64(n+1)), c.Domain.Min), c.Domain.Max)
	order := func(a, b ope.Ciphertext) int { return bytes.Compare(a, b) }
	if least, greatest := slices.MinFunc(rows, order), slices.MaxFunc(rows, order); low < high && order(least, greatest) < 0 {
		guesses, err := leakage.Interpolate(rows, bits, c.Domain, []leakage.Pair{{Ciphertext: least, Plaintext: low}, {Ciphertext: greatest, Plaintext: high}})
		if err != nil {
			return nil, err
		}
		attacks = append(attacks, c.guess("scaling, ends known", guesses, c.distribution.median, c.Domain))
	}
	return attacks, nil
}

// inOrder reports whether ciphertexts are in the order of the values, so that attacks by order read of
// them what they read of all such.
func (c *column) inOrder(rows []ope.Ciphertext) bool {
	return slices.IsSortedFunc(c.ascending, func(i, j int) int { return bytes.Compare(rows[i], rows[j]) })
}

// attackByOrder returns the attacks that use the order of the ciphertexts only.
func (c *column) attackByOrder(rows []ope.Ciphertext) []attack {
	var attacks []attack
	add := func(name string, guesses []int64) {
		attacks = append(attacks, c.guess(name, guesses, c.distribution.median, c.Domain))
	}
	add("rank", leakage.Rank(rows, c.quantile))
	if c.aux == nil {
		return attacks
	}
	others := len(distinct(c.aux))
	less, more := min(len(c.distinct), others), max(len(c.distinct), others)
	if guesses, err := leakage.Sort(rows, c.aux); err == nil { // else they are not the same values
		add("sorting", guesses)
	}
	if less <= maxAssign/more/less { // their product may be too large for an int
		add("cumulative", leakage.Cumulative(rows, c.aux))
	}
	if less <= maxAlign/more {
		add("non-crossing", leakage.NonCrossing(rows, c.aux))
	}
	return attacks
}

// withRows returns the attacks on the rows other than those that are known.
func (c *column) withRows(rows []ope.Ciphertext, bits int, r *rand.Rand) ([]attack, error) {
	if c.known == 0 { // there is no such adversary: others scale
		return constantsOf(c.values, c.near, knowledge{median: leakage.Uniform(c.Domain)(0.5)})[:1], nil
	}
	known := make([]bool, len(rows))
	var pairs []leakage.Pair
	var plain []int64
	for _, i := range r.Perm(len(rows))[:c.known] {
		known[i] = true
		pairs = append(pairs, leakage.Pair{Ciphertext: rows[i], Plaintext: c.values[i]})
		plain = append(plain, c.values[i])
	}
	guesses, err := leakage.Interpolate(rows, bits, c.Domain, pairs)
	if err != nil {
		return nil, err
	}
	k := c.know(len(plain), leakage.Empirical(plain))
	var truth, free, within []int64
	var near []ope.Domain
	for i, x := range c.values {
		if !known[i] {
			truth, near = append(truth, x), append(near, c.near[i])
			free, within = append(free, c.snap(guesses[i])), append(within, c.snap(min(max(guesses[i], k.bounds.Min), k.bounds.Max)))
		}
	}
	return append(constantsOf(truth, near, k),
		attack{"interpolation", findIn(truth, near, free, k.median), nil},
		// Beyond the known rows the ends of the domain may be far.
		attack{"interpolation, cut", findIn(truth, near, within, k.median), nil},
	), nil
}

// traced returns the share of the pairs of values whose order of insertion the labels show. What
// they show wrongly, after labels were moved, counts against what they show rightly.
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
