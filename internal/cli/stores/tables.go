package stores

import (
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// ErrNoTable is returned when the store does not hold the table, or none at all.
var ErrNoTable = errors.New("no such table")

// ErrEmpty is the ErrNoTable of a store that holds none.
var ErrEmpty = fmt.Errorf("%w: nothing was inserted into this store yet; if something was, --store names another keyspace or namespace", ErrNoTable)

// ErrNoneInserted is the ErrNoTable of a store that holds none that 'opebench insert' or 'run' makes.
var ErrNoneInserted = fmt.Errorf("%w: the store holds none that 'opebench insert' has made", ErrNoTable)

// Tables opens the tables of a store. With create it makes a store where the database holds none;
// otherwise that is ErrEmpty. A key that is not the store's is [exit.ErrKey].
func Tables(ctx context.Context, db driver.DB, key kms.KMS, create bool) (*store.Store, error) {
	if !create {
		families, err := db.Families(ctx)
		if err != nil {
			return nil, err
		}
		if len(families) == 0 {
			return nil, ErrEmpty
		}
	}
	st, err := store.Open(ctx, db, key, nil)
	if errors.Is(err, store.ErrWrongKey) {
		err = wrongKey{err}
	}
	return st, err
}

// wrongKey is [exit.ErrKey] in the words of package store.
type wrongKey struct{ error }

func (e wrongKey) Unwrap() []error { return []error{exit.ErrKey, e.error} }
