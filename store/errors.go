package store

import (
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Errors that callers may branch on. They are returned wrapped; use errors.Is. Values outside a
// column's domain are [ope.ErrDomain]; errors of the database are those of package driver.
// [Retryable] tells whether the same call may succeed later.
var (
	// Errors of the caller.

	// ErrSchema is returned when a schema makes no sense.
	ErrSchema = errors.New("store: invalid schema")

	// ErrExists is returned when a table, a column of it, or a tenant, of the same name exists.
	ErrExists = errors.New("store: exists already")

	// ErrNoTable is returned when a table does not exist, or was dropped.
	ErrNoTable = errors.New("store: no such table")

	// ErrNoRow is returned when a row that is to be updated does not exist.
	ErrNoRow = errors.New("store: no such row")

	// ErrColumn is returned when a row or a query names a column that the table has not, gives a
	// value of the wrong Go type, or asks of a column what its encryption cannot do.
	ErrColumn = errors.New("store: invalid use of a column")

	// ErrTenant is returned when a table with tenants is used without saying for which of them, or one
	// without is asked for the rows of a tenant.
	ErrTenant = errors.New("store: invalid use of a table with tenants")

	// ErrNoTenant is returned when a tenant does not exist, or was dropped.
	ErrNoTenant = errors.New("store: no such tenant")

	// ErrPolicy is returned when the policy of a tenant makes no sense.
	ErrPolicy = errors.New("store: invalid policy")

	// ErrShared is returned when a column, or the table that it is in, cannot be dropped or changed
	// because another column shares its key.
	ErrShared = errors.New("store: key is shared by another column")

	// ErrSchemaChanged is returned when a query cannot go on because another client changed the
	// column that drives it. It may be asked again.
	ErrSchemaChanged = errors.New("store: schema was changed meanwhile")

	// ErrToken is returned when a page token is damaged or belongs to another query.
	ErrToken = errors.New("store: page token of another query")

	// Errors of what the database holds.

	// ErrWrongKey is returned when data was sealed under another key.
	ErrWrongKey = errors.New("store: sealed under another key")

	// ErrFormat is returned when the database was written by a newer version.
	ErrFormat = errors.New("store: unknown format")

	// ErrTampered is returned when a cell was changed or moved from another place.
	ErrTampered = errors.New("store: data is not as it was written")

	// ErrTorn is returned when a row is not whole each time it is read: it holds cells of two
	// writes, or lacks one that its sealed key cell lists. Concurrent writers with equal
	// timestamps leave such a row, and so does an operator who removes or restores single cells.
	// Writing the row once more mends it.
	ErrTorn = errors.New("store: row holds a mixture of two writes")
)

// A RowError tells which row of a batch an error belongs to.
type RowError struct {
	Index int // position among the rows of the call
	Err   error
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Index, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// A BatchError is returned when a batch was not carried out as a whole: Failed are the positions
// of the rows that may or may not have been written, in ascending order; all others were.
// Carrying out the failed rows again is harmless.
type BatchError struct {
	Failed []int
	Err    error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("%d rows of the batch may not have been written: %v", len(e.Failed), e.Err)
}
func (e *BatchError) Unwrap() error { return e.Err }

// Retryable reports whether the call that returned err may succeed if it is made again later,
// unchanged: the database was unreachable or the outcome is unknown. All calls of this package
// may be repeated safely, except that a Put into a table with a tie-breaker draws a new one
// unless the row names it.
func Retryable(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknownOutcome) ||
		errors.Is(err, ErrTorn) || errors.Is(err, ErrSchemaChanged) || errors.Is(err, ope.ErrStale)
}

// sealError turns an error of package seal into one of this package.
func sealError(err error) error {
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return ErrWrongKey
	case errors.Is(err, seal.ErrTampered):
		return ErrTampered
	case errors.Is(err, seal.ErrFormat):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return err
}
