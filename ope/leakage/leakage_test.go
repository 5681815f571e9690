package leakage

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
)

// million is the domain of the published figures.
var million = ope.Domain{Min: 0, Max: 1<<20 - 1}

func testKey(t testing.TB, n uint64) ope.Key {
	secret := make([]byte, ope.KeySize)
	binary.BigEndian.PutUint64(secret, n)
	k, err := ope.NewKey(secret)
	require.NoError(t, err)
	return k
}

func encrypt(t testing.TB, s ope.Scheme, xs []int64) []ope.Ciphertext {
	column := make([]ope.Ciphertext, len(xs))
	for i, x := range xs {
		c, err := s.Encrypt(context.Background(), x)
		require.NoError(t, err)
		column[i] = c
	}
	return column
}

func uniform(r *rand.Rand, d ope.Domain, n int) []int64 {
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = d.At(r.Uint64N(d.Span() + 1))
	}
	return xs
}

func linear(t testing.TB, key uint64, d ope.Domain) *boldyreva.Scheme {
	s, err := boldyreva.New(testKey(t, key), d, nil)
	require.NoError(t, err)
	return s
}

// plainly returns values of [0, 2^32) as ciphertexts that are their plaintexts.
func plainly(xs []int64) []ope.Ciphertext {
	column := make([]ope.Ciphertext, len(xs))
	for i, x := range xs {
		column[i] = binary.BigEndian.AppendUint32(nil, uint32(x))
	}
	return column
}

func TestDensity(t *testing.T) {
	d := ope.Domain{Min: -2, Max: 5}
	require.Equal(t, 0.0, Density(nil, d))
	require.Equal(t, 0.375, Density([]int64{-2, 0, 0, 5, 5, 5}, d))
	require.Equal(t, 0.125, Density([]int64{-2, 100}, d), "values outside of the domain do not count")
	require.Equal(t, 1.0, Density([]int64{0}, ope.Domain{}))
	require.InDelta(t, math.Ldexp(1, -64), Density([]int64{0}, ope.Int64), 1e-30)
}

func TestEntropy(t *testing.T) {
	require.Equal(t, 0.0, Entropy(nil))
	require.Equal(t, 0.0, Entropy([]int64{7, 7, 7}))
	require.Equal(t, 1.0, Entropy([]int64{7, 3, 7, 3}))
	require.Equal(t, 1.5, Entropy([]int64{1, 1, 2, 3}))
	require.Equal(t, 10.0, Entropy(uniformlyAll(1024)))
	p := distuv.Bernoulli{P: 0.1}
	require.InDelta(t, p.Entropy()/math.Ln2, Entropy([]int64{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 1e-12)
}

func uniformlyAll(n int64) []int64 {
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = int64(i)
	}
	return xs
}

func TestShareAndBits(t *testing.T) {
	truth := []int64{0, 100, -100, math.MaxInt64}
	guesses := []int64{0, 101, -90, math.MinInt64}
	require.Equal(t, 0.25, Share(truth, guesses, Exactly))
	require.Equal(t, 0.5, Share(truth, guesses, Near(1)))
	require.Equal(t, 0.75, Share(truth, guesses, Near(10)))
	require.Equal(t, 0.75, Share(truth, guesses, Near(math.Ldexp(1, 63))))
	require.Equal(t, 1.0, Share(truth, guesses, Near(math.Ldexp(1, 64))))
	require.Equal(t, 0.0, Share(nil, nil, Exactly))
	require.Panics(t, func() { Share(truth, nil, Exactly) })

	// From an interval of 2*127+1 values around the prior guess to one value: log2(255).
	require.InDelta(t, math.Log2(255), Bits([]int64{127, -127}, []int64{127, -127}, 0), 1e-12)
	require.Equal(t, 0.0, Bits([]int64{1, 2}, []int64{5, 5}, 5), "a guess that needs no ciphertext")
	require.Negative(t, Bits([]int64{1}, []int64{5}, 1))
	require.InDelta(t, 65, Bits([]int64{math.MaxInt64}, []int64{math.MaxInt64}, math.MinInt64), 1e-9)
	require.Equal(t, 0.0, Bits(nil, nil, 0))
	require.Panics(t, func() { Bits(truth, nil, 0) })
}

func TestQuantiles(t *testing.T) {
	q := Empirical([]int64{30, 10, 20, 20})
	for u, want := range map[float64]int64{0: 10, 0.25: 10, 0.26: 20, 0.75: 20, 0.76: 30, 1: 30} {
		require.Equal(t, want, q(u), u)
	}
	require.Panics(t, func() { Empirical(nil) })
	u := Uniform(ope.Domain{Min: -5, Max: 4})
	for p, want := range map[float64]int64{0: -5, 0.09: -5, 0.5: 0, 0.99: 4, 1: 4} {
		require.Equal(t, want, u(p), p)
	}
	require.Equal(t, int64(math.MaxInt64), Uniform(ope.Int64)(1))
	require.Equal(t, int64(0), Uniform(ope.Int64)(0.5))
}

// The difference of ciphertexts is that of big integers, to the precision of a float64.
func TestDifferenceIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "n")
		a := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "a")
		b := bytes.Clone(a[:rapid.IntRange(0, n).Draw(t, "common")])
		b = append(b, rapid.SliceOfN(rapid.Byte(), n-len(b), n-len(b)).Draw(t, "b")...)
		if bytes.Compare(a, b) < 0 {
			a, b = b, a
		}
		exact := new(big.Float).SetInt(new(big.Int).Sub(new(big.Int).SetBytes(a), new(big.Int).SetBytes(b)))
		want, _ := exact.SetMantExp(exact, -8*n).Float64()
		require.InEpsilon(t, want+1e-300, difference(a, b)+1e-300, 1e-15)
	})
	require.Equal(t, 0.5, difference([]byte{0x80}, nil))
}

// The published statement on dense columns: all of it is read, whatever the scheme.
func TestSortReadsDenseColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	year := ope.Domain{Min: 1, Max: 365}
	days := append(uniform(r, year, 2000), uniformlyAll(366)[1:]...) // every day occurs
	column := encrypt(t, linear(t, 1, year), days)
	known := slices.Repeat(uniformlyAll(366)[1:], 2)
	slices.Reverse(known)
	guesses, err := Sort(column, known)
	require.NoError(t, err)
	require.Equal(t, days, guesses)

	_, err = Sort(column, known[:10])
	require.ErrorContains(t, err, "10")
	guesses, err = Sort(nil, nil)
	require.NoError(t, err)
	require.Empty(t, guesses)
}

// Of a random order-preserving function the mean error is sqrt(pi/32) * sqrt(M): the deviation of
// the function from the straight line is that of a Brownian bridge, whose mean absolute value is
// sqrt(2/pi) * sqrt(u(1-u)), and the mean of that over u is sqrt(pi/32).
func TestScaleReadsTheUpperHalfOfTheBits(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const keys = 1000
	sum := 0.0
	for key := range uint64(keys) {
		xs := uniform(r, million, 8)
		guesses := Scale(encrypt(t, linear(t, key, million), xs), 0, million)
		for i, x := range xs {
			sum += float64(distance(x, guesses[i])) / float64(len(xs)*keys)
		}
		require.Equal(t, 1.0, Share(xs, guesses, Near(0.01*(1<<20))), "all values to 1 per cent of the domain")
	}
	require.InDelta(t, math.Sqrt(math.Pi/32)*1024, sum, 0.1*1024*0.31)
}

func TestScaleKnowsTheBitsOfTheRange(t *testing.T) {
	d := ope.Domain{Min: -100, Max: 923} // 10 bits
	s, err := boldyreva.New(testKey(t, 3), d, &boldyreva.Options{RangeBits: 45})
	require.NoError(t, err)
	xs := []int64{-100, 0, 500, 923}
	column := encrypt(t, s, xs)
	require.Equal(t, 1.0, Share(xs, Scale(column, 45, d), Near(0.1*1024)))
	require.Zero(t, Share(xs[2:], Scale(column[2:], 0, d), Near(0.1*1024)), "48 bits are not the range")
	guesses, err := Interpolate(column, 45, d, nil)
	require.NoError(t, err)
	require.Equal(t, Scale(column, 45, d), guesses)
}

// A scheme that is the identity is read exactly, up to the ends of int64.
func TestScaleOfTheIdentity(t *testing.T) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int32, ope.Uint32} {
		s, err := boldyreva.New(testKey(t, 4), d, &boldyreva.Options{RangeBits: len64(d.Span()), AllowSmallRange: true})
		require.NoError(t, err)
		xs := append(uniform(rand.New(rand.NewPCG(4, 4)), d, 50), d.Min, d.Max)
		require.Equal(t, xs, Scale(encrypt(t, s, xs), 0, d))
	}
	require.Equal(t, []int64{math.MinInt64, 0, math.MaxInt64},
		Scale([]ope.Ciphertext{make([]byte, 8), {0x80, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{255}, 8)}, 0, ope.Int64))
}

func len64(span uint64) int {
	n := 0
	for ; span > 0; span >>= 1 {
		n++
	}
	return n
}

// Known pairs pin the deviation of a random order-preserving function: between pairs that are a gap
// of g plaintexts apart it is a bridge again, with a mean error of sqrt(pi/32) * sqrt(g).
func TestInterpolateBetweenKnownPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, k := range []int64{1, 3, 15, 255} {
		gap := (million.Max + 1) / (k + 1)
		sum, n := 0.0, 0
		for key := range uint64(300) {
			s := linear(t, key, million)
			var known []Pair
			for i := int64(1); i <= k; i++ {
				known = append(known, Pair{encrypt(t, s, []int64{i * gap})[0], i * gap})
			}
			r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
			xs := append(uniform(r, million, 12), known[0].Plaintext)
			guesses, err := Interpolate(encrypt(t, s, xs), 0, million, known)
			require.NoError(t, err)
			require.Equal(t, known[0].Plaintext, guesses[12], "a known pair")
			for i, x := range xs[:12] {
				sum += float64(distance(x, guesses[i]))
				n++
			}
		}
		want := math.Sqrt(math.Pi/32) * math.Sqrt(float64(gap))
		require.InEpsilon(t, want, sum/float64(n), 0.1, "%d pairs", k)
	}
}

// Random pairs leave gaps of all widths, of which a value is in a wide one rather: the share of the domain that its gap
// has is of the law Beta(2, k). So the mean error is that of no pair times E sqrt(share), up to a third above that of
// as many pairs evenly apart, which is 1/sqrt(k+1).
func TestInterpolateBetweenRandomPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, k := range []int{1, 10, 100} {
		sum, n := 0.0, 0
		for key := range uint64(600) {
			s := linear(t, key, million)
			var known []Pair
			for _, x := range uniform(r, million, k) {
				known = append(known, Pair{encrypt(t, s, []int64{x})[0], x})
			}
			xs := uniform(r, million, 12)
			guesses, err := Interpolate(encrypt(t, s, xs), 0, million, known)
			require.NoError(t, err)
			for i, x := range xs {
				sum += float64(distance(x, guesses[i]))
				n++
			}
		}
		share := math.Gamma(2.5) * math.Exp(lgamma(k+2)-lgamma(float64(k)+2.5))
		require.Less(t, share*math.Sqrt(float64(k+1)), 4.0/3)
		require.InEpsilon(t, math.Sqrt(math.Pi/32)*math.Sqrt(float64(million.Max+1))*share, sum/float64(n), 0.1, "%d pairs", k)
	}
}

func lgamma[T int | float64](x T) float64 {
	y, _ := math.Lgamma(float64(x))
	return y
}

func TestInterpolateStaysBetweenThePairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := ope.Domain{Min: -50, Max: 1 << 31}
		xs := rapid.SliceOfN(rapid.Int64Range(0, 60), 1, 20).Draw(t, "xs")
		k := rapid.IntRange(0, len(xs)).Draw(t, "k")
		column := plainly(xs)
		var known []Pair
		for i := range k {
			known = append(known, Pair{column[i], xs[i]})
		}
		guesses, err := Interpolate(column, 0, d, known)
		require.NoError(t, err)
		for i, x := range xs {
			require.True(t, d.Contains(guesses[i]))
			for j := range k {
				require.Equal(t, xs[j] < x, known[j].Plaintext < guesses[i], "a guess is on the other side of a pair")
				require.Equal(t, xs[j] == x, known[j].Plaintext == guesses[i])
			}
		}
	})
	// Two neighbours leave one value: it is read.
	guesses, err := Interpolate(plainly([]int64{5, 6, 7}), 0, ope.Int8, []Pair{{plainly([]int64{5})[0], 5}, {plainly([]int64{7})[0], 7}})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 6, 7}, guesses)
	// The ends of int64 do not overflow.
	guesses, err = Interpolate(plainly([]int64{0, 1, 2, 3}), 0, ope.Int64, []Pair{{plainly([]int64{1})[0], math.MinInt64}, {plainly([]int64{2})[0], math.MaxInt64}})
	require.NoError(t, err)
	require.Equal(t, int64(math.MinInt64), guesses[0])
	require.Equal(t, int64(math.MaxInt64), guesses[3])
}

func TestInterpolateRefusesContradictions(t *testing.T) {
	c := plainly([]int64{1, 2})
	for name, known := range map[string][]Pair{
		"crossing":            {{c[0], 9}, {c[1], 3}},
		"two for one":         {{c[0], 3}, {c[0], 4}},
		"one for two":         {{c[0], 3}, {c[1], 3}},
		"beyond the domain":   {{c[0], 300}},
		"below it, by itself": {{c[0], -300}},
	} {
		_, err := Interpolate(c, 0, ope.Int8, known)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "00", name)
	}
	_, err := Interpolate(c, 0, ope.Int8, []Pair{{c[0], 3}, {c[0], 3}})
	require.NoError(t, err, "a pair that is known twice")
}

// The i-th of n uniform values has the law Beta(i, n+1-i), from which the attack's success follows
// without any experiment.
func TestRankMeetsItsOrderStatistics(t *testing.T) {
	const n, columns = 2000, 50
	r := rand.New(rand.NewPCG(6, 6))
	domain := 0.0
	for range columns {
		xs := uniform(r, million, n)
		guesses := Rank(plainly(xs), Uniform(million))
		domain += Share(xs, guesses, Near(0.01*(1<<20))) / columns
	}
	wantDomain := 0.0
	for i := 1; i <= n; i++ {
		law := distuv.Beta{Alpha: float64(i), Beta: float64(n + 1 - i)}
		u := float64(i) / (n + 1)
		wantDomain += (law.CDF(min(u+0.01, 1)) - law.CDF(max(u-0.01, 0))) / n
	}
	require.InDelta(t, 0.75, wantDomain, 0.01)
	require.InDelta(t, wantDomain, domain, 0.06)
}

// It reads order only, so that it reads as much whatever the scheme.
func TestRankIsTheSameForEveryScheme(t *testing.T) {
	xs := uniform(rand.New(rand.NewPCG(7, 7)), million, 500)
	q := Uniform(million)
	require.Equal(t, Rank(plainly(xs), q), Rank(encrypt(t, linear(t, 1, million), xs), q))
	require.Equal(t, []int64{5, 2, 5, 8}, Rank(plainly([]int64{40, 30, 40, 90}), Uniform(ope.Domain{Min: 0, Max: 9})), "equal rows share a place")
}

// A column that leaves most of its domain empty has its shift read from a snapshot; one that fills
// it does not.
func TestUnshift(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	found := 0
	for key := range uint64(200) {
		s, err := boldyreva.NewModular(testKey(t, key), million, nil)
		require.NoError(t, err)
		narrow := uniform(r, ope.Domain{Min: 500_000, Max: 700_000}, 50)
		column := Unshift(encrypt(t, s, narrow), 0)
		require.Equal(t, rowOrder(plainly(narrow)), rowOrder(column), "key %d", key)
		require.Zero(t, difference(slices.MinFunc(column, func(a, b ope.Ciphertext) int { return bytes.Compare(a, b) }), nil))

		wide := uniform(r, million, 50)
		if slices.Equal(rowOrder(plainly(wide)), rowOrder(Unshift(encrypt(t, s, wide), 0))) {
			found++
		}
	}
	// The gap around the end is two of 51 spacings, and the widest with some luck only.
	require.Less(t, found, 40)
	require.Empty(t, Unshift(nil, 0))

	// Modulo a range that does not fill its bytes.
	turned := Unshift([]ope.Ciphertext{{0x0f, 0xff}, {0x00, 0x01}, {0x0f, 0x00}}, 12)
	require.Equal(t, []ope.Ciphertext{{0x00, 0xff}, {0x01, 0x01}, {0, 0}}, turned)
}

// rowOrder returns the rank of each row among the distinct ciphertexts.
func rowOrder(column []ope.Ciphertext) []int { return groupCiphertexts(column).of }
