package hbasesource

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// What is written as a key is read as the same key, for all encodings.
func TestKeysRoundTrip(t *testing.T) {
	m := Mapping{Key: []KeyPart{
		{"text", "utf8", "|"}, {"raw", "bytes", "\x00\x00"}, {"i8", "int8", ""}, {"i16", "int16", ""}, {"i32", "int32", ""}, {"i64", "int64", ""},
		{"f32", "float32", ""}, {"f64", "float64", ""}, {"flag", "boolean", ""}, {"at", "milliseconds", ""}, {"id", "uuid", ""}, {"rest", "utf8", ""},
	}}
	require.NoError(t, m.Check())
	require.Len(t, Encodings(), len(codecs))
	rapid.Check(t, func(t *rapid.T) {
		row := store.Row{
			"text": rapid.StringMatching(`[^|]*`).Draw(t, "text"),
			"raw":  rapid.SliceOf(rapid.ByteRange(1, 255)).Draw(t, "raw"),
			"i8":   rapid.Int8().Draw(t, "i8"), "i16": rapid.Int16().Draw(t, "i16"), "i32": rapid.Int32().Draw(t, "i32"), "i64": rapid.Int64().Draw(t, "i64"),
			"f32": rapid.Float32().Filter(func(f float32) bool { return !math.Signbit(float64(f)) || f < 0 }).Draw(t, "f32"),
			"f64": rapid.Float64().Filter(func(f float64) bool { return !math.Signbit(f) || f < 0 }).Draw(t, "f64"), "flag": rapid.Bool().Draw(t, "flag"),
			"at": time.UnixMilli(rapid.Int64Range(math.MinInt64/1_000_000, math.MaxInt64/1_000_000).Draw(t, "at")).UTC(),
			"id": [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), "rest": rapid.String().Draw(t, "rest"),
		}
		key, err := m.rowKey(row)
		if err != nil {
			t.Fatal(err)
		}
		back, err := m.readKey(key)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, row, back)
	})
}

// These are the bytes that Bytes.toBytes of HBase makes.
func TestEncodingsAreThoseOfHBase(t *testing.T) {
	for _, c := range []struct {
		as    Encoding
		value any
		bytes string
	}{
		{"int8", int8(-2), "\xfe"}, {"int16", int16(-2), "\xff\xfe"}, {"int32", int32(1), "\x00\x00\x00\x01"},
		{"int64", int64(-1), "\xff\xff\xff\xff\xff\xff\xff\xff"}, {"float32", float32(1.5), "\x3f\xc0\x00\x00"},
		{"float64", 1.5, "\x3f\xf8\x00\x00\x00\x00\x00\x00"}, {"boolean", true, "\xff"}, {"boolean", false, "\x00"},
		{"milliseconds", time.UnixMilli(256).UTC(), "\x00\x00\x00\x00\x00\x00\x01\x00"},
		{"milliseconds", time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC), "\x00\x00\xe6\x77\xd2\x1f\xdb\xff"},
		{"milliseconds", time.UnixMilli(math.MinInt64).UTC(), "\x80\x00\x00\x00\x00\x00\x00\x00"}, {"utf8", "\u00e9", "\xc3\xa9"}, {"bytes", []byte{7}, "\x07"},
	} {
		require.Equal(t, c.bytes, string(codecs[c.as].encode(c.value)), c.as)
		back, err := Column{As: c.as, Cell: "d:q"}.readCell([]byte(c.bytes))
		require.NoError(t, err)
		require.Equal(t, c.value, back)
	}
}

func TestMappingsThatMakeNoSense(t *testing.T) {
	one := []KeyPart{{Name: "id", As: "int64"}}
	for says, m := range map[string]Mapping{
		"the key has no parts":                      {},
		`there is no encoding "int65"`:              {Key: []KeyPart{{Name: "id", As: "int65"}}},
		"part 1 of the key has no name":             {Key: []KeyPart{{As: "int64"}}},
		"until has to say what ends it":             {Key: []KeyPart{{Name: "a", As: "utf8"}, {Name: "b", As: "int64"}}},
		"leave until out":                           {Key: []KeyPart{{Name: "a", As: "int64", Until: "|"}}},
		`the name "id" is there twice`:              {Key: one, Columns: []Column{{"id", "d:id", "int64"}}},
		`"id" is no cell`:                           {Key: one, Columns: []Column{{"x", "id", "int64"}}},
		`"d:x" is no cell, or is there twice`:       {Key: one, Columns: []Column{{"x", "d:x", "int64"}, {"y", "d:x", "int64"}}},
		`ignore: "d:x" is no cell, or is a column:`: {Key: one, Columns: []Column{{"x", "d:x", "int64"}}, Ignore: []string{"d:x"}},
	} {
		require.ErrorContains(t, m.Check(), says)
	}
}

// The tables of HBase itself hold no rows of an application, and the end of a migration would drop them.
func TestTablesOfHBaseItself(t *testing.T) {
	for _, name := range []string{"hbase:meta", "hbase:namespace"} {
		_, err := New(nil, name, Mapping{Key: []KeyPart{{Name: "id", As: "int64"}}})
		require.ErrorContains(t, err, "HBase keeps its own state in "+name)
	}
}

// No bytes of a key or a cell make more than an error, which has none of them.
func TestBytesThatAreNoValues(t *testing.T) {
	m := Mapping{Key: []KeyPart{{"name", "utf8", "|"}, {"n", "int32", ""}}}
	require.NoError(t, m.Check())
	for _, key := range []string{"secret", "secret|", "secret|123", "secret|12345", "\xff\xfe|1234"} {
		_, err := m.readKey([]byte(key))
		require.Error(t, err, "%q", key)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := m.rowKey(store.Row{"name": "a|b", "n": int32(1)})
	require.ErrorContains(t, err, "which ends it")
	for as, b := range map[Encoding]string{"int32": "abc", "utf8": "\xff", "milliseconds": "secret!", "boolean": ""} {
		_, err := Column{Name: "c", Cell: "d:c", As: as}.readCell([]byte(b))
		require.Error(t, err, as)
		require.NotContains(t, err.Error(), "secret")
	}
}

// Parts have each key once, and those of a finer cut are within those of a coarser one.
func TestBoundsOfParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.IntRange(1, 1<<16).Draw(t, "parts")
		i := rapid.IntRange(0, of-1).Draw(t, "part")
		start, end := bounds(inspect.Part{Index: i, Of: of})
		require.Equal(t, i == 0, start == nil)
		require.Equal(t, i == of-1, end == nil)
		if i > 0 {
			_, before := bounds(inspect.Part{Index: i - 1, Of: of})
			require.Equal(t, start, before)
		}
		if of%4 == 0 {
			coarse, _ := bounds(inspect.Part{Index: i / 4, Of: of / 4})
			require.True(t, i%4 != 0 || string(coarse) == string(start))
		}
	})
}

func TestMappingsInFiles(t *testing.T) {
	m, err := ParseMapping([]byte("key:\n  - {name: customer, as: utf8, until: \"|\"}\n  - {name: at, as: milliseconds}\ncolumns:\n  - {name: amount, cell: \"d:amount\", as: int64}\nignore: [\"d:cache\", \"x:*\"]\n"))
	require.NoError(t, err)
	require.Equal(t, Mapping{
		Key:     []KeyPart{{"customer", "utf8", "|"}, {"at", "milliseconds", ""}},
		Columns: []Column{{"amount", "d:amount", "int64"}},
		Ignore:  []string{"d:cache", "x:*"},
	}, m)
	require.True(t, m.ignores("x:anything") && m.ignores("d:cache") && !m.ignores("d:amount"))
	m, err = ParseMapping([]byte("key: [{name: a, as: bytes, until: !!binary /w==}, {name: b, as: bytes}]\ncolumns: [{name: c, cell: !!binary ZDr/AA==, as: bytes}]\nignore: [!!binary ZDr+]"))
	require.NoError(t, err)
	require.Equal(t, []string{"\xff", "d:\xff\x00", "d:\xfe"}, []string{m.Key[0].Until, m.Columns[0].Cell, m.Ignore[0]})
	for says, text := range map[string]string{
		"unknown field":        "key: [{name: a, as: int64, size: 3}]",
		"the key has no parts": "columns: []",
		"the mapping":          "key: 7",
		"it is empty":          "",
	} {
		_, err := ParseMapping([]byte(text))
		require.ErrorContains(t, err, says)
	}
}

// What is written without quotes is read as it is written, or is an error that says where.
func TestTextsOfMappings(t *testing.T) {
	read := func(until string) (string, error) {
		m, err := ParseMapping([]byte("key:\n  - {name: a, as: utf8, until: " + until + "}\n  - {name: b, as: utf8}\n"))
		if err != nil {
			return "", err
		}
		return m.Key[0].Until, nil
	}
	for _, until := range []string{"0", "-1", "1.5", "true", "2024-01-01", "12:30", "--", "1e3", "x0"} {
		is, err := read(until)
		require.NoError(t, err)
		require.Equal(t, until, is)
	}
	for _, until := range []string{"00", "007", "0x7c", "1_0", "1.50", ".5", "+1", "True", ".inf", ".nan", "!!str 00"} {
		_, err := read(until)
		require.ErrorContains(t, err, "put it into quotes", until)
		require.ErrorContains(t, err, "line 2, column", until)
		is, err := read(`"` + until + `"`)
		require.NoError(t, err)
		require.Equal(t, until, is)
	}
	_, err := ParseMapping([]byte("key: [{name: a, as: utf8}]\n---\ncolumns: [{name: b, cell: 'd:b', as: utf8}]\n"))
	require.ErrorContains(t, err, "a second document")
	for _, text := range []string{"---\nkey: [{name: a, as: utf8}]\n...\n", "\ufeffkey: [{name: a, as: utf8}]\n"} {
		_, err = ParseMapping([]byte(text))
		require.NoError(t, err)
	}
}

// A file that is none by mistake is not shown, nor one that is made to take long.
func TestFilesThatAreNoMapping(t *testing.T) {
	secret := strings.Repeat("5ec3e7", 12)
	for text, want := range map[string]string{
		secret: "line 1, column 1", "key: " + secret: "line 1", "[" + secret: "line 1", " \n": "it is empty",
		strings.Repeat("[", 100_000): "nested deeper than 32", strings.Repeat(secret, 10_000): "is this the right file?",
	} {
		_, err := ParseMapping([]byte(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), secret)
		require.Less(t, len(err.Error()), 300)
	}
}

// A key that is read makes the same bytes again, and no two keys that are read are one key of an encrypted table.
func TestKeysThatAreOneInATable(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	for _, name := range Encodings() {
		codec := codecs[Encoding(name)]
		part := store.HashedPart("k", codec.typ)
		tbl, err := st.Create(ctx, store.Schema{Name: "t_" + name, Key: []store.KeyPart{part}, Columns: []store.Column{store.RandomisedColumn("v", store.Bytes)}})
		require.NoError(t, err)
		m := Mapping{Key: []KeyPart{{"k", Encoding(name), ""}}}
		edges := []string{"\x00", "\x01", "\x02", "\x80", "\xff", "\x7f\xc0", "\x7f\xf8", "\xff\xf8"}
		of := make(map[string]string)
		rapid.Check(t, func(t *rapid.T) {
			key := []byte(rapid.SampledFrom(edges).Draw(t, "edge"))
			if size := codec.size; size > 0 {
				key = append(key, make([]byte, size)...)[:size]
				copy(key[min(size, 2):], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0, 0, 1}), size, size).Draw(t, "rest"))
			} else {
				key = append(key, rapid.SliceOf(rapid.Byte()).Draw(t, "rest")...)
			}
			row, err := m.readKey(key)
			if err != nil {
				require.Empty(t, row)
				return
			}
			again, err := m.rowKey(row)
			require.NoError(t, err)
			require.Equal(t, key, again)
			was, err := tbl.Get(ctx, row)
			if err == nil && was != nil {
				require.Equal(t, string(was["v"].([]byte)), string(key))
			}
			row["v"] = key
			if err := tbl.Put(ctx, row); err == nil {
				of[string(key)] = name
			}
		})
		require.NotEmpty(t, of, name)
		n, err := tbl.Count(ctx, store.Predicate{})
		require.NoError(t, err)
		require.EqualValues(t, len(of), n, name)
	}
	m := Mapping{Key: []KeyPart{{"flag", "boolean", ""}, {"f", "float64", ""}, {"g", "float32", ""}}}
	for key, says := range map[string]string{
		"\x01" + "\x3f\xf8\x00\x00\x00\x00\x00\x00" + "\x3f\xc0\x00\x00": `part "flag" of its row key is written in other bytes`,
		"\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00" + "\x3f\xc0\x00\x00": `part "f" of its row key is the negative zero`,
		"\xff" + "\x7f\xf8\x00\x00\x00\x00\x00\x01" + "\x3f\xc0\x00\x00": `part "f" of its row key is NaN`,
		"\x00" + "\x3f\xf8\x00\x00\x00\x00\x00\x00" + "\xff\xc0\x00\x00": `part "g" of its row key is NaN`,
		"\x00" + "\x3f\xf8\x00\x00\x00\x00\x00\x00" + "\x80\x00\x00\x00": `part "g" of its row key is the negative zero`,
		"\x00" + "\x3f\xf8\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00": "",
	} {
		_, err := m.readKey([]byte(key))
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
	_, err = Mapping{Key: []KeyPart{{"a", "utf8", "||"}, {"b", "utf8", ""}}}.rowKey(store.Row{"a": "x|", "b": "y"})
	require.ErrorContains(t, err, "which ends it")
}

// A column is one also where all of its column family is ignored: that means what else is there.
func TestColumnsWinOverWhatIsIgnored(t *testing.T) {
	src, err := New(nil, "orders", Mapping{
		Key: []KeyPart{{"id", "int8", ""}}, Columns: []Column{{"amount", "d:amount", "int8"}}, Ignore: []string{"d:*"},
	})
	require.NoError(t, err)
	cell := func(name string) driver.Cell { return driver.Cell{Qualifier: []byte(name), Value: []byte{7}, Stamp: 1} }
	f := src.found(new(table), []byte{1}, []driver.Cell{cell("d:amount"), cell("d:other")})
	require.Equal(t, migrate.Found{Row: store.Row{"id": int8(1), "amount": int8(7)}, Exists: true, Written: f.Written}, f)
	require.False(t, src.found(new(table), []byte{1}, []driver.Cell{cell("d:other")}).Exists)
}

// A row is found by its place, and not by parts that are those of another row.
func TestRowsWhoseKeysAreRefusedHaveNoKey(t *testing.T) {
	src, err := New(nil, "orders", Mapping{Key: []KeyPart{{"k", "utf8", "|"}, {"flag", "boolean", ""}}, Columns: []Column{{"v", "d:v", "int8"}}})
	require.NoError(t, err)
	for key, place := range map[string]string{"b|\x01": `row key "b|\x01"`, "e|\xffmore": `row key "e|\xFFmore"`} {
		f := src.found(new(table), []byte(key), []driver.Cell{{Qualifier: []byte("d:v"), Value: []byte{7}}})
		require.NotContains(t, f.Row, "k")
		require.NotContains(t, f.Row, "flag")
		require.Equal(t, place, f.Place)
		require.NotEmpty(t, f.Refused)
	}
}
