package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
)

// Rows that are structs: the tags say which column each field has.
func ExampleFor() {
	type Reading struct {
		Device  string    `rangecrypt:"device,key=1,hashed"`
		At      time.Time `rangecrypt:"at,key=2,ordered=mope,unit=ms"`
		ID      store.Tie `rangecrypt:"id,key=3"`
		Celsius *float64  `rangecrypt:"celsius,ordered=boldyreva"` // nil is null
		Note    string    `rangecrypt:"note"`                      // sealed, not searched: the default
	}
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	schema, err := store.SchemaOf[Reading]("typed")
	if err != nil {
		log.Fatal(err)
	}
	schema.CellPerColumn = true // what tags do not say
	if _, err := st.Create(ctx, schema); err != nil {
		log.Fatal(err)
	}
	readings, err := store.For[Reading](ctx, st, "typed")
	if err != nil {
		log.Fatal(err)
	}
	warm := 24.5
	rows := []*Reading{
		{Device: "pump-7", At: time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC), Celsius: &warm, Note: "sunny"},
		{Device: "pump-7", At: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), Note: "the sensor is broken"},
	}
	if err := readings.Put(ctx, rows...); err != nil {
		log.Fatal(err)
	}
	fmt.Println("drawn:", rows[0].ID != store.Tie{})
	celsius := store.Float64.Field("celsius")
	for r, err := range readings.Query(ctx, store.Query{Where: celsius.Between(20, 30)}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Device, *r.Celsius, r.Note)
	}
	page, next, err := readings.Page(ctx, store.Query{Where: store.String.Field("device").Equal("pump-7"), Limit: 5})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page), next == "", page[1].Celsius)
	again, err := readings.GetBatch(ctx, rows[1], rows[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again[0].Note)
	if err := readings.Delete(ctx, rows[0]); err != nil {
		log.Fatal(err)
	}
	_, err = readings.Get(ctx, rows[0])
	fmt.Println(errors.Is(err, store.ErrNoRow))
	// Output:
	// drawn: true
	// pump-7 24.5 sunny
	// 2 true <nil>
	// the sensor is broken
	// true
}

// What cannot fail unless the program is wrong, or the program can only end when it fails.
func ExampleMust() {
	type Visit struct {
		Person int64     `rangecrypt:"person,key=1,hashed"`
		At     time.Time `rangecrypt:"at,key=2,ordered=mope,unit=s"`
	}
	schema := store.Must(store.SchemaOf[Visit]("visits"))
	fmt.Println(schema.Key[1].Describe().Name, store.Must(store.ParseType("decimal(2)")))
	// Output: at decimal(2)
}

// An account has some of the columns of a table with tenants.
type account struct {
	ID      int64  `rangecrypt:"id,key=1,hashed"`
	Owner   string `rangecrypt:"owner,deterministic"`
	Balance int64  `rangecrypt:"balance"`
}

// exampleAccounts returns a table with tenants, whose rows are written by compare-and-set.
func exampleAccounts(ctx context.Context, st *store.Store, options ...store.ForOption) *store.TableOf[account] {
	schema, err := store.SchemaOf[account]("accounts")
	if err != nil {
		log.Fatal(err)
	}
	schema.Conditional, schema.Tenants = true, true
	if _, err := st.Create(ctx, schema); err != nil {
		log.Fatal(err)
	}
	if err := st.CreateTenant(ctx, "north"); err != nil {
		log.Fatal(err)
	}
	all, err := store.For[account](ctx, st, "accounts", options...)
	if err != nil {
		log.Fatal(err)
	}
	return all
}

// Writes of rows and of single columns, in a table with Schema.Conditional.
func ExampleTableOf() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	accounts, err := exampleAccounts(ctx, st, store.AllowUnmapped).Tenant(ctx, "north") // columns may be added that the struct lacks
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.Insert(ctx, &account{ID: 1, Owner: "ann", Balance: 10}); err != nil {
		log.Fatal(err)
	}
	err = accounts.Insert(ctx, &account{ID: 1})
	fmt.Println("exists:", errors.Is(err, store.ErrRowExists))
	if err := accounts.Update(ctx, &account{ID: 1, Owner: "bob"}, "owner"); err != nil {
		log.Fatal(err)
	}
	if err := accounts.Upsert(ctx, &account{ID: 2, Owner: "eve"}); err != nil {
		log.Fatal(err)
	}
	for _, id := range []int64{1, 2} {
		row, err := accounts.Get(ctx, &account{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row.Owner, row.Balance)
	}
	// Output:
	// exists: true
	// bob 10
	// eve 0
}

// A change that depends on what the row had: if another client has written it since, it is read again.
func ExampleTableOf_UpdateIf() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	accounts, err := exampleAccounts(ctx, st).Tenant(ctx, "north")
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.Insert(ctx, &account{ID: 1, Owner: "ann", Balance: 10}); err != nil {
		log.Fatal(err)
	}
	for conflict := true; conflict; {
		has, err := accounts.Get(ctx, &account{ID: 1})
		if err != nil {
			log.Fatal(err)
		}
		row := *has
		row.Balance *= 2
		err = accounts.UpdateIf(ctx, &row, has, "balance")
		if conflict = errors.Is(err, store.ErrConflict); err != nil && !conflict {
			log.Fatal(err)
		}
		fmt.Println(row.Balance)
	}
	// Output: 20
}

// A counter that many clients change.
func ExampleTableOf_Increment() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	accounts, err := exampleAccounts(ctx, st).Tenant(ctx, "north")
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.Insert(ctx, &account{ID: 1, Owner: "ann", Balance: 10}); err != nil {
		log.Fatal(err)
	}
	key := &account{ID: 1}
	if err := accounts.Increment(ctx, key, "balance", -3); err != nil {
		log.Fatal(err)
	}
	rich, err := accounts.Table().Exists(ctx, store.Int64.Field("balance").Greater(7)) // what needs no struct is the table's
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(key.Balance, rich)
	// Output: 7 false
}

// Rows that live shorter than the others of their table.
func ExampleTableOf_Expiring() {
	type Session struct {
		ID   string `rangecrypt:"id,key=1,hashed"`
		User string `rangecrypt:"user,deterministic"`
	}
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	schema, err := store.SchemaOf[Session]("logins")
	if err != nil {
		log.Fatal(err)
	}
	schema.TTL = time.Hour
	if _, err := st.Create(ctx, schema); err != nil {
		log.Fatal(err)
	}
	sessions, err := store.For[Session](ctx, st, "logins")
	if err != nil {
		log.Fatal(err)
	}
	if err := sessions.Put(ctx, &Session{"a", "ann"}); err != nil {
		log.Fatal(err)
	}
	if err := sessions.Expiring(time.Minute).Put(ctx, &Session{"b", "ann"}); err != nil {
		log.Fatal(err)
	}
	n, err := sessions.Table().Count(ctx, store.String.Field("user").Equal("ann"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "sessions now, and one in a minute")
	// Output: 2 sessions now, and one in a minute
}

// Changes that depend on what the row has: nothing is lost, whoever else writes it.
func ExampleTable_Increment() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	north, err := exampleAccounts(ctx, st).Tenant(ctx, "north")
	if err != nil {
		log.Fatal(err)
	}
	accounts := north.Table()
	key := store.Row{"id": 1}
	if err := accounts.Upsert(ctx, store.Row{"id": 1, "owner": "ann", "balance": 10}); err != nil {
		log.Fatal(err)
	}
	sum, err := accounts.Increment(ctx, key, "balance", -3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
	err = accounts.UpdateIf(ctx, store.Row{"id": 1, "owner": "bob"}, store.Row{"balance": 10})
	fmt.Println("conflict:", errors.Is(err, store.ErrConflict))
	// Output:
	// 7
	// conflict: true
}

// An Insert of rows that are new costs less than a Put, which looks for old ones.
func ExampleTable_Insert() {
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	at := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	row := store.Row{"device": "pump-9", "time": at, "temperature": 20} // a constant that is exact fits
	if err := tbl.Insert(ctx, row); err != nil {
		log.Fatal(err)
	}
	rows, err := tbl.GetBatch(ctx, []store.Row{row, {"device": "pump-9", "time": at.Add(time.Hour)}}, "temperature")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rows[0]["temperature"], rows[1] == nil)
	// Output: 20 true
}
