package values

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "in.csv")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func maxBad(t testing.TB, text string) MaxBad {
	t.Helper()
	m, err := ParseMaxBad(text)
	require.NoError(t, err)
	return m
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
	require.ErrorContains(t, last, "line 1002, column \"c\": not an integer, but a value of another type than int64, which is only a guess from the first rows: name the type with --type float64")

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
	s, err = OpenCSV(write(t, "2,1\n5,7\n"), "1", CSVOptions{Header: HeaderYes})
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
		for _, bad := range []MaxBad{{}, DefaultMaxBad(), maxBad(t, "100%")} {
			s, err := OpenCSV(write(t, text), "c", CSVOptions{Type: "int64", MaxBad: bad})
			require.NoError(t, err)
			n := 0
			var last error
			for _, last = range s.Values() {
				n++
			}
			require.Equal(t, 2, n, name)
			require.ErrorContains(t, last, "line 3, column \"c\": the row has more than 1048576 bytes; is a quotation mark not closed?", name)
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
				s, err := OpenCSV(path, "c", CSVOptions{Type: kind, MaxBad: DefaultMaxBad()})
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
				line := 3 + strings.Count(row, "\n")
				require.ErrorContains(t, bad, fmt.Sprintf("line %d: the row has more than 1048576 bytes", line), name)
				require.ErrorContains(t, bad, "--skip-bad leaves such rows out", name)
			}
		}
	}
	// A long row with an end is no obstacle.
	s, err := OpenCSV(write(t, "c,d\n1,"+strings.Repeat("x", maxRecord/2)+"\n2,y\n"), "c", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, all(t, s.Values()))
}

// read reads a text, skipping what is allowed.
func read(t testing.TB, text, column string, opts CSVOptions) (values []int64, skipped int, err error) {
	t.Helper()
	s, err := OpenCSV(write(t, text), column, opts)
	if err != nil {
		return nil, 0, err
	}
	for x, err := range s.Values() {
		if err != nil {
			return values, s.Skipped(), err
		}
		values = append(values, x)
	}
	return values, s.Skipped(), nil
}

// Every bad row is counted, wherever it stands.
func TestBadRowsAreCounted(t *testing.T) {
	for _, test := range []struct {
		name, text string
		values     []int64
		bad        int
	}{
		{"all over", "c,d\n1,1\n2,1\n,2\n3,4\nx,2\ny,3\n,3\n", []int64{1, 2, 3}, 4},
		{"before the good ones", "c,d\nx,1\n,1\n1,1\n", []int64{1}, 2},
		{"without an end of line", "c,d\n1,1\nx,1", []int64{1}, 1},
		{"among blank lines", "c,d\n\n1,1\n\r\n\nx,1\n\n\n", []int64{1}, 1},
		{"too few cells", "c,d\n1,1\n2\n3,3\n", []int64{1, 3}, 1},
		{"too many cells", "c,d\n1,1\n2,2,2\n3,3\n", []int64{1, 3}, 1},
		{"a separator at the end is no cell", "c,d\n1,1,\n2,2,,\n", []int64{1, 2}, 0},
		{"bare quotation", "c,d\n1,a\"b\n2,b\n", []int64{2}, 1},
		{"text after a quotation", "c,d\n1,\"a\"b\n2,b\n", []int64{2}, 1},
		{"quotation at the very end", "c,d\n2,b\n1,\"a\"b", []int64{2}, 1},
		{"quotation over lines", "c,d\n1,\"a\nb\"\nx,\"a\nb\"\n2,\"a\"\"b\"\n", []int64{1, 2}, 1},
		{"carriage returns", "c,d\r\n1,1\r\nx,1\r\n2,2\r\n", []int64{1, 2}, 1},
		{"a carriage return too many", "c,d\n1,1\r\r\n2,2\r\r\nx,3\r\r\n", []int64{1, 2}, 1},
		{"NUL bytes", "c,d\n1,1\n\x00\x002,2\n3,\x00\n\x00\x00", []int64{1, 3}, 2},
		{"mark of UTF-8", "\xef\xbb\xbfc,d\n1,1\nx,1\n", []int64{1}, 1},
	} {
		values, skipped, err := read(t, test.text, "c", CSVOptions{Type: "int64", MaxBad: DefaultMaxBad()})
		require.NoError(t, err, test.name)
		require.Equal(t, test.values, values, test.name)
		require.Equal(t, test.bad, skipped, test.name)

		_, _, err = read(t, test.text, "c", CSVOptions{Type: "int64"})
		if test.bad == 0 {
			require.NoError(t, err, test.name)
			continue
		}
		require.ErrorIs(t, err, ErrInput, test.name)
		require.Regexp(t, fmt.Sprintf(`column "c": %d of %d rows? (is|are) bad: line `, test.bad, test.bad+len(test.values)), err, test.name)
	}
}

// More bad rows than may be are an error that names the first of them by line, and shows no value.
func TestTooManyBadRows(t *testing.T) {
	text := "c,d\n" + strings.Repeat("1,1\n", 990) + strings.Repeat("secret,1\n", 9) + ",\n"
	values, skipped, err := read(t, text, "c", CSVOptions{MaxBad: DefaultMaxBad()})
	require.NoError(t, err, "1 % of 1,000 rows")
	require.Len(t, values, 990)
	require.Equal(t, 10, skipped)
	for bad, ok := range map[string]bool{
		"10": true, "1%": true, "1.0%": true, "100%": true, "1000": true, "9": false, "0": false, "0%": false, "0.99%": false,
	} {
		_, _, err := read(t, text, "c", CSVOptions{MaxBad: maxBad(t, bad)})
		if ok {
			require.NoError(t, err, bad)
			continue
		}
		require.ErrorIs(t, err, ErrInput, bad)
		require.ErrorContains(t, err, "10 of 1000 rows are bad")
		require.ErrorContains(t, err, "line 992: not an integer; line 993: not an integer;")
		require.ErrorContains(t, err, "; and 5 more")
		require.NotContains(t, err.Error(), "secret")
	}
	_, _, err = read(t, text+"x,\n", "c", CSVOptions{MaxBad: DefaultMaxBad()})
	require.ErrorContains(t, err, "11 of 1001 rows are bad, and at most 10 may be:")

	few := "c\n" + strings.Repeat("1\n", 80) + strings.Repeat("x\n", 10)
	_, skipped, err = read(t, few, "c", CSVOptions{MaxBad: DefaultMaxBad()})
	require.NoError(t, err, "10 rows of fewer than 100")
	require.Equal(t, 10, skipped)
	_, _, err = read(t, few+"x\n", "c", CSVOptions{MaxBad: DefaultMaxBad()})
	require.ErrorContains(t, err, "11 of 91 rows are bad, and at most 10 may be")

	_, _, err = read(t, "c\n"+strings.Repeat("1\n", 198)+"x\n", "c", CSVOptions{MaxBad: maxBad(t, "0.5%")})
	require.ErrorContains(t, err, "1 of 199 rows is bad, and at most 0 may be: line 200: not an integer; --max-bad allows more")

	for _, wrong := range []string{"", "x", "-1", "1.5", "%", "-1%", "101%", "1e1%", "1/3%", "+5%", "5%%", "nan%"} {
		_, err := ParseMaxBad(wrong)
		require.ErrorIs(t, err, exit.ErrUsage, wrong)
	}
}

// An input of which all rows are bad is named with the first of them, also if all may be.
func TestOnlyBadRows(t *testing.T) {
	s, err := OpenCSV(write(t, "c\n"+strings.Repeat("secret\n", 7)), "c", CSVOptions{Type: "int64", MaxBad: maxBad(t, "100%")})
	require.NoError(t, err)
	require.Empty(t, all(t, s.Values()))
	err = NoValues(s)
	require.ErrorIs(t, err, ErrInput)
	require.ErrorContains(t, err, `, column "c"; of 7 rows all are bad: line 2: not an integer; line 3: not an integer; `)
	require.ErrorContains(t, err, "; and 2 more")
	require.NotContains(t, err.Error(), "secret")
}

// What a table was filled from is told apart, whatever columns are called.
func TestDescribedColumns(t *testing.T) {
	described := make(map[string]bool)
	for _, test := range []struct {
		header string
		column string
	}{{"a,\n", "2"}, {"a,number 2\n", "2"}, {"a,a\n", "2"}, {`b,"a, number 2"` + "\n", "2"}, {"a,2\n", "2"}} {
		s, err := OpenCSV(write(t, test.header+"1,1\n"), test.column, CSVOptions{Header: HeaderYes, Type: "int64"})
		require.NoError(t, err)
		text := DescribeColumn(s.Column())
		require.False(t, described[text], text)
		described[text] = true
	}
	require.True(t, described[`column "number 2"`], "which has no name")
	require.True(t, described[`the column whose name is "number 2"`])
	require.True(t, described[`the column whose name is "a, number 2"`])
}

// Of the first values of a file, bad rows count up to the last of them.
func TestBadRowsBeforeALimit(t *testing.T) {
	text := "c\n1\nx\n2\ny\n"
	values, skipped, err := read(t, text, "c", CSVOptions{Limit: 2, MaxBad: maxBad(t, "1")})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, values)
	require.Equal(t, 1, skipped)
	_, _, err = read(t, text, "c", CSVOptions{Limit: 2})
	require.ErrorContains(t, err, "1 of 3 rows is bad: line 3: not an integer")
	_, _, err = read(t, text, "c", CSVOptions{Limit: 1})
	require.NoError(t, err)
}

// What fails only a type that was guessed is never left out.
func TestGuessedTypesAreNotHeldAgainstValues(t *testing.T) {
	for name, test := range map[string]struct{ first, later, says string }{
		"decimals":      {"1", "2.5", "--type float64"},
		"exponents":     {"1", "1e3", "--type float64"},
		"infinity":      {"1", "-inf", "--type float64"},
		"no sign":       {"1", "18446744073709551615", "--type uint64"},
		"beyond all":    {"1", "99999999999999999999999", "name the type with --type"},
		"very far":      {"1", "1e400", "name the type with --type"},
		"not exact":     {"1.5", "9007199254740993", "name the type with --type"},
		"instants":      {"2024-02-29", "2024-02-29 12:00:00", "name the type with --type"},
		"no date":       {"2024-02-29", "5", "name the type with --type"},
		"finer instant": {"2024-02-29 12:00:00", "2024-02-29T12:00:00.0000001Z", "name the type with --type"},
	} {
		text := "c\n" + strings.Repeat(test.first+"\n", sniffed) + "NA\nNaN\n\"\"\n" + test.later + "\n"
		for _, bad := range []MaxBad{{}, maxBad(t, "100%")} {
			_, _, err := read(t, text, "c", CSVOptions{MaxBad: bad})
			require.ErrorIs(t, err, ErrInput, name)
			require.ErrorContains(t, err, "line 1005, column \"c\": ", name)
			require.ErrorContains(t, err, "only a guess from the first rows", name)
			require.ErrorContains(t, err, test.says, name)
			require.NotContains(t, err.Error(), " "+test.later, name)
		}
		s, err := OpenCSV(write(t, text), "c", CSVOptions{})
		require.NoError(t, err)
		_, skipped, err := read(t, text, "c", CSVOptions{MaxBad: maxBad(t, "100%"), Type: s.Kind().Name})
		require.NoError(t, err, "a type that was named is no guess")
		require.Equal(t, 4, skipped, name)
	}
}

// The type that is advised holds all of the column.
func TestAdvisedTypes(t *testing.T) {
	for rest, advice := range map[string]string{
		"9223372036854775808":             "--type uint64",
		"9223372036854775808\n-1":         "--type float64",
		"9223372036854775809\n-1":         "no type holds all values of the column exactly",
		"1.5\n-1":                         "--type float64",
		"2024-02-29":                      "name the type with --type",
		"9223372036854775808\nx\n\n-1\n2": "--type float64",
	} {
		_, _, err := read(t, "c\n"+strings.Repeat("5\n", sniffed)+rest+"\n", "c", CSVOptions{})
		require.ErrorIs(t, err, ErrInput, rest)
		require.ErrorContains(t, err, "only a guess from the first rows", rest)
		require.True(t, strings.Contains(err.Error(), advice), "%s: %v", rest, err)
	}
}

// A quotation that may have taken rows is an error on the line where it opens, whatever is skipped.
func TestQuotationsThatTakeRows(t *testing.T) {
	rows := strings.Repeat("1,a\n", 999)
	for name, test := range map[string]struct {
		text string
		line int
	}{
		"the rest":          {"c,d\n" + rows + "1,\"a\n" + rows, 1001},
		"of a short file":   {"c,d\n\"1,a\n2,b\n", 2},
		"the last row":      {"c,d\n1,a\n2,\"b\n", 3},
		"cut off":           {"c,d\n1,a\n2,\"b", 3},
		"in a later line":   {"c,d\n\"1\",\"a\nb\n", 2},
		"after a long cell": {"c,d,e\n1,\"a\nb\",\"c\n2,b,c\n", 3},
		"up to another":     {"c,d\n1,\"a\n2,\"b\"\n3,c\n", 2},
		"with other cells":  {"c,d,e\n1,\"a,b\n2,c\",d,e\n3,f,g\n", 2},
		"bare behind":       {"c,d\n\"1\n\",a\"b\n", 2},
	} {
		for _, opts := range []CSVOptions{{}, {Type: "int64"}, {MaxBad: maxBad(t, "100%")}, {Type: "int64", MaxBad: maxBad(t, "100%")}} {
			_, _, err := read(t, test.text, "c", opts)
			require.ErrorIs(t, err, ErrInput, name)
			require.ErrorContains(t, err, fmt.Sprintf("line %d, column \"c\": ", test.line), name)
			require.Regexp(t, "quotation mark", err, name)
			require.NotContains(t, err.Error(), "no numbers", name)
		}
	}
}

// So may a carriage return that ends a row alone.
func TestRowsThatEndWithACarriageReturn(t *testing.T) {
	for _, text := range []string{"c,d\n1,1\r2,2\n3,3\n", "c\n1\n2\r3\n4\n"} {
		_, _, err := read(t, text, "c", CSVOptions{Type: "int64", MaxBad: maxBad(t, "100%")})
		require.ErrorIs(t, err, ErrInput)
		require.Regexp(t, `line [23], column "c": .*; it has a carriage return inside: do some rows end with that alone\?`, err)
	}
	values, _, err := read(t, "c,d\n1,a\rb\n2,b\n", "c", CSVOptions{})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, values, "in a text it is no harm")
}

// What is no text in UTF-8 is refused with what to do.
func TestFilesThatAreNoText(t *testing.T) {
	for text, says := range map[string]string{
		"\xff\xfec\x00\n\x001\x00\n\x00":   "iconv -f UTF-16 -t UTF-8",
		"\xfe\xff\x00c\x00\n\x001":         "iconv -f UTF-16 -t UTF-8",
		"c\x00\n\x001\x00\n\x00":           "iconv -f UTF-16 -t UTF-8",
		"\x1f\x8b\x08\x00abc":              "compressed",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00": "compressed", // as gzip begins in a pipe
		"\xfd7zXZ\x00\x00abc":              "compressed",
		"BZh91AY&SY":                       "compressed",
		"PK\x03\x04abc":                    "compressed, or a spreadsheet's own",
		"PAR1\x15\x04\x15":                 "it as CSV first",
		"{\"c\":1}\n{\"c\":2}\n":           "in JSON, and is to be read as CSV",
		"\xef\xbb\xbf[\n {\n\"c\": 1},\n":  "in JSON",
		"c,d\r1,2\r3,4\r":                  "carriage return alone",
	} {
		_, _, err := read(t, text, "c", CSVOptions{Type: "int64"})
		require.ErrorIs(t, err, ErrInput)
		require.ErrorContains(t, err, says)
	}
}

// The first row is taken for names or values where that is certain; else it is asked for.
func TestHeaders(t *testing.T) {
	const ask = "--header yes or --header no"
	for _, test := range []struct {
		name, text, column string
		header             Header
		want               string // column and values, or what the error says
		assumed            string
	}{
		{"by name", "a,b\n1,2\n", "b", "", "b [2]", ""},
		{"by number", "a,b\n1,2\n", "2", "", "b [2]", "taken for names, and the column is number 2, \"b\"; with --header no"},
		{"no names", "3,4\n1,2\n", "2", "", "2 [4 2]", "taken for values; with --header yes"},
		{"years", "country,2019,2020\nFrance,1,2\nSpain,3,4\n", "3", "", ask, ""},
		{"years, said", "country,2019,2020\nFrance,1,2\nSpain,3,4\n", "3", "yes", "2020 [2 4]", ""},
		{"years by name", "country,2019,2020\nFrance,1,2\nSpain,3,4\n", "2020", "", "2020 [2 4]", ""},
		{"a value as a name", "5\n6\n7\n", "5", "", "5 [6 7]", "taken for names"},
		{"a value as a name, said", "5\n6\n7\n", "5", "yes", "5 [6 7]", ""},
		{"years beside a name of numbers", "id,2019,2020\n7,1,2\n8,3,4\n", "3", "", "2020 [2 4]", "taken for names"},
		{"texts that come again", "France,1,2\nFrance,3,4\nSpain,5,6\n", "3", "", "3 [2 4 6]", "taken for values"},
		{"texts that do not", "a,4\nb,5\nc,6\n", "2", "", ask, ""},
		{"texts that do not, said", "a,4\nb,5\nc,6\n", "2", "no", "2 [4 5 6]", ""},
		{"a missing value first", "NA,4\n5,6\n7,8\n", "2", "", "2 [4 6 8]", "taken for values"},
		{"an index without a name", ",a\n1,5\n2,6\n", "1", "", "number 1 [1 2]", "taken for names"},
		{"a number that is a name", "2,1\n5,7\n", "1", "", ask, ""},
		{"a number that is a name, said", "2,1\n5,7\n", "1", "no", "1 [2 5]", ""},
		{"a number that is its own name", "1\n5\n", "1", "", "1 [1 5]", "taken for values"},
		{"a number that is a value, among values", "1,10\n2,20\n", "1", "", "1 [1 2]", "taken for values"},
		{"a name of numbers that is its own number", "id,2\n5,7\n", "2", "", "2 [7]", "taken for names"},
		{"two of a name", "a,a\n1,2\n", "2", "", "a, number 2 [2]", "taken for names"},
		{"a name with blanks", "a , b\n1,2\n", "a ", "", "a [1]", ""},
		{"a name without its blanks", "a , b\n1,2\n", "b", "", "b [2]", ""},
		{"names that differ in blanks", "a,a \n1,2\n", "a ", "", "a, number 2 [2]", ""},
		{"a number with blanks", "3,4\n1,2\n", " 2", "no", "2 [4 2]", ""},
		{"a name of numbers beyond the type", "x,300\n1,2\n2,3\n", "2", "", "300 [2 3]", "taken for names"},
		{"names only by number", "a,b\n1,2\n", "b", "no", "give a number from 1 to 2", ""},
		{"a name that is the number of another", "a,b,1\n5,6,7\n", "1", "", `--column 1 is the name of column number 3 of `, ""},
		{"that other has a name", "a,b,1\n5,6,7\n", "1", "", `and the number of column "a": for the name, give --header yes; for the number, give its name, --column a`, ""},
		{"that other has none", ",b,1\n5,6,7\n", "1", "", `for the number, give the columns of the file other names`, ""},
		{"that other has a number", "3,b,1\n5,6,7\n", "1", "", `for the number, give the columns of the file other names`, ""},
		{"a name that is the number of another, said", "a,b,1\n5,6,7\n", "1", "yes", "1 [7]", `the column is number 3 of `},
		{"a number among values that has another", "France,1,2\nFrance,3,4\n", "2", "", "2 [1 3]", "taken for values"},
		{"evidence for both", "x,y\n1,y\n2,z\n", "1", "", ask, ""},
	} {
		s, err := OpenCSV(write(t, test.text), test.column, CSVOptions{Header: test.header, Type: "int16"})
		if err != nil {
			require.ErrorIs(t, err, exit.ErrUsage, test.name)
			require.ErrorContains(t, err, test.want, test.name)
			continue
		}
		require.Equal(t, test.want, fmt.Sprint(ShownColumn(s.Column()), " ", all(t, s.Values())), test.name)
		if test.assumed == "" {
			require.Empty(t, s.Assumed(), test.name)
		} else {
			require.Contains(t, s.Assumed(), test.assumed, test.name)
		}
	}
}

// Names of a header are shown so that they do nothing to a terminal, and only if they are names.
// A file whose rows cannot be read says why, whether its type is given or not.
func TestNoRowIsRead(t *testing.T) {
	for what, row := range map[string]string{
		"line 2: the row has more than 1048576 bytes":                strings.Repeat("1", 2<<20),
		"line 2: a quotation mark inside a cell that begins without": `1"2`,
	} {
		for _, typ := range []string{"", "int64"} {
			s, err := OpenCSV(write(t, "a\n"+row+"\n"), "a", CSVOptions{Type: typ, Header: HeaderYes})
			if err == nil {
				for _, err = range s.Values() {
				}
			}
			require.ErrorIs(t, err, ErrInput)
			require.ErrorContains(t, err, what)
			require.NotContains(t, err.Error(), "no row has a cell")
		}
	}
	_, err := OpenCSV(write(t, "a,b\n1\n"), "b", CSVOptions{Header: HeaderYes})
	require.ErrorContains(t, err, "no row has a cell there")
}

func TestUnknownType(t *testing.T) {
	_, err := KindByName("int65")
	require.ErrorContains(t, err, `unknown type "int65": there is `+KindNames()[0])
	for _, name := range KindNames() {
		k, err := KindByName(name)
		require.NoError(t, err)
		require.Equal(t, name, k.Name)
	}
}

// A timestamp is stored if it can be printed and read again. Any is a bound.
func TestTimestampsHaveYears(t *testing.T) {
	k, err := KindByName("timestamp")
	require.NoError(t, err)
	for text, taken := range map[string]bool{
		"0000-01-01T00:00:00Z": true, "0000-01-01T00:00:00+00:01": false, "0000-01-01T00:00:00+23:59": false, "0000-01-01T00:00:00-23:59": true,
		"9999-12-31T23:59:59.999999Z": true, "9999-12-31T23:59:59-00:01": false, "9999-12-31T23:59:59-23:59": false, "9999-12-31T23:59:59+23:59": true,
	} {
		code, err := k.Parse(text)
		require.Equal(t, taken, err == nil, text)
		if !taken {
			require.ErrorContains(t, err, "year in UTC is not 0 to 9999")
			for _, bound := range []func(string) (int64, bool, error){k.Low, k.High} {
				_, ok, err := bound(text)
				require.NoError(t, err)
				require.True(t, ok)
			}
			continue
		}
		printed, err := k.Format(code)
		require.NoError(t, err)
		again, err := k.Parse(printed)
		require.NoError(t, err)
		require.Equal(t, code, again)
	}
}

// A table can have the name that is stored, and columns that differ have names that differ.
func TestStoredNames(t *testing.T) {
	long := strings.Repeat("x", 101)
	seen := map[string]bool{}
	for _, test := range []struct {
		text, column string
		header       Header
		want         string // what the name begins with
	}{
		{"a,b\n1,2\n", "b", HeaderYes, "b"},
		{"3,4\n1,2\n", "2", HeaderNo, ":2"},
		{",a\n1,5\n", "1", HeaderYes, ":number 1"},
		{"a,a \n1,2\n", "2", HeaderYes, ":a, number 2"},
		{long + "\n1\n", "1", HeaderYes, ":" + strings.Repeat("x", 60) + "... "},
		{"\"a\nb\"\n1\n", "1", HeaderYes, ":a b... "},
		{"\"a\x1bb\"\n1\n", "1", HeaderYes, ":a b... "},
		{":2\n1\n", "1", HeaderYes, "::2... "},
		{":a,:a\n1,2\n", "1", HeaderYes, "::a... "},
		{"\":a, number 1\"\n1\n", "1", HeaderYes, "::a, number 1... "},
	} {
		s, err := OpenCSV(write(t, test.text), test.column, CSVOptions{Header: test.header, Type: "int16"})
		require.NoError(t, err)
		name := s.Column()
		require.True(t, strings.HasPrefix(name, test.want), name)
		schema := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart(StoredName(name), store.Bool)}}
		require.NoError(t, schema.Check())
		require.True(t, SameColumn(name, name))
		if derived, ok := strings.CutPrefix(name, ":"); ok {
			require.True(t, SameColumn(" "+derived, name), "as earlier versions wrote it")
			require.Equal(t, ShownColumn(name), ShownColumn(" "+derived))
		}
		require.False(t, seen[name] && !strings.Contains(name, "a b"), name)
		seen[name] = true
	}
	require.False(t, SameColumn("2", ":2"))
	require.Equal(t, "value", StoredName(""))
}

func TestColumnsThatAreNotThere(t *testing.T) {
	for _, test := range []struct{ text, column, says, not string }{
		{"a\x1b[31m,b\n1,2\n", "c", `has no column "c"; it has "a\x1b[31m", b`, "\x1b"},
		{"17,secret\n18,other\n", "c", `has no column "c"; its first row has 2 cells`, "secret"},
		{"a;b\n1;2\n", "b", `has no column "b"; are its cells divided by another character? Then give --delimiter ';'`, "a;b"},
		{"a\tb\n1\t2\n", "2", "--delimiter tab", ""},
		{"a|b\n1|2\n", "a", "--delimiter '|'", ""},
		{"a;b\n1;2\n", "1", "--delimiter ';'", ""},
		{"a,b \n1,2\n", "c ", `has no column "c"; it has a, "b "`, ""},
		{"H\xf6he,b\n1,2\n", "Höhe", `has no column "Höhe" (its first row is not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say)`, "\xf6"},
		{"a,a,b\x1b[2J\n1,2,3\n", "a", `has 2 columns named "a"`, "\x1b"},
	} {
		_, _, err := read(t, test.text, test.column, CSVOptions{})
		require.ErrorIs(t, err, ErrInput, test.text)
		require.ErrorContains(t, err, test.says)
		if test.not != "" {
			require.NotContains(t, err.Error(), test.not)
		}
	}
	_, _, err := read(t, "a,b\n1,2\n", "b", CSVOptions{Comma: ';'})
	require.ErrorContains(t, err, "--delimiter ,")
}

// Rows are those of package encoding/csv, but for what it calls an error.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{"", "a,b\n1,2\n", "\"a\nb\",c\r\n\r\n,\n", "a\"b\n\"c\"d\n\"e", "\"\"\"\",x\n\r", "x\r\ny\r"} {
		f.Add([]byte(text), ',')
	}
	f.Add([]byte("aäb\n\"ä\"ä\n"), 'ä')
	f.Fuzz(func(t *testing.T, text []byte, comma rune) {
		want := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
		want.Comma, want.FieldsPerRecord = comma, -1
		got, err := csvrows.New(bytes.NewReader(text), comma, maxRecord)
		if err != nil {
			return
		}
		for {
			record, wantErr := want.Read()
			err := got.Next()
			var parse *csv.ParseError
			var bad *csvrows.Error
			switch {
			case wantErr == io.EOF:
				require.Equal(t, io.EOF, err)
				return
			case errors.As(wantErr, &parse):
				require.ErrorAs(t, err, &bad)
				require.Contains(t, []int{parse.StartLine, parse.Line}, bad.Line)
			case wantErr != nil:
				return // no such comma
			default:
				require.NoError(t, err)
				require.Equal(t, record, got.Cells())
				for i := range record {
					line, _ := want.FieldPos(i)
					require.Equal(t, line, got.Lines[i])
				}
			}
			if bad != nil && bad.Fatal {
				return
			}
		}
	})
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
			s, err := OpenCSV(name, column, CSVOptions{Type: "int64", MaxBad: DefaultMaxBad()})
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

// JSON has no infinities: they are written as texts.
func TestJSONNumbers(t *testing.T) {
	for _, k := range Kinds() {
		for _, code := range []int64{k.Domain.Min, k.Domain.Min + 1, k.Domain.Max - 1, k.Domain.Max} {
			text, err := k.Format(code)
			require.NoError(t, err)
			require.Equal(t, json.Valid([]byte(text)), k.JSONNumber(text), "%s %s", k.Name, text)
		}
	}
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
		{"timestamp", "2024-02-29T12:00:00.0000000001Z", encode.ErrInexact}, {"timestamp", "2024-02-29 12:00:00.000001000000", nil},
		{"timestamp", "2024-02-29T12:00:00,0000000001+01:00", encode.ErrInexact},
		{"date", "0000-01-01", nil}, {"timestamp", "2024-02-29T12:00:00-23:59", nil}, {"timestamp", "2024-02-29T12:00:00", nil},
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
	for _, text := range []string{
		"2024-02-29T12:00:00-24:00", "2024-02-29T12:00:00+23:60", "2024-02-29 12:00:00+24:00",
		"", "x", "0x10", "0X1P4", "0x1p4", "0b1", "0o7", "1_000", "2013_01", "11_001", "1_0e1", "1e1_0", "2024-02-30", "2024_02_01", "1.5.2", "--1", "1f", "1d0",
	} {
		for _, name := range KindNames() {
			k, err := KindByName(name)
			require.NoError(t, err)
			_, err = k.Parse(text)
			require.Error(t, err, "%s %q", name, text)
			_, _, err = k.Low(text)
			require.Error(t, err, "%s %q", name, text)
		}
	}
}

// Bounds beyond the type are bounds: the range is clamped or empty.
func TestBoundsBeyondTheType(t *testing.T) {
	for _, test := range []struct {
		kind, text string
		low, high  string // the values that they become, "" for none
	}{
		{"int8", "300", "", "127"}, {"int8", "-300", "-128", ""}, {"int8", "99999999999999999999", "", "127"},
		{"int64", "-99999999999999999999", "-9223372036854775808", ""},
		{"uint64", "-1", "0", ""}, {"uint64", "-99999999999999999999", "0", ""}, {"uint64", "18446744073709551616", "", "18446744073709551615"},
		{"uint64", "+7", "7", "7"}, {"uint64", "-0", "0", "0"},
		{"float64", "1e400", "inf", "1.7976931348623157e+308"}, {"float64", "-1e400", "-1.7976931348623157e+308", "-inf"},
		{"float32", "1e39", "inf", "3.4028235e+38"},
	} {
		k, err := KindByName(test.kind)
		require.NoError(t, err)
		for _, bound := range []struct {
			of   func(string) (int64, bool, error)
			want string
		}{{k.Low, test.low}, {k.High, test.high}} {
			code, ok, err := bound.of(test.text)
			require.NoError(t, err, "%v", test)
			require.Equal(t, bound.want != "", ok, "%v", test)
			if ok {
				text, err := k.Format(code)
				require.NoError(t, err)
				require.Equal(t, bound.want, text, "%v", test)
			}
		}
	}
}

// A bound of floats is rounded as the values were: a range from a text to the same text has the value.
func TestBoundsOfFloatsAreRounded(t *testing.T) {
	for _, name := range []string{"float32", "float64"} {
		k, err := KindByName(name)
		require.NoError(t, err)
		for _, text := range []string{"0.1", "0.3", "-0.1", "1.1", "1e-400", "-1e-400", "123456.789"} {
			x, err := k.Parse(text)
			require.NoError(t, err)
			low, okLow, err := k.Low(text)
			require.NoError(t, err)
			high, okHigh, err := k.High(text)
			require.NoError(t, err)
			require.True(t, okLow && okHigh)
			require.Equal(t, [2]int64{x, x}, [2]int64{low, high}, "%s %s", name, text)
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
