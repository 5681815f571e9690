package wozniak

import (
	"encoding/binary"
	"math/bits"
)

// maxSize is the length of the longest ciphertext in bytes.
const maxSize = 24

// A u192 is an unsigned number of 192 bits. Sums and differences wrap.
type u192 struct{ hi, mid, lo uint64 }

func (x u192) add(y u192) u192 {
	lo, c := bits.Add64(x.lo, y.lo, 0)
	mid, c := bits.Add64(x.mid, y.mid, c)
	return u192{x.hi + y.hi + c, mid, lo}
}

func (x u192) sub(y u192) u192 {
	lo, b := bits.Sub64(x.lo, y.lo, 0)
	mid, b := bits.Sub64(x.mid, y.mid, b)
	return u192{x.hi - y.hi - b, mid, lo}
}

func (x u192) less(y u192) bool {
	_, b := bits.Sub64(x.lo, y.lo, 0)
	_, b = bits.Sub64(x.mid, y.mid, b)
	_, b = bits.Sub64(x.hi, y.hi, b)
	return b != 0
}

func (x u192) compare(y u192) int {
	switch {
	case x.less(y):
		return -1
	case y.less(x):
		return 1
	}
	return 0
}

func (x u192) isZero() bool { return x.hi|x.mid|x.lo == 0 }

func (x u192) bitLen() int {
	switch {
	case x.hi != 0:
		return 128 + bits.Len64(x.hi)
	case x.mid != 0:
		return 64 + bits.Len64(x.mid)
	}
	return bits.Len64(x.lo)
}

// ones returns 2^n - 1, n at most 192.
func ones(n int) u192 {
	// A shift by 64 or more gives 0, and ^ of it all ones.
	low := func(n int) uint64 { return ^(^uint64(0) << max(n, 0)) }
	return u192{low(n - 128), low(n - 64), low(n)}
}

// timesAndAdd returns x*w + a, which has 256 bits at most: the highest word and the others.
func (x u192) timesAndAdd(w uint64, a u192) (top uint64, rest u192) {
	h0, l0 := bits.Mul64(x.lo, w)
	h1, l1 := bits.Mul64(x.mid, w)
	h2, l2 := bits.Mul64(x.hi, w)
	lo, c := bits.Add64(l0, a.lo, 0)
	mid, c := bits.Add64(l1, a.mid, c)
	hi, c := bits.Add64(l2, a.hi, c)
	h2 += c // no overflow: x*w + a < 2^256
	mid, c = bits.Add64(mid, h0, 0)
	hi, c = bits.Add64(hi, h1, c)
	return h2 + c, u192{hi, mid, lo}
}

// appendTo appends the low size bytes of x, big-endian; size is at most maxSize.
func (x u192) appendTo(dst []byte, size int) []byte {
	var b [maxSize]byte
	binary.BigEndian.PutUint64(b[0:], x.hi)
	binary.BigEndian.PutUint64(b[8:], x.mid)
	binary.BigEndian.PutUint64(b[16:], x.lo)
	return append(dst, b[maxSize-size:]...)
}

// fromBytes returns the big-endian number b, at most maxSize bytes.
func fromBytes(b []byte) u192 {
	var full [maxSize]byte
	copy(full[maxSize-len(b):], b)
	return u192{
		binary.BigEndian.Uint64(full[0:]),
		binary.BigEndian.Uint64(full[8:]),
		binary.BigEndian.Uint64(full[16:]),
	}
}
