// Package maintain makes passes over a whole table, while readers and writers go on. One verifies it: it reads all rows,
// postings and indexes, and mends what is wrong. Another converts all rows to the present schema.
package maintain

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// An Environment is all that a pass needs besides the engine of the table.
type Environment struct {
	Now     func() *engine.Engine                         // of what this client knows of the table
	Refresh func(context.Context) (*engine.Engine, error) // of what the catalogue says of it

	// Fresh returns an engine whose schemes remember nothing, or nil if the table has changed since a version.
	Fresh func(ctx context.Context, since uint32) (*engine.Engine, error)

	// What a conversion reads and changes in the catalogue.
	Parts          int // of a table, that clients convert one by one
	Progress       func(context.Context) (catalogue.Progress, error)
	UpdateProgress func(context.Context, func(catalogue.Progress) (catalogue.Progress, bool)) (catalogue.Progress, error)
	Tenant         func(context.Context) (*meta.Tenant, error) // that the table is open for
	RefreshBound   func(context.Context)                       // of all tenants for which this client has the table open

	// Settle says in the table's entry that all rows are converted to a description, and returns the version that they
	// are converted to then, or 0 if the entry did not change.
	Settle func(context.Context, *meta.Table) (uint32, error)

	// DropIndexes removes the units of an index that nobody uses.
	DropIndexes func(ctx context.Context, ref meta.IndexRef, example *meta.Field, table meta.TableID) error

	Bound      bool                                                                                      // the table is open for a tenant
	ForTenants func(ctx context.Context, do func(*Environment) error) error                              // calls do with the table of each tenant
	Pseudonyms func(context.Context) (map[Pseudonym]bool, error)                                         // of all tenants
	DropUnused func(context.Context, *meta.Table) error                                                  // removes units of indexes that nobody uses
	Reindex    func(ctx context.Context, t *engine.Engine, column string, progress func(rows int)) error // makes an index again
}

// A Pseudonym is what the keys of rows and postings of a tenant begin with, in one table: its token
// there. It is zero where there are no tenants.
type Pseudonym [meta.TokenSize]byte

// PseudonymAt returns the one at a position of a key, or the zero one where the key is too short.
func PseudonymAt(key []byte, at int) (p Pseudonym) {
	if len(key) >= at+len(p) {
		copy(p[:], key[at:])
	}
	return p
}
