package leakage

import (
	"math/big"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
)

// A Placing is the public rule by which a mutable encoding gives a label to the first value in the
// gap strictly between two labels, in a state that the rule itself keeps for every gap. It returns
// the label, and the states of the gaps below and above it. A nil label means that the gap has no
// room.
type Placing[S any] func(low, high *big.Int, state S) (label *big.Int, below, above S)

// Midpoint is the placing of Kerschbaum and Schröpfer (CCS 2014, algorithm 1): the middle of the
// gap, rounded up. It keeps no state.
func Midpoint(low, high *big.Int, _ struct{}) (label *big.Int, below, above struct{}) {
	width := new(big.Int).Sub(high, low)
	if width.Cmp(big.NewInt(2)) < 0 {
		return nil, struct{}{}, struct{}{}
	}
	width.Add(width, big.NewInt(1))
	return width.Add(low, width.Rsh(width, 1)), struct{}{}, struct{}{}
}

// A Turns is the state of [Adaptive]: how the path of insertions to a gap ended. The zero Turns is
// that of the empty encoding.
type Turns struct {
	dir      int8   // the last turn: -1 below, +1 above
	run, alt uint32 // how many turns were equal at the end, and how many alternated
}

func (s Turns) turn(dir int8) Turns {
	switch s.dir {
	case 0:
		return Turns{dir, 1, 0}
	case dir:
		return Turns{dir, s.run + 1, 0}
	}
	return Turns{dir, 1, s.alt + 1}
}

// Adaptive is the placing of package kerschbaum by default: midpoints, until four turns in a row were
// equal or alternated, and from there on as much room as Laplace's rule of succession expects to be
// needed on the side where the path goes.
func Adaptive(low, high *big.Int, s Turns) (label *big.Int, below, above Turns) {
	below, above = s.turn(-1), s.turn(+1)
	gap := new(big.Int).Sub(high, low)
	if gap.Cmp(big.NewInt(2)) < 0 {
		return nil, below, above
	}
	parts, up := uint32(2), true
	if s.run >= 4 {
		parts, up = s.run-1, s.dir > 0
	} else if s.alt >= 4 {
		parts, up = s.alt-1, s.dir < 0
	}
	part := gap.Div(gap, big.NewInt(int64(parts)))
	if part.Sign() == 0 {
		part.SetInt64(1)
	}
	if up {
		return part.Add(low, part), below, above
	}
	return part.Sub(high, part), below, above
}

// Trace reads from the labels of a mutable encoding in which order their values were inserted.
//
// The adversary has a snapshot and the placing rule, which is public. Where a rule makes a label of its two
// neighbours only, the label says which they were. The first value of all has the label that the rule gives in the
// empty range from low to high. The first one below it has the label that the rule gives in the gap below, and so
// on. That is the binary search tree that the insertions built, and in it every value came after its ancestors.
// [Traced] counts what this shows.
//
// It returns the parent of each row: the row that came last among those that came before it
// provably, -1 for the first value of all. A row is its own parent if nothing is known: the label
// that the rule gives in its gap is not there, because labels were moved, or are of another rule.
// Of rows with the same label the first stands for all, which have its parent.
//
// Kerschbaum and Schröpfer prove security only for what an adversary sees of values inserted in an
// order that is not secret (IND-OCPA), so this contradicts no theorem. A re-encryption pass that
// inserts the values again, in an order of its own, makes the trace that of the pass.
func Trace[S any](labels []ope.Ciphertext, low, high *big.Int, state S, place Placing[S]) []int {
	g := groupCiphertexts(labels)
	first := make([]int, len(g.values)) // row of each group
	for row, group := range slices.Backward(g.of) {
		first[group] = row
	}
	numbers := make([]*big.Int, len(g.values))
	for i, c := range g.values {
		numbers[i] = new(big.Int).SetBytes(c)
	}
	parents := make([]int, len(g.values)) // rows
	// The gaps to be read, each with the groups from..to-1 in it. A stack of its own: sorted
	// insertion makes a tree as deep as there are values.
	type gap struct {
		low, high *big.Int
		state     S
		from, to  int
		parent    int // row
	}
	stack := []gap{{low, high, state, 0, len(g.values), -1}}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.from == top.to {
			continue
		}
		label, below, above := place(top.low, top.high, top.state)
		at, found := top.from, false
		if label != nil {
			at, found = slices.BinarySearchFunc(numbers[top.from:top.to], label, (*big.Int).Cmp)
			at += top.from
		}
		if !found {
			for i := top.from; i < top.to; i++ {
				parents[i] = first[i]
			}
			continue
		}
		parents[at] = top.parent
		stack = append(stack,
			gap{top.low, label, below, top.from, at, first[at]},
			gap{label, top.high, above, at + 1, top.to, first[at]})
	}
	rows := make([]int, len(labels))
	for row, group := range g.of {
		rows[row] = parents[group]
	}
	return rows
}

// Traced returns the share of all pairs of rows of which parents, as [Trace] returns them for rows
// with distinct labels, show which came first: those of a row and its ancestor. For values inserted
// in random order it is small, 2((n+1)H(n) - 2n) / (n(n-1)/2) with the harmonic number H, as the mean
// path in a random search tree (Knuth, The Art of Computer Programming, section 6.2.2); for values
// inserted in order it is 1.
func Traced(parents []int) float64 {
	n := len(parents)
	if n < 2 {
		return 0
	}
	depth := make([]int, n) // 0 where it is not known yet, or one more than the ancestors
	pairs := 0.0
	var path []int
	for row := range parents {
		path = path[:0]
		at := row
		for depth[at] == 0 && parents[at] >= 0 && parents[at] != at {
			path = append(path, at)
			at = parents[at]
		}
		if depth[at] == 0 {
			depth[at] = 1
		}
		for _, below := range slices.Backward(path) {
			depth[below] = depth[parents[below]] + 1
		}
		pairs += float64(depth[row] - 1)
	}
	return pairs / (float64(n) * float64(n-1) / 2)
}
