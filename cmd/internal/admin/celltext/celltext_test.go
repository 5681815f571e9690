package celltext

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

func formatOf(t testing.TB, args ...string) (*Format, error) {
	t.Helper()
	var flags Flags
	f := pflag.NewFlagSet("t", pflag.ContinueOnError)
	flags.BindRead(f)
	require.NoError(t, f.Parse(args))
	return flags.Format()
}

func columnOf(t testing.TB, typ string, args ...string) *Column {
	t.Helper()
	format, err := formatOf(t, args...)
	require.NoError(t, err)
	parsed, err := store.ParseType(typ)
	require.NoError(t, err)
	columns, err := format.Columns(store.Schema{Columns: []store.Column{store.RandomisedColumn("c", parsed)}})
	require.NoError(t, err)
	return columns[0]
}

func TestTexts(t *testing.T) {
	for _, test := range []struct {
		typ, text string
		flags     []string
		want      any
	}{
		{"int8", "-128", nil, int8(-128)},
		{"int64", "+7", nil, int64(7)},
		{"int64", "007", nil, int64(7)},
		{"int64", "1e3", nil, int64(1000)},
		{"int64", "-1.50E+2", nil, int64(-150)},
		{"int64", "10e-1", nil, int64(1)},
		{"int64", "0.001e3", nil, int64(1)},
		{"int64", "000000000000000000000000000001e1", nil, int64(10)},
		{"int64", "-9223372036854775808e0", nil, int64(math.MinInt64)},
		{"int64", "9223372036854775.807e3", nil, int64(math.MaxInt64)},
		{"int64", "1,5e1", []string{"--decimal-comma"}, int64(15)},
		{"uint64", "1844674407370955161500e-2", nil, uint64(math.MaxUint64)},
		{"uint8", "-0.0e999999999999999999999", nil, uint8(0)},
		{"int8", "0e-999999999999999999999", nil, int8(0)},
		{"uint8", "-0", nil, uint8(0)},
		{"int64", "1.234.567", []string{"--thousands", ".", "--decimal-comma"}, int64(1234567)},
		{"int64", "1234567", []string{"--thousands", ","}, int64(1234567)},
		{"int64", "-12 345", []string{"--thousands", " "}, int64(-12345)},
		{"float64", "1.234,5", []string{"--thousands", ".", "--decimal-comma"}, 1234.5},
		{"float64", "0,123", []string{"--thousands", ".", "--decimal-comma"}, 0.123},
		{"int64", "0123", []string{"--thousands", ".", "--decimal-comma"}, int64(123)},
		{"float64", "1,5e3", []string{"--decimal-comma"}, 1500.0},
		{"float64", "inf", nil, math.Inf(1)},
		{"float64", "-Infinity", nil, math.Inf(-1)},
		{"float32", "0.1", nil, float32(0.1)},
		{"float64", "5e-324", nil, 5e-324},
		{"float64", "0.00e-999", nil, 0.0},
		{"bool", "t", nil, true},
		{"bool", "NO", nil, false},
		{"bool", "1", nil, true},
		{"date", "2024-02-29", nil, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"date", "-0001-12-31", nil, encode.CivilDate{Year: -1, Month: 12, Day: 31}},
		{"date", "+12000-02-29", nil, encode.CivilDate{Year: 12000, Month: 2, Day: 29}},
		{"date", "29.02.2024", []string{"--time-format", "%d.%m.%Y %H:%M:%S.%f %z"}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"date", "2024-02-29", []string{"--time-format", "%d.%m.%Y %H:%M"}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"date", "2024-02-03", []string{"--time-format", "%Y-%d-%m"}, encode.CivilDate{Year: 2024, Month: 3, Day: 2}},
		{"date", "02/29/24", []string{"--time-format", "%m/%d/%y"}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"date", "2024-02-29", []string{"--time-format", "unix-ms"}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"timestamp/ns", "2024-02-29T12:00:00.123456789Z", nil, time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC)},
		{"timestamp/s", "2024-02-29 12:00:00+02:00", nil, time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC)},
		{"timestamp/s", "2024-02-29T12:00:00-0130", nil, time.Date(2024, 2, 29, 13, 30, 0, 0, time.UTC)},
		{"timestamp/s", "2024-02-29T12:00:00+02", nil, time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC)},
		{"timestamp/s", "2024-07-01T12:00:00", []string{"--zone", "Europe/Berlin"}, time.Date(2024, 7, 1, 10, 0, 0, 0, time.UTC)},
		{"timestamp/s", "1969-09-29T12:00:00", []string{"--zone", "Pacific/Kwajalein"}, time.Date(1969, 9, 29, 1, 0, 0, 0, time.UTC)},
		{"timestamp/s", "1969-10-01T12:00:00", []string{"--zone", "Pacific/Kwajalein"}, time.Date(1969, 10, 2, 0, 0, 0, 0, time.UTC)},
		{"timestamp/ms", "1.5", []string{"--time-format", "unix"}, time.Unix(1, 500_000_000).UTC()},
		{"timestamp/ms", "-1", []string{"--time-format", "unix-ms"}, time.Unix(-1, 999_000_000).UTC()},
		{"timestamp/us", "31.12.2023 23:59:59.000001 +0100", []string{"--time-format", "%d.%m.%Y %H:%M:%S.%f %z"}, time.Date(2023, 12, 31, 22, 59, 59, 1000, time.UTC)},
		{"timestamp/s", "12/31/23 11:59:00 PM", []string{"--time-format", "%m/%d/%y %I:%M:%S %p"}, time.Date(2023, 12, 31, 23, 59, 0, 0, time.UTC)},
		{"timestamp/s", "2/9/24 9:05 pm", []string{"--time-format", "%-m/%-d/%y %-I:%M %p"}, time.Date(2024, 2, 9, 21, 5, 0, 0, time.UTC)},
		{"timestamp/s", "12/19/2024 9:05", []string{"--time-format", "%-m/%-d/%Y %H:%M"}, time.Date(2024, 12, 19, 9, 5, 0, 0, time.UTC)},
		{"timestamp/s", "thu feb 29 12:00:00 2024", []string{"--time-format", "%a %b %d %H:%M:%S %Y"}, time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)},
		{"timestamp/s", "2024年02月29日 12:00", []string{"--time-format", "%Y年%m月%d日 %H:%M"}, time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)},
		{"date", "29 Feb 2024", []string{"--time-format", "%-d %b %Y à %H:%M"}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"decimal(2)", "12.5", nil, encode.Decimal{Unscaled: big.NewInt(1250), Scale: 2}},
		{"decimal(2)", "1.2500e1", nil, encode.Decimal{Unscaled: big.NewInt(1250), Scale: 2}},
		{"decimal(2)", "0.0e99999999", nil, encode.Decimal{Unscaled: new(big.Int), Scale: 2}},
		{"decimal(2)", "-0e-99999999999999999999", nil, encode.Decimal{Unscaled: new(big.Int), Scale: 2}},
		{"decimal(-3)", "12000", nil, encode.Decimal{Unscaled: big.NewInt(12), Scale: -3}},
		{"bytes", "00fF", nil, []byte{0, 0xff}},
		{"bytes", "AP8=", []string{"--bytes", "base64"}, []byte{0, 0xff}},
		{"uuid", "123e4567e89b12d3a456426614174000", nil, [16]byte{0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0}},
		{"string", "", nil, ""},
		{"string(16)", "", nil, ""},
		{"string after https:// to from", "x", nil, "x"},
		{"bytes(32)", "00fF", nil, []byte{0, 0xff}},
	} {
		v, err := columnOf(t, test.typ, test.flags...).Parse(test.text)
		require.NoError(t, err, "%s %s", test.typ, test.text)
		require.Equal(t, test.want, v, "%s %s", test.typ, test.text)
	}
}

// What is refused is named without its text, which may be a secret.
func TestRefusedTexts(t *testing.T) {
	for _, test := range []struct {
		typ, text, want string
		kind            error
		flags           []string
	}{
		{"int8", "128", "beyond the range of type int8", ope.ErrDomain, nil},
		{"uint64", "-1", "beyond the range of type uint64", ope.ErrDomain, nil},
		{"int64", "99999999999999999999", "beyond the range", ope.ErrDomain, nil},
		{"int8 from 0 to 120", "121", "beyond the bounds of the column: 0 to 120", ope.ErrDomain, nil},
		{"timestamp/s from 2020-01-01 to 2039-12-31T23:59:59Z", "2019-12-31T23:59:59Z", "beyond the bounds", ope.ErrDomain, nil},
		{"decimal(2) from 0 to 99.99", "100", "beyond the bounds", ope.ErrDomain, nil},
		{"date from @0 to @10", "1970-01-12", "beyond the bounds", ope.ErrDomain, nil},
		{"int64", "4711.5", "not an integer", nil, nil},
		{"int64", "4711.", "not an integer", nil, nil},
		{"int64", ".0", "not an integer", nil, nil},
		{"int64", " 4711", "not an integer; blanks around it are not allowed", nil, nil},
		{"float64", " 1 ", "not a number; blanks around it are not allowed", nil, nil},
		{"bool", "\ttrue ", "not a boolean: these are true and false, t and f, yes and no, y and n, 1 and 0; blanks around it are not allowed", nil, nil},
		{"date", "2023-02-28 ", "reads other forms; blanks around it are not allowed", nil, nil},
		{"int64", "15e-1", "not an integer", nil, nil},
		{"int64", "1e-999999999999", "not an integer", nil, nil},
		{"int64", "1e", "not an integer", nil, nil},
		{"int64", "e5", "not an integer", nil, nil},
		{"int64", "1.e5", "not an integer", nil, nil},
		{"int64", "1e5.0", "not an integer", nil, nil},
		{"int64", "1e1e1", "not an integer", nil, nil},
		{"int64", "--1e1", "not an integer", nil, nil},
		{"int8", "2e2", "beyond the range of type int8", ope.ErrDomain, nil},
		{"int64", "1e999999999", "beyond the range of type int64", ope.ErrDomain, nil},
		{"int64", "-1e99999999999999999999", "beyond the range of type int64", ope.ErrDomain, nil},
		{"int64", "1,23", "not an integer", nil, []string{"--thousands", ","}},
		{"int64", "0.123", `not an integer: it has 0 before a mark between thousands, which --thousands says is "."`, nil, []string{"--thousands", ".", "--decimal-comma"}},
		{"float64", "-0.123", "not a number: it has 0 before a mark", nil, []string{"--thousands", ".", "--decimal-comma"}},
		{"float32", "0.12", "not a number: it has 0 before a mark", nil, []string{"--thousands", ".", "--decimal-comma"}},
		{"decimal(3)", "00.123", "not a decimal number: it has 0 before a mark", nil, []string{"--thousands", ".", "--decimal-comma"}},
		{"decimal(3)", "+0,123", "not a decimal number: it has 0 before a mark", nil, []string{"--thousands", ","}},
		{"uint16", "01 234", "not an integer: it has 0 before a mark", nil, []string{"--thousands", " "}},
		{"int64", "000'123", "not an integer: it has 0 before a mark", nil, []string{"--thousands", "'"}},
		{"int64", "0_123_456", "not an integer: it has 0 before a mark", nil, []string{"--thousands", "_"}},
		{"float64", "47.11", "not a number", nil, []string{"--decimal-comma"}},
		{"float64", "0x1p4711", "not a number", nil, nil},
		{"float32", "1e39", "beyond the range of type float32", ope.ErrDomain, nil},
		{"float64", "9007199254740993", "does not hold exactly", encode.ErrInexact, nil},
		{"float64", "-1e-4711", "so near to 0 that float64 would keep 0", encode.ErrInexact, nil},
		{"float32", "4.711e-46", "so near to 0 that float32 would keep 0", encode.ErrInexact, nil},
		{"bool", "wahr", "not a boolean", nil, nil},
		{"date", "2023-02-29", "not a date", nil, nil},
		{"date", "+2023-02-28", "not a date", nil, nil},
		{"date", "27/02/2023", "not a date like 29.02.2024, as --time-format %d.%m.%Y %H:%M has it", nil, []string{"--time-format", "%d.%m.%Y %H:%M"}},
		{"date", "2024-02-29", "not a date like 2024-29-02, as --time-format %Y-%d-%m has it", nil, []string{"--time-format", "%Y-%d-%m"}},
		{"date", "Jan 1 2000", "not a date like Feb 29 2024, as --time-format %b %d %Y has it; a number of one digit is none for %d: --time-format '%b %-d %Y' takes it, too", nil, []string{"--time-format", "%b %d %Y"}},
		{"date", "2000-1-1", "none for %F: --time-format '%Y-%-m-%-d %T' takes it, too", nil, []string{"--time-format", "%F %T"}},
		{"timestamp/s", "1/2/2000 9:05 pm", "not a time like 02/29/2024 12:00 PM, as --time-format %m/%d/%Y %I:%M %p has it; " +
			"a number of one digit is none for %m, %d, %I: --time-format '%-m/%-d/%Y %-I:%M %p' takes it, too", nil, []string{"--time-format", "%m/%d/%Y %I:%M %p"}},
		{"timestamp/s", "2000123", "as --time-format %Y%m%d has it", nil, []string{"--time-format", "%Y%m%d"}},
		{"date", "27.02.2023 00:00", "not a date like 29.02.2024, as --time-format", nil, []string{"--time-format", "%d.%m.%Y %H:%M"}},
		{"date", "1709164800", "not a date like 2024-02-29: --time-format unix is about times, and leaves dates as they are", nil, []string{"--time-format", "unix"}},
		{"timestamp/s", "Mon Feb 29 2024", "a date whose day of the week is another", nil, []string{"--time-format", "%a %b %d %Y"}},
		{"date", "Friday, 29.02.2024", "a date whose day of the week is another", nil, []string{"--time-format", "%A, %d.%m.%Y"}},
		{"timestamp/s", "2025-02-27", "not a time like 2024-02-29T12:00:00.5Z or 2024-02-29 12:00:00, where --zone says the offset; --time-format reads other forms", nil, nil},
		{"timestamp/s", "2024-02-29T12:00:00+24:00", "not a time", nil, nil},
		{"timestamp/s", "2024-02-29T12:00:00.5Z", "finer than type timestamp/s keeps", encode.ErrInexact, nil},
		{"timestamp/ns", "2024-02-29T12:00:00.1234567891Z", "more than nine digits", encode.ErrInexact, nil},
		{"timestamp/ns", "2400-01-01T00:00:00Z", "beyond the range", ope.ErrDomain, nil},
		{"timestamp/s", "+584554051223-11-09T07:00:16Z", "beyond the range of type timestamp", ope.ErrDomain, nil}, // 2^64 s after 1970
		{"timestamp/ms", "-999999999999-01-01T00:00:00+01:00", "beyond the range of type timestamp", ope.ErrDomain, nil},
		{"timestamp/ns", "+400000000000-01-01 00:00:00", "beyond the range of type timestamp", ope.ErrDomain, nil},
		{"timestamp/s", "2024-03-31T02:30:00", "clocks of --zone skip", nil, []string{"--zone", "Europe/Berlin"}},
		{"timestamp/s", "1880-01-01T00:00:03", "clocks of --zone skip", nil, []string{"--zone", "Asia/Colombo"}}, // by 8 s
		{"timestamp/s", "2016-12-31T23:59:60Z", "a leap second, which no column keeps: write the second before it, or the one after it", nil, nil},
		{"timestamp/s", "2016-12-31 23:59:60.5", "a leap second", nil, nil},
		{"timestamp/s", "2016-13-31T23:59:60Z", "not a time like", nil, nil},
		{"timestamp/s", "1969-09-30T12:00:00", "clocks of --zone show twice", nil, []string{"--zone", "Pacific/Kwajalein"}},
		{"timestamp/s", "2011-12-30T12:00:00", "clocks of --zone skip", nil, []string{"--zone", "Pacific/Apia"}},
		{"timestamp/s", "2024-10-27T02:30:00", "clocks of --zone show twice", nil, []string{"--zone", "Europe/Berlin"}},
		{"decimal(2)", "47.115", "finer than type decimal(2) keeps", encode.ErrInexact, nil},
		{"decimal(2)", "92233720368547758.08", "beyond the range", ope.ErrDomain, nil},
		{"decimal(2)", "1e400", "beyond the range", ope.ErrDomain, nil},
		{"decimal(2)", "1e999999999", "beyond the range", ope.ErrDomain, nil},
		{"decimal(2)", "-1e99999999999999999999", "beyond the range", ope.ErrDomain, nil},
		{"decimal(2)", "1e-999999999", "finer than type decimal(2) keeps", encode.ErrInexact, nil},
		{"decimal(2)", "1e1.5", "not a decimal number", nil, nil},
		{"decimal(2)", "xe999999999", "not a decimal number", nil, nil},
		{"bytes", "abc", "not hexadecimal digits", nil, nil},
		{"bytes", "AP8", "not base64", nil, []string{"--bytes", "base64"}},
		{"uuid", "4711", "not a UUID", nil, nil},
		{"ipv4", "::1", "not an IPv4 address", nil, nil},
		{"ipv6", "fe80::1%eth0", "not an IPv6 address without zone", nil, nil},
		{"string", "a\xff", "not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say", nil, nil},
		{"int64", "", "no value", nil, nil},
	} {
		_, err := columnOf(t, test.typ, test.flags...).Parse(test.text)
		require.ErrorContains(t, err, test.want, "%s %s", test.typ, test.text)
		if test.kind != nil {
			require.ErrorIs(t, err, test.kind)
		}
		if len(test.text) > 3 {
			require.NotContains(t, err.Error(), test.text)
		}
	}
	v, err := columnOf(t, "int8 from 0 to 120").Parse("121")
	require.ErrorIs(t, err, ope.ErrDomain)
	require.Equal(t, int8(121), v, "it is a bound of a query all the same")
}

func TestCells(t *testing.T) {
	for _, test := range []struct {
		typ  string
		cell Cell
		want any // nil for null, an error for one
	}{
		{"string", Cell{Kind: Bare}, nil},
		{"string", Cell{Kind: Quoted}, ""},
		{"int64", Cell{Kind: Quoted}, nil},
		{"int64", Cell{Kind: Quoted, Text: "7"}, int64(7)},
		{"string", Cell{Kind: Bare, Text: "NA"}, nil},
		{"string", Cell{Kind: Quoted, Text: "NA"}, "NA"},
		{"int64", Cell{Kind: String}, errors.New("null is written as null")},
		{"string", Cell{Kind: Literal, Text: "5"}, errors.New("needs a text in quotes")},
		{"int64", Cell{Kind: Literal, Text: "5"}, int64(5)},
		{"bool", Cell{Kind: Literal, Text: "true"}, true},
		{"bool", Cell{Kind: String, Text: "1"}, true},
		{"bool", Cell{Kind: Literal, Text: "1"}, errors.New("a number of JSON, where a column of type bool needs true or false")},
		{"bool", Cell{Kind: Typed, Value: int64(1)}, errors.New("an integer, which a column of type bool does not take")},
		{"int64", Cell{Kind: String, Text: "5"}, int64(5)},
		{"int64", Cell{Kind: Literal, Text: "5.0"}, int64(5)},
		{"int64", Cell{Kind: Literal, Text: "true"}, errors.New("not an integer")},
		{"float64", Cell{Kind: Literal, Text: "1e-400"}, errors.New("would keep 0")},
		{"float32", Cell{Kind: Typed, Value: 1e-60}, errors.New("so near to 0 that float32 would keep 0")},
		{"float32", Cell{Kind: Typed, Value: 1e39}, errors.New("beyond the range of type float32")},
		{"float32", Cell{Kind: Typed, Value: math.Inf(-1)}, float32(math.Inf(-1))},
		{"float32", Cell{Kind: Typed, Value: 1e20}, float32(1e20)},
		{"float64", Cell{Kind: Typed, Value: " 1"}, errors.New("not a number; blanks around it are not allowed")},
		{"float64", Cell{Kind: Bare, Text: " NA "}, errors.New("not a number; blanks around it are not allowed")},
		{"float64", Cell{Kind: String, Text: "-Infinity"}, math.Inf(-1)},
		{"timestamp/s", Cell{Kind: Literal, Text: "5"}, errors.New("a number of JSON, where a column of type timestamp/s needs a text in quotes; --time-format unix, unix-ms, unix-us or unix-ns reads numbers")},
		{"timestamp/s", Cell{Kind: Typed, Value: int64(5)}, errors.New("an integer, which a column of type timestamp/s does not take; --time-format unix,")},
		{"int16", Cell{Kind: Typed, Value: 517.0}, int16(517)},
		{"int16", Cell{Kind: Typed, Value: 517.5}, errors.New("no integer")},
		{"uint8", Cell{Kind: Typed, Value: int64(-1)}, errors.New("beyond the range")},
		{"float32", Cell{Kind: Typed, Value: 0.1}, float32(0.1)},
		{"int64", Cell{Kind: Typed, Value: -0x1p63}, int64(math.MinInt64)},
		{"int64", Cell{Kind: Typed, Value: 0x1p62}, int64(1 << 62)},
		{"int64", Cell{Kind: Typed, Value: 0x1p63}, errors.New("beyond the range of type int64")},
		{"uint64", Cell{Kind: Typed, Value: 0x1p63}, uint64(1 << 63)},
		{"uint64", Cell{Kind: Typed, Value: 1e19}, uint64(1e19)},
		{"uint64", Cell{Kind: Typed, Value: 1e300}, errors.New("beyond the range of type uint64")},
		{"uint64", Cell{Kind: Typed, Value: math.Inf(1)}, errors.New("no integer")},
		{"int64", Cell{Kind: Typed, Value: math.NaN()}, errors.New("no integer")},
		{"int64", Cell{Kind: Literal, Text: "1e1"}, int64(10)},
		{"float64", Cell{Kind: Typed, Value: int64(5)}, 5.0},
		{"decimal(2)", Cell{Kind: Typed, Value: 12.34}, encode.Decimal{Unscaled: big.NewInt(1234), Scale: 2}},
		{"decimal(2)", Cell{Kind: Typed, Value: encode.Decimal{Unscaled: big.NewInt(12340), Scale: 3}}, encode.Decimal{Unscaled: big.NewInt(1234), Scale: 2}},
		{"date", Cell{Kind: Typed, Value: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)}, encode.CivilDate{Year: 2024, Month: 2, Day: 29}},
		{"date", Cell{Kind: Typed, Value: Local{time.Date(2024, 2, 29, 1, 0, 0, 0, time.UTC)}}, errors.New("not the beginning of a day")},
		{"string", Cell{Kind: Typed, Value: int64(5)}, errors.New("an integer, which a column of type string does not take")},
		{"timestamp/s", Cell{Kind: Typed, Value: "2024-02-29T12:00:00Z"}, time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)},
		{"string", Cell{Kind: Typed, Value: []byte{0xff}}, errors.New("bytes that are no text in UTF-8")},
		{"int64", Cell{Kind: Bare, Text: "NULL"}, errors.New("name it with --null")},
	} {
		got, err := columnOf(t, test.typ, "--null", "NA").Value(test.cell)
		if want, ok := test.want.(error); ok {
			require.ErrorContains(t, err, want.Error(), fmt.Sprint(test))
			continue
		}
		require.NoError(t, err, fmt.Sprint(test))
		require.Equal(t, test.want, got, fmt.Sprint(test))
	}
	ordered, err := formatOf(t)
	require.NoError(t, err)
	columns, err := ordered.Columns(store.Schema{Columns: []store.Column{store.OrderedColumn("c", store.Float64, store.MOPE)}})
	require.NoError(t, err)
	_, err = columns[0].Parse("nan")
	require.ErrorContains(t, err, "only randomised and plain columns take")
}

// The bits of NaN are kept: only one has the short text, and that is Go's. Other programs have another.
func TestNaN(t *testing.T) {
	c := columnOf(t, "float64")
	for text, bits := range map[string]uint64{"NaN": 0x7ff8000000000001, "NaN(0x7ff8000000000000)": 0x7ff8000000000000} {
		written, err := c.Text(math.Float64frombits(bits))
		require.NoError(t, err)
		require.Equal(t, text, written)
		for _, kind := range []Kind{Bare, String} {
			v, err := c.Value(Cell{Kind: kind, Text: text})
			require.NoError(t, err)
			require.Equal(t, bits, math.Float64bits(v.(float64)), text)
		}
	}
}

// Of what other programs take for an integer or a text, where it is written as Go does, the value is kept.
func TestFloatsForOthers(t *testing.T) {
	for want, v := range map[string]float64{"-0.0": math.Copysign(0, -1), "inf": math.Inf(1), "-inf": math.Inf(-1)} {
		c := columnOf(t, "float64")
		text, err := c.Text(v)
		require.NoError(t, err)
		require.Equal(t, want, text)
		again, err := c.Parse(text)
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(v), math.Float64bits(again.(float64)))
	}
	text, err := columnOf(t, "float32", "--decimal-comma").Text(float32(math.Copysign(0, -1)))
	require.NoError(t, err)
	require.Equal(t, "-0,0", text)
	written, err := columnOf(t, "float64").AppendJSON(nil, math.Copysign(0, -1))
	require.NoError(t, err)
	require.Equal(t, "-0.0", string(written))
}

// A condition may name a day or a minute of any year.
func TestInstants(t *testing.T) {
	format, err := formatOf(t, "--zone", "UTC")
	require.NoError(t, err)
	for text, want := range map[string]time.Time{
		"2024-02-29":              time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		"2024-02-29 12:30":        time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC),
		"2024-02-29T12:30+01:00":  time.Date(2024, 2, 29, 11, 30, 0, 0, time.UTC),
		"-0044-03-15":             time.Date(-44, 3, 15, 0, 0, 0, 0, time.UTC),
		"-0044-03-15 12:30":       time.Date(-44, 3, 15, 12, 30, 0, 0, time.UTC),
		"+12000-01-01":            time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC),
		"+12000-01-01T12:30Z":     time.Date(12000, 1, 1, 12, 30, 0, 0, time.UTC),
		"+12000-01-01T12:30:01.5": time.Date(12000, 1, 1, 12, 30, 1, 500_000_000, time.UTC),
	} {
		got, err := format.Instant(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, year := range map[string]int{"2024-03-15T00:00:00.1234567891Z": 2024, "-0044-03-15T00:00:00.1234567891Z": -44, "+12044-03-15 00:00:00.1234567891": 12044} {
		got, err := format.Instant(text)
		require.ErrorIs(t, err, encode.ErrInexact, text)
		require.Equal(t, time.Date(year, 3, 15, 0, 0, 0, 123_456_789, time.UTC), got, text)
	}
	for _, text := range []string{"-044-03-15", "2024-02-30", "+2024-02-28", "12:30", "-0044-03-15 12"} {
		_, err := format.Instant(text)
		require.Error(t, err, text)
	}
}

// A day of a condition is that of the pattern, as it is of a date. What could be one of ISO 8601 has its month where the pattern has it.
func TestInstantsOfPatterns(t *testing.T) {
	at := func(month time.Month, day, hour int) time.Time {
		return time.Date(2024, month, day, hour, 0, 0, 0, time.UTC)
	}
	for _, c := range []struct {
		pattern, text string
		want          time.Time // zero where it is an error
	}{
		{"%d.%m.%Y %H:%M", "02.03.2024", at(3, 2, 0)},
		{"%d.%m.%Y %H:%M", "2024-03-02", at(3, 2, 0)},
		{"%d.%m.%Y %H:%M", "2024-03-02T10:00:00Z", at(3, 2, 10)},
		{"%Y-%d-%m %H:%M:%S", "2024-03-02 10:00:00", at(2, 3, 10)},
		{"%Y-%d-%m %H:%M:%S", "2024-03-02", at(2, 3, 0)},
		{"%Y-%d-%m %H:%M:%S", "2024-03-02 10:00", time.Time{}},
		{"%Y-%d-%m %H:%M:%S", "2024-03-02T10:00:00Z", time.Time{}},
		{"%Y-%m-%d %H:%M:%S", "2024-03-02 10:00", at(3, 2, 10)},
		{"unix", "2024-03-02", at(3, 2, 0)},
	} {
		format, err := formatOf(t, "--zone", "UTC", "--time-format", c.pattern)
		require.NoError(t, err)
		got, err := format.Instant(c.text)
		if c.want.IsZero() {
			require.ErrorContains(t, err, "not a time like", c.text)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, got, "%s %s", c.pattern, c.text)
	}
}

// That a time without an offset is taken as UTC is said, and only then.
func TestAssumedZone(t *testing.T) {
	c := columnOf(t, "timestamp/s")
	_, err := c.Parse("2024-02-29T12:00:00Z")
	require.NoError(t, err)
	require.Empty(t, c.format.Assumed())
	_, err = c.Parse("2024-02-29T12:00:00")
	require.NoError(t, err)
	require.Equal(t, []string{"times without an offset are taken as UTC; --zone names another time zone"}, c.format.Assumed())
	require.Empty(t, c.format.Assumed(), "it is said once")
	c = columnOf(t, "timestamp/s", "--zone", "UTC")
	_, err = c.Parse("2024-02-29T12:00:00")
	require.NoError(t, err)
	require.Empty(t, c.format.Assumed())
	c = columnOf(t, "timestamp/s", "--time-format", "%F %T")
	text, err := c.Text(time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, "2024-02-29 12:00:00", text)
	require.Equal(t, []string{"times are written in UTC, which --time-format does not show; --zone names another time zone, and %z shows it"}, c.format.Assumed())
	_, err = columnOf(t, "timestamp/ns", "--time-format", "%F %T").Text(time.Unix(0, 1).UTC())
	require.ErrorContains(t, err, "cannot write so that it can be read again")
}

// A date is written as the date of the pattern, and read so.
func TestDatesOfPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"%d.%m.%Y":                "03.02.2024",
		"%d.%m.%Y %H:%M:%S.%f %z": "03.02.2024",
		"%m/%d/%y, %I:%M %p":      "02/03/24",
		"%FT%TZ":                  "2024-02-03",
		"(%F)":                    "(2024-02-03)",
		"[%F %T]":                 "2024-02-03",
		"%T %d.%m.%Y":             "03.02.2024",
		"%-m/%-d/%Y %-I:%M %p":    "2/3/2024",
		"%Y年%m月%d日 %H時%M分":        "2024年02月03日",
		"%d %b %Y à %H:%M":        "03 Feb 2024",
		"%a %b %e %T %z %Y":       "Sat Feb  3 2024",
		"%Y/%j":                   "2024/034",
		"%F%% %T":                 "2024-02-03",
		"%%%F":                    "%2024-02-03",
		"rfc3339":                 "2024-02-03",
		"unix-us":                 "2024-02-03",
	} {
		c := columnOf(t, "date", "--time-format", pattern)
		d := encode.CivilDate{Year: 2024, Month: 2, Day: 3}
		text, err := c.Text(d)
		require.NoError(t, err, pattern)
		require.Equal(t, want, text, pattern)
		back, err := c.Parse(text)
		require.NoError(t, err, pattern)
		require.Equal(t, d, back, pattern)
		require.Empty(t, c.format.Assumed(), "a date has no zone")
	}
	for _, year := range []int{-1, 1890, 10_000} {
		_, err := columnOf(t, "date", "--time-format", "%d.%m.%y").Text(encode.CivilDate{Year: year, Month: 2, Day: 3})
		require.ErrorContains(t, err, "a date that --time-format %d.%m.%y cannot write so that it can be read again")
	}
	c := columnOf(t, "date from 2024-01-01 to 2024-12-31", "--time-format", "%d.%m.%Y")
	_, err := c.Parse("03.02.2024")
	require.NoError(t, err)
	_, err = c.Parse("03.02.2025")
	require.ErrorContains(t, err, "beyond the bounds of the column: 2024-01-01 to 2024-12-31")
}

func TestRefusedFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--bytes", "octal"}, {"--thousands", "x"}, {"--thousands", "."}, {"--thousands", ",", "--decimal-comma"},
		{"--zone", "Mars/Olympus"}, {"--zone", "Local"}, {"--null", "a\"b"}, {"--null", "a\nb"},
		{"--time-format", "iso"}, {"--time-format", "%Y-%m"}, {"--time-format", "%F %Q"}, {"--time-format", "%F %"},
		{"--time-format", "%-H %F"}, {"--time-format", "%F %-"}, {"--time-format", "%F at %T"}, {"--time-format", "%F %f"}, {"--time-format", "%F %I:%M"}, {"--time-format", "unix-h"},
	} {
		_, err := formatOf(t, args...)
		require.ErrorIs(t, err, exit.ErrUsage, args)
	}
}
