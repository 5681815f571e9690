package wozniak

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
)

// A Pair is a plaintext and a ciphertext that was given to it.
type Pair struct {
	Plaintext  int64
	Ciphertext ope.Ciphertext
}

// Restore fills a unit with pairs that were given out before, as the former unit has them ([Indexed.Seal]),
// or as they are found where ciphertexts are stored: for a unit that takes the place of another. It
// returns those that it did not take. If the pairs contradict each other, it takes as many as can be in
// one order-preserving function; of each further list, as many as also contradict none that it took of
// those before. A pair that contradicts the unit, it does not take.
//
// Others may restore the same pairs at the same time, and a call that was interrupted is made again.
// Nobody should encrypt new values before all pairs are there: a ciphertext that is drawn earlier may be in their way.
func (s *Indexed) Restore(ctx context.Context, pairs []Pair, further ...[]Pair) (left []Pair, err error) {
	if err := made(s.id); err != nil {
		return nil, err
	}
	var chosen, all []pair
	for i, list := range append([][]Pair{pairs}, further...) {
		from := len(all)
		for _, p := range list {
			if err := s.has(p.Plaintext); err != nil {
				return nil, err
			}
			if len(p.Ciphertext) != s.size() {
				return nil, ope.ErrCiphertext
			}
			all = append(all, pair{x: s.domain.Offset(p.Plaintext), c: fromBytes(p.Ciphertext)})
		}
		if i == 0 {
			chosen = s.consistent(all)
		} else if more := agreeing(all[from:], chosen); len(more) > 0 {
			// All that is chosen agrees with all of these: a longest run has it.
			chosen = s.consistent(append(more, chosen...))
		}
	}
	if err := s.openFor(ctx, chosen); err != nil {
		return nil, err
	}
	wishes := make([]wish, len(chosen))
	for i, p := range chosen {
		wishes[i] = wish{p.x, &chosen[i].c}
	}
	cs, err := s.commits.Do(ctx, wishes)
	if err != nil {
		return nil, err
	}
	there := make(map[uint64]u192, len(chosen))
	for i, p := range chosen {
		there[p.x] = cs[i]
	}
	for i, p := range slices.Concat(append([][]Pair{pairs}, further...)...) {
		if c, taken := there[all[i].x]; !taken || c != all[i].c {
			left = append(left, p)
		}
	}
	return left, nil
}

// agreeing returns those of some pairs that contradict none of those that are chosen, which are in order,
// and are none of them.
func agreeing(ps, chosen []pair) []pair {
	var agree []pair
	for _, p := range ps {
		i, taken := slices.BinarySearchFunc(chosen, p.x, func(q pair, x uint64) int { return cmp.Compare(q.x, x) })
		if !taken && (i == 0 || chosen[i-1].leavesRoom(p)) && (i == len(chosen) || p.leavesRoom(chosen[i])) {
			agree = append(agree, p)
		}
	}
	return agree
}

// Seal ends an index for good: no client puts a pair into any of its units any more, or opens one that was never opened. It
// returns the pairs that the index has, and whether it is such as clients leave it. So another one can be
// filled with all pairs that may be in use, also those of clients that are yet to store theirs. It may be called again.
func (s *Indexed) Seal(ctx context.Context) (pairs []Pair, sound bool, err error) {
	if err = made(s.id); err != nil {
		return nil, false, err
	}
	sound = true
	err = s.seal(ctx, s.root, func(error) { sound = false }, func(e ope.Entry) {
		if n := len(pairs); n == 0 || pairs[n-1].Plaintext != e.Plaintext { // neighbouring units share a pair
			pairs = append(pairs, Pair{e.Plaintext, e.Ciphertext})
		}
	})
	if errors.Is(err, ope.ErrIndex) {
		return pairs, false, nil
	}
	return pairs, sound, err
}

// seal seals a unit or, if it was divided, all that have its parts. Of one that was never opened, what the divided unit
// has in its place is all that clients may know.
func (s *Indexed) seal(ctx context.Context, u *unit, fault func(error), yield func(ope.Entry)) error {
	if never, err := s.close(ctx, u); err != nil || never && u.parent == nil {
		return err
	}
	all := func(u *unit, count int) error {
		return s.pairs(ctx, u, count, func(_ []byte, err error) { fault(err) }, func(e ope.Entry) bool {
			yield(e)
			return true
		})
	}
	h, err := u.readHeader(ctx)
	if errors.Is(err, ope.ErrIndex) {
		fault(err)
		if u.parent != nil {
			u = u.before()
			return all(u, u.count)
		}
		return nil
	}
	if err == nil && h.open {
		err = s.setEnds(u, h)
	}
	switch {
	case err != nil:
		return err
	case !h.open:
		u = u.before()
		return all(u, u.count)
	case len(h.parts) == 0:
		return all(u, h.count)
	}
	s.mu.Lock()
	err = u.attach(h.parts)
	s.mu.Unlock()
	for _, p := range u.parts {
		if errors.Is(err, ope.ErrIndex) {
			fault(err)
			err = nil
		}
		err = cmp.Or(err, s.seal(ctx, p, fault, yield)) // whatever is wrong with one, the others are to be sealed
	}
	return err
}

// setEnds takes note of the ends of the root.
func (s *Indexed) setEnds(u *unit, h header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.parent == nil {
		u.low.c, u.high.c = h.ends[0].c, h.ends[1].c
	}
	return s.putAll(h.ends[:])
}

// close seals a unit, unless it is sealed. One that is open may be divided meanwhile. It reports whether that was never opened.
func (s *Indexed) close(ctx context.Context, u *unit) (never bool, err error) {
	for attempt := 0; ; attempt++ {
		v, err := s.index.Read(ctx, u.name, headerKey, nil, 1)
		if err != nil {
			return false, u.fail("read", err)
		}
		if v.Meta.State == ope.StateSealed || v.Meta.State == ope.StateRetired {
			_ = u.decides(ctx, &err) // or what is read later might be from before
			return v.Meta.State == ope.StateSealed && v.Meta.Generation == 0 && len(v.Records) == 0, err
		}
		cond := ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}
		applied, err := s.index.Commit(ctx, u.name, cond, ope.Change{Meta: ope.Meta{State: ope.StateSealed, Nonce: newNonce()}})
		if err != nil && !errors.Is(err, ope.ErrUnknownOutcome) {
			return false, u.fail("commit to", err)
		}
		if applied {
			return v.Meta.State == ope.StateAbsent, nil
		}
		if err := pause.For(ctx, pause.Grown(time.Millisecond, time.Second, attempt)); err != nil {
			return false, err
		}
	}
}

// EncryptAs encrypts a value, with the given ciphertext if the value has none yet and this one fits
// between its neighbours. So the pair of a value that was encrypted with another unit is kept where
// it can be.
func (s *Indexed) EncryptAs(ctx context.Context, p Pair) (ope.Ciphertext, error) {
	if err := s.has(p.Plaintext); err != nil {
		return nil, err
	}
	if len(p.Ciphertext) != s.size() {
		return nil, ope.ErrCiphertext
	}
	x := s.domain.Offset(p.Plaintext)
	given := fromBytes(p.Ciphertext)
	cs, err := s.commits.Do(ctx, []wish{{x, &given}})
	if err != nil {
		return nil, err
	}
	return s.bytes(cs[0]), nil
}

// fits reports whether a pair can be between two others: it leaves both sides as many ciphertexts as
// they have plaintexts.
func (p pair) fits(low, high pair) bool {
	return low.x < p.x && p.x < high.x && low.leavesRoom(p) && p.leavesRoom(high)
}

// leavesRoom reports whether there are as many ciphertexts as plaintexts between p and a higher one.
func (p pair) leavesRoom(high pair) bool {
	return p.c.less(high.c) && !high.c.sub(p.c).less(u192{lo: high.x - p.x})
}

// consistent returns, in order, as many of the pairs as can be in one order-preserving function, each
// value once: a longest run in which neither plaintexts nor the numbers of ciphertexts that are left over go down.
func (s *Indexed) consistent(all []pair) []pair {
	span := s.domain.Span()
	ps := slices.DeleteFunc(slices.Clone(all), func(p pair) bool {
		top := ones(s.bits)
		return top.less(p.c) || p.c.less(u192{lo: p.x}) || top.sub(p.c).less(u192{lo: span - p.x})
	})
	excess := func(p pair) u192 { return p.c.sub(u192{lo: p.x}) }
	// Of equal plaintexts the highest comes first, so that no run has two of them.
	slices.SortFunc(ps, func(a, b pair) int { return cmp.Or(cmp.Compare(a.x, b.x), b.c.compare(a.c)) })
	ps = slices.CompactFunc(ps, func(a, b pair) bool { return a.x == b.x && a.c == b.c })
	last := make([]int, 0, len(ps)) // by length of a run, where the one with the lowest end ends
	before := make([]int, len(ps))
	for i, p := range ps {
		n, _ := slices.BinarySearchFunc(last, excess(p), func(j int, e u192) int {
			if e.less(excess(ps[j])) {
				return 1
			}
			return -1
		})
		before[i] = -1
		if n > 0 {
			before[i] = last[n-1]
		}
		if n == len(last) {
			last = append(last, i)
		} else {
			last[n] = i
		}
	}
	if len(last) == 0 {
		return nil
	}
	run := make([]pair, len(last))
	for n, i := len(last)-1, last[len(last)-1]; n >= 0; n, i = n-1, before[i] {
		run[n] = ps[i]
	}
	return run
}

// openFor makes ready to open the unit, unless it is open, with ends of the domain that leave room for some pairs. If
// there are none, it opens the unit, since one that was never opened cannot be told from one that nobody knows of.
func (s *Indexed) openFor(ctx context.Context, chosen []pair) error {
	for len(chosen) == 0 {
		if open, err := s.ready(ctx); err != nil || open {
			return err
		}
		if _, err := s.openUnit(ctx); err != nil {
			return err
		}
	}
	open, err := s.ready(ctx)
	if err != nil || open {
		return err
	}
	first, last := chosen[0], chosen[len(chosen)-1]
	s.mu.Lock()
	s.room = []pair{first, last}
	s.mu.Unlock()
	return nil
}

// drawEnds draws the ciphertexts of the ends of the domain: as the scheme does or, if pairs are to
// be restored, from what these leave.
func (s *Indexed) drawEnds() (cmin, cmax u192, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.room) == 0 {
		return ends(s.domain.Span(), s.bits, s.coins)
	}
	first, last := s.room[0], s.room[1]
	span := s.domain.Span()
	cmin, cmax = first.c, last.c
	if first.x > 0 {
		if cmin, err = s.coins(first.c.sub(u192{lo: first.x})); err != nil {
			return cmin, cmax, err
		}
	}
	if last.x < span {
		least := last.c.add(u192{lo: span - last.x})
		more, err := s.coins(ones(s.bits).sub(least))
		return cmin, least.add(more), err
	}
	return cmin, cmax, nil
}

// Check reads all units and yields their pairs in their order, also after records that are not
// such as clients leave them. Each of these is given to fault, with its key, which shows no value, or
// nil where it is a unit that is damaged. An index that was never opened has no pairs.
//
// It reads only, and clients may go on. It is meant for a client that was made for it.
func (s *Indexed) Check(ctx context.Context, fault func(record []byte, err error)) iter.Seq2[ope.Entry, error] {
	return func(yield func(ope.Entry, error) bool) {
		if err := made(s.id); err != nil {
			yield(ope.Entry{}, err)
			return
		}
		err := s.check(ctx, s.root, fault, func(e ope.Entry) bool { return yield(e, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(ope.Entry{}, err)
		}
	}
}

// errStopped says that who asked for pairs wants no more.
var errStopped = errors.New("no more is wanted")

// check checks a unit and, if it was divided, those that have its parts.
func (s *Indexed) check(ctx context.Context, u *unit, fault func(record []byte, err error), yield func(ope.Entry) bool) error {
	was := u.wasOpen()
	h, err := u.readHeader(ctx)
	if err != nil || u.parent == nil && !h.open {
		return err
	}
	var e *elsewhere
	if err := u.check(h.meta); err != nil && !errors.As(err, &e) {
		return err
	}
	if h.open {
		if err := s.setEnds(u, h); err != nil {
			return err
		}
	}
	switch {
	case e == nil:
		return s.pairs(ctx, u, h.count, fault, yield)
	case !e.divided && was:
		return u.gone()
	case !e.divided:
		u = u.before()
		return s.pairs(ctx, u, u.count, fault, yield)
	}
	if err := s.pairs(ctx, u, h.count, fault, func(ope.Entry) bool { return true }); err != nil {
		return err
	}
	s.mu.Lock()
	maps.Copy(s.listings, h.listings)
	err = u.attach(h.parts)
	s.mu.Unlock()
	for i, p := range u.parts {
		if err != nil {
			return err
		}
		last := s.domain.At(p.high.x)
		err = s.check(ctx, p, fault, func(e ope.Entry) bool {
			return i < len(u.parts)-1 && e.Plaintext == last || yield(e) // the next part begins with it
		})
		if errors.Is(err, ope.ErrIndex) {
			fault(nil, err)
			err = nil
		}
	}
	return err
}

// pairs yields the pairs of a unit, of which the header says how many there are at least.
func (s *Indexed) pairs(ctx context.Context, u *unit, count int, fault func(record []byte, err error), yield func(ope.Entry) bool) error {
	const page = 1024
	s.mu.RLock()
	low, high := u.low, u.high
	s.mu.RUnlock()
	n, bad, last := 0, 0, pair{}
	damaged := func(key []byte, what string) { bad++; fault(key, u.corrupt(key, what)) }
	from, to := append(bytes.Clone(headerKey), 0), []byte(nil)
	if u.frozen {
		from, to = s.bytes(low.c), append(s.bytes(high.c), 0)
	}
	for more := true; more; {
		v, err := s.index.Read(ctx, u.name, from, to, page)
		if err != nil {
			return u.fail("read", err)
		}
		for _, r := range v.Records {
			from = append(bytes.Clone(r.Key), 0)
			if !s.isPair(r.Key) {
				continue
			}
			p, err := u.unseal(r)
			switch {
			case err != nil:
				bad++
				fault(r.Key, err)
				continue
			case n == 0 && (p.x != low.x || p.c != low.c):
				damaged(s.bytes(low.c), "is missing, which the header names")
			case n > 0 && (last.x >= p.x || !last.leavesRoom(p)):
				damaged(r.Key, "contradicts its neighbours")
				continue
			}
			n, last = n+1, p
			if !yield(ope.Entry{Plaintext: s.domain.At(p.x), Ciphertext: s.bytes(p.c)}) {
				return errStopped
			}
		}
		more = v.More
	}
	if n > 0 && (last.x != high.x || last.c != high.c) {
		damaged(s.bytes(high.c), "is missing, which the header names")
	}
	if n+bad < count {
		fault(nil, fmt.Errorf("%w: unit %q has %d records, its header counts %d", ope.ErrIndex, u.name, n+bad, count))
	}
	return nil
}
