package driver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowSetIsASet(t *testing.T) {
	for n := range 300 {
		rows := make([][]byte, n)
		for i := range rows {
			rows[i] = fmt.Append(nil, rand.IntN(max(n, 2)*(1+n%3)))
		}
		set, known := newRowSet(n, func(i int) []byte { return rows[i] }), make(map[string]bool)
		for i, row := range rows {
			require.Equal(t, !known[string(row)], set.add(i), "row %d of %d", i, n)
			known[string(row)] = true
			if n > 1 {
				require.False(t, set.add(i), "again")
			}
		}
	}
}
