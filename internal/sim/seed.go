package sim

import (
	"runtime"
	"slices"
	"testing"
	"testing/cryptotest"
)

// Seed makes runs of the test repeat themselves: crypto/rand gives what the seed says, and goroutines that can go on
// at the same time do so in the same order, as one processor serves all of them. It ends with the test.
func Seed(t *testing.T, seed uint64) {
	cryptotest.SetGlobalRandom(t, seed)
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// RequireRepeatable fails unless a run has one trace, each time that it is made. Of three runs one may be another: Go takes the
// processor away from a goroutine that has had it for long by the clock, as on a loaded machine, and another one goes on first.
func RequireRepeatable(t *testing.T, run func() []string) {
	t.Helper()
	a, b := run(), run()
	if slices.Equal(a, b) {
		return
	}
	c := run()
	if slices.Equal(a, c) || slices.Equal(b, c) {
		return
	}
	i := 0
	for i < min(len(b), len(c)) && b[i] == c[i] {
		i++
	}
	t.Fatalf("equal seeds give runs that differ from step %d on:\n%q\n%q", i, b[i:min(i+1, len(b))], c[i:min(i+1, len(c))])
}
