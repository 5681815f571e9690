package cqlsource

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Bytes that are read as a part of a key are bound as the same bytes, and no others are the same key of an encrypted table.
func TestKeysThatAreOneInATable(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	edges := []string{"", "\x00", "\x01", "\x02", "\x7f", "\x80", "\xff", "\x00\x00", "\x00\x80", "\xff\x80", "\x7f\xc0", "\x7f\xf8", "\xff\xf8", "a"}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		c := &column{name: "k", cql: name, kind: kinds[name]}
		if c.kind.rigid {
			continue // in no partition key, and the server takes equal values for one key elsewhere
		}
		tbl, err := st.Create(ctx, store.Schema{Name: "t_" + name, Key: []store.KeyPart{store.HashedPart("k", c.kind.typ)}, Columns: []store.Column{store.RandomisedColumn("v", store.Bytes)}})
		require.NoError(t, err)
		of := make(map[string]bool)
		rapid.Check(t, func(t *rapid.T) {
			b := []byte(rapid.SampledFrom(edges).Draw(t, "edge"))
			if size := rapid.SampledFrom([]int{len(b), 1, 2, 4, 8, 16}).Draw(t, "size"); size > len(b) {
				b = append(b, rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0, 0, 1}), size-len(b), size-len(b)).Draw(t, "rest")...)
			}
			v, err := c.part(b)
			if err != nil {
				return
			}
			again, ok := c.kind.encode(v)
			require.True(t, ok)
			require.Equal(t, string(b), string(again))
			if err := tbl.Put(ctx, store.Row{"k": v, "v": b}); err == nil {
				of[string(b)] = true
			}
		})
		require.NotEmpty(t, of, name)
		n, err := tbl.Count(ctx, store.Predicate{})
		require.NoError(t, err)
		require.EqualValues(t, len(of), n, name)
	}
}
