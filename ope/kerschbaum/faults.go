package kerschbaum

import (
	"context"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/check"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
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
	return s.check(ctx, fault, s.entry)
}

// check is Check with entries that a function makes.
func (s *Scheme) check(ctx context.Context, fault func(record []byte, err error), entry func(order.Element, ope.Version) ope.Entry) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		c := check.Checker{
			Domain: s.domain, Rules: s.rules, Page: s.passPage,
			Units:  func(shard uint32, epoch uint64) *unitio.Shard { return s.shards.get(shard, epoch).units },
			Locate: s.labelOf,
		}
		epoch, _, err := s.shards.first().readRoot(ctx)
		if err == nil {
			err = c.Run(ctx, epoch, fault, func(e order.Element, v ope.Version) bool { return yield(entry(e, v), nil) })
		}
		if err != nil {
			yield(ope.Entry{}, err)
		}
	}
}

// labelOf returns a label of a unit of which label 0 was read, and a version for which it holds: no value from x on is below it.
func (s *Scheme) labelOf(ctx context.Context, number uint32, p unit.Page, x int64) (at order.Label, version ope.Version, err error) {
	sh := s.shards.get(number, p.Unit.Epoch)
	if _, err = sh.note(p); err == nil {
		at, _, version, _, err = sh.bounds(ctx, x, s.domain.Max)
	}
	return at, version, err
}
