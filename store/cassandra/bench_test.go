package cassandra

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What the adapter costs over bare gocql is measured on the same statements and the same
// session, in pairs that are interleaved, so that a busy machine burdens both alike:
//
//	RANGECRYPT_CASSANDRA=host:port go test -run '^$' -bench Cost -benchtime 100x ./store/cassandra
//
// An iteration is a pair; see measure.Pairs for what is reported.

// A workload does the same n operations, each on so many rows, through the adapter and without
// it.
type workload struct {
	n, rows       int
	adapter, bare func(i int) error // i is of the operation, and rises
}

func BenchmarkCost(b *testing.B) {
	for _, name := range []string{"put", "batch of 100", "scan of 1000 rows", "get"} {
		b.Run(name, func(b *testing.B) {
			w := workloads(b, open(b, keyspace(b)))[name]
			next := 0
			run := func(op func(int) error) func() error {
				return func() error {
					for range w.n {
						next++
						if err := op(next); err != nil {
							return err
						}
					}
					return nil
				}
			}
			measure.Pairs(b, w.n*w.rows, run(w.adapter), run(w.bare))
		})
	}
}

func workloads(tb testing.TB, db *DB) map[string]workload {
	f := openFamily(tb, db, orderedSpec)
	ctx := tb.Context()
	value := make([]byte, 100)
	q := []byte("q")
	part := []byte{0, 0}
	row := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15) }
	fixed := func(i int) []byte { return binary.BigEndian.AppendUint64([]byte("scan"), uint64(i)) }
	var all []driver.Mutation
	for i := range 1000 {
		all = append(all, driver.Mutation{Row: fixed(i), Puts: []driver.Cell{{Qualifier: q, Value: value}}})
	}
	require.NoError(tb, f.Apply(ctx, all...))
	s := db.session
	scanStatement := "SELECT k, q, v FROM " + f.table + " WHERE p = ? AND k >= ? AND k < ? LIMIT ?"
	getStatement := "SELECT q, v FROM " + f.table + " WHERE p = ? AND k = ?"
	return map[string]workload{
		"put": {n: 100, rows: 1,
			adapter: func(i int) error {
				return f.Apply(ctx, driver.Mutation{Row: row(i), Puts: []driver.Cell{{Qualifier: q, Value: value}}})
			},
			bare: func(i int) error {
				return s.Query(f.put, part, row(i), q, value, 0).RoutingKey(part).WithTimestamp(time.Now().UnixMicro()).ExecContext(ctx)
			},
		},
		"batch of 100": {n: 20, rows: 100,
			adapter: func(i int) error {
				mutations := make([]driver.Mutation, 100)
				for j := range mutations {
					mutations[j] = driver.Mutation{Row: row(100*i + j), Puts: []driver.Cell{{Qualifier: q, Value: value}}}
				}
				return f.Apply(ctx, mutations...)
			},
			bare: func(i int) error {
				batch := s.Batch(gocql.UnloggedBatch).WithTimestamp(time.Now().UnixMicro())
				for j := range 100 {
					batch.Query(f.put, part, row(100*i+j), q, value, 0)
				}
				return batch.ExecContext(ctx)
			},
		},
		"scan of 1000 rows": {n: 20, rows: 1000,
			adapter: func(int) error {
				n := 0
				for _, err := range f.Scan(ctx, driver.Range{Start: []byte("scan"), End: []byte("scao")}) {
					if err != nil {
						return err
					}
					n++
				}
				if n != 1000 {
					return fmt.Errorf("%d rows", n)
				}
				return nil
			},
			bare: func(int) error {
				i := s.Query(scanStatement, part, []byte("scan"), []byte("scao"), maxPage).RoutingKey(part).PageSize(0).IterContext(ctx)
				var rows []driver.Row
				for {
					var k, q, v []byte
					if !i.Scan(&k, &q, &v) {
						break
					}
					rows = append(rows, driver.Row{Key: k, Cells: []driver.Cell{{Qualifier: q, Value: v}}})
				}
				if err := i.Close(); err != nil || len(rows) != 1000 {
					return fmt.Errorf("%d rows: %w", len(rows), err)
				}
				return nil
			},
		},
		"get": {n: 100, rows: 1,
			adapter: func(i int) error {
				cells, err := f.Get(ctx, fixed(i%1000), driver.Slice{})
				if err == nil && len(cells) != 1 {
					return fmt.Errorf("%d cells", len(cells))
				}
				return err
			},
			bare: func(i int) error {
				var q, v []byte
				return s.Query(getStatement, part, fixed(i%1000)).RoutingKey(part).PageSize(0).ScanContext(ctx, &q, &v)
			},
		},
	}
}

// BenchmarkInserts puts single rows from 32 goroutines, spread over 256 partitions; an iteration
// is a row.
func BenchmarkInserts(b *testing.B) {
	f := openFamily(b, open(b, keyspace(b)), driver.FamilySpec{Name: "inserts", Layout: driver.LayoutOrdered, SpreadBits: 8})
	value := make([]byte, 100)
	load(b, func(ctx context.Context, i int) error {
		row := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
		return f.Apply(ctx, driver.Mutation{Row: row, Puts: []driver.Cell{{Qualifier: []byte("q"), Value: value}}})
	})
}

// BenchmarkCheckAndPut is the same with conditional changes of different rows.
func BenchmarkCheckAndPut(b *testing.B) {
	f := openFamily(b, open(b, keyspace(b)), wideSpec)
	value := make([]byte, 100)
	load(b, func(ctx context.Context, i int) error {
		row := binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
		ok, err := f.CheckAndPut(ctx, row, driver.Cell{}, driver.Cell{Value: value})
		if err == nil && !ok {
			err = fmt.Errorf("row %d was there", i)
		}
		return err
	})
}

func load(b *testing.B, op func(context.Context, int) error) {
	const workers = 32
	var wait sync.WaitGroup
	used := process.CPU()
	b.ResetTimer()
	for w := range workers {
		wait.Go(func() {
			for i := w; i < b.N; i += workers {
				if err := op(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64((process.CPU()-used).Microseconds())/float64(b.N), "cpu-µs/row")
	b.ReportMetric(float64(process.Resident())/1e6, "RSS-MB")
}
