package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var anyBytes = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 0, 6)

func TestCellsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := append([]byte("r"), anyBytes.Draw(t, "row")...)
		var wire []byte
		var want []driver.Cell
		for range rapid.IntRange(1, 4).Draw(t, "cells") {
			c := driver.Cell{Qualifier: anyBytes.Draw(t, "qualifier"), Value: anyBytes.Draw(t, "value")}
			want = append(want, c)
			before := len(wire)
			wire = AppendCell(wire, row, QualifierHeader, c.Qualifier, Latest, TypePut, ValueHeader, c.Value)
			require.Equal(t, CellSize(len(row), 1+len(c.Qualifier), 1+len(c.Value)), len(wire)-before)
		}
		key, cells, read, err := DecodeRow(append(wire, "more"...), len(want), true)
		require.NoError(t, err)
		require.Equal(t, len(wire), read)
		require.Equal(t, row, key)
		for i, c := range cells {
			require.EqualValues(t, int64(Latest), c.Stamp)
			require.True(t, bytes.Equal(want[i].Qualifier, c.Qualifier) && bytes.Equal(want[i].Value, c.Value))
			require.Zero(t, cap(c.Value)-len(c.Value)+cap(c.Qualifier)-len(c.Qualifier), "an append would write into a neighbour")
		}
		for n := range wire {
			_, _, _, err := DecodeRow(wire[:n], len(want), false)
			require.Error(t, err)
		}
	})
}

// The error of a cell that somebody has put by hand says how it is found, and shows neither its row key nor its value.
func TestCellOfNoFormat(t *testing.T) {
	row := AppendCell(nil, []byte("row"), QualifierHeader, []byte("q"), 1, TypePut, ValueHeader, []byte("v"))
	row = AppendCell(row, []byte("row"), "", []byte("z\xff"), 1795960544117, TypePut, ValueHeader, []byte("value"))
	_, cells, read, err := DecodeRow(row, 2, false)
	require.Nil(t, cells)
	require.Len(t, row, read)
	require.ErrorIs(t, err, driver.ErrLayout)
	require.ErrorContains(t, err, `column "c:z\xff"`)
	require.ErrorContains(t, err, "TIMERANGE => [1795960544117, 1795960544118]")
	require.NotContains(t, err.Error(), "row")
	require.NotContains(t, err.Error(), "value")
}

func FuzzDecodeRow(f *testing.F) {
	f.Add(AppendCell(nil, []byte("row"), QualifierHeader, []byte("q"), Latest, TypePut, ValueHeader, []byte("v")), 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		_, cells, read, err := DecodeRow(b, n, true)
		if err == nil && (len(cells) != n || read > len(b)) {
			t.Fatalf("%d cells of %d in %d bytes of %d", len(cells), n, read, len(b))
		}
	})
}
