// Package unit has the units of an index of Kerschbaum's scheme: their names, and their records, sealed. It does no I/O.
package unit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// The units of an index are its epochs, numbered from 1. Unit 0, the root, holds nothing but the
// number of an epoch, as its generation, from which the present one is found: it may be late,
// never run ahead. Between name and epoch stands the number of the shard. The root, which is shard 0's, also has the
// directory of shards, see [Listing].

// MaxName is how many bytes the name of an index has at most. It leaves room for shard and epoch in the 64 bytes of a
// unit's name.
const MaxName = 64 - len("/000000/0000000000000000")

// Root is the epoch of the root.
const Root = 0

// A Codec makes the units of an index.
type Codec struct {
	Name   string      // of the index
	ID     string      // of the scheme
	Key    ope.Key     // of records
	Rules  order.Rules // of the whole index
	Domain ope.Domain
}

// A Unit is an epoch of the index, or of a shard of it, with what seals its records.
type Unit struct {
	Epoch  uint64
	Name   ope.Unit
	codec  *Codec
	sealer *record.Sealer
}

// New returns an epoch of a shard.
func (c *Codec) New(shard uint32, epoch uint64) *Unit {
	name := ope.Unit(fmt.Sprintf("%s/%06x/%016x", c.Name, shard, epoch))
	sealer, err := record.New(c.Key, name)
	if err != nil { // every name that is short enough has room for the numbers
		panic("kerschbaum: " + err.Error())
	}
	return &Unit{epoch, name, c, sealer}
}

// The records of a unit, in the order of their keys:
//
//	label 0                 the header: how many values the unit was opened with, and which
//	                        generation of its predecessor they were copied from
//	label 0 "r"             which part of the index the unit has, if that is not all of it
//	label                   an element: value and shape
//	tail "m" random         a mark, which stands for so many values
//	tail "n"                how many values there are at least
//	tail "w" generation     between which labels elements moved when the generation began
//
// where a label is 16 bytes and tail is 16 times 0xff, which is no element's label. Earlier versions wrote
// tail "g" and tail "p", which nobody reads any more: each move, with its value.
//
// In an index with ranks, the rank of an element follows its shape.
const (
	headerSize = 8 + 8
	movedSize  = 2 * order.LabelSize
	countSize  = 8

	markKind  = 'm'
	leastKind = 'n'
	movedKind = 'w'
)

// Keys of records, of which none is to be changed.
var (
	HeaderKey = order.Label{}.Bytes()
	PartKey   = append(order.Label{}.Bytes(), 'r')
	LeastKey  = tailKey(leastKind, nil)

	// Marks are from the first on, and below the second.
	FirstMark, AboveMarks = tailKey(markKind, nil), tailKey(markKind+1, nil)

	// AboveMoved is above what records where elements moved.
	AboveMoved = tailKey(movedKind+1, nil)
)

func tailKey(kind byte, rest []byte) []byte {
	return slices.Concat(bytes.Repeat([]byte{0xff}, order.LabelSize), []byte{kind}, rest)
}

// MovedKey is the key of the record of where elements moved when a generation began.
func MovedKey(generation uint64) []byte {
	return tailKey(movedKind, binary.BigEndian.AppendUint64(nil, generation))
}

// A Header is what the first record of a unit says about it.
type Header struct {
	Values     uint64 // in the unit when it was opened
	Generation uint64 // of its predecessor when that was sealed
}

func (u *Unit) SealHeader(h Header) ope.Record {
	b := binary.BigEndian.AppendUint64(nil, h.Values)
	b = binary.BigEndian.AppendUint64(b, h.Generation)
	return ope.Record{Key: HeaderKey, Value: u.sealer.SealHeader(HeaderKey, u.codec.ID, b)}
}

func (u *Unit) OpenHeader(r ope.Record) (Header, error) {
	b, err := u.sealer.OpenHeader(r.Key, u.codec.ID, r.Value, headerSize)
	if err != nil {
		return Header{}, err
	}
	return Header{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

func (u *Unit) seal(key, content []byte) ope.Record {
	return ope.Record{Key: key, Value: u.sealer.Seal(key, content)}
}

// elementSize is the length of the value, the shape and the rank of an element.
func (c *Codec) elementSize() int {
	n := 8 + 3*4 + 1
	if c.Rules.RankBits > 0 {
		n += order.RankSize
	}
	return n
}

func (c *Codec) partSize() int {
	return 3*(order.LabelSize+c.elementSize()) + 1 + 2*4 + order.LabelSize + 3*8
}

func (u *Unit) SealElement(e order.Element) ope.Record {
	return u.seal(e.Label.Bytes(), u.codec.appendElement(make([]byte, 0, u.codec.elementSize()), e))
}

// appendElement appends the value, the shape and the rank of an element.
func (c *Codec) appendElement(b []byte, e order.Element) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Value))
	for _, n := range []uint32{e.Shape.Depth, e.Shape.Run, e.Shape.Alt} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(b, byte(e.Shape.Dir))
	if c.Rules.RankBits > 0 {
		b = e.Rank.Append(b)
	}
	return b
}

// parseElement returns the element at a label whose value, shape and rank were appended.
func (c *Codec) parseElement(at order.Label, b []byte) (e order.Element, ok bool) {
	e = order.Element{
		Value: int64(binary.BigEndian.Uint64(b)),
		Label: at,
		Shape: order.Shape{
			Depth: binary.BigEndian.Uint32(b[8:]),
			Run:   binary.BigEndian.Uint32(b[12:]),
			Alt:   binary.BigEndian.Uint32(b[16:]),
			Dir:   int8(b[20]),
		},
	}
	if c.Rules.RankBits == 0 {
		return e, true
	}
	e.Rank, ok = order.ParseRank(b[21:c.elementSize()])
	return e, ok && (e.Rank != order.Rank{} || e.Shape.Depth == 0)
}

// An opener is a sealer, or one of its openers.
type opener interface {
	Open(key, sealed []byte, size int) ([]byte, error)
}

func (u *Unit) OpenElement(r ope.Record) (order.Element, error) { return u.openElement(u.sealer, r) }

func (u *Unit) openElement(o opener, r ope.Record) (order.Element, error) {
	c, ok := order.ParseLabel(r.Key)
	if !ok || c.IsZero() || !c.Less(u.codec.Rules.High().Label) {
		return order.Element{}, fmt.Errorf("%w: the record %x of unit %q has no place there", ope.ErrIndex, r.Key, u.Name)
	}
	b, err := o.Open(r.Key, r.Value, u.codec.elementSize())
	if err != nil {
		return order.Element{}, err
	}
	e, ok := u.codec.parseElement(c, b)
	if !ok || !u.codec.Domain.Contains(e.Value) || e.Shape.Depth == 0 {
		return order.Element{}, u.Corrupt(fmt.Errorf("%w: record %x", order.ErrCorrupt, r.Key))
	}
	return e, nil
}

// Move adds to a change what gives elements other places, and puts new ones among them. Both lists ascend. It returns how
// many get other labels.
func (u *Unit) Move(change *ope.Change, old, to []order.Element) (moves int) {
	for _, e := range to {
		i, was := slices.BinarySearchFunc(old, e.Value, order.Element.CompareValue)
		if was && old[i].Label != e.Label {
			moves++
		}
		if !was || old[i] != e {
			change.Puts = append(change.Puts, u.SealElement(e))
		}
	}
	for _, e := range old {
		if _, kept := slices.BinarySearchFunc(to, e.Label, order.Element.CompareLabel); !kept {
			change.Deletes = append(change.Deletes, e.Label.Bytes())
		}
	}
	return moves
}

// AddMoved adds to a change what says where elements move when its generation begins. So many of the last are kept.
func (u *Unit) AddMoved(change *ope.Change, m order.Moved, kept int) {
	generation := change.Meta.Generation
	change.Puts = append(change.Puts, u.SealMoved(generation, m))
	if generation > uint64(kept) {
		change.Deletes = append(change.Deletes, MovedKey(generation-uint64(kept)))
	}
}

func (u *Unit) SealMoved(generation uint64, m order.Moved) ope.Record {
	return u.seal(MovedKey(generation), m.To.Append(m.From.Bytes()))
}

func (u *Unit) OpenMoved(r ope.Record) (m order.Moved, err error) {
	b, err := u.sealer.Open(r.Key, r.Value, movedSize)
	if err != nil {
		return order.Moved{}, err
	}
	m.From, _ = order.ParseLabel(b[:order.LabelSize])
	m.To, _ = order.ParseLabel(b[order.LabelSize:])
	return m, nil
}

// SealLeast seals how many values a unit has at least.
func (u *Unit) SealLeast(values uint64) ope.Record {
	return u.seal(LeastKey, binary.BigEndian.AppendUint64(nil, values))
}

// Marks returns the marks for n values that the commit of a nonce puts into the unit: about one of so many has one, as the
// weight says.
func (u *Unit) Marks(nonce ope.Nonce, n, weight int) []ope.Record {
	random := binary.BigEndian.Uint64(nonce[:])
	var drawn uint64
	for i := range uint64(n) {
		// SplitMix64: even coins out of the nonce.
		z := random + (i+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		if hi, _ := bits.Mul64(z^z>>31, uint64(weight)); hi == 0 {
			drawn++
		}
	}
	if drawn == 0 {
		return nil
	}
	return []ope.Record{u.seal(tailKey(markKind, nonce[:]), binary.BigEndian.AppendUint64(nil, drawn*uint64(weight)))}
}

// OpenCount returns what a mark, or the record of how many values there are at least, says.
func (u *Unit) OpenCount(r ope.Record) (uint64, error) {
	b, err := u.sealer.Open(r.Key, r.Value, countSize)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// Corrupt names the unit that is not as clients leave it.
func (u *Unit) Corrupt(err error) error {
	if errors.Is(err, order.ErrFull) {
		return fmt.Errorf("%w: unit %q: %w", ope.ErrFull, u.Name, err)
	}
	return fmt.Errorf("%w: unit %q: %w", ope.ErrIndex, u.Name, err)
}
