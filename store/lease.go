package store

import (
	"context"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// SetLease lets the writers of all clients do with fewer requests: a Put or an Update reads the version of the catalogue in
// the end only if its client has not begun to do so within d. In return every change of a schema, of a tenant or of a policy
// takes d and a sixteenth more, and so does the beginning of [Table.Convert]. 0 switches the lease off, as it is at first.
// A lease that becomes shorter, or ends, takes effect at once, and SetLease returns when the former one is over.
//
// A lease relies on clocks, so it is not for every installation. The clock of each machine must go on while it runs, and be
// right to 3 %. Where a virtual machine is stopped between the writing of a row and the answer, and its clock with it, an
// acknowledged row may stay as the schema was: queries by a column that was changed do not find it until the next
// [Table.Convert], and it may be in the clear where a policy that has just been set says otherwise. The page
// docs/operations.md has all limits. Such a client opens the database with [Options.NoLease].
//
// d is 100 ms to 1 minute, and long enough for some reads of the version: else the error is [ErrLease]. Programs that know no
// lease refuse a database that has one, with [ErrFormat].
func (st *Store) SetLease(ctx context.Context, d time.Duration) (err error) {
	ctx, end := st.db.Observer.Operation(ctx, "set lease", "")
	defer func() { end(0, err) }()
	if err := st.db.Catalogue.SetLease(ctx, d); err != nil {
		return fmt.Errorf("store: set the lease: %w", err)
	}
	return nil
}

// Lease returns the lease that the catalogue gives to writers.
func (st *Store) Lease(ctx context.Context) (_ inspect.Lease, err error) {
	ctx, end := st.db.Observer.Operation(ctx, "lease", "")
	defer func() { end(0, err) }()
	terms, err := st.db.Catalogue.Lease(ctx)
	if err != nil {
		return inspect.Lease{}, fmt.Errorf("store: lease: %w", err)
	}
	return terms.Inspect(), nil
}
