package store

import (
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/observe"
)

// Errors that callers may branch on. They are returned wrapped; use errors.Is. Values outside a column's domain are [ope.ErrDomain]; errors
// of the database are those of package driver. [Retryable] says whether the same call may succeed later.
var (
	// Errors of the caller.

	// ErrSchema is returned when a schema makes no sense.
	ErrSchema = fault.ErrSchema

	// ErrExists is returned when a table, a column of it, or a tenant, of the same name exists.
	ErrExists = fault.ErrExists

	// ErrNoTable is returned when a table does not exist, or was dropped.
	ErrNoTable = fault.ErrNoTable

	// ErrNoRow is returned when a row that is to be updated does not exist.
	ErrNoRow = fault.ErrNoRow

	// ErrRowExists is returned when a row that is to be inserted exists, in a table with [Schema.Conditional].
	ErrRowExists = fault.ErrRowExists

	// ErrConflict is returned by [Table.UpdateIf] when the row has other values than were given.
	ErrConflict = fault.ErrConflict

	// ErrColumn is returned when a row or a query names a column that the table does not have, gives a
	// value of the wrong Go type, or asks of a column what its encryption cannot do.
	ErrColumn = fault.ErrColumn

	// ErrNull is returned by [Field.Of] when the row has no value of the field, when a field of a struct cannot be null and
	// its column is, and by [Table.Increment] of a column that is null.
	ErrNull = fault.ErrNull

	// ErrTenant is returned when a table with tenants is used without saying for which of them, or one
	// without is asked for the rows of a tenant, and by [Store.CreateTenant] for a name that no tenant may have.
	ErrTenant = fault.ErrTenant

	// ErrNoTenant is returned when a tenant does not exist, or was dropped.
	ErrNoTenant = fault.ErrNoTenant

	// ErrPolicy is returned when the policy of a tenant makes no sense.
	ErrPolicy = fault.ErrPolicy

	// ErrShared is returned when a column, or the table that it is in, cannot be dropped or changed because another column shares its key.
	ErrShared = fault.ErrShared

	// ErrLease is returned when a lease is too short, too long, or no whole number of milliseconds.
	ErrLease = fault.ErrLease

	// ErrSchemaChanged is returned when a query cannot go on because the column that drives it
	// was changed, or got another index or key, or by [Table.Verify], because the schema changes all the time. It may be asked again.
	// So is a call of a [TableOf] whose struct does not fit the schema any more: that one is ErrColumn, too, and stays.
	// If the call was a write that had to learn of the change, its rows are written all the same: see [For], and [DropColumn].
	ErrSchemaChanged = fault.ErrSchemaChanged

	// ErrWritten is what the error of a write is as well, beside [ErrSchemaChanged], where the rows were written nevertheless:
	// the call is not to be made again, unless for what it says is missing.
	ErrWritten = fault.ErrWritten
	// ErrScan is returned when a query with RequireIndex would read all rows.
	ErrScan = fault.ErrScan

	// ErrToken is returned when a page token is damaged or belongs to another query. A change of the column that drives
	// the query makes its tokens ErrToken, too: begin again.
	ErrToken = fault.ErrToken

	// Errors of what the database holds.

	// ErrWrongKey is returned when data was sealed under another key, or names another one because it was changed.
	ErrWrongKey = fault.ErrWrongKey

	// ErrFormat is returned when the catalogue, a table or an index says that a newer version wrote it. A sealed cell that says so
	// is [ErrTampered]: nothing proves that first byte, and a newer version would have said so in the catalogue before.
	ErrFormat = fault.ErrFormat

	// ErrTampered is returned when a cell was changed, cut short or moved from another place. If that lets it name another key,
	// it is [ErrWrongKey].
	ErrTampered = fault.ErrTampered

	// ErrTorn is returned when a row is not whole each time it is read: it holds cells of two writes, or lacks one that its
	// sealed key cell lists. Concurrent writers with equal timestamps leave such a row, and so does an operator who removes or
	// restores single cells. Writing the row once more mends it.
	ErrTorn = fault.ErrTorn
)

// A RowError says which row of a batch an error belongs to. Its fields are Index, the position among the rows of the
// call, and Err, what is wrong with it. It is returned wrapped, as a pointer: use errors.As with a *RowError.
type RowError = fault.RowError

// A BatchError is returned when a batch was not carried out as a whole: Failed are the positions of the rows that may or may
// not have been written, in ascending order; all others were. Carrying out the failed rows again is as [Retryable] says. Err is the
// reason. It is returned wrapped, as a pointer: use errors.As with a *BatchError.
type BatchError = fault.BatchError

// An UnsealError is returned by [Store.SetPolicy] when columns that are sealed would become plain without being named: Columns are those,
// in the order of the schema. It is an [ErrPolicy], and is returned as a pointer: use errors.As with an *UnsealError.
type UnsealError = fault.UnsealError

// Must returns v, or panics with err if that is not nil. It is for variables such as schemas, and for programs that can only
// end when an error comes:
//
//	var schema = store.Must(store.SchemaOf[Reading]("readings"))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Retryable reports whether the call that returned err may succeed if it is made again later, unchanged. Such are
// [driver.ErrUnavailable], [kms.ErrUnavailable], [driver.ErrUnknownOutcome], [ope.ErrStale] and [ErrSchemaChanged], unless it is
// also [ErrColumn] or [ErrWritten]: a struct that does not fit stays so, and rows that were written are there.
//
// A write that is made again brings about what the first attempt should have, with these exceptions:
//   - Values that another client has written since are replaced. See [Schema.Conditional].
//   - A Put into a table with a tie-breaker draws a new one, unless the row names it.
//   - A [Table.Insert] may find its own rows.
//   - A [Table.UpdateIf] or [Table.Increment] that may have changed its row is not retryable.
//
// The end of the context of the caller (context.DeadlineExceeded, context.Canceled) by itself makes no error retryable: look at the context
// before another attempt, which needs a new one. The rows of a Put or Delete that it ended may or may not be written, all or some of them.
// With a new context make the same call again, with the tie-breakers of its rows if the table has one, or read the rows.
//
// What stays as it is until somebody acts is not retryable: a refused login or right ([driver.ErrUnauthorised]), a database
// that was closed or has stopped ([driver.ErrClosed]), and a row that was read again and again and is not whole ([ErrTorn]).
func Retryable(err error) bool { return observe.Retryable(err) }
