package cqlsource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A key is written as the server reads it, also one that no encrypted table takes. What has no literal is written by its bytes.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ cql, bytes, want string }{
		{"text", "it's", "'it''s'"},
		{"text", "", "''"},
		{"int", "\x80\x00\x00\x00", "-2147483648"},
		{"varint", "\x01\x00\x00\x00\x00\x00\x00\x00\x00", "18446744073709551616"},
		{"varint", "\xff\x7f\xff\xff\xff\xff\xff\xff\xff", "-9223372036854775809"},
		{"varint", "\x00\x01", "blobasvarint(0x0001)"},
		{"boolean", "\x02", "blobasboolean(0x02)"},
		{"double", "\x80\x00\x00\x00\x00\x00\x00\x00", "-0.0"},
		{"double", "\x7f\xf8\x00\x00\x00\x00\x00\x00", "NaN"},
		{"double", "\x7f\xf8\x00\x00\x00\x00\x00\x01", "blobasdouble(0x7ff8000000000001)"},
		{"float", "\x7f\xc0\x00\x00", "NaN"},
		{"float", "\xff\x80\x00\x00", "-Infinity"},
		{"float", "\x3d\xcc\xcc\xcd", "0.1"},
		{"timestamp", "", "blobastimestamp(0x)"},
		{"timestamp", "\xff\xff\xff\xff\xff\xff\xff\xff", "-1"},
		{"date", "\x80\x00\x00\x01", "2147483649"},
		{"decimal", "\x00\x00\x00\x02\x64", "100E-2"},
		{"blob", "\x00\xff", "0x00ff"},
		{"inet", "\x7f\x00\x00\x01", "'127.0.0.1'"},
		{"uuid", "0123456789abcdef", "30313233-3435-3637-3839-616263646566"},
	} {
		l := &layout{key: []column{{name: "k", cql: c.cql, kind: kinds[c.cql]}, {name: `a"b`, cql: "int", kind: kinds["int"]}}}
		require.Equal(t, `"k" = `+c.want+` AND "a""b" = 7`, l.place([]raw{{[]byte(c.bytes)}, {[]byte("\x00\x00\x00\x07")}}))
	}
}
