package bench

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "in.csv")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestInferredTypes(t *testing.T) {
	for _, test := range []struct{ cells, want string }{
		{"1\n-2\n3", "int64"},
		{"1\n2.5", "float64"},
		{"1e3", "float64"},
		{"9223372036854775807", "int64"},
		{"2024-02-29\n2023-01-01", "date"},
		{"2024-02-29T12:00:00Z", "timestamp"},
		{"2024-02-29 12:00:00", "timestamp"},
		{"NA\n1\nNA\n2\n3", "int64"}, // most cells are values of it
		{"inf", "float64"},
	} {
		s, err := OpenCSV(write(t, "c\n"+test.cells+"\n"), "c", CSVOptions{})
		require.NoError(t, err, test.cells)
		require.Equal(t, test.want, s.Kind().Name, test.cells)
	}
}

func TestAColumnMayChangeItsTypeBehindTheFirstRows(t *testing.T) {
	name := write(t, "c\n"+strings.Repeat("1\n", sniffed)+"2.5\n")
	s, err := OpenCSV(name, "c", CSVOptions{})
	require.NoError(t, err)
	var last error
	for _, last = range s.Values() {
	}
	require.ErrorIs(t, last, ErrInput)
	require.ErrorContains(t, last, "row 1002, column \"c\": not an integer (int64 is the type of the first rows; --type names another)")

	s, err = OpenCSV(name, "c", CSVOptions{Type: "float64"})
	require.NoError(t, err)
	require.Len(t, all(t, s.Values()), sniffed+1)
}

func TestBareFiles(t *testing.T) {
	s, err := OpenCSV(write(t, "1,5\n2,6"), "2", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 6}, all(t, s.Values()), "without names, and without an end of line")
	s, err = OpenCSV(write(t, "a,b\r\n1,5\r\n2,6\r\n"), "2", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 6}, all(t, s.Values()))
	s, err = OpenCSV(write(t, "2,1\n5,7\n"), "1", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{7}, all(t, s.Values()), "a name comes before a number")
}

// A file without an end of a quotation does not get into memory.
func TestRowsWithoutEnd(t *testing.T) {
	long := strings.Repeat("9", 2*maxRecord)
	for name, text := range map[string]string{
		"lines":        "c\n1\n\"" + strings.Repeat("9\n", 2*maxRecord),
		"line":         "c\n1\n\"" + long,
		"goes on":      "c\n1\n\"" + long + "\n2\n\"\n3\n",
		"opens behind": "c\n1\n" + long + ",\"\n2\n\"\n3\n",
		"came":         "c\n1\n\"\n" + long + "\"\n2\n3\n",
	} {
		for _, skip := range []bool{false, true} {
			s, err := OpenCSV(write(t, text), "c", CSVOptions{Type: "int64", SkipBad: skip})
			require.NoError(t, err)
			n := 0
			var last error
			for _, last = range s.Values() {
				n++
			}
			require.Equal(t, 2, n, name)
			require.ErrorContains(t, last, "row 3, column \"c\": the row has more than 1048576 bytes; is a quotation mark not closed?", name)
		}
	}
}

// A row that is too long is a bad one, which ends with its line unless a quotation is open.
func TestLongRows(t *testing.T) {
	for name, row := range map[string]string{
		"plain":        "5," + strings.Repeat("x", 2*maxRecord),
		"just":         "5," + strings.Repeat("x", maxRecord+8192),
		"many cells":   strings.Repeat("5,", maxRecord),
		"quoted":       "5,\"" + strings.Repeat("x", 2*maxRecord) + "\"",
		"escaped":      "5,\"" + strings.Repeat("\"\"", maxRecord) + "\"",
		"bare quotes":  "5,x\"y\"" + strings.Repeat("x", 2*maxRecord),
		"behind blank": "\n\r\n\n5," + strings.Repeat("x", 2*maxRecord),
		"carriage":     "5," + strings.Repeat("x", 2*maxRecord) + "\r",
	} {
		for _, kind := range []string{"int64", ""} {
			for _, last := range []string{"", "\n", "\n2,y\n\"3\",\"z\nz\"\n"} {
				path := write(t, "c,d\n1,x\n"+row+last)
				s, err := OpenCSV(path, "c", CSVOptions{Type: kind, SkipBad: true})
				require.NoError(t, err, name)
				want := []int64{1}
				if len(last) > 1 {
					want = []int64{1, 2, 3}
				}
				require.Equal(t, want, all(t, s.Values()), name)
				require.Equal(t, 1, s.Skipped(), name)

				s, err = OpenCSV(path, "c", CSVOptions{Type: kind})
				require.NoError(t, err, name)
				var bad error
				for _, bad = range s.Values() {
				}
				require.ErrorIs(t, bad, ErrInput)
				require.ErrorContains(t, bad, "row 3, column \"c\": the row has more than 1048576 bytes", name)
				require.ErrorContains(t, bad, "--skip-bad leaves such rows out", name)
			}
		}
	}
	// A long row with an end is no obstacle.
	s, err := OpenCSV(write(t, "c,d\n1,"+strings.Repeat("x", maxRecord/2)+"\n2,y\n"), "c", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, all(t, s.Values()))
}

// What is written as CSV is read back.
func TestCSVRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Int64(), 1, 50).Draw(t, "values")
		noise := rapid.StringMatching(`[ -~\n]{0,20}`).Draw(t, "neighbour")
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		require.NoError(t, w.Write([]string{"a", "b", "c"}))
		for _, x := range xs {
			require.NoError(t, w.Write([]string{noise, strconv.FormatInt(x, 10), noise}))
		}
		w.Flush()
		name := filepath.Join(dir, "in.csv")
		require.NoError(t, os.WriteFile(name, b.Bytes(), 0o600))
		s, err := OpenCSV(name, "b", CSVOptions{})
		require.NoError(t, err)
		var got []int64
		for x, err := range s.Values() {
			require.NoError(t, err)
			got = append(got, x)
		}
		require.Equal(t, xs, got)
	})
}

// FuzzCSV: whatever a file holds, with SkipBad every row is a value or is counted, and errors show
// nothing of it.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"", "c", "c\n1\n", "c\n\"", "c\n\"1\"\n", "c\nx\n1\n", "\xef\xbb\xbfc\n1", "c,c\n1,2", "c\n1,2\n\n3", "c\n\"a\"b\n2"} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		name := filepath.Join(dir, "in.csv")
		require.NoError(t, os.WriteFile(name, text, 0o600))
		for _, column := range []string{"c", "1"} {
			s, err := OpenCSV(name, column, CSVOptions{Type: "int64", SkipBad: true})
			if err != nil {
				continue
			}
			values := 0
			for x, err := range s.Values() {
				if err != nil {
					require.ErrorIs(t, err, ErrInput)
					break
				}
				text, err := s.Kind().Format(x)
				require.NoError(t, err)
				back, err := s.Kind().Parse(text)
				require.NoError(t, err)
				require.Equal(t, x, back)
				values++
			}
			require.LessOrEqual(t, values+s.Skipped(), bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte("\r"))+1)
		}
	})
}

func TestKinds(t *testing.T) {
	for _, test := range []struct {
		kind, text string
		want       error
	}{
		{"int8", "127", nil}, {"int8", "-128", nil}, {"int8", "128", ope.ErrDomain}, {"int8", "99999999999999999999", ope.ErrDomain},
		{"uint8", "-1", ope.ErrDomain}, {"uint32", "4294967295", nil}, {"uint64", "18446744073709551615", nil},
		{"float64", "NaN", encode.ErrInvalid}, {"float64", "1e400", ope.ErrDomain}, {"float64", "-inf", nil},
		{"float32", "1e39", ope.ErrDomain}, {"float32", "16777217", encode.ErrInexact}, {"float64", "9007199254740993", encode.ErrInexact},
		{"float64", "9007199254740992", nil}, {"float64", "100000000000000000000", nil},
		{"timestamp", "2024-02-29T12:00:00.0000001Z", encode.ErrInexact}, {"timestamp", "2024-02-29T12:00:00.000001+01:00", nil},
		{"date", "0000-01-01", nil},
	} {
		k, err := KindByName(test.kind)
		require.NoError(t, err)
		x, err := k.Parse(test.text)
		if test.want != nil {
			require.ErrorIs(t, err, test.want, "%s %s", test.kind, test.text)
			require.NotContains(t, err.Error(), test.text)
			require.Regexp(t, `^[a-z ]+ `+test.kind+`( [a-z ]+)?$`, err.Error(), "it names the type, and no codec or code")
			continue
		}
		require.NoError(t, err, "%s %s", test.kind, test.text)
		text, err := k.Format(x)
		require.NoError(t, err)
		back, err := k.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, x, back)
	}
	for _, text := range []string{"", "x", "0x10", "1_000", "2024-02-30", "1.5.2", "--1"} {
		for _, name := range KindNames() {
			k, err := KindByName(name)
			require.NoError(t, err)
			if _, err := k.Parse(text); err == nil {
				require.Contains(t, name, "float", "%q", text)
			}
		}
	}
}

func TestFloatsKeepTheirOrder(t *testing.T) {
	k, err := KindByName("float64")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if math.IsNaN(a) || math.IsNaN(b) {
			t.Skip()
		}
		x, err := k.Parse(strconv.FormatFloat(a, 'g', -1, 64))
		require.NoError(t, err)
		y, err := k.Parse(strconv.FormatFloat(b, 'g', -1, 64))
		require.NoError(t, err)
		require.Equal(t, a < b, x < y)
	})
}
