package ope

import "context"

// An Index keeps the state of a stateful scheme in the untrusted database (Waage et al. 2016,
// section 4: "we implemented the indexes ... in the same way" as column families). Any number of
// independent clients share it; it needs no locks, leases or clocks.
//
// An index is a set of units. A unit holds records in the order of their keys, and a [Meta] that
// every change is made under. The server sees record keys (ciphertexts) and meta; record values
// are sealed by the caller.
//
// All methods may be called from several goroutines at a time, and from several processes. They must
// return soon once their ctx is done. Schemes call them in goroutines of their own, too: if one panics, or ends
// its goroutine, so does the call of the scheme that needed it.
//
// An index keeps copies of what it is given, and what Read returns is the caller's: nothing that either does with these bytes
// later is seen by the other. Package opetest tests an index.
type Index interface {
	// Read returns the meta of a unit and its records with from <= key < to, in ascending order,
	// both as they were at one instant. A nil from or to is unbounded. At most limit records are
	// returned; limit 0 means all. A unit that was never written has the zero Meta and no
	// records. Read observes every commit that was acknowledged before it was called.
	Read(ctx context.Context, unit Unit, from, to []byte, limit int) (View, error)

	// Commit applies the change to the unit if, and only if, the condition holds, all of it or
	// none of it, and reports whether it did. Commits to one unit are linearizable. A change
	// whose Puts and Deletes share a key is refused with an error: the two have no order.
	//
	// [ErrUnknownOutcome] means that the change may or may not have been applied, or may still
	// be. The caller finds out by reading; a blind repetition could apply it twice. Schemes read and
	// try again until their ctx ends. So what can never be applied, as without the right to write, is another error.
	Commit(ctx context.Context, unit Unit, cond Condition, change Change) (applied bool, err error)
}

// A Decider is an [Index] whose Read may show what is not decided for everybody: a commit that was never acknowledged, such as that of
// a client that has died, and which the next Read may miss, until somebody commits to the unit.
type Decider interface {
	Index

	// Decide returns once every later Read, of any client, sees the commits to the unit that any Read has shown before the call. A
	// Commit of which the outcome is known leaves that behind, too, also one that was not applied. Decide changes nothing, and who
	// may read may call it.
	Decide(ctx context.Context, unit Unit) error
}

// A Unit names a part of an index that is changed as a whole: an epoch of a column, or of a part of it. It has at
// most 64 bytes.
type Unit string

// State is the stage of a unit's life. It only ever rises.
type State uint8

// The states of a unit.
const (
	StateAbsent  State = iota // never opened; it may be filled by a copy of its predecessor
	StateOpen                 // takes new records
	StateSealed               // frozen: being copied to its successor
	StateRetired              // its successor is open; its records may be deleted, its meta never
	StateDivided              // takes new records, and has a part of what an index has; never sealed nor retired
)

// A Nonce is a random value that names one attempt to commit, so that the attempt can be
// recognised when its outcome is unknown.
type Nonce [16]byte

// Meta is the part of a unit that changes are conditional on.
type Meta struct {
	State      State
	Generation uint64 // of the Version of the records' keys
	Nonce      Nonce  // of the last commit that set it
}

// A Record is a key, which is a ciphertext, and a sealed value.
type Record struct{ Key, Value []byte }

// A View is what [Index.Read] saw at one instant.
type View struct {
	Meta    Meta
	Records []Record
	More    bool // the limit cut the records short
}

// A Condition restricts a commit to a unit in a certain condition. State and Generation must
// always be equal to the unit's.
type Condition struct {
	State      State
	Generation uint64
	Nonce      *Nonce   // if set, the unit's nonce must be equal to it
	Absent     [][]byte // keys that must have no record
}

// A Change is a set of final states: what the named records and the meta are after the commit.
type Change struct {
	Puts    []Record
	Deletes [][]byte // keys of records that shall not exist; disjoint from Puts
	Meta    Meta
}
