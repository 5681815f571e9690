package store

import (
	"context"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/maintain"
)

// VerifyOptions are the optional parameters of [Table.Verify]. The zero value is the default.
type VerifyOptions struct {
	// Repair mends what can be mended without changing a value: see [Table.Verify].
	Repair bool

	// Grace is how long a posting must have pointed to nothing before Repair drops it. It must be
	// longer than any write takes from its first step to the moment at which it is done for good,
	// one that timed out and is still on its way included; it is the one assumption about time in
	// this package. Default 10 minutes.
	Grace time.Duration

	// Every encrypts the values of one row in so many again, and compares. That costs more than all
	// the rest where the scheme is slow; whether rows and postings are in order is checked of all in
	// any case. Default 1: all rows.
	Every int

	// Fault, if not nil, is called for each fault, by one goroutine at a time.
	Fault func(Fault)

	// Progress, if not nil, is called now and then with what is being done and how far it is: with
	// "index values", "making an index again", "rows", "postings", "orphans", "waiting" or "dropping", and the number done so
	// far, which of "waiting" is seconds. In a table with tenants that is not open for one, it begins
	// again with each tenant.
	Progress func(step string, done int)
}

// DefaultGrace is the default of VerifyOptions.Grace.
const DefaultGrace = maintain.DefaultGrace

// A Fault is something that no client of this package leaves, wherever it dies; but for one that
// dies, or whose call fails, while another makes an index again: what it leaves then, Repair mends.
type Fault struct {
	Kind   FaultKind
	Tenant string // "" in tables without
	Column string // name of the column or key part; "" where it is the row or posting as a whole

	// Place is where it is: the row key, the key of the posting or, of an index, that of the record,
	// nil where it is the index as a whole. It is as the database has it, and no value.
	Place []byte

	// Err says what is wrong. It holds no value.
	Err error

	// Repaired says that it is mended.
	Repaired bool
}

// FaultKind is a kind of fault, a string.
type FaultKind = maintain.FaultKind

// The kinds of faults.
const (
	FaultCell    FaultKind = maintain.FaultCell    // of a row, which was changed, moved or sealed under another key
	FaultTorn    FaultKind = maintain.FaultTorn    // a row with cells of two writes, or without one of its cells
	FaultKey     FaultKind = maintain.FaultKey     // a row key or ciphertext that is not of the row's value, or out of order
	FaultPosting FaultKind = maintain.FaultPosting // no posting of this table
	FaultIndex   FaultKind = maintain.FaultIndex   // an index that is not such as clients leave it
	FaultHidden  FaultKind = maintain.FaultHidden  // of a row, which a query by the column does not find
	FaultUnknown FaultKind = maintain.FaultUnknown // in the index of a stateful scheme, which a row has
)

// FaultKinds returns the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{FaultCell, FaultTorn, FaultKey, FaultPosting, FaultIndex, FaultHidden, FaultUnknown}
}

// A Verification is what [Table.Verify] found.
type Verification struct {
	Rows     int
	Deleted  int // of a table with Conditional, that left a key cell
	Cells    int // of the rows
	Postings int
	Indexes  []VerifiedIndex

	// Dangling is the number of postings that point to no row, or to one that has another value by
	// now. They are no fault: a client that died leaves them, and one that writes makes some for a
	// moment. Each costs its space, and one read for a query that meets it.
	Dangling int

	// Dropped is how many of these Repair dropped.
	Dropped int

	// Orphans is the number of rows of tenants that were dropped, in a table that is not open for one,
	// and OrphanPostings that of their postings. They are no fault: nobody can read them any more.
	Orphans, OrphanPostings int

	// Faults is the number of faults of each kind, and Repaired how many of all were mended.
	Faults   map[FaultKind]int
	Repaired int
}

// A VerifiedIndex is what was found in the index of a column with a [MutableScheme].
type VerifiedIndex struct {
	Tenant  string // "" in tables without
	Column  string
	Values  int
	Version ope.Version // at the end
}

// Sound reports whether there is no fault that was not mended.
func (r *Verification) Sound() bool {
	n := 0
	for _, faults := range r.Faults {
		n += faults
	}
	return n == r.Repaired
}

// Verify reads a table and checks that
//
//   - every row opens: its cells are authentic and of one write
//   - its key and what its postings carry are those of its values, and are in the values' order
//   - each value of a searched column has its posting, and each posting its row
//   - each value of a column with a stateful scheme is in the index of it, and this is in order
//
// It reads only, on any database, while readers and writers go on: what looks wrong is looked at
// again, and what writers leave for a moment is no fault. What is counted is as of no single
// moment. What nobody can see is that the operator put whole rows back, or left them out.
//
// The schema may change while it runs: what looks wrong counts, and is mended, only if the catalogue says then
// what it said before; else it is looked at again, as the schema is. If it changes each time, the error is
// [ErrSchemaChanged].
//
// With Repair, postings that were dangling for all of the grace period are dropped, postings and
// index values that are missing are written, and damaged indexes are made again, see
// [Table.RebuildIndex]. A row whose ciphertext has no place in its index is stored again under
// another; no value changes. It may be stopped at any moment, made again, and made by several clients
// at a time.
//
// Memory does not depend on the number of rows. It is 8 bytes for each distinct value of the
// parts and columns with a stateful scheme, which have at most about 10^6 each, and with Repair the keys of
// up to 250,000 dangling postings, beyond which it has to be called again.
//
// Of a table that is open for a tenant it reads what is stored for this one. One with tenants that is
// not is verified for all of them, one after the other; and then all of it is read once more for what
// is stored for none: rows of tenants that were dropped are counted.
//
// Faults are no error: see [Verification.Sound]. With an error, what was found so far is returned.
func (tbl *Table) Verify(ctx context.Context, opts *VerifyOptions) (_ *Verification, err error) {
	t := tbl.now()
	ctx, end := tbl.st.observer.operation(ctx, "verify", t.Family())
	found, err := tbl.verifier(opts).Run(ctx)
	defer func() { end(found.Rows, err) }()
	if err != nil {
		err = fmt.Errorf("store: verify %q: %w", t.Meta.Name, engine.Gone(err))
	}
	return publicVerification(found), err
}

func (tbl *Table) verifier(opts *VerifyOptions) *maintain.Verifier {
	var o maintain.VerifyOptions
	if opts != nil {
		o = maintain.VerifyOptions{Repair: opts.Repair, Grace: opts.Grace, Every: opts.Every, Progress: opts.Progress}
		if tell := opts.Fault; tell != nil {
			o.Fault = func(f maintain.Fault) { tell(Fault(f)) }
		}
	}
	return maintain.NewVerifier(tbl.passes(), o)
}

// publicVerification returns a report as callers read it.
func publicVerification(r *maintain.Verification) *Verification {
	v := &Verification{
		Rows: r.Rows, Deleted: r.Deleted, Cells: r.Cells, Postings: r.Postings, Dangling: r.Dangling, Dropped: r.Dropped,
		Orphans: r.Orphans, OrphanPostings: r.OrphanPostings, Faults: r.Faults, Repaired: r.Repaired,
	}
	for _, x := range r.Indexes {
		v.Indexes = append(v.Indexes, VerifiedIndex(x))
	}
	return v
}
