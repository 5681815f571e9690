package kerschbaum

import (
	"math/rand/v2"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// warm returns a client that knows an index of n values.
func warm(b *testing.B, n int) (*Scheme, []int64, []ope.Ciphertext) {
	s := newClient(b, opetest.NewIndex(), ope.Int64, &Options{Limit: 10_000_000, CacheValues: 10_000_000})
	random := rand.New(rand.NewPCG(1, 1))
	xs := make([]int64, n)
	for i := range xs {
		xs[i] = int64(random.Uint64())
	}
	cs, err := s.EncryptBatch(b.Context(), xs)
	require.NoError(b, err)
	return s, xs, cs
}

func BenchmarkDecryptWarm(b *testing.B) {
	s, _, cs := warm(b, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Decrypt(b.Context(), cs[i%len(cs)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkEncryptKnown(b *testing.B) {
	s, xs, _ := warm(b, 100_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Encrypt(b.Context(), xs[i%len(xs)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// New values one by one, at the end of the index.
func BenchmarkEncryptAscending(b *testing.B) {
	s := newClient(b, opetest.NewIndex(), ope.Int64, &Options{Limit: 100_000_000})
	b.ReportAllocs()
	x := int64(0)
	for b.Loop() {
		if _, err := s.Encrypt(b.Context(), x); err != nil {
			b.Fatal(err)
		}
		x++
	}
}

// New values in batches of 256, all at the end of the index or all over it, counted one by one.
func BenchmarkEncryptBatch(b *testing.B) {
	for name, next := range map[string]func(i int64) int64{
		"ascending": func(i int64) int64 { return i },
		"random":    func(i int64) int64 { return int64(uint64(i) * 0x9e3779b97f4a7c15) },
	} {
		b.Run(name, func(b *testing.B) {
			index := opetest.NewIndex()
			s := newClient(b, index, ope.Int64, &Options{Limit: 100_000_000, CacheValues: 100_000_000})
			b.ReportAllocs()
			var xs [256]int64
			i := int64(0)
			for b.Loop() {
				xs[i%256] = next(i)
				if i++; i%256 == 0 {
					if _, err := s.EncryptBatch(b.Context(), xs[:]); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(index.Commits())/float64(max(1, i/256)), "commits/batch")
		})
	}
}
