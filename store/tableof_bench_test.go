package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// BenchmarkStruct compares structs with maps, which are the baseline, in turns, on a database in memory: a program has
// the values of 256 rows and puts them, or reads the rows and looks at the values.
//
//	go test -run XXX -bench Struct -benchtime 200x -benchmem ./store
func BenchmarkStruct(b *testing.B) {
	const rows = 256
	schema, err := store.SchemaOf[reading]("readings")
	require.NoError(b, err)
	st := open(b, drivertest.NewMemory())
	maps := create(b, st, schema)
	structs, err := store.For[reading](background, st, "readings")
	require.NoError(b, err)
	at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	celsius := make([]float64, rows)
	id := func(i int) [16]byte { return [16]byte{byte(i), byte(i >> 8), 1} }

	putStructs := func() error {
		batch := make([]*reading, rows)
		for i := range batch {
			batch[i] = &reading{Device: "pump-7", At: at.Add(time.Duration(i) * time.Second), ID: id(i), Celsius: &celsius[i], Note: "all is well", Model: "X-200"}
		}
		return structs.Put(background, batch...)
	}
	putMaps := func() error {
		batch := make([]store.Row, rows)
		for i := range batch {
			batch[i] = store.Row{"device": "pump-7", "at": at.Add(time.Duration(i) * time.Second), "id": id(i), "celsius": celsius[i], "note": "all is well", "model": "X-200"}
		}
		return maps.Put(background, batch...)
	}
	for i := range celsius {
		celsius[i] = float64(i) / 8
	}
	b.Run("put", func(b *testing.B) { measure.Pairs(b, rows, putStructs, putMaps) })

	q := store.Query{Where: store.Field[string]("device").Equal("pump-7")}
	queryStructs := func() error {
		sum, n := 0.0, 0
		for row, err := range structs.Query(background, q) {
			if err != nil {
				return err
			}
			sum, n = sum+*row.Celsius+float64(len(row.Note)+len(row.Model)), n+1
		}
		return expectRows(n, rows, sum)
	}
	queryMaps := func() error {
		sum, n := 0.0, 0
		for row, err := range maps.Query(background, q) {
			if err != nil {
				return err
			}
			sum, n = sum+row["celsius"].(float64)+float64(len(row["note"].(string))+len(row["model"].(string))), n+1
		}
		return expectRows(n, rows, sum)
	}
	require.NoError(b, putStructs())
	b.Run("query", func(b *testing.B) { measure.Pairs(b, rows, queryStructs, queryMaps) })

	// What each allocates, on its own.
	for name, do := range map[string]func() error{"alone/put structs": putStructs, "alone/put maps": putMaps, "alone/query structs": queryStructs, "alone/query maps": queryMaps} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				require.NoError(b, do())
			}
		})
	}
}

func expectRows(n, want int, sum float64) error {
	if n != want || sum == 0 {
		return fmt.Errorf("%d rows, expected %d", n, want)
	}
	return nil
}
