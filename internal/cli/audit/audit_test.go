package audit

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
)

var million = ope.Domain{Min: 0, Max: 1<<20 - 1}

func kind(tb testing.TB, name string) values.Kind {
	k, err := values.KindByName(name)
	require.NoError(tb, err)
	return k
}

// uniformConfig audits n uniform values of a domain.
func uniformConfig(tb testing.TB, d ope.Domain, n int, schemes ...string) Config {
	r := rand.New(rand.NewPCG(1, 1))
	cfg := Config{Kind: kind(tb, "int64"), Domain: d, Schemes: schemes, Trials: 3, Known: 10, Seed: 1}
	for range n {
		cfg.Values = append(cfg.Values, d.At(r.Uint64N(d.Span()+1)))
	}
	return cfg
}

func ages(r *rand.Rand, n int) []int64 {
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = int64(min(100, math.Abs(40+22*r.NormFloat64())))
	}
	return xs
}

func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	r, err := Run(context.Background(), cfg)
	require.NoError(t, err)
	require.Len(t, r.Results, len(cfg.Schemes))
	for _, res := range r.Results {
		require.Len(t, res.Views, len(Adversaries()))
		for _, v := range res.Views {
			require.NotEmpty(t, v.Attacks)
			for _, a := range append(v.Attacks, v.Best(), Attack{"", v.Figures}) {
				require.True(t, 0 <= a.Exact && a.Exact <= a.Near && a.Near <= 1, "%s: %+v", res.Scheme, a)
				require.LessOrEqual(t, a.Exact, v.Exact)
				require.LessOrEqual(t, a.Near, v.Near)
				require.LessOrEqual(t, a.Bits, v.Bits)
				require.True(t, a.Least.Near <= a.Near && a.Near <= a.Most.Near && a.Least.Exact <= a.Exact && a.Exact <= a.Most.Exact)
			}
			require.GreaterOrEqual(t, v.Bits, 0.0, "nobody has to use ciphertexts")
		}
		require.True(t, slices.IsSorted(res.Errors))
		require.NotEmpty(t, res.Errors)
	}
	return r
}

// Every scheme of the list: what a snapshot of it shows is in the order of the values, once its
// shift is taken back, and equal where they are.
func TestSchemesKeepTheOrder(t *testing.T) {
	require.NotEmpty(t, Schemes())
	values := uniformConfig(t, ope.Domain{Min: -3000, Max: 3000}, 2000).Values
	for _, spec := range schemes {
		t.Run(spec.name, func(t *testing.T) {
			e, err := spec.encrypt(context.Background(), keyFor(1, spec.name, 0), ope.Domain{Min: -3000, Max: 3000}, values)
			require.NoError(t, err)
			require.Regexp(t, `^[a-z-]+/1 domain=`, e.id)
			rows := e.rows
			if e.turned != nil {
				require.False(t, sameOrder(values, rows), "there is a shift")
				rows = e.turned
			}
			require.True(t, sameOrder(values, rows))
			require.LessOrEqual(t, e.bits, 8*len(rows[0]))
			if e.bits > 0 {
				require.Greater(t, e.bits, 8*len(rows[0])-8)
				for _, c := range rows {
					require.Less(t, int(c[0]), 1<<(8-(8*len(c)-e.bits)), "a ciphertext beyond its range")
				}
			}
			snapshot, server := Learns(spec.name)
			require.NotEmpty(t, snapshot)
			require.NotEmpty(t, server)
			again, err := spec.encrypt(context.Background(), keyFor(1, spec.name, 0), ope.Domain{Min: -3000, Max: 3000}, values)
			require.NoError(t, err)
			if spec.trace == nil {
				require.Equal(t, e.rows, again.rows)
			}
			other, err := spec.encrypt(context.Background(), keyFor(1, spec.name, 1), ope.Domain{Min: -3000, Max: 3000}, values)
			require.NoError(t, err)
			require.Equal(t, spec.trace == nil, !slices.EqualFunc(e.rows, other.rows, func(a, b ope.Ciphertext) bool { return bytes.Equal(a, b) }),
				"labels depend on the order alone, other ciphertexts on the key")
		})
	}
}

func sameOrder(values []int64, rows []ope.Ciphertext) bool {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(values[i] - values[j]) })
	for k := 1; k < len(order); k++ {
		i, j := order[k-1], order[k]
		c := bytes.Compare(rows[i], rows[j])
		if values[i] == values[j] && c != 0 || values[i] < values[j] && c >= 0 {
			return false
		}
	}
	return true
}

// Uniform values in a domain of 2^20: the linear scheme gives all places away to one per cent; the
// shift hides them from a snapshot of so many rows, but not from a server, nor from who knows a row.
func TestUniformColumn(t *testing.T) {
	cfg := uniformConfig(t, million, 2000, "mope", "boldyreva")
	var err error
	cfg.Dist, err = ParseDist("uniform:0,1048575", cfg.Kind, million)
	require.NoError(t, err)
	r := run(t, cfg)
	mope, linear := r.Results[0], r.Results[1]
	require.Equal(t, 1.0, linear.View(KnowsDomain).Near)
	require.Equal(t, "scaling", linear.View(KnowsDomain).Best().Name)
	require.Less(t, mope.View(KnowsDomain).Near, 0.1)
	require.Equal(t, 1.0, mope.View(Server).Near)
	require.Equal(t, 1.0, mope.View(KnowsRows).Near)
	require.InDelta(t, 0.02, r.Without.Near, 0.01)
	require.Less(t, linear.View(Server).Exact, 0.01)
	// The upper half of 20 bits, and a little more for the half of the errors below the mean.
	require.InDelta(t, 10, linear.View(Server).Bits, 1)
	require.InDelta(t, 0.002, r.Density, 0.0001)
	require.InDelta(t, math.Log2(2000), r.Entropy, 0.01)
	require.False(t, r.Halved)

	rank := slices.IndexFunc(linear.View(Server).Attacks, func(a Attack) bool { return a.Name == "rank" })
	want := 0.0
	for i := 1; i <= 2000; i++ {
		law := distuv.Beta{Alpha: float64(i), Beta: float64(2001 - i)}
		want += (law.CDF(min(float64(i)/2001+0.01, 1)) - law.CDF(max(float64(i)/2001-0.01, 0))) / 2000
	}
	require.InDelta(t, want, linear.View(Server).Attacks[rank].Near, 0.25, "one column: its deviations are one bridge")
	require.Equal(t, Rounding, Advise(r).Level)
}

// A column with all of its domain's values is read completely by sorting, whatever the scheme.
func TestDenseColumn(t *testing.T) {
	cfg := uniformConfig(t, ope.Domain{Min: 1, Max: 100}, 4000, Schemes()...)
	cfg.Aux = slices.Clone(cfg.Values[2000:])
	cfg.Values = cfg.Values[:2000]
	r := run(t, cfg)
	require.Equal(t, 1.0, r.Density)
	for _, res := range r.Results {
		require.Equal(t, 1.0, res.View(Server).Exact, res.Scheme)
		if res.Scheme != "mope" { // a column that fills its domain hides the shift
			require.Equal(t, 1.0, res.View(KnowsDistribution).Exact, res.Scheme)
		}
	}
	advice := Advise(r)
	require.Equal(t, Avoid, advice.Level)
	require.Contains(t, advice.Text[0], "Do not use OPE for this column.")
	require.Contains(t, advice.Text[0], "100 % of the values of its domain")
}

// The published effect, with half of the column against the other.
func TestAges(t *testing.T) {
	cfg := Config{Kind: kind(t, "int64"), Domain: ope.Int64, Values: ages(rand.New(rand.NewPCG(2, 2)), 6000), Schemes: Schemes(), Trials: 2, Known: 10}
	r := run(t, cfg)
	require.True(t, r.Halved)
	require.Equal(t, 6000, r.Rows)
	for _, res := range r.Results {
		require.Greater(t, res.View(KnowsDistribution).Exact, 0.7, res.Scheme)
	}
	require.Less(t, r.Without.Exact, 0.03)
	advice := Advise(r)
	require.Equal(t, Avoid, advice.Level)
	require.Contains(t, advice.Text[0], "different values")
}

// Amounts to the cent in the domain of float64 are known to the cent between a few known ones.
func TestCoarselyWrittenValues(t *testing.T) {
	cfg := Config{Kind: kind(t, "float64"), Schemes: []string{"boldyreva"}, Trials: 2, Known: 10}
	cfg.Domain = cfg.Kind.Domain
	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		code, err := cfg.Kind.Parse(strconv.FormatFloat(math.Exp(10.8+0.5*r.NormFloat64()), 'f', 2, 64))
		require.NoError(t, err)
		cfg.Values = append(cfg.Values, code)
	}
	found := run(t, cfg)
	require.Greater(t, found.Results[0].View(KnowsRows).Exact, 0.9)
	require.Equal(t, Avoid, Advise(found).Level)
	cfg.Known = 0
	found = run(t, cfg)
	require.Zero(t, found.Known)
	require.Equal(t, found.Results[0].View(KnowsRows).Best().Name, "no ciphertext")
}

func TestSameConfigurationSameReport(t *testing.T) {
	cfg := uniformConfig(t, million, 400, Schemes()...)
	a, b := run(t, cfg), run(t, cfg)
	require.Equal(t, a, b)
	cfg.Seed++
	require.NotEqual(t, a.Results, run(t, cfg).Results)
}

func TestConstantColumn(t *testing.T) {
	cfg := uniformConfig(t, ope.Domain{}, 50, Schemes()...)
	cfg.Domain = ope.Int32
	r := run(t, cfg)
	require.Equal(t, 1, r.Distinct)
	require.Zero(t, r.Entropy)
	require.Equal(t, 1.0, r.Without.Exact)
	require.Equal(t, Avoid, Advise(r).Level)
	require.Contains(t, Advise(r).Text[0], "only 1 different value:")
}

func TestRunRefuses(t *testing.T) {
	good := uniformConfig(t, million, 100, "boldyreva")
	for name, test := range map[string]struct {
		change func(c *Config)
		say    string
	}{
		"no values":             {func(c *Config) { c.Values = nil }, "holds no values"},
		"too few rows":          {func(c *Config) { c.Values = c.Values[:39] }, "too few"},
		"too few with a law":    {func(c *Config) { c.Values, c.Dist = c.Values[:19], func(float64) int64 { return 0 } }, "too few"},
		"too few known":         {func(c *Config) { c.Aux = c.Values[:19] }, "too few"},
		"no known values":       {func(c *Config) { c.Aux = []int64{} }, "too few"},
		"two kinds of knowing":  {func(c *Config) { c.Aux, c.Dist = c.Values, func(float64) int64 { return 0 } }, "either"},
		"out of the domain":     {func(c *Config) { c.Domain.Max = 1000 }, "outside of the domain"},
		"no trial":              {func(c *Config) { c.Trials = 0 }, "number of trials"},
		"too many trials":       {func(c *Config) { c.Trials = MaxTrials + 1 }, "number of trials"},
		"known rows below none": {func(c *Config) { c.Known = -1 }, "known rows"},
		"too many rows":         {func(c *Config) { c.Values = make([]int64, MaxRows+1) }, "at most"},
		"unknown scheme":        {func(c *Config) { c.Schemes = []string{"rot13"} }, "unknown scheme"},
	} {
		cfg := good
		test.change(&cfg)
		_, err := Run(context.Background(), cfg)
		require.ErrorContains(t, err, test.say, name)
	}
	floats := good
	floats.Kind = kind(t, "float64")
	floats.Domain = floats.Kind.Domain
	infinite, err := floats.Kind.Parse("-Inf")
	require.NoError(t, err)
	floats.Values = append(slices.Clone(floats.Values), infinite)
	_, err = Run(context.Background(), floats)
	require.ErrorContains(t, err, "infinite values")
	floats.Values[len(floats.Values)-1] = floats.Values[0]
	floats.Aux = append(slices.Clone(floats.Values), infinite)
	_, err = Run(context.Background(), floats)
	require.ErrorContains(t, err, "infinite ones among them")
	// Both ends are finite, and their difference is not: all guesses would be within a hundredth of it.
	floats.Aux = nil
	for i, text := range []string{"-1.7e308", "1.7e308"} {
		floats.Values[len(floats.Values)-1-i], err = floats.Kind.Parse(text)
		require.NoError(t, err)
	}
	_, err = Run(context.Background(), floats)
	require.ErrorContains(t, err, "further apart than any float64")

	good.Dist = func(float64) int64 { return 0 }
	good.Values = good.Values[:MinRows]
	run(t, good)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Run(ctx, good)
	require.ErrorIs(t, err, context.Canceled)
}

type counter struct {
	total       int
	added, done atomic.Int64
}

func (c *counter) Start(_ string, total int) { c.total = total }
func (c *counter) Add(n int)                 { c.added.Add(int64(n)) }
func (c *counter) Done()                     { c.done.Add(1) }

func TestProgress(t *testing.T) {
	cfg := uniformConfig(t, million, 100, "mope", "boldyreva")
	c := &counter{}
	cfg.Progress = c
	run(t, cfg)
	require.Equal(t, 6, c.total)
	require.EqualValues(t, 6, c.added.Load())
	require.EqualValues(t, 1, c.done.Load())
}

// A guess is near if, as a number, it is within a hundredth of the spread, whatever the codes are.
func TestNearIsInNumbers(t *testing.T) {
	for _, name := range []string{"float64", "float32", "int16", "uint64", "date", "timestamp"} {
		k := kind(t, name)
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, 4))
			number, code := numbers(k)
			cfg := Config{Kind: k, Domain: k.Domain, Dist: func(float64) int64 { return 0 }}
			for range 50 {
				cfg.Values = append(cfg.Values, code(float64(r.IntN(2000)-1000)))
			}
			c := newColumn(cfg, cfg.Values, nil)
			tolerance := c.spread / 100
			require.InDelta(t, 20, tolerance, 5)
			for i, x := range cfg.Values {
				n := c.near[i]
				for _, d := range []float64{0, 1, -1, 0.99 * tolerance, -0.99 * tolerance} {
					require.True(t, n.Contains(code(math.Round(number(x)+d))) || math.Abs(math.Round(number(x)+d)-number(x)) > tolerance)
				}
				for _, d := range []float64{1.1 * tolerance, -1.1 * tolerance, 1000, -1000} {
					require.False(t, n.Contains(code(math.Round(number(x)+d))) && math.Abs(math.Round(number(x)+d)-number(x)) > tolerance)
				}
			}
		})
	}
}

// Large values are near to each other by their distance, not by how a float64 rounds them.
func TestNearOfLargeValues(t *testing.T) {
	const schemes = "kerschbaum" // whose labels depend on the order alone
	small := uniformConfig(t, ope.Domain{Min: 0, Max: 1023}, 200, schemes)
	want := run(t, small)
	require.Less(t, want.Without.Near, 0.1)
	for _, offset := range []int64{-5000, 1 << 62, math.MaxInt64 - 1023, math.MinInt64} {
		moved := small
		moved.Domain = ope.Domain{Min: offset, Max: offset + 1023}
		moved.Values = nil
		for _, x := range small.Values {
			moved.Values = append(moved.Values, offset+x)
		}
		got := run(t, moved)
		require.Equal(t, want.Without, got.Without, "%d", offset)
		require.Equal(t, want.Results[0].Views, got.Results[0].Views, "%d", offset)
	}

	k := kind(t, "int64")
	for _, origin := range []int64{math.MinInt64, -1, 0, 1 << 62, math.MaxInt64} {
		number, code := numbersFrom(k, origin)
		for _, x := range []int64{math.MinInt64, origin, math.MaxInt64} {
			require.Equal(t, x, code(number(x)), "%d from %d", x, origin)
		}
		require.Equal(t, k.Domain.Max, code(math.Inf(1)))
		require.Equal(t, k.Domain.Min, code(math.Inf(-1)))
	}
}

func TestSnapping(t *testing.T) {
	k := kind(t, "int64")
	rapid.Check(t, func(t *rapid.T) {
		grain := rapid.Int64Range(2, 50).Draw(t, "grain")
		phase := rapid.Int64Range(-60, 50).Draw(t, "phase")
		d := ope.Domain{Min: rapid.Int64Range(-200, -100).Draw(t, "min"), Max: rapid.Int64Range(100, 200).Draw(t, "max")}
		var values []int64
		for x := phase; x <= 100; x += grain {
			values = append(values, x)
		}
		snap := snapping(k, values, d)
		for guess := d.Min; guess <= d.Max; guess++ {
			got := snap(guess)
			require.True(t, d.Contains(got))
			require.Zero(t, (got-phase)%grain)
			if guess-grain >= d.Min && guess+grain <= d.Max {
				require.LessOrEqual(t, 2*max(got-guess, guess-got), grain)
			}
		}
	})
	// The whole of int64, and one value.
	snap := snapping(k, []int64{math.MinInt64, math.MaxInt64}, ope.Int64)
	require.Equal(t, []int64{math.MinInt64, math.MinInt64, math.MaxInt64}, []int64{snap(math.MinInt64), snap(-1), snap(1)})
	require.Equal(t, int64(9), snapping(k, []int64{5}, ope.Int64)(9))

	// Cents, in both widths.
	for _, name := range []string{"float64", "float32"} {
		k := kind(t, name)
		code := func(text string) int64 {
			c, err := k.Parse(text)
			require.NoError(t, err)
			return c
		}
		snap := snapping(k, []int64{code("1"), code("12.25"), code("-3.1")}, k.Domain)
		require.Equal(t, code("7.35"), snap(code("7.3512")))
		require.Equal(t, code("-0.07"), snap(code("-0.0651")))
		require.Equal(t, code("1e30"), snap(code("1e30")))
		require.Equal(t, code("Inf"), snap(code("Inf")))
	}
	fine := kind(t, "float64")
	x, err := fine.Parse("0.12345678901234")
	require.NoError(t, err)
	require.Equal(t, x+1, snapping(fine, []int64{x}, fine.Domain)(x+1), "values that are not rounded")
}

func TestParseDist(t *testing.T) {
	for _, test := range []struct {
		kind, text string
		u          float64
		want       string
	}{
		{"int64", "uniform:10,20", 0.5, "15"},
		{"int64", "normal:40,22.5", 0.5, "40"},
		{"int64", "normal: 40 , 22.5 ", 0.8414, "63"}, // a deviation above the mean
		{"int8", "normal:0,1e9", 0.99, "127"},
		{"int8", "normal:0,1e9", 0, "-128"},
		{"float64", "uniform:-1,1", 0.25, "-0.5"},
		{"float32", "normal:0.5,0.25", 0.5, "0.5"},
		{"float64", "lognormal:0,1", 0.5, "1"},
		{"uint64", "uniform:0,18446744073709551615", 0.5, "9223372036854775808"},
		{"uint8", "uniform:0,255", 1, "255"},
		{"date", "uniform:2024-01-01,2024-01-31", 0.5, "2024-01-16"},
		{"timestamp", "uniform:2024-01-01T00:00:00Z,2024-01-01T01:00:00Z", 0.5, "2024-01-01T00:30:00Z"},
	} {
		k := kind(t, test.kind)
		q, err := ParseDist(test.text, k, k.Domain)
		require.NoError(t, err, test.text)
		got, err := k.Format(q(test.u))
		require.NoError(t, err)
		require.Equal(t, test.want, got, "%s %s at %v", test.kind, test.text, test.u)
	}
	q, err := ParseDist("normal:0,1000", kind(t, "int64"), ope.Domain{Min: -5, Max: 5})
	require.NoError(t, err)
	require.Equal(t, int64(5), q(0.99), "within the domain")
	require.Equal(t, int64(-5), q(0.01))

	for _, name := range []string{"float64", "float32"} {
		k := kind(t, name)
		cfg := Config{Kind: k, Domain: k.Domain, Schemes: []string{"boldyreva"}, Trials: 1}
		for i := range MinRows {
			x, err := k.Parse(strconv.Itoa(i * i))
			require.NoError(t, err)
			cfg.Values = append(cfg.Values, x)
		}
		for text, median := range map[string]string{"lognormal:1000,1": "", "normal:1e308,1e308": "", "uniform:-1.7e308,1.7e308": "0"} {
			cfg.Dist, err = ParseDist(text, k, k.Domain)
			require.NoError(t, err)
			if median != "" {
				require.Equal(t, median, shown(t, k, cfg.Dist(0.5)))
			}
			require.NotContains(t, shown(t, k, cfg.Dist(0.999)), "inf")
			run(t, cfg)
		}
	}

	for text, say := range map[string]string{
		"":                    `unknown distribution ""`,
		"zipf:1,2":            `unknown distribution "zipf": there is uniform:LEAST,GREATEST, normal:MEAN,DEVIATION`,
		"normal":              "it has two parameters",
		"normal:1":            "it has two parameters; it is written normal:MEAN,DEVIATION",
		"normal:1,2,3":        "it has two parameters",
		"normal:x,2":          "parameter 1 is no number",
		"normal:1,NaN":        "parameter 2 is no number",
		"normal:1_0,2":        "parameter 1 is no number",
		"normal:1,0x1p4":      "parameter 2 is no number",
		"normal:1,Inf":        "parameter 2 is no number",
		"normal:1,0":          "more than 0",
		"lognormal:1,-1":      "more than 0",
		"uniform:2,1":         "above the greatest",
		"uniform:2024-01-01,": "parameter 1 is no number",
	} {
		_, err := ParseDist(text, kind(t, "int64"), ope.Int64)
		require.ErrorContains(t, err, say, text)
		require.ErrorIs(t, err, exit.ErrUsage)
	}
	_, err = ParseDist("normal:1,2", kind(t, "date"), ope.Int64)
	require.ErrorContains(t, err, "is one of numbers")
	_, err = ParseDist("uniform:1,2", kind(t, "date"), ope.Int64)
	require.ErrorContains(t, err, "parameter 1 is no date")
}

func shown(t *testing.T, k values.Kind, code int64) string {
	t.Helper()
	text, err := k.Format(code)
	require.NoError(t, err)
	return text
}

// Of an even number of trials the median is the mean of the middle two.
func TestMedians(t *testing.T) {
	trials := each([]float64{0.2, 0.6, 0.4, 0}, func(traced float64) attacked {
		views := make(map[Adversary][]attack)
		for _, a := range Adversaries() {
			views[a] = []attack{{Finding: Finding{Exact: traced}}}
		}
		return attacked{traced: traced, views: views}
	})
	res := result(schemeSpec{}, trials)
	require.InDelta(t, 0.3, res.Traced, 1e-9)
	require.InDelta(t, 0.3, res.View(Server).Exact, 1e-9)
}

func TestAdvice(t *testing.T) {
	report := func(findings ...Finding) *Report {
		r := &Report{Rows: 100, Distinct: 100, Known: 10}
		for i, f := range findings {
			res := Result{Scheme: []string{"mope", "boldyreva"}[i]}
			for _, a := range Adversaries() {
				res.Views = append(res.Views, View{Adversary: a, Figures: Figures{Finding: f, Most: f}})
			}
			r.Results = append(r.Results, res)
		}
		return r
	}
	for name, test := range map[string]struct {
		report *Report
		level  Level
		say    []string
	}{
		"read":           {report(Finding{0.2, 0.3, 1}, Finding{0.3, 0.3, 1}), Avoid, []string{"Do not use OPE for this column. Even under mope,", "20 %"}},
		"near":           {report(Finding{0.1, 0.6, 1}), Rounding, []string{"rounding, not encryption", "Under mope, 60 %"}},
		"half near":      {report(Finding{0.01, 0.5, 1}), Partly, []string{"Under mope, 1 % of them are read exactly, and 50 % are known", "order is public"}},
		"a part exactly": {report(Finding{0.02, 0.1, 1}), Partly, []string{"2 % of them are read exactly"}},
		"little":         {report(Finding{0.01, 0.1, 1}), Acceptable, []string{"read little", "order is public"}},
		"one scheme bad": {report(Finding{0.01, 0.1, 1}, Finding{0.11, 0.4, 1}), Acceptable, []string{"Do not use boldyreva for it"}},
	} {
		a := Advise(test.report)
		require.Equal(t, test.level, a.Level, name)
		for _, s := range append(test.say, "Not measured") {
			require.Contains(t, strings.Join(a.Text, "\n"), s, name)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1: "100 %", 0.0001: "<0.1 %", 0.9999: ">99.9 %", 0.871: "87.1 %", 0.02: "2 %", 0.1: "10 %", 0.9994: "99.9 %"} {
		require.Equal(t, want, Percent(share), share)
	}
}

// The order of one half of the rows is as far from that of the other as chance has it, the same for all
// rows of a trial: 22 to 90 % of these timestamps are read to one per cent. The verdict must not depend
// on chance.
func TestVerdictDoesNotDependOnTheSeed(t *testing.T) {
	timestamps, err := values.Generate("timestamps", 5000, 1, "", "")
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 5))
	for name, cfg := range map[string]Config{
		"timestamps": {Kind: timestamps.Kind(), Domain: timestamps.Kind().Domain, Values: valuesOf(t, timestamps), Schemes: []string{"wozniak"}},
		"ages":       {Kind: kind(t, "int64"), Domain: ope.Int64, Values: ages(r, 2000), Schemes: Schemes()},
		"uniform":    uniformConfig(t, ope.Int32, 1000, "wozniak", "kerschbaum"),
	} {
		cfg.Trials, cfg.Known = MinTrials, 10
		levels := map[Level]bool{}
		for cfg.Seed = range uint64(sim.Share(20, 4)) {
			levels[Advise(run(t, cfg)).Level] = true
		}
		require.Len(t, levels, 1, "%s: %v", name, levels)
	}
}

// One trial of an unlucky seed must not stand for all.
func TestTrialsDiffer(t *testing.T) {
	timestamps, err := values.Generate("timestamps", 5000, 1, "", "")
	require.NoError(t, err)
	found := run(t, Config{
		Kind: timestamps.Kind(), Domain: timestamps.Kind().Domain, Values: valuesOf(t, timestamps), Schemes: []string{"wozniak"}, Trials: MinTrials, Known: 10, Seed: 1,
	})
	v := found.Results[0].View(KnowsDistribution)
	require.Greater(t, v.Most.Near-v.Least.Near, 0.3)
	worst, _ := found.Results[0].Worst()
	require.Equal(t, v.Most.Near, worst.Near)
}

// The best guess without ciphertexts is where the most values are, and not the median between two
// heaps; the most frequent value is what is exact the most often.
func TestWithoutCiphertexts(t *testing.T) {
	cfg := Config{Kind: kind(t, "int64"), Domain: ope.Int64, Schemes: []string{"wozniak"}, Trials: 3, Known: 10}
	r := rand.New(rand.NewPCG(6, 6))
	for range 500 {
		cfg.Values = append(cfg.Values, 1000+r.Int64N(100), 9000+r.Int64N(40), r.Int64N(10_000), 77)
	}
	cfg.Aux = slices.Clone(cfg.Values)
	found := run(t, cfg)
	best := 0.0
	for guess := int64(-100); guess < 10_100; guess++ {
		near := 0
		for _, x := range cfg.Values {
			if max(x-guess, guess-x) <= 99 { // one per cent of the spread, of nearly 10,000
				near++
			}
		}
		best = max(best, float64(near)/2000)
	}
	require.InDelta(t, best, found.Without.Near, 0.002)
	require.Greater(t, found.Without.Near, 0.25)
	require.InDelta(t, 0.25, found.Without.Exact, 0.001)

	law := cfg
	law.Aux = nil
	var err error
	law.Dist, err = ParseDist("normal:1050,20", cfg.Kind, cfg.Domain)
	require.NoError(t, err)
	require.InDelta(t, 0.255, run(t, law).Without.Near, 0.01)
}

// Beyond the rows that are known, guesses reach to the ends of int64, which must not outweigh the many
// that are right.
func TestBitsOfWhoKnowsRows(t *testing.T) {
	cfg := Config{Kind: kind(t, "int64"), Domain: ope.Int64, Values: ages(rand.New(rand.NewPCG(7, 7)), 4000), Schemes: Schemes(), Trials: 5, Known: 20}
	for _, res := range run(t, cfg).Results {
		v := res.View(KnowsRows)
		require.Greater(t, v.Exact, 0.3, res.Scheme)
		require.Greater(t, v.Bits, 1.0, res.Scheme)
		require.LessOrEqual(t, v.Bits, 6.0, "%s: half of the rows are found from 20 known ones, which need 6 bits", res.Scheme)
	}
}
