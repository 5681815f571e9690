package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A client that does not know of an index puts a row that expires where one was that does not, and dies. What the index has of the
// row before is no row when its cells have ended.
func TestExpiredRowWithIndexOfNow(t *testing.T) {
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		if kind.Name != "cassandra" {
			t.Skip("it keeps no indexes, or ends what a cell has there with the cell")
		}
		ctx, db := t.Context(), kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		calls, dies := 0, -1
		faulty := drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
			if calls++; calls == dies {
				return drivertest.CrashBefore
			}
			return drivertest.NoFault
		})
		theirs, err := Open(ctx, faulty, kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = theirs.Close(context.Background()) })
		for _, one := range []*Store{st, theirs} {
			one.db.Clock = rowcodec.Clock{Grace: time.Second}
		}
		schema := livingSchemas["served"]
		schema.Name, schema.TTL = "t", TTLByRow
		was := schema
		was.Columns = []Column{RandomisedColumn("celsius", Int32), RandomisedColumn("room", String), RandomisedColumn("note", String)}
		tbl, err := st.Create(ctx, was)
		require.NoError(t, err)
		old, err := theirs.Table(ctx, "t")
		require.NoError(t, err)
		require.NoError(t, st.Alter(ctx, "t", ChangeColumn(schema.Columns[0]), ChangeColumn(schema.Columns[1])))
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, livingRow(1), livingRow(2)))
		calls, dies = 0, 2 // it writes the row, and does not read the version
		require.Error(t, old.Expiring(time.Second).Put(ctx, livingRow(1)))
		rows := func(q Query) (n int) {
			for _, err := range tbl.Query(ctx, q) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		time.Sleep(6 * time.Second) // with two graces, and what databases round up
		require.Equal(t, 1, rows(Query{}))
		require.Equal(t, 1, rows(Query{Where: String.Field("room").Equal("r")}))
		v, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
	})
}
