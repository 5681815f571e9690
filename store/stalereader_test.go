package store_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// changedBehind makes a table with column v, which another client than the first one changes. All rows are converted then.
func changedBehind(t *testing.T, was, is store.Column) (stale, fresh *store.Table) {
	t.Helper()
	db := drivertest.NewMemory()
	other := open(t, db)
	stale = create(t, open(t, db), store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{was}})
	for i := range 20 {
		require.NoError(t, stale.Put(background, store.Row{"id": i, "v": i % 5}))
	}
	require.NoError(t, other.Alter(background, "t", store.ChangeColumn(is)))
	fresh, err := other.Table(background, "t")
	require.NoError(t, err)
	_, err = fresh.Convert(background, nil)
	require.NoError(t, err)
	return stale, fresh
}

// A client that has read nothing since another one changed a column refuses no query which the table can answer by now.
func TestStaleReaderRefusesNothingThatTheTableTakes(t *testing.T) {
	unsearched, ordered := store.RandomisedColumn("v", store.Int32), store.OrderedColumn("v", store.Int32, store.MOPE)
	where := store.Int32.Field("v").AtLeast(3)
	for name, q := range map[string]store.Query{
		"an index is required": {Where: where, RequireIndex: true},
		"an order to reverse":  {Where: where, Reverse: true},
		"a column is named":    {Where: where, By: "v"},
	} {
		t.Run(name, func(t *testing.T) {
			stale, _ := changedBehind(t, unsearched, ordered)
			rows, err := all(stale, q)
			require.NoError(t, err)
			require.Len(t, rows, 8)
		})
	}
	t.Run("pages", func(t *testing.T) {
		stale, _ := changedBehind(t, ordered.ServerIndex(), ordered)
		rows, next, err := stale.Page(background, store.Query{Where: where, Limit: 5})
		require.NoError(t, err)
		require.Len(t, rows, 5)
		require.NotEmpty(t, next)
	})
	t.Run("a token of another client", func(t *testing.T) {
		stale, fresh := changedBehind(t, unsearched, ordered)
		first, next, err := fresh.Page(background, store.Query{Where: where, Limit: 5})
		require.NoError(t, err)
		rest, next, err := stale.Page(background, store.Query{Where: where, Limit: 5, PageToken: next})
		require.NoError(t, err)
		require.Empty(t, next)
		ids := make(map[any]bool)
		for _, row := range append(first, rest...) {
			ids[row["id"]] = true
		}
		require.Len(t, ids, 8)
	})
	t.Run("the plan", func(t *testing.T) {
		stale, _ := changedBehind(t, unsearched, ordered)
		e, err := stale.Explain(background, store.Query{Where: where, RequireIndex: true})
		require.NoError(t, err)
		require.Equal(t, "v", e.Driver)
	})
	t.Run("what is wrong stays so", func(t *testing.T) {
		stale, _ := changedBehind(t, ordered, unsearched)
		_, err := all(stale, store.Query{Where: where, Limit: -1})
		require.ErrorIs(t, err, driver.ErrRange)
		_, _, err = stale.Page(background, store.Query{Where: where, Limit: 1, PageToken: "x"})
		require.ErrorIs(t, err, store.ErrToken)
		_, err = all(stale, store.Query{Where: where, RequireIndex: true})
		require.ErrorIs(t, err, store.ErrScan)
	})
}

// Nor does it refuse a join of columns that have been converted, or are searched or named so by now, on whichever side it is stale.
func TestStaleReaderJoins(t *testing.T) {
	v := store.DeterministicColumn("v", store.Int32)
	join := func(left, right *store.Table, column string) (n int) {
		t.Helper()
		for _, err := range store.Join(background, left, column, right, column, nil) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	stale, _ := changedBehind(t, store.RandomisedColumn("v", store.Int32), v)
	require.Equal(t, 80, join(stale, stale, "v"))

	db := drivertest.NewMemory()
	reader, other := open(t, db), open(t, db)
	l := create(t, reader, store.Schema{Name: "l", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{v.DatabaseWide()}})
	r := create(t, reader, store.Schema{Name: "r", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{v}})
	require.NoError(t, l.Put(background, store.Row{"id": 1, "v": 7}))
	require.NoError(t, r.Put(background, store.Row{"id": 2, "v": 7}))
	require.NoError(t, other.Alter(background, "r", store.ChangeColumn(v.DatabaseWide())))
	fresh, err := other.Table(background, "r")
	require.NoError(t, err)
	for _, err := range store.Join(background, l, "v", r, "v", nil) {
		require.ErrorIs(t, err, store.ErrColumn)
		require.ErrorContains(t, err, "not all rows were converted")
	}
	_, err = fresh.Convert(background, nil)
	require.NoError(t, err)
	require.Equal(t, 1, join(l, r, "v"))
	for _, name := range []string{"l", "r"} {
		require.NoError(t, other.Alter(background, name, store.RenameColumn("v", "x")))
	}
	require.Equal(t, 1, join(r, l, "x"))
}

// Min and Max leave out NaN whatever the client knows of the column.
func TestStaleReaderFindsNoNaN(t *testing.T) {
	db := drivertest.NewMemory()
	other := open(t, db)
	stale := create(t, open(t, db), store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.PlainColumn("w", store.Float64)}})
	require.NoError(t, other.Alter(background, "t", store.DropColumn("w"), store.AddColumn(store.PlainColumn("f", store.Float64))))
	require.NoError(t, other.Alter(background, "t", store.AddColumn(store.PlainColumn("w", store.Int32))))
	fresh, err := other.Table(background, "t")
	require.NoError(t, err)
	require.NoError(t, fresh.Put(background, store.Row{"id": 1, "f": math.NaN(), "w": 5}))
	// What names f makes it known that w has another type.
	most, err := stale.Max(background, "w", store.IsNaN("f"))
	require.NoError(t, err)
	require.Equal(t, int32(5), most)

	require.NoError(t, other.Alter(background, "t", store.AddColumn(store.PlainColumn("g", store.Float32))))
	require.NoError(t, fresh.Put(background, store.Row{"id": 1, "g": float32(math.NaN())}))
	for _, extreme := range []func() (any, error){
		func() (any, error) { return stale.Min(background, "g", store.Predicate{}) },
		func() (any, error) { return stale.Max(background, "g", store.Predicate{}) },
	} {
		v, err := extreme()
		require.NoError(t, err)
		require.Nil(t, v)
	}
}
