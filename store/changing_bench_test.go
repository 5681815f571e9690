package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// BenchmarkRangesWhileConverted asks for 1 % of the rows of a table by a column whose search key was rotated, where half of the rows
// are converted, in turns with the same ranges of a table where nothing is to be converted.
//
//	RANGECRYPT_CASSANDRA=host:port go test -run XXX -bench RangesWhileConverted -benchtime 500x ./store
func BenchmarkRangesWhileConverted(b *testing.B) {
	const rows = 20_000
	for _, kind := range testdb.All {
		if kind.Name == "memory" {
			continue // which has no round trips, and no snapshots
		}
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			st := open(b, kind.Open(b, nil))
			var tables [2]*store.Table
			for i, name := range []string{"settled", "changing"} {
				tables[i] = create(b, st, store.Schema{
					Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
					Columns: []store.Column{store.OrderedColumn("v", store.Int32, store.Boldyreva), store.RandomisedColumn("note", store.String)},
				})
				for from := 0; from < rows; from += 250 {
					batch := make([]store.Row, 250)
					for n := range batch {
						id := from + n
						batch[n] = store.Row{"id": int64(id), "v": int32(id * 7919 % rows), "note": fmt.Sprint("note ", id)}
					}
					require.NoError(b, tables[i].Put(background, batch...))
				}
			}
			require.NoError(b, st.RotateSearchKeys(background, "changing", "v"))
			_, err := tables[1].ConvertPart(background, inspect.Part{Index: 0, Of: 2})
			require.NoError(b, err)
			for _, order := range []string{"", "v"} {
				b.Run("ordered by "+order, func(b *testing.B) {
					var took [2][]float64
					for i := range b.N {
						lo := rand.Int32N(rows - rows/100)
						q := store.Query{Where: store.Int32.Field("v").Between(lo, lo+rows/100-1), OrderBy: order}
						for turn := range 2 {
							which := (i + turn) % 2
							began := time.Now()
							got, err := all(tables[which], q)
							took[which] = append(took[which], time.Since(began).Seconds()*1e3)
							require.NoError(b, err)
							require.Len(b, got, rows/100)
						}
					}
					at := func(which int, share float64) float64 {
						slices.Sort(took[which])
						return took[which][int(share*float64(len(took[which])-1))]
					}
					b.ReportMetric(0, "ns/op") // of both
					for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99} {
						b.ReportMetric(at(0, share), name+"-settled-ms")
						b.ReportMetric(at(1, share), name+"-changing-ms")
						b.ReportMetric(at(1, share)/at(0, share), name+"-ratio")
					}
				})
			}
		})
	}
}
