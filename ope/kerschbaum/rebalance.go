package kerschbaum

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/reencrypt"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Rebalance implements [ope.Mutable]. It also wipes out what labels show of the order in which the values came. Where the
// index has several units, each is rebalanced on its own, and what is left to see is where they begin.
//
// It moves values where they are, some hundred with each commit: first, upwards from the lowest, those that are
// above their new places, and then, downwards from the highest, those that are below. In this order no value meets
// another. At every instant the index is whole. So who calls it may die at any time, and nobody else waits for longer
// than a commit takes. Values that come while it is under way get places as always.
//
// With the rules as published, it copies the index to the next epoch, and others wait until that is done. If
// another client's pass is under way, it helps to finish that one.
func (s *Scheme) Rebalance(ctx context.Context, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	if s.rules.Published {
		return s.shards.first().rebalancePublished(ctx, progress)
	}
	var sweeps []*sweep
	for x, more := s.domain.Min, true; more; {
		err := s.at(ctx, x, func(sh *shard) error {
			w, err := sh.counted(ctx, x)
			if err == nil {
				if last := len(sweeps) - 1; last >= 0 && sweeps[last].s == sh {
					sweeps[last].extend(w) // it has taken more over
				} else {
					sweeps = append(sweeps, w)
				}
				stats.Values += w.values
				x, more = w.end, !w.top
			}
			return err
		})
		if err != nil {
			return stats, err
		}
	}
	done := 0
	for i, w := range sweeps {
		if progress != nil {
			w.progress = func(n int) { progress(done+n, stats.Values) }
		}
		err := w.run(ctx)
		stats.Moved += w.moved
		stats.Before, stats.After = both(stats.Before, w.before, i), both(stats.After, w.after, i)
		if err != nil {
			return stats, err
		}
		done += w.values
	}
	return stats, nil
}

// both returns the version of a unit together with that of n others: that of all, since generations only rise.
func both(others, v ope.Version, n int) ope.Version {
	if n > 0 {
		v.Generation += others.Generation
	}
	return v
}

// rebalancePublished makes a pass, or helps to finish the one that is under way.
func (s *shard) rebalancePublished(ctx context.Context, progress func(done, total int)) (ope.RebalanceStats, error) {
	if err := s.connect(ctx); err != nil {
		return ope.RebalanceStats{}, err
	}
	known, _ := s.version()
	for epoch := known.Epoch; ; epoch++ {
		// What is known may be out of date: an epoch that was over before the call is not meant.
		meta, err := s.readMeta(ctx, s.unit(epoch))
		if err != nil {
			return ope.RebalanceStats{}, err
		}
		if meta.State != ope.StateRetired {
			return s.pass(ctx, epoch, progress)
		}
	}
}

// pass makes the pass that ends an epoch, or finishes it. Of a unit that is retired already it
// returns the result.
func (s *shard) pass(ctx context.Context, epoch uint64, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	// One goroutine of a process is enough.
	select {
	case s.passing <- struct{}{}:
		defer func() { <-s.passing }()
	case <-ctx.Done():
		return stats, ctx.Err()
	}
	return s.finish(ctx, epoch, progress)
}

// finish is pass, for one goroutine at a time.
func (s *shard) finish(ctx context.Context, epoch uint64, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	return s.copier().Run(ctx, epoch, progress)
}

// copier returns what makes passes, and counts them.
func (s *shard) copier() *reencrypt.Copier {
	return &reencrypt.Copier{
		Shard: s.units, Rules: s.rules, Chunk: s.chunk, Page: s.passPage,
		Begun:  func() { s.count(func(n *Stats) { n.Passes++ }) },
		Copied: func(values int) { s.count(func(n *Stats) { n.Moved += values }) },
		Ended:  s.enter,
	}
}

// spreadOut makes room where no single commit can.
func (s *shard) spreadOut(ctx context.Context, u *unit.Unit) error {
	s.mu.Lock()
	from := s.known.part.Low.Value
	s.mu.Unlock()
	w, err := s.counted(ctx, from)
	if err == nil {
		err = w.run(ctx)
	}
	if errors.Is(err, errElsewhere) {
		return nil // it has another part by now, so that there may be room
	}
	if err == nil && w.step.Length() < 2 {
		err = u.Corrupt(fmt.Errorf("%w: labels of %d bits have no room for %d values", order.ErrFull, s.rules.Bits, w.values+1))
	}
	return err
}

// A sweep is a rebalancing in place, of one unit.
type sweep struct {
	s        *shard
	progress func(done int)
	low, end int64       // the values from low on, and below end unless it has the top
	top      bool        // of the index
	values   int         // in the unit at the beginning
	gone     uint64      // values that the unit had handed over then
	bottom   order.Label // of the unit; the first new place is one step above it
	ceiling  order.Label // of the unit
	step     order.Label // from each new place to the next
	starts   []rank      // of the windows that were moved down, ascending
	done     int         // values that progress was told of
	headed   bool        // the header was written again
	moved    int         // values
	crowded  int         // so many windows yet are moved on condition of their places, since others insert

	before, after ope.Version
}

// A rank says of a value how many are below it.
type rank struct {
	value int64
	below int
}

// counted returns a sweep of a unit that has the place of x, whose values it has counted.
func (s *shard) counted(ctx context.Context, x int64) (*sweep, error) {
	w := &sweep{s: s}
	var rules order.Rules
	err := s.locate(ctx, false, func() ([]order.Gap, error) {
		k := &s.known
		if !k.part.Covers(x) {
			return nil, errElsewhere
		}
		rules = k.rules
		w.low, w.end, w.top, w.gone = k.part.Low.Value, k.part.High.Value, k.part.Top, k.part.Gone
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	within := reading{Domain: ope.Domain{Min: max(w.low, x), Max: s.domain.Max}}
	if !w.top {
		within.Max = w.end - 1
	}
	for more := true; more; {
		more, err = s.rangeOn(ctx, &within, func(_ order.Element, v ope.Version) bool {
			if w.values == 0 {
				w.before = v
			}
			w.values++
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	w.after, w.bottom, w.ceiling = w.before, rules.From, rules.High().Label
	w.spread()
	return w, nil
}

// spread sets the step.
func (w *sweep) spread() { w.step, _ = w.ceiling.Minus(w.bottom).Over(uint64(w.values) + 1) }

// extend adds what the unit has above, as another sweep has counted it.
func (w *sweep) extend(above *sweep) {
	w.end, w.top, w.ceiling, w.values = above.end, above.top, above.ceiling, w.values+above.values
	w.spread()
}

// run moves the values down to their new places, and then up.
func (w *sweep) run(ctx context.Context) error {
	s := w.s
	select { // one goroutine of a process is enough
	case s.passing <- struct{}{}:
		defer func() { <-s.passing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.count(func(n *Stats) { n.Passes++ })
	if w.values == 0 || w.step.Length() < 2 {
		return nil
	}
	err := w.down(ctx)
	if err == nil {
		err = w.up(ctx)
	}
	if err == nil && w.after.Epoch > 1 {
		err = s.copier().Clean(ctx, w.after.Epoch-1) // of what a pass has left that did not come to its end
	}
	return err
}

// highest returns the highest value that the unit can have.
func (w *sweep) highest() int64 {
	if w.top {
		return w.s.domain.Max
	}
	return w.end - 1
}

// down moves those down that are above their new places, upwards from the lowest.
func (w *sweep) down(ctx context.Context) error {
	at := rank{value: w.low}
	for more := true; more; {
		w.tell(min(at.below, w.values) / 2)
		w.starts = append(w.starts, at)
		var err error
		if at, more, err = w.move(ctx, at, w.highest(), (*sweep).placesBelow); err != nil {
			return err
		}
	}
	return nil
}

// up moves those up that are below their new places, downwards from the highest.
func (w *sweep) up(ctx context.Context) error {
	to := w.highest()
	for len(w.starts) > 0 {
		last := len(w.starts) - 1
		at := w.starts[last]
		next, more, err := w.move(ctx, at, to, (*sweep).placesAbove)
		if err != nil {
			return err
		}
		if more { // others have inserted so many: the upper ones come first
			w.starts = append(w.starts, next)
			continue
		}
		w.starts = w.starts[:last]
		w.tell(w.values - min(at.below, w.values)/2)
		to = max(at.value, w.low+1) - 1
	}
	return nil
}

// tell reports progress: half of it is to move values down.
func (w *sweep) tell(done int) {
	if w.done = max(w.done, done); w.progress != nil {
		w.progress(w.done)
	}
}

// move moves the values from at.value to a highest one, as many as one commit moves. It returns where the rest
// begins, if there is more.
func (w *sweep) move(ctx context.Context, at rank, to int64, places func(*sweep, []order.Element, int) []order.Element) (next rank, more bool, err error) {
	s := w.s
	for conflicts := 0; ; conflicts++ {
		if err := backOff(ctx, conflicts); err != nil {
			return at, false, err
		}
		begun := time.Now()
		win, more, err := w.read(ctx, at.value, to)
		if err != nil {
			return at, false, err
		}
		if win.elements == nil {
			continue
		}
		end := len(win.elements) - 1
		next := rank{win.elements[end].Value, at.below + end - 1}
		rel := order.Relabelling{From: 1, To: end, Elements: places(w, win.elements, at.below)}
		if win.least == 0 && slices.Equal(rel.Elements, win.elements[1:end]) {
			return next, more, nil
		}
		var free [][]byte
		if w.crowded > 0 {
			if free, err = win.places(); err != nil {
				return at, false, err
			}
		}
		applied, err := s.commitMoves(ctx, win, rel, free)
		if err != nil {
			return at, false, err
		}
		if !applied {
			w.crowded = 64
			continue
		}
		w.crowded, w.headed = max(0, w.crowded-1), true // the first window begins with the header
		for i, e := range rel.Elements {
			if e.Label != win.elements[1+i].Label {
				w.moved++
			}
		}
		w.after = ope.Version{Epoch: win.unit.Epoch, Generation: win.meta.Generation + 1}
		if w.crowded > 0 { // let others go first, who must read what has moved
			err = pause.For(ctx, time.Since(begun)/2)
		}
		return next, more, err
	}
}

// read returns the elements whose values are from a lowest to a highest one, as many as one commit moves, with the
// neighbours of both ends, and whether there are more. The window has no elements if the index has changed.
func (w *sweep) read(ctx context.Context, from, to int64) (win window, more bool, err error) {
	s := w.s
	left, rules, version, err := s.neighbour(ctx, from)
	if err != nil {
		return win, false, err
	}
	p, err := s.read(ctx, version.Epoch, left.Label, rules.High().Label, s.chunk+2)
	if err != nil {
		return win, false, err
	}
	s.mu.Lock()
	ok, err := s.take(p, left, rules.High(), version)
	s.mu.Unlock()
	switch {
	case err != nil || !ok:
		return win, false, err
	case p.Meta.State == ope.StateSealed: // by an earlier version
		_, err := s.finish(ctx, p.Unit.Epoch, nil)
		return win, false, err
	}
	run, err := p.Run(left, rules.High())
	if err != nil {
		return win, false, err
	}
	beyond := 1 // index of the right neighbour
	for beyond < len(run)-1 && run[beyond].Value <= to && beyond <= s.chunk && run[beyond].Shape.Depth != 0 {
		beyond++
	}
	right := run[beyond]
	win = window{unit: p.Unit, meta: p.Meta, rules: rules, elements: run[:beyond+1]}
	if !w.headed {
		win.header, win.least = p.Header, uint64(w.values)+w.gone
	}
	return win, right.Shape.Depth != 0 && right.Value <= to, nil
}

// neighbour returns the element with the highest value below x, or the low end.
func (s *shard) neighbour(ctx context.Context, x int64) (left order.Element, rules order.Rules, version ope.Version, err error) {
	err = s.locate(ctx, false, func() ([]order.Gap, error) {
		version, rules = s.known.version(), s.known.rules
		if left = rules.Low(); x <= s.known.part.Low.Value {
			return nil, nil
		}
		g := s.known.list.Gap(x - 1)
		if left = g.Left; g.Linked || left.Shape.Depth != 0 && left.Value == x-1 {
			return nil, nil
		}
		return []order.Gap{g}, nil
	})
	return left, rules, version, err
}

// places returns, of each gap of a window that has room, the place where the first is put.
func (w *window) places() ([][]byte, error) {
	free := make([][]byte, 0, len(w.elements))
	for i := 1; i < len(w.elements); i++ {
		e, ok, err := w.rules.Place(w.elements[i-1], w.elements[i])
		if err != nil {
			return nil, w.unit.Corrupt(err)
		}
		if ok {
			free = append(free, e.Label.Bytes())
		}
	}
	return free, nil
}

// place returns the n-th value at its new place, counted from 1: even steps, and the shapes of a balanced tree of
// insertions. It is no element if there are not so many values.
func (w *sweep) place(n int, of order.Element) (order.Element, bool) {
	if n > w.values {
		return order.Element{}, false
	}
	height, zeros := bits.Len(uint(w.values)), bits.TrailingZeros(uint(n))
	shape := order.Shape{Depth: uint32(height - zeros)}
	switch {
	case shape.Depth == 1:
	case n>>(zeros+1)&1 == 0:
		shape.Run, shape.Dir = 1, -1
	default:
		shape.Run, shape.Dir = 1, +1
	}
	of.Label, of.Shape = w.bottom.Plus(w.step.Times(uint64(n))), shape
	return of, true
}

// placesBelow returns the inner elements of a window, with those at their new places that are above these.
func (w *sweep) placesBelow(window []order.Element, below int) []order.Element {
	out := slices.Clone(window)
	for i := 1; i < len(out)-1; i++ {
		if to, ok := w.place(below+i, out[i]); ok && !out[i].Label.Less(to.Label) && out[i-1].Label.Less(to.Label) {
			out[i] = to
		}
	}
	return order.Distinguished(window, out)
}

// placesAbove returns the inner elements of a window, with those at their new places that are below these.
func (w *sweep) placesAbove(window []order.Element, below int) []order.Element {
	out := slices.Clone(window)
	for i := len(out) - 2; i > 0; i-- {
		if to, ok := w.place(below+i, out[i]); ok && out[i].Label.Less(to.Label) && to.Label.Less(out[i+1].Label) {
			out[i] = to
		}
	}
	return order.Distinguished(window, out)
}
