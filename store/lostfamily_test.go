package store_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A table of which the database has lost a part is no table that was dropped.
func TestLostFamily(t *testing.T) {
	for _, prefix := range []string{"t", "x"} { // rows, index entries
		db := drivertest.NewMemory()
		st := open(t, db)
		live, err := st.Create(background, store.Schema{
			Name: "t", Key: []store.KeyPart{store.OrderedPart("k", store.Int64, store.MOPE)},
			Columns: []store.Column{store.OrderedColumn("v", store.Int64, store.MOPE)},
		})
		require.NoError(t, err)
		families, err := db.Families(background)
		require.NoError(t, err)
		for _, name := range families {
			if strings.HasPrefix(name, prefix) {
				require.NoError(t, db.Drop(background, name))
			}
		}
		_, err = live.Count(background, store.Field[int64]("v").Equal(1))
		require.ErrorIs(t, err, store.ErrNoTable)
		require.ErrorContains(t, err, "or the database has lost a part of it; open it again to see which")
		_, err = open(t, db).Table(background, "t")
		require.ErrorIs(t, err, store.ErrTampered)
		require.ErrorIs(t, err, driver.ErrNoFamily)
		require.ErrorContains(t, err, `the database has lost a part of table "t"`)
		require.NotErrorIs(t, err, store.ErrNoTable)
	}
}

// No index is begun that several tables use while one of them has lost a part: it would not come to an end, and nobody could write new values.
func TestLostFamilyOfATableThatSharesAnIndex(t *testing.T) {
	for _, opened := range []bool{false, true} {
		db := drivertest.NewMemory()
		st := open(t, db)
		before, err := db.Families(background)
		require.NoError(t, err)
		var families []string // of the table that is to lose one
		var kept *store.Table
		for _, name := range []string{"lost", "kept"} {
			kept, err = st.Create(background, store.Schema{
				Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
				Columns: []store.Column{store.OrderedColumn("wide", store.Int32, store.Kerschbaum).DatabaseWide()},
			})
			require.NoError(t, err)
			require.NoError(t, kept.Put(background, store.Row{"id": int64(1), "wide": int32(1)}))
			if families == nil {
				families, err = db.Families(background)
				require.NoError(t, err)
				families = slices.DeleteFunc(families, func(f string) bool { return !strings.HasPrefix(f, "t") || slices.Contains(before, f) })
			}
		}
		require.Len(t, families, 1)
		require.NoError(t, db.Drop(background, families[0]))
		if !opened {
			kept, err = open(t, db).Table(background, "kept")
			require.NoError(t, err)
		}
		require.ErrorContains(t, kept.RebuildIndex(background, "wide", nil), `table "lost"`)
		require.NoError(t, kept.Put(background, store.Row{"id": int64(2), "wide": int32(2)}))
		report, err := kept.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, report.Sound())
		require.NoError(t, st.Drop(background, "lost"))
		require.NoError(t, kept.RebuildIndex(background, "wide", nil))
	}
}

// A catalogue that is gone beside the data of tables is not made again: nobody could read these with a new one.
func TestLostCatalogue(t *testing.T) {
	losses := map[string]func(t *testing.T, db driver.DB){
		"row": func(t *testing.T, db driver.DB) {
			f, err := db.Family(background, catalogue.Spec)
			require.NoError(t, err)
			require.NoError(t, f.Apply(background, driver.Mutation{Row: catalogue.Row, DeleteRow: true}))
		},
		"family": func(t *testing.T, db driver.DB) { require.NoError(t, db.Drop(background, catalogue.FamilyName)) },
	}
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		for name, lose := range losses {
			t.Run(name, func(t *testing.T) {
				db := kind.Open(t, nil)
				live := create(t, open(t, db), accounts)
				before, err := db.Families(background)
				require.NoError(t, err)
				lose(t, db)
				if name == "row" { // an open client is told, too, what is to be done
					_, err := live.Describe(background)
					require.ErrorIs(t, err, store.ErrTampered)
					require.ErrorContains(t, err, "end all clients, and restore the newest copy of the catalogue")
				}
				for _, key := range []kms.KMS{kms.NewLocal(testKey), kms.NewLocal(ope.GenerateKey())} {
					_, err = store.Open(background, db, key, nil)
					require.ErrorIs(t, err, store.ErrTampered)
					require.ErrorContains(t, err, "the catalogue is gone")
				}
				after, err := db.Families(background)
				require.NoError(t, err)
				if name == "row" {
					require.Equal(t, before, after)
					f, err := db.Family(background, catalogue.Spec)
					require.NoError(t, err)
					cells, err := f.Get(background, catalogue.Row, driver.Slice{})
					require.NoError(t, err)
					require.Empty(t, cells)
				} else {
					require.NotContains(t, after, catalogue.FamilyName, "it would be in the way of a backup that is put back")
				}
			})
		}
	})
}

// A root with a changed byte opens no store. Behind the wrapped key, which is that of the master key or is not, it was changed.
func TestChangedRoot(t *testing.T) {
	db := drivertest.NewMemory()
	create(t, open(t, db), accounts)
	f, err := db.Family(background, catalogue.Spec)
	require.NoError(t, err)
	cells, err := f.Get(background, catalogue.Row, catalogue.OnlyRoot)
	require.NoError(t, err)
	wrapped, _, err := catalogue.CutRoot(cells[0].Value)
	require.NoError(t, err)
	for i := range cells[0].Value {
		changed := bytes.Clone(cells[0].Value)
		changed[i] ^= 1 << (i % 8)
		require.NoError(t, f.Apply(background, driver.Mutation{Row: catalogue.Row, Puts: []driver.Cell{{Qualifier: catalogue.RootQualifier, Value: changed}}}))
		_, err := store.Open(background, db, kms.NewLocal(testKey), nil)
		require.Error(t, err, "byte %d", i)
		if i >= 3+len(wrapped) {
			require.ErrorIs(t, err, store.ErrTampered, "byte %d", i)
		}
	}
}
