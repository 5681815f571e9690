// Package compare has what is measured beside the columns of package store, and what counts the requests of theirs.
// Applications need none of it.
package compare

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// Schemes of columns that serve comparison only.
var (
	// KerschbaumPublished is [store.Kerschbaum] with the rules of the paper. They write the whole index again when a gap
	// is exhausted, and sorted values are the worst case. Values have at most 63 bits.
	KerschbaumPublished = mutable(scheme.KerschbaumPublished)

	// PlaintextIndexed encrypts nothing. Its columns are stored and searched as those of a [store.MutableScheme] are:
	// this measures what Kerschbaum costs.
	PlaintextIndexed = mutable(scheme.PlaintextIndexed)
)

func mutable(name string) store.MutableScheme {
	s, err := store.ParseScheme(name)
	if err != nil {
		panic("compare: " + err.Error()) // names of schemes are stored, so each is known for ever
	}
	return s.(store.MutableScheme)
}

// IndexStats counts what a [store.Store] did to the index of a stateful scheme since it opened the table.
type IndexStats struct {
	RoundTrips int // one after the other; requests that are under way together are one
	Reads      int
	Commits    int
	Refused    int // of the commits, because another client's came first
	Unknown    int // of the commits, those of unknown outcome

	// Of a [store.MutableScheme] and of [store.KerschbaumRanked]:
	Rebalances int // passes over the whole index, asked for or not, that were made or helped to finish
	Relabels   int // movements by one commit, of the values around an exhausted gap; as published, of all
	Moved      int // values that got another ciphertext in a pass or movement
}

// StatsOf returns the counts of a key part or column. One without a stateful scheme is
// [store.ErrColumn]; so is one with [PlaintextIndexed], which counts nothing.
func StatsOf(tbl *store.Table, name string) (IndexStats, error) {
	s, err := scheme.OfColumn(tbl, name)
	if err != nil {
		return IndexStats{}, err
	}
	switch s := s.(type) {
	case interface{ Stats() kerschbaum.Stats }:
		n := s.Stats()
		return IndexStats{
			RoundTrips: n.RoundTrips, Reads: n.Reads, Commits: n.Commits, Refused: n.Conflicts, Unknown: n.Unknown,
			Rebalances: n.Passes, Relabels: n.Relabels, Moved: n.Moved,
		}, nil
	case *wozniak.Indexed:
		n := s.Stats()
		return IndexStats{
			RoundTrips: n.Trips, Reads: n.Reads, Commits: n.Commits + n.Refused + n.Unknown, Refused: n.Refused, Unknown: n.Unknown,
		}, nil
	}
	return IndexStats{}, fmt.Errorf("%w: column %q has no stateful scheme", store.ErrColumn, name)
}
