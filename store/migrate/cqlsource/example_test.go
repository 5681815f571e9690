package cqlsource_test

import (
	"context"
	"errors"
	"log"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/cqlsource"
)

// A schema for the encrypted table is made from that of the table of the application.
func ExampleSource_Propose() {
	var st *store.Store
	ctx := context.Background()

	source, err := cqlsource.Open(ctx, "cassandra://127.0.0.1/shop.orders")
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	schema, hints, err := source.Propose(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	for _, hint := range hints {
		log.Print(hint)
	}
	if _, err := st.Create(ctx, schema); err != nil {
		log.Fatal(err)
	}
}

// A batch is made by gocql, and executed by the session.
func ExampleSession_ExecBatch() {
	var session *gocql.Session // of the application
	var source *cqlsource.Source
	var mirror *migrate.Mirror // of the migration
	ctx := context.Background()

	writes := cqlsource.NewSession(source, mirror)
	batch := session.Batch(gocql.LoggedBatch).
		Query("INSERT INTO shop.orders (customer, number, amount) VALUES (?, ?, ?)", "ada", 8, 100).
		Query("DELETE FROM shop.orders WHERE customer = ? AND number = ?", "ada", 6)
	if err := writes.ExecBatch(ctx, batch); errors.Is(err, cqlsource.ErrRefused) {
		log.Fatal("a statement has to be written in another way: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
}
