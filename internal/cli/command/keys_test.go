package command

import (
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/stretchr/testify/require"
)

// Columns that share a key and have two are an error.
func TestKeysThatAreNotShared(t *testing.T) {
	column := func(name, key, other string) store.FieldDescription {
		return store.FieldDescription{Name: name, SearchKey: key, SharedWith: []string{other}}
	}
	d := store.DatabaseDescription{Tables: []store.Description{
		{Name: "t", Columns: []store.FieldDescription{column("a", "1", "u.b")}}, {Name: "u", Columns: []store.FieldDescription{column("b", "1", "t.a")}},
	}}
	require.NoError(t, checkShared(d))
	d.Tables[1].Columns[0].SearchKey = "2"
	require.ErrorContains(t, checkShared(d), "t.a and u.b share a key")
	require.Equal(t, exit.Wrong, exit.CodeOf(t.Context(), checkShared(d)))
}
