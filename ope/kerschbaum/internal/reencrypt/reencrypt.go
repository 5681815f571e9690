// Package reencrypt has the re-encryption pass, which copies an epoch to the next one (Kerschbaum and Schröpfer, CCS 2014,
// section 3; Waage et al. 2016, section 3.2.2). Any number of clients may make the same pass at the same time, and each may
// die at any step. For every step is conditional on what the unit is, and what is written is a function of what was sealed.
//
//  1. The unit is sealed: nothing is put into it any more.
//  2. Its values are read, and copied to the next unit, with the labels that order.Rules.Spread gives
//     them, each if it is not there yet and the next unit was not opened yet.
//  3. The next unit is opened.
//  4. The unit is retired. Nobody uses the next one before.
//  5. The root is set to the next epoch.
//  6. The records of the unit are deleted. Its meta never is, so that it is retired for ever.
//
// So the rules as published move everything. The others do so in place, see Scheme.Rebalance. They make a pass
// only where an earlier version has sealed a unit.
//
// What a copier that slept from step 2 on does when it wakes is refused: the next unit is open.
package reencrypt

import (
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// A Copier makes the passes of a shard. A unit that was divided is never sealed, so that the one that it copies is the whole index.
type Copier struct {
	*unitio.Shard
	Rules order.Rules
	Chunk int // elements in a commit; all clients must agree on it
	Page  int // elements that are read at once

	Begun  func()            // is called when it begins to copy
	Copied func(n int)       // is called when n more values were copied
	Ended  func(next uint64) // is called when an epoch is over
}

// Run makes the pass that ends an epoch, or finishes it. Of a unit that is retired already it
// returns the result.
func (c *Copier) Run(ctx context.Context, epoch uint64, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	u := c.Unit(epoch)
	next := c.Unit(epoch + 1)
	if c.Rules.RankBits > 0 {
		return stats, u.Corrupt(fmt.Errorf("%w: it is sealed, as no index with ranks ever is", order.ErrCorrupt))
	}
	if epoch >= lastEpoch {
		return stats, fmt.Errorf("%w: unit %q is of the last epoch that can be", ope.ErrFull, u.Name)
	}
	meta, err := c.seal(ctx, u)
	if err != nil {
		return stats, err
	}
	retired := false // by this call
	if meta.State == ope.StateSealed {
		c.Begun()
		frozen, ok, err := c.frozen(ctx, u)
		if err != nil {
			return stats, err
		}
		if ok {
			if err := c.copyTo(ctx, next, frozen, meta.Generation, progress); err != nil {
				return stats, err
			}
			if retired, err = c.retire(ctx, u); err != nil {
				return stats, err
			}
		}
	}
	c.Ended(epoch + 1)
	if err := c.point(ctx, epoch+1); err != nil {
		return stats, err
	}
	first, err := c.ReadHeader(ctx, next)
	if err != nil {
		return stats, err
	}
	if first.Header == nil {
		return stats, next.Corrupt(fmt.Errorf("%w: its header is missing", order.ErrCorrupt))
	}
	if retired {
		if err := c.Clean(ctx, epoch); err != nil {
			return stats, fmt.Errorf("the pass is done, but not the cleaning up: %w", err)
		}
	}
	values := int(first.Header.Values)
	before := ope.Version{Epoch: epoch, Generation: first.Header.Generation}
	return ope.RebalanceStats{Values: values, Moved: values, Before: before, After: ope.Version{Epoch: epoch + 1}}, nil
}

// seal seals the unit, and returns its meta: it is sealed, or retired by now.
func (c *Copier) seal(ctx context.Context, u *unit.Unit) (ope.Meta, error) {
	for conflicts := 0; ; conflicts++ {
		p, err := c.ReadHeader(ctx, u)
		if err != nil {
			return ope.Meta{}, err
		}
		switch {
		case p.Meta.State == ope.StateSealed || p.Meta.State == ope.StateRetired:
			return p.Meta, nil
		case p.Meta.State > ope.StateRetired || p.Meta.State == ope.StateAbsent && u.Epoch > 1:
			return ope.Meta{}, u.Corrupt(fmt.Errorf("%w: its state is %d", order.ErrCorrupt, p.Meta.State))
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return ope.Meta{}, err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateSealed, Generation: p.Meta.Generation, Nonce: unitio.NewNonce()}}
		if p.Meta.State == ope.StateAbsent {
			change.Puts = []ope.Record{u.SealHeader(unit.Header{})}
		}
		if _, err := c.Commit(ctx, u, ope.Condition{State: p.Meta.State, Generation: p.Meta.Generation}, change); err != nil {
			return ope.Meta{}, err
		}
		// Whether it was applied is seen by reading.
	}
}

// frozen returns the elements of a sealed unit. It reports false if the unit is retired by now.
func (c *Copier) frozen(ctx context.Context, u *unit.Unit) ([]order.Element, bool, error) {
	var all []order.Element
	unsealed := 0
	for from := (order.Label{}); ; {
		p, err := c.Read(ctx, u.Epoch, from, c.Rules.High().Label, c.Page)
		if err != nil {
			return nil, false, err
		}
		if p.Meta.State == ope.StateRetired {
			return nil, false, nil
		}
		if p.Meta.State != ope.StateSealed { // it was: what is not decided yet, the next read may miss
			latest, err := c.Decide(ctx, u, p.Meta)
			if latest {
				err = u.Corrupt(fmt.Errorf("%w: it was sealed, and its state is %d", order.ErrCorrupt, p.Meta.State))
			}
			if err == nil {
				err = unitio.BackOff(ctx, unsealed)
			}
			if err != nil {
				return nil, false, err
			}
			unsealed++
			continue
		}
		if len(all) > 0 && len(p.Elements) > 0 && all[len(all)-1].Value >= p.Elements[0].Value {
			return nil, false, u.Corrupt(fmt.Errorf("%w: record %x is out of order", order.ErrCorrupt, p.Elements[0].Label.Bytes()))
		}
		all = append(all, p.Elements...)
		if !p.More {
			return all, true, nil
		}
		if len(all) > 0 {
			from = all[len(all)-1].Label.Next()
		}
	}
}

// lastEpoch is the last that a ciphertext has room for.
const lastEpoch = 1<<32 - 1

// copyTo copies the frozen elements of a unit to the next one and opens it, unless it is open.
func (c *Copier) copyTo(ctx context.Context, next *unit.Unit, frozen []order.Element, generation uint64, progress func(done, total int)) error {
	values := make([]int64, len(frozen))
	for i, e := range frozen {
		values[i] = e.Value
	}
	copies, err := c.Rules.Spread(values)
	if err != nil {
		return next.Corrupt(err)
	}
	if progress != nil {
		progress(0, len(copies))
	}
	for part := 0; part*c.Chunk < len(copies); part++ {
		from, to := part*c.Chunk, min((part+1)*c.Chunk, len(copies))
		open, err := c.copyPart(ctx, next, copies[from:to])
		if err != nil {
			return err
		}
		if open {
			return nil
		}
		c.Copied(to - from)
		if progress != nil {
			progress(to, len(copies))
		}
	}
	for conflicts := 0; ; conflicts++ {
		change := ope.Change{
			Puts: []ope.Record{next.SealHeader(unit.Header{Values: uint64(len(copies)), Generation: generation})},
			Meta: ope.Meta{State: ope.StateOpen, Nonce: unitio.NewNonce()},
		}
		applied, err := c.Commit(ctx, next, ope.Condition{State: ope.StateAbsent}, change)
		if applied || err != nil {
			return err
		}
		meta, err := c.ReadMeta(ctx, next)
		if err != nil || meta.State != ope.StateAbsent {
			return err
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return err
		}
	}
}

// copyPart writes some elements to the next unit. It reports whether the unit is open already, so that all of
// them are there or were.
func (c *Copier) copyPart(ctx context.Context, next *unit.Unit, copies []order.Element) (open bool, err error) {
	missing := copies
	for conflicts := 0; ; conflicts++ {
		cond := ope.Condition{State: ope.StateAbsent}
		change := ope.Change{Meta: ope.Meta{Nonce: unitio.NewNonce()}}
		for _, e := range missing {
			cond.Absent = append(cond.Absent, e.Label.Bytes())
			change.Puts = append(change.Puts, next.SealElement(e))
		}
		applied, err := c.Commit(ctx, next, cond, change)
		if applied || err != nil {
			return false, err
		}
		last := copies[len(copies)-1].Label
		p, err := c.Read(ctx, next.Epoch, copies[0].Label, last.Next(), len(copies))
		if err != nil {
			return false, err
		}
		if p.Meta.State != ope.StateAbsent {
			return true, nil
		}
		missing = slices.DeleteFunc(slices.Clone(copies), func(e order.Element) bool {
			_, there := slices.BinarySearchFunc(p.Elements, e.Label, order.Element.CompareLabel)
			return there
		})
		if len(missing) == 0 {
			return false, nil
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return false, err
		}
	}
}

// retire retires a sealed unit whose successor is open, and reports whether it was this call that
// did. It writes the header, which stays for ever, in the present format.
func (c *Copier) retire(ctx context.Context, u *unit.Unit) (bool, error) {
	for conflicts := 0; ; conflicts++ {
		p, err := c.ReadHeader(ctx, u)
		if err != nil || p.Meta.State == ope.StateRetired {
			return false, err
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return false, err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateRetired, Generation: p.Meta.Generation, Nonce: unitio.NewNonce()}}
		if p.Header != nil {
			change.Puts = []ope.Record{u.SealHeader(*p.Header)}
		}
		applied, err := c.Commit(ctx, u, ope.Condition{State: p.Meta.State, Generation: p.Meta.Generation}, change)
		if applied || err != nil {
			return applied, err
		}
	}
}

// point sets the root to an epoch that is open, or was, unless it is at a later one.
func (c *Copier) point(ctx context.Context, epoch uint64) error {
	u := c.Unit(unit.Root)
	for conflicts := 0; ; conflicts++ {
		meta, _, err := c.ReadRoot(ctx)
		if err != nil || meta.Generation >= epoch {
			return err
		}
		if err := unitio.BackOff(ctx, conflicts); err != nil {
			return err
		}
		change := ope.Change{Meta: ope.Meta{State: ope.StateOpen, Generation: epoch, Nonce: unitio.NewNonce()}}
		applied, err := c.Commit(ctx, u, ope.Condition{State: meta.State, Generation: meta.Generation}, change)
		if applied || err != nil {
			return err
		}
	}
}

// Clean deletes the records of a retired epoch, other than its header.
func (c *Copier) Clean(ctx context.Context, epoch uint64) error {
	u := c.Unit(epoch)
	from := order.Label{Lo: 1}.Bytes()
	for conflicts := 0; ; conflicts++ {
		view, err := c.ReadRecords(ctx, u, from, nil, c.Chunk)
		if err != nil || len(view.Records) == 0 {
			return err
		}
		if view.Meta.State != ope.StateRetired {
			return u.Corrupt(fmt.Errorf("%w: it is not retired, but its successor is open", order.ErrCorrupt))
		}
		change := ope.Change{Meta: view.Meta}
		for _, r := range view.Records {
			change.Deletes = append(change.Deletes, r.Key)
		}
		cond := ope.Condition{State: ope.StateRetired, Generation: view.Meta.Generation}
		applied, err := c.Commit(ctx, u, cond, change)
		if err != nil || applied && !view.More {
			return err
		}
		if applied {
			from = append(view.Records[len(view.Records)-1].Key, 0)
			conflicts = 0
		} else if err := unitio.BackOff(ctx, conflicts); err != nil {
			return err
		}
	}
}
