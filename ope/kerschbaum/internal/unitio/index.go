package unitio

import (
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/reads"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Stats counts calls.
type Stats struct {
	Reads      int // calls of Index.Read
	Commits    int // calls of Index.Commit
	RoundTrips int // of both; those that were made at the same time are one
	Conflicts  int // commits that were refused, because another client's came first
	Unknown    int // commits of unknown outcome
}

// An Index is where the units are.
type Index struct {
	index ope.Index
	codec *unit.Codec

	mu    sync.Mutex
	stats Stats
}

// New returns an index whose units a codec makes.
func New(index ope.Index, codec *unit.Codec) *Index { return &Index{index: index, codec: codec} }

// Stats returns what was called so far.
func (x *Index) Stats() Stats {
	if x == nil {
		return Stats{} // of the zero scheme
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stats
}

func (x *Index) count(add func(*Stats)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	add(&x.stats)
}

// Parallel calls do for 0 to n-1, some at a time, and returns the first error in their order. The first
// read of each counts together with those of the others as one round trip.
func (x *Index) Parallel(n int, do func(i int) error) error {
	if n <= 1 {
		if n == 1 {
			return do(0)
		}
		return nil
	}
	x.count(func(stats *Stats) { stats.RoundTrips -= n - 1 })
	const most = 256 // what a batch of random values may ask for at once
	return reads.Parallel(n, most, do)
}
