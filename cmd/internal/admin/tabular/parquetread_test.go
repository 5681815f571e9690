package tabular

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
			r, err := (&Input{file: file}).Open(nil, nil)
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
