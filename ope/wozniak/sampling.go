package wozniak

import (
	"bufio"
	"fmt"
	"io"
)

// This file is the sample procedure of RUS for one aim, as Waage et al. 2016, section 3.2.1, modify
// it, with random coins. Plaintexts are offsets in the domain.

// A box is what is left to decide of an order-preserving function: the plaintexts dmin to dmax,
// and the ciphertexts cmin to cmax for them, which are at least as many.
type box struct {
	dmin, dmax uint64
	cmin, cmax u192
}

// between returns the box between two neighbours that are decided. It is open: the text of the
// paper has [d1, d2], but an end that were drawn again would change a ciphertext.
func between(low, high pair) box {
	one := u192{lo: 1}
	return box{low.x + 1, high.x - 1, low.c.add(one), high.c.sub(one)}
}

// draws returns a uniform random number of [0, last].
type draws func(last u192) (u192, error)

// sample decides the aim p0, which is in the box, and whatever is drawn on the way to it. It
// yields every pair that it draws, the last of them (p0, c0).
func (b box) sample(p0 uint64, draw draws, yield func(p uint64, c u192)) error {
	for {
		// The box has as much slack as it has more ciphertexts than plaintexts. It is never
		// negative: c leaves both sides as many ciphertexts as they have plaintexts.
		last := u192{lo: b.dmax - b.dmin}
		slack := b.cmax.sub(b.cmin).sub(last)
		below, err := draw(last)
		if err != nil {
			return err
		}
		excess, err := draw(slack)
		if err != nil {
			return err
		}
		p, c := b.dmin+below.lo, b.cmin.add(below).add(excess)
		yield(p, c)
		one := u192{lo: 1}
		switch {
		case p0 == p:
			return nil
		case p0 < p:
			b.dmax, b.cmax = p-1, c.sub(one)
		default:
			b.dmin, b.cmin = p+1, c.add(one)
		}
	}
}

// ends draws the ciphertexts of the lowest and the highest plaintext of a domain of span+1 values.
func ends(span uint64, rangeBits int, draw draws) (cmin, cmax u192, err error) {
	cmin, slack := subrange(span, rangeBits, func(_ uint64, last u192) u192 {
		if err != nil {
			return u192{}
		}
		var n u192
		n, err = draw(last)
		return n
	})
	return cmin, cmin.add(u192{lo: span}).add(slack), err
}

// drawFrom returns draws from a source of random bytes, exactly uniform by rejection. They are for
// one goroutine at a time.
func drawFrom(r io.Reader) draws {
	source := bufio.NewReaderSize(r, 512)
	var buffer [maxSize]byte
	return func(last u192) (u192, error) {
		n := last.bitLen()
		b := buffer[:(n+7)/8]
		for {
			if _, err := io.ReadFull(source, b); err != nil {
				return u192{}, fmt.Errorf("read random coins: %w", err)
			}
			if n%8 != 0 {
				b[0] &= 1<<(n%8) - 1
			}
			if x := fromBytes(b); !last.less(x) {
				return x, nil
			}
		}
	}
}
