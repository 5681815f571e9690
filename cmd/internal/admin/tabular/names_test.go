package tabular

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/store"
)

// Fields are told apart by their names, and one without a name by its number. Those of one name may all be ignored.
func TestHeadings(t *testing.T) {
	for _, test := range []struct {
		file, text string
		ignored    []string
		fields     []string
		unnamed    []int
		err        string
	}{
		{"t.csv", "id,s,note,note\n", nil, nil, nil, "fields number 3 and 4 have the same name, note: rename one of them, or leave both out with --ignore note"},
		{"t.csv", "id,s,note,note\n", []string{"note"}, []string{"id", "s", "note", "note"}, nil, ""},
		{"t.csv", "7,8,8\n", nil, nil, nil, "fields number 2 and 3 have the same name: rename one of them, or leave both out with --ignore and their name; if the first row holds values, say --header no"},
		{"t.csv", "id,,s\n", nil, []string{"id", "2", "s"}, []int{2}, ""},
		{"t.csv", "id,,2\n", nil, nil, nil, "field number 2 has no name in the first row, and another field is called 2: give it a name, or leave both out with --ignore 2"},
		{"t.csv", "id,3,\n", nil, nil, nil, "field number 3 has no name in the first row, and another field is called 3"},
		{"t.csv", "id,,2\n", []string{"2"}, []string{"id", "2", "2"}, []int{2}, ""},
		{"t.csv", ",\n", nil, []string{"1", "2"}, []int{1, 2}, ""},
		{"t.csv", "id,\xff\n", nil, nil, nil, "its first row is not in UTF-8"},
	} {
		path := filepath.Join(t.TempDir(), test.file)
		require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
		r, err := (&Input{file: path}).Open([]string{"id", "s"}, test.ignored, nil)
		if test.err != "" {
			require.ErrorContains(t, err, test.err, test.text)
			continue
		}
		require.NoError(t, err, test.text)
		require.Equal(t, test.fields, r.Fields())
		require.Equal(t, test.unnamed, r.Unnamed())
		require.NoError(t, r.Close())
	}
	fields := []string{"", "id", "", "id"}
	unnamed, err := heading{ignored: []string{"id"}}.check(fields)
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, unnamed)
	require.Equal(t, []string{"1", "id", "3", "id"}, fields)
}

// In Parquet, too, a field without a name has its number.
func TestUnnamedParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewWriter(file, parquet.NewSchema("t", parquet.Group{"": parquet.Leaf(parquet.Int64Type), "id": parquet.Leaf(parquet.Int64Type)}))
	_, err = w.WriteRows([]parquet.Row{{parquet.Int64Value(0).Level(0, 0, 0), parquet.Int64Value(7).Level(0, 0, 1)}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	r, err := (&Input{file: path}).Open([]string{"id", "1"}, []string{"1"}, nil)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, []string{"1", "id"}, r.Fields())
	require.Equal(t, []int{1}, r.Unnamed())
	row, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, int64(7), row.Cells[1].Value)
}

// A field of JSON that is ignored may hold anything of JSON, and be there twice. Unknown fields are named together.
func TestIgnoredJSON(t *testing.T) {
	for _, test := range []struct{ line, err string }{
		{`{"id":1,"s":"a","names":["x",{"y":"]}"}],"names":{}}`, ""},
		{`{"names":"\ud83d\ude00\"","id":1,"names":null,"s":"a"}`, ""},
		{`{"id":1,"s":"a","names":["x"}`, "it is no object of JSON"},
		{`{"id":1,"s":"a","names":["x",]}`, "it is no object of JSON"},
		{`{"id":1,"s":"a","names":["x"`, "the last line ends in the middle of an object"},
		{`{"id":1,"s":"a","names":["x`, "the last line ends in the middle of an object"},
		{`{"id":1,"s":"a","names":[nul]}`, "it is no object of JSON"},
		{`{"id":1,"s":"a","names":[-Infinity]}`, "field names holds NaN or Infinity, which JSON does not have"},
		{"{\"id\":1,\"s\":\"a\",\"names\":[\"\xff\"]}", "field names holds a text that is not in UTF-8"},
		{`{"id":1,"s":["a"]}`, "field s holds an array or object, which no column does: write it as a text, or leave the field out with --ignore"},
		{`{"id":1,"s":NaN}`, `field s holds NaN or Infinity, which JSON does not have: write "NaN" or "Infinity" in quotes for a column of floating point numbers, or null`},
		{`{"id":1,"s":-Infinity}`, "field s holds NaN or Infinity"},
		{`{"id":1,"id":2}`, "field id is there twice"},
		{`{"id":1,"b":[1],"a":{},"b":2,"s":"a"}`, "the table has no column for fields b, a; it has id, s, names: --map FIELD=COLUMN names the column of a field, --ignore FIELD leaves the field out"},
		{`{"id":1,"b":1,"a":[`, "the last line ends in the middle of an object"},
	} {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(test.line), 0o600))
		r, err := (&Input{file: path}).Open([]string{"id", "s", "names"}, []string{"names"}, nil)
		require.NoError(t, err)
		row, err := r.Next()
		if test.err != "" {
			require.ErrorContains(t, err, test.err, test.line)
		} else {
			require.NoError(t, err, test.line)
			require.Equal(t, []celltext.Cell{{Kind: celltext.Literal, Text: "1"}, {Kind: celltext.String, Text: "a"}, {}}, row.Cells)
		}
		require.NoError(t, r.Close())
	}
}

// Lists, groups and maps of Parquet, and types that no column has, are left out where they are ignored, wherever they are.
func TestNestedParquet(t *testing.T) {
	type pair struct {
		A int64    `parquet:"a"`
		B []string `parquet:"b"`
	}
	type nested struct {
		Names []string         `parquet:"names"`
		ID    int64            `parquet:"id"`
		Pair  *pair            `parquet:"pair"`
		List  []int64          `parquet:"list,list"`
		S     *string          `parquet:"s"`
		Map   map[string]int64 `parquet:"map"`
		Last  float64          `parquet:"last"`
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[nested](file)
	a := "a"
	for group := range 2 {
		var rows []nested
		for i := range 300 {
			row := nested{ID: int64(300*group + i), Last: 0.5, Names: make([]string, i%4), List: make([]int64, i%3)}
			if i%2 == 0 {
				row.S, row.Pair, row.Map = &a, &pair{B: []string{"x", "y"}}, map[string]int64{"x": 1, "y": 2}
			}
			rows = append(rows, row)
		}
		_, err = w.Write(rows)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())

	_, err = (&Input{file: path}).Open(nil, []string{"pair", "list", "map"}, nil)
	require.ErrorContains(t, err, "field names holds arrays or objects, which no column does: write a file with flat fields, or leave it out with --ignore names")
	_, err = (&Input{file: path}).Open(nil, []string{"names", "list", "pair"}, nil)
	require.ErrorContains(t, err, "field map holds arrays or objects")
	r, err := (&Input{file: path}).Open(nil, []string{"names", "pair", "list", "map", "last"}, nil)
	require.NoError(t, err)
	defer r.Close()
	require.ElementsMatch(t, []string{"names", "id", "pair", "list", "s", "map", "last"}, r.Fields())
	at := map[string]int{}
	for i, name := range r.Fields() {
		at[name] = i
	}
	for i := range 600 {
		row, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, int64(i), row.Cells[at["id"]].Value)
		require.Equal(t, 0.5, row.Cells[at["last"]].Value)
		if i%2 == 0 {
			require.Equal(t, "a", row.Cells[at["s"]].Value)
		} else {
			require.Equal(t, celltext.Null, row.Cells[at["s"]].Kind)
		}
		if i == 0 {
			require.JSONEq(t, `{"id":"0","s":"a","last":"0.5"}`, string(row.Came()), "what was not read is left out")
		}
	}
	rows, err := drain(r)
	require.NoError(t, err)
	require.Zero(t, rows)
}

// A carriage return too many, as Python writes it on Windows unless its newline is empty, is no part of the last value.
func TestCarriageReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	const says = `a carriage return too many: remove it first, with "sed 's/\r\r$/\r/'", say`
	require.NoError(t, os.WriteFile(path, []byte("n,c\r\r\n1,a\r\r\n"), 0o600))
	_, err := (&Input{file: path}).Open([]string{"n", "c"}, nil, nil)
	require.ErrorContains(t, err, "its first row ends with "+says)
	require.NoError(t, os.WriteFile(path, []byte("1,a\r\n2,b\r\r\n3,\"c\r\"\r\n4,d\r"), 0o600))
	r, err := (&Input{file: path, header: "no"}).Open(nil, nil, nil)
	require.NoError(t, err)
	defer r.Close()
	for _, want := range []string{"a", "", "c\r", "d"} {
		row, err := r.Next()
		if want == "" {
			require.ErrorContains(t, err, "it ends with "+says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, row.Cells[1].Text)
	}
}

// A row of the fields' names comes of files that were joined. In a file of one field it may be a value.
func TestHeaderAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	for text, rows := range map[string][]string{
		"id,c\n1,a\nid,c\n2,b\n": {"1", "", "2"}, "\xef\xbb\xbfid,c\r\n1,a\r\n\xef\xbb\xbfid,c\r\n2,b\r\n": {"1", "", "2"},
		"id,c\nid,\"c\"\n": {"id"}, "id\na\nid\n": {"a", "id"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		r, err := (&Input{file: path}).Open([]string{"id", "c"}, nil, nil)
		require.NoError(t, err)
		for _, want := range rows {
			row, err := r.Next()
			if want == "" {
				require.ErrorContains(t, err, "it has the names of the fields again, as where files were joined", "%q", text)
				continue
			}
			require.NoError(t, err, "%q", text)
			require.Equal(t, want, row.Cells[0].Text)
		}
		require.NoError(t, r.Close())
	}
	require.NoError(t, os.WriteFile(path, []byte("id,c\nid,c\n"), 0o600))
	r, err := (&Input{file: path, header: "no"}).Open(nil, nil, nil)
	require.NoError(t, err)
	defer r.Close()
	for range 2 {
		_, err := r.Next()
		require.NoError(t, err)
	}
}

// Files that were joined may each begin with the mark of UTF-8, which is no part of a value. In quotes it is one.
func TestMarkAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	for _, c := range []struct{ header, text string }{{"no", "\ufeff1,a\n\ufeff2,b\n\"\ufeff3\",c\n"}, {"yes", "\ufeffid\n1\n\ufeffid\n\"\ufeff3\"\n"}} {
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		r, err := (&Input{file: path, header: c.header}).Open(nil, nil, nil)
		require.NoError(t, err)
		for _, want := range []string{"1", "", "\ufeff3"} {
			row, err := r.Next()
			if want == "" {
				require.ErrorContains(t, err, "it begins with the mark of UTF-8 (U+FEFF), as where files were joined")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want, row.Cells[0].Text)
		}
		require.NoError(t, r.Close())
	}
}

// A row that has the names of its columns as its values is written so that it is read as a row.
func TestNamesAsValues(t *testing.T) {
	schema := store.Schema{Name: "t", Columns: []store.Column{store.RandomisedColumn("id", store.String), store.RandomisedColumn("7", store.Int64)}}
	for _, c := range []struct {
		flags []string
		csv   string
	}{
		{nil, "id,7\n\"id\",\"7\"\nid,8\n,7\n"},
		{[]string{"--null", "id"}, "\"id\",7\n\"id\",\"7\"\n\"id\",8\nid,7\n"},
	} {
		format, columns := formatOf(t, schema, c.flags...)
		path := filepath.Join(t.TempDir(), "t.csv")
		rows := [][]any{{"id", int64(7)}, {"id", int64(8)}, {nil, int64(7)}}
		write(t, path, format, columns, rows)
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, c.csv, string(file))
		require.Equal(t, rows, read(t, path, columns))
	}
}
