package schemafile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/operations.md says of types, of the row key, and of which mistakes are told together.
func TestDocumentedRules(t *testing.T) {
	const id = "{name: id, type: int32, encryption: hashed}"
	ordered := func(typ, scheme string) string {
		return fmt.Sprintf("{name: x, type: '%s', encryption: ordered, scheme: %s}", typ, scheme)
	}
	plain := func(typ string) string { return fmt.Sprintf("{name: p, type: %s, encryption: plain}", typ) }
	schemes := []string{"boldyreva", "mope", "wozniak", "wozniak-indexed", "plaintext", "kerschbaum"}
	expect := func(key, columns []string, fails ...string) {
		t.Helper()
		text := "table: t\nkey: [" + strings.Join(key, ", ") + "]\ncolumns: [" + strings.Join(columns, ", ") + "]\n"
		_, err := Parse("t.yaml", []byte(text))
		if len(fails) == 0 {
			require.NoError(t, err, text)
			return
		}
		require.Error(t, err, text)
		told := strings.Split(err.Error(), "\n")
		require.Len(t, told, len(fails), text)
		for i, fail := range fails {
			require.Contains(t, told[i], fail, text)
		}
	}
	for _, scheme := range schemes {
		expect([]string{id}, []string{ordered("ipv4", scheme)})
		expect([]string{id}, []string{ordered("ipv6", scheme)})
		expect([]string{id}, []string{ordered("uuid", scheme)}, "have no order")
		for _, typ := range []string{"string(16)", "string(24)", "string(32)", "bytes(16)", "bytes(24)", "bytes(32)"} {
			if scheme == "boldyreva" {
				expect([]string{id}, []string{ordered(typ, scheme)})
			} else {
				expect([]string{id}, []string{ordered(typ, scheme)}, "takes the scheme boldyreva, not "+scheme)
			}
		}
	}
	for _, typ := range []string{"string", "string(16)", "bytes", "bytes(32)"} {
		expect([]string{plain(typ)}, nil, "of varying length cannot lead a row key in the plain")
		expect([]string{id, plain(typ)}, nil)
	}
	for _, typ := range []string{"int32", "decimal(2)", "float64", "bool", "date", "timestamp/s", "ipv4", "ipv6", "uuid"} {
		expect([]string{plain(typ)}, nil)
	}
	expect([]string{"{name: t, encryption: tie}"}, nil, "cannot consist of tie-breaker")

	wrong, unknown := ordered("uuid", "mope"), "{name: y, type: int99, encryption: randomised}"
	other := strings.Replace(wrong, "x", "z", 1)
	expect([]string{plain("string")}, []string{wrong, unknown, strings.Replace(unknown, "y", "w", 1)}, "columns[1].type", "columns[2].type")
	expect([]string{plain("string")}, []string{wrong, other}, "key[0]")
	expect([]string{id}, []string{wrong, other}, "columns[0]", "columns[1]")
}
