package boldyreva

import (
	"math/big"
	"sync"
)

// Decisions by arbitrary precision. They take some ten microseconds, and are needed about once in
// 2^30 samples; being correct is all that counts here.

var one = big.NewInt(1)

func bigUint(x uint64) *big.Int { return new(big.Int).SetUint64(x) }

// more appends 64 binary digits to V, the word number n of the proposal's extension.
func (w *walker) more(v *big.Int, counter, n uint64) {
	hi, lo := w.Block(counter | extension + 1 + n/2)
	if n&1 == 0 {
		lo = hi
	}
	v.Lsh(v, 64).Or(v, bigUint(lo))
}

// popcountExact reports whether V < P = prod_{i=1..h} (c-i+1)/(c+odd+i), for V beginning with v.
func (w *walker) popcountExact(k uint, half, odd, h, counter, v uint64) bool {
	c := new(big.Int).Lsh(one, k-1)
	c.Sub(c, bigUint(half))
	num, den, t := big.NewInt(1), big.NewInt(1), new(big.Int)
	for i := uint64(1); i <= h; i++ {
		num.Mul(num, t.Sub(c, bigUint(i-1)))
		den.Mul(den, t.Add(c, bigUint(odd+i)))
	}
	// V is in [digits, digits+1) / 2^length.
	digits := bigUint(v)
	for n, length := uint64(0), uint(64); ; n, length = n+1, length+64 {
		bound := new(big.Int).Lsh(num, length)
		if t.Mul(digits, den); t.Cmp(bound) >= 0 {
			return false
		}
		if t.Add(t, den); t.Cmp(bound) <= 0 {
			return true
		}
		w.more(digits, counter, n)
	}
}

// distinct reports whether a scatter is accepted: whether V < prod (1 - i/n) over all points, i of
// which are before it in its cell of n = 2^(k-depth) numbers. It is a fraction of a power of two, so
// that as many digits of V as that power decide.
func (w *walker) distinct(k uint, places *[scatterMost]uint16, last, ties, counter uint64) bool {
	k -= scatterDepth(k)
	if k == 0 {
		return false
	}
	if k >= 6 && !w.exact {
		// The product is at least 1 - ties/n.
		v, _ := w.Block(counter | extension + 1)
		if ^v>>(64-min(k, 63)) >= ties {
			return true
		}
	}
	num, length := big.NewInt(1), uint(0)
	n, t := new(big.Int).Lsh(one, k), new(big.Int)
	run := uint64(0)
	for i := uint64(1); i <= last; i++ {
		if places[i] != places[i-1] {
			run = 0
			continue
		}
		run++
		if t.Sub(n, bigUint(run)); t.Sign() <= 0 {
			return false
		}
		num.Mul(num, t)
		length += k
	}
	digits := new(big.Int)
	words := (length + 63) / 64
	for i := range words {
		w.more(digits, counter, uint64(i))
	}
	return digits.Rsh(digits, 64*words-length).Cmp(num) < 0
}

// histogramRounds bounds the digits of V. It is reached with a probability below 2^-1000.
const histogramRounds = 16

// histogramExact reports whether V < rho (see accept).
func (w *walker) histogramExact(env *envelope, k uint, last, d, j, tail, counter uint64, v32 uint32, e0 uint64) bool {
	digits := bigUint(uint64(v32))
	digits.Lsh(digits, 64).Or(digits, bigUint(e0))
	length := uint(96)
	for n := range uint64(histogramRounds) {
		// rho is in (p-8, p+8) / 2^(length+32), and V in [digits, digits+1) / 2^length.
		p := exactRatio(env, k, last, d, j, tail, length+32)
		lo := new(big.Int).Lsh(digits, 32)
		hi := new(big.Int).Lsh(new(big.Int).Add(digits, one), 32)
		if new(big.Int).Add(p, big.NewInt(8)).Cmp(lo) <= 0 {
			return false
		}
		if p.Sub(p, big.NewInt(8)).Cmp(hi) >= 0 {
			return true
		}
		w.more(digits, counter, n)
		length += 64
	}
	return false
}

// exactRatio returns rho in units of 2^-p, with an error below 8 units.
func exactRatio(env *envelope, k uint, last, d, j, tail uint64, p uint) *big.Int {
	a := new(big.Int).Add(bigUint(last), big.NewInt(2))
	b := new(big.Int).Lsh(one, k)
	b.Sub(b, bigUint(last))
	q := p + 160
	sum, num, den := new(big.Int), big.NewInt(int64(env.kappa)), big.NewInt(int64(env.height[j]))
	for _, x := range []*big.Int{a, b} {
		e, n, m := exactMinusLogG(x, d, q)
		sum.Add(sum, e)
		num.Mul(num, n)
		den.Mul(den, m)
	}
	if num.Sign() == 0 {
		return num
	}
	num.Mul(num, exactExpNeg(sum, q)).Lsh(num, uint(tail))
	return num.Quo(num, den).Rsh(num, q-p)
}

// exactMinusLogG returns e in units of 2^-p and num/den with g_A(D) = exp(-e) num/den, for D < A.
//
// The series is asymptotic; it has p bits where (A-D)/2 is not below p. Where it is, A is raised
// by 2n: g_A(D) = g_{A+2n}(D) prod_{i<n} ((A+1+2i)^2 - D^2) / (A+1+2i)^2.
func exactMinusLogG(a *big.Int, d uint64, p uint) (e, num, den *big.Int) {
	num, den = big.NewInt(1), big.NewInt(1)
	a = new(big.Int).Set(a)
	dd := bigUint(d)
	d2 := new(big.Int).Mul(dd, dd)
	t := new(big.Int)
	for t.Sub(a, dd).Cmp(big.NewInt(2*int64(p))) < 0 {
		s := new(big.Int).Add(a, one)
		s.Mul(s, s)
		den.Mul(den, s)
		num.Mul(num, t.Sub(s, d2))
		a.Add(a, big.NewInt(2))
	}

	q := p + 2*uint(a.BitLen()) + 64
	a2 := new(big.Int).Mul(a, a)
	ratio := new(big.Int).Lsh(d2, q)
	ratio.Quo(ratio, a2) // T = D^2/A^2
	// (A/2) sum_{k>=1} T^k / (k(2k-1))
	sum, power := new(big.Int), new(big.Int).Set(ratio)
	for k := int64(1); power.Sign() != 0; k++ {
		sum.Add(sum, t.Quo(power, big.NewInt(k*(2*k-1))))
		power.Mul(power, ratio).Rsh(power, q)
	}
	sum.Mul(sum, a).Rsh(sum, 1)
	// minus sum_k b_k (2 (A/2)^-(2k-1) - ((A+D)/2)^-(2k-1) - ((A-D)/2)^-(2k-1))
	above, below := new(big.Int).Add(a, dd), new(big.Int).Sub(a, dd)
	inverse := func(z *big.Int, e int64) *big.Int { // (z/2)^-e
		x := new(big.Int).Lsh(one, q+uint(e))
		return x.Quo(x, t.Exp(z, big.NewInt(e), nil))
	}
	for i, b := range stirling() {
		n := int64(2*i + 1)
		smallest := inverse(below, n)
		x := inverse(a, n)
		x.Lsh(x, 1).Sub(x, inverse(above, n)).Sub(x, smallest)
		x.Mul(x, b.Num())
		sum.Sub(sum, x.Quo(x, b.Denom()))
		// The first term that is left out bounds the rest; its size is that of the last point's.
		if smallest.Mul(smallest, b.Num()); smallest.Quo(smallest, b.Denom()).BitLen() < 32 {
			return sum.Rsh(sum, q-p), num, den
		}
	}
	panic("boldyreva: the series did not converge") // 140 terms are enough for all rounds
}

// stirling returns b_k = B_2k(1/2) / (2k(2k-1)) for k = 1, 2, ...: the coefficients of
// ln Gamma(z+1/2) = z ln z - z + ln(2 pi)/2 + sum b_k z^-(2k-1).
var stirling = sync.OnceValue(func() []*big.Rat {
	const terms = 140
	bernoulli := make([]*big.Rat, 2*terms+1)
	for n := range bernoulli {
		sum := new(big.Rat)
		if n == 0 {
			sum.SetInt64(1)
		} else if n == 1 || n&1 == 0 {
			for j := range n {
				if bernoulli[j].Sign() != 0 {
					c := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n+1), int64(j)))
					sum.Sub(sum, c.Mul(c, bernoulli[j]))
				}
			}
			sum.Quo(sum, big.NewRat(int64(n+1), 1))
		}
		bernoulli[n] = sum
	}
	bs := make([]*big.Rat, terms)
	for i := range bs {
		k := uint(i + 1)
		// B_2k(1/2) = (2^(1-2k) - 1) B_2k
		f := new(big.Rat).SetFrac(one, new(big.Int).Lsh(one, 2*k-1))
		f.Sub(f, big.NewRat(1, 1)).Mul(f, bernoulli[2*k])
		bs[i] = f.Quo(f, big.NewRat(int64(2*k)*int64(2*k-1), 1))
	}
	return bs
})

// exactExpNeg returns exp(-x), both in units of 2^-p.
func exactExpNeg(x *big.Int, p uint) *big.Int {
	const halvings = 20
	q := p + 64
	x = new(big.Int).Lsh(x, q-p-halvings)
	sum := new(big.Int).Lsh(one, q)
	term := new(big.Int).Set(sum)
	for k := int64(1); term.Sign() != 0; k++ {
		term.Mul(term, x).Rsh(term, q)
		term.Quo(term, big.NewInt(-k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum).Rsh(sum, q)
	}
	return sum.Rsh(sum, q-p)
}
