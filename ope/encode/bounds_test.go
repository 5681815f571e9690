package encode_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/stretchr/testify/require"
)

// ranged is what columns of both kinds have.
type ranged[T any] interface {
	Encrypt(context.Context, T) (ope.Ciphertext, error)
	Range(ctx context.Context, lo, hi *encode.Bound[T]) ([]ope.Interval, error)
	Between(ctx context.Context, lo, hi T) ([]ope.Interval, error)
	AtLeast(context.Context, T) ([]ope.Interval, error)
	AtMost(context.Context, T) ([]ope.Interval, error)
	Greater(context.Context, T) ([]ope.Interval, error)
	Less(context.Context, T) ([]ope.Interval, error)
	All(context.Context) ([]ope.Interval, error)
}

// bounds takes each pair of values as bounds, open and closed, and looks which of the values are found. Those of an exact
// codec are those between the bounds. With a prefix codec there may be more, but none whose prefix is outside.
func bounds[T any](t *testing.T, codec encode.Codec[T], compare func(a, b T) int, values ...T) {
	t.Helper()
	for _, modular := range []bool{false, true} {
		var s ope.Scheme
		var err error
		if s, err = boldyreva.New(key, codec.Domain(), nil); modular {
			s, err = boldyreva.NewModular(key, codec.Domain(), nil)
		}
		require.NoError(t, err)
		var c ranged[T]
		exact := false
		switch codec := codec.(type) {
		case encode.Exact[T]:
			c, err = encode.NewColumn(s, codec)
			exact = true
		case encode.Prefix[T]:
			c, err = encode.NewPrefixColumn(s, codec)
		}
		require.NoError(t, err)
		texts := make([]ope.Ciphertext, len(values))
		some := 0
		for i, v := range values {
			if texts[i], err = c.Encrypt(ctx, v); err == nil {
				some++
			}
		}
		require.Greater(t, some, 1)
		check := func(lo, hi *encode.Bound[T]) []ope.Interval {
			ivs, err := c.Range(ctx, lo, hi)
			require.NoError(t, err)
			for i, v := range values {
				if texts[i] == nil {
					continue
				}
				want, outside := true, false
				if lo != nil {
					d := compare(v, lo.Value)
					want = d > 0 || d == 0 && !lo.Open
					low, ok, _ := codec.Low(lo.Value)
					code, _ := codec.Encode(v)
					outside = !ok || code < low
				}
				if hi != nil {
					d := compare(v, hi.Value)
					want = want && (d < 0 || d == 0 && !hi.Open)
					high, ok, _ := codec.High(hi.Value)
					code, _ := codec.Encode(v)
					outside = outside || !ok || code > high
				}
				got := hold(ivs, texts[i])
				if exact || want || outside {
					require.Equal(t, want, got, "%v from %s to %s", v, shown(lo), shown(hi))
				}
			}
			return ivs
		}
		same := func(want []ope.Interval) func([]ope.Interval, error) {
			return func(got []ope.Interval, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		}
		same(check(nil, nil))(c.All(ctx))
		for _, a := range values {
			same(check(&encode.Bound[T]{Value: a}, nil))(c.AtLeast(ctx, a))
			same(check(&encode.Bound[T]{Value: a, Open: true}, nil))(c.Greater(ctx, a))
			same(check(nil, &encode.Bound[T]{Value: a}))(c.AtMost(ctx, a))
			same(check(nil, &encode.Bound[T]{Value: a, Open: true}))(c.Less(ctx, a))
			for _, b := range values {
				for n := range 4 {
					ivs := check(&encode.Bound[T]{Value: a, Open: n&1 > 0}, &encode.Bound[T]{Value: b, Open: n&2 > 0})
					if n == 0 {
						same(ivs)(c.Between(ctx, a, b))
					}
					if exact && (compare(a, b) > 0 || compare(a, b) == 0 && n > 0) {
						require.Empty(t, ivs)
					}
				}
			}
		}
	}
}

func shown[T any](b *encode.Bound[T]) string {
	if b == nil {
		return "nowhere"
	}
	return fmt.Sprintf("%v (open: %t)", b.Value, b.Open)
}

func within[T any](c encode.Exact[T], lo, hi T) encode.Exact[T] {
	c, err := c.Within(lo, hi)
	if err != nil {
		panic(err)
	}
	return c
}

// Open and closed bounds are right at the edges of every type.
func TestBounds(t *testing.T) {
	run := func(name string, do func(t *testing.T)) { t.Run(name, do) }
	run("int8", func(t *testing.T) {
		bounds(t, encode.Integer[int8](), cmp.Compare[int8], math.MinInt8, math.MinInt8+1, -1, 0, 1, math.MaxInt8-1, math.MaxInt8)
	})
	run("int16", func(t *testing.T) {
		bounds(t, encode.Integer[int16](), cmp.Compare[int16], math.MinInt16, -1, 0, 1, math.MaxInt16-1, math.MaxInt16)
	})
	run("int32", func(t *testing.T) {
		bounds(t, encode.Integer[int32](), cmp.Compare[int32], math.MinInt32, -1, 0, 1, math.MaxInt32-1, math.MaxInt32)
	})
	run("int64", func(t *testing.T) {
		bounds(t, encode.Integer[int64](), cmp.Compare[int64], math.MinInt64, math.MinInt64+1, -1, 0, 1, math.MaxInt64-1, math.MaxInt64)
	})
	run("int64 within", func(t *testing.T) {
		bounds(t, within(encode.Integer[int64](), -2, 3), cmp.Compare[int64], math.MinInt64, -3, -2, -1, 0, 2, 3, 4, math.MaxInt64)
	})
	run("one value", func(t *testing.T) {
		bounds(t, within(encode.Integer[int64](), 3, 4), cmp.Compare[int64], 2, 3, 4, 5)
	})
	run("uint8", func(t *testing.T) {
		bounds(t, encode.Integer[uint8](), cmp.Compare[uint8], 0, 1, 127, 128, math.MaxUint8)
	})
	run("uint16", func(t *testing.T) {
		bounds(t, encode.Integer[uint16](), cmp.Compare[uint16], 0, 1, 1<<15, math.MaxUint16)
	})
	run("uint32", func(t *testing.T) {
		bounds(t, encode.Integer[uint32](), cmp.Compare[uint32], 0, 1, 1<<31, math.MaxUint32)
	})
	run("uint64", func(t *testing.T) {
		bounds(t, encode.Integer[uint64](), cmp.Compare[uint64], 0, 1, 1<<63-1, 1<<63, math.MaxUint64-1, math.MaxUint64)
	})
	run("float64", func(t *testing.T) {
		values := []float64{
			math.Inf(-1), -math.MaxFloat64, -1.5, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64,
			1, math.Nextafter(1, 2), math.MaxFloat64, math.Inf(1),
		}
		bounds(t, encode.Float[float64](), cmp.Compare[float64], values...)
		bounds(t, within(encode.Float[float64](), -math.MaxFloat64, math.MaxFloat64), cmp.Compare[float64], values...)
		bounds(t, within(encode.Float[float64](), 0, 1), cmp.Compare[float64], values...)
	})
	run("float32", func(t *testing.T) {
		bounds(t, encode.Float[float32](), cmp.Compare[float32], float32(math.Inf(-1)), -math.MaxFloat32, float32(math.Copysign(0, -1)), 0,
			math.SmallestNonzeroFloat32, 1, math.MaxFloat32, float32(math.Inf(1)))
	})
	run("bool", func(t *testing.T) {
		bounds(t, encode.Bool(), func(a, b bool) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }, false, true)
	})
	run("time", func(t *testing.T) {
		for _, unit := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second} {
			bounds(t, encode.Time(unit), time.Time.Compare, time.Time{}, time.Unix(-1, 0), time.Unix(-1, 999_999_999), time.Unix(0, 0), time.Unix(0, 1),
				time.Unix(1, 0), time.Unix(0, math.MaxInt64), time.Unix(1<<40, 0))
		}
	})
	run("date", func(t *testing.T) {
		bounds(t, encode.Date(), func(a, b encode.CivilDate) int {
			return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.Month, b.Month), cmp.Compare(a.Day, b.Day))
		}, encode.CivilDate{Year: 1, Month: 1, Day: 1}, encode.CivilDate{Year: 1969, Month: 12, Day: 31}, encode.CivilDate{Year: 1970, Month: 1, Day: 1},
			encode.CivilDate{Year: 2024, Month: 2, Day: 29}, encode.CivilDate{Year: 2024, Month: 3, Day: 1}, encode.CivilDate{Year: 9999, Month: 12, Day: 31})
	})
	run("decimal", func(t *testing.T) {
		decimal := func(text string) encode.Decimal {
			d, err := encode.ParseDecimal(text)
			require.NoError(t, err)
			return d
		}
		compare := func(a, b encode.Decimal) int {
			x, y := ratOf(a), ratOf(b)
			return x.Cmp(y)
		}
		values := []encode.Decimal{
			decimal("-99999999999999999999"), decimal("-92233720368547758.08"), decimal("-0.011"), decimal("-0.01"), decimal("0"), decimal("0.00"),
			decimal("0.001"), decimal("19.9"), decimal("19.99"), decimal("92233720368547758.07"), decimal("92233720368547758.071"), decimal("99999999999999999999"),
		}
		bounds(t, encode.FixedDecimal(2), compare, values...)
		bounds(t, encode.DecimalPrefix(0), compare, values...)
	})
	run("addresses", func(t *testing.T) {
		address := netip.MustParseAddr
		bounds(t, encode.IPv4(), netip.Addr.Compare, address("0.0.0.0"), address("127.255.255.255"), address("128.0.0.0"), address("255.255.255.255"))
		bounds(t, encode.IPv6(), netip.Addr.Compare, address("::"), address("::1"), address("2001:db8::"), address("2001:db8::1"), address("2001:db8:0:1::"),
			address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"))
	})
	run("text", func(t *testing.T) {
		values := []string{"", "\x00", "\x00\x00", "a", "a\x00", "ab", "abcdefg", "abcdefgh", "abcdefgh\x00", "abcdefghi", "abcdefgz", "b", "\xff", strings.Repeat("\xff", 9)}
		for _, n := range []int{1, 3, 8} {
			bounds(t, encode.Bytes[string](n, ""), strings.Compare, values...)
		}
		bounds(t, encode.Bytes[string](2, "ab"), strings.Compare, values...)
		prefixed, err := encode.Prefixed[string]("a", "abcd")
		require.NoError(t, err)
		bounds(t, prefixed, strings.Compare, values...)
		var raw [][]byte
		for _, v := range values {
			raw = append(raw, []byte(v))
		}
		bounds(t, encode.Bytes[[]byte](8, ""), bytes.Compare, raw...)
	})
}

func ratOf(d encode.Decimal) *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		panic(d.String())
	}
	return r
}

// A bound without a place in the order is refused, whatever the other one is.
func TestBoundsThatAreRefused(t *testing.T) {
	s, err := boldyreva.New(key, ope.Int64, nil)
	require.NoError(t, err)
	c, err := encode.NewColumn(s, encode.Float[float64]())
	require.NoError(t, err)
	nan := math.NaN()
	for _, open := range []bool{false, true} {
		for _, other := range []*encode.Bound[float64]{nil, {Value: 1}, {Value: math.Inf(1), Open: true}, {Value: math.Inf(-1), Open: true}} {
			_, err := c.Range(ctx, &encode.Bound[float64]{Value: nan, Open: open}, other)
			require.ErrorIs(t, err, encode.ErrInvalid)
			require.ErrorContains(t, err, "lower bound")
			_, err = c.Range(ctx, other, &encode.Bound[float64]{Value: nan, Open: open})
			require.ErrorIs(t, err, encode.ErrInvalid)
			require.ErrorContains(t, err, "upper bound")
		}
	}
	_, err = c.Greater(ctx, nan)
	require.ErrorIs(t, err, encode.ErrInvalid)
	_, err = c.Less(ctx, nan)
	require.ErrorIs(t, err, encode.ErrInvalid)
}
