package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// exampleTable returns a table in a new embedded store with a row for each of four hours of two
// devices.
func exampleTable(ctx context.Context) (tbl *store.Table, closeAll func()) {
	dir, err := os.MkdirTemp("", "rangecrypt-example")
	if err != nil {
		log.Fatal(err)
	}
	db, err := pebble.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	st, err := store.Open(ctx, db, ope.GenerateKey(), nil)
	if err != nil {
		log.Fatal(err)
	}
	tbl, err = st.Create(ctx, store.Schema{
		Name: "readings",
		Key: []store.KeyPart{
			store.HashedPart("device", store.String),
			store.OrderedPart("time", store.Time(time.Millisecond), store.MOPE),
		},
		Columns: []store.Column{
			store.OrderedColumn("temperature", store.Float64, store.Boldyreva),
			store.RandomisedColumn("note", store.String),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for hour, degrees := range []float64{17.5, 19, 24.5, 31} {
		for i, name := range []string{"pump-7", "pump-8"} {
			err := tbl.Put(ctx, store.Row{
				"device":      name,
				"time":        time.Date(2026, 5, 1, 8+hour, 0, 0, 0, time.UTC),
				"temperature": degrees + float64(i)/4,
			})
			if err != nil {
				log.Fatal(err)
			}
		}
	}
	return tbl, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}

// A composite key: the readings of one device in a span of time are one range of row keys.
func ExampleTable_Query_compositeKey() {
	const device = store.Field[string]("device")
	const at = store.Field[time.Time]("time")
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	nine := time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	for row, err := range tbl.Query(ctx, store.Query{
		Where:   store.And(device.Equal("pump-7"), at.AtLeast(nine)),
		Reverse: true,
		Limit:   2,
	}) {
		if err != nil {
			log.Fatal(err)
		}
		t, _ := at.Of(row)
		fmt.Println(t.Format(time.TimeOnly), row["temperature"])
	}
	// Output:
	// 11:00:00 31
	// 10:00:00 24.5
}

// A range of a column: it is found through the column's index, in the order of its values.
func ExampleTable_Query_orderedColumn() {
	const temperature = store.Field[float64]("temperature")
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	for row, err := range tbl.Query(ctx, store.Query{Where: temperature.Between(18, 25)}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row["device"], row["temperature"])
	}
	// Output:
	// pump-7 19
	// pump-8 19.25
	// pump-7 24.5
	// pump-8 24.75
}

// Pages: the token goes on where the page ended, also in another process.
func ExampleTable_Page() {
	const temperature = store.Field[float64]("temperature")
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	q := store.Query{Where: temperature.AtLeast(19), Limit: 4}
	for page := 1; ; page++ {
		rows, next, err := tbl.Page(ctx, q)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("page", page, "has", len(rows), "rows")
		if next == "" {
			break
		}
		q.PageToken = next
	}
	// Output:
	// page 1 has 4 rows
	// page 2 has 2 rows
}
