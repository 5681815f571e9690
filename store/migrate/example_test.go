package migrate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A table with tenants comes into a new one, under other keys of row keys. Its application goes on, and writes through the Mirror of
// the tenant.
func ExampleMigration_MirrorOf() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	check(err)
	defer st.Close(ctx)
	check(st.CreateTenant(ctx, "acme"))
	open := func(name string) (all, acme *store.Table) {
		all, err := st.Create(ctx, store.Schema{
			Name: name, Tenants: true, Conditional: true,
			Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("note", store.String)},
		})
		check(err)
		acme, err = all.Tenant(ctx, "acme")
		check(err)
		return all, acme
	}
	_, old := open("notes")
	all, young := open("notes.next")
	check(old.Put(ctx, store.Row{"id": 1, "note": "door opened"}))

	source, err := migrate.FromTable(ctx, st, "notes")
	check(err)
	m, err := migrate.New(all, source)
	check(err)
	_, err = m.Prepare(ctx, false)
	check(err)
	_, err = m.Copy(ctx, inspect.Part{Index: 0, Of: 1}, nil)
	check(err)

	acme, err := m.MirrorOf(ctx, "acme")
	check(err)
	row := store.Row{"id": 2, "note": "door closed"}
	check(acme.Write(ctx, []store.Row{row}, func(ctx context.Context) error { return old.Put(ctx, row) }))

	for id := range 2 {
		row, err := young.Get(ctx, store.Row{"id": id + 1})
		check(err)
		fmt.Println(row["note"])
	}
	// Output:
	// door opened
	// door closed
}

// A table of pages comes into another one, under other keys of row keys, while it is written.
func ExampleOpen() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	check(err)
	defer st.Close(ctx)
	schema := store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("device", store.String), store.OrderedPart("at", store.Int64, store.MOPE)},
		Columns: []store.Column{store.RandomisedColumn("celsius", store.Float64)},
	}
	old, err := paged.Create(ctx, st, schema, 64)
	check(err)
	schema.Name = "readings.next"
	young, err := paged.Create(ctx, st, schema, 64)
	check(err)
	check(old.Put(ctx, store.Row{"device": "a", "at": 1, "celsius": 20.5}))

	source, err := migrate.FromTable(ctx, st, "readings")
	check(err)
	m, err := migrate.Open(ctx, st, "readings.next", source)
	check(err)
	_, err = m.Prepare(ctx, false)
	check(err)
	_, err = m.Copy(ctx, inspect.Part{Index: 0, Of: 1}, nil)
	check(err)
	row := store.Row{"device": "a", "at": 2, "celsius": 21.5}
	check(m.Mirror().Write(ctx, []store.Row{row}, func(ctx context.Context) error { return old.Put(ctx, row) }))

	n, err := young.Count(ctx, store.Predicate{})
	check(err)
	fmt.Println(n)
	// Output: 2
}
