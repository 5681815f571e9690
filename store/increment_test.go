package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// What is wrong with the column of an increment is said whether or not there is a row: a program that makes rows which are missing
// would make one, and ask again.
func TestIncrementsOfAColumnWithoutIntegers(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, store.Schema{
		Name: "t", Conditional: true,
		Key:     []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.RandomisedColumn("name", store.String), store.RandomisedColumn("n", store.Int64), store.RandomisedColumn("null", store.Int8)},
	})
	require.NoError(t, tbl.Insert(background, store.Row{"id": 1, "name": "a", "n": 1}))
	for _, id := range []int{1, 2} {
		for _, column := range []string{"name", "id", "other"} {
			_, err := tbl.Increment(background, store.Row{"id": id}, column, 1)
			require.ErrorIs(t, err, store.ErrColumn, "%s of %d", column, id)
			require.NotErrorIs(t, err, store.ErrNoRow)
			require.ErrorContains(t, err, column)
		}
	}
	_, err := tbl.Increment(background, store.Row{"id": 2}, "n", 1)
	require.ErrorIs(t, err, store.ErrNoRow)
	_, err = tbl.Increment(background, store.Row{"id": 1}, "null", 1)
	require.ErrorIs(t, err, store.ErrNull)
}
