package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A write is not acknowledged that lost a value: the column which it names was dropped by another client, also if there is another one of
// that name by now. The next write goes by the schema as it is.
func TestValuesOfDroppedColumns(t *testing.T) {
	type table struct {
		put    func(rows ...store.Row) error
		update func(row store.Row) error
	}
	key := store.HashedPart("k", store.Int64)
	for name, create := range map[string]func(t *testing.T, st *store.Store, s store.Schema) error{
		"rows": func(t *testing.T, st *store.Store, s store.Schema) error {
			_, err := st.Create(t.Context(), s)
			return err
		},
		"conditional": func(t *testing.T, st *store.Store, s store.Schema) error {
			s.Conditional = true
			_, err := st.Create(t.Context(), s)
			return err
		},
		"pages": func(t *testing.T, st *store.Store, s store.Schema) error {
			_, err := paged.Create(t.Context(), st, s, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, db, master := t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey())
			one, err := store.Open(ctx, db, master, nil)
			require.NoError(t, err)
			require.NoError(t, create(t, one, store.Schema{Name: "t", Key: []store.KeyPart{key}, Columns: []store.Column{store.PlainColumn("p", store.String), store.PlainColumn("q", store.String)}}))
			open := func() table {
				st, err := store.Open(ctx, db, master, nil)
				require.NoError(t, err)
				if name == "pages" {
					tbl, err := paged.Open(ctx, st, "t")
					require.NoError(t, err)
					return table{func(rows ...store.Row) error { return tbl.Put(ctx, rows...) }, func(row store.Row) error { return tbl.Update(ctx, row) }}
				}
				tbl, err := st.Table(ctx, "t")
				require.NoError(t, err)
				return table{func(rows ...store.Row) error { return tbl.Put(ctx, rows...) }, func(row store.Row) error { return tbl.Update(ctx, row) }}
			}
			putter, updater, other := open(), open(), open()
			require.NoError(t, other.put(store.Row{"k": 1, "p": "x", "q": "y"}))
			require.NoError(t, one.Alter(ctx, "t", store.DropColumn("p"), store.AddColumn(store.RandomisedColumn("p", store.String))))
			require.NoError(t, other.put(store.Row{"k": 2, "q": "y"}), "which has no value there")
			lost := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, store.ErrSchemaChanged)
				require.ErrorIs(t, err, store.ErrWritten)
				require.False(t, store.Retryable(err), "the call is not to be made again")
				require.ErrorContains(t, err, `has dropped column "p"`)
			}
			lost(putter.put(store.Row{"k": 3, "q": "y"}, store.Row{"k": 4, "p": "x"}))
			require.NoError(t, putter.put(store.Row{"k": 4, "p": "z"}), "in the column that is there")
			if name != "rows" {
				lost(updater.update(store.Row{"k": 1, "p": "x"}))
				require.NoError(t, updater.update(store.Row{"k": 1, "p": "z"}))
				require.NoError(t, one.Alter(ctx, "t", store.DropColumn("p")))
				require.NoError(t, updater.update(store.Row{"k": 1, "q": "z"}), "the row has p, and nobody gives it one")
			}
		})
	}
}
