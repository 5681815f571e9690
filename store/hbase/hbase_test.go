package hbase

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// quorum returns the ZooKeeper servers of the HBase to test with, or skips the test.
func quorum(tb testing.TB) string {
	tb.Helper()
	q := os.Getenv("RANGECRYPT_HBASE")
	if q == "" {
		if sim.Required("hbase") {
			tb.Fatal("RANGECRYPT_REQUIRE names hbase, but RANGECRYPT_HBASE is not set")
		}
		tb.Skip("set RANGECRYPT_HBASE to the ZooKeeper quorum of an HBase (for example 127.0.0.1:2181) to run this test")
	}
	return q
}

func open(tb testing.TB, o Options) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if o.Namespace == "" {
		o.Namespace = "rangecrypt_test"
	}
	db, err := Open(ctx, quorum(tb), &o)
	require.NoError(tb, err)
	return db
}

// newTable opens a new family and drops it at the end.
func newTable(tb testing.TB, db driver.DB, spec driver.FamilySpec) driver.Family {
	tb.Helper()
	var b [6]byte
	rand.Read(b[:])
	spec.Name = "h" + hex.EncodeToString(b[:])
	if spec.Layout == 0 {
		spec.Layout = driver.LayoutOrdered
	}
	f, err := db.Family(tb.Context(), spec)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(tb, db.Drop(ctx, spec.Name))
	})
	return f
}

func TestDriver(t *testing.T) {
	q := quorum(t)
	connect := func(tb testing.TB) driver.DB {
		db, err := Open(tb.Context(), q, &Options{Namespace: "rangecrypt_test"})
		require.NoError(tb, err)
		return db
	}
	drivertest.TestDriver(t, connect, &drivertest.Options{
		Own: func(err error) bool { return errors.Is(err, gohbase.TableNotFound) },
		Reopen: func(tb testing.TB, db driver.DB) driver.DB {
			require.NoError(tb, db.Close())
			return connect(tb)
		},
	})
}
