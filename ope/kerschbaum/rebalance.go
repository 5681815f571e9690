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
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// Rebalance implements [ope.Mutable]. It also wipes out what labels show of the order in which the values came. Where the
// index has several units, each is rebalanced on its own, and what is left to see is where they begin.
//
// It moves values where they are, some hundred with each commit: first, upwards from the lowest, those that are
// above their new places, and then, downwards from the highest, those that are below. In this order no value meets
// another. At every instant the index is whole. So who calls it may die at any time. Who else inserts waits for
// a few commits. Values that come while it is under way get places as always.
//
// With the rules as published, it copies the index to the next epoch, and others wait until that is done. If
// another client's pass is under way, it helps to finish that one.
func (s *Scheme) Rebalance(ctx context.Context, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	if err := s.made(); err != nil {
		return stats, err
	}
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
		stats.Before, stats.After = sweep.Both(stats.Before, w.Before, i), sweep.Both(stats.After, w.After, i)
		if err != nil {
			return stats, err
		}
		done += w.Values
	}
	return stats, nil
}

// rebalancePublished makes a pass, or helps to finish the one that is under way.
func (s *shard) rebalancePublished(ctx context.Context, progress func(done, total int)) (ope.RebalanceStats, error) {
	if err := s.connect(ctx); err != nil {
		return ope.RebalanceStats{}, err
	}
	known, _ := s.version()
	for epoch := known.Epoch; ; epoch++ {
		// What is known may be out of date: an epoch that was over before the call is not meant.
		meta, err := s.units.ReadMeta(ctx, s.unit(epoch))
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
	s    *shard
	top  bool      // the unit has that of the index
	last ope.Nonce // of the last commit

	refused bool // the last commit was
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
	err := w.Run(ctx, w.readValues)
	if err == nil && w.After.Epoch > 1 {
		err = s.copier().Clean(ctx, w.After.Epoch-1) // of what a pass has left that did not come to its end
	}
	return err
}

// readValues is a [sweep.Read]. What was moved has left its old labels, and databases read past these slowly. They are between
// neighbours at one end of the window. So it does not read there if the client knows these as neighbours: the commit
// is conditional on that.
func (w *rebalancing) readValues(ctx context.Context, from, to int64, least uint64) (of sweep.Window, more bool, err error) {
	s := w.s
	lower, upper, rules, version, err := s.ends(ctx, from, to, w.refused)
	if err != nil {
		return of, false, err
	}
	first, last, below := lower.Left, rules.High(), rules.High().Label
	if lower.Linked {
		first = lower.Right
	}
	if upper.Linked {
		last, below = upper.Right, upper.Left.Label.Next()
	}
	p, err := s.read(ctx, version.Epoch, first.Label, below, s.chunk+2)
	if err != nil {
		return of, false, err
	}
	read := p
	read.More = p.More || upper.Linked // somebody may have come between the last two by now
	s.mu.Lock()
	ok, err := s.take(read, first, last, version)
	s.mu.Unlock()
	switch {
	case err != nil || !ok:
		return of, false, err
	case p.Meta.State == ope.StateSealed: // by an earlier version
		_, err := s.copier().Run(ctx, p.Unit.Epoch, nil)
		return of, false, err
	}
	run, err := p.Run(first, last)
	if err != nil {
		return of, false, err
	}
	if lower.Linked {
		run = append([]order.Element{lower.Left}, run...)
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
	of.Others, of.Made = w.last != ope.Nonce{} && p.Meta.Nonce != w.last, w.refused && p.Meta.Nonce == w.last
	of.Commit = func(ctx context.Context, rel order.Relabelling, beside bool) (applied bool, err error) {
		win.firsts, err = rules.Firsts(win.elements, func(i int) bool {
			return beside || i == 0 && lower.Linked || upper.Linked && win.elements[i+1] == upper.Right // was not read
		})
		if err != nil {
			return false, win.unit.Corrupt(err)
		}
		win.beside, w.last = beside, unitio.NewNonce()
		applied, err = s.commitMoves(ctx, win, w.last, rel)
		w.refused = !applied
		return applied, err
	}
	return of, right.Shape.Depth != 0 && right.Value <= to, nil
}

// ends returns the gaps next to what is between two values: below them, where the left neighbour is known, and above them. They
// are linked if the client knows both ends. If it asks, nobody has put anything there since.
func (s *shard) ends(ctx context.Context, from, to int64, ask bool) (lower, upper order.Gap, rules order.Rules, version ope.Version, err error) {
	err = s.locate(ctx, false, func() ([]order.Gap, error) {
		k := &s.known
		version, rules = k.version(), k.rules
		lower, upper = order.Gap{Left: rules.Low()}, k.list.Gap(to)
		if from > k.part.Low.Value {
			if lower = k.list.Gap(from - 1); !lower.Linked && (lower.Left.Shape.Depth == 0 || lower.Left.Value < from-1) {
				return []order.Gap{lower}, nil
			}
		}
		return nil, nil
	})
	within := lower.Linked && lower.Right.Shape.Depth != 0 && lower.Right.Value <= to // is something known
	lower.Linked, upper.Linked = within && lower.Left.Shape.Depth != 0, within && upper.Linked
	for _, g := range []*order.Gap{&lower, &upper} {
		if !g.Linked || !ask || err != nil {
			continue
		}
		var p unit.Page
		if e, ok, _ := rules.Place(g.Left, g.Right); ok {
			p, err = s.read(ctx, version.Epoch, e.Label, e.Label.Next(), 1)
		}
		g.Linked = len(p.Elements) == 0
	}
	return lower, upper, rules, version, err
}
