package store

import (
	"context"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/maintain"
)

// VerifyOptions are the optional parameters of [Table.Verify]. The zero value is the default.
type VerifyOptions struct {
	// Repair mends what can be mended without changing a value: see [Table.Verify].
	Repair bool

	// Grace is how long a posting must have pointed to nothing before Repair drops it. It must be longer than any write takes
	// from its first step to the moment at which it is done for good, one that timed out and is still on its way included; it
	// is the one assumption about time in this package. Default 10 minutes.
	Grace time.Duration

	// Every encrypts the values of one row in so many again, and compares. That costs more than all the rest where the scheme
	// is slow; whether rows and postings are in order is checked of all in any case. Default 1: all rows.
	Every int

	// Fault, if not nil, is called for each fault, by one goroutine at a time.
	Fault func(inspect.Fault)

	// Progress, if not nil, is called now and then with what is being done and how far it is: with "index values", "making an
	// index again", "rows", "postings", "orphans", "waiting" or "dropping", and the number done so far, which of "waiting" is
	// seconds. In a table with tenants that is not open for one, it begins again with each tenant.
	Progress func(step string, done int)
}

// Verify reads a table and checks that
//
//   - every row opens: its cells are authentic and of one write
//   - its key and what its postings carry are those of its values, and are in the values' order
//   - each value of a searched column has its posting, and each posting its row
//   - each value of a column with a stateful scheme is in the index of it, and this is in order
//
// It reads only, on any database, while readers and writers go on: what looks wrong is looked at again, and what writers leave
// for a moment is no fault. What is counted is as of no single moment. What nobody can see is that the operator put whole rows
// back, or left them out.
//
// The schema may change while it runs: what looks wrong counts, and is mended, only if the catalogue says then what it said
// before; else it is looked at again, as the schema is. If it changes each time, the error is [ErrSchemaChanged].
//
// With Repair, postings that were dangling for all of the grace period are dropped, postings and index values that are missing
// are written, and damaged indexes are made again, see [Table.RebuildIndex]. A row whose ciphertext has no place in its index
// is stored again under another; no value changes. It may end at any moment, be called again, and by several clients at a time.
//
// Memory does not depend on the number of rows. It is 8 bytes for each distinct value of the parts and columns with a stateful
// scheme, at most about 10^6 each, and with Repair the keys of 250,000 dangling postings, beyond which it is to be called again.
//
// Of a table that is open for a tenant it reads what is stored for this one. One with tenants that is not is verified for all of
// them, one after the other. Then all is read once more for what is stored for none: rows of dropped tenants are counted.
//
// Faults are no error: see [inspect.Verification.Sound]. With an error, what was found so far is returned.
func (tbl *Table) Verify(ctx context.Context, opts *VerifyOptions) (_ *inspect.Verification, err error) {
	return tbl.VerifyPart(ctx, inspect.Part{Index: 0, Of: 1}, opts)
}

// VerifyPart does for one part of a table what [Table.Verify] does for the whole: it reads the rows of the part, and a share of the
// index entries of each column. What all parts have adds up to what the table has: [inspect.Verification.Add]. Nothing is noted of
// what is done. If the schema is changed between parts, verify them again.
//
// The indexes of stateful schemes are checked and mended with the first part, and listed there. The other parts read them for their
// rows. Nobody compares the order of ciphertexts from one part to the next; that of each with its value is checked all the same, see
// [VerifyOptions.Every]. With Repair, a part with dangling postings waits for the grace period.
func (tbl *Table) VerifyPart(ctx context.Context, part inspect.Part, opts *VerifyOptions) (found *inspect.Verification, err error) {
	doing := "verify"
	if part.Of != 1 {
		doing = fmt.Sprintf("verify part %d of %d of", part.Index, part.Of)
	}
	found = new(inspect.Verification)
	err = tbl.pass(ctx, "verify", doing, func(ctx context.Context) (_ int, err error) {
		if err = part.Check(); err == nil {
			found, err = tbl.verifier(opts).Only(part.Index, part.Of).Run(ctx)
		}
		return found.Rows, err
	})
	return found, err
}

func (tbl *Table) verifier(opts *VerifyOptions) *maintain.Verifier {
	if opts == nil {
		opts = new(VerifyOptions)
	}
	return maintain.NewVerifier(tbl.open(), maintain.VerifyOptions(*opts))
}
