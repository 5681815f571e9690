package instant

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

func cell(qualifier string, stamp int64) driver.Cell {
	return driver.Cell{Qualifier: []byte(qualifier), Value: []byte("v"), Stamp: stamp}
}

// TestAgreed has a row whose answers are of two instants at first, as where the server asks a copy for more: the head is of the first.
func TestAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := []driver.Cell{cell("", 1), cell("\x00", 5), cell("\x01a", 2), cell("\x01b", 3)}
		torn := []driver.Cell{cell("", 1), cell("\x00", 5), cell("\x01a", 2), cell("\x01bb", 6)}
		after := []driver.Cell{cell("", 6), cell("\x00", 6), cell("\x01aa", 6), cell("\x01bb", 6)}
		later := []driver.Cell{cell("", 6), cell("\x00", 6), cell("\x01aa", 7)}
		fault := errors.New("a fault")
		for name, c := range map[string]struct {
			answers [][]driver.Cell // nil is a fault
			whole   bool            // the head tells
			reads   int
			want    []driver.Cell
		}{
			"of one instant":                            {[][]driver.Cell{before}, true, 1, before},
			"of two":                                    {[][]driver.Cell{torn, after}, true, 2, after},
			"of two, and of two others":                 {[][]driver.Cell{torn, later, after}, true, 3, after},
			"a change that leaves the head as it is":    {[][]driver.Cell{later, later}, true, 2, later},
			"pieces, which the head says nothing about": {[][]driver.Cell{before, before}, false, 2, before},
			"pieces of a row that changes":              {[][]driver.Cell{before, torn, after, after}, false, 4, after},
			"no cells":                                  {[][]driver.Cell{{}}, true, 1, []driver.Cell{}},
			"a fault":                                   {[][]driver.Cell{torn, nil}, true, 2, nil},
		} {
			for _, stamps := range []bool{true, false} {
				var whole func([]driver.Cell) bool
				if c.whole {
					whole = OfHead
				}
				reads := 0
				got, err := Agreed(t.Context(), stamps, whole, func() ([]driver.Cell, error) {
					reads++
					if answer := c.answers[reads-1]; answer != nil {
						return append([]driver.Cell{}, answer...), nil
					}
					return nil, fault
				})
				require.Equal(t, c.reads, reads, name)
				if c.want == nil {
					require.ErrorIs(t, err, fault, name)
					continue
				}
				require.NoError(t, err, name)
				want := append([]driver.Cell{}, c.want...)
				for i := range want {
					if !stamps {
						want[i].Stamp = 0
					}
				}
				require.Equal(t, want, got, name)
			}
		}

		var stamp int64
		_, err := Agreed(t.Context(), false, OfHead, func() ([]driver.Cell, error) {
			stamp++
			return []driver.Cell{cell("\x01a", stamp)}, nil
		})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.Equal(t, int64(attempts), stamp)
	})
}
