package kerschbaum

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// newRanked returns a new client of an index with ranks.
func newRanked(t testing.TB, index ope.Index, d ope.Domain, opts *Options) *Ranked {
	t.Helper()
	r, err := NewRanked(testKey(t), d, index, opts)
	require.NoError(t, err)
	return r
}

func TestContractOfRanks(t *testing.T) {
	opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
		return newRanked(tb, opetest.NewIndex(), d, nil)
	})
}

// What was handed out holds for ever, for every client, however often labels move and units divide.
func TestRanksNeverMove(t *testing.T) {
	for _, a := range arrival.All {
		if a.Name == "coinflips" {
			continue // it uses ranks up: see below
		}
		t.Run(a.Name, func(t *testing.T) {
			index := memindex.New()
			values := a.Of(t, 3000)
			opts := &Options{CacheValues: 4096, UnitValues: 200}
			got := make(map[int64]ope.Ciphertext)
			for i, part := range slices.Collect(slices.Chunk(values, 500)) {
				r := newRanked(t, index, ope.Int64, opts)
				cs, err := r.EncryptBatch(t.Context(), part)
				require.NoError(t, err)
				for j, x := range part {
					got[x] = cs[j]
				}
				if i%2 == 0 {
					_, err := r.of.Rebalance(t.Context(), nil)
					require.NoError(t, err)
				}
			}
			slices.Sort(values)
			r := newRanked(t, index, ope.Int64, opts)
			var last ope.Ciphertext
			for _, x := range values {
				c, err := r.Encrypt(t.Context(), x)
				require.NoError(t, err)
				require.Equal(t, got[x], c)
				require.Negative(t, bytes.Compare(last[:min(len(last), RankSize)], c[:RankSize]), "ranks are used up")
				last = c
				back, err := r.Decrypt(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, x, back)
			}
			require.Greater(t, len(r.of.shards.all()), 3)
			for _, err := range r.Check(t.Context(), func(record []byte, err error) { t.Errorf("%x: %v", record, err) }) {
				require.NoError(t, err)
			}
		})
	}
}

// Where nothing predicts the path on which values come, they share ranks in the end. Intervals have them all the same.
func TestSharedRanks(t *testing.T) {
	values := arrival.Named(t, "coinflips").Of(t, 1000)
	index := memindex.New()
	r := newRanked(t, index, ope.Int64, &Options{UnitValues: 64})
	cs, err := r.EncryptBatch(t.Context(), nil)
	require.NoError(t, err)
	ciphertexts := make([]ope.Ciphertext, len(values))
	for _, x := range values {
		c, err := r.Encrypt(t.Context(), x)
		require.NoError(t, err)
		cs = append(cs, c)
		ciphertexts[x] = c
	}
	shared := 0
	for x := range ciphertexts {
		c := ciphertexts[x]
		if shared += int(c[RankSize-1]); x > 0 {
			require.LessOrEqual(t, bytes.Compare(ciphertexts[x-1][:RankSize], c[:RankSize]), 0)
		}
		back, err := r.Decrypt(t.Context(), c)
		require.NoError(t, err)
		require.EqualValues(t, x, back)
	}
	require.Greater(t, shared, 700)
	require.Less(t, shared, 1000-order.RankBits/2)
	slices.SortFunc(cs, slices.Compare)
	require.Len(t, slices.CompactFunc(cs, slices.Equal), len(values))

	other := newRanked(t, index, ope.Int64, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		lo := rng.Int64N(1100) - 50
		hi := lo + rng.Int64N(1100)
		client := []*Ranked{r, other}[rng.IntN(2)]
		ivs, err := client.Intervals(t.Context(), lo, hi)
		require.NoError(t, err)
		for x, c := range ciphertexts {
			in := len(ivs) == 1 && bytes.Compare(ivs[0].Start, c) <= 0 && bytes.Compare(c, ivs[0].End) < 0
			if belongs := lo <= int64(x) && int64(x) <= hi; belongs || c[RankSize-1] == 0 {
				require.Equal(t, belongs, in, "%d in [%d,%d]", x, lo, hi)
			}
		}
	}
}

// The ciphertext of a rank, read with nothing of this package.
func TestFormatOfRanks(t *testing.T) {
	r := newRanked(t, memindex.New(), ope.Int64, nil)
	master := testKey(t).Secret()
	keys := derive(t, master, 64, "kerschbaum", "ranked")
	inner, err := aes.NewCipher(keys[:32])
	require.NoError(t, err)
	outer, err := aes.NewCipher(keys[32:])
	require.NoError(t, err)
	for i, x := range []int64{-7, 1 << 40, 3} {
		c, err := r.Encrypt(t.Context(), x)
		require.NoError(t, err)
		// Half of what is above all before, and then half of the gap.
		require.Equal(t, []string{"7fff", "bfff", "9fff"}[i], hex.EncodeToString(c[:2]))
		require.Len(t, c, 24+1+16)
		require.Zero(t, c[24])
		block, tag := make([]byte, 16), make([]byte, 16)
		inner.Encrypt(block, c[:16])
		binary.BigEndian.PutUint64(tag, uint64(x)^binary.BigEndian.Uint64(block))
		binary.BigEndian.PutUint64(tag[8:], binary.BigEndian.Uint64(c[16:24])^binary.BigEndian.Uint64(block[8:]))
		outer.Encrypt(tag, tag)
		require.Equal(t, tag, []byte(c[25:]))

		forged := bytes.Clone(c)
		forged[24] = 1
		_, err = r.Decrypt(t.Context(), forged)
		require.ErrorIs(t, err, ope.ErrCiphertext)
	}
	require.Equal(t, `kerschbaum-ranked/1 domain=[-9223372036854775808,9223372036854775807]`, r.ID())
}

// An index with ranks and one without are not taken for each other.
func TestRanksAreNotMixed(t *testing.T) {
	index := memindex.New()
	_, err := newRanked(t, index, ope.Int64, nil).Encrypt(t.Context(), 1)
	require.NoError(t, err)
	_, err = newClient(t, index, ope.Int64, nil).Encrypt(t.Context(), 2)
	require.ErrorIs(t, err, ope.ErrIndex)

	index = memindex.New()
	_, err = newClient(t, index, ope.Int64, nil).Encrypt(t.Context(), 1)
	require.NoError(t, err)
	r := newRanked(t, index, ope.Int64, nil)
	_, err = r.Encrypt(t.Context(), 2)
	require.ErrorIs(t, err, ope.ErrIndex)
	_, err = r.Intervals(t.Context(), 0, 5)
	require.ErrorIs(t, err, ope.ErrIndex)

	_, err = NewRanked(testKey(t), ope.Int64, index, &Options{Lambda: 2})
	require.ErrorIs(t, err, ope.ErrParams)
}

// What an interval costs: nothing for bounds that the client remembers or that are ends of the domain, else one round trip.
func TestIntervalsOfRanksCost(t *testing.T) {
	index := memindex.New()
	r := newRanked(t, index, ope.Int64, nil)
	values := make([]int64, 1000)
	for i := range values {
		values[i] = int64(10 * i)
	}
	_, err := r.EncryptBatch(t.Context(), values)
	require.NoError(t, err)
	trips := func(lo, hi int64) int {
		before := r.Stats().RoundTrips
		_, err := r.Intervals(t.Context(), lo, hi)
		require.NoError(t, err)
		return r.Stats().RoundTrips - before
	}
	require.Equal(t, 0, trips(100, 200))
	require.Equal(t, 0, trips(math.MinInt64, 200))
	require.Equal(t, 0, trips(math.MinInt64, math.MaxInt64))
	require.Equal(t, 1, trips(101, 200))
	require.Equal(t, 1, trips(101, 205))
}
