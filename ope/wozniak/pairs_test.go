package wozniak

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Runs that are merged give the set that their pairs give one by one, and what is known to lie next to each other is
// that of the view.
func TestPairsMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	at := func(x uint64, bare uint32) pair { return pair{x: x, c: u192{lo: 3 * x}, bare: bare} }
	for range 300 {
		var a, b pairs
		span := 1 + random.Uint64N(3000)
		for range random.IntN(600) {
			p := at(random.Uint64N(span), 0)
			require.True(t, a.put(p) && b.put(p))
		}
		for view := uint32(1); view <= 5; view++ {
			var xs []uint64
			for range random.IntN(1 + int(span)/2) {
				xs = append(xs, random.Uint64N(span))
			}
			slices.Sort(xs)
			var run []pair
			for _, x := range slices.Compact(xs) {
				run = append(run, at(x, 0))
			}
			if random.IntN(2) == 0 { // a part, as a page is
				from := random.IntN(len(run) + 1)
				run = run[from:min(from+40, len(run))]
			}
			require.Nil(t, a.merge(run, view))
			for _, p := range run {
				require.True(t, b.put(p))
			}
			for _, p := range run[:max(len(run)-1, 0)] {
				low, _ := b.around(p.x)
				low.bare = view
			}
			known := func(s *pairs) (known []pair) {
				for p := range s.all {
					if p.bare != view { // an earlier one counts for nothing
						p.bare = 0
					}
					known = append(known, p)
				}
				return known
			}
			require.True(t, slices.Equal(known(&a), known(&b)))
			require.Equal(t, b.n, a.n)
		}
		for _, c := range a.chunks {
			require.Equal(t, chunk{c.pairs[0].x, c.pairs[0].c, c.pairs}, c)
			require.Less(t, len(c.pairs), chunkSize)
		}
	}
}

// A run that contradicts what is known changes nothing.
func TestPairsMergeRefuses(t *testing.T) {
	var s pairs
	for x := range uint64(400) {
		s.put(pair{x: 10 * x, c: u192{lo: 100 * x}})
	}
	before := slices.Collect(s.all)
	for name, run := range map[string][]pair{
		"another ciphertext":               {{x: 500, c: u192{lo: 5000}}, {x: 510, c: u192{lo: 5101}}},
		"not above the one before":         {{x: 501, c: u192{lo: 5000}}},
		"not below the one after":          {{x: 501, c: u192{lo: 5100}}},
		"not above the one before the run": {{x: 501, c: u192{lo: 4999}}, {x: 502, c: u192{lo: 5001}}},
		"not below the one after the run":  {{x: 508, c: u192{lo: 5050}}, {x: 509, c: u192{lo: 5200}}},
		"out of order in itself":           {{x: 501, c: u192{lo: 5002}}, {x: 502, c: u192{lo: 5001}}},
		"below the last of all":            {{x: 4001, c: u192{lo: 39_900}}},
	} {
		require.NotNil(t, s.merge(run, 1), name)
		require.Equal(t, before, slices.Collect(s.all), name)
	}
}

// A pair takes at most 64 bytes, too, where a unit was read ahead.
func TestPairsMergeMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var s pairs
	const n, page = 200_000, 4000
	for at := uint64(0); at < n; at += page {
		run := make([]pair, page)
		for i := range run {
			run[i] = pair{x: at + uint64(i), c: u192{lo: at + uint64(i)}}
		}
		require.Nil(t, s.merge(run, 1))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes a pair", each)
	require.LessOrEqual(t, each, 64.0)
	runtime.KeepAlive(&s)
}
