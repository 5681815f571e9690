package ope

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func domains() *rapid.Generator[Domain] {
	end := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}))
	return rapid.Custom(func(t *rapid.T) Domain {
		a, b := end.Draw(t, "a"), end.Draw(t, "b")
		return Domain{min(a, b), max(a, b)}
	})
}

func TestDomainRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := domains().Draw(t, "d")
		x := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{d.Min, d.Max})).Draw(t, "x")
		require.NoError(t, d.Validate())
		span := new(big.Int).Sub(big.NewInt(d.Max), big.NewInt(d.Min))
		require.Equal(t, span.String(), new(big.Int).SetUint64(d.Span()).String())
		require.Equal(t, big.NewInt(x).Cmp(big.NewInt(d.Min)) >= 0 && big.NewInt(x).Cmp(big.NewInt(d.Max)) <= 0, d.Contains(x))
		if d.Contains(x) {
			rank := new(big.Int).Sub(big.NewInt(x), big.NewInt(d.Min))
			require.Equal(t, rank.String(), new(big.Int).SetUint64(d.Offset(x)).String())
			require.Equal(t, x, d.At(d.Offset(x)))
			require.LessOrEqual(t, d.Offset(x), d.Span())
		}
	})
	require.Equal(t, uint64(math.MaxUint64), Int64.Span())
	require.Equal(t, uint64(0), Domain{5, 5}.Span())
	require.Equal(t, int64(math.MaxInt64), Int64.At(math.MaxUint64))
}

func TestDomainIntersect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, other := domains().Draw(t, "d"), domains().Draw(t, "other")
		lo, hi := other.Min, other.Max
		if rapid.IntRange(0, 4).Draw(t, "reversed") == 0 {
			lo, hi = hi, lo
		}
		got, ok := d.Intersect(lo, hi)
		some := false
		for _, x := range []int64{d.Min, d.Max, lo, hi} { // one of the ends is in a common part
			in := d.Contains(x) && lo <= x && x <= hi
			some = some || in
			if ok {
				require.Equal(t, in, got.Contains(x))
			}
		}
		require.Equal(t, some, ok)
	})
}

func TestDomainValidate(t *testing.T) {
	require.ErrorIs(t, Domain{1, 0}.Validate(), ErrParams)
	require.ErrorIs(t, Domain{math.MaxInt64, math.MinInt64}.Validate(), ErrParams)
	require.NoError(t, Domain{}.Validate())
	require.Equal(t, "[-128,127]", Int8.String())
}

func TestNamedDomains(t *testing.T) {
	for d, bits := range map[Domain]int{Int8: 8, Int16: 16, Int32: 32, Int64: 64, Uint8: 8, Uint16: 16, Uint32: 32} {
		require.Equal(t, uint64(math.MaxUint64)>>(64-bits), d.Span(), d)
		require.True(t, d.Contains(0))
	}
	for _, d := range []Domain{Uint8, Uint16, Uint32} {
		require.Zero(t, d.Min)
	}
	for _, d := range []Domain{Int8, Int16, Int32, Int64} {
		require.Equal(t, -1-d.Max, d.Min)
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range []struct{ prefix, end string }{
		{"a", "b"}, {"a\xff", "b"}, {"a\xff\xff", "b"}, {"a\xfe", "a\xff"}, {"\x00", "\x01"}, {"\xfe\xff", "\xff"}, {"ab\x00", "ab\x01"},
	} {
		prefix := []byte(c.prefix)
		require.Equal(t, []byte(c.end), PrefixEnd(prefix))
		require.Equal(t, c.prefix, string(prefix), "the prefix is not changed")
	}
	for _, prefix := range []string{"", "\xff", "\xff\xff"} {
		require.Nil(t, PrefixEnd([]byte(prefix)), "%q", prefix)
	}
	require.Nil(t, PrefixEnd(nil))
}

// keys generates short strings of few bytes, which often are prefixes or neighbours of others.
func keys() *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff}), 0, 5)
}

func TestPrefixEndIsTheLowestAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, key := keys().Draw(t, "prefix"), keys().Draw(t, "key")
		end := PrefixEnd(prefix)
		inRange := bytes.Compare(prefix, key) <= 0 && (end == nil || bytes.Compare(key, end) < 0)
		require.Equal(t, bytes.HasPrefix(key, prefix), inRange)
	})
}

// A key is in the range exactly if it begins with the prefix and a ciphertext of the interval.
func TestKeyRange(t *testing.T) {
	const n = 2
	ciphertext := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xfe, 0xff}), n, n)
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		iv := Interval{Start: ciphertext.Draw(t, "start"), End: ciphertext.Draw(t, "end")}
		if rapid.Bool().Draw(t, "nothing above") {
			iv.End = Ciphertext{0xff, 0xff, 0}
		}
		prefix := keys().Draw(t, "prefix")
		start, end := iv.KeyRange(prefix)

		for _, key := range [][]byte{
			keys().Draw(t, "key"),
			slices.Concat(prefix, ciphertext.Draw(t, "c"), keys().Draw(t, "suffix")),
			slices.Concat(prefix, iv.Start, keys().Draw(t, "suffix")),
			slices.Concat(prefix, iv.End[:n], keys().Draw(t, "suffix")),
		} {
			want := false
			if rest, ok := bytes.CutPrefix(key, prefix); ok && len(rest) >= n {
				c := rest[:n]
				want = bytes.Compare(iv.Start, c) <= 0 && bytes.Compare(c, iv.End) < 0
			}
			got := bytes.Compare(start, key) <= 0 && (end == nil || bytes.Compare(key, end) < 0)
			if len(key) < len(prefix)+n {
				continue // too short to hold a ciphertext: no such key is ever written
			}
			require.Equal(t, want, got, "interval [%x,%x), key %x, range [%x,%x)", iv.Start, iv.End, key, start, end)
			if got {
				held++
			}
		}
	})
	require.NotZero(t, held)
}

func TestKeyRangeIsTheCallers(t *testing.T) {
	prefix := append(make([]byte, 0, 32), 't')
	iv := Interval{Start: Ciphertext{1}, End: Ciphertext{2}}
	start, end := iv.KeyRange(prefix)
	_ = append(start, 9)
	clear(start)
	clear(end)
	require.Equal(t, "t", string(prefix))
	require.Equal(t, Interval{Start: Ciphertext{1}, End: Ciphertext{2}}, iv)
	start, end = iv.KeyRange(prefix)
	require.Equal(t, []byte{'t', 1}, start)
	require.Equal(t, []byte{'t', 2}, end)
	start, end = Interval{Start: Ciphertext{1}, End: Ciphertext{0xff, 0}}.KeyRange(nil)
	require.Equal(t, []byte{1}, start)
	require.Nil(t, end)
}
