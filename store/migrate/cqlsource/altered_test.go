package cqlsource

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// The session of an application goes on where the table is altered: it follows with the columns that a migration was prepared with.
func TestSessionOfAnAlteredTable(t *testing.T) {
	t.Parallel()
	session, keyspace := application(t)
	ctx := t.Context()
	do(t, session, "CREATE TABLE orders (customer int, number int, note text, amount bigint, at timestamp, old text, PRIMARY KEY ((customer), number))")
	running, err := New(ctx, session, keyspace, "orders", Options{}) // of an application that was started before
	require.NoError(t, err)
	do(t, session, "ALTER TABLE orders ADD more text")
	do(t, session, "ALTER TABLE orders DROP old")
	do(t, session, "INSERT INTO orders (customer, number, note, more) VALUES (1, 1, 'a', 'b')")
	s, _ := begin(t, keyspace, fmt.Sprintf("%032x", rand.Uint64()), func(*store.Schema) {})
	m, err := migrate.New(s.table, running)
	require.NoError(t, err)
	writes := NewSession(running, m.Mirror())

	require.NoError(t, writes.Exec(ctx, "UPDATE orders SET note = 'c' WHERE customer = 1 AND number = 1"))

	row, err := s.table.Get(ctx, store.Row{"customer": int32(1), "number": int32(1)})
	require.NoError(t, err)
	require.Equal(t, "c", row["note"])
	require.Equal(t, "b", row["more"])
	do(t, session, "ALTER TABLE orders ADD tags list<text>") // which is not mapped: writers go on
	_, err = running.Describe(ctx)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, writes.Exec(ctx, "UPDATE orders SET more = 'e' WHERE customer = 1 AND number = 1"))
	}
	row, err = s.table.Get(ctx, store.Row{"customer": int32(1), "number": int32(1)})
	require.NoError(t, err)
	require.Equal(t, "e", row["more"])
	do(t, session, "ALTER TABLE orders DROP tags")
	do(t, session, "ALTER TABLE orders RENAME number TO nr")

	const renamed = "UPDATE orders SET note = 'd' WHERE customer = 1 AND nr = 1"
	require.ErrorIs(t, writes.Exec(ctx, renamed), migrate.ErrUnfit)
	require.NoError(t, m.Abort(ctx))
	require.NoError(t, writes.Exec(ctx, renamed))
}
