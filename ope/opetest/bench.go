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
	must := func(b *testing.B, err error) {
		if err != nil {
			b.Fatal(err)
		}
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
	run("Decrypt", func(b *testing.B, s ope.Scheme) {
		cs := make([]ope.Ciphertext, len(xs))
		for i, x := range xs {
			c, err := s.Encrypt(ctx, x)
			must(b, err)
			cs[i] = c
		}
		if !is[ope.Immutable](s) { // the last of them may have moved the others
			for i, x := range xs {
				c, err := s.Encrypt(ctx, x)
				must(b, err)
				cs[i] = c
			}
		}
		i := 0
		for b.Loop() {
			_, err := s.Decrypt(ctx, cs[i%len(cs)])
			must(b, err)
			i++
		}
	})
	run("Intervals", func(b *testing.B, s ope.Scheme) {
		i := 0
		for b.Loop() {
			lo, hi := xs[i%len(xs)], xs[(i+1)%len(xs)]
			_, err := s.Intervals(ctx, min(lo, hi), max(lo, hi))
			must(b, err)
			i++
		}
	})
	batch := func(name string, xs []int64) {
		run(fmt.Sprintf("Batch%s%d", name, len(xs)), func(b *testing.B, s ope.Scheme) {
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
	batch("Shuffled", xs)
	sorted := slices.Sorted(slices.Values(xs))
	batch("Sorted", sorted)
}
