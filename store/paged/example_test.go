package paged_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

func Example() {
	ctx := context.Background()
	db := drivertest.NewMemory() // or cassandra.Open, hbase.Open, pebble.Open
	st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = paged.Create(ctx, st, store.Schema{
		Name:    "meters",
		Key:     []store.KeyPart{store.OrderedPart("minute", store.Int64.Within(0, 1<<20), store.MOPE)},
		Columns: []store.Column{store.RandomisedColumn("watts", store.Int32), store.PlainColumn("zone", store.String)},
	}, 0)
	if err != nil {
		log.Fatal(err)
	}
	meters, err := paged.Open(ctx, st, "meters") // as another program does
	if err != nil {
		log.Fatal(err)
	}
	var rows []store.Row
	for minute := range int64(1000) {
		rows = append(rows, store.Row{"minute": minute, "watts": int32(minute % 7), "zone": "north"})
	}
	if err := meters.Put(ctx, rows...); err != nil {
		log.Fatal(err)
	}
	if err := meters.Update(ctx, store.Row{"minute": 11, "watts": 300}); err != nil {
		log.Fatal(err)
	}
	if err := meters.Delete(ctx, store.Row{"minute": 12}); err != nil {
		log.Fatal(err)
	}
	sum := int32(0)
	hour := store.Field[int64]("minute").Between(0, 59)
	for row, err := range meters.Query(ctx, store.Query{Where: hour, Columns: []string{"watts"}}) {
		if err != nil {
			log.Fatal(err)
		}
		sum += row["watts"].(int32)
	}
	n, err := meters.Count(ctx, hour)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "rows,", sum, "watts")
	// Output: 59 rows, 465 watts
}

func ExampleTable_Reseal() {
	ctx := context.Background()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	if err != nil {
		log.Fatal(err)
	}
	tbl, err := paged.Create(ctx, st, store.Schema{
		Name: "notes", Key: []store.KeyPart{store.HashedPart("user", store.String), store.PlainPart("line", store.Int32)},
		Columns: []store.Column{store.RandomisedColumn("text", store.String)},
	}, 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := tbl.Put(ctx, store.Row{"user": "a", "line": 1, "text": "x"}, store.Row{"user": "b", "line": 1, "text": "y"}); err != nil {
		log.Fatal(err)
	}
	if err := st.RotateKeys(ctx, "notes"); err != nil {
		log.Fatal(err)
	}
	done, err := tbl.Reseal(ctx)
	if err != nil {
		log.Fatal(err)
	}
	found, err := tbl.Verify(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Resealed, "pages sealed again;", found.Old, "of", found.Pages, "under an old key")
	// Output: 2 pages sealed again; 0 of 2 under an old key
}
