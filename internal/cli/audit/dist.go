package audit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rangecrypt/rangecrypt/internal/cli/values"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// numbersFrom is numbers counted from a value, so that distances between values near to it are exact, however large
// the values are themselves. Numbers of floats are what they are.
func numbersFrom(k values.Kind, origin int64) (number func(code int64) float64, code func(number float64) int64) {
	if isFloat(k) {
		return numbers(k)
	}
	above, below := uint64(k.Domain.Max)-uint64(origin), uint64(origin)-uint64(k.Domain.Min)
	number = func(code int64) float64 {
		if code < origin {
			return -float64(uint64(origin) - uint64(code))
		}
		return float64(uint64(code) - uint64(origin))
	}
	code = func(x float64) int64 {
		switch x = math.Round(x); {
		case x >= float64(above): // also where it rounds up
			return k.Domain.Max
		case -x >= float64(below):
			return k.Domain.Min
		case x < 0:
			return origin - int64(uint64(-x))
		}
		return origin + int64(uint64(x))
	}
	return number, code
}

func isFloat(k values.Kind) bool { return k.Name == "float64" || k.Name == "float32" }

// numbers returns how codes of a kind are numbers, so that distances between values have a
// meaning, and the code of the value nearest to a number. The codes of all kinds but floats are
// evenly spaced.
func numbers(k values.Kind) (number func(code int64) float64, code func(number float64) int64) {
	switch k.Name {
	case "float64":
		return floats(encode.Float[float64]())
	case "float32":
		return floats(encode.Float[float32]())
	}
	return func(code int64) float64 { return float64(code) },
		func(x float64) int64 { return clamp(math.Round(x), k.Domain) }
}

func floats[T float32 | float64](codec encode.Exact[T]) (number func(code int64) float64, code func(number float64) int64) {
	number = func(code int64) float64 {
		v, err := codec.Decode(code)
		if err != nil {
			return math.NaN() // it is near nothing
		}
		return float64(v)
	}
	code = func(x float64) int64 {
		c, err := codec.Encode(T(x))
		if err != nil {
			panic("audit: a number that is none") // floats encode all but NaN
		}
		return c
	}
	return number, code
}

// maxDecimals is beyond how many digits after the point values are taken for not rounded.
const maxDecimals = 9

// snapping returns the function that rounds guesses to how values are written, which everybody
// knows: amounts to cents, timestamps to seconds.
func snapping(k values.Kind, values []int64, d ope.Domain) func(guess int64) int64 {
	bits := map[string]int{"float64": 64, "float32": 32}[k.Name]
	if bits == 0 {
		// Evenly spaced codes: to the first value and multiples of the greatest common divisor.
		grain := uint64(0)
		for _, x := range values {
			grain = gcd(grain, uint64(x)-uint64(values[0])) // ascending
		}
		if grain <= 1 {
			return func(guess int64) int64 { return guess }
		}
		phase := d.Offset(values[0]) % grain // of the least code that could be a value
		steps := (d.Span() - phase) / grain
		return func(guess int64) int64 {
			offset := d.Offset(min(max(guess, d.At(phase)), d.Max)) - phase
			step := offset / grain
			if offset%grain > grain/2 && step < steps {
				step++
			}
			return d.At(phase + step*grain)
		}
	}
	number, code := numbers(k)
	decimals := 0
	for _, x := range values {
		_, fraction, _ := strings.Cut(strconv.FormatFloat(number(x), 'f', -1, bits), ".")
		decimals = max(decimals, len(fraction))
	}
	if decimals > maxDecimals {
		return func(guess int64) int64 { return guess }
	}
	return func(guess int64) int64 {
		x := number(guess)
		if !(math.Abs(x) < 1e15) { // beyond it no float64 has a fraction
			return guess
		}
		// By way of the text, since that is how the values came to be these floats.
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', decimals, bits), bits)
		if err != nil {
			return guess
		}
		return min(max(code(rounded), d.Min), d.Max)
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func clamp(x float64, d ope.Domain) int64 {
	switch {
	case !(x > float64(d.Min)):
		return d.Min
	case x >= float64(d.Max): // also where float64(d.Max) rounds up
		return d.Max
	}
	return int64(x)
}

// A distribution is what an adversary may know of the values, by its name and two parameters.
type distribution struct {
	name, parameters string
	anyKind          bool // the parameters are values of the column, else they are numbers
	check            func(a, b float64) string
	quantile         func(a, b float64) func(u float64) float64
}

// distributions lists them; names are validated against it and run from it.
var distributions = []distribution{
	{
		"uniform", "LEAST,GREATEST", true,
		func(a, b float64) string {
			if a > b {
				return "the least value is above the greatest"
			}
			return ""
		},
		func(a, b float64) func(u float64) float64 {
			if math.IsInf(b-a, 0) {
				return func(u float64) float64 { return (1-u)*a + u*b }
			}
			return func(u float64) float64 { return a + u*(b-a) }
		},
	},
	{
		"normal", "MEAN,DEVIATION", false, positiveSecond,
		func(a, b float64) func(u float64) float64 { return distuv.Normal{Mu: a, Sigma: b}.Quantile },
	},
	{
		"lognormal", "MU,SIGMA", false, positiveSecond,
		func(a, b float64) func(u float64) float64 { return distuv.LogNormal{Mu: a, Sigma: b}.Quantile },
	},
}

func positiveSecond(_, b float64) string {
	if b <= 0 {
		return "the second parameter must be more than 0"
	}
	return ""
}

// DistHelp returns how distributions are written, with their parameters.
func DistHelp() string {
	var all []string
	for _, d := range distributions {
		all = append(all, d.name+":"+d.parameters)
	}
	return strings.Join(all, ", ")
}

// ParseDist returns the quantiles of a distribution, such as normal:40,22.5, as codes of the kind
// within the domain.
func ParseDist(text string, k values.Kind, d ope.Domain) (func(u float64) int64, error) {
	name, rest, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(distributions, func(d distribution) bool { return d.name == name })
	if i < 0 {
		return nil, usagef("unknown distribution %q: there is %s", name, DistHelp())
	}
	dist := distributions[i]
	usage := func(format string, args ...any) error {
		return usagef("distribution %q: %s; it is written %s:%s", text, fmt.Sprintf(format, args...), dist.name, dist.parameters)
	}
	number, code := numbers(k)
	if !dist.anyKind && !numeric(k) {
		return nil, usagef("distribution %q is one of numbers, and the column has values of type %s; there is uniform:LEAST,GREATEST", name, k.Name)
	}
	parts := strings.Split(rest, ",")
	if len(parts) != 2 {
		return nil, usage("it has two parameters")
	}
	var p [2]float64
	for i, part := range parts {
		part = strings.TrimSpace(part)
		var err error
		if dist.anyKind && !numeric(k) {
			var c int64
			if c, err = k.Parse(part); err == nil {
				p[i] = number(c)
			}
		} else if p[i], err = encode.ParseFloat(part, 64); err == nil && (math.IsNaN(p[i]) || math.IsInf(p[i], 0)) {
			err = fmt.Errorf("not a finite number")
		}
		if err != nil {
			return nil, usage("parameter %d is no %s", i+1, map[bool]string{true: "number", false: k.Name}[numeric(k)])
		}
	}
	if problem := dist.check(p[0], p[1]); problem != "" {
		return nil, usage("%s", problem)
	}
	quantile := dist.quantile(p[0], p[1])
	greatest := map[string]float64{"float64": math.MaxFloat64, "float32": math.MaxFloat32}[k.Name]
	return func(u float64) int64 {
		x := quantile(u)
		if greatest > 0 { // infinite values are no numbers to reckon with
			x = min(max(x, -greatest), greatest)
		}
		if k.Name == "uint64" {
			x -= math.Ldexp(1, 63) // its codes are that much below its values
		}
		return min(max(code(x), d.Min), d.Max)
	}, nil
}

// numeric reports whether the values of a kind are written as numbers.
func numeric(k values.Kind) bool { return k.JSONNumber("0") }
