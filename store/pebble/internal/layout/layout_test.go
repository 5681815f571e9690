package layout

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeyOrder(t *testing.T) {
	edgeBytes := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0x7f, 0x80, 0xfe, 0xff}), 0, 6)
	type key struct {
		id     uint32
		row, q []byte
	}
	gen := rapid.Custom(func(t *rapid.T) key {
		return key{rapid.SampledFrom([]uint32{1, 2, 255, 256, math.MaxUint32}).Draw(t, "id"), edgeBytes.Draw(t, "row"), edgeBytes.Draw(t, "q")}
	})
	encode := func(k key) []byte { return append(AppendRow(nil, k.id, k.row), k.q...) }
	rapid.Check(t, func(t *rapid.T) {
		x, y := gen.Draw(t, "x"), gen.Draw(t, "y")
		ex, ey := encode(x), encode(y)
		want := bytes.Compare(x.row, y.row)
		if x.id != y.id {
			want = 1
			if x.id < y.id {
				want = -1
			}
		} else if want == 0 {
			want = bytes.Compare(x.q, y.q)
		}
		require.Equal(t, want, bytes.Compare(ex, ey))

		n, err := RowPrefixLen(ex)
		require.NoError(t, err)
		require.Equal(t, x.q, append([]byte{}, ex[n:]...))
		require.Equal(t, x.row, AppendUnescaped([]byte{}, ex[:n]))

		if x.id == y.id {
			// The bounds of rows.
			bound := AppendEscaped(AppendFamily(nil, x.id), x.row)
			require.Equal(t, bytes.Compare(y.row, x.row) >= 0, bytes.Compare(ey, bound) >= 0, "from a row on")
			require.Equal(t, bytes.Compare(y.row, x.row) > 0, bytes.Compare(ey, Above(AppendRow(nil, x.id, x.row))) >= 0, "above a row")
		}
	})
}

func TestDamagedKeysAndValues(t *testing.T) {
	for _, key := range []string{"", "\x00\x00\x00\x01", "\x00\x00\x00\x01ab", "\x00\x00\x00\x01a\x00", "\x00\x00\x00\x01a\x00\x02", "\x00\x00\x00\x01a\x00\xff"} {
		_, err := RowPrefixLen([]byte(key))
		require.ErrorIs(t, err, ErrKey, "%q", key)
	}
	for _, env := range []string{"", "\x02value", "\x01", "\x01\x00\x00\x00\x00\x00\x00\x00"} {
		_, _, err := OpenEnvelope([]byte(env), time.Now())
		require.ErrorIs(t, err, ErrValue, "%q", env)
	}
}
