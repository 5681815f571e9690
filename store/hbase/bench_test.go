package hbase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// BenchmarkAgainstClient does the same with a family and with the client alone, in turns, and
// reports how much longer the family takes: the median of the ratios of pairs with its 95 %
// confidence interval, and the processor time per row of either. One iteration is one pair, so
// give -benchtime=40x or more.
func BenchmarkAgainstClient(b *testing.B) {
	db := open(b, Options{})
	b.Cleanup(func() { db.Close() })
	f := newTable(b, db, driver.FamilySpec{}).(*family)
	ctx := b.Context()
	bare := gohbase.NewClient(db.quorum, gohbase.RpcQueueSize(queueSize), gohbase.FlushInterval(0), gohbase.RegionReadTimeout(readTimeout))
	defer bare.Close()
	table := string(f.table)
	value := strings.Repeat("v", 100)
	for i := 0; i < 1000; i += 500 {
		var ms []driver.Mutation
		for j := range 500 {
			ms = append(ms, put(fmt.Sprintf("scan%05d", i+j), cell("q", value)))
		}
		require.NoError(b, f.Apply(ctx, ms...))
	}
	var n atomic.Int64
	key := func() string { return fmt.Sprintf("put%016x%08d", rand.Uint64(), n.Add(1)) }
	bareCall := func() *hrpc.Mutate {
		m, err := hrpc.NewPutStr(ctx, table, key(), map[string]map[string][]byte{"c": {"qq": []byte("\x01" + value)}})
		if err != nil {
			panic(err)
		}
		return m
	}
	for _, c := range []struct {
		name       string
		rows       int
		ours, bare func() error
	}{
		{"single puts", 50, func() error {
			for range 50 {
				if err := f.Apply(ctx, put(key(), cell("q", value))); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			for range 50 {
				if _, err := bare.Put(bareCall()); err != nil {
					return err
				}
			}
			return nil
		}},
		{"batches of 100", 1000, func() error {
			for range 10 {
				ms := make([]driver.Mutation, 100)
				for i := range ms {
					ms[i] = put(key(), cell("q", value))
				}
				if err := f.Apply(ctx, ms...); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			for range 10 {
				calls := make([]hrpc.Call, 100)
				for i := range calls {
					calls[i] = bareCall()
				}
				if _, ok := bare.SendBatch(ctx, calls); !ok {
					return errors.New("batch")
				}
			}
			return nil
		}},
		{"scans of 1000 rows", 5000, func() error {
			for range 5 {
				rows := 0
				for _, err := range f.Scan(ctx, driver.Range{Start: []byte("scan"), End: []byte("scan99999")}) {
					if err != nil {
						return err
					}
					rows++
				}
				if rows != 1000 {
					return fmt.Errorf("%d rows", rows)
				}
			}
			return nil
		}, func() error {
			for range 5 {
				s, err := hrpc.NewScanRangeStr(ctx, table, "scan", "scan99999", hrpc.Families(map[string][]string{"c": nil}))
				if err != nil {
					return err
				}
				rows := 0
				for sc := bare.Scan(s); ; rows++ {
					if _, err := sc.Next(); err == io.EOF {
						break
					} else if err != nil {
						return err
					}
				}
				if rows != 1000 {
					return fmt.Errorf("%d rows", rows)
				}
			}
			return nil
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measure.Pairs(b, c.rows, c.ours, c.bare)
		})
	}
}

// BenchmarkLoad puts rows in batches of a thousand, and reports rows a second and the memory of
// the process. One iteration is one row, so give -benchtime=200000x or so.
func BenchmarkLoad(b *testing.B) {
	db := open(b, Options{SplitRegions: 4})
	b.Cleanup(func() { db.Close() })
	f := newTable(b, db, driver.FamilySpec{SpreadBits: 16})
	value := strings.Repeat("v", 100)
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("in batches of %d", size), func(b *testing.B) {
			const workers = 32
			var next atomic.Int64
			var all sync.WaitGroup
			used := process.CPU()
			b.ResetTimer()
			for range min(workers, max(1, b.N/size)) {
				all.Go(func() {
					for next.Add(int64(size)) <= int64(b.N)+int64(size)-1 {
						ms := make([]driver.Mutation, size)
						for i := range ms {
							ms[i] = put(fmt.Sprintf("%c%c%016x", rand.N[byte](255), rand.N[byte](255), rand.Uint64()), cell("q", value))
						}
						if err := f.Apply(context.Background(), ms...); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((process.CPU()-used).Microseconds())/float64(b.N), "cpu-µs/row")
			b.ReportMetric(float64(process.Resident())/1e6, "RSS-MB")
		})
	}
}
