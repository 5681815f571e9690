package coins

import (
	"crypto/aes"
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
)

func testSource(t *testing.T, labels ...string) *Source {
	k, err := ope.NewKey(make([]byte, ope.KeySize))
	require.NoError(t, err)
	return New(k, labels...)
}

// A block is what the package comment says, whatever was read before.
func TestBlock(t *testing.T) {
	k, err := ope.NewKey(make([]byte, ope.KeySize))
	require.NoError(t, err)
	keys := k.Expand(64, "a", "b")
	k1, err := aes.NewCipher(keys[:32])
	require.NoError(t, err)
	k2, err := aes.NewCipher(keys[32:])
	require.NoError(t, err)
	r := New(k, "a", "b").NewReader()
	for _, u := range []uint64{0, 7, 0, 7, 8} {
		for tag := range uint8(2) {
			for _, v := range []uint64{0, 1, math.MaxUint64} {
				r.Seek(tag, u, v)
				for _, counter := range []uint64{0, 3, 1 << 63} {
					var x, y [16]byte
					x[0] = tag
					binary.BigEndian.PutUint64(x[8:], u)
					k1.Encrypt(x[:], x[:])
					binary.BigEndian.PutUint64(y[:8], v)
					binary.BigEndian.PutUint64(y[8:], counter)
					for i := range y {
						y[i] ^= x[i]
					}
					k2.Encrypt(y[:], y[:])
					hi, lo := r.Block(counter)
					require.Equal(t, binary.BigEndian.Uint64(y[:8]), hi)
					require.Equal(t, binary.BigEndian.Uint64(y[8:]), lo)
				}
			}
		}
	}
}

func TestUniform(t *testing.T) {
	require.Zero(t, testSource(t, "x").Uniform(0))
	seen := map[uint64]int{}
	for i := range 2000 {
		x := testSource(t, "x", string(rune('A'+i))).Uniform(4)
		require.LessOrEqual(t, x, uint64(4))
		seen[x]++
	}
	for x := range uint64(5) {
		require.InDelta(t, 400, seen[x], 120) // 6.7 standard deviations
	}
	// All 64 bits are there for the largest bound.
	var ones, zeros uint64
	for i := range 64 {
		x := testSource(t, "y", string(rune('A'+i))).Uniform(math.MaxUint64)
		ones, zeros = ones|x, zeros|^x
	}
	require.Equal(t, uint64(math.MaxUint64), ones&zeros)
}

func TestLabelsSeparate(t *testing.T) {
	require.NotEqual(t, testSource(t, "a", "b").Uniform(math.MaxUint64), testSource(t, "ab").Uniform(math.MaxUint64))
}

func TestReadersAreIndependent(t *testing.T) {
	s := testSource(t, "x")
	want := make([]uint64, 100)
	r := s.NewReader()
	for i := range want {
		r.Seek(uint8(i&1), uint64(i%3), uint64(i))
		want[i], _ = r.Block(1)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r := s.NewReader()
			for i := range want {
				r.Seek(uint8(i&1), uint64(i%3), uint64(i))
				if got, _ := r.Block(1); got != want[i] {
					t.Errorf("block %d differs", i)
				}
			}
		})
	}
	wg.Wait()
}

// Blocks of lanes are those of readers, whatever the other lanes are.
func TestLanes(t *testing.T) {
	s := testSource(t, "lanes")
	l, r := s.NewLanes(), s.NewReader()
	for _, n := range []int{LaneCount, 1, 5} {
		labels := make([]Label, n)
		for i := range n {
			tag, u, v := uint8(i&1), uint64(i%3), uint64(i*n)
			m := r.Mask(tag, u)
			if u == 0 {
				require.Equal(t, s.Mask(tag), m)
			}
			labels[i] = m.Label(v)
			l.Set(i, labels[i], uint64(i%2)<<63)
		}
		l.Blocks(n)
		for i := range n {
			hi, lo := l.Get(i)
			for _, set := range []func(){func() { r.Use(labels[i]) }, func() { r.Seek(uint8(i&1), uint64(i%3), uint64(i*n)) }} {
				set()
				wantHi, wantLo := r.Block(uint64(i%2) << 63)
				require.Equal(t, [2]uint64{wantHi, wantLo}, [2]uint64{hi, lo})
			}
		}
	}
}

// Masks of lanes are those of readers.
func TestMasksOfLanes(t *testing.T) {
	s := testSource(t, "lanes")
	l, r := s.NewLanes(), s.NewReader()
	for i := range LaneCount {
		l.SetMask(i, uint8(i&1), uint64(i)<<50)
	}
	l.Masks(LaneCount)
	for i := range LaneCount {
		require.Equal(t, r.Mask(uint8(i&1), uint64(i)<<50), l.GetMask(i))
	}
}
