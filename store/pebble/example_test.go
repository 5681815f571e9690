package pebble_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A program backs up the store in which it works, and reads the copy.
func ExampleDB_Backup() {
	type Reading struct {
		Device  string  `rangecrypt:"device,key=1,hashed"`
		Celsius float64 `rangecrypt:"celsius,ordered=mope"`
	}
	ctx := context.Background()
	dir := store.Must(os.MkdirTemp("", "rangecrypt-example"))
	defer os.RemoveAll(dir)
	keys := kms.NewLocal(ope.GenerateKey())

	db := store.Must(pebble.Open(filepath.Join(dir, "data"), nil))
	defer db.Close()
	st := store.Must(store.Open(ctx, db, keys, nil))
	store.Must(st.Create(ctx, store.Must(store.SchemaOf[Reading]("readings"))))
	readings := store.Must(store.For[Reading](ctx, st, "readings"))
	fmt.Println(readings.Put(ctx, &Reading{"pump-7", 21.5}))

	fmt.Println(db.Backup(ctx, filepath.Join(dir, "monday")))
	fmt.Println(readings.Put(ctx, &Reading{"pump-8", 24}))

	copied := store.Must(pebble.Open(filepath.Join(dir, "monday"), &pebble.Options{MustExist: true}))
	defer copied.Close()
	monday := store.Must(store.For[Reading](ctx, store.Must(store.Open(ctx, copied, keys, nil)), "readings"))
	for r, err := range monday.Query(ctx, store.Query{}) {
		fmt.Println(r.Device, r.Celsius, err)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// pump-7 21.5 <nil>
}
