package store_test

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
)

// Texts of types are as documented, and other spellings of bounds mean the same.
func TestParseType(t *testing.T) {
	day := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		text string // canonical where there is no other
		want store.Type
		also []string
	}{
		{text: "bool", want: store.Bool},
		{text: "string", want: store.String},
		{text: "ipv6", want: store.IPv6},
		{text: "uuid", want: store.UUID, also: []string{" uuid "}},
		{text: "timestamp/us", want: store.Time(time.Microsecond)},
		{text: "decimal(-3)", want: store.Decimal(-3)},
		{text: "int8 from 0 to 120", want: store.Int8.Within(0, 120), also: []string{"int8  from @0\tto +120"}},
		{text: "uint64 from 1 to 18446744073709551615", want: store.Uint64.Within(1, math.MaxUint64)},
		{text: "float32 from -0.1 to +Inf", want: store.Float32.Within(-0.1, float32(math.Inf(1))), also: []string{"float32 from -1e-1 to inf"}},
		{text: "float64 from -1.7976931348623157e+308 to 0", want: store.Float64.Within(-math.MaxFloat64, math.Copysign(0, -1))},
		{text: "bool from true to true", want: store.Bool.Within(true, true)},
		{text: "date from 1900-01-01 to 2100-12-31", want: store.Date.Within(encode.CivilDate{Year: 1900, Month: 1, Day: 1}, encode.CivilDate{Year: 2100, Month: 12, Day: 31})},
		{text: "date from @-719529 to 1969-12-31", want: store.Date.Within(encode.CivilDate{Year: -1, Month: 12, Day: 31}, encode.CivilDate{Year: 1969, Month: 12, Day: 31}), also: []string{"date from @-719529 to @-1"}},
		{text: "timestamp/s from 2020-01-01T00:00:00Z to 2039-12-31T23:59:59Z", want: store.Time(time.Second).Within(day(2020, 1, 1), day(2040, 1, 1).Add(-time.Second)),
			also: []string{"timestamp/s from 2020-01-01 to 2040-01-01T01:59:59+02:00"}},
		{text: "timestamp/ms from 1970-01-01T00:00:00.001Z to 9999-12-31T00:00:00Z", want: store.Time(time.Millisecond).Within(time.UnixMilli(1), day(9999, 12, 31)), also: []string{"timestamp/ms from @1 to 9999-12-31"}},
		{text: "timestamp/ms from @-62167219200001 to @253402300800000", want: store.Time(time.Millisecond).Within(day(0, 1, 1).Add(-time.Millisecond), day(10000, 1, 1))},
		{text: "decimal(2) from 0.00 to 99999.99", want: store.Decimal(2).Within(encode.Decimal{}, mustDecimal(t, "99999.99")), also: []string{"decimal(2) from 0 to @9999999"}},
		{text: "decimal(1000) from @-1 to @1", want: must(store.ParseType("decimal(1000) from @-1 to @1"))},
		{text: "ipv4 from 10.0.0.0 to 10.255.255.255", want: store.IPv4.Within(netip.MustParseAddr("10.0.0.0"), netip.MustParseAddr("10.255.255.255"))},
	} {
		require.Equal(t, c.text, c.want.String())
		for _, text := range append(c.also, c.text) {
			got, err := store.ParseType(text)
			require.NoError(t, err, text)
			require.Equal(t, c.text, got.String())
			require.Equal(t, store.TypeID(c.want), store.TypeID(got), text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDecimal(t *testing.T, text string) encode.Decimal {
	d, err := encode.ParseDecimal(text)
	require.NoError(t, err)
	return d
}

// What is no type is refused with the reason.
func TestParseTypeMistakes(t *testing.T) {
	for text, reason := range map[string]string{
		"":                           "TYPE from LEAST to GREATEST",
		"int23":                      `unknown type "int23": there is bool, int8`,
		"string(20)":                 `string(32), string after BEGINNINGS, bytes, `,
		"int8/1":                     "unknown type",
		"timestamp":                  "timestamp/ms",
		"timestamp/m":                "unknown type",
		"time/1":                     "unknown type",
		"decimal":                    "unknown type",
		"decimal(2":                  "unknown type",
		"decimal(02)":                "unknown type",
		"decimal(2.5)":               "unknown type",
		"decimal(3000000000)":        "unknown type",
		"decimal(1000000000)":        "need -1000 to 1000",
		"int8 from 0":                "TYPE from LEAST to GREATEST",
		"int8 to 0 from 5":           "TYPE from LEAST to GREATEST",
		"int8 from 0 to 5 to 6":      "TYPE from LEAST to GREATEST",
		"int8 from 5 to 4":           "the least value is above the greatest: exchange them",
		"int8 from 0 to 128":         "the greatest value",
		"int8 from zero to 5":        "the least value",
		"uint8 from -1 to 5":         "uint8",
		"uint8 from @-1 to 5":        "domain",
		"int8 from @x to 5":          "integer",
		"string from a to b":         "cannot be restricted",
		"ipv6 from :: to ::1":        "cannot be restricted",
		"uuid from 0 to 1":           "cannot be restricted",
		"float64 from NaN to 1":      "not a number",
		"float32 from 0 to 1e39":     "beyond the range of float32",
		"float64 from 2013_01 to 1":  "no value of type float64",
		"float64 from 0 to 0x1p4":    "no value of type float64",
		"float32 from 0 to 1_0":      "no value of type float32",
		"int8 from 0 to 1_0":         "no value of type int8",
		"decimal(2) from 0 to 1_0":   "decimal number",
		"bool from 0 to 1":           "neither true nor false",
		"date from 2023-02-29 to @9": "not a date",
		"timestamp/s from 1 to 2":    "not a time",
		"ipv4 from ::1 to 1.2.3.4":   "the least value",
		"decimal(2) from 0 to 0.001": "the greatest value",
		"timestamp/s from @0 to 2001-01-01T00:00:00.5Z":           "the greatest value",
		"timestamp/ns from @0 to 2001-01-01T00:00:00.0000000001Z": "nine digits of a second",
	} {
		_, err := store.ParseType(text)
		require.ErrorIs(t, err, store.ErrSchema, text)
		require.ErrorContains(t, err, reason, text)
	}
}

// anyType draws a type, restricted or not.
func anyType() *rapid.Generator[store.Type] {
	return rapid.Custom(func(t *rapid.T) store.Type {
		name := rapid.SampledFrom([]string{
			"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "date",
			"timestamp/ns", "timestamp/us", "timestamp/ms", "timestamp/s", "decimal", "ipv4", "ipv6", "string", "bytes", "uuid",
		}).Draw(t, "type")
		if name == "decimal" {
			name = store.Decimal(rapid.Int32Range(-1000, 1000).Draw(t, "scale")).String()
		}
		typ, err := store.ParseType(name)
		require.NoError(t, err)
		// Bounds are drawn by number: most are in the domain of the narrower types.
		small := rapid.Int64Range(-1000, 1000)
		lo, hi := rapid.OneOf(small, rapid.Int64()).Draw(t, "lo"), rapid.OneOf(small, rapid.Int64()).Draw(t, "hi")
		if narrow, err := store.ParseType(name + " from @" + fmt.Sprint(min(lo, hi)) + " to @" + fmt.Sprint(max(lo, hi))); err == nil {
			typ = narrow
		}
		return typ
	})
}

// Every type is read back from its text.
func TestTypeTextsAreRead(t *testing.T) {
	restricted := 0
	rapid.Check(t, func(t *rapid.T) {
		typ := anyType().Draw(t, "type")
		got, err := store.ParseType(typ.String())
		require.NoError(t, err)
		require.Equal(t, store.TypeID(typ), store.TypeID(got))
		require.Equal(t, typ.String(), got.String())
		if strings.Contains(typ.String(), " from ") {
			restricted++
		}
	})
	require.Positive(t, restricted)
}

func TestParseScheme(t *testing.T) {
	for _, s := range []store.ColumnScheme{
		store.Boldyreva, store.MOPE, store.Wozniak, store.WozniakIndexed, store.Kerschbaum, compare.KerschbaumPublished,
		store.Plaintext, compare.PlaintextIndexed,
	} {
		got, err := store.ParseScheme(fmt.Sprint(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	_, err := store.ParseScheme("rot13")
	require.ErrorIs(t, err, store.ErrSchema)
	require.ErrorContains(t, err, `unknown scheme "rot13": there is boldyreva, mope, `)
}
