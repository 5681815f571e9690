// Package kerschbaum is the mutable order-preserving encoding of Kerschbaum and Schröpfer (CCS
// 2014), as Waage, Homann and Wiese (SECRYPT 2016, section 3.2.2) put it into wide-column stores,
// with its state shared by independent clients through an [ope.Index].
//
// The ciphertext of a value is its place among the other values, a label, which says nothing of the
// value but its order. To encrypt a new value, a client looks up its neighbours in the index and
// takes a label between theirs. Where there is none, labels are moved to make room.
package kerschbaum

import (
	"io"
	"sync"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Options are the parameters of a scheme that have defaults.
type Options struct {
	// Name tells the indexes that share an [ope.Index] apart, for example the id of a column. It
	// begins the name of every unit and is bound into every record. It has at most 40 bytes.
	Name string

	// Lambda, if it is not 0, selects the scheme as it was published: midpoints, labels of
	// lambda*b+1 bits for domains of b bits, and everything encrypted anew when there is no room.
	// It is at least 2, and the labels have at most 128 bits.
	Lambda int

	// CacheValues bounds how many values a client remembers; 0 stands for 1,000,000. Each takes
	// about 64 bytes.
	CacheValues int

	// Limit is how many distinct values an index takes; 0 stands for 1,000,000, which make a unit
	// of about 100 MB. It is kept to a few percent, see [ErrLimit].
	Limit int

	// Rand is where nonces come from; nil stands for crypto/rand. Others are for tests.
	Rand io.Reader
}

// A Scheme is a client of an index. Make it with [New].
type Scheme struct {
	id     string
	name   string
	domain ope.Domain
	rules  rules
	index  ope.Index
	guards guards

	// Sizes, which tests make small.
	page   int // records a read asks for
	probes int // parallel reads by which a cold client narrows a gap
	chunk  int // values in a commit
	window int // elements that a relabelling moves in one commit

	mu sync.Mutex
}

// Stats counts what a client has done since it was made.
type Stats struct {
	Reads      int // calls of Index.Read
	Commits    int // calls of Index.Commit
	RoundTrips int // reads and commits that had to wait for each other; parallel ones are one
	Conflicts  int // commits that were refused, because another client's came first
	Unknown    int // commits of unknown outcome
	Inserted   int // values put into the index
	Relabels   int // relabellings within a generation's unit
	Passes     int // passes that this client made or helped to finish
	Moved      int // values whose labels it moved
}

// guards switches off what makes the protocol correct, each by itself, so that tests can tell
// that they would notice. The zero value has everything on.
type guards struct {
	insertAnyGeneration  bool // an insertion is not conditional on the generation that it was placed in
	insertOverOccupied   bool // an insertion is not conditional on its place being free
	relabelAnyNonce      bool // a relabelling is not conditional on the window being as it was read
	refreshAnyGeneration bool // what a read of another generation returns is mixed with what is known
	rangeAnyGeneration   bool // a range reads on when the generation has changed
	copyIntoOpen         bool // a copy is not conditional on the successor not being open yet
	copyOverExisting     bool // a copy is not conditional on its label being free
	openUnsealed         bool // the successor is filled and opened while the unit is still open
	forgetRetired        bool // cleaning up removes the state of a retired unit
	repeatUnknown        bool // a commit of unknown outcome is simply repeated
}
