package tabular

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/store"
)

// drain reads all rows of an input, and returns how many there are and what ended them.
func drain(r Reader) (rows int, err error) {
	for {
		row, err := r.Next()
		var bad *RowError
		switch {
		case err == io.EOF:
			return rows, nil
		case errors.As(err, &bad) && !bad.Fatal:
			if bad.Row.Number != rows+1 {
				return rows, errors.New("a row has the number of another")
			}
		case err != nil:
			return rows, err
		case row.Number != rows+1 || len(row.Cells) != len(r.Fields()):
			return rows, errors.New("a row has the number of another, or too many cells")
		}
		rows++
	}
}

// Whatever a file holds, it is read or refused, and its rows are counted.
func FuzzFiles(f *testing.F) {
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.PlainPart("k", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("c", store.String)}}
	dir := f.TempDir()
	names := []string{"t.csv", "t.csv.gz", "t.csv.zst", "t.jsonl", "t.jsonl.gz", "t.parquet"}
	for i, name := range names {
		var t testing.T
		format, columns := formatOf(&t, schema)
		path := filepath.Join(dir, name)
		write(&t, path, format, columns, [][]any{{int64(1), "a"}, {int64(2), nil}, {int64(3), "\"\r\n"}})
		data, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(uint8(i), data)
		f.Add(uint8(i), data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, shape uint8, data []byte) {
		path := filepath.Join(t.TempDir(), names[int(shape)%len(names)])
		require.NoError(t, os.WriteFile(path, data, 0o600))
		in := &Input{file: path}
		r, err := in.Open([]string{"k", "c"}, nil, nil)
		if err != nil {
			return
		}
		_, err = drain(r)
		if err != nil {
			require.NotContains(t, err.Error(), "number of another")
		}
		require.NoError(t, r.Close())
	})
}

// An object of JSON is read as package encoding/json reads it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"k":1,"c":"x"}`, `{"k":-1.5e3,"c":null}`, `{"k":true,"c":"\u00e9\n\ud83d\ude00"}`, `{"k":"\ud800"}`, `{"k":[1]}`, `{"k":1,}`, `{"k":01}`, `{"k":1} x`, `[1]`, `{"\ufffd":"\ufffd"}`, `{"k":[{"a":"]\""},1.5,[]],"c":{}}`, `{"k":[NaN]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got := map[string]celltext.Cell{}
		var s scanner
		err := s.object(line, func(name string, cell celltext.Cell) error {
			got[name] = cell
			return nil
		})
		passes := scanner{skips: func(string) bool { return true }}
		if passes.object(line, nil) == nil {
			require.True(t, json.Valid(line), "what is not read is JSON, too")
		} else if err == nil {
			t.Fatal("what is read cannot be passed over")
		}
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		wantErr := d.Decode(&want)
		if err == nil {
			require.NoError(t, wantErr)
			require.Len(t, got, len(want))
		}
		if err != nil || want == nil {
			return
		}
		for name, v := range want {
			cell := got[name]
			switch v := v.(type) {
			case nil:
				require.Equal(t, celltext.Null, cell.Kind)
			case string:
				require.Equal(t, celltext.Cell{Kind: celltext.String, Text: v}, cell)
			case json.Number:
				require.Equal(t, celltext.Cell{Kind: celltext.Literal, Text: v.String()}, cell)
			case bool:
				require.Equal(t, celltext.Literal, cell.Kind)
			default:
				t.Fatal("a nested value was taken")
			}
		}
	})
}
