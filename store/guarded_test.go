package store_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

type guarded struct {
	K int32  `rangecrypt:"k,key=1,hashed"`
	R string `rangecrypt:"r,deterministic"`
	N int64  `rangecrypt:"n"`
}

// What a tag says is sealed does not go out in the clear, also where the client learns only in the middle of a write that
// another one has made the column plain. The row stays as it was written, and no one is told that it was put.
func TestStructsDoNotGoOutInTheClear(t *testing.T) {
	secret := "SECRET-VALUE-12345"
	writes := map[string]func(ctx context.Context, of *store.TableOf[guarded]) error{
		"put": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.Put(ctx, &guarded{1, secret, 1})
		},
		"insert": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.Insert(ctx, &guarded{3, secret, 1})
		},
		"update": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.Update(ctx, &guarded{K: 1, R: secret}, "r")
		},
		"upsert": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.Upsert(ctx, &guarded{3, secret, 1})
		},
		"update if": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.UpdateIf(ctx, &guarded{K: 1, R: secret}, &guarded{K: 1, R: "old"}, "r")
		},
		"increment": func(ctx context.Context, of *store.TableOf[guarded]) error {
			return of.Increment(ctx, &guarded{K: 2}, "n", 1)
		},
	}
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for name, write := range writes {
			for _, refreshed := range []bool{false, true} { // another call of the client has learnt of the change before
				ctx := t.Context()
				db := kind.Open(t, nil)
				schema := store.Must(store.SchemaOf[guarded]("t"))
				schema.Conditional = name != "put" && name != "insert"
				create(t, open(t, db), schema)
				of, err := store.For[guarded](ctx, open(t, db), "t")
				require.NoError(t, err)
				require.NoError(t, of.Put(ctx, &guarded{1, "old", 1}, &guarded{2, secret, 1}))
				require.NoError(t, open(t, db).Alter(ctx, "t", store.ChangeColumn(store.PlainColumn("r", store.String))))
				if refreshed {
					_, err = of.Table().Status(ctx)
					require.NoError(t, err)
				}
				err = write(ctx, of)
				require.ErrorIs(t, err, store.ErrSchemaChanged, name)
				require.ErrorIs(t, err, store.ErrColumn, name)
				require.NotErrorIs(t, err, store.ErrWritten, name)
				require.ErrorContains(t, err, `column "r" is plain, and the tag says deterministic`, name)
				require.False(t, store.Retryable(err), name)
				require.NotContains(t, contents(t, db), secret, name)

				// Who writes what is plain is answered as before.
				tbl, err := open(t, db).Table(ctx, "t")
				require.NoError(t, err)
				require.NoError(t, tbl.Put(ctx, store.Row{"k": 9, "r": secret, "n": 1}))
				require.Contains(t, contents(t, db), secret)
				_, err = tbl.Convert(ctx, nil)
				require.NoError(t, err)
				found, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.True(t, found.Sound(), "%s: %+v", name, found)
			}
		}
	})
}

// contents returns all keys and values of the rows of a table.
func contents(t *testing.T, db driver.DB) string {
	t.Helper()
	var b bytes.Buffer
	names, err := db.Families(t.Context())
	require.NoError(t, err)
	for _, name := range names {
		if name[0] != 't' {
			continue
		}
		f, err := db.Family(t.Context(), driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 16, Existing: true})
		require.NoError(t, err)
		for row, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			b.Write(row.Key)
			for _, c := range row.Cells {
				b.Write(c.Qualifier)
				b.Write(c.Value)
			}
		}
	}
	return b.String()
}
