package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// served returns a table of blind puts, of whose columns some have indexes of the database.
func served() store.Schema {
	return store.Schema{
		Name: "places",
		Key:  []store.KeyPart{store.HashedPart("device", store.Int32)},
		Columns: []store.Column{
			store.OrderedColumn("celsius", store.Int32, store.MOPE).ServerIndex(),
			store.OrderedColumn("watt", store.Int64, store.Wozniak).ServerIndex(),
			store.DeterministicColumn("room", store.String).ServerIndex(),
			store.RandomisedColumn("note", store.String),
		},
	}
}

func place(i int) store.Row {
	row := store.Row{"device": int32(i), "celsius": int32(i % 50), "watt": int64(-i)}
	if i%4 > 0 {
		row["room"] = fmt.Sprint("r", i%4)
	}
	if i%5 > 0 {
		row["note"] = fmt.Sprint("n", i)
	}
	return row
}

// eachIndexer runs a test on all databases that keep indexes.
func eachIndexer(t *testing.T, test func(t *testing.T, kind testdb.Database)) {
	for _, kind := range testdb.All {
		if kind.Name == "memory" || kind.Name == "cassandra" {
			t.Run(kind.Name, func(t *testing.T) {
				kind.Need(t)
				test(t, kind)
			})
		}
	}
}

func TestRowsAreFoundByServerIndexes(t *testing.T) {
	eachIndexer(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, served())
		var rows []store.Row
		for i := range 200 {
			rows = append(rows, place(i))
		}
		require.NoError(t, tbl.Put(background, rows...))
		q := store.Query{Where: store.Int32.Field("celsius").Between(10, 19)}
		require.Len(t, collect(t, tbl, q), 40)
		e, err := tbl.Analyze(background, q)
		require.NoError(t, err)
		require.Equal(t, "celsius", e.Driver)
		require.Equal(t, e.Intervals, e.Requests, "the rows come with the index")
		_ = slices.Sorted[int]
	})
}

var _ = drivertest.NewMemory
