package store

import (
	"context"
	"time"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Table is an encrypted table. It is safe for concurrent use.
type Table session.Table

// open returns the table as the layers below have it.
func (tbl *Table) open() *session.Table { return (*session.Table)(tbl) }

// Schema returns the schema of the table, as this client knows it: it learns of a change by another
// client when it writes, reads what was written since, or is asked for a column that it does not know. Of
// a table that is open for a tenant, columns are encrypted as the tenant's policy says.
func (tbl *Table) Schema() Schema { return publicSchema(tbl.open().Schema()) }

// Expiring returns the table such that rows which are put through it live so long, whatever [Schema.TTL] says: whole seconds,
// at most ten years; 0 is for ever. No column says when a row expires. To give each row its own time, call Expiring
// for each, which takes no request:
//
//	err := tbl.Expiring(30*time.Minute).Put(ctx, row)
//
// The moment at which a row expires is rounded up to a second. A row that is put again gets the TTL of that Put. A Put into
// a table whose schema has no TTL, not even [TTLByRow], is [ErrSchema], except with 0.
func (tbl *Table) Expiring(ttl time.Duration) *Table { return (*Table)(tbl.open().Expiring(ttl)) }

// Tenant opens a table for a tenant. Rows that are put are the tenant's, and the tenant's rows only are
// found. One that does not exist is [ErrNoTenant]; a table without tenants is [ErrTenant].
//
// Those of 2,048 tenants or more that were opened last are kept, about 10 kB for each, and more where columns have
// stateful schemes, which remember values. Others are opened anew, unless the program still has them.
func (tbl *Table) Tenant(ctx context.Context, name string) (_ *Table, err error) {
	ctx, end := tbl.open().Operation(ctx, "open tenant")
	defer func() { end(0, err) }()
	of, err := tbl.open().ForTenant(ctx, name)
	return (*Table)(of), fault.Prefixed(err)
}
