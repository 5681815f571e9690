package order

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
)

func number(r Rank) *big.Int {
	r.Shared = false
	return new(big.Int).SetBytes(r.Append(nil)[:RankSize-1])
}

func drawRank(r *rand.Rand) Rank {
	words := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
	for i := range words {
		switch r.IntN(4) {
		case 0:
			words[i] = 0
		case 1:
			words[i] = ^uint64(0)
		}
	}
	return Rank{words[0], Label{words[1], words[2]}, r.IntN(2) == 0}
}

func TestRankArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	modulus := new(big.Int).Lsh(big.NewInt(1), RankBits)
	for range 20_000 {
		a, b, d := drawRank(r), drawRank(r), r.Uint64()>>r.IntN(64)|1
		x, y := number(a), number(b)
		require.Zero(t, number(a.minus(b)).Cmp(new(big.Int).Mod(new(big.Int).Sub(x, y), modulus)))
		require.Zero(t, number(a.plus(b)).Cmp(new(big.Int).Mod(new(big.Int).Add(x, y), modulus)))
		require.Zero(t, number(a.over(d)).Cmp(new(big.Int).Div(x, new(big.Int).SetUint64(d))))
		require.Equal(t, bytes.Compare(a.Append(nil), b.Append(nil)), a.Compare(b))
		back, ok := ParseRank(a.Append(nil))
		require.True(t, ok)
		require.Equal(t, a, back)
	}
	for _, bad := range [][]byte{nil, make([]byte, RankSize-1), append(make([]byte, RankSize-1), 2)} {
		_, ok := ParseRank(bad)
		require.False(t, ok)
	}
}

// How far 192 bits go, for each order in which values come: what is left of the narrowest gap, in bits.
func TestRanksAreEnough(t *testing.T) {
	least := map[string]int{"bursts": 90, "clusters": 100, "coinflips": 0}
	for _, a := range arrival.All {
		t.Run(a.Name, func(t *testing.T) {
			want, ok := least[a.Name]
			if !ok {
				want = 130
			}
			n := 50_000
			if testing.Short() {
				n /= 10
			}
			left, shared := ranksLeft(t, a.Of(t, n))
			t.Logf("%d values: %d bits are left, %d values share a rank", n, left, shared)
			require.GreaterOrEqual(t, left, want)
			if a.Name == "coinflips" {
				require.Greater(t, shared, n*9/10)
			} else {
				require.Zero(t, shared)
			}
		})
	}
}

// ranksLeft inserts values, and returns how many bits the narrowest gap of ranks has, and how many values share one.
func ranksLeft(t *testing.T, values []int64) (left, shared int) {
	r := DefaultRules()
	r.RankBits = RankBits
	left = RankBits
	l := NewList(r, 0)
	require.NoError(t, l.Learn([]Element{r.Low(), r.High()}))
	places := make(map[int64]uint64, len(values)) // the labels, which have room here
	for i, x := range sorted(values) {
		places[x] = uint64(i + 1)
	}
	for _, x := range values {
		g := l.Gap(x)
		shape, err := r.Between(g.Left, g.Right)
		require.NoError(t, err)
		e := Element{Value: x, Label: Label{Hi: places[x]}, Shape: shape, Rank: r.rank(g.Left, g.Right, shape)}
		if e.Rank.Shared {
			shared++
		}
		require.True(t, g.Left.Shape.Depth == 0 || g.Left.Rises(e))
		require.True(t, g.Right.Shape.Depth == 0 || e.Rises(g.Right))
		left = min(left, number(g.Right.Rank.minus(e.Rank)).BitLen())
		require.NoError(t, l.Insert(e))
	}
	return left, shared
}

func sorted(values []int64) []int64 {
	out := slices.Clone(values)
	slices.Sort(out)
	return out
}
