package value

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bytes of floating point numbers in cells, as docs/format.md has them. They are for ever.
func TestStoredFloats(t *testing.T) {
	for _, c := range []struct {
		bits uint64
		cell string
	}{
		{0x0000000000000000, "8000000000000000"}, {0x8000000000000000, "0000000000000000"},
		{0x0000000000000001, "8000000000000001"}, {0x8000000000000001, "7fffffffffffffff"},
		{0x3ff0000000000000, "bff0000000000000"}, {0xbff0000000000000, "4010000000000000"},
		{0x7ff0000000000000, "fff0000000000000"}, {0xfff0000000000000, "0010000000000000"},
		{0x7ff8000000000001, "fff8000000000001"}, {0x7fffffffffffffff, "ffffffffffffffff"},
		{0xffffffffffffffff, "0000000000000001"},
	} {
		value := math.Float64frombits(c.bits)
		cell := Float64.AppendStored(nil, value)
		require.Equal(t, c.cell, hex.EncodeToString(cell))
		read, err := Float64.Parse(cell)
		require.NoError(t, err)
		require.Equal(t, c.bits, math.Float64bits(read.(float64)))
		if c.bits != 1<<63 && !Float64.Unordered(value) {
			require.Equal(t, cell, Float64.Append(nil, value), "the canonical bytes")
		}
	}
	for bits, cell := range map[uint32]string{0: "80000000", 1 << 31: "00000000", 0xff800000: "00800000", 0x7fc00001: "ffc00001", 0xffffffff: "00000001"} {
		require.Equal(t, cell, hex.EncodeToString(Float32.AppendStored(nil, math.Float32frombits(bits))))
		read, err := Float32.Parse(Float32.AppendStored(nil, math.Float32frombits(bits)))
		require.NoError(t, err)
		require.Equal(t, bits, math.Float32bits(read.(float32)))
	}
	require.Equal(t, Float64.Append(nil, 0.0), Float64.Append(nil, math.Copysign(0, -1)), "equal values have equal canonical bytes")
}

// What is empty is a value, and nil is none.
func TestEmptyIsNotNil(t *testing.T) {
	for _, cell := range [][]byte{nil, {}} {
		v, err := Bytes.Parse(cell)
		require.NoError(t, err)
		require.NotNil(t, v)
	}
}

// What AppendSortable makes of a value is cut off again, whatever follows, and what is cut short is an error.
func TestCutSortable(t *testing.T) {
	for _, c := range []struct {
		typ Type
		v   any
	}{
		{String, ""}, {String, "a"}, {String, "a\x00"}, {String, "\x00\x01\x00\xff"}, {Bytes, []byte{}}, {Bytes, []byte{0, 0, 1, 0xff}},
		{Int64, int64(-5)}, {Uint8, uint8(0)}, {UUID, [16]byte{1}}, {Bool, true}, {Float64, -1.5},
	} {
		for _, rest := range []string{"", "\x00\x01", "\xff", "more"} {
			b := AppendSortable(nil, c.typ, c.v)
			v, left, err := CutSortable(append(b, rest...), c.typ)
			require.NoError(t, err)
			require.Equal(t, c.v, v)
			require.Equal(t, rest, string(left))
			for n := range b {
				_, _, err := CutSortable(b[:n], c.typ)
				require.Error(t, err)
			}
		}
	}
	_, _, err := CutSortable([]byte("a\x00\x02"), String)
	require.Error(t, err)
}
