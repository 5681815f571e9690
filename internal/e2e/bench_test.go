package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/index"
)

// BenchmarkEncrypt has one client of a scheme, whose state is in a database, encrypt new values:
// 32 goroutines one value at a time, which share commits, or one goroutine batches of 4,096.
//
//	go test -run XXX -bench Encrypt -benchtime 20000x ./internal/e2e
func BenchmarkEncrypt(b *testing.B) {
	for _, kind := range testdb.All {
		for _, scheme := range schemes {
			b.Run(kind.Name+"/"+scheme.name+"/32 writers", func(b *testing.B) {
				s, xs := benchScheme(b, kind, scheme)
				var next, failed atomic.Int64
				var wg sync.WaitGroup
				for range 32 {
					wg.Go(func() {
						for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
							if _, err := s.Encrypt(context.Background(), xs[i]); err != nil {
								failed.Add(1)
							}
						}
					})
				}
				wg.Wait()
				require.Zero(b, failed.Load())
			})
			b.Run(kind.Name+"/"+scheme.name+"/batch", func(b *testing.B) {
				s, xs := benchScheme(b, kind, scheme)
				batch, ok := s.(ope.BatchEncrypter)
				require.True(b, ok)
				for part := range slices.Chunk(xs, 4096) {
					_, err := batch.EncryptBatch(context.Background(), part)
					require.NoError(b, err)
				}
			})
		}
	}
}

// benchScheme returns a client and b.N values, which are in no order, and starts the clock.
func benchScheme(b *testing.B, kind testdb.Database, scheme schemeKind) (ope.Scheme, []int64) {
	kind.Need(b)
	ix, err := index.Open(context.Background(), kind.Open(b, nil), "bench")
	require.NoError(b, err)
	s, err := scheme.new(ope.GenerateKey(), ix)
	require.NoError(b, err)
	r := rand.New(rand.NewPCG(uint64(b.N), 0))
	xs := make([]int64, b.N)
	for i := range xs {
		xs[i] = domain.Min + r.Int64N(domain.Max-domain.Min+1)
	}
	_, err = s.Encrypt(context.Background(), 0) // connections and statements
	require.NoError(b, err)
	used := process.CPU()
	b.Cleanup(func() {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "values/s")
		b.ReportMetric(float64((process.CPU()-used).Microseconds())/float64(b.N), "cpu-µs/value")
		b.ReportMetric(0, "ns/op")
	})
	b.ResetTimer()
	return s, xs
}
