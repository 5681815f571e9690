package show

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rows are a table without empty columns, and paragraphs where that is too wide.
func TestRows(t *testing.T) {
	headers := []string{"NAME", "SCHEME", "NOTHING", "ROWS"}
	rows := [][]string{{"a long name", "mope", "", "1"}, {"b", "", "", "20"}}
	table := "NAME         SCHEME  ROWS\na long name  mope       1\nb                      20\n"
	require.Equal(t, table, Rows(headers, rows, []int{3}, Style{}))
	require.Equal(t, table, Rows(headers, rows, []int{3}, Style{Width: 25}))
	require.Equal(t, "a long name\n  scheme: mope\n  rows: 1\nb\n  rows: 20\n", Rows(headers, rows, []int{3}, Style{Width: 24}))
	require.Equal(t, "NAME\n", Rows(headers, nil, nil, Style{}))
}

// What is counted is named as one or as many.
func TestCounted(t *testing.T) {
	require.Equal(t, "1 row", Counted(1, "row"))
	require.Equal(t, "0 rows", Counted(0, "row"))
	require.Equal(t, "1 index entry", Counted(1, "index entry"))
	require.Equal(t, "2 index entries", Counted(2, "index entry"))
	require.Equal(t, "2 keys", Counted(2, "key"))
	require.Equal(t, "3 indexes", Counted(3, "index"))
	require.Equal(t, "has", Verb(1, "has", "have"))
	require.Equal(t, "have", Verb(0, "has", "have"))
}

func TestAppendFloat(t *testing.T) {
	for want, v := range map[string]float64{"inf": math.Inf(1), "-inf": math.Inf(-1), "-0.0": math.Copysign(0, -1), "0": 0, "1e+300": 1e300, "0.1": 0.1} {
		require.Equal(t, "x "+want, string(AppendFloat([]byte("x "), v, 64)))
	}
	require.Equal(t, "0.1", string(AppendFloat(nil, float64(float32(0.1)), 32)))
}

// A list of names can be told apart, and given to a flag again.
func TestNames(t *testing.T) {
	require.Equal(t, `a, "b,c", "d\ne", f g`, Names([]string{"a", "b,c", "d\ne", "f g"}))
}
