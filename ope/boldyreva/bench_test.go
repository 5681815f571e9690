package boldyreva

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func BenchmarkLinear(b *testing.B)  { opetest.BenchmarkScheme(b, makeLinear(nil)) }
func BenchmarkModular(b *testing.B) { opetest.BenchmarkScheme(b, makeModular(nil)) }

// Single values by the sizes of domain and range, sparse and dense. They are uniform, so that
// little of their paths is remembered.
func BenchmarkSizes(b *testing.B) {
	for _, c := range []struct {
		d    ope.Domain
		bits int
	}{{ope.Int8, 16}, {ope.Int16, 32}, {ope.Int32, 33}, {ope.Int32, 64}, {ope.Int64, 96}, {ope.Int64, 128}} {
		s, err := New(testKey(b, 1), c.d, &Options{RangeBits: c.bits, AllowSmallRange: true})
		require.NoError(b, err)
		r := rand.New(rand.NewPCG(1, 2))
		xs, cs := make([]int64, 8192), make([]ope.Ciphertext, 8192)
		for i := range xs {
			xs[i] = c.d.At(r.Uint64() & c.d.Span())
			cs[i] = s.encrypt(xs[i])
		}
		name, buf := fmt.Sprintf("%d bits of %s", c.bits, c.d), make([]byte, 0, 16)
		b.Run("Append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.AppendEncrypt(buf, xs[i&8191])
			}
		})
		b.Run("Decrypt/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Decrypt(b.Context(), cs[i&8191])
			}
		})
	}
}

// A million 32-bit values at once; -cpu 1,2 shows how it scales.
func BenchmarkMillion(b *testing.B) {
	s, err := New(testKey(b, 1), ope.Int32, nil)
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]int64, 1_000_000)
	for i := range xs {
		xs[i] = int64(int32(r.Uint32()))
	}
	for _, name := range []string{"random", "sorted"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.EncryptBatch(b.Context(), xs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(xs)), "ns/value")
		})
		slices.Sort(xs)
	}
}

// One node, by its number of points.
func BenchmarkSplit(b *testing.B) {
	for _, c := range []struct {
		k uint
		m uint64
	}{{64, 16}, {64, 64}, {64, 192}, {64, 193}, {9, 250}, {64, 1000}, {64, 4000}, {64, 1 << 20}, {64, 1 << 32}, {128, 1 << 62}} {
		b.Run(fmt.Sprintf("%d points in %d bits", c.m, c.k), func(b *testing.B) {
			w := nodeWalker(b, false)
			for i := uint64(0); b.Loop(); i++ {
				w.Seek(0, 0, i)
				w.split(c.k, c.m-1)
			}
		})
	}
}
