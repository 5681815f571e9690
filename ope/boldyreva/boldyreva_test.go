package boldyreva

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func makeLinear(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := New(vectortest.Key(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func makeModular(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := NewModular(vectortest.Key(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func TestLinearConforms(t *testing.T) {
	opetest.TestScheme(t, makeLinear(nil))
}

func TestModularConforms(t *testing.T) {
	opetest.TestScheme(t, makeModular(nil))
}

func TestModularIsNotLinear(t *testing.T) {
	_, ok := makeModular(nil)(t, ope.Int8).(ope.Linear)
	require.False(t, ok)
}

// Every range size for domains up to it: round trips, order, and no ciphertext that decrypts though
// none was made.
func TestEveryRange(t *testing.T) {
	for rangeBits := 1; rangeBits <= 128; rangeBits++ {
		for _, d := range []ope.Domain{
			{Min: 5, Max: 5}, {Min: -1, Max: 0}, {Min: -3, Max: 9}, ope.Int8, {Min: -3, Max: 1000},
			{Min: 0, Max: 1<<min(rangeBits, 62) - 2}, {Min: math.MinInt64, Max: math.MaxInt64 - 1}, ope.Int64,
		} {
			if d.Validate() != nil || bits.Len64(d.Span()) > rangeBits {
				continue
			}
			s, err := New(vectortest.Key(t, 2), d, &Options{RangeBits: rangeBits, AllowSmallRange: true})
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(uint64(rangeBits), 2))
			xs := []int64{d.Min, d.Max}
			for range 30 {
				o, _ := bits.Mul64(r.Uint64(), d.Span())
				xs = append(xs, d.At(o))
			}
			slices.Sort(xs)
			xs = slices.Compact(xs)
			var last ope.Ciphertext
			for _, x := range xs {
				c, err := s.Encrypt(t.Context(), x)
				require.NoError(t, err)
				require.Negative(t, bytes.Compare(last, c))
				last = c
				y, err := s.Decrypt(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, x, y)
			}
		}
	}
}

// Every byte string of the length, for small ranges: exactly the ciphertexts decrypt.
func TestExactlyCiphertextsDecrypt(t *testing.T) {
	t.Parallel()
	for _, d := range []ope.Domain{{Min: 0, Max: 0}, {Min: 0, Max: 6}, {Min: -100, Max: 99}, {Min: 1, Max: 254}, ope.Uint8} {
		for rangeBits := max(bits.Len64(d.Span()), 1); rangeBits <= 13; rangeBits++ {
			for _, makeScheme := range []func(*Options) opetest.MakeFunc{makeLinear, makeModular} {
				opetest.TestCiphertexts(t, makeScheme(&Options{RangeBits: rangeBits, AllowSmallRange: true})(t, d).(ope.Immutable))
			}
		}
	}
}

func TestParameters(t *testing.T) {
	key := vectortest.Key(t, 1)
	for _, c := range []struct {
		name string
		key  ope.Key
		d    ope.Domain
		opts Options
		want error
	}{
		{"zero key", ope.Key{}, ope.Int8, Options{}, ope.ErrKey},
		{"empty domain", key, ope.Domain{Min: 1, Max: 0}, Options{}, ope.ErrParams},
		{"seven bits to spare", key, ope.Int8, Options{RangeBits: 15}, ope.ErrParams},
		{"eight bits to spare", key, ope.Int8, Options{RangeBits: 16}, nil},
		{"small range allowed", key, ope.Int8, Options{RangeBits: 8, AllowSmallRange: true}, nil},
		{"range below domain", key, ope.Int8, Options{RangeBits: 7, AllowSmallRange: true}, ope.ErrParams},
		{"negative range", key, ope.Int8, Options{RangeBits: -1, AllowSmallRange: true}, ope.ErrParams},
		{"range too large", key, ope.Int8, Options{RangeBits: 129}, ope.ErrParams},
		{"largest range", key, ope.Int64, Options{RangeBits: 128}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.key, c.d, &c.opts)
			require.ErrorIs(t, err, c.want)
			_, err = NewModular(c.key, c.d, &c.opts)
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestDefaultRange(t *testing.T) {
	for domainBits, want := range map[int]int{0: 8, 1: 16, 8: 16, 9: 24, 16: 32, 31: 64, 32: 64, 33: 72, 62: 128, 64: 128} {
		require.Equal(t, want, defaultRangeBits(domainBits), domainBits)
	}
	for b := range 65 {
		require.GreaterOrEqual(t, defaultRangeBits(b), b+8)
	}
}

// The identifier is bound into the coins: whatever it names gives other ciphertexts.
func TestIDs(t *testing.T) {
	s, err := New(vectortest.Key(t, 1), ope.Domain{Min: -5, Max: 250}, nil)
	require.NoError(t, err)
	require.Equal(t, "boldyreva/1 domain=[-5,250] range=16", s.ID())
	m, err := NewModular(vectortest.Key(t, 1), ope.Int64, nil)
	require.NoError(t, err)
	require.Equal(t, "mope/1 domain=[-9223372036854775808,9223372036854775807] range=128", m.ID())

	a, err := New(vectortest.Key(t, 1), ope.Domain{Min: 0, Max: 999}, nil)
	require.NoError(t, err)
	b, err := New(vectortest.Key(t, 1), ope.Domain{Min: 1, Max: 1000}, nil)
	require.NoError(t, err)
	same := 0
	for x := range int64(999) {
		ca, err := a.Encrypt(t.Context(), x)
		require.NoError(t, err)
		cb, err := b.Encrypt(t.Context(), x+1)
		require.NoError(t, err)
		if bytes.Equal(ca, cb) {
			same++
		}
	}
	require.Less(t, same, 20)
}

// A range at an end of a linear scheme's domain does not disclose that end's ciphertext; a modular
// scheme never opens a bound.
func TestIntervalsAtTheEnds(t *testing.T) {
	d := ope.Domain{Min: -50, Max: 50}
	s := makeLinear(nil)(t, d)
	ivs, err := s.Intervals(t.Context(), d.Min, 0)
	require.NoError(t, err)
	require.Equal(t, ope.Ciphertext{0, 0}, ivs[0].Start)
	ivs, err = s.Intervals(t.Context(), 0, d.Max)
	require.NoError(t, err)
	require.Equal(t, ope.Ciphertext{0xff, 0xff, 0}, ivs[0].End)

	wrapped := 0
	for first := range byte(20) {
		m, err := NewModular(vectortest.Key(t, first), d, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, m.shift, d.Span())
		low, high := d.At((d.Span()+1-m.shift)%(d.Span()+1)), d.At(d.Span()-m.shift) // ranks 0 and the last
		require.Zero(t, m.rank(low))
		require.Equal(t, d.Span(), m.rank(high))
		ivs, err := m.Intervals(t.Context(), low, low)
		require.NoError(t, err)
		require.Equal(t, ope.Ciphertext(m.encrypt(low)), ivs[0].Start)
		if m.shift != 0 {
			ivs, err = m.Intervals(t.Context(), high, low)
			require.NoError(t, err)
			require.Len(t, ivs, 2)
			wrapped++
		}
	}
	require.Positive(t, wrapped)
}

func TestShiftsAreUniform(t *testing.T) {
	const domains = 6000
	counts := make([]float64, 5)
	for i := range domains {
		m, err := NewModular(vectortest.Key(t, 9), ope.Domain{Min: int64(i), Max: int64(i) + 4}, nil)
		require.NoError(t, err)
		counts[m.shift]++
	}
	p := chiSquareP(counts, []float64{domains / 5., domains / 5., domains / 5., domains / 5., domains / 5.})
	t.Logf("p = %.4f", p)
	require.Greater(t, p, 1e-6)
}

func TestConcurrency(t *testing.T) {
	s, err := New(vectortest.Key(t, 3), ope.Int64, nil)
	require.NoError(t, err)
	xs := make([]int64, 500)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range xs {
		xs[i] = int64(r.Uint64())
	}
	want, err := s.EncryptBatch(t.Context(), xs)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range xs {
				i = (i + g*61) % len(xs)
				c, err := s.Encrypt(t.Context(), xs[i])
				if err != nil || !bytes.Equal(c, want[i]) {
					t.Errorf("value %d: another ciphertext, or %v", i, err)
					return
				}
				if x, err := s.Decrypt(t.Context(), c); err != nil || x != xs[i] {
					t.Errorf("value %d: another plaintext, or %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Batches large enough for several goroutines: sorted or not, with duplicates, whatever the shift.
// What a walker remembers of earlier values changes nothing: neighbours, whose paths have most nodes
// in common, and values far apart, which drive each other out, are encrypted as by a walker that
// knows nothing.
func TestRememberedNodes(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, d := range []ope.Domain{ope.Int32, ope.Int64} {
		s, err := New(vectortest.Key(t, 1), d, nil)
		require.NoError(t, err)
		warm := s.tree.get()
		for range 5000 {
			m := r.Uint64() & d.Span()
			if r.IntN(2) == 0 {
				m >>= 20
			}
			for i := range uint64(2) {
				root := node{bits: s.tree.bits, last: s.tree.last}
				hi, lo := root.encrypt(warm, m+i&d.Span())
				root = node{bits: s.tree.bits, last: s.tree.last}
				wantHi, wantLo := root.encrypt(&walker{Reader: s.tree.source.NewReader()}, m+i&d.Span())
				require.Equal(t, [2]uint64{wantHi, wantLo}, [2]uint64{hi, lo})
			}
		}
		// It does remember.
		for i, set := range warm.known {
			require.NotZero(t, set[0].bits, "set %d", i)
			require.NotZero(t, set[1].bits, "set %d", i)
		}
	}
}

func TestLargeBatch(t *testing.T) {
	for _, makeScheme := range []func(*Options) opetest.MakeFunc{makeLinear, makeModular} {
		for _, d := range []ope.Domain{{Min: -20000, Max: 20000}, ope.Int32} {
			vectortest.LargeBatch(t, makeScheme(nil)(t, d).(vectortest.Scheme), 3*chunk+17)
		}
	}
}

func TestAllocations(t *testing.T) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int32, ope.Int64} {
		s, err := New(vectortest.Key(t, 1), d, nil)
		require.NoError(t, err)
		vectortest.Allocations(t, s)
	}
}

func FuzzOrder(f *testing.F) {
	key := vectortest.Key(f, 5)
	vectortest.FuzzOrder(f, func(d ope.Domain, rangeBits int) (vectortest.Scheme, error) {
		return New(key, d, &Options{RangeBits: rangeBits, AllowSmallRange: true})
	})
}
