// Package check reads an index for faults, and writes nothing. A fault is a record that was altered or moved, or a value out of
// order or there twice. So are neighbours that no insertions can have produced, and fewer values than a unit was opened with.
package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
)

// A Checker knows of an index what it takes to read it.
type Checker struct {
	Domain ope.Domain
	Rules  order.Rules // of the whole index
	Page   int         // records that are read at once

	// Units returns the units of a shard.
	Units func(shard uint32, epoch uint64) *unitio.Shard

	// Locate returns a label with no value below it that is x or above, in the unit of a shard of which label 0 was read. It
	// holds for the version that it returns.
	Locate func(ctx context.Context, shard uint32, p unit.Page, x int64) (order.Label, ope.Version, error)
}

// Run yields the values of an index whose root names an epoch. A fault comes with the key of its record, or without a key where
// it is the unit that is damaged.
func (c Checker) Run(ctx context.Context, epoch uint64, fault func(record []byte, err error), yield func(order.Element, ope.Version) bool) error {
	of := &check{Checker: c, s: c.Units(0, epoch), fault: fault, reported: map[string]bool{}, yield: yield, next: c.Domain.Min}
	return of.run(ctx, epoch)
}

type check struct {
	Checker
	s        *unitio.Shard
	fault    func(record []byte, err error)
	reported map[string]bool
	yield    func(order.Element, ope.Version) bool
	next     int64  // the lowest value that may be yielded yet
	past     bool   // the highest value was yielded
	done     bool   // all was read, or nobody wants more
	right    uint32 // the shard to the right of the one that is read
}

// run reads versions of the index until it has read one to its end. When ciphertexts move, it goes
// on in the version that follows, after the last value that it yielded.
func (c *check) run(ctx context.Context, hint uint64) error {
	s := c.s
	for epoch := max(hint, 1); !c.done; {
		u := s.Unit(epoch)
		meta, err := s.ReadMeta(ctx, u)
		switch {
		case err != nil:
			return err
		case meta.State > ope.StateDivided:
			return u.Corrupt(fmt.Errorf("%w: its state is %d: a newer version of rangecrypt is needed", order.ErrCorrupt, meta.State))
		case meta.State == ope.StateRetired:
			epoch++
			continue
		case meta.State == ope.StateAbsent:
			if epoch > 1 {
				why := "its predecessor is retired"
				if epoch == hint {
					why = "the root names it"
				}
				c.report(u, nil, fmt.Errorf("it was never opened, but %s", why))
			}
			return nil
		}
		if meta.State == ope.StateSealed && c.Rules.RankBits > 0 {
			c.report(u, nil, fmt.Errorf("it is sealed, as no index with ranks ever is"))
		}
		if err := c.parts(ctx, epoch); err != nil {
			return err
		}
	}
	return nil
}

// parts reads the units of an epoch, from the one on that has the lowest value that was not read yet. It returns when
// all was read or another epoch has begun.
func (c *check) parts(ctx context.Context, epoch uint64) error {
	for !c.done {
		p, is, err := c.find(ctx, epoch)
		if err != nil || p.Unit == nil {
			return err
		}
		s := c.s
		from := order.Label{}
		if c.next > is.Low.Value {
			// Without a place to go on from, because what is there is damaged, begin again.
			at, version, err := c.Locate(ctx, s.Number, p, c.next)
			if err == nil && version != (ope.Version{Epoch: epoch, Generation: p.Meta.Generation}) {
				continue
			}
			if err == nil {
				from = at
			}
		}
		if err := c.walk(ctx, p, is, from); err != nil {
			return err
		}
	}
	return nil
}

// find goes to the unit that has the lowest value that was not read yet, and returns its first page. Values that are
// being handed over, and are nobody's, it yields itself. It returns no unit if the epoch is over.
func (c *check) find(ctx context.Context, epoch uint64) (unit.Page, unit.Part, error) {
	s := c.Units(0, epoch)
	var above unit.Page  // the right neighbour
	var others unit.Part // what that has
	for {
		c.s = s
		u := s.Unit(epoch)
		p, err := s.ReadHeader(ctx, u)
		if err == nil && p.Meta.State == ope.StateAbsent { // it was there, or is named: what is not decided yet, a read may miss
			if err = s.Settle(ctx, u); err == nil {
				p, err = s.ReadHeader(ctx, u)
			}
		}
		if errors.Is(err, ope.ErrIndex) && p.Meta.State != ope.StateAbsent {
			// Its header is damaged, or what says which part it has. The walk reports that.
			is := unit.Whole(c.Domain)
			if above.Unit != nil {
				is.Top, is.High = false, others.Low
			}
			return p, is, nil
		}
		if err != nil || p.Meta.State == ope.StateRetired {
			return unit.Page{}, unit.Part{}, err
		}
		if p.Meta.State == ope.StateAbsent {
			c.report(u, nil, fmt.Errorf("it is missing, but its neighbour names it"))
			c.s, c.next = c.Units(c.right, epoch), others.Low.Value
			return above, others, nil
		}
		is := p.PartOf()
		if above.Unit != nil && others.Low.Label.Less(is.High.Label) {
			if err := c.overlap(ctx, above.Unit, p); err != nil {
				return unit.Page{}, unit.Part{}, err
			}
		}
		if above.Unit != nil && !is.Covers(c.next) && is.Low.Value <= c.next && others.N > 0 && unit.SameEdge(is.High, others.Given) {
			if err := c.frozen(ctx, above, epoch); err != nil || c.done {
				return unit.Page{}, unit.Part{}, err
			}
			s, above = c.Units(0, epoch), unit.Page{}
			continue
		}
		if is.Covers(c.next) || is.Left == 0 && above.Unit == nil {
			return p, is, nil
		}
		if is.Low.Value <= c.next || is.Left == 0 {
			c.report(u, unit.PartKey, fmt.Errorf("nobody has the values between its own and those of its neighbour"))
			c.s, c.next = c.Units(c.right, epoch), others.Low.Value
			return above, others, nil
		}
		above, others, c.right = p, is, s.Number
		s = c.Units(is.Left, epoch)
	}
}

// overlap reports a unit that has what its right neighbour has, too, as units have that were put back to different moments. The
// unit was read after the neighbour, which is read again.
func (c *check) overlap(ctx context.Context, neighbour *unit.Unit, p unit.Page) error {
	again, err := c.Units(c.right, neighbour.Epoch).ReadHeader(ctx, neighbour)
	if err == nil && again.PartOf().Low.Label.Less(p.PartOf().High.Label) {
		c.report(p.Unit, unit.PartKey, fmt.Errorf("it has a part of what its neighbour has: one of both was put back"))
	}
	return err
}

// frozen yields the values that a unit is handing over, as they were when its page was read.
func (c *check) frozen(ctx context.Context, p unit.Page, epoch uint64) error {
	is := p.PartOf()
	frozen, err := c.Units(c.right, epoch).Frozen(ctx, p)
	if errors.Is(err, ope.ErrIndex) {
		c.report(p.Unit, nil, err)
		c.next = is.Low.Value
		return nil
	}
	if err != nil || frozen == nil {
		return err
	}
	for _, e := range frozen {
		if e.Value < c.next {
			continue
		}
		if c.done = !c.yield(e, ope.Version{Epoch: epoch, Generation: is.Since}); c.done {
			return nil
		}
	}
	c.next = is.Low.Value
	return nil
}

// A walk reads one version of a unit. In a version, records neither move nor vanish. So two that were
// neighbours when they were read are neighbours that insertions have produced.
type walk struct {
	*check
	unit     *unit.Unit
	part     unit.Part
	rules    order.Rules
	version  ope.Version
	left     order.Element // the last that was good, or the low end
	adjacent bool          // the next element is the right neighbour of left
	opened   uint64        // values that the unit was opened with
	count    uint64        // records so far
}

// walk reads the version of a page from a label on, until its end or until it is not the version any more.
func (c *check) walk(ctx context.Context, p unit.Page, is unit.Part, from order.Label) error {
	s, u, generation := c.s, p.Unit, p.Meta.Generation
	whole := from.IsZero()
	w := &walk{check: c, unit: u, part: is, rules: is.Rules(c.Rules), version: ope.Version{Epoch: u.Epoch, Generation: generation}, adjacent: whole}
	high := w.rules.High()
	w.left = w.rules.Low()
	var least uint64
	if whole {
		var err error
		if least, err = s.ReadLeast(ctx, u); errors.Is(err, ope.ErrIndex) {
			c.report(u, unit.LeastKey, err)
		} else if err != nil {
			return err
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Of the first records alone, since what a division has deleted may follow.
		to, limit := high.Label, c.Page
		if from.IsZero() {
			to, limit = order.Label{Lo: 1}, 2
		}
		view, err := s.ReadRecords(ctx, u, from.Bytes(), to.Bytes(), limit)
		if err != nil {
			return err
		}
		if view.Meta.State == ope.StateRetired || view.Meta.Generation != generation || view.Meta.State < p.Meta.State {
			return nil
		}
		if from.IsZero() {
			if err := w.first(view); err != nil {
				return err
			}
			from = w.rules.From.Next()
			continue
		}
		for _, r := range view.Records {
			if at, ok := order.ParseLabel(r.Key); ok {
				from = at.Next()
			}
			if c.done = !w.record(r); c.done {
				return nil
			}
		}
		if !view.More {
			break
		}
	}
	c.done = is.Top
	if !is.Top {
		c.next = max(c.next, is.High.Value)
	}
	if w.adjacent {
		_, err := w.rules.Between(w.left, high)
		if err == nil && !is.Top && w.left.Shape.Depth > 0 && !w.left.Rises(is.High) {
			err = fmt.Errorf("its highest rank is not below that of its neighbour")
		}
		if err != nil {
			c.report(u, nil, err)
		}
	}
	if least := max(least, w.opened, is.Came); whole && w.count+is.Gone < least {
		c.report(u, nil, fmt.Errorf("it had %d values and has %d records: some are gone", least-min(least, is.Gone), w.count))
	}
	return nil
}

// first checks the records of label 0.
func (w *walk) first(view ope.View) error {
	records := view.Records
	if len(records) > 0 && bytes.Equal(records[0].Key, unit.HeaderKey) {
		h, err := w.unit.OpenHeader(records[0])
		if err != nil {
			return err // another scheme's, or another key's: nothing here can be read
		}
		w.opened, records = h.Values, records[1:]
	} else {
		w.report(w.unit, nil, fmt.Errorf("its header is missing"))
	}
	if len(records) > 0 && bytes.Equal(records[0].Key, unit.PartKey) {
		if _, err := w.unit.OpenPart(records[0]); err != nil {
			w.report(w.unit, unit.PartKey, err)
		}
	} else if view.Meta.State == ope.StateDivided {
		w.report(w.unit, unit.PartKey, fmt.Errorf("what says which part of the index it has is missing"))
	}
	return nil
}

// record checks a record and yields its value. It reports false if nobody wants more.
func (w *walk) record(r ope.Record) bool {
	if at, ok := order.ParseLabel(r.Key); ok && at.Less(w.part.Low.Label) {
		return true // it is being handed over
	}
	w.count++
	e, err := w.unit.OpenElement(r)
	if err == nil && w.left.Shape.Depth > 0 && !w.left.Rises(e) {
		err = fmt.Errorf("its value is not above that of the record before it")
	}
	if err != nil {
		w.report(w.unit, r.Key, err)
		w.adjacent = false
		return true
	}
	if w.adjacent {
		_, err := w.rules.Between(w.left, e)
		if err == nil && w.left.Shape.Depth > 0 && !w.left.Rank.SharedBy(e.Rank) {
			err = fmt.Errorf("it shares a rank that the record before it does not have")
		}
		if err != nil {
			w.report(w.unit, r.Key, err)
		}
	}
	w.left, w.adjacent = e, true
	if w.past || e.Value < w.next {
		return true
	}
	if !w.yield(e, w.version) {
		return false
	}
	if w.past = e.Value == w.Domain.Max; !w.past {
		w.next = e.Value + 1
	}
	return true
}

// report gives a fault once, however often the record is read.
func (c *check) report(u *unit.Unit, record []byte, err error) {
	id := string(u.Name) + "|" + string(record)
	if c.reported[id] {
		return
	}
	c.reported[id] = true
	c.fault(record, fmt.Errorf("unit %q: %w", u.Name, err))
}
