package kerschbaum

import (
	"context"
	"fmt"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Check reads the whole index and yields its values as [Scheme.Range] does, but goes on behind
// records that are not such as clients leave them. Each of these is given to fault, with its key,
// which tells no value, or nil where it is the unit that is damaged: a record that was altered or
// moved, values out of order or there twice, neighbours that no insertions can have produced, or
// fewer values than the unit was opened with.
//
// It reads only, and clients may go on meanwhile. What they leave is no fault. Which of the values
// that were inserted meanwhile are seen is not promised. It is meant for a client that was made for
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
// on in the version that follows, behind the last value that it yielded.
func (c *check) run(ctx context.Context) error {
	s := c.s
	epoch, _, err := s.readRoot(ctx)
	if err != nil {
		return err
	}
	hint := epoch
	for epoch = max(epoch, 1); !c.done; {
		u, err := s.unit(epoch)
		if err != nil {
			return err
		}
		meta, err := s.readMeta(ctx, u)
		switch {
		case err != nil:
			return err
		case meta.State > ope.StateRetired:
			return corrupt(u, fmt.Errorf("%w: its state is %d: a newer version of rangecrypt is needed", errCorrupt, meta.State))
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
		from := label{}
		if c.next > s.domain.Min {
			// Without a place to go on from, because what is there is damaged, begin anew.
			at, version, err := c.resume(ctx, u, meta)
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

// resume returns a label from which on all values are that may be yielded yet, and its version,
// which is that of meta or a later one.
func (c *check) resume(ctx context.Context, u *unit, meta ope.Meta) (label, ope.Version, error) {
	s := c.s
	s.mu.Lock()
	_, err := s.meet(u, meta)
	s.mu.Unlock()
	if err != nil {
		return label{}, ope.Version{}, err
	}
	from, _, version, err := s.bounds(ctx, c.next, s.domain.Max)
	return from, version, err
}

// walk reads one version of a unit from a label on, until its end or until it is not the version
// any more. In a version, records neither move nor vanish, and so two that were neighbours when
// they were read are neighbours that insertions have produced.
func (c *check) walk(ctx context.Context, u *unit, generation uint64, from label) error {
	s := c.s
	low, high := s.rules.ends()
	left, adjacent := low, from.isZero() // whether the next element is the right neighbour of left
	last, some := int64(0), false        // value of the last element that was good
	opened, count := uint64(0), uint64(0)
	whole := from.isZero()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.count(func(n *Stats) { n.RoundTrips++ })
		view, err := s.readRecords(ctx, u, from.bytes(), high.label.bytes(), s.passPage)
		if err != nil {
			return err
		}
		if view.Meta.State == ope.StateRetired || view.Meta.Generation != generation {
			return nil
		}
		if from.isZero() {
			if len(view.Records) > 0 && string(view.Records[0].Key) == string(low.label.bytes()) {
				h, err := s.openHeader(u, view.Records[0])
				if err != nil {
					return err // another scheme's, or another key's: nothing here can be read
				}
				opened = h.values
				view.Records = view.Records[1:]
			} else {
				c.report(u, nil, fmt.Errorf("its header is missing"))
			}
			from = label{0, 1}
		}
		for _, r := range view.Records {
			count++
			at, ok := parseLabel(r.Key)
			if ok {
				from = at.plus(label{0, 1})
			}
			e, err := s.openElement(u, r)
			if err == nil && some && e.value <= last {
				err = fmt.Errorf("its value is not above that of the record before it")
			}
			if err != nil {
				c.report(u, r.Key, err)
				adjacent = false
				continue
			}
			if adjacent {
				if _, err := s.rules.between(left, e); err != nil {
					c.report(u, r.Key, err)
				}
			}
			left, adjacent, last, some = e, true, e.value, true
			if c.past || e.value < c.next {
				continue
			}
			entry := ope.Entry{
				Plaintext: e.value, Ciphertext: s.ciphertext(u.epoch, e.value, e.label),
				Version: ope.Version{Epoch: u.epoch, Generation: generation},
			}
			if !c.yield(entry, nil) {
				c.done = true
				return nil
			}
			if c.past = e.value == s.domain.Max; !c.past {
				c.next = e.value + 1
			}
		}
		if view.More {
			continue
		}
		c.done = true
		if adjacent {
			if _, err := s.rules.between(left, high); err != nil {
				c.report(u, nil, err)
			}
		}
		if whole && count < opened {
			c.report(u, nil, fmt.Errorf("it was opened with %d values and has %d records: some are gone", opened, count))
		}
		return nil
	}
}

// report tells of a fault once, however often the record is read.
func (c *check) report(u *unit, record []byte, err error) {
	id := string(u.name) + "|" + string(record)
	if c.reported[id] {
		return
	}
	c.reported[id] = true
	c.fault(record, fmt.Errorf("unit %q: %w", u.name, err))
}
