package store

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A posting counts for a row that has its value, whatever form the row has; and a row with postings of several forms is returned
// once. A client that dies while it converts a row leaves one like this.
func TestPostingCountsForRowOfOtherForm(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx := t.Context()
		st := stores(t, kind.Open(t, nil), 1)[0]
		tbl, err := st.Create(ctx, Schema{
			Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("v", Int16, MOPE), DeterministicColumn("w", Int16)},
		})
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "v": int16(5), "w": int16(6)}, Row{"id": int64(2), "v": int16(6)}))
		require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("v", Int16, Wozniak)), ChangeColumn(OrderedColumn("w", Int16, WozniakIndexed))))
		now := tbl.now()
		key, err := bykey.ExactKey(ctx, now, Row{"id": int64(1)})
		require.NoError(t, err)
		r, err := now.Read(ctx, key, nil)
		require.NoError(t, err)
		anyOrder := false
		carries := func(form *rowcodec.Column, value int16) bool {
			t.Helper()
			carried, err := form.AppendSearch(ctx, nil, value)
			require.NoError(t, err)
			counts, err := forms.Carries(ctx, now.View, form, r, carried, anyOrder)
			require.NoError(t, err)
			return counts
		}
		v, w := now.ByName["v"], now.ByName["w"]
		require.True(t, carries(v.Former[0], 5))
		require.False(t, carries(v.Former[0], 6))
		require.True(t, carries(v, 5))
		require.False(t, carries(v, 6))
		require.True(t, carries(w.Former[0], 6))
		require.True(t, carries(w, 6), "of the next form, whose ciphertexts are drawn, and in its index")
		require.False(t, carries(w, 7))
		anyOrder = true
		require.True(t, carries(w, 6))
		require.True(t, carries(w, 7), "the value of the row decides")
		require.False(t, carries(v, 6))

		search, err := v.AppendSearch(ctx, nil, int16(5))
		require.NoError(t, err)
		posting := slices.Concat(v.Lead, search, r.Key, r.Write[:])
		require.NoError(t, now.Postings.Apply(ctx, driver.Mutation{Row: posting, Puts: []driver.Cell{rowcodec.PostingCell}}))
		for _, order := range []string{"", "v"} {
			found := 0
			for _, err := range tbl.Query(ctx, Query{Where: Int16.Field("v").Between(3, 7), OrderBy: order}) {
				require.NoError(t, err)
				found++
			}
			require.Equal(t, 2, found)
		}
	})
}
