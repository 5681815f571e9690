package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Verify finds a copy that is not of its row, and one whose row is gone, and Repair mends both.
func TestWrongCopies(t *testing.T) {
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(t.Context(), Schema{
		Name: "events", AppendOnly: true,
		Key:     []KeyPart{HashedPart("device", String), TiePart("id")},
		Columns: []Column{OrderedColumn("celsius", Int32, MOPE).Covering(), RandomisedColumn("note", String)},
	})
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, tbl.Put(t.Context(), Row{"device": "a", "celsius": i, "note": "n"}))
	}
	st.Close(t.Context()) // copies are put
	data, postings := tbl.now().Data, tbl.now().Postings
	rows := func() (n int) {
		for _, err := range tbl.Query(t.Context(), Query{Where: Int32.Field("celsius").Between(0, 2)}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, 3, rows())
	verify := func(repair bool) *inspect.Verification {
		v, err := tbl.Verify(t.Context(), &VerifyOptions{Repair: repair, Grace: 1})
		require.NoError(t, err)
		return v
	}
	require.True(t, verify(false).Sound())
	var copies []driver.Row
	for row, err := range postings.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		require.True(t, rowcodec.HasCopy(row.Cells[0].Value))
		copies = append(copies, row)
	}
	moved := driver.Mutation{Row: copies[0].Key, Puts: copies[1].Cells}
	require.NoError(t, postings.Apply(t.Context(), moved))
	v := verify(false)
	require.Equal(t, 1, v.Faults[inspect.FaultCopy])
	_, err = tbl.Count(t.Context(), Int32.Field("celsius").Between(0, 2))
	require.ErrorIs(t, err, ErrTampered, "a copy is bound to its place")
	require.Equal(t, 1, verify(true).Repaired)
	require.True(t, verify(false).Sound())
	require.Equal(t, 3, rows())
	for row, err := range data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		require.NoError(t, data.Apply(t.Context(), driver.Mutation{Row: row.Key, DeleteRow: true}))
		break
	}
	v = verify(false)
	require.Positive(t, v.Faults[inspect.FaultCopy])
	require.Positive(t, verify(true).Repaired)
	v = verify(false)
	require.True(t, v.Sound())
	require.Zero(t, v.Dangling)
	require.Equal(t, 2, rows())

	// Where all rows are gone at once, copies are the last that has their values: a repair leaves them, and rows that are put back fit.
	var lost []driver.Row
	for row, err := range data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		lost = append(lost, row)
	}
	for _, row := range lost {
		require.NoError(t, data.Apply(t.Context(), driver.Mutation{Row: row.Key, DeleteRow: true}))
	}
	for range 2 {
		v = verify(true)
		require.Equal(t, 2, v.Faults[inspect.FaultCopy])
		require.Zero(t, v.Repaired+v.Dropped)
		require.Equal(t, 2, rows())
	}
	for _, row := range lost {
		require.NoError(t, data.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: row.Cells}))
	}
	require.True(t, verify(false).Sound())
	require.Equal(t, 2, rows())
}

// A copy has plain columns sealed. If somebody changes one in the row, queries by copies do not see it, and Verify names the
// copy; a repair believes the row. See docs/security.md.
func TestCopiesOfChangedPlainColumns(t *testing.T) {
	st := stores(t, drivertest.NewMemory(), 1)[0]
	tbl, err := st.Create(t.Context(), Schema{
		Name: "events", AppendOnly: true,
		Key:     []KeyPart{HashedPart("device", String), TiePart("id")},
		Columns: []Column{OrderedColumn("celsius", Int32, MOPE).Covering(), PlainColumn("model", String)},
	})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"device": "a", "celsius": 1, "model": "old"}))
	st.Close(t.Context()) // copies are put
	model := func() (model any) {
		for row, err := range tbl.Query(t.Context(), Query{Where: Int32.Field("celsius").Equal(1)}) {
			require.NoError(t, err)
			model = row["model"]
		}
		return model
	}
	for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		for _, cell := range row.Cells {
			if cell.Value[0] == rowcodec.PlainFormat {
				cell.Value = append(cell.Value[:rowcodec.PlainOverhead:rowcodec.PlainOverhead], "new"...)
				require.NoError(t, tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: []driver.Cell{cell}}))
			}
		}
	}
	require.Equal(t, "old", model())
	v, err := tbl.Verify(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, v.Faults[inspect.FaultCopy])
	_, err = tbl.Verify(t.Context(), &VerifyOptions{Repair: true, Grace: 1})
	require.NoError(t, err)
	require.Equal(t, "new", model())
}
