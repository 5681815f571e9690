package encode

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// exactLaws checks an Exact codec against the language's own comparison. values also generates
// what the codec cannot encode, for use as a bound; unordered values are left out.
func exactLaws[T any](t *testing.T, c Exact[T], values *rapid.Generator[T], compare func(a, b T) int, identical func(a, b T) bool) {
	t.Helper()
	codes := opetest.Values(c.Domain())
	decode := func(t *rapid.T, code int64) T {
		v, err := c.Decode(code)
		require.NoError(t, err)
		return v
	}
	encoded := 0
	t.Run("order and round trip", rapid.MakeCheck(func(t *rapid.T) {
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		x, errA := c.Encode(a)
		y, errB := c.Encode(b)
		for _, err := range []error{errA, errB} {
			if err != nil && !isAny(err, ope.ErrDomain, ErrInexact) {
				t.Fatal(err)
			}
		}
		if errA == nil {
			encoded++
			require.True(t, c.Domain().Contains(x))
			require.True(t, identical(decode(t, x), a), "%v decodes to %v", a, decode(t, x))
		}
		if errA == nil && errB == nil {
			require.Equal(t, compare(a, b), cmp.Compare(x, y), "codes %d and %d", x, y)
		}
	}))
	require.NotZero(t, encoded, "no value could be encoded")

	t.Run("every code is a value's", rapid.MakeCheck(func(t *rapid.T) {
		x, y := codes.Draw(t, "x"), codes.Draw(t, "y")
		a, b := decode(t, x), decode(t, y)
		again, err := c.Encode(a)
		require.NoError(t, err)
		require.Equal(t, x, again)
		require.Equal(t, cmp.Compare(x, y), compare(a, b), "values %v and %v", a, b)
	}))

	t.Run("bounds", rapid.MakeCheck(func(t *rapid.T) {
		v := values.Draw(t, "v")
		low, someLow, err := c.Low(v)
		require.NoError(t, err)
		high, someHigh, err := c.High(v)
		require.NoError(t, err)
		require.True(t, !someLow || c.Domain().Contains(low))
		require.True(t, !someHigh || c.Domain().Contains(high))
		for _, x := range []int64{low - 1, low, low + 1, high - 1, high, high + 1, c.Domain().Min, c.Domain().Max, codes.Draw(t, "x")} {
			if !c.Domain().Contains(x) {
				continue
			}
			w := decode(t, x)
			require.Equal(t, compare(w, v) >= 0, someLow && x >= low, "Low = %d, %v; code %d", low, someLow, x)
			require.Equal(t, compare(w, v) <= 0, someHigh && x <= high, "High = %d, %v; code %d", high, someHigh, x)
		}
	}))

	t.Run("no code outside the domain", func(t *testing.T) {
		d := c.Domain()
		for _, x := range []int64{d.Min - 1, d.Max + 1, math.MinInt64, math.MaxInt64} {
			if !d.Contains(x) {
				_, err := c.Decode(x)
				require.ErrorIs(t, err, ope.ErrDomain)
			}
		}
	})
	commonLaws[T](t, c)
}

// prefixLaws checks a Prefix codec.
func prefixLaws[T any](t *testing.T, c Prefix[T], values *rapid.Generator[T], compare func(a, b T) int) {
	t.Helper()
	encoded, different := 0, 0
	t.Run("weak order and bounds", rapid.MakeCheck(func(t *rapid.T) {
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		low, someLow, err := c.Low(a)
		require.NoError(t, err)
		high, someHigh, err := c.High(a)
		require.NoError(t, err)
		require.True(t, someLow || someHigh)

		y, err := c.Encode(b)
		if err != nil {
			require.ErrorIs(t, err, ope.ErrDomain)
			return
		}
		require.True(t, c.Domain().Contains(y))
		// What is in the range must be found.
		if compare(b, a) >= 0 {
			require.True(t, someLow && y >= low, "Low = %d, %v; code %d", low, someLow, y)
		}
		if compare(b, a) <= 0 {
			require.True(t, someHigh && y <= high, "High = %d, %v; code %d", high, someHigh, y)
		}
		if x, err := c.Encode(a); err == nil {
			encoded++
			if x != y {
				different++
				require.Equal(t, compare(a, b), cmp.Compare(x, y))
			}
			// And no more than the prefix forces.
			require.Equal(t, x, low)
			require.Equal(t, x, high)
		}
	}))
	require.NotZero(t, encoded, "no value could be encoded")
	require.NotZero(t, different, "all codes are the same")
	commonLaws[T](t, c)
}

func commonLaws[T any](t *testing.T, c Codec[T]) {
	t.Helper()
	require.NotEmpty(t, c.ID())
	require.NoError(t, c.Domain().Validate())
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

func same[T comparable](a, b T) bool { return a == b }

func TestInteger(t *testing.T) {
	type celsius int16
	integerLaws[int8](t, "int8", "int8/1", ope.Int8)
	integerLaws[int16](t, "int16", "int16/1", ope.Int16)
	integerLaws[int32](t, "int32", "int32/1", ope.Int32)
	integerLaws[int64](t, "int64", "int64/1", ope.Int64)
	integerLaws[int](t, "int", "int64/1", ope.Int64)
	integerLaws[uint8](t, "uint8", "uint8/1", ope.Uint8)
	integerLaws[uint16](t, "uint16", "uint16/1", ope.Uint16)
	integerLaws[uint32](t, "uint32", "uint32/1", ope.Uint32)
	integerLaws[uint64](t, "uint64", "uint64/1", ope.Int64)
	integerLaws[uint](t, "uint", "uint64/1", ope.Int64)
	integerLaws[uintptr](t, "uintptr", "uint64/1", ope.Int64)
	integerLaws[celsius](t, "named type", "int16/1", ope.Int16)
	integerLaws[time.Duration](t, "time.Duration", "int64/1", ope.Int64)
}

func integerLaws[T interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}](t *testing.T, name, id string, domain ope.Domain) {
	t.Run(name, func(t *testing.T) {
		c := Integer[T]()
		require.Equal(t, id, c.ID())
		require.Equal(t, domain, c.Domain())
		// All bit patterns of T, small and large ones of either sign among them.
		values := rapid.Map(opetest.Values(ope.Int64), func(x int64) T { return T(x) })
		exactLaws(t, c, values, cmp.Compare[T], same[T])

		narrow, err := c.Within(10, 100)
		require.NoError(t, err)
		require.Equal(t, uint64(90), narrow.Domain().Span())
		exactLaws(t, narrow, rapid.OneOf(values, rapid.Map(rapid.Int64Range(0, 127), func(x int64) T { return T(x) })), cmp.Compare[T], same[T])
	})
}

func TestSmallIntegersExhaustively(t *testing.T) {
	exhaust(t, Integer[int8](), func(i int) int8 { return int8(i - 1<<7) }, 1<<8)
	exhaust(t, Integer[uint8](), func(i int) uint8 { return uint8(i) }, 1<<8)
	exhaust(t, Integer[int16](), func(i int) int16 { return int16(i - 1<<15) }, 1<<16)
	exhaust(t, Integer[uint16](), func(i int) uint16 { return uint16(i) }, 1<<16)
	exhaust(t, Bool(), func(i int) bool { return i == 1 }, 2)
}

// exhaust takes all n values in ascending order: their codes are exactly the domain.
func exhaust[T comparable](t *testing.T, c Exact[T], value func(i int) T, n int) {
	require.Equal(t, uint64(n-1), c.Domain().Span())
	for i := range n {
		code, err := c.Encode(value(i))
		if err != nil || code != c.Domain().At(uint64(i)) {
			t.Fatalf("value %d has the code %d, %v", i, code, err)
		}
		if back, err := c.Decode(code); err != nil || back != value(i) {
			t.Fatalf("value %d decodes to %v, %v", i, back, err)
		}
	}
}

func TestUint64KeepsItsOrderAcrossTheSignBit(t *testing.T) {
	c := Integer[uint64]()
	for _, x := range []struct {
		value uint64
		code  int64
	}{{0, math.MinInt64}, {1<<63 - 1, -1}, {1 << 63, 0}, {math.MaxUint64, math.MaxInt64}} {
		code, err := c.Encode(x.value)
		require.NoError(t, err)
		require.Equal(t, x.code, code)
	}
}

func floats64() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64(),
		rapid.Map(rapid.Uint64(), func(b uint64) float64 { return math.Float64frombits(b * 0x9e3779b97f4a7c15) }),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 1, -1, math.Pi, math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
			math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, -0x1p-1022,
			0x1p53, 0x1p53 + 2, 0x1p63, -0x1p63, 0.1, 0.2, 0.30000000000000004, 18.5,
		}),
	).Filter(func(f float64) bool { return !math.IsNaN(f) })
}

func TestFloat(t *testing.T) {
	// The zeros are the only values that are equal and not identical.
	sameBits := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a == 0 && b == 0 }
	t.Run("float64", func(t *testing.T) {
		exactLaws(t, Float[float64](), floats64(), cmp.Compare[float64], sameBits)
	})
	t.Run("float64 without infinities", func(t *testing.T) {
		c, err := Float[float64]().Within(-math.MaxFloat64, math.MaxFloat64)
		require.NoError(t, err)
		exactLaws(t, c, floats64(), cmp.Compare[float64], sameBits)
		_, err = c.Encode(math.Inf(1))
		require.ErrorIs(t, err, ope.ErrDomain)
	})
	t.Run("float32", func(t *testing.T) {
		values := rapid.OneOf(
			rapid.Map(floats64(), func(f float64) float32 { return float32(f) }),
			rapid.Map(rapid.Uint32(), func(b uint32) float32 { return math.Float32frombits(b * 0x9e3779b9) }),
		).Filter(func(f float32) bool { return f == f })
		exactLaws(t, Float[float32](), values, cmp.Compare[float32], func(a, b float32) bool {
			return math.Float32bits(a) == math.Float32bits(b) || a == 0 && b == 0
		})
	})
	t.Run("named type", func(t *testing.T) {
		type metres float64
		x, err := Float[metres]().Encode(18.5)
		require.NoError(t, err)
		y, err := Float[float64]().Encode(18.5)
		require.NoError(t, err)
		require.Equal(t, y, x)
	})
}

func TestFloatZeros(t *testing.T) {
	for _, zero := range []float64{0, math.Copysign(0, -1)} {
		code, err := Float[float64]().Encode(zero)
		require.NoError(t, err)
		require.Zero(t, code)
		code, err = Float[float32]().Encode(float32(zero))
		require.NoError(t, err)
		require.Zero(t, code)
	}
	back, err := Float[float64]().Decode(0)
	require.NoError(t, err)
	require.False(t, math.Signbit(back), "code 0 decodes to +0")
}

func TestNaNIsInvalid(t *testing.T) {
	c := Float[float64]()
	for _, bits := range []uint64{0x7ff8000000000001, 0x7ff0000000000001, 0xfff8000000000000, math.MaxUint64} {
		nan := math.Float64frombits(bits)
		_, err := c.Encode(nan)
		require.ErrorIs(t, err, ErrInvalid)
		_, _, err = c.Low(nan)
		require.ErrorIs(t, err, ErrInvalid)
		_, _, err = c.High(nan)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = c.Within(nan, 1)
		require.ErrorIs(t, err, ErrInvalid)
	}
	_, err := Float[float32]().Encode(float32(math.NaN()))
	require.ErrorIs(t, err, ErrInvalid)
}

// Consecutive floats have consecutive codes: at the ends of every binade, and all over.
func TestFloat32Neighbours(t *testing.T) {
	c := Float[float32]()
	check := func(bits uint32) {
		f := math.Float32frombits(bits)
		if f != f || math.IsInf(float64(f), 1) {
			return
		}
		next := math.Nextafter32(f, float32(math.Inf(1)))
		x, errX := c.Encode(f)
		y, errY := c.Encode(next)
		if errX != nil || errY != nil {
			t.Fatalf("%g and its successor %g: %v, %v", f, next, errX, errY)
		}
		if y != x+1 {
			t.Fatalf("%g and its successor %g have the codes %d and %d", f, next, x, y)
		}
		if back, err := c.Decode(x); err != nil || back != f {
			t.Fatalf("%g decodes to %g, %v", f, back, err)
		}
	}
	for sign := range uint32(2) {
		for exponent := range uint32(256) {
			for _, mantissa := range []uint32{0, 1, 2, 1 << 22, 1<<23 - 2, 1<<23 - 1} {
				check(sign<<31 | exponent<<23 | mantissa)
			}
		}
	}
	for bits := uint64(0); bits < 1<<32; bits += 16411 { // a prime: a quarter of a million of them
		check(uint32(bits))
	}
}

func TestFloat64Neighbours(t *testing.T) {
	c := Float[float64]()
	for sign := range uint64(2) {
		for exponent := range uint64(2047) {
			for _, mantissa := range []uint64{0, 1, 1 << 51, 1<<52 - 1} {
				f := math.Float64frombits(sign<<63 | exponent<<52 | mantissa)
				x, errX := c.Encode(f)
				y, errY := c.Encode(math.Nextafter(f, math.Inf(1)))
				if errX != nil || errY != nil || y != x+1 {
					t.Fatalf("%g and its successor have the codes %d, %v and %d, %v", f, x, errX, y, errY)
				}
			}
		}
	}
}

func TestTime(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("east", 14*3600), time.FixedZone("west", -12*3600-1800)}
	values := rapid.Custom(func(t *rapid.T) time.Time {
		seconds := rapid.OneOf(
			rapid.Int64Range(-1<<33, 1<<33),
			rapid.SampledFrom([]int64{
				0, -1, 1, -62_135_596_800, 253_402_300_799, // the years 1 and 9999
				math.MaxInt64 / 1_000_000_000, math.MaxInt64/1_000_000_000 + 1, math.MinInt64 / 1_000_000_000, math.MinInt64/1_000_000_000 - 1, math.MinInt64/1_000_000_000 - 2,
				math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1, math.MinInt64 / 1_000_000, math.MinInt64/1_000_000 - 1,
				math.MaxInt64 / 1_000, math.MaxInt64/1_000 + 1, math.MinInt64 / 1_000, math.MinInt64/1_000 - 1,
				math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 62_135_596_800, math.MaxInt64, math.MaxInt64 - 1000,
			}),
		).Draw(t, "seconds")
		nanoseconds := rapid.OneOf(
			rapid.SampledFrom([]int64{0, 1, 999, 1000, 1001, 999_999, 1e6, 1e6 + 1, 999_000_000, 999_999_999, 854_775_807, 854_775_808, 145_224_192, 145_224_191}),
			rapid.Int64Range(0, 999_999_999),
		).Draw(t, "nanoseconds")
		return time.Unix(seconds, nanoseconds).In(rapid.SampledFrom(zones).Draw(t, "zone"))
	})
	instant := func(a, b time.Time) bool { return a.Equal(b) }
	for _, unit := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second} {
		t.Run(unit.String(), func(t *testing.T) {
			whole := rapid.OneOf(values, rapid.Map(values, func(v time.Time) time.Time { return time.Unix(v.Unix(), 0) }))
			exactLaws(t, Time(unit), whole, time.Time.Compare, instant)
		})
	}
	require.Panics(t, func() { Time(time.Minute) })
	require.Panics(t, func() { Time(0) })
}

// The years 1677 and 2262 hold the ends of int64 at a nanosecond; in 2554 the count exceeds uint64.
func TestTimeEnds(t *testing.T) {
	for _, unit := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond} {
		c := Time(unit)
		for _, code := range []int64{math.MinInt64, math.MaxInt64} {
			end, err := c.Decode(code)
			require.NoError(t, err)
			back, err := c.Encode(end)
			require.NoError(t, err)
			require.Equal(t, code, back)
			_, err = c.Encode(end.Add(time.Duration(cmp.Compare(code, 0)) * unit))
			require.ErrorIs(t, err, ope.ErrDomain)
		}
		perSecond := uint64(time.Second / unit)
		for _, units := range []uint64{0, 1, perSecond - 1} { // 2^64 and a bit
			seconds := math.MaxUint64 / perSecond
			at := time.Unix(int64(seconds), int64(math.MaxUint64%perSecond+1+units)*int64(unit))
			_, err := c.Encode(at)
			require.ErrorIs(t, err, ope.ErrDomain)
		}
	}
}

func TestTimeIsNotRounded(t *testing.T) {
	c := Time(time.Millisecond)
	at := time.Date(2016, 7, 26, 12, 30, 0, 250_000_000, time.FixedZone("", 3600))
	code, err := c.Encode(at)
	require.NoError(t, err)
	require.Equal(t, at.UnixMilli(), code)
	back, err := c.Decode(code)
	require.NoError(t, err)
	require.True(t, back.Equal(at))
	require.Equal(t, time.UTC, back.Location())

	_, err = c.Encode(at.Add(time.Microsecond))
	require.ErrorIs(t, err, ErrInexact)
	// As a bound it is rounded inwards.
	low, ok, err := c.Low(at.Add(time.Microsecond))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, code+1, low)
	high, ok, err := c.High(at.Add(time.Microsecond))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, code, high)
}

func TestDate(t *testing.T) {
	compare := func(a, b CivilDate) int {
		return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.Month, b.Month), cmp.Compare(a.Day, b.Day))
	}
	values := rapid.Custom(func(t *rapid.T) CivilDate {
		year := rapid.OneOf(
			rapid.IntRange(-10, 3000),
			rapid.SampledFrom([]int{-5877641, -5877642, 5881580, 5881581, 6_000_001, -6_000_001, math.MaxInt32, math.MinInt32, 1900, 2000, 2100, 0, -1, 4, -4, -100, -400}),
			rapid.IntRange(-7_000_000, 7_000_000),
		).Draw(t, "year")
		month := time.Month(rapid.IntRange(1, 12).Draw(t, "month"))
		day := rapid.OneOf(rapid.IntRange(1, 31), rapid.SampledFrom([]int{1, 28, 29, 30, 31})).Draw(t, "day")
		return CivilDate{year, month, min(day, daysIn(year, month))}
	})
	exactLaws(t, Date(), values, compare, same[CivilDate])

	t.Run("against package time", rapid.MakeCheck(func(t *rapid.T) {
		d := values.Draw(t, "d")
		code, err := Date().Encode(d)
		if err != nil {
			t.Skip("beyond the domain")
		}
		require.Equal(t, time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix(), code*86400)
	}))

	t.Run("every day of 3000 years", func(t *testing.T) {
		for day := int64(-730_000); day < 365_000; day++ {
			year, month, d := time.Unix(day*86400, 0).UTC().Date()
			want := CivilDate{year, month, d}
			got, err := Date().Decode(day)
			if err != nil || got != want {
				t.Fatalf("day %d is %v, %v; want %v", day, got, err, want)
			}
			if code, err := Date().Encode(want); err != nil || code != day {
				t.Fatalf("%v is day %d, %v; want %d", want, code, err, day)
			}
		}
	})

	for year := 6_000_000; year > 0; year *= 2 { // also where the number of days overflows
		_, ok, err := Date().Low(CivilDate{year, 1, 1})
		require.NoError(t, err)
		require.False(t, ok, year)
		_, ok, err = Date().High(CivilDate{-year, 1, 1})
		require.NoError(t, err)
		require.False(t, ok, -year)
	}
	for _, d := range []CivilDate{
		{}, {2023, 2, 29}, {1900, 2, 29}, {2023, 4, 31}, {2023, 13, 1}, {2023, 0, 1}, {2023, 1, 0}, {2023, 1, 32}, {2023, 1, -1},
		{math.MaxInt32, 2, 30},
	} {
		_, err := Date().Encode(d)
		require.ErrorIs(t, err, ErrInvalid, "%v", d)
	}
}

func decimals(scales *rapid.Generator[int32]) *rapid.Generator[Decimal] {
	return rapid.Custom(func(t *rapid.T) Decimal {
		u := big.NewInt(rapid.OneOf(opetest.Values(ope.Int64), rapid.Int64Range(-1000, 1000)).Draw(t, "unscaled"))
		if zeros := rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 20}).Draw(t, "zeros"); zeros > 0 {
			u.Mul(u, power10(zeros))
		}
		if rapid.IntRange(0, 3).Draw(t, "wider") == 0 {
			u.Add(u.Lsh(u, 70), big.NewInt(rapid.Int64Range(-3, 3).Draw(t, "low")))
		}
		return Decimal{u, scales.Draw(t, "scale")}
	})
}

func rat(d Decimal) *big.Rat {
	r := new(big.Rat).SetInt(d.unscaled())
	power := new(big.Rat).SetInt(power10(int64(max(d.Scale, -d.Scale))))
	if d.Scale >= 0 {
		return r.Quo(r, power)
	}
	return r.Mul(r, power)
}

func compareDecimals(a, b Decimal) int { return rat(a).Cmp(rat(b)) }

func TestFixedDecimal(t *testing.T) {
	for _, scale := range []int32{0, 2, 9, -3} {
		c := FixedDecimal(scale)
		t.Run(c.ID(), func(t *testing.T) {
			values := decimals(rapid.OneOf(rapid.Just(scale), rapid.Int32Range(-25, 45)))
			exactLaws(t, c, values, compareDecimals, func(a, b Decimal) bool { return compareDecimals(a, b) == 0 })
		})
	}
}

func TestDecimalPrefix(t *testing.T) {
	for _, scale := range []int32{0, 2, -3} {
		c := DecimalPrefix(scale)
		t.Run(c.ID(), func(t *testing.T) {
			prefixLaws(t, c, decimals(rapid.OneOf(rapid.Just(scale), rapid.Int32Range(-25, 45))), compareDecimals)
		})
	}
}

func TestDecimalsAreNormalised(t *testing.T) {
	c := FixedDecimal(2)
	for s, want := range map[string]int64{
		"1": 100, "1.0": 100, "1.00": 100, "1.000000000000000000000000": 100, "-0.01": -1, "0": 0, "-0.000": 0, "+12.5": 1250, ".5": 50, "5.": 500,
		"92233720368547758.07": math.MaxInt64, "-92233720368547758.08": math.MinInt64,
	} {
		d, err := ParseDecimal(s)
		require.NoError(t, err, s)
		code, err := c.Encode(d)
		require.NoError(t, err, s)
		require.Equal(t, want, code, s)
		back, err := c.Decode(code)
		require.NoError(t, err)
		require.Equal(t, int32(2), back.Scale)
		require.Zero(t, compareDecimals(d, back))
	}
	for s, want := range map[string]error{
		"0.001": ErrInexact, "-1.005": ErrInexact,
		"92233720368547758.08": ope.ErrDomain, "-92233720368547758.09": ope.ErrDomain,
		"92233720368547758.071": ErrInexact, // below the next code, which is not there
		"1e3":                   nil, "": nil, "-": nil, ".": nil, "1.2.3": nil, "--1": nil, "+-1": nil, "0x10": nil, "1_000": nil, " 1": nil, "١": nil,
	} {
		d, err := ParseDecimal(s)
		if want == nil {
			require.Error(t, err, s)
			continue
		}
		require.NoError(t, err, s)
		_, err = c.Encode(d)
		require.ErrorIs(t, err, want, s)
	}
	zero, err := c.Encode(Decimal{})
	require.NoError(t, err)
	require.Zero(t, zero)
}

func TestDecimalString(t *testing.T) {
	for want, d := range map[string]Decimal{
		"0": {}, "0.00": {nil, 2}, "1.50": {big.NewInt(150), 2}, "-0.05": {big.NewInt(-5), 2}, "0.005": {big.NewInt(5), 3},
		"-12000": {big.NewInt(-12), -3}, "7": {big.NewInt(7), 0},
	} {
		require.Equal(t, want, d.String())
		back, err := ParseDecimal(want)
		require.NoError(t, err)
		require.Zero(t, compareDecimals(d, back))
	}
}

// Between the highest code of int64 and the next one, which does not exist.
func TestBoundAboveTheLastCode(t *testing.T) {
	last, err := ParseDecimal("9223372036854775807.5")
	require.NoError(t, err)
	_, ok, err := FixedDecimal(0).Low(last)
	require.NoError(t, err)
	require.False(t, ok)
	high, ok, err := FixedDecimal(0).High(last)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(math.MaxInt64), high)

	_, ok, err = Time(time.Millisecond).Low(time.UnixMilli(math.MaxInt64).Add(time.Nanosecond))
	require.NoError(t, err)
	require.False(t, ok)
}

// A decimal whose scale is absurd is placed without computing the power.
func TestDecimalOfAnyScale(t *testing.T) {
	for _, c := range []Exact[Decimal]{FixedDecimal(0), FixedDecimal(math.MaxInt32), FixedDecimal(math.MinInt32)} {
		for _, scale := range []int32{math.MaxInt32, math.MinInt32} {
			for _, u := range []int64{1, -1} {
				_, err := c.Encode(Decimal{big.NewInt(u), scale})
				if err != nil && !isAny(err, ErrInexact, ope.ErrDomain) {
					t.Fatal(err)
				}
			}
			code, err := c.Encode(Decimal{nil, scale})
			require.NoError(t, err)
			require.Zero(t, code)
		}
	}
	tiny := Decimal{big.NewInt(-1), math.MaxInt32}
	high, ok, err := FixedDecimal(0).High(tiny)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(-1), high)
	low, ok, err := FixedDecimal(0).Low(tiny)
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, low)
}

func TestBytes(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0x7f, 0x80, 0xff}), 0, 12),
		rapid.SliceOfN(rapid.Byte(), 0, 12),
	)
	for _, common := range []string{"", "https://", "\xff\xff"} {
		for _, n := range []int{1, 4, 7, 8} {
			c := Bytes[string](n, common)
			t.Run(c.ID(), func(t *testing.T) {
				values := rapid.Custom(func(t *rapid.T) string {
					start := common[:rapid.SampledFrom([]int{len(common), len(common), len(common) / 2}).Draw(t, "common")]
					return start + string(piece.Draw(t, "rest"))
				})
				prefixLaws(t, c, values, strings.Compare)
				prefixLaws(t, Bytes[[]byte](n, common), rapid.Map(values, func(s string) []byte { return []byte(s) }), bytes.Compare)
			})
		}
	}
	require.Panics(t, func() { Bytes[string](0, "") })
	require.Panics(t, func() { Bytes[string](9, "") })
}

func TestPrefixed(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0x7f, 0x80, 0xff}), 0, 12),
		rapid.SliceOfN(rapid.Byte(), 0, 12),
	)
	for _, beginnings := range [][]string{{"a"}, {"\xff"}, {"\xff\xff", "\xff", "\x00"}, {"https://", "http://", "https://www."}, {"a longer one", "b"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "ab"}} {
		c, err := Prefixed[string](beginnings...)
		require.NoError(t, err)
		t.Run(c.ID(), func(t *testing.T) {
			values := rapid.Custom(func(t *rapid.T) string {
				common := rapid.SampledFrom(beginnings).Draw(t, "beginning")
				start := common[:rapid.SampledFrom([]int{len(common), len(common), len(common) / 2}).Draw(t, "common")]
				return start + string(piece.Draw(t, "rest"))
			})
			prefixLaws(t, c, values, strings.Compare)
			// After a beginning, seven bytes tell texts apart.
			for _, common := range beginnings {
				a, err := c.Encode(common + "1234567")
				require.NoError(t, err)
				b, err := c.Encode(common + "1234568")
				require.NoError(t, err)
				require.Less(t, a, b)
			}
		})
	}
	for _, bad := range [][]string{nil, {""}, {"a", ""}, {"a", "b", "a"}, strings.Split("a b c d e f g h i j k l m n o p q", " ")} {
		_, err := Prefixed[string](bad...)
		require.ErrorIs(t, err, ope.ErrParams)
	}
}

func TestBytesDomainIsFull(t *testing.T) {
	for n := 1; n <= 8; n++ {
		c := Bytes[string](n, "x")
		lowest, err := c.Encode("x")
		require.NoError(t, err)
		highest, err := c.Encode("x" + strings.Repeat("\xff", 20))
		require.NoError(t, err)
		require.Equal(t, c.Domain(), ope.Domain{Min: lowest, Max: highest})
	}
	_, err := Bytes[string](4, "x").Encode("y")
	require.ErrorIs(t, err, ope.ErrDomain)
}

func TestIPv4(t *testing.T) {
	values := rapid.Map(opetest.Values(ope.Uint32), func(x int64) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
	})
	exactLaws(t, IPv4(), values, netip.Addr.Compare, same[netip.Addr])
	for _, s := range []string{"::1", "::ffff:192.0.2.1", "fe80::1%eth0"} {
		_, err := IPv4().Encode(netip.MustParseAddr(s))
		require.ErrorIs(t, err, ErrInvalid, s)
		_, _, err = IPv4().Low(netip.MustParseAddr(s))
		require.ErrorIs(t, err, ErrInvalid, s)
	}
	_, err := IPv4().Encode(netip.Addr{})
	require.ErrorIs(t, err, ErrInvalid)
}

func TestIPv6(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) netip.Addr {
		b := rapid.OneOf(
			rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x20, 0x7f, 0x80, 0xfe, 0xff}), 16, 16),
			rapid.SliceOfN(rapid.Byte(), 16, 16),
		).Draw(t, "addr")
		if rapid.Bool().Draw(t, "low network") {
			copy(b, make([]byte, 7))
		}
		return netip.AddrFrom16([16]byte(b)).WithZone(rapid.SampledFrom([]string{"", "eth0"}).Draw(t, "zone"))
	})
	prefixLaws(t, IPv6(), values, netip.Addr.Compare)
	mapped, err := IPv6().Encode(netip.MustParseAddr("::ffff:192.0.2.1"))
	require.NoError(t, err)
	require.Equal(t, int64(math.MinInt64), mapped)
	for _, a := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.1")} {
		_, err = IPv6().Encode(a)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestWithin(t *testing.T) {
	c := Integer[int64]()
	narrow, err := c.Within(0, 1000)
	require.NoError(t, err)
	require.Equal(t, ope.Domain{Min: 0, Max: 1000}, narrow.Domain())
	require.Equal(t, c.ID(), narrow.ID(), "the domain does not change the map")
	require.Equal(t, ope.Int64, c.Domain(), "the codec itself does not change")
	_, err = narrow.Encode(1001)
	require.ErrorIs(t, err, ope.ErrDomain)
	_, err = narrow.Within(-1, 5)
	require.ErrorIs(t, err, ope.ErrDomain, "it does not widen")
	_, err = c.Within(5, 4)
	require.ErrorIs(t, err, ope.ErrParams)
	one, err := c.Within(5, 5)
	require.NoError(t, err)
	require.Equal(t, ope.Domain{Min: 5, Max: 5}, one.Domain())
	_, err = Time(time.Second).Within(time.Unix(0, 1), time.Unix(5, 0))
	require.ErrorIs(t, err, ErrInexact)

	words, err := Bytes[string](2, "").Within("aa", "zz")
	require.NoError(t, err)
	_, err = words.Encode("AA")
	require.ErrorIs(t, err, ope.ErrDomain)
	low, ok, err := words.Low("A")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, words.Domain().Min, low)
	_, ok, err = words.High("A")
	require.NoError(t, err)
	require.False(t, ok)
}

// The IDs stand beside the data: they may never change, and neither may what they mean.
func TestPinnedCodes(t *testing.T) {
	pin(t, Integer[int32](), "int32/1", -5, -5)
	pin(t, Integer[uint64](), "uint64/1", 5, math.MinInt64+5)
	pin(t, Float[float32](), "float32/1", -1.5, -0x3fc00000)
	pin(t, Float[float64](), "float64/1", 18.5, 0x4032800000000000)
	pin(t, Bool(), "bool/1", true, 1)
	pin(t, Time(time.Nanosecond), "time/1 unit=ns", time.Unix(1, 5), 1_000_000_005)
	pin(t, Time(time.Microsecond), "time/1 unit=us", time.Unix(-1, 5000), -999_995)
	pin(t, Time(time.Millisecond), "time/1 unit=ms", time.Unix(1, 0), 1000)
	pin(t, Time(time.Second), "time/1 unit=s", time.Unix(-7, 0), -7)
	pin(t, Date(), "date/1", CivilDate{2000, 3, 1}, 11_017)
	pin(t, FixedDecimal(2), "decimal/1 scale=2", Decimal{big.NewInt(-15), 1}, -150)
	pin(t, DecimalPrefix(-3), "decimalprefix/1 scale=-3", Decimal{big.NewInt(-1), 0}, -1)
	pin(t, IPv4(), "ipv4/1", netip.MustParseAddr("192.0.2.1"), 0xc0000201)
	pin(t, IPv6(), "ipv6/1", netip.MustParseAddr("2001:db8::1"), -0x5ffef24800000000)
	pin(t, Bytes[string](4, "a."), "bytes/1 n=4 common=612e", "a.bc", 0x62630000)
	pin(t, Bytes[string](8, ""), "bytes/1 n=8 common=", "\x80", 0)
	urls, err := Prefixed[string]("https://", "http://")
	require.NoError(t, err)
	pin(t, urls, "prefixed/1 687474703a2f2f 68747470733a2f2f", "http://a", -1<<63+1<<61+0x61<<53)
	pin(t, urls, "prefixed/1 687474703a2f2f 68747470733a2f2f", "https://\x80", -1<<63+3<<61+0x80<<53)
	pin(t, urls, "prefixed/1 687474703a2f2f 68747470733a2f2f", "\x08", -1<<63+0x08<<53)
}

func pin[T any](t *testing.T, c Codec[T], id string, v T, code int64) {
	t.Helper()
	require.Equal(t, id, c.ID())
	got, err := c.Encode(v)
	require.NoError(t, err)
	require.Equal(t, code, got, id)
}

func TestErrorsShowNoValue(t *testing.T) {
	narrow, err := Integer[int64]().Within(0, 1000)
	require.NoError(t, err)
	_, err1 := narrow.Encode(600613)
	_, err2 := Time(time.Second).Encode(time.Unix(600613, 600613))
	_, err3 := FixedDecimal(0).Encode(Decimal{big.NewInt(600613), 1})
	_, err4 := Date().Encode(CivilDate{600613, 2, 30})
	_, err5 := IPv4().Encode(netip.MustParseAddr("600:613::600:613"))
	_, err6 := Bytes[string](8, "x").Encode("600613")
	_, err7 := ParseDecimal("600613x")
	_, err8 := narrow.Decode(600613)
	_, err9 := narrow.Within(600613, 600614)
	_, err10 := ParseFloat("6006_13", 64)
	_, err11 := ParseFloat("600613x", 64)
	_, err12 := ParseFloat("600613e400", 64)
	_, err13 := ParseTime(time.RFC3339Nano, "600613")
	_, err14 := ParseTime("05", "600613")
	_, err15 := ParseTime("2006.01.02", "6006.13.01")
	for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11, err12, err13, err14, err15} {
		require.Error(t, err, i)
		for _, digits := range []string{"600613", "92a25", "600:613", "6006"} {
			require.NotContains(t, err.Error(), digits)
		}
	}
}

// What is refused is said in words of the value, and not of its code.
func TestErrorsSayWhatIsTaken(t *testing.T) {
	is := func(err, kind error, text string) {
		t.Helper()
		require.ErrorIs(t, err, kind)
		require.EqualError(t, err, kind.Error()+text)
	}
	_, err := Time(time.Microsecond).Encode(time.Unix(1, 1))
	is(err, ErrInexact, ", a time in microseconds: truncate it with Truncate(time.Microsecond)")
	_, err = Time(time.Nanosecond).Encode(time.Time{})
	is(err, ope.ErrDomain, ": need 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z")
	tenth := Decimal{big.NewInt(1), 1}
	_, err = FixedDecimal(0).Encode(tenth)
	is(err, ErrInexact, ", 0 digits after the point: round it")
	_, err = FixedDecimal(-3).Encode(tenth)
	is(err, ErrInexact, ", a multiple of 10^3: round it")
	large := Decimal{big.NewInt(1), math.MinInt32}
	_, err = FixedDecimal(2).Encode(large)
	is(err, ope.ErrDomain, ": need -92233720368547758.08 to 92233720368547758.07")
	_, err = FixedDecimal(math.MaxInt32).Encode(large)
	is(err, ope.ErrDomain, ": need -9223372036854775808e-2147483647 to 9223372036854775807e-2147483647")
	_, err = Date().Encode(CivilDate{6_000_001, 1, 1})
	is(err, ope.ErrDomain, ": need -5877641-06-23 to 5881580-07-11")
	narrow, err := Float[float32]().Within(-1, 0.5)
	require.NoError(t, err)
	_, err = narrow.Encode(1)
	is(err, ope.ErrDomain, ": need -1 to 0.5")
	_, err = narrow.Decode(math.MaxInt64)
	is(err, ope.ErrDomain, ": need a code in [-1065353216,1056964608]")
	_, err = Float[float64]().Encode(math.NaN())
	is(err, ErrInvalid, ": it is NaN")
}

func TestParseFloat(t *testing.T) {
	for _, s := range []string{"", "4111_1111", "0x1p4", "a", "1e", "1X"} {
		_, err := ParseFloat(s, 64)
		require.ErrorIs(t, err, strconv.ErrSyntax, s)
	}
	for s, want := range map[string]float64{"1e39": math.Inf(1), "-1e39": math.Inf(-1)} {
		f, err := ParseFloat(s, 32)
		require.ErrorIs(t, err, ope.ErrDomain)
		require.ErrorIs(t, err, strconv.ErrRange)
		require.Equal(t, want, f)
	}
	f, err := ParseFloat("-1.5e3", 64)
	require.NoError(t, err)
	require.Equal(t, -1500.0, f)
	for _, bits := range []int{0, 7, 65} {
		_, err := ParseFloat("10", bits)
		require.ErrorIs(t, err, ope.ErrParams)
	}
}

// Digits of a second are found wherever the layout has them.
func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		layout, text string
		want         error
	}{
		{"2006-01-02 15:04:05", "2020-12-31 10:00:00.1234567891", ErrInexact},
		{"02.01.2006 15:04:05", "31.12.2020 10:00:00.1234567891", ErrInexact},
		{"02.01.2006 15:04:05", "31.12.2020 10:00:00,1234567891", ErrInexact},
		{"02.01.2006 15:04:05", "31.12.2020 10:00:00.12345678900", nil},
		{"02.01.2006 15:04:05", "31.12.2020 10:00:00.123456789", nil},
		{"15:04:05.999, 02.01.2006", "10:00:00.0000000001, 31.12.2020", ErrInexact},
		{"Mon, 2 Jan 2006 15:04:05.999999999Z07:00", "Thu, 31 Dec 2020 10:00:00.0000000000001+01:00", ErrInexact},
		{"01.20060102150405", "12.20201231102030", nil}, // which are no digits of a second
		{".200601023", ".2020123111", nil},              // nor are these, though it is another time without the last one
	} {
		got, err := ParseTime(c.layout, c.text)
		require.ErrorIs(t, err, c.want, c.text)
		want, err := time.Parse(c.layout, c.text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ParseTime(time.DateOnly, "2026-02-30")
	require.EqualError(t, err, `encode: not a time like "2006-01-02": day out of range`)
	_, err = ParseTime(time.DateOnly, "2026-02-03secret")
	require.EqualError(t, err, `encode: not a time like "2006-01-02"`)
}
