package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A client knows of no policy. Another one, which does not either, replaces a row whose cells are stored as a policy says, and dies.
// What is left of these is no mixture of two writes: the first client learns of the policy.
func TestCellsLeftOfAPolicy(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		ctx, memory := t.Context(), drivertest.NewMemory()
		dead := false
		dying := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if dead && op.Family[0] == 't' && !op.Reads() {
				return drivertest.CrashAfter
			}
			return drivertest.NoFault
		})
		sound, newer, old := stores(t, memory, 1)[0], stores(t, memory, 1)[0], stores(t, dying, 1)[0]
		_, err := sound.Create(ctx, plainTenants(layout))
		require.NoError(t, err)
		readers := openTenants(t, sound, "log", "alpha")[0]
		writers, others := openTenants(t, old, "log", "alpha")[0], openTenants(t, newer, "log", "alpha")[0]
		require.NoError(t, setPolicy(ctx, newer, "alpha", "log", Policy{Sensitive: []string{"size"}}))
		require.NoError(t, others.Put(ctx, tenantRow(1)))
		dead = true
		left := Row{"id": int64(1), "at": int32(1), "zone": "z"}
		require.ErrorIs(t, writers.Put(ctx, left), drivertest.ErrInjected)
		got, err := readers.Get(ctx, Row{"id": int64(1), "at": int32(1)})
		require.NoError(t, err)
		require.Equal(t, left, got)
	}
}
