package wozniak

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/reads"
)

// A full unit is divided in these steps, each of which any client may take:
//
//  1. One commit closes it, and says which parts it has, and which new units are to have them.
//  2. Who first needs to put a value into a part copies its pairs to the new unit, which is absent as long.
//  3. One commit opens the new unit. From then on it is like the one that was divided.
//
// A pair never changes, so all who copy write the same. A commit to an absent unit requires that it is absent, so whoever
// is late is refused once the unit is open. Until then, the divided unit has all pairs of the part.
//
// A value that is put between two others has its ciphertext drawn from what these leave, wherever they are. So the law of
// ciphertexts is that of one unit.

// divide takes step 1, and reports whether it has.
func (s *Indexed) divide(ctx context.Context, u *unit) (bool, error) {
	parts, nonce, err := s.cut(ctx, u)
	if err != nil || parts == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		u.forget() // it is not what it was
		return false, err
	}
	for i := range parts {
		var id [8]byte
		rand.Read(id[:]) // never fails, as documented
		parts[i].id = binary.BigEndian.Uint64(id[:])
	}
	key := s.directoryKey()
	applied, err := u.put(ctx, ope.Condition{State: ope.StateOpen, Nonce: &nonce}, ope.Change{
		Puts: []ope.Record{{Key: key, Value: u.sealer.Seal(key, s.encodeParts(parts))}},
		Meta: ope.Meta{State: ope.StateSealed, Generation: divided, Nonce: newNonce()},
	})
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	err = u.attach(parts)
	s.stats.Divided++
	s.mu.Unlock()
	if err == nil && u.parent != nil {
		s.list(ctx, u.id, parts)
	}
	return true, err
}

// cut returns parts of a unit that have about as many pairs each, and the nonce under which these are right. It returns none
// if others have changed the unit meanwhile.
func (s *Indexed) cut(ctx context.Context, u *unit) ([]part, ope.Nonce, error) {
	s.tripped(1)
	h, err := u.present(ctx)
	if err != nil || u.full(h.count) == nil {
		return nil, h.meta.Nonce, notElsewhere(err)
	}
	n := min(s.fanOut, mostParts, h.count-1)
	first := func(part int) int { return part * (h.count - 1) / n } // number of its first pair
	var parts []part
	i := 0
	same := true
	err = s.walk(ctx, u, func(ps []pair, view ope.View) (bool, error) {
		same = view.Meta.Nonce == h.meta.Nonce
		for _, p := range ps {
			if k := len(parts); same && k < n && i == first(k) {
				parts = append(parts, part{low: p, count: first(k+1) - first(k) + 1})
			}
			i++
		}
		return same, nil
	})
	switch {
	case err != nil || !same:
		return nil, h.meta.Nonce, notElsewhere(err)
	case i != h.count:
		return nil, h.meta.Nonce, fmt.Errorf("%w: unit %q has %d records, its header counts %d", ope.ErrIndex, u.name, i, h.count)
	}
	return parts, h.meta.Nonce, nil
}

// walk reads the pairs of a unit page by page, in their order, each once, until yield returns false.
func (s *Indexed) walk(ctx context.Context, u *unit, yield func([]pair, ope.View) (bool, error)) error {
	s.mu.RLock()
	from, to := u.low, u.high
	s.mu.RUnlock()
	pages := reads.NewAhead(ctx, func(ctx context.Context, from, to []byte) (ope.View, error) {
		if len(from) != s.size() {
			return ope.View{}, u.noCiphertext(from)
		}
		pg := &page{unit: u, from: fromBytes(from), to: fromBytes(to), limit: s.ahead, first: &pair{c: fromBytes(from)}}
		err := s.read(ctx, []*page{pg}, nil)
		return pg.view, err
	})
	defer pages.Stop()
	for first := true; first || from.x < to.x; first = false {
		view, err := pages.Read(s.bytes(from.c), s.bytes(to.c))
		if err != nil {
			return err
		}
		ps, err := s.open(&page{unit: u, from: from.c, to: to.c, first: &from, view: view})
		if err != nil {
			return err
		}
		from = ps[len(ps)-1]
		if !first {
			ps = ps[1:] // the last one came again
		}
		if more, err := yield(ps, view); err != nil || !more {
			return err
		}
	}
	return nil
}

// notElsewhere drops an error that says that a unit is not what it was: who looks at it again sees that.
func notElsewhere(err error) error {
	if _, is := err.(*elsewhere); is {
		return nil
	}
	return err
}

// loadAndList takes note of the parts of a unit that was divided, and lists them if who divided it has not.
func (s *Indexed) loadAndList(ctx context.Context, u *unit) error {
	if err := s.load(ctx, u); err != nil || u.parent == nil {
		return err
	}
	s.mu.RLock()
	listed := len(s.listings[u.id]) > 0
	var parts []part
	for _, p := range u.parts {
		parts = append(parts, part{low: p.low, count: p.count, id: p.id})
	}
	s.mu.RUnlock()
	if !listed && len(parts) > 0 {
		s.list(ctx, u.id, parts)
	}
	return nil
}

// fillFor looks values up in the divided unit that has the pairs of a part, which nobody has copied yet. If it does not have
// all of the values, it takes steps 2 and 3.
func (s *Indexed) fillFor(ctx context.Context, j *job) (bool, error) {
	if j.u.wasOpen() {
		return false, j.u.stayed(ctx)
	}
	before := j.u.before()
	found, err := s.search(ctx, j.lot, func(uint64) *unit { return j.u.unlessOpen(before) }, nil)
	if err != nil {
		return false, notElsewhere(err)
	}
	for _, x := range j.lot {
		if g := found[x]; g.low.x == x {
			j.found = append(j.found, g.low)
		}
	}
	if len(j.found) == len(j.lot) {
		return true, nil
	}
	return s.fill(ctx, j.u, before)
}

// fill takes steps 2 and 3. It reports whether it has got on, or others have.
func (s *Indexed) fill(ctx context.Context, u, before *unit) (bool, error) {
	var all []pair
	done := true
	err := s.walk(ctx, before, func(ps []pair, _ ope.View) (bool, error) {
		all = append(all, ps...)
		var err error
		done, err = s.copy(ctx, u, ps)
		return done, err
	})
	if err != nil || !done {
		return false, err
	}
	if len(all) != before.count {
		return false, fmt.Errorf("%w: unit %q has %d pairs for unit %q, and its directory counts %d", ope.ErrIndex, before.name, len(all), u.name, before.count)
	}
	nonce := newNonce()
	cond := ope.Condition{State: ope.StateAbsent, Absent: [][]byte{headerKey}}
	applied, err := u.put(ctx, cond, u.opening(nonce, u.sealHeader(len(all), u.low.c, u.high.c), slices.Values([]pair(nil))))
	if err != nil || !applied {
		return false, err
	}
	s.mu.Lock()
	err = u.opened(nonce, all)
	s.stats.Copied += len(all)
	s.mu.Unlock()
	s.list(ctx, u.id, nil)
	return true, err
}

// copy puts some pairs, which follow each other, into an absent unit, as far as they are not there. It reports whether they
// are there, and the unit is absent still.
func (s *Indexed) copy(ctx context.Context, u *unit, ps []pair) (bool, error) {
	first, last := s.bytes(ps[0].c), s.bytes(ps[len(ps)-1].c)
	was := u.wasOpen()
	s.tripped(1)
	view, err := s.index.Read(ctx, u.name, first, append(last, 0), 0)
	switch {
	case err != nil:
		return false, u.fail("read", err)
	case view.Meta.State != ope.StateAbsent:
		return false, nil
	case was:
		return false, u.stayed(ctx)
	}
	there, err := u.unsealAll(view.Records)
	if err != nil {
		return false, err
	}
	missing := slices.DeleteFunc(slices.Clone(ps), func(p pair) bool {
		is := len(there) > 0 && there[0] == p
		if is {
			there = there[1:]
		}
		return is
	})
	if len(there) > 0 {
		return false, u.corrupt(s.bytes(there[0].c), "is no copy of one of its part")
	}
	for some := range slices.Chunk(missing, commitRecords) {
		change := ope.Change{Meta: view.Meta}
		for _, p := range some {
			change.Puts = append(change.Puts, u.seal(p))
		}
		if applied, err := u.put(ctx, ope.Condition{State: ope.StateAbsent}, change); err != nil || !applied {
			return false, err
		}
	}
	return true, nil
}

// isPair reports whether a record's key is that of a pair.
func (s *Indexed) isPair(key []byte) bool {
	return !bytes.Equal(key, headerKey) && !bytes.HasPrefix(key, s.directoryKey())
}
