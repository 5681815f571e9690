package fault

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Gone adds [ErrNoTable] to an error of the database where the reason is that the table was dropped. Only who opens it
// again reads the catalogue, which tells that from a part that the database has lost: that is [ErrTampered], and said.
func Gone(err error) error {
	if errors.Is(err, driver.ErrNoFamily) && !errors.Is(err, ErrTampered) {
		return Besides(fmt.Errorf("%w: it was dropped, or the database has lost a part of it; open it again to see which", ErrNoTable), err)
	}
	return err
}

// IsOfRow reports whether an error says that a table does not take a row, and will not.
func IsOfRow(err error) bool {
	kinds := []error{ErrUnfit, ErrSchema, ErrColumn, ope.ErrDomain, driver.ErrTooLarge}
	return slices.ContainsFunc(kinds, func(is error) bool { return errors.Is(err, is) })
}

// Unfit returns an error of a row as one that is [ErrUnfit].
func Unfit(err error) error {
	if errors.Is(err, ErrUnfit) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnfit, err)
}

// BySchema reports whether an error refuses what a client asks for, as the schema has it. Under another one it may be right.
func BySchema(err error) bool {
	of := func(kind error) bool { return errors.Is(err, kind) }
	return slices.ContainsFunc([]error{ErrColumn, ErrSchema, ErrScan, ErrToken, driver.ErrRange, ope.ErrDomain, ope.ErrIndex}, of)
}

// Refused reports whether an error is about what the database holds, and not about reaching it.
func Refused(err error) bool {
	return errors.Is(err, ope.ErrIndex) || errors.Is(err, ope.ErrCiphertext) || errors.Is(err, ErrTampered) ||
		errors.Is(err, ErrWrongKey) || errors.Is(err, ErrFormat)
}
