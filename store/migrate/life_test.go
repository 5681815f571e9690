package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Rows expire when those of the source do, also where each does at another time and the database takes long to write them.
func TestRowsExpireWithTheSourceOnSlowDatabases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if op.Method == "Apply" {
				writes++
				time.Sleep(time.Second)
			}
			return c.Make(func(int) error { return nil })
		}, nil)
		const rows = 9
		s := newStageIn(t, db, rows, expiring)
		change := func(by time.Duration) {
			for id := range int64(rows) {
				require.NoError(t, s.source.change(id, store.Row{"a": id}, by+time.Duration(id)*time.Minute))
			}
		}
		change(time.Hour)
		s.prepare()
		writes = 0
		require.Equal(t, Counts{Copied: rows}, s.copy())
		require.LessOrEqual(t, writes, 2, "rows that expire at different times are written together")
		require.Equal(t, Counts{Equal: rows}, s.verify(nil))
		change(2 * time.Hour)
		require.Equal(t, Counts{Mended: rows}, s.verify(&PassOptions{Repair: true}))
		require.Equal(t, Counts{Equal: rows}, s.verify(nil))
		for id := range int64(rows) {
			end := s.source.rows[id].Expires
			for _, before := range []time.Duration{time.Second, 0} {
				time.Sleep(time.Until(end.Add(-before)))
				row, err := s.table.Get(s.ctx, s.source.key(id))
				require.NoError(t, err)
				require.Equal(t, before > 0, row != nil, "row %d, %v before its end", id, before)
			}
		}
	})
}
