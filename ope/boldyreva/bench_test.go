package boldyreva

import (
	"context"
	"crypto/aes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
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
		s, err := New(vectortest.Key(b, 1), c.d, &Options{RangeBits: c.bits, AllowSmallRange: true})
		require.NoError(b, err)
		opetest.BenchmarkValues(b, fmt.Sprintf("%d bits of %s", c.bits, c.d), s)
	}
}

func BenchmarkMillion(b *testing.B) {
	s, err := New(vectortest.Key(b, 1), ope.Int32, nil)
	require.NoError(b, err)
	opetest.BenchmarkMillion(b, s)
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

// Encryptions beside the AES blocks that one of them needs, one after the other, as each tells which is the next. In
// batches they need not wait for each other. The numbers of blocks are means over the domain, without what is remembered
// of earlier values.
//
//	go test -run XXX -bench BesideBlocks -cpu 1 ./ope/boldyreva
func BenchmarkBesideBlocks(b *testing.B) {
	for _, c := range []struct {
		name   string
		d      ope.Domain
		blocks int
	}{{"32 to 64 bits", ope.Int32, 26}, {"64 to 128 bits", ope.Int64, 60}} {
		s, err := NewModular(vectortest.Key(b, 1), c.d, nil)
		require.NoError(b, err)
		for _, way := range []struct {
			name   string
			n      int
			sorted bool
		}{{"single", 1, false}, {"random batch of 256", 256, false}, {"sorted batch of 10^6", 1_000_000, true}} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) { besideBlocks(b, s, c.blocks, way.n, way.sorted) })
		}
	}
}

// besideBlocks encrypts batches of n values, and as many blocks as they would need by themselves, in turns.
func besideBlocks(b *testing.B, s *ModularScheme, perValue, n int, sorted bool) {
	r := rand.New(rand.NewPCG(1, 2))
	block, err := aes.NewCipher(make([]byte, 32))
	require.NoError(b, err)
	xs, dst, at := make([]int64, max(256, n)), make([]byte, 0, 16), make([]byte, aes.BlockSize)
	var values, blocks time.Duration
	for b.Loop() {
		for i := range xs {
			xs[i] = s.domain.At(r.Uint64() & s.domain.Span())
		}
		if sorted {
			slices.Sort(xs)
		}
		begin := time.Now()
		if n > 1 {
			_, err = s.EncryptBatch(context.Background(), xs)
			require.NoError(b, err)
		}
		for i := 0; i < len(xs) && n == 1; i++ {
			s.AppendEncrypt(dst, xs[i])
		}
		values += time.Since(begin)
		begin = time.Now()
		for range len(xs) * perValue {
			block.Encrypt(at, at)
		}
		blocks += time.Since(begin)
	}
	b.ReportMetric(float64(values)/float64(blocks), "of-blocks")
	b.ReportMetric(float64(values.Nanoseconds())/float64(b.N*len(xs)), "ns/value")
}
