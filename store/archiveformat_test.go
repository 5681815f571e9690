package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
)

// goldenArchive is a database that the first version wrote which keeps earlier keys apart.
const goldenArchive = "../testdata/vectors/archive-1.json"

// archiveDump writes a table whose keys were rotated often, with rows under each, and drops another one.
func archiveDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database with a table of many keys, as store wrote it, see docs/format.md.")
	for _, name := range []string{"readings", "gone"} {
		tbl := h.create(store.Schema{
			Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.RandomisedColumn("i1", store.Int64), store.RandomisedColumn("kind", store.String)},
		})
		for i := range 40 {
			h.put(tbl, featureRows(i, i+1, "i1", "kind")...)
			require.NoError(t, h.st.RotateKeys(background, name))
			if i == 25 {
				h.alter(name, store.ChangeColumn(store.OrderedColumn("i1", store.Int64, store.MOPE)))
			}
		}
		h.dump.Tables["readings"] = h.holds(tbl, 40)
	}
	require.NoError(t, h.st.Drop(background, "gone"))
	return h.finish()
}

// What the first version wrote which keeps earlier keys apart is read and written, and its keys are rotated on.
func TestFirstArchiveStaysReadable(t *testing.T) {
	d := golden(t, goldenArchive, archiveDump)
	g := &goldenTable{t: t, st: openDump(t, d), name: "readings", dump: d}
	g.check()
	described, err := g.open().Describe(background)
	require.NoError(t, err)
	require.Len(t, described.RowKeys, 41)
	for range 20 {
		require.NoError(t, g.st.RotateKeys(background, g.name))
	}
	g.check()
	g.rewrite()
	g.convert()
	g.check()
}
