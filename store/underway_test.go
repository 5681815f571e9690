package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A query by a column that gets another index, key or encryption ends with an error, also if it had all rows, where it
// reads no snapshot or the scheme moves ciphertexts. One that is begun anew has them.
func TestQueriesUnderWayEnd(t *testing.T) {
	type change = func(st *store.Store, tbl *store.Table) error
	index := func(_ *store.Store, tbl *store.Table) error { return tbl.RebuildIndex(background, "v", nil) }
	key := func(st *store.Store, _ *store.Table) error { return st.RotateSearchKeys(background, "t", "v") }
	encryption := func(st *store.Store, _ *store.Table) error {
		return st.Alter(background, "t", store.ChangeColumn(store.RandomisedColumn("v", store.Int64)))
	}
	snapshots := func() driver.DB { return drivertest.NewMemory() }
	none := func() driver.DB { return struct{ driver.DB }{drivertest.NewMemory()} }
	for name, c := range map[string]struct {
		by   store.ColumnScheme
		db   func() driver.DB
		to   change
		ends bool
	}{
		"index, moving": {store.Kerschbaum, snapshots, index, true}, "key, moving": {store.Kerschbaum, snapshots, key, true},
		"encryption, moving": {store.Kerschbaum, snapshots, encryption, true}, "index, at rest": {store.WozniakIndexed, snapshots, index, false},
		"key, at rest": {store.MOPE, snapshots, key, false}, "encryption, at rest": {store.MOPE, snapshots, encryption, false},
		"index, no snapshot": {store.WozniakIndexed, none, index, true}, "key, no snapshot": {store.MOPE, none, key, true},
		"encryption, no snapshot": {store.MOPE, none, encryption, true},
	} {
		t.Run(name, func(t *testing.T) {
			db := c.db()
			st, other := open(t, db), open(t, db)
			tbl := create(t, st, store.Schema{
				Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("v", store.Int64, c.by)},
			})
			var rows []store.Row
			for i := range int64(600) { // more than one request
				rows = append(rows, store.Row{"id": i, "v": i})
			}
			require.NoError(t, tbl.Put(background, rows...))
			theirs, err := other.Table(background, "t")
			require.NoError(t, err)
			query := func(then func()) (n int, last error) {
				for _, err := range tbl.Query(context.Background(), store.Query{Where: store.Field[int64]("v").AtLeast(0)}) {
					if err != nil {
						return n, err
					}
					if n++; n == 5 {
						then()
					}
				}
				return n, nil
			}
			n, err := query(func() { require.NoError(t, c.to(other, theirs)) })
			if c.ends {
				require.ErrorIs(t, err, store.ErrSchemaChanged)
				require.True(t, store.Retryable(err))
			} else {
				require.NoError(t, err)
				require.Equal(t, len(rows), n)
			}
			n, err = query(func() {})
			require.NoError(t, err)
			require.Equal(t, len(rows), n)
		})
	}
}
