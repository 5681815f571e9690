// Package fault has the errors that the layers below package store return, and store under the same names.
// What each of them means, package store says.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/seal"
)

// Errors of the caller.
var (
	ErrSchema   = errors.New("store: invalid schema")
	ErrExists   = errors.New("store: exists already")
	ErrNoTable  = errors.New("store: no such table")
	ErrColumn   = errors.New("store: invalid use of a column")
	ErrTenant   = errors.New("store: invalid use of a table with tenants")
	ErrNoTenant = errors.New("store: no such tenant")
	ErrPolicy   = errors.New("store: invalid policy")
	ErrShared   = errors.New("store: key is shared by another column")
	ErrLease    = errors.New("store: invalid lease")
	ErrPhase    = errors.New("migrate: the migration is at another phase")
	ErrUnfit    = errors.New("migrate: the table does not take what the source has")
)

// Errors of what the database holds.
var (
	ErrWrongKey = errors.New("store: sealed under another key")
	ErrFormat   = errors.New("store: unknown format")
	ErrTampered = errors.New("store: data is not as it was written")
)

// As returns an error with a text of its own that is also another error.
func As(text string, other error) error { return as{text, other} }

type as struct {
	text  string
	other error
}

func (a as) Error() string { return a.text }
func (a as) Unwrap() error { return a.other }

// Join is errors.Join in one line.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return joined(errs)
}

type joined []error

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}
func (j joined) Unwrap() []error { return j }

// OfSeal turns an error of package seal into one of this package. A first byte that no version writes is damage like any other:
// who writes another one says so in the catalogue before, and a program that does not know it refuses that.
func OfSeal(err error) error {
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return ErrWrongKey
	case errors.Is(err, seal.ErrTampered):
		return ErrTampered
	case errors.Is(err, seal.ErrFormat):
		return fmt.Errorf("%w: %w: a newer version wrote it, or it was changed", ErrTampered, err)
	}
	return err
}

// Prefixed returns an error that says once that it is of package store.
func Prefixed(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "store: ") {
		return err
	}
	return fmt.Errorf("store: %w", err)
}
