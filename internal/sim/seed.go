package sim

import (
	"runtime"
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
