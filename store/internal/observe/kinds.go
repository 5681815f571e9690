package observe

import (
	"context"
	"errors"
	"slices"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// callersMistakes are the errors that a call ends with because of what its caller gave or asked for.
var callersMistakes = []error{
	fault.ErrSchema, fault.ErrExists, fault.ErrNoTable, fault.ErrNoRow, fault.ErrRowExists, fault.ErrConflict, fault.ErrColumn, fault.ErrNull, fault.ErrTenant, fault.ErrNoTenant, fault.ErrPolicy, fault.ErrShared, fault.ErrScan, fault.ErrToken,
	ope.ErrDomain, driver.ErrTooLarge, driver.ErrOverlap, driver.ErrRange,
}

// A struct that fits no more since somebody changed the schema is none.
func isMistake(err error) bool {
	return !errors.Is(err, fault.ErrSchemaChanged) && slices.ContainsFunc(callersMistakes, func(mistake error) bool { return errors.Is(err, mistake) })
}

// ErrorNames are the values of the attribute error.type. If an error is several of these, the first one counts.
var ErrorNames = []struct {
	Err  error
	Name string
}{
	{context.Canceled, "context.Canceled"}, // wherever it was noticed
	{fault.ErrSchema, "store.ErrSchema"}, {fault.ErrExists, "store.ErrExists"}, {fault.ErrNoTable, "store.ErrNoTable"}, {fault.ErrNoRow, "store.ErrNoRow"},
	{fault.ErrRowExists, "store.ErrRowExists"}, {fault.ErrConflict, "store.ErrConflict"},
	{fault.ErrColumn, "store.ErrColumn"}, {fault.ErrNull, "store.ErrNull"}, {fault.ErrTenant, "store.ErrTenant"}, {fault.ErrNoTenant, "store.ErrNoTenant"},
	{fault.ErrPolicy, "store.ErrPolicy"}, {fault.ErrShared, "store.ErrShared"}, {fault.ErrLease, "store.ErrLease"}, {fault.ErrWritten, "store.ErrWritten"}, {fault.ErrSchemaChanged, "store.ErrSchemaChanged"}, {fault.ErrScan, "store.ErrScan"}, {fault.ErrToken, "store.ErrToken"},
	{fault.ErrWrongKey, "store.ErrWrongKey"}, {fault.ErrFormat, "store.ErrFormat"}, {fault.ErrTampered, "store.ErrTampered"}, {fault.ErrTorn, "store.ErrTorn"},

	{ope.ErrParams, "ope.ErrParams"}, {ope.ErrKey, "ope.ErrKey"}, {ope.ErrDomain, "ope.ErrDomain"}, {ope.ErrCiphertext, "ope.ErrCiphertext"},
	{ope.ErrStale, "ope.ErrStale"}, {ope.ErrUnknownOutcome, "ope.ErrUnknownOutcome"}, {ope.ErrIndex, "ope.ErrIndex"}, {ope.ErrFull, "ope.ErrFull"},

	{driver.ErrTooLarge, "driver.ErrTooLarge"}, {driver.ErrOverlap, "driver.ErrOverlap"}, {driver.ErrRange, "driver.ErrRange"},
	{driver.ErrSeen, "driver.ErrSeen"}, {driver.ErrReadOnly, "driver.ErrReadOnly"}, {driver.ErrLayout, "driver.ErrLayout"},
	{driver.ErrCorrupt, "driver.ErrCorrupt"}, {driver.ErrNoFamily, "driver.ErrNoFamily"}, {driver.ErrNoIndex, "driver.ErrNoIndex"}, {driver.ErrUnauthorised, "driver.ErrUnauthorised"},
	{driver.ErrClosed, "driver.ErrClosed"}, {driver.ErrLocked, "driver.ErrLocked"}, {driver.ErrUnknownOutcome, "driver.ErrUnknownOutcome"},
	{driver.ErrUnavailable, "driver.ErrUnavailable"}, {kms.ErrUnavailable, "kms.ErrUnavailable"},

	{context.DeadlineExceeded, "context.DeadlineExceeded"}, // a database that was unavailable all the time says more
}

// ErrorName returns the value of error.type: one of few, and no text of the error.
func ErrorName(err error) string {
	for _, e := range ErrorNames {
		if errors.Is(err, e.Err) {
			return e.Name
		}
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// Retryable reports whether the call that returned err may succeed if it is made again later, unchanged.
func Retryable(err error) bool {
	if errors.Is(err, driver.ErrUnauthorised) || errors.Is(err, driver.ErrClosed) {
		return false
	}
	if errors.Is(err, fault.ErrSchemaChanged) && errors.Is(err, fault.ErrColumn) || errors.Is(err, fault.ErrOnce) || errors.Is(err, fault.ErrWritten) {
		return false // a struct does not fit any more, a change must not be made twice, or the rows are there
	}
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, kms.ErrUnavailable) || errors.Is(err, driver.ErrUnknownOutcome) ||
		errors.Is(err, fault.ErrSchemaChanged) || errors.Is(err, ope.ErrStale)
}
