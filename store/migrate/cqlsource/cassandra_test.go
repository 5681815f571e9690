package cqlsource

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
)

// application returns a session of an application in a keyspace of its own.
func application(tb testing.TB) (session *gocql.Session, keyspace string) {
	tb.Helper()
	for _, db := range testdb.All {
		if db.Name == "cassandra" {
			db.Need(tb)
		}
	}
	server, err := testcassandra.New()
	require.NoError(tb, err)
	var id [6]byte
	rand.Read(id[:])
	keyspace = "shop_" + hex.EncodeToString(id[:])
	session, err = server.Make(tb.Context(), keyspace)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, server.Drop(keyspace)) })
	tb.Cleanup(session.Close)
	return session, keyspace
}

func do(tb testing.TB, session *gocql.Session, stmt string, values ...any) {
	tb.Helper()
	require.NoError(tb, session.Query(stmt, values...).ExecContext(tb.Context()), stmt)
}

// source returns a source of a table that a statement makes.
func source(tb testing.TB, create, table string) (*Source, *gocql.Session) {
	tb.Helper()
	session, keyspace := application(tb)
	do(tb, session, create)
	s, err := New(tb.Context(), session, keyspace, table, Options{})
	require.NoError(tb, err)
	return s, session
}
