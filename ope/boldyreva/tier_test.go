package boldyreva

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestTierQ(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := new(big.Int)
	n, dec, unk := 0, 0, 0
	for range 20000 {
		k, last := randomHistogramNode(r)
		v1, v0 := variance(k, last)
		w := walker{}
		nb := big.NewInt(0).Add(bigUint(v0), new(big.Int).Lsh(bigUint(v1), 64)).BitLen()
		row := classes[nb]
		env := &envelopes[min(row, 4)]
		width := blockWidth(v1, v0, nb, env.fraction)
		j := r.Uint64N(46)
		d := 2*((j*width+r.Uint64N(width))>>env.fraction) + ^last&1 + last&1*2*r.Uint64N(2)
		if d > last {
			continue
		}
		exact := exactRatio(env, k, last, d, j, 0, 128)
		if exact.BitLen() > 128 {
			t.Fatal("rho > 1", k, last, d, j, row)
		}
		if r.Uint64N(2) == 0 { // undecided by rough
			top := new(big.Int).Rsh(exact, 96).Uint64()
			p, q := w.ratio(env, k, last, d, j, 0, uint32(min(top, 1<<32-1)))
			if q == unknown {
				unk++
				continue
			}
			if q != approximate {
				t.Fatal("decided at the edge", k, last, d, j)
			}
			diff := new(big.Int).Sub(exact, new(big.Int).Lsh(bigUint(p), 64))
			if diff.CmpAbs(worst) > 0 {
				worst.Abs(diff)
				t.Log(worst.BitLen()-128, k, last, d, j)
			}
			n++
		} else {
			v := r.Uint32()
			_, q := w.ratio(env, k, last, d, j, 0, v)
			if q == decidedYes && new(big.Int).Lsh(bigUint(uint64(v)+1), 96).Cmp(exact) > 0 || q == decidedNo && new(big.Int).Lsh(bigUint(uint64(v)), 96).Cmp(exact) < 0 {
				t.Fatal("wrong")
			}
			if q == decidedYes && j < 46 && v < quick[row][j] {
			}
			if j < 46 && new(big.Int).Lsh(bigUint(uint64(quick[row][j])), 96).Cmp(exact) > 0 {
				t.Fatal("quick too high", k, last, d, j)
			}
			dec++
		}
	}
	t.Log(n, dec, unk, worst.BitLen()-128)
}

func randomHistogramNode(r *rand.Rand) (k uint, last uint64) {
	for {
		last = r.Uint64() >> r.UintN(57)
		if last < popcountMost {
			continue
		}
		n := uint(new(big.Int).Add(bigUint(last), one).BitLen())
		k = n + 1 + min(r.UintN(128-n), r.UintN(128-n))
		if k <= 64 && last >= 1<<(k-1) {
			continue
		}
		return k, last
	}
}
