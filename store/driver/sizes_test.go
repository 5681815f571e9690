package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	var s Sizes
	whole, one := Slice{}, Slice{Only: [][]byte{nil}}
	require.Equal(t, 16, s.Rows(whole, 1<<20, 64), "nothing is known")
	require.Equal(t, 4, s.Rows(whole, 1<<20, 4))
	s.Saw(one, 10, 1000)
	require.Equal(t, 64, s.Rows(one, 1<<20, 64))
	require.Equal(t, 16, s.Rows(whole, 1<<20, 64), "other cells")
	s.Saw(one, 0, 0)
	require.Equal(t, 64, s.Rows(one, 1<<20, 64))
	s.Saw(one, 2, 2*MaxValue)
	require.Equal(t, 1, s.Rows(one, 1<<20, 64))
	s.Saw(one, 10, 1000)
	require.Equal(t, 1, s.Rows(one, 1<<20, 64), "large rows are remembered")
	for range 100 {
		s.Saw(one, 10, 1000)
	}
	require.Equal(t, 64, s.Rows(one, 1<<20, 64))
}
