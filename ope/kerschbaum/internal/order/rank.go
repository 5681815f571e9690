package order

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
)

// RankBits are the most that a rank has. RankSize is its length in bytes.
const (
	RankBits = 192
	RankSize = RankBits/8 + 1
)

// A Rank is a place of a value that never moves, in an index that has ranks: an unsigned number of [RankBits] bits. Where there is
// no room between two, values share the number that the value below them has for itself.
//
// The number goes where a label would: see [Shape]. Labels have 128 bits, which a million values use up that come in ascending
// runs from random places, and then they move. Ranks of 192 bits are enough for some thousand such runs, and for any
// number of values that come in ascending or in random order. A path that nothing predicts uses them up after some 190 values.
type Rank struct {
	Hi     uint64
	Lo     Label
	Shared bool
}

// topRank returns that of the end above all values. No value has it.
func (r Rules) topRank() Rank {
	switch {
	case r.RankBits == 0:
		return Rank{}
	case r.RankBits < 128:
		return Rank{Lo: Power(r.RankBits)}
	case r.RankBits < RankBits:
		return Rank{Hi: 1 << (r.RankBits - 128)}
	}
	return Rank{Hi: math.MaxUint64, Lo: Label{math.MaxUint64, math.MaxUint64}}
}

// Append appends the bytes of the rank: the number, big-endian, and 1 if it is shared or else 0. So their bytewise order is
// that of ranks.
func (a Rank) Append(dst []byte) []byte {
	dst = a.Lo.Append(binary.BigEndian.AppendUint64(dst, a.Hi))
	if a.Shared {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// ParseRank returns the rank that b is the bytes of. It reports false if it is none.
func ParseRank(b []byte) (a Rank, ok bool) {
	if len(b) != RankSize || b[RankSize-1] > 1 {
		return a, false
	}
	a.Hi, a.Shared = binary.BigEndian.Uint64(b), b[RankSize-1] == 1
	a.Lo, ok = ParseLabel(b[8 : RankSize-1])
	return a, ok
}

// Compare returns -1, 0 or +1: whether a is below, at or above b. What shares a number is above what has it for itself.
func (a Rank) Compare(b Rank) int {
	if n := cmp.Or(cmp.Compare(a.Hi, b.Hi), a.Lo.Compare(b.Lo)); n != 0 || a.Shared == b.Shared {
		return n
	}
	if b.Shared {
		return -1
	}
	return +1
}

// SharedBy reports whether b can be the rank of the next value: one that is shared is that of the value below.
func (a Rank) SharedBy(b Rank) bool { return !b.Shared || a.Hi == b.Hi && a.Lo == b.Lo }

// minus returns the distance from b, which is not above, to a.
func (a Rank) minus(b Rank) Rank {
	lo, borrow := bits.Sub64(a.Lo.Lo, b.Lo.Lo, 0)
	hi, borrow := bits.Sub64(a.Lo.Hi, b.Lo.Hi, borrow)
	top, _ := bits.Sub64(a.Hi, b.Hi, borrow)
	return Rank{Hi: top, Lo: Label{hi, lo}}
}

func (a Rank) plus(b Rank) Rank {
	lo, carry := bits.Add64(a.Lo.Lo, b.Lo.Lo, 0)
	hi, carry := bits.Add64(a.Lo.Hi, b.Lo.Hi, carry)
	top, _ := bits.Add64(a.Hi, b.Hi, carry)
	return Rank{Hi: top, Lo: Label{hi, lo}}
}

// over returns a/d.
func (a Rank) over(d uint64) (q Rank) {
	q.Hi = a.Hi / d
	rest := a.Hi % d
	q.Lo.Hi, rest = bits.Div64(rest, a.Lo.Hi, d)
	q.Lo.Lo, _ = bits.Div64(rest, a.Lo.Lo, d)
	return q
}

// rank returns the rank of what is put between two neighbours with a shape.
func (r Rules) rank(left, right Element, s Shape) Rank {
	if r.RankBits == 0 {
		return Rank{}
	}
	one := Rank{Lo: Label{0, 1}}
	low := left.Rank
	low.Shared = false
	gap := right.Rank.minus(low)
	if gap == (Rank{}) || gap == one {
		low.Shared = true
		return low
	}
	den, dir := s.share()
	part := gap.over(den)
	if part == (Rank{}) {
		part = one
	}
	if dir < 0 {
		part = gap.minus(part)
	}
	return low.plus(part)
}
