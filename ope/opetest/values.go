package opetest

import (
	"bytes"
	"flag"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"pgregory.net/rapid"
)

// Values generates values of the domain: its ends, zero, powers of two and their neighbours about
// as often as values from all over it.
func Values(d ope.Domain) *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(d.Min, d.Max), // prefers small magnitudes
		rapid.SampledFrom(edges(d)),
		rapid.Map(rapid.Uint64(), func(u uint64) int64 { return uniform(d, u*0x9e3779b97f4a7c15) }),
	)
}

// ascending generates 1 to n distinct values of the domain, ascending.
func ascending(d ope.Domain, n int) *rapid.Generator[[]int64] {
	return rapid.Map(rapid.SliceOfN(Values(d), 1, n), func(xs []int64) []int64 {
		xs = slices.Clone(xs)
		slices.Sort(xs)
		return slices.Compact(xs)
	})
}

// boundOf generates bounds of ranges: values in the domain, beside it, and far from it.
func boundOf(d ope.Domain) *rapid.Generator[int64] {
	beside := []int64{math.MinInt64, math.MaxInt64, d.Min, d.Max}
	if d.Min > math.MinInt64 {
		beside = append(beside, d.Min-1)
	}
	if d.Max < math.MaxInt64 {
		beside = append(beside, d.Max+1)
	}
	return rapid.OneOf(Values(d), Values(d), rapid.SampledFrom(beside), rapid.Int64())
}

// edges returns the ends of the domain, zero, powers of two of either sign, and what lies within
// two of them, ascending.
func edges(d ope.Domain) []int64 {
	var xs []int64
	around := func(x int64) {
		for k := int64(-2); k <= 2; k++ {
			if y := x + k; d.Contains(y) {
				xs = append(xs, y)
			}
		}
	}
	around(d.Min)
	around(d.Max)
	around(0)
	for k := range 63 {
		around(1 << k)
		around(-1 << k)
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// uniform maps uniform 64 bits to nearly uniform values of the domain.
func uniform(d ope.Domain, u uint64) int64 {
	if d.Span() == math.MaxUint64 {
		return int64(u)
	}
	offset, _ := bits.Mul64(u, d.Span()+1)
	return d.At(offset)
}

// shuffled returns a fixed random permutation of n.
func shuffled(n int) []int { return rand.New(rand.NewPCG(uint64(n), 11)).Perm(n) }

// thin returns at most about k indices below n, spread evenly, with the first and the last.
func thin(n, k int) []int {
	var is []int
	for i := 0; i < n; i += max(1, n/k) {
		is = append(is, i)
	}
	if n > 0 && is[len(is)-1] != n-1 {
		is = append(is, n-1)
	}
	return is
}

func thinned(xs []int64, k int) []int64 {
	var out []int64
	for _, i := range thin(len(xs), k) {
		out = append(out, xs[i])
	}
	return out
}

// plus returns c + delta as a string of the same length, where it wraps around.
func plus(c ope.Ciphertext, delta int) ope.Ciphertext {
	out := bytes.Clone(c)
	for i := len(out) - 1; i >= 0 && delta != 0; i-- {
		sum := int(out[i]) + delta
		out[i] = byte(sum)
		delta = sum >> 8
	}
	return out
}

func testingFlag(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
