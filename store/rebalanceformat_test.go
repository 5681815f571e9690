package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
)

// goldenRebalanced is a database that the first version wrote which rebalances in place.
const goldenRebalanced = "../testdata/vectors/rebalanced-1.json"

// rebalancedDump writes an index that is rebalanced, grows, and is rebalanced again.
func rebalancedDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with an index that was rebalanced in place, as store wrote it, see docs/format.md.")
	tbl := h.create(store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("i1", store.Int64, store.Kerschbaum), store.RandomisedColumn("kind", store.String)},
	})
	h.put(tbl, featureRows(-8, 5, "i1", "kind")...)
	for _, next := range []int{5, 9} {
		_, err := tbl.Rebalance(background, "i1", nil)
		require.NoError(t, err)
		h.put(tbl, featureRows(next, next+4, "i1", "kind")...)
	}
	h.dump.Tables["readings"] = h.holds(tbl, 21)
	return h.finish()
}

// rewrittenReadings returns the table of readings of a golden database, after it was read and written.
func rewrittenReadings(t *testing.T, d dump) (*goldenTable, *store.Table) {
	t.Helper()
	g := &goldenTable{t: t, st: openDump(t, d), name: "readings", dump: d}
	g.check()
	g.rewrite()
	tbl, err := g.st.Table(background, g.name)
	require.NoError(t, err)
	return g, tbl
}

// What the first version wrote which rebalances in place is read, written and changed, and rebalanced once more.
func TestFirstRebalancedIndexStaysReadable(t *testing.T) {
	d := golden(t, goldenRebalanced, rebalancedDump)
	g, tbl := rewrittenReadings(t, d)
	_, err := tbl.Rebalance(background, "i1", nil)
	require.NoError(t, err)
	g.rewrite()
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}
