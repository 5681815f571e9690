package boldyreva

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope/internal/coins"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

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
