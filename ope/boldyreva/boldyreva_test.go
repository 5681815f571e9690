package boldyreva

import (
	"math/rand/v2"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/stretchr/testify/require"
)

func testKey(t testing.TB, b byte) ope.Key {
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = b + byte(i)
	}
	k, err := ope.NewKey(secret)
	require.NoError(t, err)
	return k
}

func TestQuickLook(t *testing.T) {
	for _, d := range []ope.Domain{ope.Int8, ope.Int16, ope.Int32, ope.Int64, {Min: 5, Max: 5}, {Min: -3, Max: 1000}} {
		for R := 0; R <= 128; R += 1 {
			s, err := New(testKey(t, 1), d, &Options{RangeBits: R, AllowSmallRange: true})
			if err != nil {
				continue
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				x := d.Min
				if d.Span() == ^uint64(0) {
					x = int64(r.Uint64())
				} else {
					x += int64(r.Uint64N(d.Span() + 1))
				}
				s.tree.exact = false
				c, err := s.Encrypt(t.Context(), x)
				require.NoError(t, err)
				y, err := s.Decrypt(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, x, y)
			}
		}
	}
}

func BenchmarkQ(b *testing.B) {
	for _, c := range []struct {
		d ope.Domain
		n string
	}{{ope.Int8, "8"}, {ope.Int32, "32"}, {ope.Int64, "64"}} {
		b.Run(c.n, func(b *testing.B) {
			s, _ := New(testKey(b, 1), c.d, nil)
			r := rand.New(rand.NewPCG(1, 2))
			xs := make([]int64, 8192)
			for i := range xs {
				xs[i] = c.d.At(r.Uint64() & c.d.Span())
			}
			var buf [16]byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.AppendEncrypt(buf[:0], xs[i&8191])
			}
		})
	}
}
