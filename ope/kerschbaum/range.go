package kerschbaum

import (
	"bytes"
	"context"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
)

// bound returns the lowest string at or above the ciphertexts of a label.
func bound(c label) ope.Ciphertext {
	return append(c.bytes(), make([]byte, ciphertextSize-labelSize)...)
}

// top returns the bound that is above every ciphertext.
func top() ope.Ciphertext {
	return append(bytes.Repeat([]byte{0xff}, ciphertextSize), 0)
}

// Intervals implements [ope.Scheme]. It reads what is around both bounds, in one round trip if the
// client remembers where they are. A bound that is in the index is exact as long as the version
// lasts. Into the gap around one that is not, values on both sides of it may be put later, and the
// interval holds them all: check what a query returns.
//
// Use it where ciphertexts are kept outside the index, and compare the interval's version with that of the ciphertexts
// before and after the query. [Scheme.Range] yields what is in the index, however often ciphertexts move.
func (s *Scheme) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	within, ok := s.domain.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var bounds []int64
	bounded := within.Min > s.domain.Min // from below
	if bounded {
		bounds = append(bounds, within.Min)
	}
	if within.Max < s.domain.Max {
		bounds = append(bounds, within.Max)
	}
	for {
		var gaps []gap
		var version ope.Version
		err := s.locate(ctx, false, func() (unlinked []gap, err error) {
			gaps = gaps[:0]
			version = s.known.version()
			for _, x := range bounds {
				e, ok := s.known.list.find(x)
				g := s.known.list.gap(x)
				switch {
				case ok:
					gaps = append(gaps, gap{left: e, right: element{label: e.label.plus(label{0, 1})}})
				case g.linked:
					gaps = append(gaps, g)
				default:
					unlinked = append(unlinked, g)
				}
			}
			return unlinked, nil
		})
		if err != nil {
			return nil, err
		}
		iv, ok, err := s.interval(ctx, version, bounds, gaps, bounded)
		if ok || err != nil {
			return []ope.Interval{iv}, err
		}
	}
}

// interval returns the interval between bounds, if the index still has the version. The bounds, with
// their gaps, are those that are not ends of the domain: the lower one first, if it is bounded from below.
func (s *Scheme) interval(ctx context.Context, version ope.Version, bounds []int64, gaps []gap, bounded bool) (ope.Interval, bool, error) {
	iv := ope.Interval{Start: make(ope.Ciphertext, ciphertextSize), End: top(), Version: version}
	if len(gaps) == 0 {
		u := s.unit(version.Epoch)
		meta, err := s.readMeta(ctx, u)
		if err != nil {
			return iv, false, err
		}
		ok, err := s.note(u, meta)
		return iv, ok && meta.Generation == version.Generation, err
	}
	spans := make([]span, len(gaps))
	for i, g := range gaps {
		spans[i] = span{g.left.label, g.right.label, s.page}
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
		for at+1 < len(run)-1 && run[at+1].value <= x {
			at++
		}
		exact := run[at].shape.depth != 0 && run[at].value == x
		switch {
		case lower && exact:
			iv.Start = bound(run[at].label)
		case lower:
			iv.Start = bound(run[at].label.plus(label{0, 1}))
		case exact:
			iv.End = bound(run[at].label.plus(label{0, 1}))
		case run[at+1] != s.rules.high():
			iv.End = bound(run[at+1].label)
		}
	}
	return iv, true, nil
}

// between returns what is in a gap now, with both its ends: other clients may have put values there. It returns nil
// if there is more than a page, or the version is over. It is called with s.mu held.
func (s *Scheme) between(p page, g gap, version ope.Version) ([]element, error) {
	if ok, err := s.meet(p.unit, p.meta); err != nil || !ok || p.meta.Generation != version.Generation {
		return nil, err
	}
	run, err := p.run(g.left, g.right)
	if err != nil {
		return nil, err
	}
	if p.more {
		return nil, s.learn(p.unit, run)
	}
	if g.right.shape.depth == 0 && g.right != s.rules.high() {
		return run, nil // the label after a value that is in the index is no neighbour
	}
	return run, s.learn(p.unit, run)
}

// Range implements [ope.Mutable].
func (s *Scheme) Range(ctx context.Context, lo, hi int64) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		within, ok := s.domain.Intersect(lo, hi)
		for ok {
			var err error
			if ok, err = s.rangeOn(ctx, &within, yield); err != nil {
				yield(ope.Entry{}, err)
				return
			}
		}
	}
}

// rangeOn yields the values within, and raises the lower bound beyond them. It reports whether there may be more,
// since ciphertexts have moved.
func (s *Scheme) rangeOn(ctx context.Context, within *ope.Domain, yield func(ope.Entry, error) bool) (bool, error) {
	from, to, version, err := s.bounds(ctx, within.Min, within.Max)
	if err != nil {
		return false, err
	}
	// Pages double: opening a record costs more than the rest of reading it.
	for size := min(32, s.page); ; size = min(2*size, s.page) {
		p, err := s.read(ctx, version.Epoch, from, to, size)
		if err != nil {
			return false, err
		}
		if _, err := s.note(p.unit, p.meta); err != nil {
			return false, err
		}
		if p.meta.State == ope.StateRetired || p.meta.Generation != version.Generation {
			return true, nil
		}
		for _, e := range p.elements {
			if e.value > within.Max {
				return false, nil
			}
			from = e.label.plus(label{0, 1})
			if e.value < within.Min {
				continue
			}
			if !yield(ope.Entry{Plaintext: e.value, Ciphertext: s.ciphertext(version.Epoch, e.value, e.label), Version: version}, nil) || e.value == within.Max {
				return false, nil
			}
			within.Min = e.value + 1
		}
		if !p.more {
			return false, nil
		}
		if from.isZero() {
			from = label{0, 1} // the page held the header only
		}
	}
}

// bounds returns labels between which all values in [lo, hi] are, the upper one excluded, and the
// version that they are of.
func (s *Scheme) bounds(ctx context.Context, lo, hi int64) (from, to label, version ope.Version, err error) {
	err = s.locate(ctx, false, func() ([]gap, error) {
		version = s.known.version()
		from, to = label{}, s.rules.high().label
		if e, ok := s.known.list.find(hi); ok {
			to = e.label.plus(label{0, 1})
		} else if hi != s.domain.Max {
			// Whatever is known above is above, though there may be others before it.
			to = s.known.list.gap(hi).right.label
		}
		if lo == s.domain.Min {
			return nil, nil
		}
		if e, ok := s.known.list.find(lo); ok {
			from = e.label
			return nil, nil
		}
		g := s.known.list.gap(lo)
		from = g.left.label
		if g.linked {
			return nil, nil
		}
		return []gap{g}, nil
	})
	return from, to, version, err
}
