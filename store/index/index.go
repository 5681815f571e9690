// Package index opens the index of a stateful order-preserving scheme in a database, for applications that use such a
// scheme without tables. A store opens the indexes of its columns itself.
package index

import (
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
)

// Open opens the index of a name in a database, and makes it where it does not exist. The name has
// 1 to 34 characters out of a-z, 0-9 and '_'. One index can serve many columns, each with units of its own.
//
// A unit is one row of the database (a partition of Cassandra), so that each Read is one request
// and sees one instant, whatever it is asked for: read a large unit page by page, with a limit,
// and compare the metas. A Read that finds nothing is two requests on Cassandra.
//
// A Commit is one request where the database can check several cells at once: commits that have
// no Nonce in their condition, and are about different keys, do not get in each other's way.
// HBase can do so by filters, unless the unit is new. A Commit whose condition they do not find to hold takes
// two requests more, as does one that opens a unit; and deleted records leave a mark behind.
//
// No request that changes something is ever repeated on its own. An [ope.ErrUnknownOutcome] is
// also a [driver.ErrUnknownOutcome].
func Open(ctx context.Context, db driver.DB, name string) (ope.Index, error) {
	return index.Open(ctx, db, name)
}
