package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// Errors of rows and queries.
var (
	ErrNoRow         = errors.New("store: no such row")
	ErrRowExists     = errors.New("store: row exists already")
	ErrConflict      = errors.New("store: row has other values")
	ErrNull          = errors.New("store: value is null")
	ErrTorn          = errors.New("store: row holds a mixture of two writes")
	ErrSchemaChanged = errors.New("store: the schema was changed")
	ErrScan          = errors.New("store: the query would read all rows")
	ErrToken         = errors.New("store: page token of another query, or the table has changed since: begin with the first page")
)

// ErrOnce is what the error is of a change that must not be made twice, and may have been made.
var ErrOnce = errors.New("whether the row was changed is not known, and a server may still be about to do it: wait some seconds and read it before you try again")

// ErrWritten is what an error of a write is, beside another, whose rows were written nevertheless.
var ErrWritten = errors.New("the rows were written")

// A RowError says which row of a batch an error belongs to.
type RowError struct {
	Index int // position among the rows of the call
	Err   error
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Index, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// A BatchError is returned when a batch was not carried out as a whole.
type BatchError struct {
	Failed []int // positions of the rows that may or may not have been written, ascending; all others were
	Err    error

	nothing bool // was written: it ended before the first write
}

func (e *BatchError) Error() string {
	if e.nothing {
		return fmt.Sprintf("no row of the batch was written: %v", e.Err)
	}
	rows := "rows"
	if len(e.Failed) == 1 {
		rows = "row"
	}
	return fmt.Sprintf("%d %s of the batch may not have been written: %v", len(e.Failed), rows, e.Err)
}
func (e *BatchError) Unwrap() error { return e.Err }

// Undone returns the error of a call that did not reach the rows from..n.
func Undone(from, n int, err error) *BatchError {
	failed := make([]int, 0, n-from)
	for i := from; i < n; i++ {
		failed = append(failed, i)
	}
	return &BatchError{Failed: failed, Err: err}
}

// NothingDone returns the error of a call that ended before it wrote any of n rows.
func NothingDone(n int, err error) *BatchError {
	failed := Undone(0, n, err)
	failed.nothing = true
	return failed
}

// OfRow returns the error of row i, before any of n rows is written. Where the context has ended, the error is of all of them:
// at which row that was says nothing.
func OfRow(ctx context.Context, i, n int, err error) error {
	if ended := pause.Ended(ctx); ended != nil {
		return NothingDone(n, ended)
	}
	return &RowError{Index: i, Err: err}
}

// Besides returns an error in its own words, that is also the other one.
func Besides(err, other error) error { return besides{err, other} }

type besides struct{ err, other error }

func (b besides) Error() string   { return b.err.Error() }
func (b besides) Unwrap() []error { return []error{b.err, b.other} }

// An UnsealError is described by package store.
type UnsealError struct {
	Columns []string // in the order of the schema
}

func (e *UnsealError) Error() string {
	names := make([]string, len(e.Columns))
	for i, name := range e.Columns {
		names[i] = strconv.Quote(name)
	}
	return fmt.Sprintf("%v: what is sealed so far would become plain: %s; name what is to be unsealed", ErrPolicy, strings.Join(names, ", "))
}

func (e *UnsealError) Unwrap() error { return ErrPolicy }
