package wozniak

import (
	"math/bits"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
)

// A tree is the order-preserving function of the ranks [0, span]. The ciphertext of rank m is
//
//	low + m + excess(m)
//
// where the excess never falls as m rises, from 0 at rank 0 to slack at rank span. Full RUS of the
// ranks between is the same thing as: choose one of them, give it an excess between those of its
// neighbours, do the same below and above.
type tree struct {
	source *coins.Source
	span   uint64 // number of ranks less one: the number itself may be 2^64
	low    u192
	slack  u192
	pool   *sync.Pool
}

func newTree(inner, ends *coins.Source, span uint64, rangeBits int) *tree {
	t := &tree{source: inner, span: span, pool: &sync.Pool{}}
	w := &walker{ends.NewReader()}
	t.low, t.slack = subrange(span, rangeBits, func(label uint64, last u192) u192 {
		w.Seek(0, 0, label)
		return w.uniform(0, last)
	})
	return t
}

// subrange is random subrange selection (Wozniak et al. 2013), and in the subrange the ciphertexts of
// the ends of the domain (Waage et al. 2016, section 3.2.1), for both forms of the scheme. It
// returns the first, and the slack between them.
//
// The paper draws c_min from [r_min, r_max-1] and c_max from [c_min+1, r_max], which often leaves less
// room than there are values between: for |R| = 16 |D|, in 63 of 100 cases. Here both leave the room
// that is needed. draw returns a number of [0, last]; each draw has a label.
func subrange(span uint64, rangeBits int, draw func(label uint64, last u192) u192) (low, slack u192) {
	all := ones(rangeBits).sub(u192{lo: span})
	lowFirst := draw(0, u192{lo: 1}).isZero()
	first := draw(1, all)
	var rmin, room u192
	if lowFirst {
		rmin = first
		room = draw(2, all.sub(first)) // r_max = r_min + span + room
	} else {
		rmin = draw(2, first) // r_max = first + span
		room = first.sub(rmin)
	}
	below := draw(3, room)
	if span == 0 {
		return rmin.add(below), u192{} // one value has one ciphertext
	}
	return rmin.add(below), draw(4, room.sub(below))
}

// A walker is the state of one operation.
type walker struct{ *coins.Reader }

func (t *tree) get() *walker {
	if w, ok := t.pool.Get().(*walker); ok {
		return w
	}
	return &walker{t.source.NewReader()}
}

func (t *tree) put(w *walker) { t.pool.Put(w) }

// A node is a set of adjacent ranks whose neighbours on both sides are decided, and of which none is.
type node struct {
	min   uint64 // the lowest
	last  uint64 // their number less one
	slack u192   // of the ciphertexts for them: how many more there are than ranks
}

// root returns the node of all ranks but the ends, of which there must be at least one.
func (t *tree) root() node { return node{1, t.span - 2, t.slack} }

// sample draws which of the node's ranks is decided next, by its place i in [0, last], and its
// excess in [0, slack] over that of the node's lower neighbour. Both are floor(U n) for a random
// real number U in [0, 1), of which as many binary digits are read as it takes: exactly uniform,
// without rejections.
func (w *walker) sample(n *node) (i uint64, x u192) {
	s := n.slack
	if n.last>>32 != 0 {
		w.Seek(0, n.min, n.last)
		a, b := w.Block(0)
		var f uint64
		i, f = bits.Mul64(a, n.last)
		f, c := bits.Add64(f, a, 0)
		i += c
		if _, c = bits.Add64(f, n.last, 0); c != 0 {
			i += w.carry(u192{lo: -f}, u192{lo: n.last}, 0, rankWord)
		}
		if s.hi|s.mid == 0 {
			if x, ok := scale64(b, s.lo); ok {
				return i, u192{lo: x}
			}
		}
		c1, c0 := w.Block(1)
		return i, w.scale(64, u192{b, c1, c0}, s)
	}

	w.Seek(1, n.min>>32, n.min<<32|n.last)
	a, b := w.Block(0)
	f := a >> 32 * (n.last + 1)
	i = f >> 32
	if f = f & (1<<32 - 1); f+n.last >= 1<<32 {
		i += w.carry(u192{lo: 1<<32 - f}, u192{lo: n.last}, 0, rankWord)
	}
	a = a<<32 | b>>32
	switch {
	case s.hi|s.mid == 0:
		if x, ok := scale64(a, s.lo); ok {
			return i, u192{lo: x}
		}
	case s.hi|s.mid>>32 == 0:
		if x, ok := scale96(a, b<<32, s); ok {
			return i, x
		}
	}
	c, d := w.Block(1)
	return i, w.scale(32, u192{a, b<<32 | c>>32, c<<32 | d>>32}, s)
}

// scale64 returns floor(U (last+1)) for the U that begins with the word a, or false if the word does
// not decide it.
func scale64(a, last uint64) (x uint64, ok bool) {
	x, f := bits.Mul64(a, last)
	f, c := bits.Add64(f, a, 0)
	_, undecided := bits.Add64(f, last, 0)
	return x + c, undecided == 0
}

// scale96 is scale64 for 96 digits of U, the word a1 and the high half of a0, whose low half is 0,
// and a last below 2^96.
func scale96(a1, a0 uint64, last u192) (x u192, ok bool) {
	h11, l11 := bits.Mul64(a1, last.mid) // below 2^96
	h10, l10 := bits.Mul64(a1, last.lo)
	h01, l01 := bits.Mul64(a0, last.mid) // below 2^96
	h00, l00 := bits.Mul64(a0, last.lo)
	f0, c := bits.Add64(l00, a0, 0)
	f1, c := bits.Add64(h00, a1, c)
	x0, x1 := bits.Add64(l11, 0, c)
	x1 += h11
	f1, c = bits.Add64(f1, l10, 0)
	x0, c = bits.Add64(x0, h10, c)
	x1 += c
	f1, c = bits.Add64(f1, l01, 0)
	x0, c = bits.Add64(x0, h01, c)
	x1 += c
	// U (last+1) is below x + (f + 2^32 (last+1)) / 2^128, and f is a multiple of 2^32.
	_, c = bits.Add64(f0, last.lo<<32, 0)
	_, undecided := bits.Add64(f1, last.mid<<32|last.lo>>32, c)
	return u192{mid: x1, lo: x0}, undecided == 0
}

// uniform returns floor(U (last+1)) for the U whose digits are the coins but for the first skip bits.
func (w *walker) uniform(skip uint, last u192) u192 {
	return w.scale(skip, u192{w.word(skip, 0), w.word(skip, 1), w.word(skip, 2)}, last)
}

// scale is uniform with the first three words of U.
func (w *walker) scale(skip uint, u, last u192) (x u192) {
	// x + f / 2^192 = u last + u, a word of u at a time.
	var f u192
	top, rest := last.timesAndAdd(u.lo, u)
	f.lo = rest.lo
	top, rest = last.timesAndAdd(u.mid, u192{top, rest.hi, rest.mid})
	f.mid = rest.lo
	top, rest = last.timesAndAdd(u.hi, u192{top, rest.hi, rest.mid})
	f.hi = rest.lo
	x = u192{top, rest.hi, rest.mid}
	if last.less(u192{}.sub(f)) || f.isZero() {
		return x
	}
	return x.add(u192{lo: w.carry(u192{}.sub(f), last, skip, 3)})
}

// carry returns 1 if the words of U from an index on carry over into floor(U (last+1)), else 0. Up
// to these words, U (last+1) lacks gap units of its last digit to the next integer, 0 < gap <= last.
func (w *walker) carry(gap, last u192, skip uint, index uint64) (carried uint64) {
	for decided := false; !decided; index++ {
		gap, carried, decided = carryStep(gap, last, w.word(skip, index))
	}
	return carried
}

// carryStep reads one more word: the gap is 2^64 gap - u (last+1) units of the new last digit.
func carryStep(gap, last u192, u uint64) (next u192, carried uint64, decided bool) {
	top, rest := last.timesAndAdd(u, u192{lo: u})
	h := u192{top, rest.hi, rest.mid}
	if !h.less(gap) {
		return next, 1, true
	}
	lo, borrow := bits.Sub64(0, rest.lo, 0)
	gap = gap.sub(h).sub(u192{lo: borrow})
	next = u192{gap.mid, gap.lo, lo}
	return next, 0, gap.hi != 0 || last.less(next)
}

// The digits of a rank go on in the blocks from this counter on.
const (
	rankCounter = 1 << 62
	rankWord    = 2 * rankCounter
)

// word returns a word of the coins from which the first skip bits, 0, 32 or 64, are left out.
func (w *walker) word(skip uint, index uint64) uint64 {
	switch skip {
	case 0:
		return w.whole(index)
	case 64:
		return w.whole(index + 1)
	}
	return w.whole(index)<<32 | w.whole(index+1)>>32
}

func (w *walker) whole(index uint64) uint64 {
	hi, lo := w.Block(index / 2)
	if index%2 == 0 {
		return hi
	}
	return lo
}

// excess returns the excess of a rank.
func (t *tree) excess(m uint64) (e u192) {
	switch m {
	case 0:
		return u192{}
	case t.span:
		return t.slack
	}
	w := t.get()
	n := t.root()
	e = n.excess(w, m)
	t.put(w)
	return e
}

// excess returns the excess of a rank of the node over that of the node's lower neighbour.
func (n *node) excess(w *walker, m uint64) (e u192) {
	for !n.slack.isZero() {
		i, x := w.sample(n)
		switch p := n.min + i; {
		case m < p:
			n.last, n.slack = i-1, x
		case m > p:
			n.min, n.last = p+1, n.last-i-1
			n.slack, e = n.slack.sub(x), e.add(x)
		default:
			return e.add(x)
		}
	}
	return e
}

// ciphertext returns the ciphertext of a rank.
func (t *tree) ciphertext(m uint64) u192 {
	return t.low.add(u192{lo: m}).add(t.excess(m))
}

// rank returns the rank of a ciphertext, or false if there is none.
func (t *tree) rank(c u192) (m uint64, ok bool) {
	if c.less(t.low) {
		return 0, false
	}
	c = c.sub(t.low)
	all := t.slack.add(u192{lo: t.span})
	switch {
	case c.isZero():
		return 0, true
	case c == all:
		return t.span, true
	case all.less(c) || t.span < 2:
		return 0, false
	}
	w := t.get()
	defer t.put(w)
	n := t.root()
	c = c.sub(u192{lo: 1}) // from here on it is less the lowest ciphertext that the node could have
	for !n.slack.isZero() {
		i, x := w.sample(&n)
		x = x.add(u192{lo: i})
		switch {
		case c.less(x):
			if i == 0 {
				return 0, false
			}
			n.last, n.slack = i-1, x.sub(u192{lo: i})
		case x.less(c):
			if i == n.last {
				return 0, false
			}
			n.slack = n.slack.sub(x.sub(u192{lo: i}))
			c = c.sub(x).sub(u192{lo: 1})
			n.min, n.last = n.min+i+1, n.last-i-1
		default:
			return n.min + i, true
		}
	}
	return n.min + c.lo, true
}
