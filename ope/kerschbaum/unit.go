package kerschbaum

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
)

// The units of an index are its epochs, numbered from 1. Unit 0, the root, holds nothing but the
// number of an epoch, as its generation, from which the present one is found: it may lag behind,
// never run ahead. Between name and epoch stands the number of a shard, so far always 0.

// nameLimit leaves room for shard and epoch in the 64 bytes of a unit's name.
const nameLimit = 64 - len("/000000/0000000000000000")

// root is the epoch of the root.
const root = 0

// A unit is an epoch of the index with what seals its records.
type unit struct {
	epoch  uint64
	name   ope.Unit
	sealer *record.Sealer
}

func (s *Scheme) unit(epoch uint64) (*unit, error) {
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	if u := s.units[epoch]; u != nil {
		return u, nil
	}
	name := ope.Unit(fmt.Sprintf("%s/%06x/%016x", s.name, 0, epoch))
	sealer, err := record.New(s.recordKey, name)
	if err != nil {
		return nil, err
	}
	if len(s.units) > 8 { // more than a pass uses at a time
		clear(s.units)
	}
	u := &unit{epoch, name, sealer}
	s.units[epoch] = u
	return u, nil
}

// The records of a unit, in the order of their keys:
//
//	label 0                 the header: how many values the unit was opened with, and which
//	                        generation of its predecessor they were copied from
//	label                   an element: value and shape
//	tail "g" generation     what moved when the generation began
//	tail "m" random         a mark: see marks.go
//	tail "p" number         what moved when the unit was opened, a part of it
//
// where a label is 16 bytes and tail is 16 times 0xff, which is no element's label.
const (
	elementSize = 8 + 3*4 + 1
	headerSize  = 8 + 8
	moveSize    = 8 + 2*labelSize

	logKind  = 'g'
	markKind = 'm'
	passKind = 'p'
)

func tailKey(kind byte, rest []byte) []byte {
	key := make([]byte, 0, labelSize+1+len(rest))
	for range labelSize {
		key = append(key, 0xff)
	}
	return append(append(key, kind), rest...)
}

func logKey(generation uint64) []byte {
	return tailKey(logKind, binary.BigEndian.AppendUint64(nil, generation))
}

func passKey(part int) []byte {
	return tailKey(passKind, binary.BigEndian.AppendUint32(nil, uint32(part)))
}

// A header is what the first record of a unit says about it.
type header struct {
	values     uint64 // in the unit when it was opened
	generation uint64 // of its predecessor when that was sealed
}

func (s *Scheme) sealHeader(u *unit, h header) ope.Record {
	b := binary.BigEndian.AppendUint64(nil, h.values)
	b = binary.BigEndian.AppendUint64(b, h.generation)
	key := label{}.bytes()
	return ope.Record{Key: key, Value: u.sealer.SealHeader(key, s.id, b)}
}

func (s *Scheme) openHeader(u *unit, r ope.Record) (header, error) {
	b, err := u.sealer.OpenHeader(r.Key, s.id, r.Value, headerSize)
	if err != nil {
		return header{}, err
	}
	return header{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

func sealElement(u *unit, e element) ope.Record {
	var b [elementSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(e.value))
	binary.BigEndian.PutUint32(b[8:], e.shape.depth)
	binary.BigEndian.PutUint32(b[12:], e.shape.run)
	binary.BigEndian.PutUint32(b[16:], e.shape.alt)
	b[20] = byte(e.shape.dir)
	key := e.label.bytes()
	return ope.Record{Key: key, Value: u.sealer.Seal(key, b[:])}
}

func (s *Scheme) openElement(u *unit, r ope.Record) (element, error) {
	c, ok := parseLabel(r.Key)
	if _, high := s.rules.ends(); !ok || !c.less(high.label) {
		return element{}, fmt.Errorf("%w: the record %x of unit %q has no place there", ope.ErrIndex, r.Key, u.name)
	}
	b, err := u.sealer.Open(r.Key, r.Value, elementSize)
	if err != nil {
		return element{}, err
	}
	e := element{
		value: int64(binary.BigEndian.Uint64(b)),
		label: c,
		shape: shape{
			depth: binary.BigEndian.Uint32(b[8:]),
			run:   binary.BigEndian.Uint32(b[12:]),
			alt:   binary.BigEndian.Uint32(b[16:]),
			dir:   int8(b[20]),
		},
	}
	if !s.domain.Contains(e.value) || e.shape.depth == 0 {
		return element{}, corrupt(u, fmt.Errorf("%w: record %x", errCorrupt, r.Key))
	}
	return e, nil
}

// A move is a value that went from one label to another.
type move struct {
	value    int64
	from, to label
}

func sealMoves(u *unit, key []byte, moves []move) ope.Record {
	b := make([]byte, 0, len(moves)*moveSize)
	for _, m := range moves {
		b = binary.BigEndian.AppendUint64(b, uint64(m.value))
		b = m.to.append(m.from.append(b))
	}
	return ope.Record{Key: key, Value: u.sealer.Seal(key, b)}
}

func openMoves(u *unit, r ope.Record) ([]move, error) {
	size := max(0, len(r.Value)-record.Overhead)
	b, err := u.sealer.Open(r.Key, r.Value, size/moveSize*moveSize)
	if err != nil {
		return nil, err
	}
	moves := make([]move, 0, len(b)/moveSize)
	for ; len(b) > 0; b = b[moveSize:] {
		m := move{value: int64(binary.BigEndian.Uint64(b))}
		m.from, _ = parseLabel(b[8 : 8+labelSize])
		m.to, _ = parseLabel(b[8+labelSize : moveSize])
		moves = append(moves, m)
	}
	return moves, nil
}

// corrupt tells which unit is not such as clients leave it.
func corrupt(u *unit, err error) error {
	if errors.Is(err, errFull) {
		return fmt.Errorf("%w: unit %q: %w", ope.ErrFull, u.name, err)
	}
	return fmt.Errorf("%w: unit %q: %w", ope.ErrIndex, u.name, err)
}

func newNonce() (n ope.Nonce) {
	rand.Read(n[:]) // never fails, as documented
	return n
}

// A page is what a read returned.
type page struct {
	unit     *unit
	meta     ope.Meta
	header   *header   // if the read began at label 0 and the unit has one
	elements []element // ascending by label
	more     bool
}

func (p page) version() ope.Version {
	return ope.Version{Epoch: p.unit.epoch, Generation: p.meta.Generation}
}

// read returns the elements with from <= label < to, at most limit of them.
func (s *Scheme) read(ctx context.Context, epoch uint64, from, to label, limit int) (page, error) {
	u, err := s.unit(epoch)
	if err != nil {
		return page{}, err
	}
	view, err := s.readRecords(ctx, u, from.bytes(), to.bytes(), limit)
	if err != nil {
		return page{}, err
	}
	p := page{unit: u, meta: view.Meta, more: view.More, elements: make([]element, 0, len(view.Records))}
	for _, r := range view.Records {
		if from.isZero() && p.header == nil {
			if c, ok := parseLabel(r.Key); !ok || !c.isZero() {
				break
			}
			h, err := s.openHeader(u, r)
			if err != nil {
				return page{}, err
			}
			p.header = &h
			continue
		}
		e, err := s.openElement(u, r)
		if err != nil {
			return page{}, err
		}
		if n := len(p.elements); n > 0 && (!p.elements[n-1].label.less(e.label) || p.elements[n-1].value >= e.value) {
			return page{}, corrupt(u, fmt.Errorf("%w: record %x is out of order", errCorrupt, r.Key))
		}
		p.elements = append(p.elements, e)
	}
	if from.isZero() && p.header == nil && view.Meta.State != ope.StateAbsent {
		return page{}, corrupt(u, fmt.Errorf("%w: its header is missing", errCorrupt))
	}
	return p, nil
}

func (s *Scheme) readRecords(ctx context.Context, u *unit, from, to []byte, limit int) (ope.View, error) {
	s.count(func(n *Stats) { n.Reads++ })
	view, err := s.index.Read(ctx, u.name, from, to, limit)
	if err != nil {
		return view, fmt.Errorf("read unit %q: %w", u.name, err)
	}
	return view, nil
}

// commit makes a change. A commit of unknown outcome is reported as not applied: the caller reads
// on in any case, and finds what it did itself as it finds what others did.
func (s *Scheme) commit(ctx context.Context, u *unit, cond ope.Condition, change ope.Change) (bool, error) {
	s.count(func(n *Stats) { n.Commits++; n.RoundTrips++ })
	applied, err := s.index.Commit(ctx, u.name, cond, change)
	if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {
		s.count(func(n *Stats) { n.Unknown++ })
		if s.guards.repeatUnknown {
			view, err := s.readRecords(ctx, u, nil, nil, 1)
			if err != nil {
				return false, err
			}
			change.Meta.Generation += view.Meta.Generation - cond.Generation
			cond = ope.Condition{State: cond.State, Generation: view.Meta.Generation}
			applied, err = s.index.Commit(ctx, u.name, cond, change)
			return applied, err
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("commit to unit %q: %w", u.name, err)
	}
	if !applied {
		s.count(func(n *Stats) { n.Conflicts++ })
	}
	return applied, nil
}
