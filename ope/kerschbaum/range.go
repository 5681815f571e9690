package kerschbaum

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/sweep"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Intervals implements [ope.Scheme]. It reads what is around both bounds, in one round trip if the client remembers where
// they are. A bound that is in the index is exact as long as the version lasts. Into the gap around one that is not, values
// on both sides of it may be put later, and the interval holds them all: check what a query returns.
//
// Use it where ciphertexts are kept outside the index, and compare the interval's version with that of the ciphertexts
// before and after the query. [Scheme.Range] yields what is in the index, however often ciphertexts move.
//
// Where the index has several units, the version is that of both units where the bounds are, together. A value that is just being
// handed over from one to another is put into the other first, for which the client must be allowed to write.
func (s *Scheme) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	within, ok := s.orZero().domain.Intersect(lo, hi)
	if !ok {
		return nil, s.made()
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		lower, upper := s.shards.at(within.Min), s.shards.at(within.Max)
		iv, err := lower.intervalOf(ctx, within, true, lower == upper)
		if err == nil && lower != upper {
			var above ope.Interval
			above, err = upper.intervalOf(ctx, within, false, true)
			iv.End, iv.Version = above.End, sweep.Both(iv.Version, above.Version, 1)
		}
		if err == nil {
			return []ope.Interval{iv}, nil
		}
		if !errors.Is(err, errElsewhere) {
			return nil, err
		}
		if err := cmp.Or(s.lead(ctx, lower, within.Min), s.lead(ctx, upper, within.Max)); err != nil {
			return nil, err
		}
	}
}

// intervalOf returns the interval of a range of which the unit has the place of the lower bound, the upper one, or both, as
// it says; the other is left open.
func (s *shard) intervalOf(ctx context.Context, within ope.Domain, lower, upper bool) (ope.Interval, error) {
	var bounds []int64
	bounded := lower && within.Min > s.domain.Min
	if bounded {
		bounds = append(bounds, within.Min)
	}
	if upper && within.Max < s.domain.Max {
		bounds = append(bounds, within.Max)
	}
	for {
		var gaps []order.Gap
		var version ope.Version
		err := s.locate(ctx, false, func() (unlinked []order.Gap, err error) {
			gaps = gaps[:0]
			version = s.known.version()
			if lower && !s.known.part.Covers(within.Min) || upper && !s.known.part.Covers(within.Max) {
				return nil, errElsewhere
			}
			for _, x := range bounds {
				e, ok := s.known.list.Find(x)
				g := s.known.list.Gap(x)
				switch {
				case ok:
					gaps = append(gaps, order.Gap{Left: e, Right: order.Element{Label: e.Label.Next()}})
				case g.Linked:
					gaps = append(gaps, g)
				default:
					unlinked = append(unlinked, g)
				}
			}
			return unlinked, nil
		})
		if err != nil {
			return ope.Interval{}, err
		}
		iv, ok, err := s.interval(ctx, version, bounds, gaps, bounded)
		if ok || err != nil {
			return iv, err
		}
	}
}

// interval returns the interval between bounds, if the index still has the version. The bounds, with
// their gaps, are those that are not ends of the domain: the lower one first, if it is bounded from below.
func (s *shard) interval(ctx context.Context, version ope.Version, bounds []int64, gaps []order.Gap, bounded bool) (ope.Interval, bool, error) {
	iv := ope.Interval{Start: make(ope.Ciphertext, unit.CiphertextSize), End: unit.Top(), Version: version}
	if len(gaps) == 0 {
		u := s.unit(version.Epoch)
		meta, err := s.units.ReadMeta(ctx, u)
		if err != nil {
			return iv, false, err
		}
		ok, err := s.note(unit.Page{Unit: u, Meta: meta})
		return iv, ok && meta.Generation == version.Generation, err
	}
	spans := make([]span, len(gaps))
	for i, g := range gaps {
		spans[i] = span{g.Left.Label, g.Right.Label, s.pageSize()}
	}
	pages, err := s.readAll(ctx, version.Epoch, spans)
	if err != nil {
		return iv, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pages {
		run, err := s.between(p, gaps[i], version)
		if run == nil || err != nil {
			return iv, false, err
		}
		lower, x := bounded && i == 0, bounds[i]
		// The last of the run whose value is at most x, or the low end.
		at := 0
		for at+1 < len(run)-1 && run[at+1].Value <= x {
			at++
		}
		exact := run[at].Shape.Depth != 0 && run[at].Value == x
		switch {
		case lower && exact:
			iv.Start = unit.Bound(run[at].Label)
		case lower:
			iv.Start = unit.Bound(run[at].Label.Next())
		case exact:
			iv.End = unit.Bound(run[at].Label.Next())
		case run[at+1] != s.rules.High(): // of the index
			iv.End = unit.Bound(run[at+1].Label)
		}
	}
	return iv, true, nil
}

// between returns what is in a gap now, with both its ends: other clients may have put values there. It returns nil
// if there is more than a page, or the version is over. It is called with s.mu held.
func (s *shard) between(p unit.Page, g order.Gap, version ope.Version) ([]order.Element, error) {
	if ok, err := s.meet(p); err != nil || !ok || p.Meta.Generation != version.Generation {
		return nil, err
	}
	run, err := p.Run(g.Left, g.Right)
	if err != nil {
		return nil, err
	}
	if p.More {
		return nil, s.learn(p.Unit, run)
	}
	if g.Right.Shape.Depth == 0 && g.Right != s.known.rules.High() {
		return run, nil // the label after a value that is in the index is no neighbour
	}
	return run, s.learn(p.Unit, run)
}

// Range implements [ope.Mutable]. It writes nothing, so that who may only read can use it.
func (s *Scheme) Range(ctx context.Context, lo, hi int64) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		err := s.each(ctx, lo, hi, func(e order.Element, v ope.Version) bool { return yield(s.entry(e, v), nil) })
		if err != nil {
			yield(ope.Entry{}, err)
		}
	}
}

// each calls yield for the values of Range until it returns false.
func (s *Scheme) each(ctx context.Context, lo, hi int64, yield func(order.Element, ope.Version) bool) error {
	within, ok := s.orZero().domain.Intersect(lo, hi)
	if !ok {
		return s.made()
	}
	return s.read(ctx, &reading{Domain: within}, yield)
}

// A reading is a range of values that is read, as far as they were not yielded yet.
type reading struct {
	ope.Domain
	below *order.Element // the highest that is lower, if there is one: with it a read of the first begins
}

// read is each, for a reading.
func (s *Scheme) read(ctx context.Context, within *reading, yield func(order.Element, ope.Version) bool) error {
	for more := true; more; {
		err := ctx.Err()
		if err == nil {
			more, err = s.rangeAt(ctx, s.shards.at(within.Min), within, yield)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rangeAt is rangeOn, or, if the shard turns out not to have the lower bound, goes on to where that is.
func (s *Scheme) rangeAt(ctx context.Context, sh *shard, within *reading, yield func(order.Element, ope.Version) bool) (bool, error) {
	more, err := sh.rangeOn(ctx, within, yield)
	if !errors.Is(err, errElsewhere) {
		return more, err
	}
	gap, err := s.follow(ctx, sh, within.Min)
	if err != nil || gap == nil {
		return true, err
	}
	return gap.entries(ctx, within, yield)
}

// rangeOn yields the values within that are in the unit, and raises the lower bound beyond them. It reports whether there
// may be more, since ciphertexts have moved, or in another unit.
func (s *shard) rangeOn(ctx context.Context, within *reading, yield func(order.Element, ope.Version) bool) (bool, error) {
	from, to, version, end, err := s.bounds(ctx, within.Min, within.Max)
	if err != nil {
		return false, err
	}
	// Pages double: opening a record costs more than the rest of reading it.
	for size := min(32, s.pageSize()); ; size = min(2*size, s.pageSize()) {
		p, err := s.read(ctx, version.Epoch, from, to, size)
		if err != nil {
			return false, err
		}
		if _, err := s.note(p); err != nil {
			return false, err
		}
		if p.Meta.State == ope.StateRetired || p.Meta.Generation != version.Generation {
			return true, nil
		}
		for _, e := range p.Elements {
			if e.Value > within.Max {
				return false, nil
			}
			from = e.Label.Next()
			if e.Value < within.Min {
				within.below = &e
				continue
			}
			if !yield(e, version) || e.Value == within.Max {
				return false, nil
			}
			within.Min = e.Value + 1
		}
		if !p.More {
			if end == nil || within.Max < *end {
				return false, nil
			}
			within.Min = *end
			return true, nil
		}
		if from.IsZero() {
			from = order.Label{Lo: 1} // the page held the first records only
		}
	}
}

// bounds returns labels between which all values in [lo, hi] are that are in the unit, the upper one excluded, and the
// version that they are of. The end is the lowest value that another unit has, or nil.
func (s *shard) bounds(ctx context.Context, lo, hi int64) (from, to order.Label, version ope.Version, end *int64, err error) {
	err = s.locate(ctx, false, func() ([]order.Gap, error) {
		is, rules := s.known.part, s.known.rules
		if !is.Covers(lo) {
			return nil, errElsewhere
		}
		if end = nil; !is.Top {
			end = &is.High.Value
		}
		version = s.known.version()
		from, to = rules.From, rules.High().Label
		if e, ok := s.known.list.Find(hi); ok {
			to = e.Label.Next()
		} else if hi != s.domain.Max {
			// Whatever is known above is above, though there may be others before it.
			to = s.known.list.Gap(hi).Right.Label
		}
		if lo == is.Low.Value {
			return nil, nil
		}
		if e, ok := s.known.list.Find(lo); ok {
			from = e.Label
			return nil, nil
		}
		g := s.known.list.Gap(lo)
		from = g.Left.Label
		if g.Linked {
			return nil, nil
		}
		return []order.Gap{g}, nil
	})
	return from, to, version, end, err
}
