package kerschbaum

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
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
func (s *Scheme) Intervals(ctx context.Context, lo, hi int64) ([]ope.Interval, error) {
	within, ok := s.domain.Intersect(lo, hi)
	if !ok {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var bounds []int64
	if within.Min > s.domain.Min {
		bounds = append(bounds, within.Min)
	}
	if within.Max < s.domain.Max {
		bounds = append(bounds, within.Max)
	}
	for {
		var gaps []gap
		var version ope.Version
		err := s.locate(ctx, func() (unlinked []gap, err error) {
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
		iv, ok, err := s.interval(ctx, version, within, gaps)
		if ok || err != nil {
			return []ope.Interval{iv}, err
		}
	}
}

// interval returns the interval of the values within, if the index still has the version. The gaps
// are those of the bounds that are not ends of the domain.
func (s *Scheme) interval(ctx context.Context, version ope.Version, within ope.Domain, gaps []gap) (ope.Interval, bool, error) {
	iv := ope.Interval{Start: make(ope.Ciphertext, ciphertextSize), End: top(), Version: version}
	if len(gaps) == 0 {
		ok, err := s.isCurrent(ctx, version)
		return iv, ok, err
	}
	pages := make([]page, len(gaps))
	errs := make([]error, len(gaps))
	s.parallel(len(gaps), func(i int) {
		pages[i], errs[i] = s.read(ctx, version.Epoch, gaps[i].left.label, gaps[i].right.label, s.page)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range pages {
		if errs[i] != nil {
			return iv, false, errs[i]
		}
		if ok, err := s.meet(p.unit, p.meta); err != nil || !ok {
			return iv, false, err
		}
		if p.version() != version {
			return iv, false, nil
		}
		if !gaps[i].left.label.isZero() && (len(p.elements) == 0 || p.elements[0] != gaps[i].left) {
			return iv, false, corrupt(p.unit, fmt.Errorf("%w: record %x is gone", errCorrupt, gaps[i].left.label.bytes()))
		}
		// What other clients have put into the gap: the bound is between two of them.
		run := p.elements
		if gaps[i].left.label.isZero() {
			run = append([]element{gaps[i].left}, run...)
		}
		right := gaps[i].right
		if p.more {
			// More than a page: find the bound anew.
			if err := s.learn(p.unit, run); err != nil {
				return iv, false, err
			}
			return iv, false, nil
		}
		if right.shape.depth != 0 || s.isHigh(right.label) {
			run = append(run, right)
			if err := s.learn(p.unit, run); err != nil {
				return iv, false, err
			}
		} else {
			run = append(run, right) // the label behind a value that is in the index
		}
		lower := within.Min > s.domain.Min && i == 0
		x := within.Max
		if lower {
			x = within.Min
		}
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
		case !s.isHigh(run[at+1].label):
			iv.End = bound(run[at+1].label)
		}
	}
	return iv, true, nil
}

func (s *Scheme) isHigh(c label) bool {
	_, high := s.rules.ends()
	return c == high.label
}

// isCurrent reads whether a version is the present one, and takes note of what is.
func (s *Scheme) isCurrent(ctx context.Context, version ope.Version) (bool, error) {
	u, err := s.unit(version.Epoch)
	if err != nil {
		return false, err
	}
	meta, err := s.readMeta(ctx, u)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, err := s.meet(u, meta)
	return ok && meta.Generation == version.Generation, err
}

// Valid returns [ope.ErrStale] if ciphertexts have moved since the interval was handed out. Who
// reads ciphertexts by an interval from elsewhere than the index asks this afterwards.
func (s *Scheme) Valid(ctx context.Context, iv ope.Interval) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	known := s.known.version()
	s.mu.Unlock()
	if iv.Version.Compare(known) < 0 {
		return ope.ErrStale
	}
	ok, err := s.isCurrent(ctx, iv.Version)
	if err == nil && !ok {
		err = ope.ErrStale
	}
	return err
}

// Range implements [ope.Mutable].
func (s *Scheme) Range(ctx context.Context, lo, hi int64) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		within, ok := s.domain.Intersect(lo, hi)
		if !ok {
			return
		}
		next := within.Min // the lowest value that may be yielded yet
		for {
			from, to, version, err := s.bounds(ctx, next, within.Max)
			// Pages double: opening a record costs more than the rest of reading it.
			for size := min(32, s.page); err == nil; size = min(2*size, s.page) {
				var p page
				s.count(func(n *Stats) { n.RoundTrips++ })
				if p, err = s.read(ctx, version.Epoch, from, to, size); err != nil {
					break
				}
				s.mu.Lock()
				_, err = s.meet(p.unit, p.meta)
				s.mu.Unlock()
				if err != nil {
					break
				}
				if p.meta.State == ope.StateRetired || p.version() != version && !s.guards.rangeAnyGeneration {
					break // it has moved: find the place of next
				}
				for _, e := range p.elements {
					if e.value > within.Max {
						return
					}
					from = e.label.plus(label{0, 1})
					if e.value < next {
						continue
					}
					if !yield(ope.Entry{Plaintext: e.value, Ciphertext: s.ciphertext(version.Epoch, e.value, e.label), Version: version}, nil) || e.value == within.Max {
						return
					}
					next = e.value + 1
				}
				if !p.more {
					return
				}
				if from.isZero() {
					from = label{0, 1} // the page held the header only
				}
			}
			if err != nil {
				yield(ope.Entry{}, err)
				return
			}
		}
	}
}

// bounds returns labels between which all values in [lo, hi] are, the upper one excluded, and the
// version that they are of.
func (s *Scheme) bounds(ctx context.Context, lo, hi int64) (from, to label, version ope.Version, err error) {
	err = s.locate(ctx, func() ([]gap, error) {
		version = s.known.version()
		_, high := s.rules.ends()
		from, to = label{}, high.label
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

// Moves implements [ope.Mutable]. The log reaches back to the epoch before the present one.
func (s *Scheme) Moves(ctx context.Context, since ope.Version) iter.Seq2[ope.Move, error] {
	return func(yield func(ope.Move, error) bool) {
		for m, err := range s.moves(ctx, since) {
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

func (s *Scheme) moves(ctx context.Context, since ope.Version) iter.Seq2[ope.Move, error] {
	return func(yield func(ope.Move, error) bool) {
		if err := s.connect(ctx); err != nil {
			yield(ope.Move{}, err)
			return
		}
		at := since
		if at.Epoch == 0 {
			at = ope.Version{Epoch: 1} // before that, nothing can have moved
		}
		for {
			u, err := s.unit(at.Epoch)
			if err != nil {
				yield(ope.Move{}, err)
				return
			}
			meta, err := s.readMeta(ctx, u)
			if err != nil {
				yield(ope.Move{}, err)
				return
			}
			if at.Generation > meta.Generation || meta.State == ope.StateAbsent && at.Epoch > 1 {
				yield(ope.Move{}, fmt.Errorf("%w: the version is not one of this index", ope.ErrStale))
				return
			}
			// Each generation has one record.
			for at.Generation < meta.Generation {
				from, to := logKey(at.Generation+1), logKey(meta.Generation+1)
				s.count(func(n *Stats) { n.RoundTrips++ })
				view, err := s.readRecords(ctx, u, from, to, 64)
				if err != nil {
					yield(ope.Move{}, err)
					return
				}
				for _, r := range view.Records {
					if !bytes.Equal(r.Key, logKey(at.Generation+1)) {
						break
					}
					at.Generation++
					if !s.yieldMoves(u, r, at, at.Epoch, yield) {
						return
					}
				}
				if len(view.Records) == 0 || !bytes.Equal(view.Records[0].Key, from) {
					yield(ope.Move{}, errForgotten)
					return
				}
			}
			if meta.State != ope.StateRetired {
				return
			}
			at = ope.Version{Epoch: at.Epoch + 1}
			if !s.yieldPass(ctx, at, yield) {
				return
			}
		}
	}
}

var errForgotten = fmt.Errorf("%w: the log of moves does not reach back to the version: use Range", ope.ErrStale)

// yieldMoves yields the moves of a record of the log of unit u, of which the old ciphertexts are
// of the epoch from.
func (s *Scheme) yieldMoves(u *unit, r ope.Record, at ope.Version, from uint64, yield func(ope.Move, error) bool) bool {
	moves, err := openMoves(u, r)
	if err != nil {
		yield(ope.Move{}, err)
		return false
	}
	for _, m := range moves {
		mv := ope.Move{Old: s.ciphertext(from, m.value, m.from), New: s.ciphertext(at.Epoch, m.value, m.to), Version: at}
		if !yield(mv, nil) {
			return false
		}
	}
	return true
}

// yieldPass yields what moved when an epoch was opened.
func (s *Scheme) yieldPass(ctx context.Context, at ope.Version, yield func(ope.Move, error) bool) bool {
	u, err := s.unit(at.Epoch)
	if err != nil {
		return yield(ope.Move{}, err) && false
	}
	first, err := s.read(ctx, at.Epoch, label{}, label{0, 1}, 1)
	if err != nil || first.header == nil {
		if err == nil {
			err = errForgotten
		}
		return yield(ope.Move{}, err) && false
	}
	values := uint64(0)
	for from, to := tailKey(passKind, nil), tailKey(passKind+1, nil); ; {
		s.count(func(n *Stats) { n.RoundTrips++ })
		view, err := s.readRecords(ctx, u, from, to, 64)
		if err != nil {
			return yield(ope.Move{}, err) && false
		}
		for _, r := range view.Records {
			// In order and without a gap: the log may be being deleted.
			if part := binary.BigEndian.Uint32(r.Key[labelSize+1:]); uint64(part)*uint64(s.chunk) != values {
				return yield(ope.Move{}, errForgotten) && false
			}
			values = min(values+uint64(s.chunk), first.header.values)
			if !s.yieldMoves(u, r, at, at.Epoch-1, yield) {
				return false
			}
		}
		if !view.More {
			break
		}
		from = append(view.Records[len(view.Records)-1].Key, 0)
	}
	if values != first.header.values {
		return yield(ope.Move{}, errForgotten) && false
	}
	return true
}
