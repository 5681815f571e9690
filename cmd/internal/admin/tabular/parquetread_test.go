package tabular

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
)

// Row groups without rows are passed over, wherever they are. PyArrow 26 wrote the files, a column id of int32 and a
// column note of texts; pandas writes a frame without rows as one such group.
func TestEmptyRowGroups(t *testing.T) {
	files, err := filepath.Glob("testdata/parquet/*.parquet")
	require.NoError(t, err)
	rows := map[string]int{"rows-2-0-1.parquet": 3, "rows-0-2.parquet": 2, "rows-2-0.parquet": 2, "rows-0.parquet": 0, "no-groups.parquet": 0}
	require.Len(t, files, len(rows))
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r, err := (&Input{file: file}).Open(nil, nil, nil)
			require.NoError(t, err)
			defer r.Close()
			require.Equal(t, []string{"id", "note"}, r.Fields())
			for n := range rows[filepath.Base(file)] {
				row, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, int64(n+1), row.Cells[0].Value)
			}
			_, err = r.Next()
			require.Equal(t, io.EOF, err)
		})
	}
}

// What is too short to be Parquet was cut short, also if it ends in its mark.
func TestShortParquet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	require.NoError(t, os.WriteFile(path, []byte("PAR1\x00\x01\x00\x00\x00PAR1"), 0o600))
	_, err := (&Input{file: path}).Open(nil, nil, nil)
	require.ErrorContains(t, err, "it is damaged, or no Parquet")
	require.NoError(t, os.WriteFile(path, []byte("PAR1\x00\x02\x00\x00\x00PAR1"), 0o600))
	_, err = (&Input{file: path}).Open(nil, nil, nil)
	require.ErrorContains(t, err, "it is damaged: its end tells of more bytes than it has; copy it again")
	for _, text := range []string{"PAR1", "PAR1PAR1", "PAR1\x00\x00PAR1", "PAR1\x00\x00\x00"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := (&Input{file: path}).Open(nil, nil, nil)
		require.ErrorContains(t, err, "it does not end as Parquet does: it was cut short, so copy it again", "%q", text)
	}
}

// Of files that were joined the footer describes the last only, at places where the first has its pages: none of the rows is taken.
func TestJoinedParquet(t *testing.T) {
	dir := t.TempDir()
	schema := store.Schema{Name: "t", Columns: []store.Column{store.RandomisedColumn("c", store.String)}}
	format, columns := formatOf(t, schema)
	var files [3][]byte
	for i, rows := range [][][]any{{{"a"}, {"b"}}, {{"c"}, {"d"}}, nil} {
		path := filepath.Join(dir, "part.parquet")
		write(t, path, format, columns, rows)
		var err error
		files[i], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	foreign, err := os.ReadFile("testdata/parquet/rows-2-0.parquet")
	require.NoError(t, err)
	empty, err := os.ReadFile("testdata/parquet/no-groups.parquet")
	require.NoError(t, err)
	path := filepath.Join(dir, "joined.parquet")
	for name, parts := range map[string][][]byte{
		"of one shape": {files[0], files[1]}, "the last without rows": {files[0], files[2]}, "of another program": {foreign, foreign}, "without row groups": {foreign, empty},
		"three": {files[0], files[1], files[0]},
	} {
		require.NoError(t, os.WriteFile(path, bytes.Join(parts, nil), 0o600))
		_, err := (&Input{file: path}).Open(nil, nil, nil)
		require.ErrorContains(t, err, "several files in Parquet are joined in it, of which only the last could be read: insert each of them by itself", name)
	}
}
