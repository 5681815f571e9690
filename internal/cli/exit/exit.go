// Package exit names the exit codes of the commands, and the errors that lead to them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A Code says to a script how a command ended.
type Code int

// The exit codes.
const (
	OK          Code = 0
	Failed      Code = 1
	Usage       Code = 2   // wrong flags or arguments
	Wrong       Code = 3   // the database gave a wrong answer, or data that was changed or damaged
	Unreachable Code = 4   // the store cannot be reached or written to, another process has it, or the key service cannot be reached
	Leaky       Code = 5   // an audit found a column that gives away more than it may
	Interrupted Code = 130 // by Ctrl-C
)

// Errors that lead to a code of their own.
var (
	// ErrUsage marks errors about flags and arguments: unknown names, and values that do not go together.
	ErrUsage = errors.New("wrong usage")

	// ErrWrongAnswer marks errors about a database that returned something else than what was asked for.
	ErrWrongAnswer = errors.New("wrong answer")

	// ErrKey is returned when a store is opened with a key that is not its own.
	ErrKey = errors.New("the key or passphrase is not this store's")

	// ErrLeaky is returned for a column that gives away more than its audit allows.
	ErrLeaky = errors.New("the column gives away too much")

	// ErrInterrupted is returned by commands that a signal ended early.
	ErrInterrupted = errors.New("interrupted")
)

type usageError string

func (e usageError) Error() string        { return string(e) }
func (e usageError) Is(target error) bool { return target == ErrUsage }

// Usagef returns an error that is ErrUsage.
func Usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// An interruption is ErrInterrupted of a command that has changed something.
type interruption string

func (i interruption) Error() string        { return ErrInterrupted.Error() + "; " + string(i) }
func (i interruption) Is(target error) bool { return target == ErrInterrupted }

// Interruption returns ErrInterrupted with what is known of a change.
func Interruption(known string) error { return interruption(known) }

// Early turns what comes of an ended context into ErrInterrupted. The error of a change that is made, or may be, says so.
func Early(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || WrongData(err) {
		return err
	}
	var before interruption
	if errors.As(err, &before) {
		return before
	}
	if left, made := LeaseLeft(err); made {
		return interruption(fmt.Sprintf("the change is made, and stays; as the lease of writers is not over, they may write by the former schema, policy or key "+
			"for another %v: rely on the change after that, and do not make it again", left.Round(time.Millisecond)))
	}
	if errors.Is(err, driver.ErrUnknownOutcome) {
		return interruption("what was under way may be made, or may be made yet")
	}
	return ErrInterrupted
}

// LeaseLeft returns how long leases of writers last that an error says were not waited for, and whether it is the error of a
// change that is made.
func LeaseLeft(err error) (left time.Duration, made bool) {
	var unwaited interface {
		error
		LeaseLeft() (left time.Duration, made bool)
	}
	if errors.As(err, &unwaited) {
		return unwaited.LeaseLeft()
	}
	return 0, false
}

// WrongData reports whether an error is about data that is not as it was written. [store.ErrWrongKey] is one:
// where the key of a command is not the store's, that is [ErrKey].
func WrongData(err error) bool {
	return isAny(err, ErrWrongAnswer, store.ErrTampered, store.ErrTorn, store.ErrFormat, store.ErrWrongKey,
		driver.ErrCorrupt, ope.ErrIndex, ope.ErrCiphertext)
}

// Damaged reports whether an error is about rows or an index that were changed, or are not whole.
func Damaged(err error) bool { return isAny(err, store.ErrTampered, store.ErrTorn, ope.ErrIndex) }

// noAnswer reports whether an error is about a database that does not answer, or not for certain, or about a key
// management service that does not. What a script does is the same: it tries again later.
func noAnswer(err error) bool {
	return isAny(err, driver.ErrUnavailable, driver.ErrLocked, driver.ErrUnknownOutcome, ope.ErrUnknownOutcome, kms.ErrUnavailable)
}

func isAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// CodeOf returns the exit code of a command that ended with err.
func CodeOf(ctx context.Context, err error) Code {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrKey):
		return Failed
	case WrongData(err):
		return Wrong
	case errors.Is(err, ErrUsage), errors.Is(err, store.ErrLease):
		return Usage
	case errors.Is(err, ErrLeaky):
		return Leaky
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return Interrupted
	case noAnswer(err): // also where a connection to it is a broken pipe
		return Unreachable
	case onlyUnread(err):
		return OK
	}
	return Failed
}

// onlyUnread reports whether an error is that nobody reads on, and nothing beside it.
func onlyUnread(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !onlyUnread(err) })
	case interface{ Unwrap() error }:
		return onlyUnread(e.Unwrap())
	}
	return err == syscall.EPIPE
}
