package tabular

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
)

// firstTexts returns the texts of the first field of a file, up to an error.
func firstTexts(path string) (texts []string, err error) {
	r, err := (&Input{file: path}).Open([]string{"c"}, nil, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		if err != nil {
			return texts, err
		}
		text, ok := row.Cells[0].Value.(string)
		if !ok {
			text = row.Cells[0].Text
		}
		texts = append(texts, text)
	}
}

// A bit that is flipped in a file that was compressed, or in a page of Parquet, is noticed, or changes no value.
func TestDamagedFiles(t *testing.T) {
	schema := store.Schema{Name: "t", Columns: []store.Column{store.RandomisedColumn("c", store.String)}}
	var want []string
	var rows [][]any
	for range 20 {
		text := strings.Repeat("some text of a row", len(want)%3+1)
		want, rows = append(want, text), append(rows, []any{text})
	}
	for _, name := range []string{"t.csv.gz", "t.csv.zst", "t.jsonl.zst", "t.parquet"} {
		format, columns := formatOf(t, schema)
		path := filepath.Join(t.TempDir(), name)
		write(t, path, format, columns, rows)
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		end := len(file)
		if strings.HasSuffix(name, ".parquet") { // what follows has no checksum
			end = bytes.Index(file, []byte("rangecrypt"))
			end = min(end, len(file)/2)
		}
		noticed := 0
		for bit := range 8 * end {
			flipped := bytes.Clone(file)
			flipped[bit/8] ^= 1 << (bit % 8)
			require.NoError(t, os.WriteFile(path, flipped, 0o600))
			got, err := firstTexts(path)
			if err != io.EOF {
				noticed++
				continue
			}
			require.Equal(t, want, got, "%s, bit %d of %d", name, bit, 8*len(file))
		}
		require.Positive(t, noticed)
	}
}

// What comes after the end of a compressed file is named; a second part of it is read.
func TestAfterTheCompressedRows(t *testing.T) {
	schema := store.Schema{Name: "t", Columns: []store.Column{store.RandomisedColumn("c", store.String)}}
	for _, name := range []string{"t.csv.gz", "t.csv.zst"} {
		format, columns := formatOf(t, schema)
		path := filepath.Join(t.TempDir(), name)
		write(t, path, format, columns, [][]any{{"x"}})
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, after := range []string{"garbage", "\x00\x00\x00\x00\x00\x00\x00\x00", "x,y,z\n"} {
			require.NoError(t, os.WriteFile(path, append(bytes.Clone(file), after...), 0o600))
			_, err := firstTexts(path)
			require.ErrorContains(t, err, "there is something after the compressed rows", "%s %q", name, after)
		}
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(file), file...), 0o600))
		texts, err := firstTexts(path)
		require.Equal(t, io.EOF, err)
		require.Equal(t, []string{"x", "c", "x"}, texts)
	}
}

// A frame without a checksum is read; nobody can say whether it is damaged.
func TestFrameWithoutChecksum(t *testing.T) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderCRC(false))
	require.NoError(t, err)
	_, err = z.Write([]byte("c\nx\n"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "t.csv.zst")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	texts, err := firstTexts(path)
	require.Equal(t, io.EOF, err)
	require.Equal(t, []string{"x"}, texts)
}
