package unit

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// A Part is what of the index a shard has.
type Part struct {
	Low   order.Element // the lowest label and value that belong here
	High  order.Element // the first that was above when it was handed over up to there
	Top   bool          // nothing is above; High counts for nothing
	Left  uint32        // the shard that has what is below; 0: none
	Until order.Label   // what is below that is yet to be handed over
	Given order.Element // Low, before the last that are being handed over
	N     uint32        // number of these, which are yet to be deleted; 0: none
	Since uint64        // the generation that began when these were frozen
	Gone  uint64        // values that were handed over so far
	Came  uint64        // values that came from the right neighbour so far
}

// Whole returns what a shard has that was never divided.
func Whole(d ope.Domain) Part { return Part{Low: order.Element{Value: d.Min}, Top: true} }

// Covers reports whether the part has the place of a value.
func (p Part) Covers(x int64) bool { return p.Low.Value <= x && (p.Top || x < p.High.Value) }

// Gives reports whether more is to be handed over.
func (p Part) Gives() bool { return p.Low.Label.Less(p.Until) }

// Rules returns the rules of the index for the part.
func (p Part) Rules(r order.Rules) order.Rules {
	var to order.Element
	if !p.Top {
		to = p.High
	}
	return r.Within(p.Low.Label.Previous(), to)
}

// SameEdge reports whether the edges of two neighbours are the same. Each has a shape of its own.
func SameEdge(a, b order.Element) bool {
	return a.Label == b.Label && a.Value == b.Value && a.Rank == b.Rank
}

func (u *Unit) SealPart(p Part) ope.Record {
	b := make([]byte, 0, u.codec.partSize())
	for _, e := range []order.Element{p.Low, p.High, p.Given} {
		b = u.codec.appendElement(e.Label.Append(b), e)
	}
	top := byte(0)
	if p.Top {
		top = 1
	}
	b = append(b, top)
	b = binary.BigEndian.AppendUint32(b, p.Left)
	b = binary.BigEndian.AppendUint32(b, p.N)
	b = p.Until.Append(b)
	for _, n := range []uint64{p.Since, p.Gone, p.Came} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return u.seal(PartKey, b)
}

func (u *Unit) OpenPart(r ope.Record) (p Part, err error) {
	b, err := u.sealer.Open(PartKey, r.Value, u.codec.partSize())
	if err != nil {
		return p, err
	}
	for _, e := range []*order.Element{&p.Low, &p.High, &p.Given} {
		at, _ := order.ParseLabel(b[:order.LabelSize])
		var ok bool
		if *e, ok = u.codec.parseElement(at, b[order.LabelSize:]); !ok {
			return p, u.Corrupt(fmt.Errorf("%w: record %x", order.ErrCorrupt, PartKey))
		}
		b = b[order.LabelSize+u.codec.elementSize():]
	}
	p.Top = b[0] == 1
	p.Left, p.N = binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint32(b[5:])
	p.Until, _ = order.ParseLabel(b[9 : 9+order.LabelSize])
	for i, n := range []*uint64{&p.Since, &p.Gone, &p.Came} {
		*n = binary.BigEndian.Uint64(b[9+order.LabelSize+8*i:])
	}
	return p, nil
}

// A Listing is what the directory of shards, a part of the root, has of one of them, other than the first: where it ended when
// that was written. It spares new clients the way from shard to shard, and is nothing but a hint.
type Listing struct {
	Number uint32
	High   order.Element
	Epoch  uint64
}

const listingSize = order.LabelSize + 8 + 8

// ListingKey is the key of what the directory has of a shard.
func ListingKey(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

func (u *Unit) SealListing(l Listing) ope.Record {
	b := binary.BigEndian.AppendUint64(l.High.Label.Append(nil), uint64(l.High.Value))
	return u.seal(ListingKey(l.Number), binary.BigEndian.AppendUint64(b, l.Epoch))
}

// OpenListing reports false for a record of a later version.
func (u *Unit) OpenListing(r ope.Record) (l Listing, ok bool, err error) {
	if len(r.Key) != 4 {
		return l, false, nil
	}
	b, err := u.sealer.Open(r.Key, r.Value, listingSize)
	if err != nil {
		return l, false, err
	}
	l.Number = binary.BigEndian.Uint32(r.Key)
	l.High.Label, _ = order.ParseLabel(b[:order.LabelSize])
	l.High.Value = int64(binary.BigEndian.Uint64(b[order.LabelSize:]))
	l.Epoch = binary.BigEndian.Uint64(b[order.LabelSize+8:])
	return l, !bytes.Equal(r.Key, make([]byte, 4)), nil
}
