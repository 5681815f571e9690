package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
)

// A client that does not know yet that a table has got its first searched column, which covers, replaces and deletes rows: no copy of what they
// were is found.
func TestCopiesOfAColumnThatTheWriterDoesNotKnow(t *testing.T) {
	id := func(n int64) store.Row { return store.Row{"id": n} }
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for name, column := range map[string]store.Column{
			"added": store.OrderedColumn("level", store.Int64, store.MOPE), "changed": store.OrderedColumn("note", store.Int64, store.MOPE),
		} {
			t.Run(name, func(t *testing.T) {
				db := kind.Open(t, nil)
				own, other := open(t, db), open(t, db)
				schema := store.Schema{
					Name: "t", Conditional: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
					Columns: []store.Column{store.RandomisedColumn("note", store.Int64)},
				}
				tbl, err := own.Create(background, schema)
				require.NoError(t, err)
				for name, write := range map[string]func(*store.Table) error{
					"replaced": func(late *store.Table) error { return late.Put(background, id(1)) },
					"deleted":  func(late *store.Table) error { return late.Delete(background, id(1)) },
				} {
					late, err := other.Table(background, "t")
					require.NoError(t, err)
					change := store.AddColumn(column.Covering())
					if column.Describe().Name == "note" {
						change = store.ChangeColumn(column.Covering())
					}
					require.NoError(t, own.Alter(background, "t", change))
					value := column.Describe().Name
					require.NoError(t, tbl.Put(background, store.Row{"id": int64(1), value: int64(7)}, store.Row{"id": int64(2), value: int64(7)}))
					require.Eventually(t, func() bool {
						found, err := tbl.Verify(background, nil)
						return err == nil && found.Sound() && found.Uncopied == 0
					}, time.Minute, time.Millisecond)
					require.NoError(t, write(late), name)
					for _, tbl := range []*store.Table{tbl, late} {
						n, err := tbl.Count(background, store.Int64.Field(value).Equal(7))
						require.NoError(t, err)
						require.Equal(t, 1, n, name)
					}
					found, err := tbl.Verify(background, nil)
					require.NoError(t, err)
					require.True(t, found.Sound(), "%s: %+v", name, found)
					require.NoError(t, own.Drop(background, "t")) // and another one with the name
					tbl, err = own.Create(background, schema)
					require.NoError(t, err)
				}
			})
		}
	})
}
