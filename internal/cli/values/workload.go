package values

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
)

// A Source is a column of values to insert. It can be read any number of times, and gives the
// same values every time.
type Source interface {
	// Kind returns the type of the values.
	Kind() Kind

	// Column returns the name of the column.
	Column() string

	// Describe names the source, without the number of its values, for a report.
	Describe() string

	// Len returns the number of values, or -1 where that is known only after reading them.
	Len() int

	// Values yields the values. An error is the last thing yielded.
	Values() iter.Seq2[int64, error]
}

// NoValues returns the error of an input that has no rows, or bad ones only.
func NoValues(source Source) error {
	if s, ok := source.(*CSVSource); ok && s.bad.n > 0 {
		return fmt.Errorf("%w: the input holds no values: there are no %s; of %s all are bad: %s", ErrInput, s.Describe(), show.Counted(s.bad.n, "row"), s.bad)
	}
	return fmt.Errorf("%w: the input holds no values: there are no %s", ErrInput, source.Describe())
}

// A workload is a distribution of generated values.
type workload struct {
	name  string
	about string
	kind  string   // the default
	order string   // the default
	kinds []string // allowed
	new   func(k Kind, n int, seed uint64) distribution
}

var integerKinds = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"}

// workloads lists the generated columns; flags are validated against it and run from it.
var workloads = []workload{
	{
		name: "uniform", about: "every value of the type alike, as in the paper",
		kind: "int32", kinds: integerKinds, order: randomOrder,
		new: func(k Kind, _ int, _ uint64) distribution { return uniform{k.Domain} },
	},
	{
		name: "normal", about: "around the middle of the type, standard deviation 1/32 of it",
		kind: "int32", kinds: integerKinds, order: randomOrder,
		new: func(k Kind, _ int, _ uint64) distribution { return normal{k.Domain} },
	},
	{
		name: "zipf", about: "few values often: 10,000 scattered ones, exponent 0.99 as in YCSB",
		kind: "int32", kinds: []string{"int16", "int32", "int64", "uint16", "uint32"}, order: randomOrder,
		new: func(k Kind, _ int, seed uint64) distribution { return newZipf(k.Domain, seed) },
	},
	{
		name: "sorted", about: "uniform values in ascending order",
		kind: "int32", kinds: integerKinds, order: "sorted",
		new: func(k Kind, _ int, _ uint64) distribution { return uniform{k.Domain} },
	},
	{
		name: "timestamps", about: "instants of a Poisson process of one event a second, as they happen",
		kind: "timestamp", kinds: []string{"timestamp"}, order: "sorted",
		new: func(k Kind, n int, _ uint64) distribution {
			// Given their number, the instants of a Poisson process are uniform.
			start, err := k.Parse("2024-01-01T00:00:00Z")
			if err != nil {
				panic("values: " + err.Error())
			}
			second, err := k.Parse("2024-01-01T00:00:01Z")
			if err != nil {
				panic("values: " + err.Error())
			}
			return uniform{ope.Domain{Min: start, Max: start + int64(n)*(second-start) - 1}}
		},
	},
}

// An order is how generated values come.
type order struct {
	name  string
	about string
	// permute puts sorted values into the order; nil leaves them as they are drawn.
	permute func(sorted []int64, r *rand.Rand) iter.Seq[int64]
}

// orders lists them; flags are validated against it and run from it.
var orders = []order{
	{name: randomOrder, about: "as they are drawn"},
	{
		name: "sorted", about: "ascending",
		permute: func(sorted []int64, _ *rand.Rand) iter.Seq[int64] { return slices.Values(sorted) },
	},
	{
		name: "reverse", about: "descending",
		permute: func(sorted []int64, _ *rand.Rand) iter.Seq[int64] {
			return func(yield func(int64) bool) {
				for _, x := range slices.Backward(sorted) {
					if !yield(x) {
						return
					}
				}
			}
		},
	},
	{
		name: "preorder", about: "of a balanced search tree: the middle, all below it, all above it",
		permute: func(sorted []int64, _ *rand.Rand) iter.Seq[int64] {
			return func(yield func(int64) bool) { preorder(sorted, yield) }
		},
	},
	{name: "timeseries", about: "ascending, but each up to 50 places too early or too late", permute: timeSeries},
	{name: "bursts", about: "ascending runs of about 1,000, from random places", permute: bursts},
}

const randomOrder = "random"

// preorder reports whether to go on.
func preorder(sorted []int64, yield func(int64) bool) bool {
	if len(sorted) == 0 {
		return true
	}
	middle := len(sorted) / 2
	return yield(sorted[middle]) && preorder(sorted[:middle], yield) && preorder(sorted[middle+1:], yield)
}

// jitter is how many places an event of a time series arrives too early or too late at most.
const jitter = 50

// timeSeries yields events by the times at which they arrive: that at place i between i-jitter and
// i+jitter. No more than 2*jitter places are looked ahead.
func timeSeries(sorted []int64, r *rand.Rand) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		const window = 2*jitter + 1
		var arriving [window][]int64 // by the time of arrival modulo window
		for now := -jitter; now < len(sorted)+jitter; now++ {
			// What arrives now happened at the latest jitter from now.
			if i := now + jitter; i < len(sorted) {
				at := (i + r.IntN(window)) % window // i-jitter .. i+jitter, counted from the least now
				arriving[at] = append(arriving[at], sorted[i])
			}
			due := &arriving[(now+jitter)%window]
			for _, x := range *due {
				if !yield(x) {
					return
				}
			}
			*due = (*due)[:0]
		}
	}
}

// burst is the mean length of a run.
const burst = 1000

// bursts cuts the values into stretches of burst/2 to 3*burst/2, and yields these in random order.
func bursts(sorted []int64, r *rand.Rand) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		var runs [][]int64
		for rest := sorted; len(rest) > 0; {
			n := min(burst/2+r.IntN(burst+1), len(rest))
			runs = append(runs, rest[:n])
			rest = rest[n:]
		}
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		for _, run := range runs {
			for _, x := range run {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// Orders returns the names of the orders in which generated values can come, and a line about each.
func Orders() (names, abouts []string) {
	for _, o := range orders {
		names = append(names, o.name)
		abouts = append(abouts, o.about)
	}
	return names, abouts
}

// Workloads returns the names of the generated columns, and a line about each.
func Workloads() (names, abouts []string) {
	for _, w := range workloads {
		names = append(names, w.name)
		abouts = append(abouts, w.about)
	}
	return names, abouts
}

// MaxGenerated is the largest number of values that Generate accepts, and MaxOrdered that in another
// order than random: these are held in memory, 8 bytes each.
const (
	MaxGenerated = 1_000_000_000
	MaxOrdered   = 100_000_000
)

// Generate returns the source of n values from the workload of that name. kind and order may be
// empty, for what is usual in the workload. Sources that differ in nothing but their order have the
// same values.
func Generate(name string, n int, seed uint64, kind, order string) (Source, error) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		names, _ := Workloads()
		return nil, exit.Usagef("unknown data %q: there is %s", name, strings.Join(names, ", "))
	}
	w := workloads[i]
	kind, order = cmp.Or(kind, w.kind), cmp.Or(order, w.order)
	at, err := orderByName(order)
	switch {
	case !slices.Contains(w.kinds, kind):
		return nil, exit.Usagef("%s values have no type %q: there is %s", name, kind, strings.Join(w.kinds, ", "))
	case err != nil:
		return nil, err
	case name == "sorted" && order != "sorted":
		return nil, exit.Usagef("sorted values are in no other order; uniform values are the same without the order")
	case n < 1 || n > MaxGenerated:
		return nil, exit.Usagef("the number of values is %d, need 1 to %d", n, MaxGenerated)
	case order != randomOrder && n > MaxOrdered:
		return nil, exit.Usagef("the number of values is %d, need 1 to %d, or random order", n, MaxOrdered)
	}
	k, err := KindByName(kind)
	if err != nil {
		return nil, err
	}
	return &generated{name: name, kind: k, order: at, n: n, seed: seed, dist: w.new(k, n, seed)}, nil
}

func orderByName(name string) (order, error) {
	i := slices.IndexFunc(orders, func(o order) bool { return o.name == name })
	if i < 0 {
		names, _ := Orders()
		return order{}, exit.Usagef("unknown order %q: there is %s", name, strings.Join(names, ", "))
	}
	return orders[i], nil
}

type generated struct {
	name  string
	order order
	kind  Kind
	n     int
	seed  uint64
	dist  distribution
}

func (g *generated) Kind() Kind     { return g.kind }
func (g *generated) Column() string { return g.name }
func (g *generated) Len() int       { return g.n }

func (g *generated) Describe() string {
	order := ""
	if g.order.name != randomOrder && g.name != "sorted" {
		order = ", " + g.order.name
	}
	return fmt.Sprintf("%s %s values%s, seed %d", g.name, g.kind.Name, order, g.seed)
}

func (g *generated) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		drawn := func(yield func(int64) bool) {
			r := Rand(g.seed, "values")
			for range g.n {
				if !yield(g.dist.draw(r)) {
					return
				}
			}
		}
		var values iter.Seq[int64] = drawn
		if g.order.permute != nil {
			sorted := slices.AppendSeq(make([]int64, 0, g.n), drawn)
			slices.Sort(sorted)
			values = g.order.permute(sorted, Rand(g.seed, g.order.name))
		}
		for x := range values {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// Rand returns the random numbers of a purpose: two purposes never share their numbers.
func Rand(seed uint64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// A distribution of values.
type distribution interface {
	draw(r *rand.Rand) int64
}

type uniform struct{ d ope.Domain }

func (u uniform) draw(r *rand.Rand) int64 {
	span := u.d.Span()
	if span == math.MaxUint64 {
		return int64(r.Uint64())
	}
	return u.d.At(r.Uint64N(span + 1))
}

type normal struct{ d ope.Domain }

// draw clamps: the domain ends 16 standard deviations from the middle, where that changes nothing
// that could be seen.
func (n normal) draw(r *rand.Rand) int64 {
	span := n.d.Span()
	x := float64(span)/2 + r.NormFloat64()*float64(span)/32
	switch {
	case !(x > 0):
		return n.d.Min
	case x >= float64(span): // also where float64(span) rounds up to 2^64
		return n.d.Max
	}
	return n.d.At(uint64(x))
}

// zipf gives each rank of Zipf's law a value of its own at a random place of the domain, so that
// the frequent values are not neighbours. It is kept as a table in the order of the values.
type zipf struct {
	values     []int64
	cumulative []float64
}

const (
	zipfValues   = 10_000
	zipfExponent = 0.99 // YCSB's constant (Cooper et al., SoCC 2010)
)

func newZipf(d ope.Domain, seed uint64) *zipf {
	r := Rand(seed, "zipf")
	weight := make(map[int64]float64, zipfValues)
	place := uniform{d}
	total := 0.0
	for rank := 1; rank <= zipfValues; {
		x := place.draw(r)
		if _, taken := weight[x]; taken {
			continue
		}
		w := math.Pow(float64(rank), -zipfExponent)
		weight[x] = w
		total += w
		rank++
	}
	z := &zipf{}
	for x := range weight {
		z.values = append(z.values, x)
	}
	slices.Sort(z.values)
	sum := 0.0
	for _, x := range z.values {
		sum += weight[x]
		z.cumulative = append(z.cumulative, sum/total)
	}
	return z
}

func (z *zipf) draw(r *rand.Rand) int64 {
	i, _ := slices.BinarySearch(z.cumulative, r.Float64())
	return z.values[min(i, len(z.values)-1)]
}
