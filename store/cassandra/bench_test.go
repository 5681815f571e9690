package cassandra

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What the adapter costs over bare gocql is measured on the same statements and the same
// session, in pairs that are interleaved, so that a busy machine burdens both alike:
//
//	RANGECRYPT_CASSANDRA=host:port go test -run '^$' -bench Cost -benchtime 100x ./store/cassandra
//
// An iteration is a pair. Reported are the median ratio of the times, adapter to bare, and the
// ends of its 95 % confidence interval, likewise for the CPU time of this process. The interval is
// that of order statistics, which supposes nothing about the noise; it needs six pairs.

// A workload does the same n operations through the adapter and without it.
type workload struct {
	name          string
	n             int
	adapter, bare func(i int) error // i is of the operation, and rises
}

func BenchmarkCost(b *testing.B) {
	for _, name := range []string{"put", "batch of 100", "scan of 1000 rows", "get"} {
		b.Run(name, func(b *testing.B) {
			db := open(b, keyspace(b))
			w := workloads(b, db)[name]
			cost(b, w)
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
		"put": {n: 100,
			adapter: func(i int) error {
				return f.Apply(ctx, driver.Mutation{Row: row(i), Puts: []driver.Cell{{Qualifier: q, Value: value}}})
			},
			bare: func(i int) error {
				return s.Query(f.put, part, row(i), q, value).RoutingKey(part).WithTimestamp(time.Now().UnixMicro()).ExecContext(ctx)
			},
		},
		"batch of 100": {n: 20,
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
					batch.Query(f.put, part, row(100*i+j), q, value)
				}
				return batch.ExecContext(ctx)
			},
		},
		"scan of 1000 rows": {n: 20,
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
		"get": {n: 100,
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

// cost runs interleaved pairs, of which every second one begins with the bare client.
func cost(b *testing.B, w workload) {
	next := 0
	run := func(op func(int) error) (wall, cpu float64) {
		start, used := time.Now(), cpuTime(b)
		for range w.n {
			next++
			if err := op(next); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start).Seconds(), cpuTime(b) - used
	}
	run(w.adapter)
	run(w.bare)
	var wall, cpu []float64
	var total float64
	b.ResetTimer()
	for i := range b.N {
		var w1, w2, c1, c2 float64
		if i%2 == 0 {
			w1, c1 = run(w.adapter)
			w2, c2 = run(w.bare)
		} else {
			w2, c2 = run(w.bare)
			w1, c1 = run(w.adapter)
		}
		total += w1
		wall = append(wall, w1/w2)
		cpu = append(cpu, c1/c2)
	}
	b.StopTimer()
	for _, m := range []struct {
		unit   string
		ratios []float64
	}{{"time", wall}, {"cpu", cpu}} {
		low, median, high := interval(m.ratios)
		b.ReportMetric(median, m.unit+"-ratio")
		b.ReportMetric(low, m.unit+"-low95")
		b.ReportMetric(high, m.unit+"-high95")
	}
	b.ReportMetric(total/float64(b.N*w.n)*1e6, "µs/op-adapter")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// interval returns the median and its 95 % confidence interval, or NaN for its ends where there
// are too few values: the k-th least and greatest value, where the number of values below the
// median, which is binomial, is below k with a probability of at most 0.025.
func interval(values []float64) (low, median, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	below := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for below.CDF(float64(k)) <= 0.025 {
		k++
	}
	if k == 0 {
		return math.NaN(), median, math.NaN()
	}
	return sorted[k-1], median, sorted[n-k]
}

func cpuTime(tb testing.TB) float64 {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
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
	used := cpuTime(b)
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
	b.ReportMetric((cpuTime(b)-used)/float64(b.N)*1e6, "cpu-µs/row")
	b.ReportMetric(residentMiB(b), "MiB-RSS")
}

// residentMiB is the most memory that this process has had resident.
func residentMiB(tb testing.TB) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not on Linux
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

// TestInterval checks ranks from Conover, Practical Nonparametric Statistics, table A3.
func TestInterval(t *testing.T) {
	for n, rank := range map[int]int{6: 1, 10: 2, 20: 6, 30: 10} {
		var values []float64
		for i := range n {
			values = append(values, float64(n-i))
		}
		low, median, high := interval(values)
		require.EqualValues(t, rank, low, "n = %d", n)
		require.InDelta(t, float64(n+1)/2, median, 0)
		require.EqualValues(t, n+1-rank, high)
	}
	low, _, _ := interval([]float64{1, 2, 3, 4, 5})
	require.True(t, math.IsNaN(low))
}
