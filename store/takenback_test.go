package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// What was made for a table that is not made is taken back, also when the context has ended, but not for as long as a database does
// not answer.
func TestTablesAreTakenBackInTime(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			memory, armed := drivertest.NewMemory(), false
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			db := intercept.New(memory, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
				switch {
				case armed && op.Conditional():
					cancel()
					return context.Canceled // it was not made
				case armed && hangs && op.Method == "Drop":
					return pause.For(ctx, time.Hour)
				}
				return c.Make(nil)
			}, nil)
			st, err := Open(ctx, db, kms.NewLocal(testMaster), nil)
			require.NoError(t, err)
			before, err := memory.Families(t.Context())
			require.NoError(t, err)
			armed = true
			began := time.Now()
			_, err = st.Create(ctx, alterSchema("t"))
			require.ErrorIs(t, err, context.Canceled)
			after, err := memory.Families(t.Context())
			require.NoError(t, err)
			require.Equal(t, hangs, len(after) > len(before))
			require.LessOrEqual(t, time.Since(began), 10*time.Second)
		})
	}
}
