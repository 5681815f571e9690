package tabular

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// everyType has a column of every type.
func everyType(t testing.TB) (store.Schema, []string) {
	s := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.String)}}
	names := []string{
		"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "date", "timestamp/s",
		"timestamp/ms", "timestamp/us", "timestamp/ns", "decimal(0)", "decimal(2)", "decimal(18)", "decimal(38)", "decimal(60)", "decimal(-3)",
		"decimal(-30)", "ipv4", "ipv6", "string", "bytes", "uuid",
	}
	for _, name := range names {
		typ, err := store.ParseType(name)
		require.NoError(t, err)
		s.Columns = append(s.Columns, store.RandomisedColumn(name, typ))
	}
	return s, names
}

// value draws a value of a type.
func value(t *rapid.T, typ string) any {
	number := func(lo, hi int64) int64 {
		return rapid.OneOf(rapid.Int64Range(lo, hi), rapid.SampledFrom([]int64{lo, hi, 0})).Draw(t, typ)
	}
	timestamp := func(unit time.Duration, far int64) time.Time {
		n := number(-far, far)
		per := int64(time.Second / unit)
		return time.Unix(n/per, n%per*int64(unit)).UTC()
	}
	switch typ {
	case "bool":
		return rapid.Bool().Draw(t, typ)
	case "int8":
		return int8(number(math.MinInt8, math.MaxInt8))
	case "int16":
		return int16(number(math.MinInt16, math.MaxInt16))
	case "int32":
		return int32(number(math.MinInt32, math.MaxInt32))
	case "int64":
		return number(math.MinInt64, math.MaxInt64)
	case "uint8":
		return uint8(number(0, math.MaxUint8))
	case "uint16":
		return uint16(number(0, math.MaxUint16))
	case "uint32":
		return uint32(number(0, math.MaxUint32))
	case "uint64":
		return uint64(number(math.MinInt64, math.MaxInt64))
	case "float32":
		n := rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1 << 31, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fc00001, 1})).Draw(t, typ)
		if x := math.Float32frombits(n); x != x {
			n |= 1 << 22 // processors make a NaN that signals a quiet one, where they widen it
		}
		return math.Float32frombits(n)
	case "float64":
		return math.Float64frombits(rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, 0x7ff8 << 48, 0x7ff8<<48 + 1, 1})).Draw(t, typ))
	case "date":
		d := time.Unix(24*60*60*number(math.MinInt32, math.MaxInt32), 0).UTC()
		return encode.CivilDate{Year: d.Year(), Month: d.Month(), Day: d.Day()}
	case "timestamp/s":
		return timestamp(time.Second, math.MaxInt64/1000)
	case "timestamp/ms":
		return timestamp(time.Millisecond, math.MaxInt64)
	case "timestamp/us":
		return timestamp(time.Microsecond, math.MaxInt64)
	case "timestamp/ns":
		return timestamp(time.Nanosecond, math.MaxInt64)
	case "ipv4":
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, typ)))
	case "ipv6":
		a := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, typ)))
		return rapid.SampledFrom([]netip.Addr{a, netip.MustParseAddr("::ffff:1.2.3.4"), netip.IPv6Unspecified()}).Draw(t, typ)
	case "string":
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\"\r\n,;\\'\x00\ufeff\ufffd \t\u2028")))).Draw(t, typ)
		return rapid.SampledFrom([]string{text, text, "", "NA", "\"\"", "\r\n", "\r"}).Draw(t, typ)
	case "bytes":
		return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, typ)...)
	case "uuid":
		return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, typ))
	}
	var scale int32
	for _, c := range strings.Trim(typ, "decimal()-") {
		scale = scale*10 + c - '0'
	}
	if strings.Contains(typ, "-") {
		scale = -scale
	}
	return encode.Decimal{Unscaled: big.NewInt(number(math.MinInt64, math.MaxInt64)), Scale: scale}
}

// bits returns a value with the bits of floating point numbers, so that NaN equals itself.
func bits(v any) any {
	switch v := v.(type) {
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	case encode.Decimal:
		return v.String()
	case time.Time:
		return [2]int64{v.Unix(), int64(v.Nanosecond())}
	}
	return v
}

// shapes are those of files, each with flags about values.
var shapes = []struct {
	name  string
	flags []string
}{
	{"t.csv", nil},
	{"t.csv", []string{"--null", "NA", "--null", "x"}},
	{"t.tsv.gz", []string{"--bytes", "base64", "--decimal-comma", "--zone", "Europe/Berlin"}},
	{"t.csv.zst", []string{"--time-format", "unix-ns", "--decimal-comma", "--thousands", "."}},
	{"t.jsonl", []string{"--time-format", "unix"}},
	{"t.ndjson.zst", []string{"--bytes", "base64"}},
	{"t.parquet", nil},
}

// TestRoundTrip: what is written in any format and read again are the very same values.
func TestRoundTrip(t *testing.T) {
	schema, names := everyType(t)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rows := make([][]any, rapid.IntRange(1, 5).Draw(t, "rows"))
		for i := range rows {
			rows[i] = []any{value(t, "string")}
			for _, name := range names {
				var v any
				if rapid.IntRange(0, 3).Draw(t, "null") > 0 {
					v = value(t, name)
				}
				rows[i] = append(rows[i], v)
			}
		}
		shape := rapid.SampledFrom(shapes).Draw(t, "shape")
		path := filepath.Join(dir, shape.name)
		format, columns := formatOf(t, schema, shape.flags...)
		write(t, path, format, columns, rows)
		got := read(t, path, columns)
		require.Len(t, got, len(rows), shape.name)
		for i := range rows {
			for j, v := range rows[i] {
				require.Equal(t, bits(v), bits(got[i][j]), "%s %v: %s", shape.name, shape.flags, columns[j].Name)
			}
		}
	})
}

func formatOf(t require.TestingT, schema store.Schema, args ...string) (*celltext.Format, []*celltext.Column) {
	var flags celltext.Flags
	f := pflag.NewFlagSet("t", pflag.ContinueOnError)
	flags.BindRead(f)
	require.NoError(t, f.Parse(args))
	format, err := flags.Format()
	require.NoError(t, err)
	columns, err := format.Columns(schema)
	require.NoError(t, err)
	return format, columns
}

func write(t require.TestingT, path string, format *celltext.Format, columns []*celltext.Column, rows [][]any) {
	o := &Output{file: path, force: true}
	require.NoError(t, o.Check())
	sink, err := o.Open(&cli.Env{Stdout: io.Discard}, format, columns)
	require.NoError(t, err)
	for _, row := range rows {
		require.NoError(t, sink.Write(row))
	}
	require.NoError(t, sink.Commit())
	require.NoError(t, sink.Close())
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, parts, "nothing is left beside the file")
}

func read(t require.TestingT, path string, columns []*celltext.Column) (rows [][]any) {
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
	}
	in := &Input{file: path}
	require.NoError(t, in.Check())
	var tap bytes.Buffer
	r, err := in.Open(names, nil, &tap)
	require.NoError(t, err)
	require.Equal(t, names, r.Fields())
	for {
		row, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Equal(t, len(rows)+1, row.Number)
		var values []any
		for i, c := range columns {
			v, err := c.Value(row.Cells[i])
			require.NoError(t, err, c.Name)
			values = append(values, v)
		}
		rows = append(rows, values)
	}
	require.NoError(t, r.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, file, tap.Bytes(), "all bytes went to the digest")
	return rows
}

// In a file of one column no row is lost. In CSV, null is a blank line only where "" is the empty text, and that is said.
func TestOneColumn(t *testing.T) {
	for _, c := range []struct {
		column store.Column
		rows   [][]any
		csv    string
		blank  bool
	}{
		{store.RandomisedColumn("c", store.String), [][]any{{nil}, {""}, {"x"}, {nil}}, "c\n\n\"\"\nx\n\n", true},
		{store.RandomisedColumn("c", store.String), [][]any{{""}, {"x"}}, "c\n\"\"\nx\n", false},
		{store.RandomisedColumn("c", store.Bytes), [][]any{{[]byte{}}, {nil}, {[]byte("x")}}, "c\n\"\"\n\n78\n", true},
		{store.RandomisedColumn("c", store.Int64), [][]any{{nil}, {int64(7)}, {nil}}, "c\n\"\"\n7\n\"\"\n", false},
		{store.RandomisedColumn("c", store.Bool), [][]any{{nil}, {true}}, "c\n\"\"\ntrue\n", false},
	} {
		for _, name := range []string{"c.csv", "c.jsonl", "c.parquet"} {
			format, columns := formatOf(t, store.Schema{Name: "t", Columns: []store.Column{c.column}})
			path := filepath.Join(t.TempDir(), name)
			write(t, path, format, columns, c.rows)
			require.Equal(t, c.rows, read(t, path, columns), name)
			if name != "c.csv" {
				require.Empty(t, format.Assumed())
				continue
			}
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.csv, string(file))
			require.Equal(t, c.blank, len(format.Assumed()) > 0)
		}
	}
}

// More rows than a row group has, and values that are large.
func TestManyRowGroups(t *testing.T) {
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.PlainPart("k", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("c", store.Bytes)}}
	format, columns := formatOf(t, schema)
	large := bytes.Repeat([]byte("x"), 3<<20)
	var rows [][]any
	for i := range int64(40) {
		rows = append(rows, []any{i, large[i:]})
	}
	path := filepath.Join(t.TempDir(), "t.parquet")
	write(t, path, format, columns, rows)
	got := read(t, path, columns)
	require.Len(t, got, len(rows))
	for i := range rows {
		require.Equal(t, rows[i][0], got[i][0])
		require.True(t, bytes.Equal(rows[i][1].([]byte), got[i][1].([]byte)))
	}
}

// A file that changes while it is read is noticed at its end, in each format.
func TestChangedFile(t *testing.T) {
	for _, name := range []string{"in.csv", "in.jsonl", "in.csv.gz"} {
		path := filepath.Join(t.TempDir(), name)
		text := []byte("{\"a\":\"1\"}\n")
		if strings.Contains(name, ".csv") {
			text = []byte("a\n1\n")
		}
		if strings.HasSuffix(name, ".gz") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, err := z.Write(text)
			require.NoError(t, errors.Join(err, z.Close()))
			text = b.Bytes()
		}
		for _, change := range []bool{false, true} {
			require.NoError(t, os.WriteFile(path, text, 0o600))
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			var in Input
			in.Bind(flags)
			require.NoError(t, flags.Parse([]string{"--input", path}))
			r, err := in.Open([]string{"a"}, nil, nil)
			require.NoError(t, err)
			_, err = r.Next()
			require.NoError(t, err)
			if change {
				require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
			}
			_, err = r.Next()
			if change {
				require.ErrorIs(t, err, ErrChanged)
			} else {
				require.Equal(t, io.EOF, err)
			}
			require.NoError(t, r.Close())
		}
	}
}
