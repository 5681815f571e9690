package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
)

// BenchmarkUnauthenticated reads plain columns of rows whose other columns are packed, without a proof, beside the same query with
// it: of all rows, and of the rows that one hashed part of the key has.
//
//	go test -run XXX -bench Unauthenticated -benchtime 40x -store.rows 20000 ./store
func BenchmarkUnauthenticated(b *testing.B) {
	for _, kind := range testdb.All {
		b.Run(kind.Name, func(b *testing.B) {
			kind.Need(b)
			tbl := create(b, open(b, kind.Open(b, nil)), store.Schema{
				Name: "plain", Key: []store.KeyPart{store.HashedPart("device", store.Int64), store.PlainPart("at", store.Int64)},
				Columns: []store.Column{
					store.PlainColumn("zone", store.Int64), store.PlainColumn("model", store.String),
					store.RandomisedColumn("note", store.Bytes), store.RandomisedColumn("value", store.Int64), store.RandomisedColumn("owner", store.String),
				},
			})
			const devices = 10
			for from := 0; from < *rowsFlag; from += 5000 {
				var batch []store.Row
				for i := from; i < min(from+5000, *rowsFlag); i++ {
					batch = append(batch, store.Row{
						"device": i % devices, "at": i, "zone": i % 7, "model": "X-200", "note": make([]byte, 100), "value": i, "owner": fmt.Sprint("owner", i%100),
					})
				}
				require.NoError(b, tbl.Put(background, batch...))
			}
			for name, q := range map[string]store.Query{
				"all rows": {Columns: []string{"zone", "model"}},
				"a device": {Columns: []string{"zone", "model"}, Where: store.Field[int64]("device").Equal(3)},
			} {
				rows := *rowsFlag
				if name == "a device" {
					rows /= devices
				}
				read := func(unauthenticated bool) func() error {
					q := q
					q.Unauthenticated = unauthenticated
					return func() error {
						n, sum := 0, 0.0
						for row, err := range tbl.Query(background, q) {
							if err != nil {
								return err
							}
							n, sum = n+1, sum+float64(row["zone"].(int64))+float64(len(row["model"].(string)))
						}
						return expectRows(n, rows, sum)
					}
				}
				b.Run(name, func(b *testing.B) { measure.Pairs(b, rows, read(true), read(false)) })
			}
		})
	}
}
