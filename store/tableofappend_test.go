package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// An added is a row of a table whose rows are only added, and addedByLoad one that may be put again.
type (
	added struct {
		Device  string    `rangecrypt:"device,key=1,hashed"`
		ID      store.Tie `rangecrypt:"id,key=2"`
		Celsius *int32    `rangecrypt:"celsius,ordered=mope,covering"`
		Note    string    `rangecrypt:"note"`
	}
	addedByLoad struct {
		Device  string        `rangecrypt:"device,key=1"`
		ID      store.LoadTie `rangecrypt:"id,key=2"`
		Celsius *int32        `rangecrypt:"celsius"`
		Note    string        `rangecrypt:"note"`
	}
)

// A tag that covers makes a table whose rows are only added. A tie-breaker is drawn for each row, and none can be named.
func TestStructsThatAreOnlyAdded(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	tbl := opened[added](t, st, "events", nil)
	schema := tbl.Table().Schema()
	require.True(t, schema.AppendOnly)
	require.True(t, schema.Columns[0].Describe().Covering)
	require.False(t, schema.Columns[1].Describe().Covering)

	rows := []*added{{Device: "pump", Celsius: pointerTo(int32(20)), Note: "a"}, {Device: "pump", Note: "\xff"}}
	err := tbl.Put(background, rows...)
	require.ErrorIs(t, err, ope.ErrDomain)
	require.ErrorContains(t, err, "row 1: ")
	require.Zero(t, rows[0].ID, "nothing was written")
	rows[1].Note = "b"
	require.NoError(t, tbl.Put(background, rows...))
	for _, row := range rows {
		require.NotZero(t, row.ID)
		got, err := tbl.Get(background, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
	}
	for _, put := range []func(context.Context, ...*added) error{tbl.Put, tbl.Insert} {
		err = put(background, &added{Device: "pump"}, rows[0])
		require.ErrorIs(t, err, store.ErrColumn)
		require.ErrorContains(t, err, "row 1: ")
		require.ErrorContains(t, err, "field added.ID is not zero: the store draws the tie-breakers of rows that are never replaced")
		require.ErrorContains(t, err, "set the field to zero to add a row, or make it a store.LoadTie to put one again")
	}
	require.NoError(t, tbl.Insert(background, &added{Device: "press", Celsius: pointerTo(int32(20))}))
	n := 0
	for row, err := range tbl.Query(background, store.Query{Where: store.Int32.Field("celsius").Equal(20)}) {
		require.NoError(t, err)
		require.NotZero(t, row.ID)
		n++
	}
	require.Equal(t, 2, n)
	require.NoError(t, tbl.Delete(background, rows...))
	require.Equal(t, 1, rowsIn(t, tbl.Table()))

	// A row of a load is put again as it was, and is there once.
	loads, err := store.For[addedByLoad](background, st, "events")
	require.NoError(t, err, "a tag without covering leaves it as the table has it")
	drawn, named := &addedByLoad{Device: "pump"}, &addedByLoad{Device: "pump", ID: store.LoadTie{7}, Celsius: pointerTo(int32(1)), Note: "c"}
	for range 2 {
		require.NoError(t, loads.Put(background, drawn, named))
		require.NotZero(t, drawn.ID)
		require.Equal(t, store.LoadTie{7}, named.ID)
		require.Equal(t, 3, rowsIn(t, tbl.Table()))
	}
	require.NoError(t, loads.Insert(background, named))
	got, err := loads.Get(background, named)
	require.NoError(t, err)
	require.Equal(t, named, got)
	named.Celsius = nil
	err = loads.Put(background, drawn, named)
	require.ErrorIs(t, err, store.ErrRowExists)
	require.ErrorContains(t, err, "row 1: ")
	require.NoError(t, loads.Delete(background, named, drawn))
	require.Equal(t, 1, rowsIn(t, tbl.Table()))
}

func rowsIn(t *testing.T, tbl *store.Table) int {
	t.Helper()
	n, err := tbl.Count(background, store.Predicate{})
	require.NoError(t, err)
	return n
}

// Where rows may be replaced, a LoadTie is as a Tie: drawn if it is zero, and replaced by the same Put.
func TestStructsWithLoadTies(t *testing.T) {
	type row struct {
		Device string        `rangecrypt:"device,key=1,hashed"`
		ID     store.LoadTie `rangecrypt:"id,key=2"`
		Note   string        `rangecrypt:"note"`
	}
	tbl := opened[row](t, open(t, testdb.All[0].Open(t, nil)), "notes", nil)
	require.False(t, tbl.Table().Schema().AppendOnly)
	rows := []*row{{Device: "pump", Note: "a"}, {Device: "pump", ID: store.LoadTie{1}, Note: "b"}}
	for range 2 {
		require.NoError(t, tbl.Put(background, rows...))
		require.NotZero(t, rows[0].ID)
		for _, row := range rows {
			got, err := tbl.Get(background, row)
			require.NoError(t, err)
			require.Equal(t, row, got)
			row.Note += "!"
		}
	}
	require.Equal(t, 2, rowsIn(t, tbl.Table()))
}

// A row that may have been written is named by its struct, which is not put again by mistake.
func TestStructsThatMayHaveBeenAdded(t *testing.T) {
	lost := false
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		err := c.Make(nil)
		if lost && op.Method == "Apply" {
			return errors.New("the answer was lost")
		}
		return err
	}, nil)
	tbl := opened[added](t, open(t, db), "events", nil)
	row := &added{Device: "pump", Celsius: pointerTo(int32(20))}
	lost = true
	err := tbl.Put(background, row)
	require.ErrorAs(t, err, new(*store.BatchError))
	require.NotZero(t, row.ID)
	require.ErrorIs(t, tbl.Put(background, row), store.ErrColumn)
	lost = false
	_, err = tbl.Get(background, row)
	require.ErrorIs(t, err, store.ErrNoRow, "only index entries were written")
	row.ID = store.Tie{}
	require.NoError(t, tbl.Put(background, row))
	require.Equal(t, 1, rowsIn(t, tbl.Table()))
}
