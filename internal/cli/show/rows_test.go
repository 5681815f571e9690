package show

import (
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
