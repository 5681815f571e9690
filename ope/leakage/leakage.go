// Package leakage shows what a column of order-preserving ciphertexts gives away, by attacking it.
//
// An attack is a pure function from what an adversary has, the ciphertexts of a column in the order
// of its rows and some knowledge of the data, to a guess of every row's plaintext. [Share] compares
// guesses with the truth, which only the owner of the data can do. No attack uses a key.
//
// The adversaries, from weak to strong:
//
//   - who knows the domain: [Scale];
//   - who knows how such values are distributed, from public statistics or a similar data set:
//     [Rank], [Frequency], [Cumulative], [NonCrossing], and [Sort] where every value occurs;
//   - who knows some rows: [Interpolate];
//   - who sees the labels of a mutable scheme: [Trace], which shows the order of insertion.
//
// All of them have one copy of the column, at rest: what Grubbs, Ristenpart and Shmatikov (HotOS
// 2017) call a snapshot. A server that also sees queries and writes has these attacks and more.
// Attacks on several columns at once (Durak, DuBuisson and Cash, CCS 2016) and on the answers of
// queries (Kellaris et al., CCS 2016) are not here: a good result says nothing about them.
//
// The guesses are estimates. Floating point is used freely: nothing here decides a ciphertext.
package leakage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Density returns how many of a domain's values occur, as a share of all. It is what Naveed, Kamara
// and Wright (CCS 2015) measure columns by: at 1, [Sort] reads everything.
func Density(values []int64, d ope.Domain) float64 {
	seen := make(map[int64]struct{})
	for _, x := range values {
		if d.Contains(x) {
			seen[x] = struct{}{}
		}
	}
	return float64(len(seen)) / (float64(d.Span()) + 1)
}

// Entropy returns the Shannon entropy in bits of a value drawn from the column: log2(n) where all n
// values differ, 0 where all are equal.
func Entropy(values []int64) float64 {
	counts := make(map[int64]int)
	for _, x := range values {
		counts[x]++
	}
	// Added up in a fixed order, so that equal columns have equal entropies to the last bit.
	each := make([]int, 0, len(counts))
	for _, n := range counts {
		each = append(each, n)
	}
	slices.Sort(each)
	h := 0.0
	for _, n := range each {
		p := float64(n) / float64(len(values))
		h -= p * math.Log2(p)
	}
	return max(h, 0) // not -0
}

// Share returns the share of guesses that hit. It panics if there are not as many guesses as true
// values. Without any values it is 0.
func Share(truth, guesses []int64, hit func(truth, guess int64) bool) float64 {
	mustMatch(truth, guesses)
	if len(truth) == 0 {
		return 0
	}
	n := 0
	for i, x := range truth {
		if hit(x, guesses[i]) {
			n++
		}
	}
	return float64(n) / float64(len(truth))
}

// Exactly reports whether a guess is the value.
func Exactly(truth, guess int64) bool { return truth == guess }

// Near returns the test whether a guess is at most tolerance away from the value. One per cent of a
// domain is Near(0.01 * (float64(d.Span()) + 1)).
func Near(tolerance float64) func(truth, guess int64) bool {
	return func(truth, guess int64) bool { return float64(distance(truth, guess)) <= tolerance }
}

// Bits returns by how many bits a value, the guess narrows down the values more than the adversary
// could have without ciphertexts: the mean of
//
//	log2(2*|x - prior| + 1) - log2(2*|x - guess| + 1),
//
// where prior is the best guess without any, the median of the distribution. The argument of each
// logarithm is the number of values in the least interval around the guess that holds x. It is
// negative where the guesses are worse than the prior one.
//
// This is an operational measure, simpler than mutual information: it counts the bits that a guess
// at one value has right, not what guesses at several values show together.
func Bits(truth, guesses []int64, prior int64) float64 {
	mustMatch(truth, guesses)
	if len(truth) == 0 {
		return 0
	}
	width := func(a, b int64) float64 { return math.Log2(2*float64(distance(a, b)) + 1) }
	sum := 0.0
	for i, x := range truth {
		sum += width(x, prior) - width(x, guesses[i])
	}
	return sum / float64(len(truth))
}

func mustMatch(truth, guesses []int64) {
	if len(truth) != len(guesses) {
		panic("leakage: not as many guesses as values")
	}
}

func distance(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// Empirical returns the quantile function of a sample, which it copies: of u in [0, 1], the value
// that a share u of the sample is at or below. It panics on an empty sample.
func Empirical(sample []int64) func(u float64) int64 {
	if len(sample) == 0 {
		panic("leakage: the quantiles of an empty sample")
	}
	sorted := slices.Sorted(slices.Values(sample))
	return func(u float64) int64 {
		i := int(math.Ceil(u*float64(len(sorted)))) - 1
		return sorted[min(max(i, 0), len(sorted)-1)]
	}
}

// Uniform returns the quantile function of the uniform distribution on a domain.
func Uniform(d ope.Domain) func(u float64) int64 {
	return func(u float64) int64 { return d.At(scale(u, d.Span())) }
}

// scale returns floor(f * (span+1)), at most span.
func scale(f float64, span uint64) uint64 {
	x := f * (float64(span) + 1)
	switch {
	case !(x > 0):
		return 0
	case x >= float64(span): // also where float64(span) rounds up to 2^64
		return span
	}
	return min(uint64(x), span)
}

// groups are the distinct values of a column in ascending order, with how often each occurs.
type groups[T any] struct {
	values []T
	counts []int
	of     []int // the group of each row
	rows   int
}

// grouped sorts rows by compare, which first must agree with where it distinguishes two: it saves most
// of the comparisons of byte strings.
func grouped[T any](rows []T, first func(T) uint64, compare func(a, b T) int) groups[T] {
	type place struct {
		first uint64
		row   int
	}
	order := make([]place, len(rows))
	for i, r := range rows {
		order[i] = place{first(r), i}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return compare(rows[a.row], rows[b.row])
	})
	g := groups[T]{of: make([]int, len(rows)), rows: len(rows)}
	for k, p := range order {
		if k == 0 || compare(rows[order[k-1].row], rows[p.row]) != 0 {
			g.values = append(g.values, rows[p.row])
			g.counts = append(g.counts, 0)
		}
		last := len(g.values) - 1
		g.counts[last]++
		g.of[p.row] = last
	}
	return g
}

func groupCiphertexts(column []ope.Ciphertext) groups[ope.Ciphertext] {
	return grouped(column, func(c ope.Ciphertext) uint64 {
		var first [8]byte
		copy(first[:], c)
		return binary.BigEndian.Uint64(first[:])
	}, func(a, b ope.Ciphertext) int { return bytes.Compare(a, b) })
}

func groupValues(values []int64) groups[int64] {
	return grouped(values, func(x int64) uint64 { return uint64(x) ^ 1<<63 }, cmp.Compare[int64])
}

// frequency returns the share of the rows that a group has.
func (g groups[T]) frequency(i int) float64 { return float64(g.counts[i]) / float64(g.rows) }

// cumulative returns the share of the rows that each group and those before it have.
func (g groups[T]) cumulative() []float64 {
	shares, sum := make([]float64, len(g.counts)), 0
	for i, n := range g.counts {
		sum += n
		shares[i] = float64(sum) / float64(g.rows)
	}
	return shares
}

// guess returns the guess of each row from that of its group.
func (g groups[T]) guess(of func(group int) int64) []int64 {
	each := make([]int64, len(g.values))
	for i := range each {
		each[i] = of(i)
	}
	guesses := make([]int64, len(g.of))
	for row, group := range g.of {
		guesses[row] = each[group]
	}
	return guesses
}

// difference returns a - b as a share of the range of ciphertexts, all byte strings of their
// length. Both are binary fractions below 1, and a is not below b. The difference is computed
// exactly and rounded once, so that it keeps its precision however close they are.
func difference(a, b ope.Ciphertext) float64 {
	var exact [64]byte
	n := max(len(a), len(b))
	d := exact[:min(n, len(exact))]
	if n > len(d) {
		d = make([]byte, n)
	}
	subtract(d, a, b)
	first := 0
	for first < n && d[first] == 0 {
		first++
	}
	// 16 bytes from the first that is not 0 have more bits than a float64.
	f, unit := 0.0, math.Ldexp(1, -8*(first+1))
	for i := first; i < min(first+16, n); i++ {
		f += float64(d[i]) * unit
		unit /= 256
	}
	return f
}

// subtract sets d to a - b, modulo 1, of binary fractions of at most its length.
func subtract(d []byte, a, b ope.Ciphertext) {
	borrow := 0
	for i := len(d) - 1; i >= 0; i-- {
		x := -borrow
		if i < len(a) {
			x += int(a[i])
		}
		if i < len(b) {
			x -= int(b[i])
		}
		d[i] = byte(x)
		borrow = 0
		if x < 0 {
			borrow = 1
		}
	}
}

// byteBits returns the bits of the range that all byte strings of the ciphertexts' length are.
func byteBits(column []ope.Ciphertext) int {
	n := 0
	for _, c := range column {
		n = max(n, len(c))
	}
	return 8 * n
}
