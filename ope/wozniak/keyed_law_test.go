package wozniak

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

// Order-preserving functions are written as the list of their ciphertexts; laws have exact
// probabilities.
type functions map[string]*big.Rat

func (f functions) add(name string, p *big.Rat) {
	if f[name] == nil {
		f[name] = new(big.Rat)
	}
	f[name].Add(f[name], p)
}

// rus returns all functions from n plaintexts to the numbers from cmin to cmax that RUS gives, with
// their probabilities, straight from the text: p among the plaintexts, c among the ciphertexts that
// leave room on both sides.
func rus(n, cmin, cmax int) (list [][]int, ps []*big.Rat) {
	if n == 0 {
		return [][]int{nil}, []*big.Rat{big.NewRat(1, 1)}
	}
	for p := range n {
		for c := cmin + p; c <= cmax-(n-1-p); c++ {
			lower, lowerP := rus(p, cmin, c-1)
			upper, upperP := rus(n-1-p, c+1, cmax)
			for i := range lower {
				for j := range upper {
					q := big.NewRat(1, int64(n)*int64(cmax-cmin+1-(n-1)))
					list = append(list, slices.Concat(lower[i], []int{c}, upper[j]))
					ps = append(ps, q.Mul(q, lowerP[i]).Mul(q, upperP[j]))
				}
			}
		}
	}
	return list, ps
}

func rusLaw(n, r int) functions {
	law := functions{}
	list, ps := rus(n, 0, r-1)
	for i, f := range list {
		law.add(fmt.Sprint(f), ps[i])
	}
	return law
}

// schemeLaw is the law of the whole function from n > 1 plaintexts to r ciphertexts: RSS, the ends,
// and RUS between them.
func schemeLaw(n, r int) functions {
	law := functions{}
	finish := func(rmin, rmax int, p *big.Rat) {
		for cmin := rmin; cmin <= rmax-(n-1); cmin++ {
			for cmax := cmin + n - 1; cmax <= rmax; cmax++ {
				list, ps := rus(n-2, cmin+1, cmax-1)
				for i, f := range list {
					q := big.NewRat(1, int64(rmax-(n-1)-rmin+1)*int64(rmax-(cmin+n-1)+1))
					law.add(fmt.Sprint(slices.Concat([]int{cmin}, f, []int{cmax})), q.Mul(q, p).Mul(q, ps[i]))
				}
			}
		}
	}
	forSubranges(n, r, finish)
	return law
}

// paperLaw is the law of full RUS in RSS, where the ends of the domain are not chosen first (Wozniak
// et al. 2013, without the modification of Waage et al. 2016).
func paperLaw(n, r int) functions {
	law := functions{}
	finish := func(rmin, rmax int, p *big.Rat) {
		list, ps := rus(n, rmin, rmax)
		for i, f := range list {
			law.add(fmt.Sprint(f), new(big.Rat).Mul(p, ps[i]))
		}
	}
	forSubranges(n, r, finish)
	return law
}

// forSubranges yields what RSS selects, with probabilities.
func forSubranges(n, r int, yield func(rmin, rmax int, p *big.Rat)) {
	for rmin := 0; rmin <= r-n; rmin++ {
		for rmax := rmin + n - 1; rmax < r; rmax++ {
			yield(rmin, rmax, big.NewRat(1, 2*int64(r-n+1)*int64(r-(rmin+n-1)))) // r_min first
			yield(rmin, rmax, big.NewRat(1, 2*int64(r-n+1)*int64(rmax-n+2)))     // r_max first
		}
	}
}

// pValue is that of Pearson's test of the counts against a law, with neighbouring cells merged up to
// an expected count of 20.
func pValue(t *testing.T, counts map[string]int, law functions) float64 {
	t.Helper()
	one, draws := new(big.Rat), 0
	for _, p := range law {
		one.Add(one, p)
	}
	require.Equal(t, "1/1", one.String())
	for name, n := range counts {
		require.Contains(t, law, name, "an impossible function")
		draws += n
	}
	names := make([]string, 0, len(law))
	for name := range law {
		names = append(names, name)
	}
	slices.Sort(names)
	var o, e []float64
	var so, se float64
	for _, name := range names {
		p, _ := law[name].Float64()
		so, se = so+float64(counts[name]), se+p*float64(draws)
		if se >= 20 {
			o, e = append(o, so), append(e, se)
			so, se = 0, 0
		}
	}
	o[len(o)-1] += so
	e[len(e)-1] += se
	require.Greater(t, len(e), 10)
	var stat float64
	for i := range e {
		stat += (o[i] - e[i]) * (o[i] - e[i]) / e[i]
	}
	return distuv.ChiSquared{K: float64(len(e) - 1)}.Survival(stat)
}

func requireLaw(t *testing.T, counts map[string]int, law functions) {
	t.Helper()
	p := pValue(t, counts, law)
	t.Logf("%d functions, p = %.4f", len(law), p)
	require.Greater(t, p, 1e-6)
	// The test would notice another law: that in which all functions are equally likely.
	equal := functions{}
	for name := range law {
		equal[name] = big.NewRat(1, int64(len(law)))
	}
	require.Less(t, pValue(t, counts, equal), 1e-12)
}

// statistical begins a test of many keys, which -short leaves out: it is run under emulation and the
// race detector, for which others are enough.
func statistical(t *testing.T) {
	if testing.Short() {
		t.Skip("statistics of many keys")
	}
	t.Parallel()
}

// Over keys, the descent to each rank gives functions with the exact law of full RUS.
func TestKeyedLawIsThatOfFullRUS(t *testing.T) {
	statistical(t)
	for _, c := range []struct{ n, r int }{{4, 10}, {5, 9}, {3, 12}, {6, 8}} {
		t.Run(fmt.Sprintf("%d in %d", c.n, c.r), func(t *testing.T) {
			counts := map[string]int{}
			for k := range 20_000 {
				w := &walker{coins.New(vectortest.Key(t, 1), "law", fmt.Sprint(c, k)).NewReader()}
				f := make([]int, c.n)
				for m := range f {
					n := node{0, uint64(c.n - 1), u192{lo: uint64(c.r - c.n)}}
					f[m] = m + int(n.excess(w, uint64(m)).lo)
				}
				counts[fmt.Sprint(f)]++
			}
			requireLaw(t, counts, rusLaw(c.n, c.r))
		})
	}
}

// The same of whole schemes, with RSS and the ends of the domain.
func TestKeyedLawOfSchemes(t *testing.T) {
	statistical(t)
	for _, c := range []struct{ n, bits, keys int }{{2, 4, 10_000}, {4, 3, 10_000}, {4, 4, 20_000}, {5, 3, 10_000}} {
		t.Run(fmt.Sprintf("%d in 2^%d", c.n, c.bits), func(t *testing.T) {
			if c.n == 4 && c.bits == 4 && !sim.Full() {
				t.Skip("1,820 functions, of 20,000 keys")
			}
			counts := map[string]int{}
			for k := range c.keys {
				key := vectortest.Key(t, 2).Derive(fmt.Sprint(k))
				s, err := New(key, ope.Domain{Min: -1, Max: int64(c.n) - 2}, &Options{RangeBits: c.bits, AllowSmallRange: true})
				require.NoError(t, err)
				f := make([]int, c.n)
				for i := range f {
					ct, err := s.Encrypt(t.Context(), int64(i)-1)
					require.NoError(t, err)
					f[i] = int(ct[0])
				}
				counts[fmt.Sprint(f)]++
			}
			requireLaw(t, counts, schemeLaw(c.n, 1<<c.bits))
			require.Less(t, pValue(t, counts, paperLaw(c.n, 1<<c.bits)), 1e-12, "full RUS in RSS is another law")
		})
	}
	// What the package comment says of the two laws.
	require.InDelta(t, 0.1327, distance(schemeLaw(5, 8), paperLaw(5, 8)), 0.0005)
}

// What sample draws is floor(U n) for the digits that docs/format.md gives to U, for nodes of every size,
// and those that are most often undecided: just below a power of two.
func TestSampleIsExact(t *testing.T) {
	t.Parallel()
	w := &walker{coins.New(vectortest.Key(t, 3), "sample").NewReader()}
	r := rand.New(rand.NewPCG(1, 2))
	number := func(n int) u192 { // of n bits; half of them near 2^n
		x := u192{r.Uint64(), r.Uint64(), r.Uint64()}
		if r.IntN(2) == 0 {
			x = ones(192).sub(u192{lo: uint64(r.IntN(3))})
		}
		mask := ones(n)
		return u192{x.hi & mask.hi, x.mid & mask.mid, x.lo & mask.lo}
	}
	extended := 0
	for range 60_000 {
		n := node{min: r.Uint64() >> r.IntN(64), last: number(r.IntN(65)).lo, slack: number(r.IntN(193))}
		i, x := w.sample(&n)

		// The digits, many more than are ever needed.
		stream := func(counter uint64, blocks int) []byte {
			var out []byte
			for b := range uint64(blocks) {
				hi, lo := w.Block(counter + b)
				out = u192{mid: hi, lo: lo}.appendTo(out, 16)
			}
			return out
		}
		first := 8
		if n.last>>32 == 0 {
			first = 4
			w.Seek(1, n.min>>32, n.min<<32|n.last)
		} else {
			w.Seek(0, n.min, n.last)
		}
		coins := stream(0, 5)
		require.Equal(t, floor(append(coins[:first:first], stream(1<<62, 3)...), u192{lo: n.last}), u192{lo: i}.big(), "%+v", n)
		require.Equal(t, floor(coins[first:], n.slack), x.big(), "%+v", n)
		if n.slack.bitLen() > 128-8*first {
			extended++
		}
	}
	require.Greater(t, extended, 3000)
}

// floor returns floor(U (last+1)).
func floor(digits []byte, last u192) *big.Int {
	n := last.big()
	n.Add(n, big.NewInt(1))
	u := new(big.Int).SetBytes(digits)
	return u.Mul(u, n).Rsh(u, uint(8*len(digits)))
}

// A word that leaves the gap undecided comes once in 2^64 draws at best: here they are made.
func TestCarryStep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	outcomes := map[string]int{}
	for range 40_000 {
		last := u192{r.Uint64(), r.Uint64(), r.Uint64()}
		switch r.IntN(3) {
		case 0:
			last.hi = 0
		case 1:
			last.hi, last.mid = 0, 0
		}
		if r.IntN(4) == 0 {
			last = ones(64 * (1 + r.IntN(3)))
		}
		n := new(big.Int).Add(last.big(), big.NewInt(1))
		// A word u, and a gap near u n / 2^64, so that everything may happen.
		u := r.Uint64() >> (r.IntN(3) * 31)
		product := new(big.Int).Mul(n, new(big.Int).SetUint64(u))
		near := new(big.Int).Rsh(product, 64)
		near.Add(near, big.NewInt(int64(r.IntN(4))-1))
		if near.Sign() <= 0 || near.Cmp(n) >= 0 {
			continue
		}
		gap := fromBytes(near.FillBytes(make([]byte, 24)))
		next, carried, decided := carryStep(gap, last, u)

		want := new(big.Int).Lsh(near, 64)
		want.Sub(want, product) // what the gap is now
		switch {
		case want.Sign() <= 0:
			outcomes["carry"]++
			require.True(t, decided)
			require.Equal(t, uint64(1), carried)
		case want.Cmp(n) >= 0:
			outcomes["none"]++
			require.True(t, decided)
			require.Zero(t, carried)
		default:
			outcomes["undecided"]++
			require.False(t, decided)
			require.Equal(t, want, next.big())
		}
	}
	t.Log(outcomes)
	require.Len(t, outcomes, 3)
	for what, n := range outcomes {
		require.Greater(t, n, 1000, what)
	}
}

func TestU192(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	full := new(big.Int).Lsh(big.NewInt(1), 192)
	for range 15_000 {
		word := func() uint64 {
			return []uint64{0, 1, math.MaxUint64, r.Uint64(), r.Uint64() >> r.IntN(64)}[r.IntN(5)]
		}
		x, y, k := u192{word(), word(), word()}, u192{word(), word(), word()}, word()
		require.Equal(t, x, fromBytes(x.appendTo(nil, 24)))
		require.Equal(t, x.big().Cmp(y.big()) < 0, x.less(y))
		require.Equal(t, x.big().Sign() == 0, x.isZero())
		require.Equal(t, x.big().BitLen(), x.bitLen())
		sum := new(big.Int).Add(x.big(), y.big())
		require.Zero(t, sum.Mod(sum, full).Cmp(x.add(y).big()))
		difference := new(big.Int).Sub(x.big(), y.big())
		require.Zero(t, difference.Mod(difference, full).Cmp(x.sub(y).big()))
		product := new(big.Int).Mul(x.big(), new(big.Int).SetUint64(k))
		top, rest := x.timesAndAdd(k, y)
		got := new(big.Int).SetUint64(top)
		got.Add(got.Lsh(got, 192), rest.big())
		require.Zero(t, product.Add(product, y.big()).Cmp(got))
	}
	for n := range 193 {
		require.Equal(t, n, ones(n).bitLen())
		require.Equal(t, n, bits.OnesCount64(ones(n).hi)+bits.OnesCount64(ones(n).mid)+bits.OnesCount64(ones(n).lo))
	}
}

// descend returns how many samples it takes to the ciphertext of a rank, and the slack of the node in
// which it is decided.
func descend(t testing.TB, s *Scheme, m uint64) (samples int, slack u192) {
	n, w := s.tree.root(), s.tree.get()
	defer s.tree.put(w)
	var e u192
	for {
		i, x := w.sample(&n)
		samples++
		switch p := n.min + i; {
		case m == p:
			require.Equal(t, s.tree.excess(m), e.add(x))
			return samples, n.slack
		case m < p:
			n = node{n.min, i - 1, x}
		default:
			n, e = node{p + 1, n.last - i - 1, n.slack.sub(x)}, e.add(x)
		}
	}
}

// The samples of one encryption are 2 (1 + 1/N) H_N - 3 on average over keys, as in a random binary
// search tree.
func TestKeyedSamplings(t *testing.T) {
	statistical(t)
	for b, want := range map[uint]float64{4: 0, 8: 0, 16: 20.36, 32: 42.43, 48: 64.71, 60: 81.33} {
		n := math.Exp2(float64(b)) - 2 // the ends are not sampled
		harmonic := 0.0
		if n < 1e6 {
			for i := n; i > 0; i-- {
				harmonic += 1 / i
			}
		} else {
			harmonic = math.Log(n) + 0.57721566490153286 + 1/(2*n)
		}
		expected := 2*(1+1/n)*harmonic - 3
		if want != 0 { // the figures are means of 20,000 runs
			require.InDelta(t, expected, want, 0.25)
		}
		r := rand.New(rand.NewPCG(uint64(b), 1))
		var sum, squares float64
		const runs = 3000
		for k := range runs {
			s, err := New(vectortest.Key(t, 4).Derive(fmt.Sprint(k)), ope.Domain{Min: 0, Max: 1<<b - 1}, nil)
			require.NoError(t, err)
			samples, _ := descend(t, s, 1+r.Uint64N(s.tree.span-1))
			sum += float64(samples)
			squares += float64(samples * samples)
		}
		mean := sum / runs
		deviation := math.Sqrt((squares/runs - mean*mean) / runs)
		t.Logf("%d bits: %.2f samples on average, expected %.2f", b, mean, expected)
		require.InDelta(t, expected, mean, 5*deviation)
	}
}

// How often a plaintext is decided where there is no slack, so that distances show: the figures of
// the argument for the default range.
func TestKeyedSlack(t *testing.T) {
	statistical(t)
	for _, c := range []struct {
		domain, bits int
		none         float64 // of 20,000 runs
	}{
		{8, 72, 0}, {16, 80, 0.0001},
		{32, 48, 0.896}, {32, 64, 0.507}, {32, 96, 0.018}, {32, 128, 0},
		{64, 96, 0.965}, {64, 128, 0.506}, {64, 160, 0.061}, {64, 192, 0.0016},
	} {
		d := ope.Int64
		if c.domain < 64 {
			d = ope.Domain{Min: 0, Max: 1<<c.domain - 1}
		}
		r := rand.New(rand.NewPCG(uint64(c.bits), 1))
		const runs = 1000
		none, left := 0, 0
		for k := range runs {
			s, err := New(vectortest.Key(t, 5).Derive(fmt.Sprint(k)), d, &Options{RangeBits: c.bits, AllowSmallRange: true})
			require.NoError(t, err)
			_, slack := descend(t, s, 1+r.Uint64N(s.tree.span-1))
			left += slack.bitLen()
			if slack.isZero() {
				none++
			}
		}
		t.Logf("%d bits in %d: %.1f %% without slack, else %.1f bits of it", c.domain, c.bits,
			100*float64(none)/runs, float64(left)/float64(runs-none))
		require.InDelta(t, c.none, float64(none)/runs, 0.005+5*math.Sqrt(c.none*(1-c.none)/runs))
		if c.bits == defaultRangeBits(c.domain) { // b bits are left at least, but for what RSS takes
			require.Greater(t, float64(left)/runs, float64(c.domain-4))
		}
	}
}

// One ciphertext, seen with those of both ends of the domain, shows something of where its plaintext is, but
// not as much as that it were in proportion.
func TestWhatOneCiphertextTells(t *testing.T) {
	statistical(t)
	r := rand.New(rand.NewPCG(9, 9))
	const runs, cells = 10_000, 50
	type point struct{ c, x float64 }
	all := make([]point, runs)
	value := func(c u192) float64 { return math.Ldexp(float64(c.hi), 64) + float64(c.mid) }
	for k := range all {
		s, err := New(vectortest.Key(t, 6).Derive(fmt.Sprint(k)), ope.Int64, nil)
		require.NoError(t, err)
		m := r.Uint64()
		all[k] = point{value(s.tree.excess(m)) / value(s.tree.slack), float64(m) / math.Exp2(64)}
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Compare(a.c, b.c) })
	squares := 0.0 // of the errors of the best guess: the mean over plaintexts whose ciphertexts are near
	for cell := range slices.Chunk(all, runs/cells) {
		mean := 0.0
		for _, p := range cell {
			mean += p.x / float64(len(cell))
		}
		for _, p := range cell {
			squares += (p.x - mean) * (p.x - mean)
		}
	}
	deviation := math.Sqrt(squares / runs)
	t.Logf("standard deviation of the guess: %.3f of the domain; without the ciphertext %.3f", deviation, math.Sqrt(1./12))
	require.InDelta(t, 0.22, deviation, 0.01)
}
