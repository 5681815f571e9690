package people_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/people"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func shown(t *testing.T, width int, rows ...[]any) string {
	t.Helper()
	var flags celltext.Flags
	flags.BindConstants(pflag.NewFlagSet("", pflag.ContinueOnError))
	format, err := flags.Format()
	require.NoError(t, err)
	var columns []*celltext.Column
	for _, f := range []inspect.Field{{Name: "name", Type: "string"}, {Name: "n", Type: "int64"}} {
		c, err := format.Column(f)
		require.NoError(t, err)
		columns = append(columns, c)
	}
	var b bytes.Buffer
	table := people.New(&b, columns, show.Style{Width: width})
	for _, row := range rows {
		require.NoError(t, table.Write(row))
	}
	require.NoError(t, table.Close(false))
	return b.String()
}

func TestTables(t *testing.T) {
	require.Equal(t, "name  n\n", shown(t, 0))
	require.Equal(t, ""+
		"name              n\n"+
		"日本              7\n"+
		"\"\"               -1\n"+
		"\"\\x1b[31m\"\n"+
		"\" blank \"   1000000\n", shown(t, 80, []any{"日本", int64(7)}, []any{"", int64(-1)}, []any{"\x1b[31m", nil}, []any{" blank ", int64(1000000)}))
	require.Equal(t, "name: a longer\ntext\nn: 7\n\nname: b\n\n", shown(t, 15, []any{"a longer text", int64(7)}, []any{"b", nil}))
}

// The first rows decide. A wider text comes whole, and moves its own line only.
func TestFirstRowsDecide(t *testing.T) {
	var rows [][]any
	for range 200 {
		rows = append(rows, []any{"pump", int64(1)})
	}
	rows = append(rows, []any{strings.Repeat("x", 300), int64(2)}, []any{"last", int64(3)})
	lines := strings.Split(shown(t, 80, rows...), "\n")
	require.Len(t, lines, 204)
	require.Equal(t, "pump  1", lines[200])
	require.Equal(t, strings.Repeat("x", 300)+"  2", lines[201])
	require.Equal(t, "last  3", lines[202])
	wide := strings.Split(shown(t, 0, rows[200], rows[0]), "\n")
	require.Equal(t, "pump"+strings.Repeat(" ", 56)+"  1", wide[2])
}

// Of an error nothing is shown but the rows before it.
func TestNothingIsShownOfAnError(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, people.New(&b, nil, show.Style{}).Close(true))
	require.Empty(t, b.String())
}
