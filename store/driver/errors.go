package driver

import "errors"

// The kinds of errors that callers may branch on. Drivers wrap them together with the error of
// the database's client; use errors.Is. No error contains a value of a cell.
var (
	// Errors before anything was sent.

	// ErrTooLarge is returned when a row key, qualifier or value exceeds the limits.
	ErrTooLarge = errors.New("driver: key or value too large")

	// ErrOverlap is returned when a change names one cell, or one call one row, twice.
	ErrOverlap = errors.New("driver: change names the same cell or row twice")

	// ErrRange is returned when a scan, slice or family specification cannot be served.
	ErrRange = errors.New("driver: invalid range")

	// ErrSeen is returned when the Seen of a replacement has no value or was read without its stamp,
	// or the replacement leaves it as it is.
	ErrSeen = errors.New("driver: replacement does not say what was seen")

	// ErrReadOnly is returned when a snapshot is written to.
	ErrReadOnly = errors.New("driver: read-only")

	// Errors of the database.

	// ErrLayout is returned when what the database holds was made with another layout, by
	// something else, or by a newer format.
	ErrLayout = errors.New("driver: incompatible layout")

	// ErrNoFamily is returned when a family was dropped, did not exist in a snapshot, or was to be
	// opened only where it exists.
	ErrNoFamily = errors.New("driver: no such family")

	// ErrUnavailable is returned when the database cannot be reached or has too few nodes to
	// answer. Reads, and mutations of Apply, may be repeated later.
	ErrUnavailable = errors.New("driver: database unavailable")

	// ErrLocked is returned when another process has the embedded database open.
	ErrLocked = errors.New("driver: database is in use by another process")

	// ErrUnknownOutcome is returned when it cannot be told whether a conditional change was
	// applied.
	ErrUnknownOutcome = errors.New("driver: outcome of a conditional change is unknown")
)
