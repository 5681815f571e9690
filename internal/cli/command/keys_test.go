package command

import (
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/stretchr/testify/require"
)

// Columns that share a key and have two are an error.
func TestKeysThatAreNotShared(t *testing.T) {
	column := func(name, key, other string) inspect.Field {
		return inspect.Field{Name: name, SearchKey: key, SharedWith: []string{other}}
	}
	d := inspect.Database{Tables: []inspect.Table{
		{Name: "t", Columns: []inspect.Field{column("a", "1", "u.b")}}, {Name: "u", Columns: []inspect.Field{column("b", "1", "t.a")}},
	}}
	require.NoError(t, checkShared(d))
	d.Tables[1].Columns[0].SearchKey = "2"
	require.ErrorContains(t, checkShared(d), "t.a and u.b share a key")
	require.Equal(t, exit.Wrong, exit.CodeOf(t.Context(), checkShared(d)))

	// Another column may have the name of one, with that of its table.
	d.Tables[1].Columns[0].SearchKey = "1"
	d.Tables = append(d.Tables, inspect.Table{Name: "u.b", Columns: []inspect.Field{{Name: "c", SearchKey: "3"}}}, inspect.Table{Name: "u", Columns: []inspect.Field{{Name: "b.c", SearchKey: "4"}}},
		inspect.Table{Name: "v", Columns: []inspect.Field{column("d", "3", "u.b.c")}})
	require.NoError(t, checkShared(d))
}
