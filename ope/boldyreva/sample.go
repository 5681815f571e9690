package boldyreva

import "math/bits"

// The number of points in the lower half of a node with N = 2^k numbers and M points has the hypergeometric law
// with N/2 marked of N and M drawn. All of it is exact. Proposals have exactly the law they are said to have. A
// proposal is accepted if and only if a uniform real number V is below the acceptance probability. The binary
// digits of V are drawn as far as needed. What is computed with limited precision only ever decides when its error
// cannot matter.

const (
	popcountMost = 192    // points that are sampled by counting bits; two blocks hold them
	extension    = 0x8000 // counter, within a proposal's, of the words that prolong V
	proposal     = 16     // a proposal's number is shifted by this much in the counter
)

// split returns how many of last+1 points lie in the lower half of a range of k bits that is
// neither full nor has a single point. The node's coins have been selected.
func (w *walker) split(k uint, last uint64) uint64 {
	hi, lo := w.Block(0)
	return w.splitBy(k, last, hi, lo)
}

// splitBy is split by the first block of the node's coins, which is known.
func (w *walker) splitBy(k uint, last, hi, lo uint64) uint64 {
	if last >= popcountMost && !w.exact {
		if lower, ok := quickly(k, last, hi, lo); ok {
			return lower
		}
	}
	return w.splitSlowly(k, last, hi, lo)
}

// splitSlowly is splitBy for what quickly does not decide, which it does not try.
func (w *walker) splitSlowly(k uint, last, hi, lo uint64) uint64 {
	if k <= 64 && last >= 1<<(k-1) { // more points than gaps: sample the gaps
		return 1<<(k-1) - w.sample(k, ^uint64(0)>>(64-k)-last-1, hi, lo)
	}
	return w.sample(k, last, hi, lo)
}

func (w *walker) sample(k uint, last, hi, lo uint64) uint64 {
	if last < popcountMost {
		return w.popcount(k, last+1, hi, lo)
	}
	return w.histogram(k, last, hi, lo)
}

// next returns the counter of the next proposal, and its first block.
func (w *walker) next(counter uint64) (next, hi, lo uint64) {
	counter += 1 << proposal
	hi, lo = w.Block(counter)
	return counter, hi, lo
}

// popcount proposes from the binomial law, as the number of ones among M coins, and accepts with
// the ratio of the hypergeometric to the binomial probability.
func (w *walker) popcount(k uint, m, v, b uint64) uint64 {
	odd, half := m&1, (m+1)/2
	for counter := uint64(0); ; counter, v, b = w.next(counter) {
		var x uint64
		if m <= 64 {
			x = uint64(bits.OnesCount64(b >> (64 - m)))
		} else {
			b1, b2 := w.Block(counter | 1)
			x = uint64(bits.OnesCount64(b))
			if m <= 128 {
				x += uint64(bits.OnesCount64(b1 >> (128 - m)))
			} else {
				x += uint64(bits.OnesCount64(b1) + bits.OnesCount64(b2>>(192-m)))
			}
		}
		// h is the distance from the nearest of the most probable outcomes. The ratio is
		// P = prod_{i=1..h} (c-i+1)/(c+odd+i) with c = 2^(k-1) - half.
		h := x - half
		if x < half {
			h = half - odd - x
		}
		if h == 0 {
			return x
		}
		if !w.exact {
			// 1-P <= h(h+odd)/(c+1), and V < 1 - ^v / 2^64.
			c1 := ^uint64(0)
			if k <= 64 {
				c1 = 1<<(k-1) - half + 1
			}
			if hi, _ := bits.Mul64(^v, c1); hi >= h*(h+odd) {
				return x
			}
			if k <= 62 {
				c := uint64(1)<<(k-1) - half
				p := ^uint64(0)
				for i := uint64(1); i <= h; i++ {
					// The numerator is not above the denominator, so that Div64 does not panic.
					hi, lo := bits.Mul64(p, c-i+1)
					p, _ = bits.Div64(hi, lo, c+odd+i)
				}
				// Each step rounds down by less than 1: P 2^64 is in [p, p+h+1].
				if v < p {
					return x
				}
				if over := p + h + 1; over > p && v > over {
					continue
				}
			}
		}
		if w.popcountExact(k, half, odd, h, counter, v) {
			return x
		}
	}
}

// An envelope is a class of the histogram branch: the heights of the blocks, and the alias table
// (Vose 1991) that draws a block with a probability proportional to its area.
type envelope struct {
	kappa    uint32
	fraction uint       // bits by which a cell is finer than an outcome
	column   [64]uint32 // threshold<<6 | alias
	height   [47]uint32 // the last is that of the tail's first block
	lnHeight [47]int64  // of height/kappa, in units of 2^-56
}

const blocks = 46

// classes gives, by the bit length of V, the row of quick; the envelope is the same up to the last.
var classes = func() (c [66]uint8) {
	for n := range c {
		switch {
		case n > 28:
			c[n] = 6
		case n > 20:
			c[n] = 5
		case n > 16:
			c[n] = 4
		case n > 12:
			c[n] = 3
		case n > 10:
			c[n] = 2
		case n > 8:
			c[n] = 1
		}
	}
	return c
}()

// histogram proposes from a histogram that lies above the law. It takes D = 2x - M, the distance
// from the mean, whose variance is near V' = (M+1)(N-M+1)/(N+2). The histogram has blocks of about
// 1/8 standard deviation to both sides, each of the same number of cells, and a tail of blocks each
// half as high as the one before.
func (w *walker) histogram(k uint, last, a, u uint64) uint64 {
	for counter := uint64(0); ; counter, a, u = w.next(counter) {
		if lower, ok := w.propose(k, last, counter, a, u); ok {
			return lower
		}
	}
}

// propose returns the outcome that histogram proposes by the block a, u with a counter, and whether it is accepted.
func (w *walker) propose(k uint, last, counter, a, u uint64) (lower uint64, ok bool) {
	v1, v0 := variance(k, last)
	n := bits.Len64(v0)
	if v1 != 0 {
		n = 65
	}
	row := classes[n]
	env := &envelopes[min(row, 4)]
	width := blockWidth(v1, v0, n, env.fraction)
	half := last/2 + 1 // M/2, rounded up
	odd := ^last & 1
	// r is uniform below width (Lemire, ACM TOMACS 2019, section 4).
	r, low := bits.Mul64(u, width)
	if low < width && low < -width%width {
		return 0, false
	}
	// Nobody can foresee whether it is the column or its alias, a processor included: so there is no branch.
	j := a >> 58
	c := uint64(env.column[j])
	own := (a>>32&(1<<25-1) - c>>6) >> 63 // 1 below the threshold
	j = c&63 ^ (c&63^j)&-own
	v32 := uint32(a)
	side := a >> 57 & 1 // 0: x >= M/2
	e := (j*width + r) >> env.fraction
	if j < blocks && v32 < quick[row][j] && !w.exact {
		return half + (e ^ -side), true // half + e or half - 1 - e
	}
	tail := uint64(0)
	if j == blocks {
		_, g := w.Block(counter | extension)
		if g == 0 {
			return 0, false
		}
		tail = uint64(bits.LeadingZeros64(g))
		e = ((j+tail)*width + r) >> env.fraction
	}
	d := 2*e + odd
	if side == 1 {
		d = 2*e + 2 - odd
	}
	if d != 0 && d-1 > last {
		return 0, false // the law ends at D = M
	}
	know := unknown
	if j < blocks && !w.exact {
		know = rough(env, v1, v0, n, d, j, v32)
	}
	if know == unknown && w.accept(env, k, last, d, j, tail, counter, v32) {
		know = decidedYes
	}
	return half + (e ^ -side), know == decidedYes
}

// variance returns V = M + 1 - floor(M^2 / 2^k), which is V' or less than 2 above it.
func variance(k uint, last uint64) (hi, lo uint64) {
	if last == ^uint64(0) { // M^2 / 2^k = 2^(128-k), where 65 <= k
		lo, borrow := bits.Sub64(1, 1<<(128-k), 0)
		return 1 - borrow, lo
	}
	m := last + 1
	sqHi, sqLo := bits.Mul64(m, m)
	var sq uint64 // below 2^63, since M <= 2^(k-1)
	if k >= 64 {
		sq = sqHi >> (k - 64)
	} else {
		sq = sqHi<<(64-k) | sqLo>>k
	}
	lo, carry := bits.Add64(m, 1, 0)
	lo, borrow := bits.Sub64(lo, sq, 0)
	return carry - borrow, lo
}

// blockWidth returns the cells in a block: above sqrt(V)/16 times the cells in an outcome. n is the
// bit length of V, at least 7.
func blockWidth(v1, v0 uint64, n int, fraction uint) uint64 {
	var i uint64
	var shift uint // half the number of bits that i lacks, plus 1
	if n < 9 {
		i = v0 << 2
	} else {
		s := uint(n-9) &^ 1
		i, shift = v1<<(64-s)|v0>>s, s/2+1
	}
	root := uint64(roots[i-256]) << shift
	if fraction != 0 {
		return root>>13 + 1
	}
	return root>>21 + 1
}

// tierError is above the error of approximation and rounding in units of 2^-64.
const tierError = 1 << 32

// accept reports whether V is below rho = kappa f(D) 2^tail / height, the probability of accepting
// D in block j. V begins with v32 and the first word of the extension block, which is seldom needed.
func (w *walker) accept(env *envelope, k uint, last, d, j, tail, counter uint64, v32 uint32) bool {
	var p uint64
	know := unknown
	if !w.exact {
		p, know = ratio(env, k, last, d, j, tail)
	}
	e0, _ := w.Block(counter | extension)
	if know == approximate {
		v := uint64(v32)<<32 | e0>>32
		if v < p && p-v > tierError {
			return true
		}
		if v > p && v-p > tierError {
			return false
		}
	}
	return w.histogramExact(env, k, last, d, j, tail, counter, v32, e0)
}

// What rough and ratio know.
const (
	unknown = iota
	approximate
	decidedYes
	decidedNo
)

// rough decides whether V is below rho in block j, if bounds of rho are enough for it. The variance is that of [variance],
// with its bit length n.
//
// With F = D^2/2V', -ln f is at least F - 2^-25 and at most F + F^2/2V': it is at most (Qa+Qb)/2 + (Qa Ta + Qb Tb)/8 where
// no T is above 1/4, and 1/A + 1/B = 1/V'. F is in units of 2^-32, from 24 bits of V'.
func rough(env *envelope, v1, v0 uint64, n int, d, j uint64, v32 uint32) (know int) {
	shift := uint(max(n-23, 0)) &^ 1
	v, cut := v1<<(64-shift)|v0>>shift, min(shift, 1) // V' is above v-2 and at most v+cut, in units of 2^shift
	d >>= shift / 2
	if d >= 1<<16 || v < 64 {
		return unknown
	}
	low := d * d << 31 / (v + uint64(cut))
	d += uint64(cut)
	high := d*d<<31/(v-2) + 1
	if shift == 0 {
		if high>>29 >= v {
			return unknown // T may be above 1/4
		}
		up := high>>16 + 1
		high += up*up/(2*v-4) + 1
	} else {
		high += 1 << 19 // F is below 32, and V' above 2^22
	}
	f := int64(low) + env.lnHeight[j]>>24 - 1<<7
	gap := high - low + 1<<7 + 1
	if f >= 3<<32 {
		return unknown
	}
	f = max(f, 0)
	p := uint64(1) << 32
	if rest := uint64(f) & (1<<26 - 1); f != 0 { // so that the product is below 2^64
		p = expSteps[f>>26] * (1<<32 - rest + rest*rest>>33) >> 32
	}
	const slack = 1 << 12 // 2^-20: exp's third term, 2^-21 at most, and all roundings
	switch {
	case uint64(v32)+1+gap+slack < p:
		return decidedYes
	case uint64(v32) > p+slack:
		return decidedNo
	}
	return unknown
}

// ratio approximates rho in units of 2^-64, with an error below tierError, if it can.
func ratio(env *envelope, k uint, last, d, j, tail uint64) (p uint64, know int) {
	aLo, aHi := bits.Add64(last, 2, 0) // A = M + 1
	bLo, bHi := -last, uint64(0)       // B = N - M + 1 = 2^k - last
	switch {
	case k > 64:
		_, borrow := bits.Sub64(0, last, 0)
		bHi = 1<<(k-64) - borrow // 2^64 wraps to 0, and 0 - 1 to what is right
	case k < 64:
		bLo += 1 << k
	}
	a, b := newTerm(aHi, aLo, d), newTerm(bHi, bLo, d)
	if !a.ok || !b.ok {
		return 0, unknown
	}
	ln := env.lnHeight[j] - int64(tail)*ln2
	f := int64(a.minusLogG()+b.minusLogG()) + ln
	if f < -1<<30 || f >= 60<<56 {
		return 0, unknown
	}
	return expNeg(uint64(max(f, 0))), approximate
}

// A term is A and D as they occur in -ln g_A(D): Q = D^2/A, T = D^2/A^2.
type term struct {
	q  uint64 // units 2^-56
	t  uint64 // units 2^-64
	r  uint64 // 1/A in units of 2^-(63+n)
	n  uint   // bit length of A
	ok bool   // T <= 1/4 and Q < 128
}

func newTerm(hi, lo, d uint64) term {
	var x term
	var m uint64 // the leading 64 bits of A
	if hi != 0 {
		s := uint(bits.Len64(hi))
		x.n = 64 + s
		m = hi<<(64-s) | lo>>s
	} else {
		x.n = uint(bits.Len64(lo))
		m = lo << (64 - x.n)
	}
	x.r = ^uint64(0)
	if m > 1<<63 {
		x.r, _ = bits.Div64(1<<63, 0, m)
	}
	if d == 0 {
		x.ok = true
		return x
	}
	dn := uint(bits.Len64(d))
	m = d << (64 - dn)
	square, _ := bits.Mul64(m, m)
	q, _ := bits.Mul64(square, x.r) // D^2/A = q 2^(2dn-63-n)
	t, _ := bits.Mul64(q, x.r)      // D^2/A^2 = t 2^(2dn-62-2n)
	if 2*dn >= x.n+7 || dn+1 >= x.n {
		return x
	}
	x.q = q >> (x.n + 7 - 2*dn)
	x.t = t >> (2*x.n - 2*dn - 2)
	x.ok = x.t <= 1<<62
	return x
}

// minusLogG returns, in units of 2^-56,
//
//	-ln g_A(D) = (Q/2)(1 + psi(T)) - T/(6A(1-T)) + (7/180) ((1+3T)/(1-T)^3 - 1)/A^3 - ...
//
// with psi(T) = sum_{k>=2} T^(k-1)/(k(2k-1)), from the asymptotic series of ln Gamma(z + 1/2). For
// A >= 194 and T <= 1/4 what is left out is below 2^-36.
func (x *term) minusLogG() uint64 {
	e := x.q >> 1
	if x.t == 0 {
		return e
	}
	n := len(psiTerms) - 1
	if x.t < 1<<24 {
		n = 0
	} else if x.t < 1<<48 {
		n = 2
	} else if x.t < 1<<58 {
		n = 6
	}
	psi := psiTerms[n]
	for n--; n >= 0; n-- {
		psi, _ = bits.Mul64(psi, x.t)
		psi += psiTerms[n]
	}
	psi, _ = bits.Mul64(psi, x.t)
	s, _ := bits.Mul64(x.q, psi)
	e += s >> 1
	if x.n < 40 {
		y, _ := bits.Div64(1<<62, 0, -x.t) // 1/(1-T) in units of 2^-62
		u, _ := bits.Mul64(x.t, y)
		u, _ = bits.Mul64(u, x.r)
		e -= u / 6 >> (x.n + 5)
		if x.n < 16 {
			y3, _ := bits.Mul64(y, y)
			y3, _ = bits.Mul64(y3, y)                // (1-T)^-3 in units of 2^-58
			z, _ := bits.Mul64(y3, 1<<60+3*(x.t>>4)) // times 1+3T, in units of 2^-54
			z = (z - 1<<54) << 8
			for range 3 {
				z, _ = bits.Mul64(z, x.r)
			}
			e += z / 180 * 7 >> (3*(x.n-1) + 6)
		}
	}
	return e
}

// expNeg returns exp(-f) in units of 2^-64, at most 2^64-1, for f in units of 2^-56.
func expNeg(f uint64) uint64 {
	n := f / ln2
	r := (f - n*ln2) << 8
	const terms = 16
	s := inverseFactorials[terms]
	for i := terms - 1; i >= 0; i-- {
		t, _ := bits.Mul64(s, r)
		s = inverseFactorials[i] - t
	}
	if n == 0 {
		if s >= 1<<63 {
			return ^uint64(0)
		}
		return s << 1
	}
	return s >> (n - 1)
}

const (
	scatterMost = 8 // points whose places fit in one block
	scatterBits = 8 // of a range large enough for them to be distinct mostly
)

// scatterDepth returns how many levels scatter descends at once.
func scatterDepth(k uint) uint { return min(k, 16) }

// scatter places the last+1 points of a node of k bits in its 2^depth cells, and returns the
// ascending numbers of their cells. The points are drawn independently; the proposal is accepted
// with the probability that points drawn so, then anywhere within their cells, are distinct. So
// they have the law of a random subset, and within its cell each group has it too.
func (w *walker) scatter(k uint, last uint64) (places [scatterMost]uint16) {
	hi, lo := w.Block(0)
	return w.scatterBy(k, last, hi, lo)
}

// scatterBy is scatter by the first block of the node's coins, which is known.
func (w *walker) scatterBy(k uint, last, hi, lo uint64) (places [scatterMost]uint16) {
	for counter := uint64(0); ; counter, hi, lo = w.next(counter) {
		drop := 16 - scatterDepth(k)
		for i := range places {
			word := hi
			if i >= 4 {
				word = lo
			}
			places[i] = uint16(word>>(48-16*(uint(i)&3))) >> drop
			if uint64(i) > last {
				places[i] = 0xffff // sorts to the end; such a place of a point is equal to it
			}
		}
		sort8(&places)
		// Hardly any are in one cell, which is seen without a branch for each.
		equal := uint32(0)
		for i := 1; i < scatterMost; i++ {
			equal |= (uint32(places[i]^places[i-1]) - 1) >> 31 << i
		}
		ties := uint64(0)
		if equal&(2<<last-1) != 0 {
			ties = countTies(&places, last)
		}
		if ties == 0 || w.distinct(k, &places, last, ties, counter) {
			return places
		}
	}
}

// countTies counts, for each point, those before it in its cell.
func countTies(places *[scatterMost]uint16, last uint64) (ties uint64) {
	run := uint64(0)
	for i := uint64(1); i <= last; i++ {
		if places[i] == places[i-1] {
			run++
			ties += run
		} else {
			run = 0
		}
	}
	return ties
}

// sort8 sorts by Batcher's merge-exchange network (Knuth, TAOCP 3, section 5.2.2).
func sort8(p *[scatterMost]uint16) {
	a, b, c, d, e, f, g, h := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	a, b = min(a, b), max(a, b)
	c, d = min(c, d), max(c, d)
	e, f = min(e, f), max(e, f)
	g, h = min(g, h), max(g, h)
	a, c = min(a, c), max(a, c)
	b, d = min(b, d), max(b, d)
	e, g = min(e, g), max(e, g)
	f, h = min(f, h), max(f, h)
	b, c = min(b, c), max(b, c)
	f, g = min(f, g), max(f, g)
	a, e = min(a, e), max(a, e)
	b, f = min(b, f), max(b, f)
	c, g = min(c, g), max(c, g)
	d, h = min(d, h), max(d, h)
	c, e = min(c, e), max(c, e)
	d, f = min(d, f), max(d, f)
	b, c = min(b, c), max(b, c)
	d, e = min(d, e), max(d, e)
	f, g = min(f, g), max(f, g)
	*p = [scatterMost]uint16{a, b, c, d, e, f, g, h}
}
