package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// An administrator sleeps before his change is made, and meanwhile another one drops what has the name, and makes another of it. What
// the first one wants is not done to that, or it is so that it can be used.
func TestNamesThatAnotherHasByNow(t *testing.T) {
	for name, change := range map[string]struct {
		drops, sleeps func(*Store, context.Context) error
		want          error
	}{
		"tenant dropped": {dropAndMakeTenant, func(st *Store, ctx context.Context) error { return st.DropTenant(ctx, "alpha") }, ErrNoTenant},
		"key rotated":    {dropAndMakeTenant, func(st *Store, ctx context.Context) error { return st.RotateTenantKey(ctx, "alpha") }, nil},
		"table dropped":  {dropAndMakeTable, func(st *Store, ctx context.Context) error { return st.Drop(ctx, "log") }, ErrNoTable},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, memory, asleep := t.Context(), drivertest.NewMemory(), false
			other := stores(t, memory, 1)[0]
			require.NoError(t, dropAndMakeTable(other, ctx))
			require.NoError(t, other.CreateTenant(ctx, "alpha"))
			st := stores(t, intercept.New(memory, func(ctx context.Context, op intercept.Op, call intercept.Call) error {
				if asleep && op.Method == "CheckAndPut" {
					asleep = false
					require.NoError(t, change.drops(other, ctx))
					require.NoError(t, openTenants(t, other, "log", "alpha")[0].Put(ctx, tenantRow(1)))
				}
				return call.Make(nil)
			}, nil), 1)[0]
			asleep = true
			require.ErrorIs(t, change.sleeps(st, ctx), change.want)
			require.False(t, asleep)
			for _, st := range append(stores(t, memory, 1), other) {
				of := openTenants(t, st, "log", "alpha")[0]
				require.Equal(t, []Row{tenantRow(1)}, sorted(t, of, Query{}))
				require.NoError(t, of.Put(ctx, tenantRow(1)))
			}
		})
	}
}

// A table is dropped before a change of another client has made a family for it: none is left.
func TestFamilyOfATableThatIsDroppedMeanwhile(t *testing.T) {
	ctx, memory, asleep := t.Context(), drivertest.NewMemory(), false
	other := stores(t, memory, 1)[0]
	_, err := other.Create(ctx, Schema{Name: "log", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("v", Int64)}})
	require.NoError(t, err)
	st := stores(t, intercept.New(memory, func(ctx context.Context, op intercept.Op, call intercept.Call) error {
		if asleep && op.Method == "Family" {
			asleep = false
			require.NoError(t, other.Drop(ctx, "log"))
		}
		return call.Make(nil)
	}, nil), 1)[0]
	asleep = true
	require.ErrorIs(t, st.Alter(ctx, "log", AddColumn(DeterministicColumn("w", Int64))), ErrNoTable)
	require.False(t, asleep)
	families, err := memory.Families(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"catalogue"}, families)
}

func dropAndMakeTable(st *Store, ctx context.Context) error {
	_ = st.Drop(ctx, "log")
	_, err := st.Create(ctx, plainTenants(packed))
	return err
}

func dropAndMakeTenant(st *Store, ctx context.Context) error {
	if err := st.DropTenant(ctx, "alpha"); err != nil {
		return err
	}
	return st.CreateTenant(ctx, "alpha")
}
