package sweep

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// A list is a unit in memory. Some of its commits are refused.
type list struct {
	t        *testing.T
	rules    order.Rules
	elements []order.Element
	commits  int
	refuses  int // so many of the next commits
	beside   int // commits that were beside others
	least    uint64
	missed   bool // the next read misses the version
	reads    int
	comes    func(from int64) // before each read of values from one on
}

const chunk = 5

func (l *list) read(_ context.Context, from, to int64, least uint64) (w Window, more bool, err error) {
	if l.missed = !l.missed; l.missed {
		return w, false, nil
	}
	if l.reads++; l.comes != nil {
		l.comes(from)
	}
	run := slices.Concat([]order.Element{l.rules.Low()}, l.elements, []order.Element{l.rules.High()})
	at := 1
	for at < len(run)-1 && run[at].Value < from {
		at++
	}
	end := at
	for end < len(run)-1 && run[end].Value <= to && end-at < chunk {
		end++
	}
	w = Window{Elements: slices.Clone(run[at-1 : end+1]), Version: ope.Version{Epoch: 1, Generation: uint64(l.commits)}}
	w.Commit = func(_ context.Context, rel order.Relabelling, beside bool) (bool, error) {
		if beside {
			l.beside++
		}
		if l.refuses > 0 {
			l.refuses--
			return false, nil
		}
		l.commits++
		l.least = max(l.least, least)
		require.Len(l.t, rel.Elements, end-at)
		copy(l.elements[at-1:], rel.Elements)
		l.requireOrder()
		return true, nil
	}
	return w, end < len(run)-1 && run[end].Value <= to, nil
}

// requireOrder requires that neighbours are such as insertions can have produced.
func (l *list) requireOrder() {
	left := l.rules.Low()
	for _, e := range append(slices.Clone(l.elements), l.rules.High()) {
		_, err := l.rules.Between(left, e)
		require.NoError(l.t, err)
		left = e
	}
}

// ascending returns a list of ascending values, as they get places when they come in this order.
func ascending(t *testing.T, n int) *list {
	l := &list{t: t, rules: order.DefaultRules()}
	left := l.rules.Low()
	for x := range int64(n) {
		e, ok, err := l.rules.Place(left, l.rules.High())
		require.NoError(t, err)
		require.True(t, ok)
		e.Value = x
		l.elements = append(l.elements, e)
		left = e
	}
	return l
}

func (l *list) sweep(n int) *Sweep {
	return &Sweep{Highest: int64(n) - 1, Values: n, Gone: 3, Bottom: l.rules.From, Ceiling: l.rules.High().Label, After: ope.Version{Epoch: 1}}
}

// requireEven requires that values are a step from each other.
func (l *list) requireEven(w *Sweep) {
	step, _ := w.Ceiling.Minus(w.Bottom).Over(uint64(w.Values) + 1)
	for i, e := range l.elements {
		require.Equal(l.t, int64(i), e.Value)
		require.Equal(l.t, w.Bottom.Plus(step.Times(uint64(i)+1)), e.Label)
	}
}

func TestSweep(t *testing.T) {
	for _, n := range []int{1, 2, 5, 6, 64, 1000} {
		l := ascending(t, n)
		before := slices.Clone(l.elements)
		w := l.sweep(n)
		last := 0
		w.Progress = func(done int) {
			require.GreaterOrEqual(t, done, last)
			last = done
		}
		require.True(t, w.HasRoom())
		require.NoError(t, w.Run(t.Context(), l.read))
		l.requireEven(w)
		require.Equal(t, n, last)
		require.Equal(t, uint64(n+3), l.least)
		require.Equal(t, ope.Version{Epoch: 1, Generation: uint64(l.commits)}, w.After)
		differ := 0
		for i := range before {
			if before[i].Label != l.elements[i].Label {
				differ++
			}
		}
		require.GreaterOrEqual(t, w.Moved, differ)

		commits, windows := l.commits, (n+chunk-1)/chunk
		require.Less(t, l.reads, windows+4, "hardly any value is below its new place, so that there is nothing to move up")
		again := l.sweep(n)
		require.NoError(t, again.Run(t.Context(), l.read))
		require.Zero(t, again.Moved)
		require.Equal(t, commits+1, l.commits, "it writes the header, and moves nothing")
	}
}

// Where others insert, the next moves are beside them, until it has gone well for long.
func TestSweepBesideOthers(t *testing.T) {
	const n = 1000
	l := ascending(t, n)
	l.refuses = 3
	w := l.sweep(n)
	require.NoError(t, w.Run(t.Context(), l.read))
	l.requireEven(w)
	require.Equal(t, 2+64, l.beside)
}

// Others put values right above those that were moved last. The next window has them, so that they stop nothing.
func TestSweepBesideOthersAtItsEdge(t *testing.T) {
	const n = 1000
	l := ascending(t, n)
	for i := range l.elements {
		l.elements[i].Value *= 10
	}
	others := 0
	l.comes = func(from int64) {
		at, found := slices.BinarySearchFunc(l.elements, from, order.Element.CompareValue)
		if found || at == 0 || at == len(l.elements) || l.reads%20 != 0 {
			return
		}
		e, ok, err := l.rules.Place(l.elements[at-1], l.elements[at])
		require.NoError(t, err)
		require.True(t, ok)
		e.Value = from
		l.elements = slices.Insert(l.elements, at, e)
		others++
	}
	w := l.sweep(n)
	w.Highest *= 10
	require.NoError(t, w.Run(t.Context(), l.read))
	require.Greater(t, others, 5)
	for i, e := range l.elements[:n-chunk] { // those of the last window may have no places
		require.Equal(t, w.Bottom.Plus(w.step.Times(uint64(i)+1)), e.Label)
	}
}

// Without labels enough nothing is even.
func TestSweepWithoutRoom(t *testing.T) {
	w := &Sweep{Values: 3, Ceiling: order.Label{Lo: 7}}
	require.False(t, w.HasRoom())
	w.Ceiling.Lo++
	require.True(t, w.HasRoom())
}
