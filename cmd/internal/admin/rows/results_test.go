package rows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A name is taken as it is given where a column has it, and without the blanks around it elsewhere.
func TestChosenNames(t *testing.T) {
	all := []inspect.Field{{Name: "k"}, {Name: "a"}, {Name: " a"}, {Name: "b"}, {Name: "b,c"}}
	schema := store.Schema{Key: []store.KeyPart{store.HashedPart("k", store.String)}}
	for _, test := range []struct {
		given, columns []string
		fails          string
	}{
		{[]string{"a", " a"}, []string{"a", " a"}, ""},
		{[]string{"b ", " k ", "a "}, []string{"b", "a"}, ""},
		{[]string{" b,c"}, []string{"b,c"}, ""},
		{[]string{"b", " b"}, nil, "--select b is given twice"},
		{[]string{" d"}, nil, `no column " d": there is`},
		{[]string{"`b`"}, nil, "quotation marks and backquotes are part of a name, but for double quotes around one with a comma in it"},
	} {
		_, columns, err := chosen(all, "select", test.given, schema)
		if test.fails != "" {
			require.ErrorContains(t, err, test.fails, "%q", test.given)
			continue
		}
		require.NoError(t, err, "%q", test.given)
		require.Equal(t, test.columns, columns, "%q", test.given)
	}
}
