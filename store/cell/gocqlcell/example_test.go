package gocqlcell_test

import (
	"context"
	"errors"
	"log"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/cell/gocqlcell"
)

// A table has rows with plaintext. This writes the encrypted columns of them while the application goes on. They are written
// with the time of the plaintext, so that they lose to what the application writes later, and expire with it. It may be stopped and made again.
func ExampleFor() {
	var session *gocql.Session    // of the application
	var amount *cell.Field[int64] // from cell.Open
	ctx := context.Background()

	var id gocql.UUID
	var plain, written *int64
	var ttl *int
	v := gocqlcell.For(amount, &id) // of the row that was scanned last
	rows := session.Query("SELECT id, amount, WRITETIME(amount), TTL(amount) FROM orders").IterContext(ctx)
	var failed error
	for failed == nil && rows.Scan(&id, &plain, &written, &ttl) {
		if plain == nil || written == nil {
			continue
		}
		expires := 0 // never
		if ttl != nil {
			expires = *ttl
		}
		v.Set(*plain)
		failed = session.Query("UPDATE orders USING TIMESTAMP ? AND TTL ? SET amount_ct = ?, amount_cell = ? WHERE id = ?", written, expires, v.Search(), v.Sealed(), id).ExecContext(ctx)
	}
	if err := errors.Join(failed, rows.Close()); err != nil {
		log.Fatal(err)
	}
}

// A null has neither column.
func ExampleValue_SetNull() {
	var session *gocql.Session    // of the application
	var amount *cell.Field[int64] // from cell.Open
	id := gocql.MustRandomUUID()

	v := gocqlcell.For(amount, id)
	v.SetNull()
	err := session.Query("UPDATE orders SET amount_ct = ?, amount_cell = ? WHERE id = ?", v.Search(), v.Sealed(), id).ExecContext(context.Background())
	if err != nil {
		log.Fatal(err)
	}
}
