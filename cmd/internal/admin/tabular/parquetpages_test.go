package tabular

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Booleans in runs are what the file has, null or not, in pages of either version. PyArrow wrote the files, with several pages and
// two row groups each.
func TestBooleansInRuns(t *testing.T) {
	for _, name := range []string{"flags-v1.parquet", "flags-v2.parquet"} {
		for _, ignored := range [][]string{nil, {"flag"}, {"id", "full"}} {
			r, err := (&Input{file: "testdata/" + name}).Open(nil, ignored, nil)
			require.NoError(t, err)
			for i := range 1000 {
				row, err := r.Next()
				require.NoError(t, err)
				var flag any = i/20%2 == 0 || i%3 == 0
				full := flag
				if i%7 == 3 {
					flag, full = nil, false
				}
				require.Equal(t, []any{int64(i), flag, full}, []any{row.Cells[0].Value, row.Cells[1].Value, row.Cells[2].Value}, "%s, row %d", name, i)
			}
			_, err = r.Next()
			require.Equal(t, io.EOF, err)
			require.NoError(t, r.Close())
		}
	}
}

// Runs are of any number of bits. What is cut short is an error, and so is what would have no end.
func TestRuns(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		data string
		n    int
		want []bool
	}{
		{"", 0, nil},
		{"\x06\x01", 3, []bool{yes, yes, yes}},
		{"\x06\x01\x04\x00\x02\x01", 6, []bool{yes, yes, yes, no, no, yes}},
		{"\x10\xff", 3, []bool{yes, yes, yes}}, // as the library writes it
		{"\x03\x05", 4, []bool{yes, no, yes, no}},
		{"\x02\x01\x05\x01\x80", 17, []bool{yes, yes, no, no, no, no, no, no, no, no, no, no, no, no, no, no, yes}},
		{"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 2, []bool{yes, yes}},
		{"\x00\x00\x04\x01", 2, []bool{yes, yes}},
	} {
		got, err := runs([]byte(c.data), c.n)
		require.NoError(t, err, "%q", c.data)
		require.Equal(t, c.want, got, "%q", c.data)
	}
	for _, data := range []string{"", "\x06", "\x80", "\x05\x01", "\x02\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", "\x00\x00\x00\x00"} {
		_, err := runs([]byte(data), 3)
		require.ErrorIs(t, err, errPages, "%q", data)
	}
}

// Integers of 32 bits whose differences have more are refused: the library takes them for others. DuckDB wrote the file.
func TestDifferencesThatAreTooWide(t *testing.T) {
	r, err := (&Input{file: "testdata/wide.parquet"}).Open(nil, nil, nil)
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next()
	require.ErrorContains(t, err, "field wide has differences of more than 32 bits in the encoding DELTA_BINARY_PACKED, which Parquet does not have: write the file again without that encoding")

	require.True(t, wide([]byte("\x80\x01\x04\x02\x00\x00\x21\x00\x00\x00data")))
	for _, data := range []string{
		"", "\x80", "\x80\x01\x04\x02\x00\x00\x20\x00\x00\x00data", "\x80\x01\x04\x02\x00\x00\x20\x21\x21\x21data", "\x80\x01\x00\x02\x00\x00\x21data",
		"\x80\x01\x04\x01\x00\x00\x21\x00\x00\x00data", "\x80\x01\xff\xff\xff\xff\x0f\x02\x00\x00\x21",
	} {
		require.False(t, wide([]byte(data)), "%q", data)
	}
}
