package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// exampleTable returns a table in a new embedded store with a row for each of four hours of two
// devices.
func exampleTable(ctx context.Context) (tbl *store.Table, closeAll func()) {
	_, tbl, closeAll = exampleStore(ctx)
	return tbl, closeAll
}

// exampleStore returns the store, too.
func exampleStore(ctx context.Context) (st *store.Store, tbl *store.Table, closeAll func()) {
	dir, err := os.MkdirTemp("", "rangecrypt-example")
	if err != nil {
		log.Fatal(err)
	}
	db, err := pebble.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	st, err = store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
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
	return st, tbl, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}

// Rows that expire: sessions live for an hour, one of them for a minute only, and one for ever. The second table gets its TTL
// later, for what is put from then on.
func ExampleTable_Expiring() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	sessions, err := st.Create(ctx, store.Schema{
		Name:    "sessions",
		Key:     []store.KeyPart{store.HashedPart("id", store.String)},
		Columns: []store.Column{store.DeterministicColumn("user", store.String)},
		TTL:     time.Hour,
	})
	if err == nil {
		err = sessions.Put(ctx, store.Row{"id": "a", "user": "ann"})
	}
	if err == nil {
		err = sessions.Expiring(time.Minute).Put(ctx, store.Row{"id": "b", "user": "ann"})
	}
	if err == nil {
		err = sessions.Expiring(0).Put(ctx, store.Row{"id": "c", "user": "ann"})
	}
	if err == nil {
		err = st.Alter(ctx, "readings", store.SetTTL(store.TTLByRow))
	}
	if err != nil {
		log.Fatal(err)
	}
	n := 0
	for _, err := range sessions.Query(ctx, store.Query{Where: store.Field[string]("user").Equal("ann")}) {
		if err != nil {
			log.Fatal(err)
		}
		n++
	}
	fmt.Println(n, "sessions now, and one in an hour")
	// Output: 3 sessions now, and one in an hour
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

// The explicit schema and rows: names and values are checked when they are used.
func ExampleTable_Put() {
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	at := time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)
	if err := tbl.Put(ctx, store.Row{"device": "pump-9", "time": at, "temperature": 20.5, "note": "new"}); err != nil {
		log.Fatal(err)
	}
	row, err := tbl.Get(ctx, store.Row{"device": "pump-9", "time": at})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row["temperature"], row["note"])
	err = tbl.Put(ctx, store.Row{"device": "pump-9", "time": at, "temperature": "warm"})
	fmt.Println(errors.Is(err, store.ErrColumn))
	// Output:
	// 20.5 new
	// true
}

// Typed columns: a Field has the Go type of its column, so that the compiler checks what is compared
// with it and what comes out. For tables of your own, see the examples of package encode.
func ExampleField() {
	const (
		device      = store.Field[string]("device")
		temperature = store.Field[float64]("temperature")
	)
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	sum, n := 0.0, 0
	for row, err := range tbl.Query(ctx, store.Query{Where: store.And(device.Equal("pump-8"), temperature.AtLeast(19))}) {
		if err != nil {
			log.Fatal(err)
		}
		degrees, err := temperature.Of(row) // a float64
		if err != nil {
			log.Fatal(err) // store.ErrNull where the row has no temperature
		}
		sum, n = sum+degrees, n+1
	}
	fmt.Println(n, "readings, mean", sum/float64(n))
	// Output:
	// 3 readings, mean 25.083333333333332
}

// A table is changed while it is used. Rows are read as before; Convert rewrites them, so that
// the changed column drives queries again.
// Addresses begin alike, so that eight bytes of them tell little.
func ExampleTypeOf_OrderedBy() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	tbl, err := st.Create(ctx, store.Schema{
		Name: "pages",
		Key:  []store.KeyPart{store.OrderedPart("url", store.String.OrderedBy(32), store.Boldyreva)},
		Columns: []store.Column{
			store.OrderedColumn("from", store.String.Prefixed("https://", "http://"), store.MOPE), // any scheme
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 100 {
		if err := tbl.Put(ctx, store.Row{"url": fmt.Sprintf("https://example.org/%02d", i)}); err != nil {
			log.Fatal(err)
		}
	}
	url := store.String.Field("url")
	e, err := tbl.Analyze(ctx, store.Query{Where: store.HasPrefix(url, "https://example.org/7")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d rows were read for %d\n", e.Hits, e.Rows)
	// Output: 10 rows were read for 10
}

func ExampleStore_Alter() {
	const celsius = store.Field[float64]("celsius")
	ctx := context.Background()
	st, tbl, closeAll := exampleStore(ctx)
	defer closeAll()
	err := st.Alter(ctx, "readings",
		store.RenameColumn("temperature", "celsius"),
		store.ChangeColumn(store.OrderedColumn("celsius", store.Float64, store.Wozniak)),
		store.AddColumn(store.DeterministicColumn("site", store.String)))
	if err != nil {
		log.Fatal(err)
	}
	query := store.Query{Where: celsius.AtLeast(24)}
	count := func() (n int) {
		for _, err := range tbl.Query(ctx, query) {
			if err != nil {
				log.Fatal(err)
			}
			n++
		}
		return n
	}
	fmt.Println(count(), "rows")
	stats, err := tbl.Convert(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Converted, "rewritten,", count(), "rows")
	// Output:
	// 4 rows
	// 8 rewritten, 4 rows
}

// Two columns with one search key are joined in the database, which sees for it which of their values
// are equal.
func ExampleJoin() {
	ctx := context.Background()
	st, readings, closeAll := exampleStore(ctx)
	defer closeAll()
	if err := st.Alter(ctx, "readings", store.AddColumn(store.DeterministicColumn("operator", store.String))); err != nil {
		log.Fatal(err)
	}
	people, err := st.Create(ctx, store.Schema{
		Name: "people",
		Key:  []store.KeyPart{store.HashedPart("id", store.Int32)},
		Columns: []store.Column{
			store.DeterministicColumn("name", store.String).SharedWith("readings", "operator"),
			store.RandomisedColumn("phone", store.String),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	at := time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)
	if err := errors.Join(
		people.Put(ctx, store.Row{"id": 1, "name": "an operator", "phone": "555-0100"}, store.Row{"id": 2, "name": "another"}),
		readings.Put(ctx, store.Row{"device": "pump-9", "time": at, "temperature": 80.5, "operator": "an operator"}),
	); err != nil {
		log.Fatal(err)
	}
	for pair, err := range store.Join(ctx, readings, "operator", people, "name", nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pair[0]["device"], pair[0]["temperature"], pair[1]["phone"])
	}
	// Output:
	// pump-9 80.5 555-0100
}

// Tenants share a table. Each says which columns are sealed for it, and may say otherwise later: what is
// there is read as before, and Convert rewrites it.
func ExampleStore_SetPolicy() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	events, err := st.Create(ctx, store.Schema{
		Name:    "events",
		Tenants: true,
		Key:     []store.KeyPart{store.HashedPart("session", store.String), store.OrderedPart("number", store.Int32, store.MOPE)},
		Columns: []store.Column{store.PlainColumn("severity", store.String), store.PlainColumn("message", store.String)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := st.CreateTenant(ctx, "hospital"); err != nil {
		log.Fatal(err)
	}
	hospital, err := events.Tenant(ctx, "hospital")
	if err != nil {
		log.Fatal(err)
	}
	for i := range int32(3) {
		if err := hospital.Put(ctx, store.Row{"session": "s-1", "number": i, "severity": "low", "message": "door opened"}); err != nil {
			log.Fatal(err)
		}
	}

	// The severity stays in the clear: it can be read without any key.
	if err := st.SetPolicy(ctx, "hospital", "events", store.Policy{Sensitive: []string{"message"}}); err != nil {
		log.Fatal(err)
	}
	row, err := hospital.Get(ctx, store.Row{"session": "s-1", "number": int32(1)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row["severity"], "-", row["message"])
	stats, err := hospital.Convert(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Converted, "of", stats.Rows, "rows rewritten")
	use, err := hospital.KeyUse(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(use.Plain, "cells in the clear")
	// Output:
	// low - door opened
	// 3 of 3 rows rewritten
	// 3 cells in the clear
}

// A conversion in parts. Here they are done one after the other; a scheduler has many processes do them, each of which opens the
// table, and repeats those that fail.
func ExampleTable_ConvertPart() {
	ctx := context.Background()
	st, tbl, closeAll := exampleStore(ctx)
	defer closeAll()
	err := st.Alter(ctx, "readings", store.ChangeColumn(store.DeterministicColumn("note", store.String)))
	if err != nil {
		log.Fatal(err)
	}
	parts, err := tbl.Parts(ctx, 4)
	if err != nil {
		log.Fatal(err)
	}
	var all inspect.ConvertStats
	for _, part := range parts {
		done, err := tbl.ConvertPart(ctx, part)
		if err != nil {
			log.Fatal(err)
		}
		all.Add(done.ConvertStats)
		if done.Over {
			fmt.Printf("%d of %d parts are done, with %d rows\n", done.Done, part.Of, all.Rows)
		}
	}
	// Output:
	// 4 of 4 parts are done, with 8 rows
}

// How a query is answered, and what that takes: the column with the least to read drives it.
func ExampleTable_Analyze() {
	const temperature = store.Field[float64]("temperature")
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	e, err := tbl.Analyze(ctx, store.Query{Where: store.And(temperature.Greater(19), temperature.Less(31))})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("driven by", e.Driver)
	fmt.Println(e.Rows, "rows of", e.Hits, "that were read")
	// Output:
	// driven by temperature
	// 3 rows of 3 that were read
}

// An update changes some columns of a row, and loses nothing that another client changes at the same time.
func ExampleTable_Update() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	hosts, err := st.Create(ctx, store.Schema{
		Name: "hosts",
		Key:  []store.KeyPart{store.OrderedPart("address", store.IPv4, store.MOPE)},
		Columns: []store.Column{
			store.OrderedColumn("gateway", store.IPv6, store.Boldyreva),
			store.RandomisedColumn("key", store.Bytes),
		},
		Conditional: true, // rows may be updated
	})
	if err != nil {
		log.Fatal(err)
	}
	address, gateway := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::1")
	if err := hosts.Put(ctx, store.Row{"address": address, "gateway": gateway, "key": []byte("old")}); err != nil {
		log.Fatal(err)
	}
	if err := hosts.Update(ctx, store.Row{"address": address, "key": []byte("new")}); err != nil {
		log.Fatal(err)
	}
	row, err := hosts.Get(ctx, store.Row{"address": address})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n", row["gateway"], row["key"])
	// Output: 2001:db8::1 new
}

// A Put of many rows is refused as a whole if one of them cannot be stored. The error says which one.
func ExampleRowError() {
	ctx := context.Background()
	tbl, closeAll := exampleTable(ctx)
	defer closeAll()
	at := time.Date(2026, 5, 2, 8, 0, 0, 0, time.UTC)
	err := tbl.Put(ctx,
		store.Row{"device": "pump-7", "time": at, "temperature": 21.5},
		store.Row{"device": "pump-8", "time": at, "temperature": "warm"})
	var row *store.RowError
	if errors.As(err, &row) {
		fmt.Println("row", row.Index, "has a wrong value:", errors.Is(err, store.ErrColumn))
	}
	// Output: row 1 has a wrong value: true
}

// What is true, false or unknown of a row, and the rows where something is true.
func ExampleOr() {
	ctx := context.Background()
	st, _, closeAll := exampleStore(ctx)
	defer closeAll()
	const celsius, name = store.Field[float64]("celsius"), store.Field[string]("name")
	tbl, err := st.Create(ctx, store.Schema{
		Name:    "samples",
		Key:     []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("celsius", store.Float64, store.Boldyreva), store.OrderedColumn("name", store.String, store.MOPE)},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = tbl.Put(ctx, store.Row{"id": 1, "celsius": 12.5, "name": "pump-1"}, store.Row{"id": 2, "celsius": 99.0, "name": "valve"}, store.Row{"id": 3})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []store.Predicate{
		store.Or(store.HasPrefix(name, "pump-"), celsius.Greater(40)),
		store.Not(celsius.Between(10, 20)),
		store.Or(store.IsNull("celsius"), store.IsNaN("celsius")),
	} {
		n, err := tbl.Count(ctx, p)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(n)
	}
	plan, err := tbl.Explain(ctx, store.Query{Where: celsius.Less(40), RequireIndex: true})
	if err != nil {
		log.Fatal(err)
	}
	some, err := tbl.Exists(ctx, celsius.Less(0))
	if err != nil {
		log.Fatal(err)
	}
	least, err := tbl.Min(ctx, "celsius", store.Predicate{})
	if err != nil {
		log.Fatal(err)
	}
	most, err := tbl.Max(ctx, "celsius", store.Predicate{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Driver, plan.Estimate.Rows, plan.Estimate.Exact)
	fmt.Println(some, least, most)
	// Output:
	// 2
	// 1
	// 1
	// celsius 1 true
	// false 12.5 99
}
