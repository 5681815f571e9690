package boldyreva

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

var sampleSeed = flag.Uint64("boldyreva.seed", 1, "seed of the tests of the sampler")

func seeded(t testing.TB) *rand.Rand {
	t.Logf("-boldyreva.seed=%d", *sampleSeed)
	return rand.New(rand.NewPCG(*sampleSeed, 0))
}

func seededWalker(t testing.TB) *walker {
	t.Logf("-boldyreva.seed=%d", *sampleSeed)
	s := coins.New(vectortest.Key(t, 0), "sampler", fmt.Sprint(*sampleSeed))
	return &walker{Reader: s.NewReader()}
}

// chiSquareP returns the p-value of Pearson's test; neighbouring cells are merged up to an expected
// count of 20.
func chiSquareP(observed, expected []float64) float64 {
	var o, e []float64
	var so, se float64
	for i := range expected {
		so, se = so+observed[i], se+expected[i]
		if se >= 20 {
			o, e = append(o, so), append(e, se)
			so, se = 0, 0
		}
	}
	if len(e) < 2 {
		return 1
	}
	o[len(o)-1] += so
	e[len(e)-1] += se
	var stat float64
	for i := range e {
		stat += (o[i] - e[i]) * (o[i] - e[i]) / e[i]
	}
	return distuv.ChiSquared{K: float64(len(e) - 1)}.Survival(stat)
}

// law returns the exact probabilities of x in [from, from+len), which hold all but 1e-30 of the law,
// from ratios of neighbours by math/big.
func law(k uint, m uint64) (from uint64, p []float64) {
	const precision = 200
	y := new(big.Int).Lsh(one, k-1) // marked, and as many unmarked
	number := func(x *big.Int) *big.Float { return new(big.Float).SetPrec(precision).SetInt(x) }
	mode := m / 2
	// p(x+1)/p(x) = (y-x)(m-x) / ((x+1)(y-m+x+1))
	ratio := func(x uint64) *big.Float {
		bx, bm := bigUint(x), bigUint(m)
		n := new(big.Int).Mul(new(big.Int).Sub(y, bx), new(big.Int).Sub(bm, bx))
		d := new(big.Int).Add(new(big.Int).Sub(y, bm), new(big.Int).Add(bx, one))
		d.Mul(d, new(big.Int).Add(bx, one))
		return new(big.Float).SetPrec(precision).Quo(number(n), number(d))
	}
	tiny := new(big.Float).SetMantExp(big.NewFloat(1), -120)
	weights := map[uint64]*big.Float{mode: number(one)}
	low, high := mode, mode
	for x := mode; ; x++ {
		next := new(big.Float).Mul(weights[x], ratio(x))
		if next.Cmp(tiny) < 0 {
			break
		}
		weights[x+1], high = next, x+1
	}
	for x := mode; x > 0; x-- {
		r := ratio(x - 1)
		if r.Sign() <= 0 || r.IsInf() {
			break
		}
		next := new(big.Float).Quo(weights[x], r)
		if next.Cmp(tiny) < 0 {
			break
		}
		weights[x-1], low = next, x-1
	}
	sum := new(big.Float).SetPrec(precision)
	for _, v := range weights {
		sum.Add(sum, v)
	}
	p = make([]float64, high-low+1)
	for x, v := range weights {
		p[x-low], _ = new(big.Float).Quo(v, sum).Float64()
	}
	return low, p
}

// The sampler against the exact law; where the law has too many outcomes to count, against the
// normal law in 1/40 standard deviations, from which it differs by less than 1e-8 there, and with a
// test that the low bits are uniform.
func TestSampleLaw(t *testing.T) {
	w := seededWalker(t)
	label := uint64(0)
	pairs := 0
	for _, c := range []struct {
		k uint
		m uint64
	}{
		{2, 2}, {3, 3}, {4, 7}, {7, 50}, {7, 100}, {8, 128}, {10, 3}, {10, 300}, {10, 700}, {64, 7}, {64, 64}, {64, 65},
		{128, 128}, {20, 129}, {9, 192}, {9, 193}, {9, 255}, {30, 193}, {128, 200}, {10, 400}, {11, 1024}, {30, 1023}, {12, 1500},
		{128, 2000}, {13, 4096}, {13, 1999}, {20, 4097}, {16, 5001}, {24, 60000}, {17, 65536}, {24, 70000}, {20, 500000}, {24, 1 << 20}, {64, 1 << 18},
		{40, 1<<34 + 1}, {33, 1 << 32}, {64, 1 << 32}, {64, 1<<62 + 12345}, {64, 3 << 62}, {64, 1 << 63}, {65, math.MaxUint64}, {128, 1 << 63}, {128, math.MaxUint64},
	} {
		pairs++
		n := 60_000
		sample := func() uint64 {
			label++
			w.Seek(0, 1, label)
			return w.split(c.k, c.m-1)
		}
		var p float64
		what := "exact"
		if c.m <= 1<<20 {
			from, law := law(c.k, c.m)
			expected, observed := make([]float64, len(law)), make([]float64, len(law))
			for i := range law {
				expected[i] = law[i] * float64(n)
			}
			for range n {
				x := sample()
				require.True(t, x >= from && x-from < uint64(len(law)), "an outcome of no probability")
				observed[x-from]++
			}
			p = chiSquareP(observed, expected)
		} else {
			what = "normal"
			size := math.Ldexp(1, int(c.k))
			sd := math.Sqrt(float64(c.m)/4) * math.Sqrt((size-float64(c.m))/(size-1))
			cdf := distuv.UnitNormal.CDF
			const bins = 402
			expected, observed, low := make([]float64, bins), make([]float64, bins), make([]float64, 64)
			for i := range expected {
				a, b := cdf(float64(i-201)/40), cdf(float64(i-200)/40)
				switch i {
				case 0:
					a = 0
				case bins - 1:
					b = 1
				}
				expected[i] = (b - a) * float64(n)
			}
			for range n {
				x := sample()
				z := (float64(int64(x-c.m/2)) - float64(c.m&1)/2 + 0.5) / sd
				observed[max(0, min(bins-1, int(math.Floor(z*40))+201))]++
				low[x&63]++
			}
			uniform := make([]float64, 64)
			for i := range uniform {
				uniform[i] = float64(n) / 64
			}
			p = min(chiSquareP(observed, expected), chiSquareP(low, uniform))
		}
		t.Logf("N = 2^%-3d M = %-20d %s law, %d samples, p = %.4f", c.k, c.m, what, n, p)
		require.Greater(t, p, 1e-6)
	}
	require.GreaterOrEqual(t, pairs, 20)
}

// All subsets of a small range are equally likely images: the whole tree, not one node.
func TestTreeLaw(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	for _, c := range []struct{ rangeBits, points int }{{3, 3}, {4, 2}, {4, 13}, {8, 2}} {
		if c.rangeBits == 8 && !sim.Full() {
			continue // 32,640 subsets need as many images ten times
		}
		counts := map[string]float64{}
		subsets := new(big.Int).Binomial(1<<c.rangeBits, int64(c.points)).Int64()
		n := max(20_000, 10*int(subsets)) // a few seconds at most
		for range n {
			tr := newTree(coins.New(vectortest.Key(t, byte(r.Uint64())), fmt.Sprint(r.Uint64())), uint64(c.points-1), uint(c.rangeBits))
			image := make([]byte, c.points)
			for i := range image {
				_, lo := tr.encrypt(uint64(i))
				image[i] = byte(lo)
			}
			counts[string(image)]++
		}
		observed, expected := make([]float64, 0, subsets), make([]float64, subsets)
		for _, v := range counts {
			observed = append(observed, v)
		}
		for i := range expected {
			expected[i] = float64(n) / float64(subsets)
		}
		require.LessOrEqual(t, len(observed), int(subsets))
		observed = append(observed, make([]float64, int(subsets)-len(observed))...)
		var stat float64 // no merging: the order of the map's values has no meaning
		for i := range expected {
			stat += (observed[i] - expected[i]) * (observed[i] - expected[i]) / expected[i]
		}
		p := distuv.ChiSquared{K: float64(subsets - 1)}.Survival(stat)
		t.Logf("%d points of 2^%d: %d subsets, %d images, p = %.4f", c.points, c.rangeBits, subsets, n, p)
		require.Greater(t, p, 1e-6)
	}
}

// Scattered points have the law of a random subset: in ranges where ties abound, the number of
// pairs of points in one cell has its exact distribution, and so has the lowest point.
func TestScatterLaw(t *testing.T) {
	w := seededWalker(t)
	for _, k := range []uint{8, 17, 18} {
		for _, points := range []uint64{2, 5, 8} {
			const n = 40_000
			cells := int64(1) << scatterDepth(k)
			observed, expected := make([]float64, 8), make([]float64, 8)
			for v := range uint64(n) {
				w.Seek(0, uint64(k), v)
				places := w.scatter(k, points-1)
				require.IsNonDecreasing(t, places[:points])
				require.Less(t, int64(places[points-1]), cells)
				observed[int64(places[0])*8/cells]++
			}
			// P(lowest cell in the first i eighths) = 1 - C(N - iN/8, m)/C(N, m).
			all := new(big.Int).Binomial(1<<k, int64(points))
			before := float64(n)
			for i := range int64(8) {
				rest := new(big.Int).Binomial(1<<k-(i+1)<<(k-3), int64(points))
				q, _ := new(big.Rat).SetFrac(rest, all).Float64()
				expected[i], before = before-q*n, q*n
			}
			p := chiSquareP(observed, expected)
			t.Logf("N = 2^%d M = %d: lowest cell, p = %.4f", k, points, p)
			require.Greater(t, p, 1e-6)
		}
	}
}

// A random node of the histogram branch.
func randomHistogramNode(r *rand.Rand) (k uint, last uint64) {
	for {
		last = r.Uint64() >> r.UintN(57)
		if last < popcountMost {
			continue
		}
		n := uint(new(big.Int).Add(bigUint(last), one).BitLen())
		k = min(n+1+min(r.UintN(128), r.UintN(128)), 128)
		if r.UintN(3) == 0 {
			k = max(n, 1)
		}
		if k <= 64 && last >= 1<<(k-1) || k > 128 {
			continue
		}
		return k, last
	}
}

// The acceptance probability is at most 1, the quick bounds are below it, approximations are within
// their error, and rough decisions are right.
func TestRatio(t *testing.T) {
	r := seeded(t)
	worst := new(big.Int)
	var where string
	approximated, decided, quickly := 0, 0, 0
	for range sim.Share(25_000, 8_000) {
		k, last := randomHistogramNode(r)
		v1, v0 := variance(k, last)
		n := new(big.Int).Or(bigUint(v0), new(big.Int).Lsh(bigUint(v1), 64)).BitLen()
		row := classes[n]
		env := &envelopes[min(row, 4)]
		width := blockWidth(v1, v0, n, env.fraction)
		// The width is above sqrt(V)/16 cells, which the envelope's proof needs.
		square := bigUint(width)
		square.Mul(square, square).Lsh(square, 8)
		v := new(big.Int).Or(bigUint(v0), new(big.Int).Lsh(bigUint(v1), 64))
		require.Positive(t, square.Cmp(v.Lsh(v, 2*env.fraction)))

		j := r.Uint64N(blocks)
		cell := r.Uint64N(width)
		switch r.UintN(3) { // the ends of the block, where bounds are tight
		case 0:
			cell = 0
		case 1:
			cell = width - 1
		}
		odd := ^last & 1
		d := 2*((j*width+cell)>>env.fraction) + odd
		if r.UintN(2) == 0 {
			d += 2 - 2*odd
		}
		if d > last {
			continue
		}
		what := fmt.Sprintf("k %d, last %d, D %d, block %d", k, last, d, j)
		rho := exactRatio(env, k, last, d, j, 0, 128)
		require.LessOrEqual(t, rho.BitLen(), 128, what)
		if q := quick[row][j]; q != 0 {
			quickly++
			require.LessOrEqual(t, new(big.Int).Lsh(bigUint(uint64(q)), 96).Cmp(rho), 0, what)
		}
		// Digits of V at random, or those of rho, which only an approximation can decide.
		v32 := r.Uint32()
		if r.UintN(2) == 0 {
			v32 = uint32(new(big.Int).Rsh(rho, 96).Uint64())
		}
		p, know := ratio(env, k, last, d, j, 0)
		if know == approximate {
			approximated++
			if diff := new(big.Int).Sub(rho, new(big.Int).Lsh(bigUint(p), 64)); diff.CmpAbs(worst) > 0 {
				worst, where = diff.Abs(diff), what
			}
		}
		switch rough(env, v1, v0, n, d, j, v32) {
		case decidedYes:
			decided++
			require.LessOrEqual(t, new(big.Int).Lsh(bigUint(uint64(v32)+1), 96).Cmp(rho), 0, what)
		case decidedNo:
			decided++
			require.GreaterOrEqual(t, new(big.Int).Lsh(bigUint(uint64(v32)), 96).Cmp(rho), 0, what)
		}
	}
	t.Logf("%d approximated with an error of 2^%d at most (%s), %d decided roughly, %d quick bounds", approximated, worst.BitLen()-128, where, decided, quickly)
	require.Greater(t, approximated, 1000)
	require.Greater(t, decided, 1000)
	require.Greater(t, quickly, 1000)
	require.Negative(t, worst.Cmp(new(big.Int).Lsh(bigUint(tierError/4), 64)))
}

// exactMinusLogG does not depend on how far A is raised, nor on the precision.
func TestExactSeries(t *testing.T) {
	env := &envelopes[0]
	for _, c := range []struct{ last, d, j uint64 }{{192, 193, 45}, {192, 1, 0}, {255, 100, 30}, {5000, 1001, 20}} {
		short := exactRatio(env, 20, c.last, c.d, c.j, 0, 128)
		long := exactRatio(env, 20, c.last, c.d, c.j, 0, 1100)
		diff := new(big.Int).Sub(long.Rsh(long, 1100-128), short)
		require.LessOrEqual(t, diff.CmpAbs(big.NewInt(2)), 0, "%+v", c)
	}
	// And against a rational: with M even, f(D) = prod_{i=1..D/2} (M/2-i+1)(c-i+1)/((M/2+i)(c+i)), c = (N-M)/2.
	const k, m, d = 20, 200, 120
	f := big.NewRat(int64(env.kappa), int64(env.height[45]))
	c := int64(1<<k-m) / 2
	for i := int64(1); i <= d/2; i++ {
		f.Mul(f, big.NewRat((m/2-i+1)*(c-i+1), (m/2+i)*(c+i)))
	}
	want := new(big.Int).Lsh(f.Num(), 300)
	want.Quo(want, f.Denom())
	require.LessOrEqual(t, want.Sub(want, exactRatio(env, k, m-1, d, 45, 0, 300)).CmpAbs(big.NewInt(8)), 0)
}

// Shortcuts never change a sample.
func TestExactAgrees(t *testing.T) {
	r := seeded(t)
	source := coins.New(vectortest.Key(t, 0), "agree", fmt.Sprint(*sampleSeed))
	fast, exact := &walker{Reader: source.NewReader()}, &walker{Reader: source.NewReader(), exact: true}
	for i := range uint64(12_000) {
		var k uint
		var last uint64
		switch i % 4 {
		case 0:
			k, last = randomHistogramNode(r)
		case 1: // few points, in ranges from dense to sparse
			last = 1 + r.Uint64N(2*popcountMost)
			k = 9 + min(r.UintN(120), r.UintN(120))
		case 2: // any size, dense
			k = 2 + r.UintN(12)
			last = 1 + r.Uint64N(1<<k-2)
		case 3:
			k, last = scatterBits+min(r.UintN(121), r.UintN(121)), 1+r.Uint64N(scatterMost-1)
			fast.Seek(0, 1, i)
			exact.Seek(0, 1, i)
			require.Equal(t, exact.scatter(k, last), fast.scatter(k, last), "k %d, last %d", k, last)
			continue
		}
		fast.Seek(0, 1, i)
		exact.Seek(0, 1, i)
		require.Equal(t, exact.split(k, last), fast.split(k, last), "k %d, last %d", k, last)
	}
}
