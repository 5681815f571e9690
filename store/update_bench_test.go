package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
)

// BenchmarkUpdate changes rows that exist, one by one, of a table with one ordered column: a Put replaces a row, an Update
// sets its ordered column where rows are conditional. It has nothing to compare with: to compare two commits, let their test
// binaries take turns.
//
//	RANGECRYPT_CASSANDRA=host:port RANGECRYPT_HBASE=host:port go test -run XXX -bench Update -benchtime 5x ./store
func BenchmarkUpdate(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			for _, conditional := range []bool{false, true} {
				const rows = 2048
				db := kind.Open(b, nil)
				st := open(b, db)
				tbl := create(b, st, store.Schema{
					Name: "updated", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Conditional: conditional,
					Columns: []store.Column{store.OrderedColumn("value", store.Int64, store.Boldyreva), store.RandomisedColumn("note", store.String)},
				})
				change := func(i int) error {
					return tbl.Put(background, store.Row{"id": i % rows, "value": i * 1_000_003, "note": "as it was"})
				}
				if conditional {
					change = func(i int) error { return tbl.Update(background, store.Row{"id": i % rows, "value": i * 1_000_003}) }
				}
				for from := 0; from < rows; from += 256 {
					batch := make([]store.Row, 256)
					for i := range batch {
						batch[i] = store.Row{"id": from + i, "value": from + i, "note": "as it was"}
					}
					require.NoError(b, tbl.Put(background, batch...))
				}
				for _, load := range []struct{ writers, calls int }{{1, 100}, {16, 16}} {
					b.Run(fmt.Sprintf("conditional=%t/writers=%d", conditional, load.writers), func(b *testing.B) {
						var next atomic.Int64
						all := writers{writers: load.writers, calls: load.calls, rows: 1}.each(&next, func(i int) error { return change(i) })
						require.NoError(b, all())
						b.ResetTimer()
						began := time.Now()
						for range b.N {
							require.NoError(b, all())
						}
						b.ReportMetric(time.Since(began).Seconds()*1000/float64(b.N*load.calls), "ms/update")
						b.ReportMetric(0, "ns/op") // of no meaning here
					})
				}
			}
		})
	}
}
