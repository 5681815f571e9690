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

	// ErrCorrupt is returned when what the database holds cannot be read, since its files are damaged
	// or some of them are missing. Calling again does not help: restore them.
	ErrCorrupt = errors.New("driver: database is damaged")

	// ErrNoFamily is returned when a family was dropped, did not exist in a snapshot, or was to be
	// opened only where it exists.
	ErrNoFamily = errors.New("driver: no such family")

	// ErrNoIndex is returned when an index was dropped, or the database does not make such indexes.
	ErrNoIndex = errors.New("driver: no such index")

	// ErrUnavailable is returned when the database cannot be reached or has too few nodes to
	// answer. Reads, and mutations of Apply, may be repeated later.
	ErrUnavailable = errors.New("driver: database unavailable")

	// ErrUnauthorised is returned when the database and this client do not accept each other. The
	// password is wrong or missing, or the user or process lacks a right. Or only one side speaks
	// TLS, or a certificate is missing, expired, or of another name or authority. It stays so
	// until somebody changes a configuration.
	ErrUnauthorised = errors.New("driver: access refused")

	// ErrClosed is returned by calls of a DB that was closed, or that has stopped after a failed
	// write. To go on, open the database again.
	ErrClosed = errors.New("driver: database is closed")

	// ErrLocked is returned when the embedded database is open already: in another process, or in this one.
	ErrLocked = errors.New("driver: database is in use already")

	// ErrUnknownOutcome is returned when nobody can know whether a conditional change was applied. A server may still be about to
	// apply it, so that a read soon after does not settle it.
	ErrUnknownOutcome = errors.New("driver: outcome of a conditional change is unknown")
)
