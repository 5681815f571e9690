package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A lease whose answer is lost is not set a second time where another client has set another one, and acknowledged it. Other changes of
// the catalogue say nothing about it.
func TestLeaseIsNotSetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var between func(make func() error) error
		db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if now := between; now != nil && op.Conditional() {
				between = nil
				require.NoError(t, now(func() error { return c.Make(nil) }))
				return driver.ErrUnknownOutcome
			}
			return c.Make(nil)
		}, nil)
		clients := leaseStores(t, db, 2)
		ctx, st, other := t.Context(), clients[0], clients[1]
		requireLease := func(d time.Duration) {
			lease, err := other.Lease(ctx)
			require.NoError(t, err)
			require.Equal(t, d, lease.Duration)
		}
		between = func(make func() error) error {
			require.NoError(t, make())
			return other.SetLease(ctx, 5*time.Second)
		}
		require.ErrorIs(t, st.SetLease(ctx, time.Second), driver.ErrUnknownOutcome)
		requireLease(5 * time.Second)

		for name, made := range map[string]bool{"a": true, "b": false} {
			between = func(make func() error) error {
				if made {
					require.NoError(t, make())
				}
				_, err := other.Create(ctx, alterSchema(name))
				return err
			}
			require.NoError(t, st.SetLease(ctx, 7*time.Second))
			requireLease(7 * time.Second)
			require.NoError(t, st.SetLease(ctx, time.Second))
		}
	})
}
