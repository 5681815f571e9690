package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// goldenLease is a database that the first version with leases wrote.
const goldenLease = "../testdata/vectors/lease-1.json"

// leaseDump writes tables under a lease. It ends with one that becomes shorter, by a client that died.
func leaseDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with a lease for writers, as store wrote it, see docs/format.md.")
	schema := store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.MOPE), store.RandomisedColumn("kind", store.String), store.PlainColumn("zone", store.String)},
	}
	readings := h.create(schema)
	h.put(readings, featureRows(0, 3, "i1", "kind", "zone")...)
	require.NoError(t, h.st.SetLease(background, 200*time.Millisecond))
	h.put(readings, featureRows(3, 6, "i1", "kind", "zone")...)
	h.alter("readings", store.ChangeColumn(store.DeterministicColumn("kind", store.String)))
	h.put(readings, featureRows(6, 8, "i1", "kind", "zone")...)
	h.dump.Tables["readings"] = h.holds(readings, 8)

	schema.Name, schema.Tenants = "of tenants", true
	tenants := h.create(schema)
	require.NoError(t, h.st.CreateTenant(background, "alpha"))
	tbl, err := tenants.Tenant(background, "alpha")
	require.NoError(t, err)
	h.put(tbl, featureRows(0, 2, "i1", "kind", "zone")...)
	require.NoError(t, h.st.SetPolicy(background, "alpha", "of tenants", store.Policy{Whole: true}))
	h.put(tbl, featureRows(2, 4, "i1", "kind", "zone")...)
	h.dump.Tenants["of tenants"] = map[string][]map[string]string{"alpha": h.holds(tbl, 4)}

	dying, die := context.WithCancel(background)
	time.AfterFunc(20*time.Millisecond, die)
	require.ErrorIs(t, h.st.SetLease(dying, 100*time.Millisecond), context.Canceled)
	return h.finish()
}

// What the first version with leases wrote is read, written and changed, and is as any other database when the lease is off.
func TestFirstLeaseStaysReadable(t *testing.T) {
	d := golden(t, goldenLease, leaseDump)
	st := openDump(t, d)
	lease, err := st.Lease(background)
	require.NoError(t, err)
	require.Equal(t, inspect.Lease{Duration: 100 * time.Millisecond, Wait: 262*time.Millisecond + 500*time.Microsecond, Ending: true}, lease)
	tables := []*goldenTable{{t: t, st: st, name: "readings", dump: d}, {t: t, st: st, name: "of tenants", dump: d}}
	for _, g := range tables {
		g.check()
		g.rewrite()
		g.alter()
		g.convert()
	}
	require.NoError(t, st.SetLease(background, 0))
	lease, err = st.Lease(background)
	require.NoError(t, err)
	require.Zero(t, lease)
	for _, g := range tables {
		g.rewrite()
	}
}
