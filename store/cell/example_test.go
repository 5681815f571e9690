package cell_test

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The application keeps orders in a table of its own, here a map. Of the store it needs the catalogue only.
func Example() {
	ctx := context.Background()
	st := store.Must(store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil))
	err := cell.Register(ctx, st, "shop.orders",
		store.OrderedColumn("amount", store.Int64, store.Boldyreva), store.DeterministicColumn("customer", store.String))
	if err != nil {
		fmt.Println(err)
		return
	}
	amount := store.Must(cell.Open(ctx, st, "shop.orders", store.Int64.Field("amount")))
	customer := store.Must(cell.Open(ctx, st, "shop.orders", store.String.Field("customer")))

	orders := make(map[int][2]cell.Cell)
	for id, n := range []int64{700, 1250, 3000} {
		row := cell.Row(id)
		orders[id] = [2]cell.Cell{store.Must(amount.Seal(row, n)), store.Must(customer.Seal(row, "Meier"))}
	}

	from := store.Must(amount.AtLeast(1000))
	of := store.Must(customer.Equal("Meier"))
	for id := range len(orders) {
		for _, iv := range from.Intervals { // as a database does: Start <= column < End
			if c := string(orders[id][0].Search); string(iv.Start) <= c && c < string(iv.End) {
				n := store.Must(amount.Open(cell.Row(id), orders[id][0]))
				name := store.Must(customer.Open(cell.Row(id), orders[id][1]))
				if from.Has(n) && of.Has(name) { // what is found need not be what is wanted
					fmt.Println(id, n, name)
				}
			}
		}
	}
	// Output:
	// 1 1250 Meier
	// 2 3000 Meier
}
