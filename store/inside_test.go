package store

import (
	"context"

	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// What tests see of a table below its face.

func (tbl *Table) now() *engine.Engine { return tbl.open().Now() }

func (tbl *Table) refresh(ctx context.Context) (*engine.Engine, error) {
	return tbl.open().Refresh(ctx)
}

func (tbl *Table) store() *Store { return &Store{tbl.open().Database()} }
