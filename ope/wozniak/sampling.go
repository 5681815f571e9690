package wozniak

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"math/bits"
)

// This file is the sample procedure of RUS for one aim, and the two draws of RSS before it, as
// Waage et al. 2016, section 3.2.1, modify them. Plaintexts are offsets in the domain.

// A box is what is left to decide of an order-preserving function: the plaintexts dmin to dmax,
// and the ciphertexts cmin to cmax for them, which are at least as many.
type box struct {
	dmin, dmax uint64
	cmin, cmax *big.Int
}

// between returns the box between two neighbours that are decided. It is open: the text of the
// paper has [d1, d2], but an end that were drawn again would change a ciphertext.
func between(low, high pair) box {
	one := big.NewInt(1)
	return box{low.x + 1, high.x - 1, new(big.Int).Add(low.number(), one), new(big.Int).Sub(high.number(), one)}
}

// Draws are uniform random numbers of [0, last].
type draws interface {
	word(last uint64) (uint64, error)
	number(last *big.Int) (*big.Int, error)
}

// sample decides the aim p0, which is in the box, and whatever is drawn on the way to it. It
// yields every pair that it draws, the last of them (p0, c0).
func (b box) sample(p0 uint64, d draws, yield func(p uint64, c *big.Int)) error {
	for {
		// The box has as much slack as it has more ciphertexts than plaintexts. It is never
		// negative: c leaves both sides as many ciphertexts as they have plaintexts.
		slack := new(big.Int).Sub(b.cmax, b.cmin)
		slack.Sub(slack, new(big.Int).SetUint64(b.dmax-b.dmin))
		below, err := d.word(b.dmax - b.dmin)
		if err != nil {
			return err
		}
		p := b.dmin + below
		c, err := d.number(slack)
		if err != nil {
			return err
		}
		c.Add(c, b.cmin)
		c.Add(c, new(big.Int).SetUint64(below))
		yield(p, c)
		one := big.NewInt(1)
		switch {
		case p0 == p:
			return nil
		case p0 < p:
			b.dmax, b.cmax = p-1, new(big.Int).Sub(c, one)
		default:
			b.dmin, b.cmin = p+1, new(big.Int).Add(c, one)
		}
	}
}

// ends returns the ciphertexts of the lowest and the highest plaintext of a domain of span+1
// values in the range of 2^rangeBits ciphertexts: RSS chooses a part of the range, and of this
// part the ends take what leaves room for all between them. (The paper draws c_min from
// [r_min, r_max-1] and c_max from [c_min+1, r_max], which for |R| = 16 |D| leaves too little room
// in 63 of 100 cases.)
func ends(span uint64, rangeBits int, d draws) (cmin, cmax *big.Int, err error) {
	width := new(big.Int).SetUint64(span) // |D| - 1
	top := new(big.Int).Lsh(big.NewInt(1), uint(rangeBits))
	top.Sub(top, big.NewInt(1))
	// two returns from <= low and low+width <= high <= to, each drawn from what the first leaves.
	two := func(from, to *big.Int, highFirst bool) (low, high *big.Int, err error) {
		slack := new(big.Int).Sub(to, from)
		slack.Sub(slack, width)
		first, err := d.number(slack)
		if err != nil {
			return nil, nil, err
		}
		rest := new(big.Int).Sub(slack, first)
		if highFirst {
			rest = first
		}
		second, err := d.number(rest)
		if err != nil {
			return nil, nil, err
		}
		if highFirst {
			low, high = second, first
		} else {
			low, high = first, new(big.Int).Add(first, second)
		}
		high = new(big.Int).Add(high, width)
		return low.Add(low, from), high.Add(high, from), nil
	}
	highFirst, err := d.word(1)
	if err != nil {
		return nil, nil, err
	}
	rmin, rmax, err := two(new(big.Int), top, highFirst == 1)
	if err != nil {
		return nil, nil, err
	}
	cmin, cmax, err = two(rmin, rmax, false)
	if err == nil && span == 0 {
		cmax = cmin // one value has one ciphertext
	}
	return cmin, cmax, err
}

// byteDraws are draws from a source of random bytes, exactly uniform by rejection.
type byteDraws struct{ r *bufio.Reader }

func drawFrom(r io.Reader) byteDraws { return byteDraws{bufio.NewReaderSize(r, 512)} }

func (c byteDraws) read(b []byte) error {
	if _, err := io.ReadFull(c.r, b); err != nil {
		return fmt.Errorf("read random coins: %w", err)
	}
	return nil
}

func (c byteDraws) word(last uint64) (uint64, error) {
	for {
		var b [8]byte
		if err := c.read(b[:]); err != nil {
			return 0, err
		}
		// A shift by 64 gives 0, and this all ones.
		if n := binary.BigEndian.Uint64(b[:]) & (1<<bits.Len64(last) - 1); n <= last {
			return n, nil
		}
	}
}

func (c byteDraws) number(last *big.Int) (*big.Int, error) {
	n := last.BitLen()
	b := make([]byte, (n+7)/8)
	for {
		if err := c.read(b); err != nil {
			return nil, err
		}
		if n%8 != 0 {
			b[0] &= 1<<(n%8) - 1
		}
		if x := new(big.Int).SetBytes(b); x.Cmp(last) <= 0 {
			return x, nil
		}
	}
}
