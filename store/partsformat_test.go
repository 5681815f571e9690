package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// goldenParts is a database that the first version wrote which converts parts of any number.
const goldenParts = "../testdata/vectors/parts-1.json"

// partsDump writes a table that is being converted, in parts of two cuts.
func partsDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with a table that is converted in parts of two cuts, as store wrote it, see docs/format.md.")
	tbl := h.create(store.Schema{
		Name: "readings", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.RandomisedColumn("i1", store.Int64), store.RandomisedColumn("kind", store.String)},
	})
	h.put(tbl, featureRows(0, 12, "i1", "kind")...)
	h.alter("readings", store.ChangeColumn(store.OrderedColumn("i1", store.Int64, store.MOPE)))
	for _, part := range []inspect.Part{{Index: 1, Of: 7}, {Index: 2, Of: 7}, {Index: 60, Of: 100}, {Index: 99, Of: 100}} {
		_, err := tbl.ConvertPart(background, part)
		require.NoError(t, err)
	}
	h.dump.Tables["readings"] = h.holds(tbl, 12)
	return h.finish()
}

// What the first version wrote which converts parts of any number is read and written, and the conversion goes on where it was.
func TestFirstPartsStayReadable(t *testing.T) {
	d := golden(t, goldenParts, partsDump)
	g, tbl := rewrittenReadings(t, d)
	status, err := tbl.Status(background)
	require.NoError(t, err)
	require.Equal(t, []string{"i1"}, status.Pending)
	require.Equal(t, 17, status.Done, "the parts of 64 that two of 7 have")
	for _, part := range []inspect.Part{{Index: 1, Of: 7}, {Index: 5, Of: 14}, {Index: 60, Of: 100}, {Index: 199, Of: 200}} {
		one, err := tbl.ConvertPart(background, part)
		require.NoError(t, err)
		require.Zero(t, one.Rows, "it is done")
	}
	for i := range 50 {
		one, err := tbl.ConvertPart(background, inspect.Part{Index: i, Of: 50})
		require.NoError(t, err)
		require.Equal(t, i == 49, one.Over)
	}
	g.rewrite()
	g.convert()
}
