package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// What makes no sense where rows are only added is refused before anything is written, with words that say what to do.
func TestAppendOnlyRefuses(t *testing.T) {
	memory := drivertest.NewMemory()
	st := open(t, memory)
	device, tie := store.HashedPart("device", store.String), store.TiePart("id")
	celsius := store.OrderedColumn("celsius", store.Int32, store.MOPE)
	refused := func(err, is error, words ...string) {
		t.Helper()
		require.ErrorIs(t, err, is)
		for _, w := range words {
			require.ErrorContains(t, err, w)
		}
	}
	for _, c := range []struct {
		schema store.Schema
		words  []string
	}{
		{store.Schema{Key: []store.KeyPart{device, tie}, Columns: []store.Column{celsius.Covering()}}, []string{`column "celsius"`, "make the table with AppendOnly or Conditional"}},
		{store.Schema{Conditional: true, AppendOnly: true, Key: []store.KeyPart{device, tie}}, []string{"Conditional", "leave out one of the two"}},
		{store.Schema{AppendOnly: true, Key: []store.KeyPart{device}}, []string{"tie-breaker as the last part of the row key", "add it"}},
		{store.Schema{AppendOnly: true, Key: []store.KeyPart{tie}}, []string{"tie-breaker"}},
		{store.Schema{AppendOnly: true}, []string{"row key"}},
		{store.Schema{AppendOnly: true, Key: []store.KeyPart{device, tie}, Columns: []store.Column{store.RandomisedColumn("note", store.String).Covering()}}, []string{`column "note" is randomised`, "only ordered and deterministic columns"}},
		{store.Schema{AppendOnly: true, Key: []store.KeyPart{device, tie}, Columns: []store.Column{store.PlainColumn("note", store.String).Covering()}}, []string{`column "note" is plain`, "only ordered and deterministic columns"}},
		{store.Schema{AppendOnly: true, Key: []store.KeyPart{device, tie}, Columns: []store.Column{store.OrderedColumn("celsius", store.Int32, store.WozniakIndexed).Covering()}}, []string{`column "celsius"`, `take "wozniak"`}},
	} {
		c.schema.Name = "refused"
		refused(c.schema.Check(), store.ErrSchema, c.words...)
		_, err := st.Create(background, c.schema)
		refused(err, store.ErrSchema, c.words...)
	}
	tbl := create(t, st, covering())
	require.NoError(t, tbl.Put(background, store.Row{"device": "a", "id": store.LoadTie{1}, "celsius": 1}))
	row := store.Row{"device": "a", "id": store.LoadTie{1}, "celsius": 2}
	named := store.Row{"device": "a", "id": [16]byte{1}, "celsius": 2}
	for _, put := range []func() error{
		func() error { return tbl.Put(background, store.Row{"device": "b", "celsius": 1}, named) },
		func() error { return tbl.Insert(background, store.Row{"device": "b", "celsius": 1}, named) },
	} {
		refused(put(), store.ErrColumn, `key part "id" is named`, "leave it out, or give a LoadTie", "row 1")
	}
	for _, put := range []func() error{
		func() error { return tbl.Put(background, row) }, func() error { return tbl.Insert(background, row) },
		func() error { return tbl.Put(background, store.Row{"device": "a", "id": store.LoadTie{1}}) },
	} {
		refused(put(), store.ErrRowExists, "with other values", "give the load of other rows another name")
	}
	for _, change := range []func() error{
		func() error { return tbl.Update(background, named) }, func() error { return tbl.Update(background, row) },
		func() error { return tbl.Upsert(background, named) }, func() error { return tbl.UpdateIf(background, named, store.Row{"celsius": 1}) },
		func() error {
			_, err := tbl.Increment(background, store.Row{"device": "a", "id": [16]byte{1}}, "celsius", 1)
			return err
		},
	} {
		refused(change(), store.ErrSchema, "AppendOnly are never changed", "Delete the row, and Put another in its place")
	}
	for _, c := range []store.Column{celsius.Covering(), celsius, store.OrderedColumn("celsius", store.Int32, store.WozniakIndexed).Covering(), store.PlainColumn("celsius", store.Int32).Covering()} {
		d := c.Describe()
		err := st.Alter(background, "events", store.ChangeColumn(c))
		if d.Scheme == "mope" {
			require.NoError(t, err)
			continue
		}
		refused(err, store.ErrSchema, `column "celsius"`, "cover")
	}
	refused(st.Alter(background, "events", store.AddColumn(store.RandomisedColumn("more", store.Int32).Covering())), store.ErrSchema, `"more"`, "only ordered and deterministic columns")
	other := covering()
	other.Name, other.AppendOnly = "replaced", false
	for i, c := range other.Columns {
		if c.Describe().Covering {
			other.Columns[i] = store.OrderedColumn(c.Describe().Name, store.Int32, store.MOPE)
		}
	}
	create(t, st, other)
	refused(st.Alter(background, "replaced", store.ChangeColumn(celsius.Covering())), store.ErrSchema, "whose rows may be replaced unseen", "make the table with AppendOnly or Conditional")
	refused(st.Alter(background, "replaced", store.AddColumn(store.DeterministicColumn("more", store.Int32).Covering())), store.ErrSchema, `"more"`, "make the table with AppendOnly")
	refused(tbl.Expiring(time.Hour).Put(background, store.Row{"device": "b"}), store.ErrSchema, "SetTTL")
	n, err := tbl.Count(background, store.Predicate{})
	require.NoError(t, err)
	require.Equal(t, 1, n, "nothing was written")
}
