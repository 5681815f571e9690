package kerschbaum

import (
	"context"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/stretchr/testify/require"
)

// A hand writes units as no client does.
type hand struct {
	t *testing.T
	w *world
}

// commit changes an epoch, whatever its state is, and lets the checker look at it.
func (h *hand) commit(epoch uint64, state ope.State, generation uint64, puts []order.Element, deletes ...order.Element) {
	h.t.Helper()
	u := first(h.w.observer).unit(epoch)
	view, err := h.w.index.Read(context.Background(), u.Name, nil, nil, 0)
	require.NoError(h.t, err)
	change := ope.Change{Meta: ope.Meta{State: state, Generation: generation}}
	for _, e := range puts {
		change.Puts = append(change.Puts, u.SealElement(e))
	}
	for _, e := range deletes {
		change.Deletes = append(change.Deletes, e.Label.Bytes())
	}
	applied, err := h.w.index.Commit(context.Background(), u.Name, ope.Condition{State: view.Meta.State, Generation: view.Meta.Generation}, change)
	require.NoError(h.t, err)
	require.True(h.t, applied)
	h.w.committed(u.Name, true, nil)
}

func (h *hand) spread(values ...int64) []order.Element {
	h.t.Helper()
	elements, err := h.w.setting.rules().Spread(values)
	require.NoError(h.t, err)
	return elements
}

// between returns the element of value x that belongs between two.
func (h *hand) between(left, right order.Element, x int64) order.Element {
	h.t.Helper()
	e, ok, err := h.w.setting.rules().Place(left, right)
	require.True(h.t, ok)
	require.NoError(h.t, err)
	e.Value = x
	return e
}

// at returns e at the label next to its own.
func beside(e order.Element) order.Element {
	e.Label = e.Label.Next()
	return e
}

func TestCheckerNotices(t *testing.T) {
	const open, sealed, retired, absent = ope.StateOpen, ope.StateSealed, ope.StateRetired, ope.StateAbsent
	low, high := order.Element{}, setting{bits: 16}.rules().High()
	for _, c := range []struct {
		what, notice string
		do           func(h *hand, es []order.Element) // es are the values 10, 20 and 30, in the open epoch 1
	}{
		{"a value between others than it is", "I1: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{h.between(es[0], es[1], 25)})
		}},
		{"a value twice", "I2: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{h.between(es[0], es[1], 30)})
		}},
		{"a deletion", "I3: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, nil, es[1])
		}},
		{"an overwritten record", "I3: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{{Value: 21, Label: es[1].Label, Shape: es[1].Shape}})
		}},
		{"a move within a generation", "I3: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{beside(es[1])}, es[1])
		}},
		{"a value beside its place", "I4: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{beside(h.between(es[0], es[1], 15))})
		}},
		{"a value of another depth", "I4: ", func(h *hand, es []order.Element) {
			e := h.between(es[0], es[1], 15)
			e.Shape.Depth++
			h.commit(1, open, 1, []order.Element{e})
		}},
		{"two values of which none is at the place of the gap", "I4: ", func(h *hand, es []order.Element) {
			first := h.between(es[0], es[1], 15)
			h.commit(1, open, 1, []order.Element{h.between(es[0], first, 12), h.between(first, es[1], 17)})
		}},
		{"an insertion into a sealed unit", "I5: ", func(h *hand, es []order.Element) {
			h.commit(1, sealed, 1, nil)
			h.commit(1, sealed, 1, []order.Element{h.between(es[0], es[1], 15)})
		}},
		{"an insertion into a retired unit", "I5: ", func(h *hand, es []order.Element) {
			h.commit(1, sealed, 1, nil)
			h.commit(2, open, 1, h.spread(10, 20, 30))
			h.commit(1, retired, 1, nil)
			h.commit(1, retired, 1, []order.Element{h.between(es[0], es[1], 15)})
		}},
		{"a relabelling of a sealed unit", "I5: ", func(h *hand, es []order.Element) {
			h.commit(1, sealed, 1, nil)
			h.commit(1, sealed, 2, []order.Element{beside(es[1])}, es[1])
		}},
		{"a copy of an open unit", "I6: ", func(h *hand, es []order.Element) {
			h.commit(2, absent, 0, h.spread(10, 20, 30))
		}},
		{"a copy that lacks a value", "I6: ", func(h *hand, es []order.Element) {
			h.commit(1, sealed, 1, nil)
			h.commit(2, open, 1, h.spread(10, 30))
		}},
		{"a copy of an open unit that is opened", "I6: ", func(h *hand, es []order.Element) {
			h.commit(2, open, 1, h.spread(10, 20, 30))
		}},
		{"an insertion before the predecessor is retired", "I6: ", func(h *hand, es []order.Element) {
			h.commit(1, sealed, 1, nil)
			copies := h.spread(10, 20, 30)
			h.commit(2, open, 1, copies)
			h.commit(2, open, 1, []order.Element{h.between(copies[0], copies[1], 15)})
		}},
		{"an acknowledged value that was never written", "I7: ", func(h *hand, es []order.Element) {
			h.w.acked[15] = true
			h.commit(1, open, 1, []order.Element{h.between(es[2], high, 40)})
		}},
		{"a relabelling that loses a value", "I7: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 2, nil, es[1])
		}},
		{"a copied value that has moved since", "I8: ", func(h *hand, es []order.Element) {
			h.commit(1, open, 2, []order.Element{h.between(low, es[0], 5), h.between(es[2], high, 20)}, es[1])
			h.commit(1, open, 2, []order.Element{es[1]})
		}},
		{"a generation that falls", "generation falls", func(h *hand, es []order.Element) {
			h.commit(1, open, 2, nil)
			h.commit(1, open, 1, nil)
		}},
		{"a record that nobody can read", "cannot be read", func(h *hand, es []order.Element) {
			h.commit(1, open, 1, []order.Element{{Value: 40, Label: beside(es[2]).Label}}) // of depth 0
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := &hand{t, newWorld(setting{bits: 16})}
			es := h.spread(10, 20, 30)
			h.commit(1, open, 1, es)
			require.Empty(t, h.w.Bad())
			c.do(h, es)
			require.Contains(t, strings.Join(h.w.Bad(), "\n"), c.notice)
		})
	}
}
