package drivertest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Benchmark measures a database: puts of one row and of a hundred, replacements of a hundred, gets,
// and scans of a thousand rows, with rows of a 16-byte key and a cell of 100 bytes. The family that it makes is dropped.
// Times are per row; rows/s is reported beside them.
func Benchmark(bb *testing.B, open func(testing.TB) driver.DB) {
	db := open(bb)
	s := newSuite(bb, db, Options{})
	defer func() {
		s.dropAll(bb)
		require.NoError(bb, db.Close())
	}()
	f := s.ordered(bb)
	value := make([]byte, 100)
	r := rand.New(rand.NewPCG(1, 1))
	mutation := func() driver.Mutation {
		for i := range value {
			value[i] = byte(r.Uint32())
		}
		return row(fmt.Sprintf("%016x", r.Uint64()), put("v", string(value)))
	}
	rate := func(b *testing.B, rows int) {
		b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
	}
	const stored = 20_000
	var stock []driver.Mutation
	for range stored {
		stock = append(stock, mutation())
	}
	apply(bb, f, stock...)

	for _, batch := range []int{1, 100} {
		bb.Run(fmt.Sprintf("put=%d", batch), func(b *testing.B) {
			b.ReportAllocs()
			ms := make([]driver.Mutation, batch)
			for b.Loop() {
				for i := range ms {
					ms[i] = mutation()
				}
				apply(b, f, ms...)
			}
			rate(b, batch)
		})
	}
	bb.Run("replace=100", func(b *testing.B) {
		b.ReportAllocs()
		rs := make([]driver.Replacement, 100)
		ms := make([]driver.Mutation, len(rs))
		for b.Loop() {
			b.StopTimer()
			p := s.prefix()
			for i := range ms {
				ms[i] = mutation()
				ms[i].Row = append([]byte(p), ms[i].Row...)
			}
			apply(b, f, ms...)
			r := within(p)
			r.Cells.Stamps = true
			for i, read := range scan(b, f, r) {
				rs[i] = driver.Replacement{Row: read.Key, Seen: read.Cells[0], Puts: mutation().Puts}
			}
			b.StartTimer()
			replace(b, f, rs...)
		}
		rate(b, len(rs))
	})
	bb.Run("put=1/parallel", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := f.Apply(background, row(fmt.Sprintf("%016x", rand.Uint64()), put("v", "some value"))); err != nil {
					b.Error(err)
					return
				}
			}
		})
		rate(b, 1)
	})
	bb.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cells, err := f.Get(background, stock[r.IntN(stored)].Row, driver.Slice{})
			if err != nil || len(cells) != 1 {
				b.Fatal(len(cells), err)
			}
		}
		rate(b, 1)
	})
	bb.Run("scan=1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for row, err := range f.Scan(background, driver.Range{Start: fmt.Appendf(nil, "%x", r.IntN(12)), Limit: 1000}) {
				if err != nil || len(row.Cells) != 1 {
					b.Fatal(len(row.Cells), err)
				}
				n++
			}
			if n != 1000 {
				b.Fatal(n)
			}
		}
		rate(b, 1000)
	})
	bb.Run("checkandput", func(b *testing.B) {
		key := "counter" + s.name
		for i := 0; b.Loop(); i++ {
			if !checkAndPut(b, f, key, number(i), number(i+1)) {
				b.Fatal("lost an update")
			}
		}
		rate(b, 1)
	})
}
