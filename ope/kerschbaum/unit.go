package kerschbaum

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// The units of an index are its epochs, numbered from 1. Unit 0, the root, holds nothing but the
// number of an epoch, as its generation, from which the present one is found: it may be late,
// never run ahead. Between name and epoch stands the number of the shard. The root, which is shard 0's, also has the
// directory of shards, see divide.go.

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

// unit returns an epoch. Every name that [New] accepts has room for its number.
func (s *shard) unit(epoch uint64) *unit {
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	if u := s.units[epoch]; u != nil {
		return u
	}
	name := ope.Unit(fmt.Sprintf("%s/%06x/%016x", s.name, s.number, epoch))
	sealer, err := record.New(s.recordKey, name)
	if err != nil {
		panic("kerschbaum: " + err.Error())
	}
	if len(s.units) > 8 { // more than a pass uses at a time
		clear(s.units)
	}
	u := &unit{epoch, name, sealer}
	s.units[epoch] = u
	return u
}

// The records of a unit, in the order of their keys:
//
//	label 0                 the header: how many values the unit was opened with, and which
//	                        generation of its predecessor they were copied from
//	label 0 "r"             which part of the index the unit has, if that is not all of it
//	label                   an element: value and shape
//	tail "m" random         a mark: see marks.go
//	tail "n"                how many values there are at least
//	tail "w" generation     between which labels elements moved when the generation began
//
// where a label is 16 bytes and tail is 16 times 0xff, which is no element's label. Earlier versions wrote
// tail "g" and tail "p", which nobody reads any more: each move, with its value.
const (
	elementSize = 8 + 3*4 + 1
	headerSize  = 8 + 8
	movedSize   = 2 * order.LabelSize

	leastKind = 'n'
	markKind  = 'm'
	movedKind = 'w'
)

func tailKey(kind byte, rest []byte) []byte {
	return slices.Concat(bytes.Repeat([]byte{0xff}, order.LabelSize), []byte{kind}, rest)
}

func sealLeast(u *unit, values uint64) ope.Record {
	key := tailKey(leastKind, nil)
	return ope.Record{Key: key, Value: u.sealer.Seal(key, binary.BigEndian.AppendUint64(nil, values))}
}

// readLeast returns how many values a unit has at least, as its last rebalancing has counted them; 0 if there was none.
func (s *shard) readLeast(ctx context.Context, u *unit) (uint64, error) {
	key := tailKey(leastKind, nil)
	view, err := s.readRecords(ctx, u, key, append(key[:len(key):len(key)], 0), 1)
	if err != nil || len(view.Records) == 0 {
		return 0, err
	}
	b, err := u.sealer.Open(key, view.Records[0].Value, 8)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

func movedKey(generation uint64) []byte {
	return tailKey(movedKind, binary.BigEndian.AppendUint64(nil, generation))
}

// A header is what the first record of a unit says about it.
type header struct {
	values     uint64 // in the unit when it was opened
	generation uint64 // of its predecessor when that was sealed
}

func (s *shard) sealHeader(u *unit, h header) ope.Record {
	b := binary.BigEndian.AppendUint64(nil, h.values)
	b = binary.BigEndian.AppendUint64(b, h.generation)
	key := order.Label{}.Bytes()
	return ope.Record{Key: key, Value: u.sealer.SealHeader(key, s.id, b)}
}

func (s *shard) openHeader(u *unit, r ope.Record) (header, error) {
	b, err := u.sealer.OpenHeader(r.Key, s.id, r.Value, headerSize)
	if err != nil {
		return header{}, err
	}
	return header{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

func sealElement(u *unit, e order.Element) ope.Record {
	key := e.Label.Bytes()
	return ope.Record{Key: key, Value: u.sealer.Seal(key, appendElement(make([]byte, 0, elementSize), e))}
}

// appendElement appends the value and the shape of an element.
func appendElement(b []byte, e order.Element) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Value))
	for _, n := range []uint32{e.Shape.Depth, e.Shape.Run, e.Shape.Alt} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, byte(e.Shape.Dir))
}

// parseElement returns the element at a label whose value and shape were appended.
func parseElement(at order.Label, b []byte) order.Element {
	return order.Element{
		Value: int64(binary.BigEndian.Uint64(b)),
		Label: at,
		Shape: order.Shape{
			Depth: binary.BigEndian.Uint32(b[8:]),
			Run:   binary.BigEndian.Uint32(b[12:]),
			Alt:   binary.BigEndian.Uint32(b[16:]),
			Dir:   int8(b[20]),
		},
	}
}

func (s *shard) openElement(u *unit, r ope.Record) (order.Element, error) {
	c, ok := order.ParseLabel(r.Key)
	if !ok || c.IsZero() || !c.Less(s.rules.High().Label) {
		return order.Element{}, fmt.Errorf("%w: the record %x of unit %q has no place there", ope.ErrIndex, r.Key, u.name)
	}
	b, err := u.sealer.Open(r.Key, r.Value, elementSize)
	if err != nil {
		return order.Element{}, err
	}
	e := parseElement(c, b)
	if !s.domain.Contains(e.Value) || e.Shape.Depth == 0 {
		return order.Element{}, corrupt(u, fmt.Errorf("%w: record %x", order.ErrCorrupt, r.Key))
	}
	return e, nil
}

func sealMoved(u *unit, generation uint64, m order.Moved) ope.Record {
	key := movedKey(generation)
	return ope.Record{Key: key, Value: u.sealer.Seal(key, m.To.Append(m.From.Bytes()))}
}

// addMoved adds to a change what says where elements move when its generation begins. Only the last ones are kept.
func (s *shard) addMoved(change *ope.Change, u *unit, m order.Moved) {
	generation := change.Meta.Generation
	change.Puts = append(change.Puts, sealMoved(u, generation, m))
	if kept := uint64(s.kept); generation > kept {
		change.Deletes = append(change.Deletes, movedKey(generation-kept))
	}
}

func openMoved(u *unit, r ope.Record) (m order.Moved, err error) {
	b, err := u.sealer.Open(r.Key, r.Value, movedSize)
	if err != nil {
		return order.Moved{}, err
	}
	m.From, _ = order.ParseLabel(b[:order.LabelSize])
	m.To, _ = order.ParseLabel(b[order.LabelSize:])
	return m, nil
}

// corrupt names the unit that is not as clients leave it.
func corrupt(u *unit, err error) error {
	if errors.Is(err, order.ErrFull) {
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
	header   *header         // if the read began at label 0 and the unit has one
	part     *part           // the same
	elements []order.Element // ascending by label
	more     bool
}

// read returns the elements with from <= label < to, at most limit of them. Of those that another unit has by now, there
// are none.
func (s *shard) read(ctx context.Context, epoch uint64, from, to order.Label, limit int) (page, error) {
	u := s.unit(epoch)
	s.mu.Lock()
	if from == s.known.rules.From && !from.IsZero() {
		from = from.Next() // what is at the lower end is not in the unit any more
	}
	s.mu.Unlock()
	view, err := s.readRecords(ctx, u, from.Bytes(), to.Bytes(), limit)
	if err != nil {
		return page{}, err
	}
	p := page{unit: u, meta: view.Meta, more: view.More, elements: make([]order.Element, 0, len(view.Records))}
	records := view.Records
	if from.IsZero() {
		if records, err = s.openFirst(&p, records); err != nil {
			return page{}, err
		}
	}
	for _, r := range records {
		e, err := s.openElement(u, r)
		if err != nil {
			return page{}, err
		}
		if p.part != nil && e.Label.Less(p.part.low.Label) {
			continue // it is about to be deleted
		}
		if n := len(p.elements); n > 0 && (!p.elements[n-1].Label.Less(e.Label) || p.elements[n-1].Value >= e.Value) {
			return page{}, corrupt(u, fmt.Errorf("%w: record %x is out of order", order.ErrCorrupt, r.Key))
		}
		p.elements = append(p.elements, e)
	}
	return p, nil
}

// openFirst opens the records of label 0, and returns the others.
func (s *shard) openFirst(p *page, records []ope.Record) ([]ope.Record, error) {
	if len(records) > 0 && bytes.Equal(records[0].Key, order.Label{}.Bytes()) {
		h, err := s.openHeader(p.unit, records[0])
		if err != nil {
			return nil, err
		}
		p.header, records = &h, records[1:]
	} else if p.meta.State != ope.StateAbsent {
		return nil, corrupt(p.unit, fmt.Errorf("%w: its header is missing", order.ErrCorrupt))
	}
	if len(records) > 0 && bytes.Equal(records[0].Key, partKey) {
		r, err := s.openPart(p.unit, records[0])
		if err != nil {
			return nil, err
		}
		p.part, records = &r, records[1:]
	} else if p.meta.State == ope.StateDivided {
		return nil, corrupt(p.unit, fmt.Errorf("%w: what part of the index it has is missing", order.ErrCorrupt))
	}
	return records, nil
}

// readHeader reads the header of a unit, and which part of the index it has.
func (s *shard) readHeader(ctx context.Context, u *unit) (page, error) {
	p := page{unit: u}
	view, err := s.readRecords(ctx, u, order.Label{}.Bytes(), order.Label{Lo: 1}.Bytes(), 2)
	if err == nil {
		p.meta = view.Meta
		_, err = s.openFirst(&p, view.Records)
	}
	return p, err
}

// readMeta reads what a unit is.
func (s *shard) readMeta(ctx context.Context, u *unit) (ope.Meta, error) {
	zero := order.Label{}.Bytes()
	view, err := s.readRecords(ctx, u, zero, append(zero, 0), 1)
	return view.Meta, err
}

// eachRecord calls do for the records with from <= key < to of a unit, and reads so many at once.
func (s *shard) eachRecord(ctx context.Context, u *unit, from, to []byte, atOnce int, do func(ope.Record) error) error {
	for {
		view, err := s.readRecords(ctx, u, from, to, atOnce)
		if err != nil {
			return err
		}
		for _, r := range view.Records {
			if err := do(r); err != nil {
				return err
			}
			from = append(r.Key, 0)
		}
		if !view.More {
			return nil
		}
	}
}

// readRecords reads a unit as it is now, which is not before what this client knew when it asked.
//
// On Cassandra a read may have seen a change that is not yet decided for all replicas, and the next one
// miss it. So what is undecided is decided before an older answer counts as a unit that was put back.
func (s *shard) readRecords(ctx context.Context, u *unit, from, to []byte, limit int) (ope.View, error) {
	s.mu.Lock()
	met := s.known.met && s.known.epoch == u.epoch
	state, generation := s.known.state, s.known.generation
	s.mu.Unlock()
	for attempt := 0; ; attempt++ {
		s.count(func(n *Stats) { n.Reads++; n.RoundTrips++ })
		view, err := s.index.Read(ctx, u.name, from, to, limit)
		if err != nil {
			return view, fmt.Errorf("read unit %q: %w", u.name, err)
		}
		is := view.Meta
		if !met || is.State >= state && is.Generation >= generation {
			return view, nil
		}
		// A commit that changes nothing is applied if this is what the unit is.
		same := ope.Condition{State: is.State, Generation: is.Generation, Nonce: &is.Nonce}
		latest, err := s.commit(ctx, u, same, ope.Change{Meta: is})
		if latest {
			err = corrupt(u, fmt.Errorf("%w: it was put back to generation %d and state %d, and this client has seen %d and %d",
				order.ErrCorrupt, is.Generation, is.State, generation, state))
		} else if err == nil {
			err = backOff(ctx, attempt)
		}
		if err != nil {
			return ope.View{}, err
		}
	}
}

// commit makes a change. A commit of unknown outcome is reported as not applied: the caller reads
// on in any case, and finds what it did itself as it finds what others did.
func (s *shard) commit(ctx context.Context, u *unit, cond ope.Condition, change ope.Change) (bool, error) {
	s.count(func(n *Stats) { n.Commits++; n.RoundTrips++ })
	applied, err := s.index.Commit(ctx, u.name, cond, change)
	if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {
		s.count(func(n *Stats) { n.Unknown++ })
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
