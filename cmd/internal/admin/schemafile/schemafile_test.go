package schemafile_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

func decimal(t *testing.T, text string) encode.Decimal {
	d, err := encode.ParseDecimal(text)
	require.NoError(t, err)
	return d
}

// The commented example is the schema that it seems to be.
func TestExample(t *testing.T) {
	data, err := os.ReadFile("testdata/readings.yaml")
	require.NoError(t, err)
	s, err := schemafile.Parse("readings.yaml", data)
	require.NoError(t, err)
	same(t, schemafile.Table{Schema: store.Schema{
		Name: "readings",
		Key: []store.KeyPart{
			store.HashedPart("device", store.String),
			store.OrderedPart("time", store.Time(time.Millisecond), store.MOPE),
			store.TiePart("id"),
		},
		Columns: []store.Column{
			store.OrderedColumn("temperature", store.Decimal(2).Within(decimal(t, "-90"), decimal(t, "60")), store.Kerschbaum),
			store.DeterministicColumn("operator", store.String),
			store.RandomisedColumn("note", store.String),
			store.PlainColumn("firmware", store.Uint16),
		},
		SpreadBits: 4,
	}}, s)
	marked, err := schemafile.Parse("marked", append([]byte("\ufeff"), data...))
	require.NoError(t, err, "some editors begin files with a mark")
	same(t, s, marked)
	again, err := schemafile.Parse("again", schemafile.Format(s))
	require.NoError(t, err)
	same(t, s, again)
}

// same compares what can be seen of two schemas.
func same(t require.TestingT, a, b schemafile.Table) {
	shown := func(s schemafile.Table) []string {
		lines := []string{s.Name, s.Layout(), fmt.Sprint(s.PageRows), fmt.Sprint(s.SpreadBits), fmt.Sprint(s.Conditional, s.AppendOnly, s.Tenants), s.TTL.String()}
		for _, p := range s.Key {
			lines = append(lines, "key "+p.Describe().String())
		}
		for _, c := range s.Columns {
			lines = append(lines, fmt.Sprint("column ", c.Describe(), c.Describe().Covering, len(c.Describe().Copied), c.Describe().Copied, c.Describe().ServerIndex))
		}
		return lines
	}
	require.Equal(t, shown(a), shown(b))
}

// Every mistake comes with its place, and all of a file at once.
func TestMistakes(t *testing.T) {
	const head = "table: t\nkey:\n  - {name: k, type: string, encryption: hashed}\n"
	for _, c := range []struct {
		file string
		want []string
	}{
		{"\xff\xfet\x00", []string{"f: it is no text in UTF-8: write it in UTF-8 first, with 'iconv -f UTF-16 -t UTF-8', say"}},
		{"t\x00:\x00 \x00", []string{"f: it is no text in UTF-8"}},
		{"table: caf\xe9", []string{"f: it is no text in UTF-8"}},
		{"", []string{"f: the file is empty"}},
		{"# nothing\n", []string{"f: the file is empty"}},
		{"- a\n- b\n", []string{"f:1:1: need fields, such as table: ..., not a list"}},
		{"readings", []string{"f:1:1: need fields, such as table: ..., not a text"}},
		{"layout: packed\n", []string{"f:1:1: table: it is missing", "f:1:1: key: it is missing"}},
		{head + "columms: []\n", []string{"f:4:1: columms: unknown field: there is table, layout, page-rows, spread-bits, conditional, append-only, tenants, ttl, key, columns"}},
		{head + "table: u\n", []string{`f:4:1: mapping key "table" already defined at [1:1]`}},
		{head + "columns:\n  - name: a\n   type: b\n", []string{"f:6:4: "}},
		{"\ttable: t\n", []string{"f:1:"}},
		{head + "layout: row\nspread-bits: many\n", []string{`f:4:9: layout: unknown value "row": there is packed, cell per column`, "f:5:14: spread-bits: need an integer, not many"}},
		{head + "layout: [packed]\nspread-bits: 99999999999999999999\n", []string{"f:4:9: layout: need a text, not a list", "f:5:14: spread-bits: need an integer"}},
		{head + "spread-bits: 010\n", []string{"f:4:14: spread-bits: need an integer in decimal digits, without a 0 before them, not 010"}},
		{head + "spread-bits: 0\n", []string{"f:4:14: spread-bits: 0 bits: write -1 for one partition, or leave it out for 16"}},
		{head + "spread-bits: 0x4\n", []string{"f:4:14: spread-bits: need an integer in decimal digits"}},
		{head + "spread-bits: 1_0\n", []string{"f:4:14: spread-bits: need an integer in decimal digits"}},
		{head + "conditional: yes\n", []string{"f:4:14: conditional: need true or false, not a text"}},
		{head + "tenants: acme\n", []string{"f:4:10: tenants: need true or false, not a text"}},
		{head + "ttl: soon\n", []string{`f:4:6: ttl: need how long rows live, as in 30d or 12h30m, where days stand by themselves, or "by row", not soon`}},
		{head + "ttl: -1h\n", []string{"f:4:6: ttl: need how long rows live"}},
		{head + "ttl: 30\n", []string{"f:4:6: ttl: need how long rows live"}},
		{head + "ttl: 0d\n", []string{"f:4:6: ttl: need how long rows live"}},
		{head + "ttl: [1d]\n", []string{"ttl: need how long rows live"}},
		{head + "ttl: 1500ms\n", []string{`f:4:6: ttl: "1500ms" is none of whole seconds up to 3650d`}},
		{head + "ttl: 4000d\n", []string{`"4000d" is none of whole seconds up to 3650d`}},
		{head + "ttl: 1d\nconditional: true\n", []string{"f:4:6: ttl: rows of a table that is conditional cannot expire"}},
		{head + "conditional:\n", []string{"conditional: need true or false, not nothing"}},
		{head + "---\n" + head, []string{"f:5:1: a second document begins here"}},
		{head + "columns: 5\n", []string{"f:4:10: columns: need a list, whose items begin with '- ', not a number"}},
		{head + "columns:\n  name: a\n", []string{"f:5:3: columns: need a list, whose items begin with '- ', not fields"}},
		{head + "columns:\n  - a\n  - null\n", []string{"f:5:5: columns[0]: need fields, such as name: ..., not a text", "f:6:5: columns[1]: need fields, such as name: ..., not nothing"}},
		{head + "columns:\n  - name: 2024\n    type: true\n    encryption: ~\n", []string{
			"f:5:11: columns[0].name: need a text, not a number; put it into quotes if it is one",
			"f:6:11: columns[0].type: need a text, not true or false",
			"f:7:17: columns[0].encryption: need a text, not nothing",
		}},
		{head + "columns:\n  - {name: a, type: int23, encryption: sealed, scheme: rot13, size: 3}\n", []string{
			`f:5:21: columns[0].type: unknown type "int23": there is bool, int8`,
			`f:5:40: columns[0].encryption: unknown value "sealed": there is randomised, deterministic, ordered, plain`,
			`f:5:56: columns[0].scheme: unknown scheme "rot13": there is boldyreva, mope`,
			`f:5:63: columns[0].size: unknown field: there is name, type, encryption, scheme, confidentiality, shared-with, covering, server-index`,
		}},
		{head + "columns:\n  - {name: a}\n  - {name: b, encryption: plain}\n", []string{"f:5:5: columns[0].encryption: it is missing", "f:6:5: columns[1].type: it is missing"}},
		{head + "columns:\n  - {name: a, type: bool, encryption: ordered}\n  - {name: b, type: bool, encryption: plain, scheme: mope}\n", []string{
			`f:5:5: columns[0].scheme: it is missing; "a" is ordered`, `f:6:54: columns[1].scheme: only what is ordered has a scheme; "b" is plain`,
		}},
		{head + "columns:\n  - {name: k, type: bool, encryption: plain}\n", []string{`f:5:12: columns[0].name: two columns are named "k"`}},
		{head + "columns:\n  - {name: a, type: uuid, encryption: ordered, scheme: mope}\n  - {name: b, type: bool, encryption: plain}\n  - {name: '', type: bool, encryption: plain}\n", []string{
			`f:5:5: columns[0]: column "a": values of type uuid have no order`, `f:7:5: columns[2]: a column name is empty: it has 1 to 100 bytes`,
		}},
		{head + "columns:\n  - {name: a, type: int64, encryption: ordered, scheme: kerschbaum-published}\n", []string{`f:5:5: columns[0]: column "a": `}},
		{"table: t\nKey: []\nkeys: []\n", []string{
			"f:1:1: key: it is missing", "f:2:1: Key: unknown field: there is table, layout, page-rows, spread-bits, conditional, append-only, tenants, ttl, key, columns; did you mean key?", "f:3:1: keys: unknown field: ",
		}},
		{"table: t\nkey:\n\t- {name: a}\n", []string{`f:3:1: found character '\t' that cannot start any token: YAML is indented with blanks, and not with tabs`}},
		{head + "columns:\n  - {name: a, type: bool, encryption: randomized}\n", []string{`unknown value "randomized": there is randomised, deterministic, ordered, plain; did you mean randomised?`}},
		{head + "spread-bits: 13\n", []string{`f:4:14: spread-bits: table "t": a spread of 13 bits, need -1 to 12`}},
		{strings.Replace(head, "table: t", "table: ' t'", 1) + "spread-bits: -2\n", []string{"f:1:8: table: a table name neither begins nor ends with a space"}},
		{"table: t\nkey: []\n", []string{`f:2:6: key: table "t" has no row key`}},
		{head + "columns:\n" + manyColumns(1001) + "layout: packed\n", []string{`f:5:3: columns: table "t" has 1001 columns, at most 1000`}},
		{"table: t\nkey:\n  - {name: a, encryption: tie}\n", []string{"f:3:5: key[0]: a row key cannot consist of tie-breaker"}},
		{"table: t\nkey:\n  - {name: a, type: bool, encryption: hashed}\n  - {name: b, encryption: tie}\n  - {name: c, type: bool, encryption: hashed}\n", []string{`f:4:5: key[1]: tie-breaker "b" must be the last part of the row key: move it to the end, after part "c"`}},
		{"table: t\nkey:\n  - {name: a, encryption: tie}\n  - {name: b, type: bool, encryption: hashed}\n  - {name: c, type: bool, encryption: hashed}\n", []string{`f:3:5: key[0]: tie-breaker "a" must be the last part of the row key: move it to the end, after part "c"`}},
		{"table: t\nkey:\n  - {name: a, type: bool, encryption: hashed}\n  - {name: b, encryption: tie}\n  - {name: c, encryption: tie}\n", []string{`f:4:5: key[1]: "b" and "c" are both tie-breakers: a row key has one, as its last part; leave the other out`}},
		{"table: t\nkey:\n  - {name: a, encryption: tie}\n  - {name: b, encryption: tie}\n", []string{`f:3:5: key[0]: "a" and "b" are both tie-breakers`}},
		{"table: t\nkey:\n  - {name: a, type: uuid, encryption: tie}\n", []string{"f:3:21: key[0].type: a tie-breaker has no type"}},
		{"table: t\nkey:\n  - {name: a, type: bool, encryption: randomised}\n", []string{`f:3:39: key[0].encryption: unknown value "randomised": there is hashed, ordered, plain, tie`}},
		{"table: t\nkey:\n  - {name: a, type: int8, encryption: ordered, scheme: kerschbaum}\n", []string{"f:3:5: key[0].scheme: scheme kerschbaum encrypts columns only, and no row key"}},
		{head + "columns:\n  - {name: a, type: bool, encryption: deterministic, confidentiality: public}\n  - {name: b, type: bool, encryption: deterministic, confidentiality: database, shared-with: {table: t, column: a}}\n", []string{
			`f:5:71: columns[0].confidentiality: unknown value "public": there is column, database`, "f:6:94: columns[1].shared-with: give it or confidentiality, not both",
		}},
		{head + "columns:\n  - {name: a, type: bool, encryption: deterministic, shared-with: t.a}\n  - {name: b, type: bool, encryption: deterministic, shared-with: {table: t}}\n", []string{
			"f:5:67: columns[0].shared-with: need fields, such as table: ..., not a text", "f:6:67: columns[1].shared-with.column: it is missing",
		}},
		{head + "columns:\n  - {name: a, type: bool, encryption: randomised, confidentiality: database}\n", []string{`f:5:5: columns[0]: column "a" is randomised: only`}},
		{"table: &x t\nkey:\n  - *x\n", []string{"f:1:8: table: need a text, not an anchor, alias or tag", "f:3:5: key[0]: need fields"}},
	} {
		requireMistakes(t, c.file, c.want)
	}
}

// manyColumns returns the lines of so many columns.
func manyColumns(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "  - {name: c%d, type: bool, encryption: plain}\n", i)
	}
	return lines.String()
}

// requireMistakes parses a file, which has the wanted mistakes.
func requireMistakes(t *testing.T, file string, wanted []string) {
	t.Helper()
	_, err := schemafile.Parse("f", []byte(file))
	require.ErrorIs(t, err, schemafile.ErrInvalid, file)
	got := strings.Split(err.Error(), "\n")
	require.Len(t, got, len(wanted), "%s\n%v", file, err)
	for i, want := range wanted {
		require.Contains(t, got[i], want, file)
	}
}

// So do those about rows that are only added, and their copies.
func TestMistakesOfAppendOnly(t *testing.T) {
	const head = "table: t\nkey:\n  - {name: k, type: string, encryption: hashed}\n"
	const tied = "key:\n  - {name: k, type: string, encryption: hashed}\n  - {name: tie, encryption: tie}\n"
	for _, c := range []struct {
		file string
		want []string
	}{
		{head + "append-only: always\n", []string{"f:4:14: append-only: need true or false, not a text"}},
		{head + "append-only: true\n", []string{"f:4:14: append-only: each row needs a key of its own: add a tie-breaker (encryption: tie) as the last part of the key"}},
		{"table: t\nappend-only: true\nconditional: true\n" + tied, []string{"f:2:14: append-only: rows that are only added are never replaced, so that conditional means nothing"}},
		{"table: t\n" + tied + "columns:\n  - {name: a, type: bool, encryption: deterministic, covering: 1}\n", []string{"f:6:64: columns[0].covering: need true or false, or the columns that copies have, such as [celsius, note], not a number"}},
		{"table: t\nappend-only: true\n" + tied + "columns:\n  - {name: a, type: bool, encryption: deterministic, covering: [tie, b, a, 1]}\n", []string{"f:7:76: columns[0].covering[3]: need a text, not a number"}},
		{"table: t\nappend-only: true\n" + tied + "columns:\n  - {name: a, type: bool, encryption: deterministic, covering: [tie, b, a]}\n", []string{`f:7:64: columns[0].covering[1]: the schema has no column "b": correct the name, or leave it out`}},
		{"table: t\nconditional: true\n" + tied + "columns:\n  - {name: a, type: bool, encryption: plain, covering: []}\n", []string{`f:7:5: columns[0]: column "a" is plain, and cannot cover`}},
		{"table: t\n" + tied + "columns:\n  - name: a\n    type: bool\n    encryption: deterministic\n    covering: true\n", []string{
			"f:9:15: columns[0].covering: rows of the table may be replaced unseen, so that their copies could be old ones: write append-only: true or conditional: true for the table, or leave covering out",
		}},
		{"table: t\nappend-only: true\n" + tied + "columns:\n  - {name: a, type: bool, encryption: plain, covering: true}\n  - {name: b, type: bool, encryption: ordered, scheme: wozniak-indexed, covering: true}\n", []string{
			`f:7:5: columns[0]: column "a" is plain, and cannot cover: only ordered and deterministic columns have index entries`,
			`f:8:5: columns[1]: column "b" cannot cover with scheme "wozniak-indexed"`,
		}},
		{"table: t\ncolumns: [{name: k, type: bool, encryption: deterministic, covering: true}]\nkey: [{name: c, type: bool, encryption: hashed}, {name: l, encryption: tie}]\nappend-only: false\n", []string{"f:2:70: columns[0].covering: rows of the table may be replaced unseen"}},
	} {
		requireMistakes(t, c.file, c.want)
	}
}

// No file, however it is nested or repeats itself, takes much memory or says much.
func TestMemoryIsBounded(t *testing.T) {
	repeat := strings.Repeat
	var indented, aliases strings.Builder
	for i := range 500 {
		indented.WriteString(repeat(" ", i) + "a:\n")
		fmt.Fprintf(&aliases, "a%d: &a%d [*a%d, *a%d, *a%[1]d]\n", i+1, i+1, i, i)
	}
	for name, c := range map[string]struct{ file, want string }{
		"brackets":              {repeat("[", 40<<10), "f:1:33: brackets or entries are nested deeper than 32"},
		"closed":                {repeat("[", 20<<10) + repeat("]", 20<<10), "nested deeper than 32"},
		"braces":                {repeat("{a: ", 10<<10), "nested deeper than 32"},
		"mixed":                 {repeat("[{a: ", 8<<10), "nested deeper than 32"},
		"quoted between":        {repeat("['[', ", 8<<10), "nested deeper than 32"},
		"in a field":            {"table: t\nkey: " + repeat("[", 40<<10), "f:2:38: brackets"},
		"many lines":            {repeat("[\n", 20<<10), "f:33:1: brackets"},
		"entries":               {repeat("- ", 20<<10), "f:1:65: brackets or entries are nested deeper than 32"},
		"keys":                  {repeat("? ", 20<<10), "nested deeper than 32"},
		"indented":              {indented.String(), "f:1:1: a: unknown field"},
		"aliases of aliases":    {"a0: &a0 [x]\n" + aliases.String(), "there are 453 mistakes more"},
		"brackets, a long file": {repeat("[]", schemafile.MaxBytes), "f: it has more than 524288 bytes"},
		"a long file":           {"table: t\n" + repeat("#", schemafile.MaxBytes), "which no schema needs"},
		"a number":              {"spread-bits: " + repeat("9", 200<<10), "need an integer, not 999"},
		"a name":                {"table: " + repeat("x", 200<<10), "f:1:1: key: it is missing"},
		"an unknown field":      {repeat("x", 200<<10) + ": 1", "unknown field"},
		"an unknown value":      {"layout: " + repeat("x", 200<<10), "...\": there is packed, cell per column"},
		"mistakes in columns":   {"table: t\nkey: [{name: k, type: bool, encryption: hashed}]\ncolumns:\n" + repeat("  - {name: a, type: b}\n", 1000), "mistakes more"},
		"too many columns":      {"table: t\nkey: [{name: k, type: bool, encryption: hashed}]\ncolumns:\n" + repeat("  - {name: a, type: b}\n", 2000), "f:4:3: columns: it has 2000 items, at most 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := schemafile.Parse("f", []byte(c.file))
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, schemafile.ErrInvalid)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 60_000)
			const most = 64 << 20
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most), "of %d bytes", len(c.file))
			_, err = schemafile.ParseColumn("--add", c.file, nil)
			require.ErrorIs(t, err, schemafile.ErrInvalid)
		})
	}
	// What is not nested is read, whatever its names are.
	for _, deep := range []string{repeat("[", 100), repeat("{", 100), repeat("- ", 49) + "-", repeat("? ", 49) + "?"} {
		s, err := schemafile.Parse("f", []byte("table: '"+deep+"'\nkey:\n  - {name: \""+deep+"\", type: bool, encryption: hashed}\n"))
		require.NoError(t, err)
		require.Equal(t, deep, s.Name)
	}
}

// A table of 1000 columns with the longest names and types is read.
func TestLargestSchema(t *testing.T) {
	typ, err := store.ParseType("timestamp/ns from 1900-01-01T00:00:00.000000001Z to 2199-12-31T23:59:59.999999999Z")
	require.NoError(t, err)
	s := store.Schema{Name: strings.Repeat("t", 100), Key: []store.KeyPart{store.HashedPart("id", store.UUID)}}
	for i := range 1000 {
		c := store.OrderedColumn(fmt.Sprintf("%0100d", i), typ, store.WozniakIndexed)
		s.Columns = append(s.Columns, c.SharedWith(s.Name, strings.Repeat("c", 100)))
	}
	file := schemafile.Format(schemafile.Table{Schema: s})
	require.Greater(t, len(file), schemafile.MaxBytes*3/4, "the bound is not much larger than it has to be")
	got, err := schemafile.Parse("f", file)
	require.NoError(t, err)
	require.Len(t, got.Columns, 1000)
}

// anySchema draws a schema that makes sense.
func anySchema() *rapid.Generator[store.Schema] {
	return rapid.Custom(func(t *rapid.T) store.Schema {
		names := map[string]bool{}
		name := func() string {
			n := rapid.OneOf(
				rapid.StringMatching(`[a-z]{1,5}`), rapid.StringMatching(`[ -~]{1,8}`), rapid.StringN(1, 20, 100),
				rapid.SampledFrom([]string{"null", "yes", "~", "1e3", ".inf", "a: b", "a #b", "2020-01-01", "*a", "|", "a\u2028b", "\ufeff", "<<"}),
			).Draw(t, "name")
			n = cmp.Or(strings.TrimSpace(strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return -1
				}
				return r
			}, n)), "n")
			for names[n] {
				n += "'"
			}
			names[n] = true
			return n
		}
		typ := func(ordered bool) store.Type {
			texts := []string{"int8", "uint16", "int32", "float32", "timestamp/ns", "timestamp/s", "decimal(3)", "date", "ipv4", "bool from false to true",
				"int8 from -5 to 100", "date from 1900-01-01 to @99999999", "timestamp/ms from @-62167219200001 to 2000-01-01", "decimal(2) from 0 to 1"}
			if !ordered {
				texts = append(texts, "uuid")
			}
			typ, err := store.ParseType(rapid.SampledFrom(texts).Draw(t, "type"))
			require.NoError(t, err)
			return typ
		}
		schemes := []store.KeyScheme{store.Boldyreva, store.MOPE, store.Wozniak, store.WozniakIndexed, store.Plaintext}
		s := store.Schema{
			Name:          name(),
			CellPerColumn: rapid.Bool().Draw(t, "layout"),
			SpreadBits:    rapid.IntRange(-1, 12).Draw(t, "spread bits"),

			Conditional: rapid.Bool().Draw(t, "conditional"),
			Tenants:     rapid.Bool().Draw(t, "tenants"),
		}
		if !s.Conditional {
			seconds := rapid.OneOf(rapid.Int64Range(1, 3650*86400), rapid.Map(rapid.Int64Range(1, 3650), func(days int64) int64 { return days * 86400 }))
			s.TTL = rapid.SampledFrom([]time.Duration{0, store.TTLByRow, time.Duration(seconds.Draw(t, "seconds")) * time.Second}).Draw(t, "ttl")
		}
		names = map[string]bool{}
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			s.Key = append(s.Key, rapid.OneOf(
				rapid.Custom(func(t *rapid.T) store.KeyPart { return store.HashedPart(name(), typ(false)) }),
				rapid.Custom(func(t *rapid.T) store.KeyPart { return store.PlainPart(name(), typ(false)) }),
				rapid.Custom(func(t *rapid.T) store.KeyPart {
					return store.OrderedPart(name(), typ(true), rapid.SampledFrom(schemes).Draw(t, "scheme"))
				}),
			).Draw(t, "part"))
		}
		if rapid.Bool().Draw(t, "tie") {
			s.Key = append(s.Key, store.TiePart(name()))
			s.AppendOnly = !s.Conditional && rapid.Bool().Draw(t, "append-only")
		}
		for range rapid.IntRange(0, 4).Draw(t, "columns") {
			c := rapid.OneOf(
				rapid.Custom(func(t *rapid.T) store.Column { return store.RandomisedColumn(name(), typ(false)) }),
				rapid.Custom(func(t *rapid.T) store.Column { return store.DeterministicColumn(name(), typ(false)) }),
				rapid.Custom(func(t *rapid.T) store.Column { return store.PlainColumn(name(), typ(false)) }),
				rapid.Custom(func(t *rapid.T) store.Column {
					all := []store.ColumnScheme{store.Kerschbaum, compare.PlaintextIndexed}
					for _, s := range schemes {
						all = append(all, s)
					}
					return store.OrderedColumn(name(), typ(true), rapid.SampledFrom(all).Draw(t, "scheme"))
				}),
			).Draw(t, "column")
			c = anySearched(t, c, s.AppendOnly, s.Conditional)
			s.Columns = append(s.Columns, c)
		}
		for i, c := range s.Columns {
			if c.Describe().Covering && rapid.Bool().Draw(t, "some columns") {
				copied := []string{}
				for _, other := range s.Columns {
					if rapid.Bool().Draw(t, "copied") {
						copied = append(copied, other.Describe().Name)
					}
				}
				s.Columns[i] = c.Covering(copied...)
			}
		}
		return s
	})
}

// anySearched draws what a column that is searched may say besides.
func anySearched(t *rapid.T, c store.Column, appendOnly, conditional bool) store.Column {
	if e := c.Describe().Encryption; e == "ordered" || e == "deterministic" {
		switch rapid.IntRange(0, 2).Draw(t, "confidentiality") {
		case 1:
			c = c.DatabaseWide()
		case 2:
			c = c.SharedWith(rapid.StringN(1, 20, 100).Draw(t, "table"), rapid.StringN(1, 20, 100).Draw(t, "shared"))
		}
		if (appendOnly || conditional) && c.Describe().Scheme != store.WozniakIndexed.String() && rapid.Bool().Draw(t, "covering") {
			c = c.Covering()
		}
		stateless := e == "deterministic" || slices.Contains([]string{"mope", "boldyreva", "wozniak", "plaintext"}, c.Describe().Scheme)
		if !appendOnly && !conditional && stateless && rapid.Bool().Draw(t, "server index") {
			c = c.ServerIndex()
		}
	}
	return c
}

// A schema that is written is read back.
func TestFormatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schemafile.Table{Schema: anySchema().Draw(t, "schema")}
		require.NoError(t, s.Check())
		file := schemafile.Format(s)
		got, err := schemafile.Parse("file", file)
		require.NoError(t, err, string(file))
		require.NotContains(t, string(file), "spread-bits: 0", "which no file needs")
		same(t, s, got)
		require.Equal(t, string(file), string(schemafile.Format(got)))

		// Of a table that pages cannot hold, too, it is known what is wrong, and where.
		s.CellPerColumn, s.PageRows = false, rapid.IntRange(2, 4096).Draw(t, "page rows")
		got, err = schemafile.Parse("file", schemafile.Format(s))
		require.Equal(t, s.Check() == nil, err == nil, "%s: %v", schemafile.Format(s), err)
		if err == nil {
			same(t, s, got)
		} else {
			require.ErrorIs(t, err, schemafile.ErrInvalid)
		}
	})
}

// Beginnings of texts may have signs that mean something in YAML: the # of a comment, of which nothing would be read, and the colon of a field.
func TestBeginningsAreRead(t *testing.T) {
	for _, typ := range []string{
		"string after https:// https://www.", "string after a #b", "string after file: http://", "string after file:", `string after " ' - \ é`, "string after {a [b",
	} {
		of, err := store.ParseType(typ)
		require.NoError(t, err)
		s := schemafile.Table{Schema: store.Schema{
			Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("url", of, store.MOPE)}, SpreadBits: 4,
		}}
		got, err := schemafile.Parse("file", schemafile.Format(s))
		require.NoError(t, err, typ)
		same(t, s, got)
		require.Equal(t, of.String(), got.Columns[0].Describe().Type)
	}
}

// A file asks for pages by its layout.
func TestPages(t *testing.T) {
	const rest = "\nkey:\n  - {name: k, type: int32, encryption: ordered, scheme: mope}\ncolumns:\n  - {name: c, type: string, encryption: randomised}\n"
	for _, c := range []struct {
		file string
		rows int
		want string
	}{
		{"layout: paged" + rest, paged.Rows, ""},
		{"layout: paged\npage-rows: 2" + rest, 2, ""},
		{"page-rows: 4096\nlayout: paged" + rest, 4096, ""},
		{"layout: packed" + rest, 0, ""},
		{"page-rows: 64" + rest, 0, "f:2:12: page-rows: only pages have it: write layout: paged"},
		{"layout: paged\npage-rows: 0" + rest, 0, "f:3:12: page-rows: 0 rows a page, need 2 at least"},
		{"layout: paged\npage-rows: 4097" + rest, 0, `f:3:12: page-rows: table "pages": 4097 rows a page, need 2 to 4096`},
		{"layout: paged\npage-rows: 1" + rest, 0, `f:3:12: page-rows: table "pages": 1 rows a page, need 2 to 4096`},
		{"layout: paged\npage-rows: all" + rest, 0, "f:3:12: page-rows: need an integer, not all"},
		{"layout: paged\nconditional: true\nspread-bits: 13" + rest, 0, `f:4:14: spread-bits: table "pages": a spread`},
		{"layout: paged\nconditional: true" + rest, 0, `f:3:14: conditional: table "pages": a table of pages cannot have writes under conditions`},
		{"layout: paged\nappend-only: true" + rest, 0, `f:3:14: append-only: table "pages": a table of pages`},
		{"layout: pages" + rest, 0, `f:2:9: layout: unknown value "pages"`},
		{"layout: paged\ntenants: true" + rest, 0, `f:3:10: tenants: table "pages": a table of pages cannot have tenants`},
		{"layout: paged\nttl: 1d" + rest, 0, `f:3:6: ttl: table "pages": a table of pages cannot have a time to live`},
		{"layout: paged" + rest + "  - {name: d, type: string, encryption: deterministic}\n", 0, `f:7:5: columns[1]: column "d" of table "pages", which has pages`},
		{"layout: paged" + strings.ReplaceAll(rest, "mope", "wozniak-indexed"), 0, "f:4:5: key[0]:"},
	} {
		got, err := schemafile.Parse("f", []byte("table: pages\n"+c.file))
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			if !strings.Contains(c.file, "spread-bits") {
				require.NotContains(t, err.Error(), "\n", "a mistake is told once")
			}
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.rows, got.PageRows)
		again, err := schemafile.Parse("f", schemafile.Format(got))
		require.NoError(t, err)
		same(t, got, again)
	}
}

// Whatever a file holds, it is read or refused with a place, and what is read can be created.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/readings.yaml")
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte("table: t\nkey:\n  - {name: k, type: string, encryption: hashed}\ncolumns: [{name: \"a\\x00\", type: 'uuid', encryption: plain}]\n"))
	f.Add([]byte("table: &a t\nkey: *a\n<<: {}\n? x\n: |\n  y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := schemafile.Parse("f", data)
		if err != nil {
			require.ErrorIs(t, err, schemafile.ErrInvalid)
			require.True(t, strings.HasPrefix(err.Error(), "f:"), err)
			return
		}
		require.NoError(t, s.Check())
		again, err := schemafile.Parse("f", schemafile.Format(s))
		require.NoError(t, err)
		same(t, s, again)
	})
}

// A column is read as the list of columns has it, without the type where that is known.
func TestParseColumn(t *testing.T) {
	known := func(name string) string {
		if name == "known" {
			return "int8"
		}
		return ""
	}
	for text, want := range map[string]store.Column{
		"name: note, type: string, encryption: randomised":                                           store.RandomisedColumn("note", store.String),
		" { name: k, type: decimal(2) from 0 to 9, encryption: plain}":                               store.PlainColumn("k", store.Decimal(2).Within(decimal(t, "0"), decimal(t, "9"))),
		"name: known, encryption: ordered, scheme: mope, covering: true":                             store.OrderedColumn("known", store.Int8, store.MOPE).Covering(),
		"name: known, encryption: ordered, scheme: mope, covering: [a, 'b c']":                       store.OrderedColumn("known", store.Int8, store.MOPE).Covering("a", "b c"),
		"name: known, encryption: ordered, scheme: mope":                                             store.OrderedColumn("known", store.Int8, store.MOPE),
		"name: known, type: bool, encryption: deterministic, shared-with: {table: 'a b', column: c}": store.DeterministicColumn("known", store.Bool).SharedWith("a b", "c"),
	} {
		got, err := schemafile.ParseColumn("--add", text, known)
		require.NoError(t, err, text)
		require.Equal(t, want.Describe(), got.Describe())
	}
	for text, want := range map[string]string{
		"":                              "--add:1:1: name: it is missing\n--add:1:1: encryption: it is missing",
		"note":                          "--add:1:1: note: unknown field",
		"name: note, encryption: plain": "--add:1:1: type: it is missing",
		"name: a, type: uuid, encryption: ordered, scheme: mope": `--add:1:1: column "a": values of type uuid have no order`,
		"name: a, type: bol, encryption: plain":                  `--add:1:16: type: unknown type "bol"`,
		"{name: a, type: bol, encryption: plain}":                `--add:1:17: type: unknown type "bol"`,
		"name: a, type: bool":                                    "--add:1:1: encryption: it is missing",
		"{name: a":                                               "--add:1:",
	} {
		_, err := schemafile.ParseColumn("--add", text, known)
		require.ErrorIs(t, err, schemafile.ErrInvalid, text)
		require.ErrorContains(t, err, want, text)
	}
}
