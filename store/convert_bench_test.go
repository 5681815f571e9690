package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// BenchmarkConvert changes the policy of a tenant and converts its rows, three of whose columns become
// sealed or plain in turns, beside a plain rewrite: rows in the clear with as many columns are read and
// put back as they are, with as many rows at a time. The latter is no table, and decodes nothing. Two
// readers and two writers go on in both, each with at most 200 operations a second.
//
//	go test -run XXX -bench Convert -benchtime 8x -timeout 60m ./store
func BenchmarkConvert(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			db := kind.Open(b, nil)
			st := open(b, db)
			s := store.Schema{Name: "converted", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Tenants: true}
			for i := range convertedColumns {
				s.Columns = append(s.Columns, store.PlainColumn(convertedColumn(i), store.String))
			}
			require.NoError(b, st.CreateTenant(background, "tenant"))
			tbl, err := create(b, st, s).Tenant(background, "tenant")
			require.NoError(b, err)
			plain, err := db.Family(background, driver.FamilySpec{Name: "plain", Layout: driver.LayoutOrdered, PrefixBytes: 8})
			require.NoError(b, err)
			for from := 0; from < *rowsFlag; from += convertedBatch {
				var rows []store.Row
				var mutations []driver.Mutation
				for i := from; i < min(*rowsFlag, from+convertedBatch); i++ {
					rows, mutations = append(rows, convertedRow(i, 0)), append(mutations, plainRow(i, 0))
				}
				require.NoError(b, tbl.Put(background, rows...))
				require.NoError(b, plain.Apply(background, mutations...))
			}

			sealed := []string{convertedColumn(0), convertedColumn(1), convertedColumn(2)}
			policies := []store.Policy{{}, {Sensitive: sealed}}
			unseal := [][]string{sealed, nil}
			changes := 0
			var during [2]atomic.Int64 // operations of the readers and writers of both
			convert := func() error {
				changes++
				if err := st.SetPolicy(background, "tenant", "converted", policies[changes%2], unseal[changes%2]...); err != nil {
					return err
				}
				return busy(&during[0], func(i int) error {
					row, err := tbl.Get(background, store.Row{"id": int64(i)})
					if err == nil && row[convertedColumn(2)] == nil {
						err = fmt.Errorf("row %d is not there", i)
					}
					return err
				}, func(i int) error { return tbl.Put(background, convertedRow(i, changes)) }, func() error {
					stats, err := tbl.Convert(background, nil)
					if err == nil && (stats.Rows < *rowsFlag || stats.Converted < *rowsFlag/2 || stats.Unreadable > 0) {
						err = fmt.Errorf("%d rows, %d converted and %d unreadable", stats.Rows, stats.Converted, stats.Unreadable)
					}
					return err
				})
			}
			rewrite := func() error {
				return busy(&during[1], func(i int) error {
					cells, err := plain.Get(background, plainRow(i, 0).Row, driver.Slice{})
					if err == nil && len(cells) != convertedColumns {
						err = fmt.Errorf("row %d has %d cells", i, len(cells))
					}
					return err
				}, func(i int) error { return plain.Apply(background, plainRow(i, changes)) }, func() error { return rewritten(background, plain) })
			}
			measure.Pairs(b, *rowsFlag, convert, rewrite)
			b.ReportMetric(float64(during[0].Load())/float64(b.N+1), "load/op") // one more for warming up
			b.ReportMetric(float64(during[1].Load())/float64(b.N+1), "baseline-load/op")
		})
	}
}

const (
	convertedColumns = 8
	convertedBatch   = 256 // as Convert has them
	convertedParts   = 64
)

func convertedColumn(i int) string { return fmt.Sprint("column", i) }

// convertedValue is a text of 8 to 31 bytes.
func convertedValue(i, column, version int) []byte {
	r := rand.New(rand.NewPCG(uint64(i), uint64(column)<<32|uint64(version)))
	text := make([]byte, 8+r.IntN(24))
	for j := range text {
		text[j] = byte('a' + r.IntN(26))
	}
	return text
}

func convertedRow(i, version int) store.Row {
	row := store.Row{"id": int64(i)}
	for c := range convertedColumns {
		row[convertedColumn(c)] = string(convertedValue(i, c, version))
	}
	return row
}

func plainRow(i, version int) driver.Mutation {
	// Spread over the parts, as hashes are.
	m := driver.Mutation{Row: binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15)}
	for c := range convertedColumns {
		m.Puts = append(m.Puts, driver.Cell{Qualifier: []byte{0, 0, 0, byte(c)}, Value: convertedValue(i, c, version)})
	}
	return m
}

// rewritten reads all rows and puts them back, with as many parts and rows under way as Convert has.
func rewritten(ctx context.Context, f driver.Family) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(4, max(2, runtime.GOMAXPROCS(0))))
	for part := range convertedParts {
		group.Go(func() error {
			var batch []driver.Mutation
			flush := func() error {
				err := f.Apply(ctx, batch...)
				batch = batch[:0]
				return err
			}
			for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true, Part: part, Parts: convertedParts}) {
				if err != nil {
					return err
				}
				if batch = append(batch, driver.Mutation{Row: row.Key, Puts: row.Cells}); len(batch) == convertedBatch {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			return flush()
		})
	}
	return group.Wait()
}

// busy does something while two readers and two writers are at work on rows that are drawn, and counts
// what they do.
func busy(done *atomic.Int64, read, write func(i int) error, do func() error) error {
	stop := make(chan struct{})
	var group sync.WaitGroup
	failures := make([]error, 4)
	for w := range failures {
		group.Go(func() {
			work := read
			if w >= 2 {
				work = write
			}
			ticks := time.NewTicker(5 * time.Millisecond)
			defer ticks.Stop()
			for failures[w] == nil {
				select {
				case <-stop:
					return
				case <-ticks.C:
					failures[w] = work(rand.IntN(*rowsFlag))
					done.Add(1)
				}
			}
		})
	}
	err := do()
	close(stop)
	group.Wait()
	return errors.Join(append(failures, err)...)
}
