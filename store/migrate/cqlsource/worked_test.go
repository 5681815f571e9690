package cqlsource_test

import (
	"context"
	"os"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
	"github.com/rangecrypt/rangecrypt/store/migrate/cqlsource"
)

// The lines that docs/operations.md shows, between the two marks. They run below.
func worked(ctx context.Context, session *gocql.Session, keyspace string, orders *store.Table) error {
	// begin
	source, err := cqlsource.New(ctx, session, keyspace, "orders", cqlsource.Options{})
	if err != nil {
		return err
	}
	migration, err := migrate.New(orders, source)
	if err != nil {
		return err
	}
	writes := cqlsource.NewSession(source, migration.Mirror())
	if err := writes.Exec(ctx, "UPDATE orders SET amount = ? WHERE customer = ? AND number = ?", 1250, "ada", 7); err != nil {
		return err
	}
	batch := session.Batch(gocql.LoggedBatch).
		Query("INSERT INTO orders (customer, number, amount) VALUES (?, ?, ?)", "ada", 8, 100).
		Query("DELETE FROM orders WHERE customer = ? AND number = ?", "ada", 6)
	return writes.ExecBatch(ctx, batch)
	// end
}

// The page shows the very lines that are compiled here.
func TestPageShowsTheWorkedExample(t *testing.T) {
	source, err := os.ReadFile("worked_test.go")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(source), "\t// begin\n")
	lines, _, ended := strings.Cut(after, "\t// end\n")
	require.True(t, ended)
	text, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "```go"+strings.ReplaceAll("\n"+lines, "\n\t", "\n")+"```\n")
}

func TestWorkedExample(t *testing.T) {
	t.Parallel()
	session, keyspace := cqlsource.Application(t)
	require.NoError(t, session.Query("CREATE TABLE orders (customer text, number int, amount bigint, PRIMARY KEY ((customer), number))").ExecContext(t.Context()))
	require.NoError(t, session.Query("INSERT INTO orders (customer, number, amount) VALUES ('ada', 6, 1)").ExecContext(t.Context()))
	source, err := cqlsource.New(t.Context(), session, keyspace, "orders", cqlsource.Options{})
	require.NoError(t, err)
	schema, _, err := source.Propose(t.Context(), "orders")
	require.NoError(t, err)
	db := testdb.All[0].Open(t, nil) // in memory
	st, err := store.Open(t.Context(), db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	orders, err := st.Create(t.Context(), schema)
	require.NoError(t, err)
	migration, err := migrate.New(orders, source)
	require.NoError(t, err)
	_, err = migration.Prepare(t.Context(), false)
	require.NoError(t, err)

	require.NoError(t, worked(t.Context(), session, keyspace, orders))
	for number, amount := range map[int32]any{6: nil, 7: int64(1250), 8: int64(100)} {
		row, err := orders.Get(t.Context(), store.Row{"customer": "ada", "number": number})
		require.NoError(t, err)
		require.Equal(t, amount, row["amount"])
	}
}
