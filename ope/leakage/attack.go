package leakage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Sort is the sorting attack of Naveed, Kamara and Wright (CCS 2015, on order-preserving columns).
//
// The adversary has a snapshot of a dense column and knows which values occur, for example every
// day of a year: the i-th ciphertext is the i-th value. It never errs. It is an error if the column
// has another number of distinct ciphertexts than there are values. The order of values, and
// repeated ones, make no difference.
func Sort(column []ope.Ciphertext, values []int64) ([]int64, error) {
	c, v := groupCiphertexts(column), groupValues(values)
	if len(c.values) != len(v.values) {
		return nil, fmt.Errorf("leakage: the column has %d distinct ciphertexts, and %d values are known to occur", len(c.values), len(v.values))
	}
	return c.guess(func(i int) int64 { return v.values[i] }), nil
}

// Scale is the attack on ciphertexts that are their plaintexts, stretched.
//
// The adversary has a snapshot, and knows the domain and the number of bits of the range, nothing
// about the data: the guess is the plaintext that stands in the domain where the ciphertext stands
// in the range. Zero rangeBits are all bits of the ciphertexts.
//
// Of a random order-preserving function, as that of Boldyreva et al., it reads the upper half of
// the bits: its mean error is sqrt(pi/32) * sqrt(M), about 0.31 sqrt(M), for a domain of M values.
// Boldyreva, Chenette and O'Neill (CRYPTO 2011) bound the same from both sides as window
// one-wayness. Wozniak et al. (2013) measure their schemes by the error of this estimate.
func Scale(column []ope.Ciphertext, rangeBits int, d ope.Domain) []int64 {
	g := groupCiphertexts(column)
	all := byteBits(column)
	if rangeBits == 0 {
		rangeBits = all
	}
	return g.guess(func(i int) int64 {
		f := math.Ldexp(difference(g.values[i], nil), all-rangeBits)
		return d.At(scale(f, d.Span()))
	})
}

// A Pair is a plaintext whose ciphertext the adversary knows.
type Pair struct {
	Ciphertext ope.Ciphertext
	Plaintext  int64
}

// Interpolate is the attack of an adversary who has a snapshot, knows the domain, and knows the
// plaintexts of some ciphertexts, say because they are the adversary's own.
//
// The guess for a ciphertext is on the straight line between the known pairs next to it; the ends
// of the domain stand at the ends of the range where no pair does. This is the measure with k known
// pairs of Wozniak et al. (2013). Pairs of the least and the greatest value make it the scaling
// attack on a column whose domain is much wider than its values, or whose range is cut off.
//
// Pairs that no order-preserving scheme has are an error.
func Interpolate(column []ope.Ciphertext, rangeBits int, d ope.Domain, known []Pair) ([]int64, error) {
	all := byteBits(column)
	if rangeBits == 0 {
		rangeBits = all
	}
	pairs := slices.SortedFunc(slices.Values(known), func(a, b Pair) int { return bytes.Compare(a.Ciphertext, b.Ciphertext) })
	for i, p := range pairs {
		if !d.Contains(p.Plaintext) {
			return nil, fmt.Errorf("leakage: a known pair: %w", ope.ErrDomain)
		}
		if i == 0 {
			continue
		}
		same := bytes.Equal(pairs[i-1].Ciphertext, p.Ciphertext)
		if pairs[i-1].Plaintext > p.Plaintext || same != (pairs[i-1].Plaintext == p.Plaintext) {
			return nil, errors.New("leakage: the known pairs are not in one order")
		}
	}
	g := groupCiphertexts(column)
	return g.guess(func(i int) int64 {
		c := g.values[i]
		at, found := slices.BinarySearchFunc(pairs, c, func(p Pair, c ope.Ciphertext) int { return bytes.Compare(p.Ciphertext, c) })
		if found {
			return pairs[at].Plaintext
		}
		// The plaintexts that are possible, low and high included, and how far c is on the way from
		// the pair below to the pair above.
		low, high := d.Min, d.Max
		var below ope.Ciphertext // nil is 0
		if at > 0 {
			below = pairs[at-1].Ciphertext
			if low = pairs[at-1].Plaintext; low < d.Max {
				low++
			}
		}
		way := math.Ldexp(1, rangeBits-all) - difference(below, nil)
		if at < len(pairs) {
			way = difference(pairs[at].Ciphertext, below)
			if high = pairs[at].Plaintext; high > d.Min {
				high--
			}
		}
		if low > high { // no value is left between the pairs: not a ciphertext of their key
			return low
		}
		between := ope.Domain{Min: low, Max: high}
		return between.At(scale(difference(c, below)/way, between.Span()))
	}), nil
}

// Rank is the attack that every order-preserving scheme is open to, whatever its ciphertexts are.
//
// The adversary has a snapshot and knows the distribution of the values, by its quantiles: of n
// rows, the guess for the i-th in order is the quantile of i/(n+1), and rows of equal ciphertexts
// share the middle of their places. It uses the order of the ciphertexts only. The i-th of n values
// of a distribution is close to that quantile: with uniform values, at a distance of
// sqrt(u(1-u)/n) of the domain (David and Nagaraja, Order Statistics).
//
// Where values repeat, the sets of values on both sides can be matched instead; see [Cumulative].
func Rank(column []ope.Ciphertext, quantile func(u float64) int64) []int64 {
	g := groupCiphertexts(column)
	before := 0
	return g.guess(func(i int) int64 {
		middle := float64(before) + (float64(g.counts[i])+1)/2
		before += g.counts[i]
		return quantile(middle / float64(len(column)+1))
	})
}

// Unshift undoes the secret shift of a modular scheme as well as a snapshot lets it (mOPE, Boldyreva, Chenette and
// O'Neill, CRYPTO 2011). It turns the ciphertexts, as numbers modulo the size of their range, so that the least
// follows their widest gap. It returns them in the order of the rows.
//
// The adversary takes the widest gap for the one between the greatest and the least value. That is
// right for columns that leave a part of their domain empty, and mostly wrong for columns that fill
// it. Simplified: Mavroforakis et al. (SIGMOD 2015) find the shift from queries instead, with
// certainty; a column attacked after its shift is known is just a column of the linear scheme.
//
// Zero rangeBits are all bits of the ciphertexts.
func Unshift(column []ope.Ciphertext, rangeBits int) []ope.Ciphertext {
	g := groupCiphertexts(column)
	if len(g.values) == 0 {
		return nil
	}
	all := byteBits(column)
	if rangeBits == 0 {
		rangeBits = all
	}
	last := g.values[len(g.values)-1]
	// The gap around the end of the range.
	first, widest := 0, math.Ldexp(1, rangeBits-all)-difference(last, g.values[0])
	for i := 1; i < len(g.values); i++ {
		if gap := difference(g.values[i], g.values[i-1]); gap > widest {
			first, widest = i, gap
		}
	}
	start := g.values[first]
	turned := make([]ope.Ciphertext, len(g.values))
	for i, c := range g.values {
		turned[i] = turn(c, start, all/8, rangeBits)
	}
	rows := make([]ope.Ciphertext, len(column))
	for row, group := range g.of {
		rows[row] = turned[group]
	}
	return rows
}

// turn returns c - start modulo 2^rangeBits in n bytes.
func turn(c, start ope.Ciphertext, n, rangeBits int) ope.Ciphertext {
	out := make(ope.Ciphertext, n)
	subtract(out, c, start)
	for i, excess := 0, 8*n-rangeBits; excess > 0; i, excess = i+1, excess-8 {
		out[i] &= byte(0xff >> min(excess, 8))
	}
	return out
}
