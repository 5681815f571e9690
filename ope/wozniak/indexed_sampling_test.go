package wozniak

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// script is draws that follow a given path; what comes after its end is 0. Run from the empty path
// on, with next after each run, it takes every path there is.
type script struct {
	path []uint64
	last []uint64 // the highest number that each draw could give
	at   int
	p    *big.Rat // the probability of the path
}

func (s *script) draw(last u192) (u192, error) {
	if s.at == len(s.path) {
		s.path = append(s.path, 0)
	}
	s.last = append(s.last[:s.at], last.lo)
	n := s.path[s.at]
	s.at++
	s.p.Mul(s.p, big.NewRat(1, int64(last.lo)+1))
	return u192{lo: n}, nil
}

func (s *script) next() bool {
	s.path = s.path[:s.at]
	for i := len(s.path) - 1; i >= 0; i-- {
		if s.path[i] < s.last[i] {
			s.path[i]++
			s.path = s.path[:i+1]
			return true
		}
	}
	return false
}

// law returns the exact law of what run makes of the draws.
func law(t *testing.T, run func(s *script) string) map[string]*big.Rat {
	out := map[string]*big.Rat{}
	total := new(big.Rat)
	s := &script{}
	for more := true; more; more = s.next() {
		s.at, s.p = 0, big.NewRat(1, 1)
		key := run(s)
		if out[key] == nil {
			out[key] = new(big.Rat)
		}
		out[key].Add(out[key], s.p)
		total.Add(total, s.p)
	}
	require.Equal(t, "1/1", total.String(), "all paths together are certain")
	require.Greater(t, len(out), 1)
	return out
}

// fullRUS decides the whole of a box, as Wozniak et al. 2013 do.
func fullRUS(dmin, dmax, cmin, cmax int, s *script, f []int) {
	if dmin > dmax {
		return
	}
	below, _ := s.draw(u192{lo: uint64(dmax - dmin)})
	p := dmin + int(below.lo)
	off, _ := s.draw(u192{lo: uint64((cmax - cmin) - (dmax - dmin))})
	c := cmin + int(below.lo) + int(off.lo)
	f[p] = c
	fullRUS(dmin, p-1, cmin, c-1, s, f)
	fullRUS(p+1, dmax, c+1, cmax, s, f)
}

// onDemand returns the law of the function of [1, n] to [1, r] that is decided value by value in an
// order, from the neighbours that are decided, as Indexed does.
func onDemand(t *testing.T, n, r int, order []int, keep bool) map[string]*big.Rat {
	// A state is the ciphertexts that are decided, 0 where none is; it has ends.
	type state [8]int
	start := state{}
	start[n+1] = r + 1
	states := map[state]*big.Rat{start: big.NewRat(1, 1)}
	for _, x := range order {
		after := map[state]*big.Rat{}
		add := func(s state, p *big.Rat) {
			if after[s] == nil {
				after[s] = new(big.Rat)
			}
			after[s].Add(after[s], p)
		}
		for s, p := range states {
			if s[x] != 0 {
				add(s, p)
				continue
			}
			var known pairs
			for x, c := range s[:n+2] {
				if x == 0 || c != 0 {
					known.put(pair{x: uint64(x), c: u192{lo: uint64(c)}})
				}
			}
			low, high := known.around(uint64(x))
			path := &script{}
			for more := true; more; more = path.next() {
				path.at, path.p = 0, new(big.Rat).Set(p)
				s := s
				require.NoError(t, between(*low, *high).sample(uint64(x), path.draw, func(p uint64, c u192) {
					if keep || p == uint64(x) {
						s[p] = int(c.lo)
					}
				}))
				add(s, path.p)
			}
		}
		states = after
	}
	out := map[string]*big.Rat{}
	for s, p := range states {
		out[fmt.Sprint(s[1:n+1])] = p
	}
	return out
}

func distance(a, b map[string]*big.Rat) float64 {
	sum := 0.0
	at := func(m map[string]*big.Rat, key string) float64 {
		if m[key] == nil {
			return 0
		}
		v, _ := m[key].Float64()
		return v
	}
	for key := range a {
		sum += math.Abs(at(a, key) - at(b, key))
	}
	for key := range b {
		if a[key] == nil {
			sum += at(b, key)
		}
	}
	return sum / 2
}

// With all pairs kept, the function is one of full RUS, exactly, whatever the order of insertion.
// With targets only it is another, and depends on the order.
func TestLawIsThatOfFullRUS(t *testing.T) {
	const n, r = 4, 10
	full := law(t, func(s *script) string {
		f := make([]int, n+1)
		fullRUS(1, n, 1, r, s, f)
		return fmt.Sprint(f[1:])
	})
	require.Len(t, full, 210, "every order-preserving function is possible")
	orders := map[string][]int{"ascending": {1, 2, 3, 4}, "descending": {4, 3, 2, 1}, "balanced": {2, 1, 3, 4}, "inwards": {1, 4, 2, 3}}
	targets := map[string]map[string]*big.Rat{}
	for name, order := range orders {
		all := onDemand(t, n, r, order, true)
		require.Len(t, all, len(full), name)
		for f, p := range full {
			require.Equal(t, p.String(), all[f].String(), "%s: the probability of %s", name, f)
		}
		targets[name] = onDemand(t, n, r, order, false)
	}
	require.InDelta(t, 0.198, distance(targets["ascending"], full), 0.0005)
	require.InDelta(t, 0.198, distance(targets["descending"], full), 0.0005)
	require.InDelta(t, 0.225, distance(targets["balanced"], full), 0.0005)
	require.InDelta(t, 0.262, distance(targets["ascending"], targets["descending"]), 0.0005)
}

// The ends leave room for all that is between them, and every such pair of ends is possible.
func TestEndsLeaveRoom(t *testing.T) {
	for _, span := range []uint64{0, 1, 3, 7} {
		const rangeBits = 3
		possible := law(t, func(s *script) string {
			cmin, cmax, err := ends(span, rangeBits, s.draw)
			require.NoError(t, err)
			require.GreaterOrEqual(t, cmax.lo-cmin.lo, span)
			require.LessOrEqual(t, cmin.lo, cmax.lo)
			require.Less(t, cmax.lo, uint64(1<<rangeBits))
			if span == 7 {
				return fmt.Sprint(cmin, cmax, s.path[0]) // there is no choice but the first
			}
			return fmt.Sprint(cmin, cmax)
		})
		want := 0
		for low := range int64(1 << rangeBits) {
			for high := low; high < 1<<rangeBits; high++ {
				if span == 0 && low == high || span > 0 && high-low >= int64(span) {
					want++
				}
			}
		}
		if span == 7 {
			want = 2
		}
		require.Len(t, possible, want, "span %d", span)
	}
}

// Coins are exactly uniform below any bound, as far as 10 sigma show.
func TestDrawsAreUniform(t *testing.T) {
	draw := drawFrom(rand.NewChaCha8([32]byte{1}))
	for _, last := range []uint64{0, 1, 2, 4, 6, 255, 256, 300} {
		const each = 400
		counts := make([]int, last+1)
		for range each * (last + 1) {
			n, err := draw(u192{lo: last})
			require.NoError(t, err)
			counts[n.lo]++
		}
		for _, n := range counts {
			require.InDelta(t, each, n, 10*math.Sqrt(each))
		}
	}
	// Every bit of a large number is drawn, and none above.
	for _, n := range []int{64, 65, 191, 192} {
		var some u192
		for range 100 {
			x, err := draw(ones(n))
			require.NoError(t, err)
			some = u192{some.hi | x.hi, some.mid | x.mid, some.lo | x.lo}
		}
		require.Equal(t, ones(n), some)
	}
	_, err := drawFrom(strings.NewReader("x"))(ones(80))
	require.Error(t, err)
	_, _, err = ends(7, 80, drawFrom(strings.NewReader("xy")))
	require.Error(t, err)
}

// A first value takes 2 (1 + 1/n) H_n - 3 samplings among n, on the average: the mean depth in a
// random binary search tree. (Waage et al. 2016 expect log2 n.)
func TestSamplingsOfTheFirst(t *testing.T) {
	for _, b := range []uint{4, 16, 32, 60} {
		const runs = 4000
		d := drawFrom(rand.NewChaCha8([32]byte{byte(b)}))
		n := math.Exp2(float64(b))
		var sum, squares float64
		whole := box{0, 1<<b - 1, u192{}, ones(int(3 * b))}
		random := rand.New(rand.NewPCG(1, uint64(b)))
		for range runs {
			k := 0.0
			require.NoError(t, whole.sample(random.Uint64N(1<<b), d, func(uint64, u192) { k++ }))
			sum, squares = sum+k, squares+k*k
		}
		harmonic := math.Log(n) + 0.57721566 + 1/(2*n)
		want := 2*(1+1/n)*harmonic - 3
		sigma := math.Sqrt((squares/runs - sum/runs*sum/runs) / runs)
		require.InDelta(t, want, sum/runs, 5*sigma, "%d bits", b)
		require.Less(t, sigma, 0.15)
	}
}

// What 10,000 uniform values of 32 bits cost: the counts of 20 runs of an independent program for
// the same procedure were 269,208 samplings for targets only and 239,587 for all pairs, a run.
func TestSamplingsOfManyValues(t *testing.T) {
	if testing.Short() {
		t.Skip("it computes for long, in one goroutine")
	}
	const runs, values = 2, 10_000
	for _, c := range []struct {
		targets       bool
		total, levels float64 // the mean of the last 500
	}{{true, 269_208, 25.0}, {false, 239_587, 22.1}} {
		total, late, pairs := 0, 0, 0
		for run := range runs {
			random := rand.New(rand.NewPCG(uint64(run), 5))
			var known onDemandPairs
			known.begin()
			for i := range values {
				k := known.encrypt(t, uint64(random.Uint32()), !c.targets)
				if total += k; i >= values-500 {
					late += k
				}
			}
			pairs += known.n
		}
		require.InEpsilon(t, c.total, float64(total)/runs, 0.01)
		require.InDelta(t, c.levels, float64(late)/(500*runs), 1)
		if c.targets {
			require.InDelta(t, values+2, pairs/runs, 3)
		} else {
			require.InDelta(t, total/runs+2, pairs/runs, 1)
		}
	}
}

// onDemandPairs is the procedure of Indexed without an index.
type onDemandPairs struct {
	pairs
	d draws
}

func (s *onDemandPairs) begin() {
	s.put(pair{x: 0})
	s.put(pair{x: math.MaxUint32, c: ones(96)})
	s.d = drawFrom(rand.NewChaCha8([32]byte{9}))
}

func (s *onDemandPairs) encrypt(t *testing.T, x uint64, keep bool) (samplings int) {
	low, high := s.around(x)
	if low == high {
		return 0
	}
	var drawn []pair
	require.NoError(t, between(*low, *high).sample(x, s.d, func(p uint64, c u192) {
		samplings++
		if keep || p == x {
			drawn = append(drawn, pair{x: p, c: c})
		}
	}))
	for _, p := range drawn {
		require.True(t, s.put(p))
	}
	return samplings
}

// The set of pairs agrees with a sorted slice.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s pairs
		var model []uint64
		c := func(x uint64) u192 { return u192{lo: 2*x + 1} }
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			start, step := rapid.Uint64Range(0, 5000).Draw(t, "start"), rapid.Uint64Range(1, 7).Draw(t, "step")
			for i := range uint64(rapid.IntRange(1, 700).Draw(t, "n")) {
				x := start + i*step
				if !s.put(pair{x: x, c: c(x)}) {
					t.Fatalf("%d does not fit", x)
				}
				model = append(model, x)
			}
			slices.Sort(model)
			model = slices.Compact(model)
			if rapid.Bool().Draw(t, "thin") {
				s.thin()
				kept := model[:0:0]
				for i, x := range model {
					if i%2 == 0 || i == len(model)-1 {
						kept = append(kept, x)
					}
				}
				model = kept
			}
			var all []uint64
			for p := range s.all {
				all = append(all, p.x)
			}
			if !slices.Equal(all, model) || s.n != len(model) {
				t.Fatalf("%d pairs, said to be %d, want %d", len(all), s.n, len(model))
			}
		}
		for range 50 {
			x := rapid.Uint64Range(0, 12_000).Draw(t, "x")
			i, found := slices.BinarySearch(model, x)
			low, high := s.around(x)
			at, given := s.byCiphertext(c(x))
			if found {
				if low != high || low.x != x || !given || at != *low {
					t.Fatalf("%d is not found", x)
				}
				if s.put(pair{x: x, c: c(x + 1)}) {
					t.Fatalf("%d has two ciphertexts", x)
				}
				continue
			}
			if given || (low == nil) != (i == 0) || (high == nil) != (i == len(model)) ||
				low != nil && low.x != model[i-1] || high != nil && high.x != model[i] {
				t.Fatalf("the neighbours of %d are %v and %v", x, low, high)
			}
			if low != nil && s.put(pair{x: x, c: low.c}) || high != nil && s.put(pair{x: x, c: high.c}) {
				t.Fatalf("%d has the ciphertext of a neighbour", x)
			}
		}
	})
}
