package store

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// IndexStats counts what a [Store] did to the index of a stateful scheme since it opened the table.
type IndexStats struct {
	RoundTrips int // one after the other; requests that are under way together are one
	Reads      int
	Commits    int
	Refused    int // of the commits, because another client's came first
	Unknown    int // of the commits, those of unknown outcome

	// Of a [MutableScheme]:
	Rebalances int // passes over the whole index, asked for or not, that were made or helped to finish
	Relabels   int // movements by one commit, of the values around an exhausted gap; as published, of all
	Moved      int // values that got another ciphertext in a pass or movement
}

// IndexStats returns the counts of a key part or column. One without a stateful scheme is
// [ErrColumn]; so is one with [PlaintextIndexed], which counts nothing.
func (tbl *Table) IndexStats(name string) (IndexStats, error) {
	t, err := tbl.use()
	if err != nil {
		return IndexStats{}, err
	}
	c := t.byName[name]
	if c == nil {
		return IndexStats{}, fmt.Errorf("store: %w: table %q has no column %q", ErrColumn, t.schema.Name, name)
	}
	switch s := c.scheme.(type) {
	case *kerschbaum.Scheme:
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
	return IndexStats{}, fmt.Errorf("store: %w: column %q of table %q has no stateful scheme", ErrColumn, name, t.schema.Name)
}
