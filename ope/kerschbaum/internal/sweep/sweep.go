// Package sweep moves the values of a unit to even places, by commits of some hundred values. It decides which go
// where, and when; who calls it reads them, and commits.
//
// First, upwards from the lowest, it moves those that are above their new places, and then, downwards from the
// highest, those that are below. In this order no value meets another. So the unit is whole at every instant.
package sweep

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

const (
	// Windows: who was heard of so long ago may have gone.
	short, long = 16, 64

	// Others are not heard of before a commit of theirs comes between two of these. So there is a pause after so many
	// commits, even if nobody seems to be about.
	hurry = 4
)

// A Sweep moves the values of one unit, as who makes it has counted them.
type Sweep struct {
	Low, Highest int64       // values that the unit can have
	Values       int         // in the unit at the beginning
	Gone         uint64      // values that the unit had handed over then
	Bottom       order.Label // of the unit; the first new place is one step above it
	Ceiling      order.Label // of the unit
	Before       ope.Version // when they were counted
	Progress     func(done int)

	After ope.Version // Before, or that of the last commit
	Moved int         // values

	step    order.Label // from each new place to the next
	low     []stretch   // ascending: those of the windows of the way down in which values are below their new places
	done    int         // values that progress was told of
	headed  bool        // the header was written again
	crowded int         // so many windows yet are moved on condition of their places, since others insert
	heard   int         // so many windows yet are followed by a pause, since others are about
	waited  int         // windows since others were heard of
	hurried int         // commits since the last pause
	unknown int         // values that the last commit moved, if it was made
}

// A Window is a run of neighbours, as of one instant.
type Window struct {
	Elements []order.Element // with the neighbours of both ends, which stay
	Version  ope.Version
	Others   bool // have committed since the last window was moved
	Made     bool // the last commit was, though its outcome was not known

	// Commit moves the elements, unless something has changed. Beside others who insert, it is enough that the first place
	// in each gap of the window is free.
	Commit func(ctx context.Context, rel order.Relabelling, beside bool) (applied bool, err error)
}

// A Read returns the elements with values from a lowest to a highest one, as many as one commit moves. It reports whether
// there are more. The window has no elements if the index has changed. If least is not 0, its commit writes the header
// again, and that so many values at least came into the unit.
type Read func(ctx context.Context, from, to int64, least uint64) (w Window, more bool, err error)

// A rank says of a value how many are below it.
type rank struct {
	value int64
	below int
}

// A stretch is the values from one to a highest one.
type stretch struct {
	from rank
	to   int64
}

// An outcome says what the move of as many values as one commit moves has left to do in a stretch.
type outcome struct {
	more bool // the stretch has more values than these
	next rank // where these begin
	low  bool // some of those that were moved, or not, are below their new places
}

// Both returns the version of a unit together with that of n others: that of all, since generations only rise.
func Both(others, v ope.Version, n int) ope.Version {
	if n > 0 {
		v.Generation += others.Generation
	}
	return v
}

// spread returns the step.
func (w *Sweep) spread() order.Label {
	step, _ := w.Ceiling.Minus(w.Bottom).Over(uint64(w.Values) + 1)
	return step
}

// HasRoom reports whether the unit has labels enough for its values and others between them.
func (w *Sweep) HasRoom() bool { return w.spread().Length() >= 2 }

// Run moves the values down to their new places, and then up.
func (w *Sweep) Run(ctx context.Context, read Read) error {
	w.step = w.spread()
	err := w.down(ctx, read)
	if err == nil {
		err = w.up(ctx, read)
	}
	return err
}

// down moves those down that are above their new places, upwards from the lowest.
func (w *Sweep) down(ctx context.Context, read Read) error {
	for at := (stretch{rank{value: w.Low}, w.Highest}); ; {
		w.tell(min(at.from.below, w.Values) / 2)
		left, err := w.move(ctx, read, at, w.placesBelow)
		if err != nil {
			return err
		}
		window := at
		if left.more {
			window.to = left.next.value - 1
		}
		if left.low {
			w.low = append(w.low, window)
		}
		if !left.more {
			return nil
		}
		at.from = left.next
	}
}

// up moves those up that are below their new places, downwards from the highest. What others have put between
// values that are at theirs by now stays where it is.
func (w *Sweep) up(ctx context.Context, read Read) error {
	for len(w.low) > 0 {
		last := len(w.low) - 1
		at := w.low[last]
		left, err := w.move(ctx, read, at, w.placesAbove)
		if err != nil {
			return err
		}
		if left.more { // others have inserted so many: the upper ones come first
			w.low[last].to = left.next.value - 1
			w.low = append(w.low, stretch{left.next, at.to})
			continue
		}
		w.low = w.low[:last]
		w.tell(w.Values - min(at.from.below, w.Values)/2)
	}
	w.tell(w.Values)
	return nil
}

// tell reports progress: half of it is to move values down.
func (w *Sweep) tell(done int) {
	if w.done = max(w.done, done); w.Progress != nil {
		w.Progress(w.done)
	}
}

// move moves the first values of a stretch, as many as one commit moves.
func (w *Sweep) move(ctx context.Context, read Read, at stretch, places func([]order.Element, int) []order.Element) (left outcome, err error) {
	for conflicts := 0; ; conflicts++ {
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return left, err
		}
		begun := time.Now()
		var least uint64
		if !w.headed {
			least = uint64(w.Values) + w.Gone
		}
		win, more, err := read(ctx, at.from.value, at.to, least)
		if err != nil {
			return left, err
		}
		if win.Elements == nil {
			continue
		}
		if win.Made {
			w.made(w.unknown, win.Version)
		}
		w.unknown = 0
		end := len(win.Elements) - 1
		rel := order.Relabelling{From: 1, To: end, Elements: places(win.Elements, at.from.below)}
		left := w.left(rel.Elements, at.from, more)
		if least == 0 && slices.Equal(rel.Elements, win.Elements[1:end]) {
			return left, nil
		}
		if w.waited++; win.Others {
			w.heard, w.waited = short, 0
		}
		applied, err := win.Commit(ctx, rel, w.crowded > 0)
		if err != nil {
			return left, err
		}
		for i, e := range rel.Elements {
			if e.Label != win.Elements[1+i].Label {
				w.unknown++
			}
		}
		if !applied {
			w.crowded, w.heard = long, short
			continue
		}
		w.crowded, w.heard = max(0, w.crowded-1), max(0, w.heard-1)
		w.made(w.unknown, ope.Version{Epoch: win.Version.Epoch, Generation: win.Version.Generation + 1})
		w.unknown = 0
		// Let others go first, who must read what has moved: for longer, if none of them came between.
		if w.hurried++; w.heard > 0 || w.hurried == hurry {
			w.hurried = 0
			err = pause.For(ctx, time.Since(begun)<<min(w.waited, 2)/4)
		}
		return left, err
	}
}

// made takes note of a commit that has moved some values, and of the version since then.
func (w *Sweep) made(moved int, after ope.Version) {
	w.Moved += moved
	w.After = after
	w.headed = true // the first window begins with the header
}

// left returns what is left to do after values were moved, of which so many are below the first. The rest begins right above the
// last one, and not at the next: others may put values between these two.
func (w *Sweep) left(moved []order.Element, first rank, more bool) outcome {
	left := outcome{more: more, next: first}
	for i, e := range moved {
		to, ok := w.place(first.below+1+i, e)
		left.low = left.low || ok && e.Label.Less(to.Label)
		left.next = rank{e.Value + 1, first.below + 1 + i}
	}
	return left
}

// place returns the n-th value at its new place, counted from 1: even steps, and the shapes of a balanced tree of
// insertions. It is no element if there are not so many values.
func (w *Sweep) place(n int, of order.Element) (order.Element, bool) {
	if n > w.Values {
		return order.Element{}, false
	}
	height, zeros := bits.Len(uint(w.Values)), bits.TrailingZeros(uint(n))
	shape := order.Shape{Depth: uint32(height - zeros)}
	switch {
	case shape.Depth == 1:
	case n>>(zeros+1)&1 == 0:
		shape.Run, shape.Dir = 1, -1
	default:
		shape.Run, shape.Dir = 1, +1
	}
	of.Label, of.Shape = w.Bottom.Plus(w.step.Times(uint64(n))), shape
	return of, true
}

// placesBelow returns the inner elements of a window, with those at their new places that are above these. Where others have inserted
// so many that there is no place for its last one, the window stays as it is. Otherwise the labels that were left would be in
// the middle of what clients read again.
func (w *Sweep) placesBelow(window []order.Element, below int) []order.Element {
	out := slices.Clone(window)
	if below+len(out)-2 > w.Values {
		return out[1 : len(out)-1]
	}
	for i := 1; i < len(out)-1; i++ {
		if to, ok := w.place(below+i, out[i]); ok && !out[i].Label.Less(to.Label) && out[i-1].Label.Less(to.Label) {
			out[i] = to
		}
	}
	return order.Distinguished(window, out)
}

// placesAbove returns the inner elements of a window, with those at their new places that are below these.
func (w *Sweep) placesAbove(window []order.Element, below int) []order.Element {
	out := slices.Clone(window)
	for i := len(out) - 2; i > 0; i-- {
		if to, ok := w.place(below+i, out[i]); ok && out[i].Label.Less(to.Label) && to.Label.Less(out[i+1].Label) {
			out[i] = to
		}
	}
	return order.Distinguished(window, out)
}
