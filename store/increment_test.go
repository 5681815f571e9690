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

// Programs give many structs one pointer, as to a default. Who gets a sum has it alone: the others would be put with it.
func TestIncrementLeavesSharedPointers(t *testing.T) {
	type counter struct {
		ID int64  `rangecrypt:"id,key=1,hashed"`
		N  *int64 `rangecrypt:"n"`
	}
	st := open(t, drivertest.NewMemory())
	schema := store.Must(store.SchemaOf[counter]("t"))
	schema.Conditional = true
	create(t, st, schema)
	of, err := store.For[counter](background, st, "t")
	require.NoError(t, err)
	start := int64(1)
	one, two := &counter{1, &start}, &counter{2, &start}
	require.NoError(t, of.Put(background, one, two))
	require.NoError(t, of.Increment(background, one, "n", 4))
	require.EqualValues(t, 5, *one.N)
	require.EqualValues(t, 1, *two.N, "the number of another struct was changed")
	require.EqualValues(t, 1, start)
}
