package boldyreva

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

// The bound of a part is below the acceptance probability at each of its cells; the last one's is that of the block.
func TestPartsOfBlocks(t *testing.T) {
	require.Len(t, quickParts, len(quick))
	r := seeded(t)
	checked := 0
	for range sim.Share(25_000, 8_000) {
		k, last := randomHistogramNode(r)
		v1, v0 := variance(k, last)
		n := bits.Len64(v0)
		if v1 != 0 {
			n = 65
		}
		row := classes[n]
		env := &envelopes[min(row, 4)]
		width := blockWidth(v1, v0, n, env.fraction)
		j, part := r.Uint64N(blocks), r.Uint64N(parts)
		require.Equal(t, quick[row][j], quickParts[row][j*parts+parts-1])
		q := quickParts[row][j*parts+part]
		if q == 0 {
			continue
		}
		u := part << 61 // the first word of the part, which has the highest probability; the last word has the lowest
		if r.UintN(4) != 0 {
			u |= 1<<61 - 1
		}
		cell, _ := bits.Mul64(u, width)
		d := 2*((j*width+cell)>>env.fraction) + ^last&1
		if r.UintN(2) == 0 {
			d += 2 - 2*(^last&1)
		}
		if d > last {
			continue
		}
		checked++
		rho := exactRatio(env, k, last, d, j, 0, 128)
		require.LessOrEqual(t, new(big.Int).Lsh(bigUint(uint64(q)), 96).Cmp(rho), 0,
			"k %d, last %d, D %d, block %d, part %d", k, last, d, j, part)
	}
	require.Greater(t, checked, 1000)
}

// What is decided quickly is the sample.
func TestQuickly(t *testing.T) {
	r := seeded(t)
	source := coins.New(vectortest.Key(t, 0), "quickly", fmt.Sprint(*sampleSeed))
	exact := &walker{Reader: source.NewReader(), exact: true}
	decided := 0
	for i := range uint64(4_000) {
		k, last := randomHistogramNode(r)
		exact.Seek(0, 1, i)
		hi, lo := exact.Block(0)
		if lower, ok := quickly(k, last, hi, lo); ok {
			decided++
			require.Equal(t, exact.split(k, last), lower, "k %d, last %d", k, last)
		}
	}
	require.Greater(t, decided, 2000)
}

// What is decided quickly by counting bits is the sample.
func TestCountQuickly(t *testing.T) {
	r := seeded(t)
	source := coins.New(vectortest.Key(t, 0), "count quickly", fmt.Sprint(*sampleSeed))
	exact := &walker{Reader: source.NewReader(), exact: true}
	decided := 0
	for i := range uint64(8_000) {
		last := 1 + r.Uint64N(popcountMost-1)
		k := min(uint(bits.Len64(last))+min(r.UintN(120), r.UintN(120)), 128)
		exact.Seek(0, 1, i)
		hi, lo := exact.Block(0)
		b1, b2 := exact.Block(1)
		if lower, ok := countQuickly(k, last, hi, lo, b1, b2); ok {
			decided++
			require.Equal(t, exact.split(k, last), lower, "k %d, last %d", k, last)
		}
	}
	require.Greater(t, decided, 4000)
}

// Batches are encrypted as their values are one by one: few or many, far apart, near each other, and equal.
func TestBatches(t *testing.T) {
	r := seeded(t)
	source := coins.New(vectortest.Key(t, 0), "batches", fmt.Sprint(*sampleSeed))
	plain := &walker{Reader: source.NewReader()}
	for range sim.Share(2_000, 300) {
		width := 1 + r.UintN(128)
		last := r.Uint64() >> (64 - min(width, 1+r.UintN(64)))
		tr := newTree(source, last, width)
		b := batch{ranks: make([]uint64, 1+r.UintN(1+r.UintN(600))), size: 16}
		b.out = make([]byte, b.size*len(b.ranks))
		lowest, spread := r.Uint64()&last, r.Uint64()>>r.UintN(64)
		for i := range b.ranks {
			b.ranks[i] = lowest + min(r.Uint64()&spread, last-lowest)
		}
		slices.Sort(b.ranks)
		w := tr.get()
		for range 2 { // as a walker that remembers nothing, and as one that does
			clear(b.out)
			tr.walk(w, node{bits: width, last: last}, &b, 0, len(b.ranks))
			for i, m := range b.ranks {
				n := node{bits: width, last: last}
				hi, lo := n.encrypt(plain, m)
				require.Equal(t, appendWords(nil, hi, lo, b.size), b.out[i*b.size:(i+1)*b.size], "%d bits, last %d, point %d of %d", width, last, m, len(b.ranks))
			}
		}
	}
}

// A walker that looks ahead arrives where one that does not does.
func TestAhead(t *testing.T) {
	r := seeded(t)
	source := coins.New(vectortest.Key(t, 0), "ahead", fmt.Sprint(*sampleSeed))
	plain := &walker{Reader: source.NewReader()}
	ahead := &walker{Reader: source.NewReader(), ahead: source.NewLanes()}
	for range sim.Share(8_000, 3_000) {
		width := 1 + r.UintN(128)
		last := r.Uint64() >> r.UintN(64)
		if width < 64 {
			last &= 1<<width - 1
		}
		m := r.Uint64()
		if last != ^uint64(0) {
			m %= last + 1
		}
		one, other := node{bits: width, last: last}, node{bits: width, last: last}
		hi, lo := one.encrypt(plain, m)
		gotHi, gotLo := other.encrypt(ahead, m)
		require.Equal(t, [2]uint64{hi, lo}, [2]uint64{gotHi, gotLo}, "%d bits, last %d, point %d", width, last, m)
	}
}
