package stores

import (
	"context"
	"errors"
	"iter"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ReadOnly returns a database of which nothing can be changed, for commands that show what they would do: what would
// change it is [driver.ErrReadOnly]. A family that would be made is there, and nothing can be read from it; and so is an index.
func ReadOnly(db driver.DB) driver.DB { return readOnly{db} }

type readOnly struct{ driver.DB }

func (db readOnly) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	wanted := !spec.Existing
	spec.Existing = true
	f, err := db.DB.Family(ctx, spec)
	if wanted && errors.Is(err, driver.ErrNoFamily) {
		return unmade{}, nil
	}
	if _, ok := f.(driver.Committer); ok && err == nil { // which decides the format of indexes
		return readOnlyCommitter{readOnlyFamily{f}}, nil
	}
	return readOnlyFamily{f}, err
}

func (readOnly) Drop(context.Context, string) error { return driver.ErrReadOnly }

// AddIndex says whether the database has indexes at all.
func (db readOnly) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	if _, ok := db.DB.(driver.Indexer); ok {
		return nil
	}
	return driver.AddIndex(ctx, db.DB, spec, name)
}

// DropIndex is for what AddIndex has not made.
func (readOnly) DropIndex(context.Context, driver.FamilySpec, string) error { return nil }

type readOnlyFamily struct{ driver.Family }

func (readOnlyFamily) Apply(context.Context, ...driver.Mutation) error { return driver.ErrReadOnly }

func (readOnlyFamily) Replace(context.Context, ...driver.Replacement) ([]int, error) {
	return nil, driver.ErrReadOnly
}

func (readOnlyFamily) CheckAndPut(context.Context, []byte, driver.Cell, ...driver.Cell) (bool, error) {
	return false, driver.ErrReadOnly
}

type readOnlyCommitter struct{ readOnlyFamily }

func (readOnlyCommitter) Commit(context.Context, []byte, []driver.Cell, []driver.Cell, [][]byte) (bool, error) {
	return false, driver.ErrReadOnly
}

type unmade struct{ readOnlyFamily }

func (unmade) Get(context.Context, []byte, driver.Slice) ([]driver.Cell, error) {
	return nil, driver.ErrReadOnly
}

func (unmade) GetBatch(context.Context, [][]byte, driver.Slice) ([][]driver.Cell, error) {
	return nil, driver.ErrReadOnly
}

func (unmade) Scan(context.Context, driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) { yield(driver.Row{}, driver.ErrReadOnly) }
}
