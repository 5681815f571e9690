package kerschbaum

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/reencrypt"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/sweep"
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
	var sweeps []*rebalancing
	for x, more := s.domain.Min, true; more; {
		err := s.at(ctx, x, func(sh *shard) error {
			w, err := sh.counted(ctx, x)
			if err == nil {
				if last := len(sweeps) - 1; last >= 0 && sweeps[last].s == sh {
					sweeps[last].extend(w) // it has taken more over
				} else {
					sweeps = append(sweeps, w)
				}
				stats.Values += w.Values
				x, more = w.Highest+1, !w.top
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
			w.Progress = func(n int) { progress(done+n, stats.Values) }
		}
		err := w.run(ctx)
		stats.Moved += w.Moved
		stats.Before, stats.After = both(stats.Before, w.Before, i), both(stats.After, w.After, i)
		if err != nil {
			return stats, err
		}
		done += w.Values
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
	if err == nil && !w.HasRoom() {
		err = u.Corrupt(fmt.Errorf("%w: labels of %d bits have no room for %d values", order.ErrFull, s.rules.Bits, w.Values+1))
	}
	return err
}

// A rebalancing in place moves the values of one unit.
type rebalancing struct {
	sweep.Sweep
	s   *shard
	top bool // the unit has that of the index
}

// counted returns the rebalancing of a unit that has the place of x, whose values it has counted.
func (s *shard) counted(ctx context.Context, x int64) (*rebalancing, error) {
	w := &rebalancing{s: s}
	var rules order.Rules
	err := s.locate(ctx, false, func() ([]order.Gap, error) {
		k := &s.known
		if !k.part.Covers(x) {
			return nil, errElsewhere
		}
		rules = k.rules
		w.Low, w.Highest, w.top, w.Gone = k.part.Low.Value, s.domain.Max, k.part.Top, k.part.Gone
		if !w.top {
			w.Highest = k.part.High.Value - 1
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	within := reading{Domain: ope.Domain{Min: max(w.Low, x), Max: w.Highest}}
	for more := true; more; {
		more, err = s.rangeOn(ctx, &within, func(_ order.Element, v ope.Version) bool {
			if w.Values == 0 {
				w.Before = v
			}
			w.Values++
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	w.After, w.Bottom, w.Ceiling = w.Before, rules.From, rules.High().Label
	return w, nil
}

// extend adds what the unit has above, as another rebalancing has counted it.
func (w *rebalancing) extend(above *rebalancing) {
	w.Highest, w.top, w.Ceiling, w.Values = above.Highest, above.top, above.Ceiling, w.Values+above.Values
}

// run moves the values down to their new places, and then up.
func (w *rebalancing) run(ctx context.Context) error {
	s := w.s
	select { // one goroutine of a process is enough
	case s.passing <- struct{}{}:
		defer func() { <-s.passing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.count(func(n *Stats) { n.Passes++ })
	if w.Values == 0 || !w.HasRoom() {
		return nil
	}
	err := w.Run(ctx, s.readValues)
	if err == nil && w.After.Epoch > 1 {
		err = s.copier().Clean(ctx, w.After.Epoch-1) // of what a pass has left that did not come to its end
	}
	return err
}

// readValues is a [sweep.Read].
func (s *shard) readValues(ctx context.Context, from, to int64, least uint64) (of sweep.Window, more bool, err error) {
	left, rules, version, err := s.neighbour(ctx, from)
	if err != nil {
		return of, false, err
	}
	p, err := s.read(ctx, version.Epoch, left.Label, rules.High().Label, s.chunk+2)
	if err != nil {
		return of, false, err
	}
	s.mu.Lock()
	ok, err := s.take(p, left, rules.High(), version)
	s.mu.Unlock()
	switch {
	case err != nil || !ok:
		return of, false, err
	case p.Meta.State == ope.StateSealed: // by an earlier version
		_, err := s.finish(ctx, p.Unit.Epoch, nil)
		return of, false, err
	}
	run, err := p.Run(left, rules.High())
	if err != nil {
		return of, false, err
	}
	beyond := 1 // index of the right neighbour
	for beyond < len(run)-1 && run[beyond].Value <= to && beyond <= s.chunk && run[beyond].Shape.Depth != 0 {
		beyond++
	}
	right := run[beyond]
	win := window{unit: p.Unit, meta: p.Meta, rules: rules, elements: run[:beyond+1], least: least}
	if least > 0 {
		win.header = p.Header
	}
	of = sweep.Window{Elements: win.elements, Version: ope.Version{Epoch: p.Unit.Epoch, Generation: p.Meta.Generation}}
	of.Commit = func(ctx context.Context, rel order.Relabelling, beside bool) (applied bool, err error) {
		var free [][]byte
		if beside {
			if free, err = win.places(); err != nil {
				return false, err
			}
		}
		return s.commitMoves(ctx, win, rel, free)
	}
	return of, right.Shape.Depth != 0 && right.Value <= to, nil
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
