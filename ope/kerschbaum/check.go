package kerschbaum

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// Check reads the whole index and yields its values as [Scheme.Range] does, but goes on after records that are not
// such as clients leave them. Each of these is given to fault, with its key, which shows no value. The key is nil
// where it is the unit that is damaged. A fault is a record that was altered or moved, values out of order or
// there twice, neighbours that no insertions can have produced, or fewer values than the unit was opened with.
//
// It reads only, and clients may go on. What they leave is no fault. It may or may not see values
// that are inserted during it. It is meant for a client that was made for
// it, since one that is in use remembers what it has read before.
func (s *Scheme) Check(ctx context.Context, fault func(record []byte, err error)) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		c := &check{s: s, fault: fault, reported: map[string]bool{}, yield: yield, next: s.domain.Min}
		if err := c.run(ctx); err != nil {
			yield(ope.Entry{}, err)
		}
	}
}

type check struct {
	s        *Scheme
	fault    func(record []byte, err error)
	reported map[string]bool
	yield    func(ope.Entry, error) bool
	next     int64 // the lowest value that may be yielded yet
	past     bool  // the highest value was yielded
	done     bool  // all was read, or nobody wants more
}

// run reads versions of the index until it has read one to its end. When ciphertexts move, it goes
// on in the version that follows, after the last value that it yielded.
func (c *check) run(ctx context.Context) error {
	s := c.s
	epoch, _, err := s.readRoot(ctx)
	if err != nil {
		return err
	}
	hint := epoch
	for epoch = max(epoch, 1); !c.done; {
		u := s.unit(epoch)
		meta, err := s.readMeta(ctx, u)
		switch {
		case err != nil:
			return err
		case meta.State > ope.StateRetired:
			return corrupt(u, fmt.Errorf("%w: its state is %d: a newer version of rangecrypt is needed", order.ErrCorrupt, meta.State))
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
		from := order.Label{}
		if c.next > s.domain.Min {
			// Without a place to go on from, because what is there is damaged, begin again.
			_, err := s.note(u, meta)
			var at order.Label
			var version ope.Version
			if err == nil {
				at, _, version, err = s.bounds(ctx, c.next, s.domain.Max)
			}
			if err == nil && version != (ope.Version{Epoch: epoch, Generation: meta.Generation}) {
				epoch = version.Epoch
				continue
			}
			if err == nil {
				from = at
			}
		}
		if err := c.walk(ctx, u, meta.Generation, from); err != nil {
			return err
		}
	}
	return nil
}

// A walk reads one version of a unit. In a version, records neither move nor vanish. So two that were
// neighbours when they were read are neighbours that insertions have produced.
type walk struct {
	*check
	unit     *unit
	version  ope.Version
	left     order.Element // the last that was good, or the low end
	adjacent bool          // the next element is the right neighbour of left
	opened   uint64        // values that the unit was opened with
	count    uint64        // records so far
}

// walk reads a version from a label on, until its end or until it is not the version any more.
func (c *check) walk(ctx context.Context, u *unit, generation uint64, from order.Label) error {
	s := c.s
	high := s.rules.High()
	whole := from.IsZero()
	w := &walk{check: c, unit: u, version: ope.Version{Epoch: u.epoch, Generation: generation}, adjacent: whole}
	var least uint64
	if whole {
		var err error
		if least, err = s.readLeast(ctx, u); errors.Is(err, ope.ErrIndex) {
			c.report(u, tailKey(leastKind, nil), err)
		} else if err != nil {
			return err
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		view, err := s.readRecords(ctx, u, from.Bytes(), high.Label.Bytes(), s.passPage)
		if err != nil {
			return err
		}
		if view.Meta.State == ope.StateRetired || view.Meta.Generation != generation {
			return nil
		}
		if from.IsZero() {
			if len(view.Records) > 0 && string(view.Records[0].Key) == string(from.Bytes()) {
				h, err := s.openHeader(u, view.Records[0])
				if err != nil {
					return err // another scheme's, or another key's: nothing here can be read
				}
				w.opened = h.values
				view.Records = view.Records[1:]
			} else {
				c.report(u, nil, fmt.Errorf("its header is missing"))
			}
			from = order.Label{Lo: 1}
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
	c.done = true
	if w.adjacent {
		if _, err := s.rules.Between(w.left, high); err != nil {
			c.report(u, nil, err)
		}
	}
	if least := max(least, w.opened); whole && w.count < least {
		c.report(u, nil, fmt.Errorf("it had %d values and has %d records: some are gone", least, w.count))
	}
	return nil
}

// record checks a record and yields its value. It reports false if nobody wants more.
func (w *walk) record(r ope.Record) bool {
	w.count++
	e, err := w.s.openElement(w.unit, r)
	if err == nil && !w.left.Label.IsZero() && e.Value <= w.left.Value {
		err = fmt.Errorf("its value is not above that of the record before it")
	}
	if err != nil {
		w.report(w.unit, r.Key, err)
		w.adjacent = false
		return true
	}
	if w.adjacent {
		if _, err := w.s.rules.Between(w.left, e); err != nil {
			w.report(w.unit, r.Key, err)
		}
	}
	w.left, w.adjacent = e, true
	if w.past || e.Value < w.next {
		return true
	}
	if !w.yield(ope.Entry{Plaintext: e.Value, Ciphertext: w.s.ciphertext(w.unit.epoch, e.Value, e.Label), Version: w.version}, nil) {
		return false
	}
	if w.past = e.Value == w.s.domain.Max; !w.past {
		w.next = e.Value + 1
	}
	return true
}

// report gives a fault once, however often the record is read.
func (c *check) report(u *unit, record []byte, err error) {
	id := string(u.name) + "|" + string(record)
	if c.reported[id] {
		return
	}
	c.reported[id] = true
	c.fault(record, fmt.Errorf("unit %q: %w", u.name, err))
}
