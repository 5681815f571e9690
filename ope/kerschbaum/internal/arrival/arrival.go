// Package arrival has orders in which values come to an index, for tests.
package arrival

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// An Arrival is an order in which values come.
type Arrival struct {
	Name   string
	values func(n int, r *rand.Rand) []int64
}

// distinct returns n values, in the order of their first appearance.
func distinct(n int, next func(i int) int64) []int64 {
	seen := make(map[int64]bool, n)
	out := make([]int64, 0, n)
	for i := 0; len(out) < n; i++ {
		if x := next(i); !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	return out
}

// OutsideIn returns 0 to n-1 from the two ends inwards; lowest says whether the i-th value is
// taken from the lower end.
func OutsideIn(n int, lowest func(i int) bool) []int64 {
	out := make([]int64, n)
	low, high := int64(0), int64(n-1)
	for i := range out {
		if lowest(i) {
			out[i] = low
			low++
		} else {
			out[i] = high
			high--
		}
	}
	return out
}

// All are the orders that the tests use.
var All = []Arrival{
	{"random", func(n int, r *rand.Rand) []int64 {
		return distinct(n, func(int) int64 { return int64(r.Uint64()) })
	}},
	{"preorder", func(n int, r *rand.Rand) []int64 {
		return medianFirst(make([]int64, 0, n), 0, int64(n))
	}},
	{"sorted", func(n int, r *rand.Rand) []int64 { return OutsideIn(n, func(int) bool { return true }) }},
	{"reverse", func(n int, r *rand.Rand) []int64 { return OutsideIn(n, func(int) bool { return false }) }},
	{"timeseries", func(n int, r *rand.Rand) []int64 { // an event every 100 ticks, delivered up to 50 events early or late
		return distinct(n, func(i int) int64 { return int64(i)*100 + r.Int64N(10000) - 5000 })
	}},
	{"latecomers", func(n int, r *rand.Rand) []int64 { // one event in a hundred is up to 10,000 events late
		return distinct(n, func(i int) int64 {
			x := int64(i)*100 + r.Int64N(10000) - 5000
			if r.IntN(100) == 0 {
				x -= r.Int64N(1_000_000)
			}
			return x
		})
	}},
	{"bursts", func(n int, r *rand.Rand) []int64 { // ascending runs of about 1000 values from random places
		var at int64
		left := 0
		return distinct(n, func(int) int64 {
			if left == 0 {
				at, left = r.Int64N(1<<62)-1<<61, 500+r.IntN(1000)
			}
			left--
			at += 1 + r.Int64N(3)
			return at
		})
	}},
	{"clusters", func(n int, r *rand.Rand) []int64 { // 1000 random values in a narrow place, then elsewhere
		var at int64
		return distinct(n, func(i int) int64 {
			if i%1000 == 0 {
				at = r.Int64N(1<<62) - 1<<61
			}
			return at + r.Int64N(100_000)
		})
	}},
	{"hammer", func(n int, r *rand.Rand) []int64 { // always directly above one value, among random ones
		base := n / 10
		return distinct(n, func(i int) int64 {
			switch {
			case i < base:
				return -1 - r.Int64N(1<<62)
			case i < 2*base:
				return 1<<62 - r.Int64N(1<<61)
			}
			return int64(n - i)
		})
	}},
	{"zigzag", func(n int, r *rand.Rand) []int64 { return OutsideIn(n, func(i int) bool { return i%2 == 0 }) }},
	{"coinflips", func(n int, r *rand.Rand) []int64 { // a path that nothing predicts: the worst case
		return OutsideIn(n, func(int) bool { return r.IntN(2) == 0 })
	}},
}

// medianFirst appends the numbers from from to to, excluded, each range with its middle first.
func medianFirst(dst []int64, from, to int64) []int64 {
	if from == to {
		return dst
	}
	m := from + (to-from)/2
	return medianFirst(medianFirst(append(dst, m), from, m), m+1, to)
}

// Of returns n different values in the order.
func (a Arrival) Of(tb testing.TB, n int) []int64 {
	values := a.values(n, rand.New(rand.NewPCG(uint64(n), uint64(slices.IndexFunc(All, func(b Arrival) bool { return b.Name == a.Name })))))
	if len(values) != n {
		tb.Fatalf("%s: %d values, want %d", a.Name, len(values), n)
	}
	return values
}

// Named returns the order of a name.
func Named(tb testing.TB, name string) Arrival {
	i := slices.IndexFunc(All, func(a Arrival) bool { return a.Name == name })
	if i < 0 {
		tb.Fatalf("no order %q", name)
	}
	return All[i]
}
