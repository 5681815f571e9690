package encode_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	ctx    = context.Background()
	key, _ = ope.NewKey(bytes.Repeat([]byte{7}, ope.KeySize))
)

// schemes are a linear one, a shifted one, a mere ope.Scheme, and one whose domain is larger than
// the codec's.
func schemes(t testing.TB, d ope.Domain) map[string]ope.Scheme {
	linear, err := boldyreva.New(key, d, nil)
	require.NoError(t, err)
	shifted, err := boldyreva.NewModular(key, d, nil)
	require.NoError(t, err)
	wider, err := boldyreva.NewModular(key, ope.Int64, nil)
	require.NoError(t, err)
	return map[string]ope.Scheme{"linear": linear, "shifted": shifted, "bare": struct{ ope.Scheme }{linear}, "wider": wider}
}

func hold(ivs []ope.Interval, c ope.Ciphertext) bool {
	return slices.ContainsFunc(ivs, func(iv ope.Interval) bool {
		return bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0
	})
}

// queries checks each kind of range against the values themselves. With more, a column may find
// values beyond its bounds.
func queries[T any](t *rapid.T, c interface {
	Encrypt(context.Context, T) (ope.Ciphertext, error)
	Between(context.Context, T, T) ([]ope.Interval, error)
	AtLeast(context.Context, T) ([]ope.Interval, error)
	AtMost(context.Context, T) ([]ope.Interval, error)
	All(context.Context) ([]ope.Interval, error)
}, lo, hi T, vs []T, compare func(a, b T) int, more bool) (held int) {
	between, err := c.Between(ctx, lo, hi)
	require.NoError(t, err)
	atLeast, err := c.AtLeast(ctx, lo)
	require.NoError(t, err)
	atMost, err := c.AtMost(ctx, hi)
	require.NoError(t, err)
	all, err := c.All(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	if compare(lo, hi) > 0 && !more {
		require.Empty(t, between)
	}
	for _, v := range vs {
		ct, err := c.Encrypt(ctx, v)
		if err != nil {
			continue
		}
		held++
		above, below := compare(v, lo) >= 0, compare(v, hi) <= 0
		for _, q := range []struct {
			ivs  []ope.Interval
			want bool
		}{{between, above && below}, {atLeast, above}, {atMost, below}, {all, true}} {
			if got := hold(q.ivs, ct); got != q.want && !(more && got) {
				t.Fatalf("an interval holds %v: %v, want %v; bounds %v and %v", v, got, q.want, lo, hi)
			}
		}
	}
	return held
}

func TestColumn(t *testing.T) {
	celsius, err := encode.Float[float32]().Within(-90, 60)
	require.NoError(t, err)
	for name, s := range schemes(t, celsius.Domain()) {
		t.Run(name, func(t *testing.T) {
			c, err := encode.NewColumn(s, celsius)
			require.NoError(t, err)
			require.Contains(t, c.ID(), s.ID())
			require.Contains(t, c.ID(), celsius.ID())
			value := rapid.OneOf(rapid.Float32Range(-100, 70), rapid.SampledFrom([]float32{-90, 60, 0, 59.999996, float32(math.Inf(1)), float32(math.Inf(-1))}))
			held := 0
			rapid.Check(t, func(t *rapid.T) {
				lo, hi := value.Draw(t, "lo"), value.Draw(t, "hi")
				vs := append(rapid.SliceOfN(value, 1, 6).Draw(t, "vs"), lo, hi, -90, 60)
				held += queries(t, c, lo, hi, vs, cmp.Compare[float32], false)
				for _, v := range vs {
					if ct, err := c.Encrypt(ctx, v); err == nil {
						back, err := c.Decrypt(ctx, ct)
						require.NoError(t, err)
						require.Equal(t, v, back)
					} else {
						require.ErrorIs(t, err, ope.ErrDomain)
					}
				}
			})
			require.NotZero(t, held)

			whole, err := s.Intervals(ctx, math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			all, err := c.All(ctx)
			require.NoError(t, err)
			require.Equal(t, whole, all, "all values are the whole domain of the scheme, which discloses nothing")
		})
	}
}

func TestColumnBoundsBetweenUnits(t *testing.T) {
	day, err := encode.Time(time.Second).Within(time.Unix(0, 0), time.Unix(86_399, 0))
	require.NoError(t, err)
	for name, s := range schemes(t, day.Domain()) {
		t.Run(name, func(t *testing.T) {
			c, err := encode.NewColumn(s, day)
			require.NoError(t, err)
			value := rapid.Map(rapid.Int64Range(-3000, 86_403_000), time.UnixMilli)
			second := rapid.Map(rapid.Int64Range(0, 86_399), func(x int64) time.Time { return time.Unix(x, 0) })
			rapid.Check(t, func(t *rapid.T) {
				lo, hi := value.Draw(t, "lo"), value.Draw(t, "hi")
				vs := append(rapid.SliceOfN(second, 1, 6).Draw(t, "vs"), lo.Truncate(time.Second), hi.Truncate(time.Second), lo.Truncate(time.Second).Add(time.Second))
				queries(t, c, lo, hi, vs, time.Time.Compare, false)
			})
			// Nothing is between two consecutive units.
			ivs, err := c.Between(ctx, time.UnixMilli(5001), time.UnixMilli(5999))
			require.NoError(t, err)
			require.Empty(t, ivs)
			_, err = c.Encrypt(ctx, time.UnixMilli(5001))
			require.ErrorIs(t, err, encode.ErrInexact)
		})
	}
}

func TestPrefixColumn(t *testing.T) {
	codec := encode.Bytes[string](3, "id-")
	for name, s := range schemes(t, codec.Domain()) {
		t.Run(name, func(t *testing.T) {
			c, err := encode.NewPrefixColumn(s, codec)
			require.NoError(t, err)
			value := rapid.OneOf(rapid.StringMatching(`id-[ab]{0,5}`), rapid.StringMatching(`i[cde]-?`))
			held := 0
			rapid.Check(t, func(t *rapid.T) {
				lo, hi := value.Draw(t, "lo"), value.Draw(t, "hi")
				held += queries(t, c, lo, hi, rapid.SliceOfN(value, 1, 8).Draw(t, "vs"), strings.Compare, true)
			})
			require.NotZero(t, held)

			// It is a superset, and not of everything.
			ivs, err := c.Between(ctx, "id-aab", "id-aaz")
			require.NoError(t, err)
			for v, want := range map[string]bool{"id-aab": true, "id-aazz": true, "id-aaa": false, "id-ab": false, "id-a": false} {
				ct, err := c.Encrypt(ctx, v)
				require.NoError(t, err)
				require.Equal(t, want, hold(ivs, ct), v)
			}
		})
	}
}

// What a prefix codec and its column cannot do is not among their methods.
func TestPrefixDoesNotDecode(t *testing.T) {
	_, decodes := any(encode.Exact[string]{}).(interface{ Decode(int64) (string, error) })
	require.True(t, decodes)
	_, decodes = any(encode.Prefix[string]{}).(interface{ Decode(int64) (string, error) })
	require.False(t, decodes)
	_, decrypts := any(&encode.Column[string]{}).(interface {
		Decrypt(context.Context, ope.Ciphertext) (string, error)
	})
	require.True(t, decrypts)
	_, decrypts = any(&encode.PrefixColumn[string]{}).(interface {
		Decrypt(context.Context, ope.Ciphertext) (string, error)
	})
	require.False(t, decrypts)
}

func TestColumnEncryptBatch(t *testing.T) {
	codec := encode.Integer[uint16]()
	for name, s := range schemes(t, codec.Domain()) {
		t.Run(name, func(t *testing.T) {
			c, err := encode.NewColumn(s, codec)
			require.NoError(t, err)
			rapid.Check(t, func(t *rapid.T) {
				vs := rapid.SliceOf(rapid.Uint16()).Draw(t, "vs")
				cs, err := c.EncryptBatch(ctx, vs)
				require.NoError(t, err)
				require.Len(t, cs, len(vs))
				for i, v := range vs {
					want, err := c.Encrypt(ctx, v)
					require.NoError(t, err)
					require.Equal(t, want, cs[i])
				}
			})
			few, err := codec.Within(0, 10)
			require.NoError(t, err)
			narrow, err := encode.NewColumn(s, few)
			require.NoError(t, err)
			cs, err := narrow.EncryptBatch(ctx, []uint16{1, 2, 3, 60613, 5})
			require.ErrorIs(t, err, ope.ErrDomain)
			require.Nil(t, cs)
			require.Contains(t, err.Error(), "value 3")
			require.NotContains(t, err.Error(), "60613")
		})
	}
}

func TestColumnNeedsADomain(t *testing.T) {
	s, err := boldyreva.New(key, ope.Domain{Min: 0, Max: 1000}, nil)
	require.NoError(t, err)
	fits, err := encode.Integer[int64]().Within(0, 1000)
	require.NoError(t, err)
	_, err = encode.NewColumn(s, fits)
	require.NoError(t, err)
	for _, bounds := range [][2]int64{{-1, 1000}, {0, 1001}, {math.MinInt64, math.MaxInt64}, {2000, 3000}} {
		codec, err := encode.Integer[int64]().Within(bounds[0], bounds[1])
		require.NoError(t, err)
		_, err = encode.NewColumn(s, codec)
		require.ErrorIs(t, err, ope.ErrParams)
	}
	_, err = encode.NewPrefixColumn(s, encode.Bytes[string](2, ""))
	require.ErrorIs(t, err, ope.ErrParams)
	_, err = encode.NewColumn(s, encode.Exact[int]{})
	require.ErrorIs(t, err, ope.ErrParams)
	_, err = encode.NewPrefixColumn(s, encode.Prefix[int]{})
	require.ErrorIs(t, err, ope.ErrParams)
}

func TestColumnRefuses(t *testing.T) {
	s, err := boldyreva.New(key, ope.Int64, nil)
	require.NoError(t, err)
	c, err := encode.NewColumn(s, encode.Float[float64]())
	require.NoError(t, err)
	nan := math.NaN()
	_, err1 := c.Encrypt(ctx, nan)
	_, err2 := c.Between(ctx, nan, 1)
	_, err3 := c.Between(ctx, 1, nan)
	_, err4 := c.AtLeast(ctx, nan)
	_, err5 := c.AtMost(ctx, nan)
	_, err6 := c.EncryptBatch(ctx, []float64{1, nan})
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		require.ErrorIs(t, err, encode.ErrInvalid)
	}
	_, err = c.Decrypt(ctx, ope.Ciphertext("short"))
	require.ErrorIs(t, err, ope.ErrCiphertext)

	// A ciphertext of the scheme that is of no float: its value is above infinity.
	foreign, err := s.Encrypt(ctx, math.MaxInt64)
	require.NoError(t, err)
	_, err = c.Decrypt(ctx, foreign)
	require.ErrorIs(t, err, ope.ErrCiphertext)
}

func TestColumnEncryptsTheCode(t *testing.T) {
	d := encode.Date().Domain()
	s, err := boldyreva.New(key, d, nil)
	require.NoError(t, err)
	require.Equal(t, d, s.Domain())
	c, err := encode.NewColumn(s, encode.Date())
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		code := opetest.Values(d).Draw(t, "code")
		day, err := encode.Date().Decode(code)
		require.NoError(t, err)
		got, err := c.Encrypt(ctx, day)
		require.NoError(t, err)
		want, err := s.Encrypt(ctx, code)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// Logs and messages print what a program has at hand: what the scheme of a column remembers is not for them.
func TestColumnsPrintTheirID(t *testing.T) {
	codec := encode.Integer[int64]()
	scheme, err := boldyreva.NewModular(ope.GenerateKey(), codec.Domain(), nil)
	require.NoError(t, err)
	column, err := encode.NewColumn(scheme, codec)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		require.Equal(t, column.ID(), fmt.Sprintf(verb, column))
		require.Empty(t, fmt.Sprintf(verb, new(encode.PrefixColumn[string])))
	}
}
