package wozniak

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
)

// A unit has the pairs of a part of the domain, from one pair to another. The root has all of it, until it is divided. A
// divided unit keeps its pairs, takes no new ones, and says which units have its parts. See indexed_divide.go.
type unit struct {
	s      *Indexed
	name   ope.Unit
	sealer *record.Sealer
	id     uint64
	parent *unit // nil for the root
	// It stands for a part of a divided unit that was not copied yet, and is read in its place.
	frozen bool

	// The lock of the Indexed guards what follows.
	low, high pair // the ends; those of the root have ciphertexts once it is open
	open      bool // it has a header that is ours
	parts     []*unit
	// The view: what is known of the unit as it was under a nonce. It has a number, so that what
	// was known in an earlier one can be recognised by it.
	view    uint32
	nonce   ope.Nonce
	counted bool // count is of this view
	count   int
	least   int // pairs that the unit has, since commits of this client were acknowledged
	// Whether the view can be taken for the present state: nobody else seems to write.
	alone bool
	lot   int // values to look up for one commit
	asked int // records read to find where values go, since the unit was read ahead
}

// firstLot is how many values are looked up for the first commit to a unit.
const firstLot = 8

func (s *Indexed) newUnit(name ope.Unit, low, high pair) (*unit, error) {
	sealer, err := record.New(s.key, name)
	return &unit{s: s, name: name, sealer: sealer, low: low, high: high, lot: firstLot}, err
}

// before returns what stands for the part of the parent that a unit is for, if nobody has copied that yet.
func (u *unit) before() *unit {
	u.s.mu.RLock()
	defer u.s.mu.RUnlock()
	return &unit{s: u.s, name: u.parent.name, sealer: u.parent.sealer, frozen: true, low: u.low, high: u.high, count: u.count}
}

// unlessOpen returns what stands for a unit, or the unit if there is nothing, or it is open by now. What is remembered may then
// be pairs of the unit that are nowhere else. It is called with the lock held.
func (u *unit) unlessOpen(before *unit) *unit {
	if before == nil || u.open {
		return u
	}
	return before
}

// leaf returns the unit that has a value, as far as is known.
func (u *unit) leaf(x uint64) *unit {
	for len(u.parts) > 0 {
		last := len(u.parts) - 1
		u = u.parts[sort.Search(last, func(i int) bool { return x < u.parts[i].high.x })]
	}
	return u
}

// leafOf is leaf, for a ciphertext.
func (u *unit) leafOf(c u192) *unit {
	for len(u.parts) > 0 {
		last := len(u.parts) - 1
		u = u.parts[sort.Search(last, func(i int) bool { return c.less(u.parts[i].high.c) })]
	}
	return u
}

// leaves yields the units that are not divided, in their order, as far as is known.
func (u *unit) leaves(yield func(*unit) bool) { u.walk(yield) }

func (u *unit) walk(yield func(*unit) bool) bool {
	if len(u.parts) == 0 {
		return yield(u)
	}
	for _, p := range u.parts {
		if !p.walk(yield) {
			return false
		}
	}
	return true
}

// fail wraps an error of the index.
func (u *unit) fail(what string, err error) error {
	return fmt.Errorf("%s index unit %q: %w", what, u.name, err)
}

func (u *unit) noCiphertext(key []byte) error {
	return fmt.Errorf("%w: the record %.64x of unit %q is no ciphertext", ope.ErrIndex, key, u.name)
}

func (u *unit) corrupt(key []byte, what string) error {
	return fmt.Errorf("%w: the record %x of unit %q %s", ope.ErrIndex, key, u.name, what)
}

// The record of a pair has the ciphertext as its key, and the offset, 8 bytes big-endian, as its
// plaintext. The header is the record with the key 00, which is below all ciphertexts: the number
// of pairs, 8 bytes, and the ciphertexts of the ends of the unit.
//
// A divided unit has a directory: a record whose key is longer than a ciphertext by a byte, all zeros. So it is
// read with the header. The root also has listings. They repeat, below the key of the directory and the id of
// a unit, what that unit's own directory says, or say by an empty content that the unit was opened.
const pairSize = 8

var headerKey = []byte{0}

func (s *Indexed) directoryKey() []byte { return make([]byte, s.size()+1) }

func (s *Indexed) listingKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(s.directoryKey(), id)
}

// afterListings returns the bound above all records that are no pairs.
func (s *Indexed) afterListings() []byte { return append(make([]byte, s.size()), 1) }

// mostListings is how many listings a client reads at most. More would take longer than the round trips that they save.
const mostListings = 512

func (u *unit) seal(p pair) ope.Record {
	key := u.s.bytes(p.c)
	return ope.Record{Key: key, Value: u.sealer.Seal(key, binary.BigEndian.AppendUint64(nil, p.x))}
}

// An opener is a sealer, or one of its openers.
type opener interface {
	Open(key, sealed []byte, size int) ([]byte, error)
}

func (u *unit) unseal(r ope.Record) (pair, error) { return u.unsealBy(u.sealer, r) }

func (u *unit) unsealBy(o opener, r ope.Record) (pair, error) {
	if len(r.Key) != u.s.size() {
		return pair{}, u.noCiphertext(r.Key)
	}
	b, err := o.Open(r.Key, r.Value, pairSize)
	if err != nil {
		return pair{}, err
	}
	p := pair{x: binary.BigEndian.Uint64(b), c: fromBytes(r.Key)}
	if p.x > u.s.domain.Span() {
		return pair{}, u.corrupt(r.Key, "holds what is outside of the domain")
	}
	return p, nil
}

func (u *unit) sealHeader(count int, min, max u192) ope.Record {
	b := binary.BigEndian.AppendUint64(nil, uint64(count))
	b = max.appendTo(min.appendTo(b, u.s.size()), u.s.size())
	return ope.Record{Key: headerKey, Value: u.sealer.SealHeader(headerKey, u.s.id, b)}
}

// A part is what a directory says of one part of a unit: its first pair, how many pairs it has, its last one
// included, which is the first one of the next part, and the id of the unit that is to have it.
type part struct {
	low   pair
	count int
	id    uint64
}

// A directory has at most so many parts.
const mostParts = 64

func (s *Indexed) encodeParts(parts []part) (b []byte) {
	for _, p := range parts {
		b = p.low.c.appendTo(binary.BigEndian.AppendUint64(b, p.low.x), s.size())
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(p.count)), p.id)
	}
	return b
}

// openParts opens a directory or a listing. What it has is in order.
func (u *unit) openParts(r ope.Record) ([]part, error) {
	each := 8 + u.s.size() + 16
	n := (len(r.Value) - record.Overhead) / each
	b, err := u.sealer.Open(r.Key, r.Value, max(0, min(n, mostParts))*each)
	if err != nil {
		return nil, err
	}
	var parts []part
	for ; len(b) > 0; b = b[each:] {
		rest := b[8+u.s.size():]
		p := part{
			low:   pair{x: binary.BigEndian.Uint64(b), c: fromBytes(b[8 : 8+u.s.size()])},
			count: int(binary.BigEndian.Uint64(rest)),
			id:    binary.BigEndian.Uint64(rest[8:]),
		}
		if n := len(parts); n > 0 && (parts[n-1].low.x >= p.low.x || !parts[n-1].low.leavesRoom(p.low)) {
			return nil, u.corrupt(r.Key, "contradicts itself")
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// divided is the generation of a sealed unit that was divided. Others are sealed because their index was made again.
const divided = 1

func isDivided(meta ope.Meta) bool {
	return meta.State == ope.StateSealed && meta.Generation == divided
}

// A header is what a unit says of itself.
type header struct {
	meta     ope.Meta
	open     bool // it was opened
	count    int
	ends     [2]pair
	parts    []part // of a divided unit
	listings map[uint64][]part
}

// readHeader reads the number of pairs, the ends of the unit and, if it is divided, its parts. It does not ask whether
// the unit still takes pairs; see check.
func (u *unit) readHeader(ctx context.Context) (h header, err error) {
	s := u.s
	s.mu.RLock()
	least := u.least
	s.mu.RUnlock()
	v, err := s.index.Read(ctx, u.name, headerKey, s.afterListings(), 3+mostListings)
	if err != nil {
		return h, u.fail("read", err)
	}
	h.meta, h.listings = v.Meta, make(map[uint64][]part)
	for _, r := range v.Records {
		n := len(s.directoryKey())
		switch {
		case bytes.Equal(r.Key, headerKey):
			err = u.openHeader(&h, r.Value)
		case len(r.Key) == s.size(): // the pair with the lowest ciphertext of all
		case len(r.Key) == n:
			h.parts, err = u.openParts(r)
		case len(r.Key) == n+8:
			h.listings[binary.BigEndian.Uint64(r.Key[n:])], err = u.openParts(r)
		default:
			err = u.noCiphertext(r.Key)
		}
		if err != nil {
			return header{}, err
		}
	}
	switch {
	case h.open && isDivided(h.meta) && (len(h.parts) == 0 || h.parts[0].low != h.ends[0] || h.parts[len(h.parts)-1].low.x >= h.ends[1].x):
		return header{}, u.corrupt(s.directoryKey(), "is missing, or contradicts the header")
	case h.open && h.count < least:
		return header{}, fmt.Errorf("%w: unit %q was put back: it has %d records and had %d; if the database was restored from a backup, open it again", ope.ErrIndex, u.name, h.count, least)
	case !h.open && h.meta.State != ope.StateAbsent && (u.parent == nil || isDivided(h.meta) || h.meta.State == ope.StateOpen):
		return header{}, fmt.Errorf("%w: unit %q has no header of the scheme %q: another scheme wrote it", ope.ErrIndex, u.name, s.id)
	}
	return h, nil
}

// present reads the header of a unit that takes pairs.
func (u *unit) present(ctx context.Context) (h header, err error) {
	for again, e := false, (*elsewhere)(nil); ; again = true {
		if h, err = u.readHeader(ctx); err == nil {
			err = u.check(h.meta)
		}
		if again || !errors.Is(err, ope.ErrIndex) || errors.As(err, &e) || !u.decides(ctx, &err) {
			return h, err
		}
	}
}

func (u *unit) openHeader(h *header, sealed []byte) error {
	s := u.s
	b, err := u.sealer.OpenHeader(headerKey, s.id, sealed, 8+2*s.size())
	if err != nil {
		return err
	}
	h.open, h.count = true, int(binary.BigEndian.Uint64(b))
	h.ends[0] = pair{x: u.low.x, c: fromBytes(b[8 : 8+s.size()])}
	h.ends[1] = pair{x: u.high.x, c: fromBytes(b[8+s.size():])}
	if u.parent != nil && (h.ends[0].c != u.low.c || h.ends[1].c != u.high.c) {
		return u.corrupt(headerKey, "is not of the part that the unit is for")
	}
	return nil
}

// elsewhere says that what was asked of a unit is not in it: it was divided, or nobody has copied its pairs to it yet.
type elsewhere struct {
	u       *unit
	divided bool
}

func (e *elsewhere) Error() string {
	return fmt.Sprintf("unit %q was divided, or has no pairs yet, and this changed more often than it was read", e.u.name)
}

func (e *elsewhere) Unwrap() error { return ope.ErrIndex }

// check returns an error for a unit that takes no more pairs or, if it stands for a part of another, that is not divided.
func (u *unit) check(meta ope.Meta) error {
	switch {
	case u.frozen && isDivided(meta) || !u.frozen && meta.State == ope.StateOpen && meta.Generation == 0:
		return nil
	case isDivided(meta):
		return &elsewhere{u, true}
	case meta.State == ope.StateAbsent && u.parent != nil:
		return &elsewhere{u, false}
	case meta.State == ope.StateAbsent && !u.frozen:
		return u.gone()
	}
	return fmt.Errorf("%w: unit %q is closed, because its index was made again: open it anew", ope.ErrIndex, u.name)
}

func (u *unit) gone() error {
	return fmt.Errorf("%w: unit %q was open and is gone", ope.ErrIndex, u.name)
}

// wasOpen reports whether it is known that a unit was opened. What is read later must show that.
func (u *unit) wasOpen() bool {
	s := u.s
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, listed := s.listings[u.id]
	return u.open || listed && u.parent != nil
}

// stayed looks again whether a unit is absent that was open, and returns an error if it is.
func (u *unit) stayed(ctx context.Context) error {
	for again := false; ; again = true {
		u.s.tripped(1)
		v, err := u.s.index.Read(ctx, u.name, headerKey, []byte{0, 0}, 1)
		switch {
		case err != nil:
			return u.fail("read", err)
		case v.Meta.State > ope.StateAbsent:
			return nil
		case again || !u.decides(ctx, &err):
			return cmp.Or(err, u.gone())
		}
	}
}

// instead takes note of why a unit does not have what was asked for. It returns what stands for the unit, or nil if that is to be
// asked again, or its parts.
func (s *Indexed) instead(ctx context.Context, e *elsewhere) (*unit, error) {
	switch {
	case e.divided:
		return nil, s.load(ctx, e.u)
	case e.u.wasOpen():
		return nil, e.u.stayed(ctx)
	}
	return e.u.before(), nil
}

// ready makes sure that the root is ours, and reports whether it was ever opened.
func (s *Indexed) ready(ctx context.Context) (bool, error) {
	s.mu.RLock()
	open := s.root.open
	s.mu.RUnlock()
	if open {
		return true, nil
	}
	s.tripped(1)
	return s.enter(ctx, s.root)
}

// enter reads what a unit says of itself, takes note of it, and reports whether it was ever opened.
func (s *Indexed) enter(ctx context.Context, u *unit) (bool, error) {
	h, err := u.readHeader(ctx)
	var e *elsewhere
	if err == nil && h.open {
		if err = u.check(h.meta); errors.As(err, &e) && e.divided {
			err = nil
		}
	}
	if err != nil || !h.open {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := u.open
	if u.open = true; u.parent == nil {
		u.low.c, u.high.c = h.ends[0].c, h.ends[1].c
	}
	if err := s.putAll(h.ends[:]); err != nil {
		return false, err
	}
	maps.Copy(s.listings, h.listings)
	switch {
	case e != nil:
		return true, u.attach(h.parts)
	case !was: // else the worker has a view already, and may be about to commit what is right in that one only
		u.adopt(h.meta.Nonce)
		u.counted, u.count = true, h.count
	}
	return true, nil
}

// load takes note of the parts of a unit that was divided.
func (s *Indexed) load(ctx context.Context, u *unit) error {
	s.tripped(1)
	_, err := s.enter(ctx, u)
	return err
}

// attach makes the units of the parts of a divided one, and of their parts, as far as these are listed. It is called
// with the lock held.
func (u *unit) attach(parts []part) error {
	s := u.s
	if len(u.parts) > 0 {
		return nil
	}
	units := make([]*unit, len(parts))
	for i, p := range parts {
		high := u.high
		if i+1 < len(parts) {
			high = parts[i+1].low
		}
		n, err := s.newUnit(s.nameOf(p.id), p.low, high)
		if err != nil {
			return err
		}
		n.id, n.parent, n.count, n.lot = p.id, u, p.count, u.lot
		if err := s.putAll([]pair{p.low, high}); err != nil {
			return err
		}
		units[i] = n
	}
	u.parts = units
	for _, n := range units {
		of := s.listings[n.id]
		if len(of) == 0 || of[0].low != n.low || of[len(of)-1].low.x >= n.high.x {
			continue // it is not divided, or another unit's: its own directory decides
		}
		n.open = true
		if err := n.attach(of); err != nil {
			return err
		}
	}
	return nil
}

// nameOf returns the name of a unit that came of a division.
func (s *Indexed) nameOf(id uint64) ope.Unit {
	return ope.Unit(fmt.Sprintf("%s/%016x", s.root.name, id))
}

// divisible reports whether names of units that come of a division are short enough.
func (s *Indexed) divisible() bool { return len(s.nameOf(0)) <= 64 }

// list adds to the root what a new client would else have to look for: the parts of a unit, or none of one that was
// opened. It is a hint, and lost if it is refused.
func (s *Indexed) list(ctx context.Context, id uint64, parts []part) {
	key := s.listingKey(id)
	meta := ope.Meta{State: ope.StateSealed, Generation: divided, Nonce: newNonce()}
	_, _ = s.root.put(ctx, ope.Condition{State: meta.State, Generation: meta.Generation}, ope.Change{
		Puts: []ope.Record{{Key: key, Value: s.root.sealer.Seal(key, s.encodeParts(parts))}},
		Meta: meta,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listings[id] = slices.Clone(parts)
}

// The set of pairs and the view. These are called with the lock held.

// adopt starts a new view unless the nonce is that of the present one.
func (u *unit) adopt(nonce ope.Nonce) {
	if u.nonce == nonce && u.view > 0 {
		u.alone = true
		return
	}
	u.forget()
	u.nonce = nonce
}

// forget ends the view.
func (u *unit) forget() {
	u.s.views++
	u.view = u.s.views
	u.counted, u.alone = false, false
}
