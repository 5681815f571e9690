package opetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
)

// BenchmarkScheme measures the scheme on the domains ope.Int32 and ope.Int64 with uniform values:
// single calls, whose values were not seen before, and batches of 10,000, whose cost is also
// given as ns/value.
func BenchmarkScheme(b *testing.B, newScheme MakeFunc) {
	for _, d := range []ope.Domain{ope.Int32, ope.Int64} {
		b.Run(d.String(), func(b *testing.B) { benchmarkDomain(b, newScheme, d) })
	}
}

func benchmarkDomain(b *testing.B, makeScheme MakeFunc, d ope.Domain) {
	random := rand.New(rand.NewPCG(5, 6))
	xs := make([]int64, 10_000)
	for i := range xs {
		xs[i] = uniform(d, random.Uint64())
	}
	run := func(name string, f func(b *testing.B, s ope.Scheme)) {
		b.Run(name, func(b *testing.B) {
			s := makeScheme(b, d)
			b.ReportAllocs()
			f(b, s)
		})
	}
	run("Encrypt", func(b *testing.B, s ope.Scheme) {
		for b.Loop() {
			_, err := s.Encrypt(ctx, uniform(d, random.Uint64()))
			must(b, err)
		}
	})
	run("Append", func(b *testing.B, s ope.Scheme) {
		a, ok := s.(ope.Appender)
		if !ok {
			b.Skip("not an ope.Appender")
		}
		dst := make([]byte, 0, 256)
		for b.Loop() {
			_, err := a.AppendEncrypt(dst, uniform(d, random.Uint64()))
			must(b, err)
		}
	})
	run("Decrypt", func(b *testing.B, s ope.Scheme) { benchmarkDecrypt(b, s, xs) })
	run("Intervals", func(b *testing.B, s ope.Scheme) {
		for i := 0; b.Loop(); i++ {
			lo, hi := xs[i%len(xs)], xs[(i+1)%len(xs)]
			_, err := s.Intervals(ctx, min(lo, hi), max(lo, hi))
			must(b, err)
		}
	})
	sorted := slices.Sorted(slices.Values(xs))
	for i, name := range []string{"BatchShuffled", "BatchSorted"} {
		xs := [][]int64{xs, sorted}[i]
		run(fmt.Sprintf("%s%d", name, len(xs)), func(b *testing.B, s ope.Scheme) {
			e, ok := s.(ope.BatchEncrypter)
			if !ok {
				b.Skip("not an ope.BatchEncrypter")
			}
			for b.Loop() {
				_, err := e.EncryptBatch(ctx, xs)
				must(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(xs)), "ns/value")
		})
	}
}

func benchmarkDecrypt(b *testing.B, s ope.Scheme, xs []int64) {
	cs := make([]ope.Ciphertext, len(xs))
	rounds := 1
	if !is[ope.Immutable](s) {
		rounds = 2 // the last values of the first round may have moved the others
	}
	for range rounds {
		for i, x := range xs {
			c, err := s.Encrypt(ctx, x)
			must(b, err)
			cs[i] = c
		}
	}
	for i := 0; b.Loop(); i++ {
		_, err := s.Decrypt(ctx, cs[i%len(cs)])
		must(b, err)
	}
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkValues measures single calls of the scheme with values that are uniform on a domain of 2^n
// values: ciphertexts appended, and decrypted. The name follows "Append/" and "Decrypt/".
func BenchmarkValues(b *testing.B, name string, s interface {
	ope.Scheme
	ope.Appender
}) {
	r, d := rand.New(rand.NewPCG(1, 2)), s.Domain()
	xs, cs := make([]int64, 8192), make([]ope.Ciphertext, 8192)
	for i := range xs {
		var err error
		xs[i] = d.At(r.Uint64() & d.Span())
		if cs[i], err = s.Encrypt(ctx, xs[i]); err != nil {
			b.Fatal(err)
		}
	}
	buf := make([]byte, 0, 256)
	b.Run("Append/"+name, func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.AppendEncrypt(buf, xs[i&8191])
		}
	})
	b.Run("Decrypt/"+name, func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Decrypt(ctx, cs[i&8191])
		}
	})
}

// BenchmarkMillion measures batches of a million values of ope.Int32, as they come and in ascending
// order, in ns/value; -cpu 1,2 shows how it scales.
func BenchmarkMillion(b *testing.B, s ope.BatchEncrypter) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]int64, 1_000_000)
	for i := range xs {
		xs[i] = int64(int32(r.Uint32()))
	}
	for _, name := range []string{"random", "sorted"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.EncryptBatch(ctx, xs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(xs)), "ns/value")
		})
		slices.Sort(xs)
	}
}
