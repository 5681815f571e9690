package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A table of which the database has lost a part is no table that was dropped.
func TestLostFamily(t *testing.T) {
	for _, prefix := range []string{"t", "x"} { // rows, index entries
		db := drivertest.NewMemory()
		st := open(t, db)
		_, err := st.Create(background, store.Schema{
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
		_, err = open(t, db).Table(background, "t")
		require.ErrorIs(t, err, store.ErrTampered)
		require.ErrorIs(t, err, driver.ErrNoFamily)
		require.ErrorContains(t, err, `the database has lost a part of table "t"`)
		require.NotErrorIs(t, err, store.ErrNoTable)
	}
}
