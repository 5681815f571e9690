package intercept_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var spec = driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}

type (
	plainDB     struct{ driver.DB }
	plainFamily struct{ driver.Family }
	noCommits   struct{ driver.DB }
	named       struct{ driver.DB }
)

func (named) Describe() driver.Description { return driver.Description{System: "pebble"} }

func (db noCommits) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return plainFamily{f}, err
}

func TestWrappersKeepInterfaces(t *testing.T) {
	for _, c := range []struct {
		db                 driver.DB
		snapshots, commits bool
		system             string
	}{
		{drivertest.NewMemory(), true, true, ""},
		{plainDB{drivertest.NewMemory()}, false, true, ""},
		{noCommits{drivertest.NewMemory()}, false, false, ""},
		{named{drivertest.NewMemory()}, false, true, "pebble"},
	} {
		wrapped := intercept.WithLatency(c.db, func() time.Duration { return 0 })
		_, is := wrapped.(driver.Snapshotter)
		require.Equal(t, c.snapshots, is)
		f, err := wrapped.Family(t.Context(), spec)
		require.NoError(t, err)
		_, is = f.(driver.Committer)
		require.Equal(t, c.commits, is)
		require.Equal(t, c.system, driver.Describe(wrapped).System)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := intercept.WithLatency(drivertest.NewMemory(), func() time.Duration { return time.Second })
		took := func(want time.Duration, do func()) {
			t.Helper()
			begin := time.Now()
			do()
			require.Equal(t, want, time.Since(begin))
		}
		var f driver.Family
		took(time.Second, func() {
			var err error
			f, err = db.Family(t.Context(), spec)
			require.NoError(t, err)
		})
		var rows []driver.Mutation
		for i := range 2500 {
			rows = append(rows, driver.Mutation{Row: fmt.Appendf(nil, "%05d", i), Puts: []driver.Cell{{Qualifier: []byte("q")}}})
		}
		took(time.Second, func() { require.NoError(t, f.Apply(t.Context(), rows...)) })
		took(3*time.Second, func() { // one at the beginning, one each thousand rows
			n := 0
			for _, err := range f.Scan(t.Context(), driver.Range{}) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, len(rows), n)
		})
		took(time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := f.Get(ctx, rows[0].Row, driver.Slice{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		require.NoError(t, db.Close())
	})
}
