package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A conversion that has read a row before its Put gave it another TTL, and writes it when the Put has returned, takes nothing back:
// the row expires as it should, and index entries lead to it for as long.
func TestConversionComesAfterRetimedRow(t *testing.T) {
	const short = 5 * time.Second
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		if !kind.Server {
			t.Parallel()
		}
		db := kind.Open(t, nil)
		sooner := convertedWhileRetimed(t, db, "sooner", time.Hour, short)
		never := convertedWhileRetimed(t, db, "never", short, TTLByRow)
		time.Sleep(short + 4*time.Second) // with two graces, and what databases round up
		for tbl, rows := range map[*Table]int{sooner: 0, never: 1} {
			for _, where := range []Predicate{{}, Int32.Field("celsius").AtLeast(0), String.Field("note").Equal("n")} {
				n, err := tbl.Count(t.Context(), where)
				require.NoError(t, err)
				require.Equal(t, rows, n, "%s: %v", tbl.Schema().Name, where)
			}
		}
	})
}

// convertedWhileRetimed returns a table with one row. When that was put, and its Put had not learned of the other TTL, a conversion
// read it. It wrote the row after the Put.
func convertedWhileRetimed(t *testing.T, db driver.DB, name string, ttl, becomes time.Duration) *Table {
	ctx := t.Context()
	another := func(hook func(op intercept.Op, do func() error) error) (*Store, *Table) {
		st, err := Open(ctx, intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
			return hook(op, func() error { return c.Make(func(int) error { return nil }) })
		}, nil), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
		st.db.Clock = rowcodec.Clock{Grace: time.Second}
		schema := livingSchemas["blind"]
		schema.Name, schema.TTL = name, ttl
		tbl, err := st.Table(ctx, name)
		if err != nil {
			tbl, err = st.Create(ctx, schema)
		}
		require.NoError(t, err)
		return st, tbl
	}
	read, write, converted := make(chan struct{}), make(chan struct{}), make(chan error)
	reads, puts := false, false
	st, converter := another(func(op intercept.Op, do func() error) error {
		if op.Method == "Replace" && op.Family[0] == 't' && !reads {
			reads = true
			close(read)
			<-write
		}
		return do()
	})
	_, writer := another(func(op intercept.Op, do func() error) error {
		err := do()
		if op.Method == "Apply" && op.Family[0] == 't' && !puts { // the row is there, and the version is not read yet
			puts = true
			require.NoError(t, st.Alter(ctx, name, SetTTL(becomes), ChangeColumn(OrderedColumn("note", String, Boldyreva))))
			go func() {
				_, err := converter.Convert(context.Background(), nil)
				converted <- err
			}()
			<-read
		}
		return err
	})
	require.NoError(t, writer.Put(ctx, livingRow(1)))
	close(write)
	require.NoError(t, <-converted)
	return converter
}
