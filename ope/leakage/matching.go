package leakage

import (
	"math"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Cumulative is the cumulative attack of Naveed, Kamara and Wright (CCS 2015, on order-preserving
// columns of low density).
//
// The adversary has a snapshot and an auxiliary set of values of the same kind. Ciphertexts are
// assigned to values, each to another, so that the sum over all of
//
//	(frequency - frequency)^2 + (cumulative share - cumulative share)^2
//
// is least. Where there are more ciphertexts than values, values are assigned to ciphertexts, and a
// ciphertext without one is guessed to have the value of the next ciphertext that has.
//
// The assignment problem is solved exactly, by shortest augmenting paths. The cost is not of one
// real number against another, so that the least assignment may cross, and sorting does not find
// it: that is a weakness of the attack, since the plaintexts are known not to cross. [NonCrossing]
// never does.
//
// Simplified: the authors pad both sides to one size with values of frequency 0, which assigns the
// same when the rest of the cost is dropped.
//
// It takes time in the square of the smaller number of distinct values times the larger: a second
// for a thousand each. It panics if aux is empty.
func Cumulative(column []ope.Ciphertext, aux []int64) []int64 {
	mustHaveAux(aux)
	return match(column, aux, assign)
}

// NonCrossing is the cumulative attack restricted to assignments that keep the order, after Grubbs
// et al. (IEEE S&P 2017, on non-crossing bipartite matchings of order-preserving columns).
//
// The adversary, the cost and what happens with more ciphertexts than values are those of
// [Cumulative]. The least non-crossing assignment is found exactly: whatever the last ciphertext is
// assigned to, the ones before it are assigned to lower values at least cost, which makes a dynamic
// program. Simplified: the authors weigh an edge by the frequencies alone and may leave ciphertexts
// out; here all are assigned.
//
// It takes time and, in bits, memory in the product of the numbers of distinct values: a second for
// 10,000 each. It panics if aux is empty.
func NonCrossing(column []ope.Ciphertext, aux []int64) []int64 {
	mustHaveAux(aux)
	return match(column, aux, align)
}

func mustHaveAux(aux []int64) {
	if len(aux) == 0 {
		panic("leakage: an attack with auxiliary values needs some")
	}
}

// match guesses by an assignment of the smaller side to the larger one.
func match(column []ope.Ciphertext, aux []int64, solve func(n, m int, cost func(i, j int) float64) []int) []int64 {
	c, v := groupCiphertexts(column), groupValues(aux)
	cc, vc := c.cumulative(), v.cumulative()
	cost := func(i, j int) float64 {
		f, s := c.frequency(i)-v.frequency(j), cc[i]-vc[j]
		return f*f + s*s
	}
	n, m := len(c.values), len(v.values)
	if n <= m {
		to := solve(n, m, cost)
		return c.guess(func(i int) int64 { return v.values[to[i]] })
	}
	of := make([]int, n) // of a ciphertext, 0 or 1 more than the value
	for j, i := range solve(m, n, func(j, i int) float64 { return cost(i, j) }) {
		of[i] = j + 1
	}
	next := 0 // the one of the ciphertext before or, at the beginning, of the first that has one
	for _, j := range of {
		if j > 0 {
			next = j
			break
		}
	}
	return c.guess(func(i int) int64 {
		if of[i] > 0 {
			next = of[i]
		}
		return v.values[next-1]
	})
}

// assign returns for each of n rows one of m columns, each another one, at the least sum of costs.
// n is at most m.
//
// Shortest augmenting paths with potentials (Kuhn's Hungarian method in the form of Jonker and
// Volgenant, Computing 1987): rows are added one by one, each by the cheapest chain of exchanges.
// Potentials keep every reduced cost cost(i,j) - row[i] - column[j] at or above 0, and at 0 where i
// is assigned to j; by duality of linear programs, this is what a least assignment is.
func assign(n, m int, cost func(i, j int) float64) []int {
	to, _, _ := assignDual(n, m, cost)
	return to
}

// assignDual returns the potentials, too: no column's is above 0, and it is 0 where no row has it.
func assignDual(n, m int, cost func(i, j int) float64) (to []int, row, column []float64) {
	// Everything is counted from 1. 0 is the column that the row to be added comes from.
	row, column = make([]float64, n+1), make([]float64, m+1)
	owner, before := make([]int, m+1), make([]int, m+1)
	least, done := make([]float64, m+1), make([]bool, m+1)
	for i := 1; i <= n; i++ {
		owner[0] = i
		for j := range least {
			least[j], done[j] = math.Inf(1), false
		}
		at := 0
		for owner[at] != 0 {
			done[at] = true
			r, step, next := owner[at], math.Inf(1), 0
			for j := 1; j <= m; j++ {
				if done[j] {
					continue
				}
				if reduced := cost(r-1, j-1) - row[r] - column[j]; reduced < least[j] {
					least[j], before[j] = reduced, at
				}
				if least[j] < step {
					step, next = least[j], j
				}
			}
			for j := 0; j <= m; j++ {
				if done[j] {
					row[owner[j]] += step
					column[j] -= step
				} else {
					least[j] -= step
				}
			}
			at = next
		}
		for at != 0 {
			owner[at] = owner[before[at]]
			at = before[at]
		}
	}
	to = make([]int, n)
	for j := 1; j <= m; j++ {
		if owner[j] > 0 {
			to[owner[j]-1] = j - 1
		}
	}
	return to, row[1:], column[1:]
}

// align returns for each of n rows one of m columns, in ascending order, at the least sum of costs.
// n is at most m.
func align(n, m int, cost func(i, j int) float64) []int {
	// least[j] is the cost of the rows so far with the last of them at or before column j-1. Row i
	// is at or after column i, and leaves n-1-i columns to those after it.
	least := make([]float64, m+1)
	taken := make([][]uint64, n) // bit j-i of row i: the least cost up to column j has row i at j
	for i := range n {
		width := m - n + 1
		taken[i] = make([]uint64, (width+63)/64)
		// In place, from the left: what is overwritten is what the row before had one column
		// further left.
		diagonal := least[i]
		least[i] = math.Inf(1)
		for k := range width {
			j := i + k
			with := diagonal + cost(i, j)
			diagonal = least[j+1]
			if with < least[j] {
				least[j+1] = with
				taken[i][k/64] |= 1 << (k % 64)
			} else {
				least[j+1] = least[j]
			}
		}
	}
	to := make([]int, n)
	k := m - n
	for i := n - 1; i >= 0; i-- {
		for taken[i][k/64]>>(k%64)&1 == 0 {
			k--
		}
		to[i] = i + k
	}
	return to
}
