package wozniak

import (
	"bytes"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func makeKeyed(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := New(vectortest.Key(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func TestKeyedConforms(t *testing.T) { opetest.TestScheme(t, makeKeyed(nil)) }

// With a range of 192 bits, the digits of a small node begin in one block and end in another.
func TestKeyedConformsWithWideRange(t *testing.T) {
	if testing.Short() {
		t.Skip("differs in arithmetic only")
	}
	opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
		if d != ope.Int32 {
			tb.Skip("larger domains have as wide ranges by default, and smaller ones as small nodes")
		}
		return makeKeyed(&Options{RangeBits: 192})(tb, d)
	})
}

// All values of domains of up to 8 bits, by several keys, in ranges down to the smallest: in order, and
// they decrypt.
func TestKeyedExhaustive(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 63, 100, 128, 129, 200, 255, 256} {
		for key := range byte(4) {
			for _, rangeBits := range []int{0, max(bits.Len64(uint64(size-1)), 1), bits.Len64(uint64(size))} {
				s, err := New(vectortest.Key(t, key), ope.Domain{Min: -100, Max: size - 101}, &Options{RangeBits: rangeBits, AllowSmallRange: true})
				require.NoError(t, err)
				var last ope.Ciphertext
				for x := s.Domain().Min; x <= s.Domain().Max; x++ {
					c, err := s.Encrypt(t.Context(), x)
					require.NoError(t, err)
					require.Negative(t, bytes.Compare(last, c))
					last = c
					back, err := s.Decrypt(t.Context(), c)
					require.NoError(t, err)
					require.Equal(t, x, back)
				}
			}
		}
	}
}

// Every byte string of the length, for small ranges: exactly the ciphertexts decrypt.
func TestExactlyKeyedCiphertextsDecrypt(t *testing.T) {
	t.Parallel()
	for _, d := range []ope.Domain{{Min: 0, Max: 0}, {Min: -1, Max: 0}, {Min: 0, Max: 6}, {Min: -100, Max: 99}, ope.Uint8} {
		for rangeBits := max(bits.Len64(d.Span()), 1); rangeBits <= 12; rangeBits++ {
			opetest.TestCiphertexts(t, makeKeyed(&Options{RangeBits: rangeBits, AllowSmallRange: true})(t, d).(ope.Immutable))
		}
	}
}

func TestKeyedParameters(t *testing.T) {
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
		{"one bit less than the default", key, ope.Int32, Options{RangeBits: 95}, ope.ErrParams},
		{"the default", key, ope.Int32, Options{RangeBits: 96}, nil},
		{"small range allowed", key, ope.Int8, Options{RangeBits: 8, AllowSmallRange: true}, nil},
		{"range below domain", key, ope.Int8, Options{RangeBits: 7, AllowSmallRange: true}, ope.ErrParams},
		{"no bits", key, ope.Domain{}, Options{RangeBits: -1, AllowSmallRange: true}, ope.ErrParams},
		{"range too large", key, ope.Int64, Options{RangeBits: 193}, ope.ErrParams},
		{"largest range", key, ope.Int8, Options{RangeBits: 192}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.key, c.d, &c.opts)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.want != nil, s == nil)
		})
	}
	for domainBits, want := range map[int]int{0: 64, 1: 65, 8: 72, 16: 80, 31: 95, 32: 96, 33: 99, 48: 144, 63: 189, 64: 192} {
		require.Equal(t, want, defaultRangeBits(domainBits), domainBits)
	}
}

// The identifier is bound into the coins: whatever it names gives other ciphertexts.
func TestKeyedIDs(t *testing.T) {
	for _, c := range []struct {
		d    ope.Domain
		want string
	}{
		{ope.Domain{Min: -5, Max: 250}, "wozniak/1 domain=[-5,250] range=72"},
		{ope.Int64, "wozniak/1 domain=[-9223372036854775808,9223372036854775807] range=192"},
	} {
		require.Equal(t, c.want, makeKeyed(nil)(t, c.d).ID())
	}
	a := makeKeyed(nil)(t, ope.Domain{Min: 0, Max: 999})
	for _, b := range []ope.Scheme{
		makeKeyed(nil)(t, ope.Domain{Min: 1, Max: 1000}),
		makeKeyed(&Options{RangeBits: 75})(t, ope.Domain{Min: 0, Max: 999}),
	} {
		for x := range int64(999) {
			ca, err := a.Encrypt(t.Context(), x)
			require.NoError(t, err)
			cb, err := b.Encrypt(t.Context(), b.Domain().Min+x)
			require.NoError(t, err)
			require.NotEqual(t, strings.TrimLeft(string(ca), "\x00"), strings.TrimLeft(string(cb), "\x00"))
		}
	}
}

// The ciphertexts of another key are noticed: one is taken for a ciphertext with the probability
// |D| / |R|, 2^-64 here.
func TestKeyedWrongKey(t *testing.T) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int32} {
		s := makeKeyed(nil)(t, d)
		other, err := New(vectortest.Key(t, 2), d, nil)
		require.NoError(t, err)
		for i := range uint64(1000) {
			c, err := s.Encrypt(t.Context(), d.At(i*(d.Span()/1000)))
			require.NoError(t, err)
			_, err = other.Decrypt(t.Context(), c)
			require.ErrorIs(t, err, ope.ErrCiphertext)
		}
	}
}

// A range at an end of the domain does not disclose that end's ciphertext.
func TestKeyedIntervalsAtTheEnds(t *testing.T) {
	d := ope.Domain{Min: -50, Max: 50}
	s := makeKeyed(nil)(t, d)
	ivs, err := s.Intervals(t.Context(), d.Min, 0)
	require.NoError(t, err)
	require.Equal(t, make(ope.Ciphertext, 9), ivs[0].Start)
	ivs, err = s.Intervals(t.Context(), 0, d.Max)
	require.NoError(t, err)
	require.Equal(t, ope.Ciphertext(append(bytes.Repeat([]byte{0xff}, 9), 0)), ivs[0].End)
}

func TestKeyedLargeBatch(t *testing.T) {
	for _, d := range []ope.Domain{{Min: -20000, Max: 20000}, {Min: 3, Max: 5}, ope.Int32} {
		vectortest.LargeBatch(t, makeKeyed(nil)(t, d).(vectortest.Scheme), 3*batchPart+17)
	}
}

func TestKeyedAllocations(t *testing.T) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int32, ope.Int64} {
		s, err := New(vectortest.Key(t, 1), d, nil)
		require.NoError(t, err)
		vectortest.Allocations(t, s)
	}
}

func FuzzKeyedOrder(f *testing.F) {
	key := vectortest.Key(f, 5)
	vectortest.FuzzOrder(f, func(d ope.Domain, rangeBits int) (vectortest.Scheme, error) {
		return New(key, d, &Options{RangeBits: rangeBits, AllowSmallRange: true})
	})
}

// Whatever decrypts is the ciphertext of what it decrypts to.
func FuzzKeyedDecrypt(f *testing.F) {
	var schemes []*Scheme
	for i, d := range []ope.Domain{{Min: 7, Max: 7}, ope.Int8, {Min: 0, Max: 200}, ope.Int32, ope.Int64} {
		o := Options{RangeBits: []int{8, 9, 16, 33, 192}[i], AllowSmallRange: true}
		s, err := New(vectortest.Key(f, 1), d, &o)
		require.NoError(f, err)
		schemes = append(schemes, s)
		c, err := s.Encrypt(f.Context(), 7)
		require.NoError(f, err)
		f.Add([]byte(c))
		f.Add(make([]byte, len(c)))
		f.Add(bytes.Repeat([]byte{0xff}, len(c)))
	}
	f.Fuzz(func(t *testing.T, c []byte) {
		for _, s := range schemes {
			x, err := s.Decrypt(t.Context(), c)
			if err != nil {
				require.ErrorIs(t, err, ope.ErrCiphertext)
				continue
			}
			again, err := s.Encrypt(t.Context(), x)
			require.NoError(t, err)
			require.Equal(t, ope.Ciphertext(c), again)
		}
	})
}

func BenchmarkKeyed(b *testing.B) { opetest.BenchmarkScheme(b, makeKeyed(nil)) }

// Single values by the sizes of domain and range. There is no cache: every call is cold.
func BenchmarkKeyedSizes(b *testing.B) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int16, ope.Int32, {Min: 0, Max: 1<<48 - 1}, ope.Int64} {
		s, err := New(vectortest.Key(b, 1), d, nil)
		require.NoError(b, err)
		opetest.BenchmarkValues(b, fmt.Sprintf("%d bits of %s", s.bits, d), s)
	}
}

func BenchmarkKeyedMillion(b *testing.B) {
	s, err := New(vectortest.Key(b, 1), ope.Int32, nil)
	require.NoError(b, err)
	opetest.BenchmarkMillion(b, s)
}
