package cassandra

import (
	"errors"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/drivertest/indextest"
)

func TestDriver(t *testing.T) {
	c := keyspace(t)
	c.Timeout = time.Minute // to drop tables a server with a busy disk takes its time
	connect := func(tb testing.TB) driver.DB {
		db, err := Open(tb.Context(), c)
		require.NoError(tb, err)
		return db
	}
	drivertest.TestDriver(t, connect, &drivertest.Options{
		Blind: true,
		Own: func(err error) bool {
			var own gocql.RequestError
			return errors.As(err, &own)
		},
		Reopen: func(tb testing.TB, db driver.DB) driver.DB {
			require.NoError(tb, db.Close())
			return connect(tb)
		},
	})
}

func TestIndexer(t *testing.T) {
	db, err := Open(t.Context(), keyspace(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	indextest.TestIndexer(t, db)
}
