package store_test

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

var loadedRows = flag.Int("store.load", 20_000, "rows of TestLoadOfEmbeddedStore; from two million on it compares the last million with the first")

// A load of new rows into an embedded table with two ordered columns, in batches of 256, goes on as it began, in memory that does
// not grow. It logs the rate and the processor time of each million rows, and the most memory that was resident.
//
//	go test -run LoadOfEmbedded -v -timeout 6h -store.load 10000000 ./store
func TestLoadOfEmbeddedStore(t *testing.T) {
	const batch, million, least, mostMB = 256, 1_000_000, 0.6, 250
	rows := *loadedRows
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tbl := create(t, open(t, db), store.Schema{
		Name: "rows", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{
			store.OrderedColumn("at", store.Int32, store.Boldyreva), store.OrderedColumn("value", store.Int32, store.Boldyreva),
			store.RandomisedColumn("note", store.String),
		},
	})
	random := rand.New(rand.NewPCG(1, 2))
	value := func(i int) int32 { return int32(uint32(i) * 2654435761) } // in no order, and known for each row
	var rates, memory []float64
	began, used, from, resident := time.Now(), process.CPU(), 0, int64(0)
	for i := 0; i < rows; {
		puts := make([]store.Row, min(batch, rows-i))
		for j := range puts {
			puts[j] = store.Row{"id": i, "at": int32(i), "value": value(i), "note": "a note of some forty bytes for the row ..."}
			i++
		}
		require.NoError(t, tbl.Put(background, puts...))
		if i/batch%16 == 0 || i == rows {
			resident = max(resident, process.Resident())
		}
		if done := i - from; done >= million || i == rows {
			wall, cpu := time.Since(began), process.CPU()-used
			rates = append(rates, float64(done)/wall.Seconds())
			memory = append(memory, float64(resident)/1e6)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%9d rows: %6.0f rows/s, %.1f us of processor time each; at most %.0f MB resident, %.0f of them Go's at the end",
				i, rates[len(rates)-1], cpu.Seconds()*1e6/float64(done), memory[len(memory)-1], float64(m.Sys-m.HeapReleased)/1e6)
			began, used, from, resident = time.Now(), process.CPU(), i, 0
		}
	}
	for range 1_000 {
		i := random.IntN(rows)
		row, err := tbl.Get(background, store.Row{"id": i})
		require.NoError(t, err)
		require.Equal(t, value(i), row["value"])
	}
	if rows < 2*million {
		return
	}
	whole := rows / million
	require.GreaterOrEqual(t, rates[whole-1]/rates[0], least, "the last million against the first")
	for _, mb := range memory {
		require.LessOrEqual(t, mb, float64(mostMB))
	}
}
