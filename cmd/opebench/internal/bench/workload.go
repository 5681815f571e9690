package bench

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

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

// ErrUsage is what errors about parameters are, by errors.Is: unknown names, and parameters that
// do not go together.
var ErrUsage = errors.New("wrong usage")

type usageError string

func (e usageError) Error() string        { return string(e) }
func (e usageError) Is(target error) bool { return target == ErrUsage }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

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
		kind: "int32", kinds: integerKinds, order: "random",
		new: func(k Kind, _ int, _ uint64) distribution { return uniform{k.Domain} },
	},
	{
		name: "normal", about: "around the middle of the type, standard deviation 1/32 of it",
		kind: "int32", kinds: integerKinds, order: "random",
		new: func(k Kind, _ int, _ uint64) distribution { return newNormal(k.Domain) },
	},
	{
		name: "zipf", about: "few values often: 10,000 scattered ones, exponent 0.99 as in YCSB",
		kind: "int32", kinds: []string{"int16", "int32", "int64", "uint16", "uint32"}, order: "random",
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
				panic("bench: " + err.Error())
			}
			second, err := k.Parse("2024-01-01T00:00:01Z")
			if err != nil {
				panic("bench: " + err.Error())
			}
			return uniform{ope.Domain{Min: start, Max: start + int64(n)*(second-start) - 1}}
		},
	},
}

// Orders lists the orders in which generated values can come.
func Orders() []string { return []string{"random", "sorted", "reversed"} }

// Workloads lists the generated columns as lines "name  about".
func Workloads() (names, abouts []string) {
	for _, w := range workloads {
		names = append(names, w.name)
		abouts = append(abouts, w.about)
	}
	return names, abouts
}

// MaxGenerated is the largest number of values that Generate accepts.
const MaxGenerated = 1_000_000_000

// Generate returns the source of n values from the workload of that name. kind and order may be
// empty, for what is usual in the workload. Nothing is held in memory, whatever the order: sorted
// values are drawn as order statistics, one after the other.
func Generate(name string, n int, seed uint64, kind, order string) (Source, error) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		names, _ := Workloads()
		return nil, usagef("unknown data %q: there is %s", name, strings.Join(names, ", "))
	}
	w := workloads[i]
	if kind == "" {
		kind = w.kind
	}
	if order == "" {
		order = w.order
	}
	switch {
	case !slices.Contains(w.kinds, kind):
		return nil, usagef("%s values have no type %q: there is %s", name, kind, strings.Join(w.kinds, ", "))
	case !slices.Contains(Orders(), order):
		return nil, usagef("unknown order %q: there is %s", order, strings.Join(Orders(), ", "))
	case name == "sorted" && order != "sorted":
		return nil, usagef("sorted values are in no other order; uniform values are the same without the order")
	case n < 1 || n > MaxGenerated:
		return nil, usagef("the number of values is %d, need 1 to %d", n, MaxGenerated)
	}
	k, err := KindByName(kind)
	if err != nil {
		return nil, err
	}
	return &generated{name: name, kind: k, order: order, n: n, seed: seed, dist: w.new(k, n, seed)}, nil
}

type generated struct {
	name, order string
	kind        Kind
	n           int
	seed        uint64
	dist        distribution
}

func (g *generated) Kind() Kind     { return g.kind }
func (g *generated) Column() string { return g.name }
func (g *generated) Len() int       { return g.n }

func (g *generated) Describe() string {
	order := ""
	if g.order != "random" && g.name != "sorted" {
		order = ", " + g.order
	}
	return fmt.Sprintf("%s %s values%s, seed %d", g.name, g.kind.Name, order, g.seed)
}

func (g *generated) Values() iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		r := newRand(g.seed, "values")
		if g.order == "random" {
			for range g.n {
				if !yield(g.dist.draw(r), nil) {
					return
				}
			}
			return
		}
		// The largest of i uniform values is distributed as U^(1/i), and the others are uniform
		// below it (Bentley and Saxe, ACM TOMS 1980). The logarithm keeps the precision.
		log := 0.0
		last, first := int64(0), true
		for i := g.n; i >= 1; i-- {
			log -= r.ExpFloat64() / float64(i)
			u := math.Exp(log) // descending
			if g.order == "sorted" {
				u = -math.Expm1(log) // 1-u, ascending
			}
			x := g.dist.quantile(u)
			// Rounding must not put a value before its neighbour.
			if !first && g.order == "sorted" {
				x = max(x, last)
			} else if !first {
				x = min(x, last)
			}
			last, first = x, false
			if !yield(x, nil) {
				return
			}
		}
	}
}

// newRand returns the random numbers of a purpose: two purposes never share their numbers.
func newRand(seed uint64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// A distribution of values. quantile is monotone, and quantile(U) of a uniform U in [0, 1] is
// distributed as draw.
type distribution interface {
	draw(r *rand.Rand) int64
	quantile(u float64) int64
}

type uniform struct{ d ope.Domain }

func (u uniform) draw(r *rand.Rand) int64 {
	span := u.d.Span()
	if span == math.MaxUint64 {
		return int64(r.Uint64())
	}
	return u.d.At(r.Uint64N(span + 1))
}

// quantile has the 53 bits of a float64: of a wider domain it gives every 2^11th value.
func (u uniform) quantile(p float64) int64 { return u.d.At(scale(p, u.d.Span())) }

// scale returns floor(p * (span+1)), at most span.
func scale(p float64, span uint64) uint64 {
	x := p * (float64(span) + 1)
	switch {
	case !(x > 0):
		return 0
	case x >= float64(span): // also where float64(span) rounds up to 2^64
		return span
	}
	return min(uint64(x), span)
}

type normal struct {
	d    ope.Domain
	norm distuv.Normal
}

func newNormal(d ope.Domain) normal {
	span := float64(d.Span())
	return normal{d, distuv.Normal{Mu: span / 2, Sigma: span / 32}}
}

func (n normal) clamp(x float64) int64 {
	span := n.d.Span()
	switch {
	case !(x > 0):
		return n.d.Min
	case x >= float64(span):
		return n.d.Max
	}
	return n.d.At(min(uint64(x), span))
}

// The domain ends 16 standard deviations from the middle, where clamping changes nothing that
// could be seen.
func (n normal) draw(r *rand.Rand) int64 {
	return n.clamp(r.NormFloat64()*n.norm.Sigma + n.norm.Mu)
}

func (n normal) quantile(u float64) int64 { return n.clamp(n.norm.Quantile(u)) }

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
	r := newRand(seed, "zipf")
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

func (z *zipf) draw(r *rand.Rand) int64 { return z.quantile(r.Float64()) }

func (z *zipf) quantile(u float64) int64 {
	i, _ := slices.BinarySearch(z.cumulative, u)
	return z.values[min(i, len(z.values)-1)]
}
