package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// goldenDivided is a database that the first version wrote which divides the units of indexes.
const goldenDivided = "../testdata/vectors/divided-1.json"

// smallUnits has units of indexes divided from 64 values on.
func smallUnits(t *testing.T) {
	scheme.UnitValues.Store(64)
	t.Cleanup(func() { scheme.UnitValues.Store(0) })
}

// dividedDump writes an index that is divided, rebalanced, and divided again.
func dividedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	smallUnits(t)
	h := newChronicle(t, key, "A database with an index of several units, as store wrote it, see docs/format.md.")
	tbl := h.create(store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Kerschbaum)},
	})
	for from := range 10 {
		h.put(tbl, featureRows(10*from, 10*from+10, "i1")...)
	}
	_, err := tbl.Rebalance(background, "i1", nil)
	require.NoError(t, err)
	for from := range 6 {
		h.put(tbl, featureRows(-10*from-10, -10*from, "i1")...)
	}
	h.dump.Tables["readings"] = h.holds(tbl, 160)
	return h.finish()
}

// What the first version wrote which divides the units of indexes is read, written and changed, and divided once more.
func TestFirstDividedIndexStaysReadable(t *testing.T) {
	smallUnits(t)
	d := golden(t, goldenDivided, dividedDump)
	st := openDump(t, d)
	g := &goldenTable{t: t, st: st, name: "readings", dump: d}
	g.check()
	g.rewrite()
	tbl, err := st.Table(background, "readings")
	require.NoError(t, err)
	require.NoError(t, tbl.Put(background, featureRows(1000, 1200, "i1")...))
	_, err = tbl.Rebalance(background, "i1", nil)
	require.NoError(t, err)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, 360, report.Rows)
}
