package remake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/remake"
)

var master = ope.GenerateKey()

func open(t *testing.T, db driver.DB) *store.Store {
	st, err := store.Open(context.Background(), db, kms.NewLocal(master), nil)
	require.NoError(t, err)
	return st
}

// lose drops all families whose names begin with one of some letters, as an administrator may.
func lose(t *testing.T, db driver.DB, letters string) {
	families, err := db.Families(context.Background())
	require.NoError(t, err)
	for _, name := range families {
		if strings.ContainsAny(name[:1], letters) {
			require.NoError(t, db.Drop(context.Background(), name))
		}
	}
}

// What rows can fill is made again, and filled by a verification: then every column finds every row.
func TestDerived(t *testing.T) {
	ctx := context.Background()
	columns := []store.Column{
		store.OrderedColumn("mope", store.Int64, store.MOPE),
		store.OrderedColumn("mutable", store.Int64, store.Kerschbaum),
		store.OrderedColumn("ranked", store.Int64, store.KerschbaumRanked),
		store.OrderedColumn("indexed", store.Int64, store.WozniakIndexed),
		store.DeterministicColumn("equal", store.Int64),
	}
	shared := store.OrderedColumn("shared", store.Int64, store.Kerschbaum).SharedWith("t", "mutable")
	names := map[string][]string{"t": {"mope", "mutable", "ranked", "indexed", "equal"}, "another": {"shared"}}
	const rows = 20
	check := func(t *testing.T, st *store.Store, table string) {
		tbl, err := st.Table(ctx, table)
		require.NoError(t, err)
		_, err = tbl.Verify(ctx, &store.VerifyOptions{Repair: true, Grace: time.Millisecond})
		require.NoError(t, err)
		found, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, found.Sound(), "%+v", found)
		require.Equal(t, rows, found.Rows)
		for _, name := range names[table] {
			for i := range int64(rows) {
				n, err := tbl.Count(ctx, store.Int64.Field(name).Equal(i))
				require.NoError(t, err)
				require.Equal(t, 1, n, "%s, %s, %d", table, name, i)
			}
		}
	}
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		for _, lost := range []string{"x", "i", "xi"} {
			t.Run(lost, func(t *testing.T) {
				db := kind.Open(t, nil)
				st := open(t, db)
				key := []store.KeyPart{store.OrderedPart("k", store.Int64, store.MOPE)}
				for _, s := range []store.Schema{{Name: "t", Key: key, Columns: columns}, {Name: "another", Key: key, Columns: []store.Column{shared}}} {
					tbl, err := st.Create(ctx, s)
					require.NoError(t, err)
					for i := range rows {
						row := store.Row{"k": i}
						for _, name := range names[s.Name] {
							row[name] = i
						}
						require.NoError(t, tbl.Put(ctx, row))
					}
				}
				lose(t, db, lost)
				st = open(t, db)
				_, err := st.Table(ctx, "t")
				require.ErrorIs(t, err, store.ErrTampered)
				require.ErrorContains(t, err, "verify --repair")
				for _, table := range []string{"another", "t"} {
					_, err := remake.Derived(ctx, st, table)
					require.NoError(t, err)
					made, err := remake.Derived(ctx, st, table)
					require.NoError(t, err)
					require.Empty(t, made, "nothing is lost any more")
				}
				check(t, st, "another")
				check(t, st, "t")
				check(t, open(t, db), "another")
			})
		}
	})
}

// Where rows are lost, nothing can fill the rest.
func TestLostRows(t *testing.T) {
	ctx := context.Background()
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		for _, lost := range []string{"t", "tx"} {
			t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
				db := kind.Open(t, nil)
				_, err := open(t, db).Create(ctx, store.Schema{
					Name: "t", Key: []store.KeyPart{store.OrderedPart("k", store.Int64, store.MOPE)},
					Columns: []store.Column{store.OrderedColumn("v", store.Int64, store.MOPE)},
				})
				require.NoError(t, err)
				lose(t, db, lost)
				st := open(t, db)
				_, err = st.Table(ctx, "t")
				require.ErrorContains(t, err, "restore that from a backup")
				require.NotContains(t, err.Error(), "verify --repair")
				made, err := remake.Derived(ctx, st, "t")
				require.NoError(t, err)
				require.Empty(t, made)
				require.NoError(t, st.Drop(ctx, "t"))
			})
		}
		_, err := remake.Derived(ctx, open(t, kind.Open(t, nil)), "none")
		require.ErrorIs(t, err, store.ErrNoTable)
	})
}
