package administer

import (
	"context"
	"errors"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Replace gives new keys to what of a table writes under a listed one: to its cells, to what its columns are found by, or to both. It
// changes nothing where no newest key is listed, so that two who do the same, or one who does it again, replace each key once. Search
// keys stay that other columns have, too.
func Replace(ctx context.Context, db *session.Database, table string, listed func(id string) bool, cells, search bool) error {
	return Alter(ctx, db, table, nil, func(a *meta.Alteration) (err error) {
		k := db.Keys.Of(a.Meta)
		if search {
			err = replaceSearch(k, a, listed)
		}
		if err == nil && cells {
			err = replaceCells(k, a, listed)
		}
		return err
	})
}

func replaceSearch(k keyring.Table, a *meta.Alteration, listed func(string) bool) error {
	for i := range a.Meta.Columns {
		f := &a.Meta.Columns[i]
		if !f.Searchable() || f.Clear() {
			continue
		}
		key, err := k.Search(f)
		if err == nil && listed(keyring.ID(key)) {
			err = a.Rotate(f.Name)
		}
		if err != nil && !errors.Is(err, fault.ErrShared) {
			return err
		}
	}
	return nil
}

func replaceCells(k keyring.Table, a *meta.Alteration, listed func(string) bool) error {
	rows, err := k.Rows(a.Meta)
	if err != nil {
		return err
	}
	if listed(rows.NewestID()) {
		a.Meta.RowKeys, a.Changed = append(a.Meta.RowKeys, k.Fresh(keyring.PurposeRow, meta.ColumnID{})), true
	}
	for i := range a.Meta.Columns {
		f := &a.Meta.Columns[i]
		cells, err := k.Cells(f)
		if err != nil {
			return err
		}
		if listed(cells.NewestID()) {
			f.CellKeys, a.Changed = append(f.CellKeys, k.Fresh(keyring.PurposeCell, f.ID)), true
		}
	}
	return nil
}

// Prune removes keys of a table that nothing is under, but the newest, and former ids of columns that have such keys only. It is for a
// store of which nobody else is a client: a writer that sleeps might write under such a key when it wakes. It returns how many keys it has removed.
func Prune(ctx context.Context, db *session.Database, table string, unused func(id string) bool) (n int, err error) {
	err = Alter(ctx, db, table, nil, func(a *meta.Alteration) (err error) {
		n = 0
		whole, err := db.Whole(ctx, a.Meta)
		if err != nil {
			return err
		}
		a.Meta.RowKeys, a.Meta.Columns, a.Meta.Archived.From = whole.RowKeys, whole.Columns, a.Meta.Archived.To
		k := db.Keys.Of(a.Meta)
		list := func(purpose string, id meta.ColumnID, keys []meta.WrappedKey) (left []meta.WrappedKey) {
			for i, wrapped := range keys {
				key, failed := k.Open(purpose, id, wrapped)
				if err = errors.Join(err, failed); i < len(keys)-1 && failed == nil && unused(keyring.ID(key)) {
					n++
				} else {
					left = append(left, wrapped)
				}
			}
			return left
		}
		a.Meta.RowKeys = list(keyring.PurposeRow, meta.ColumnID{}, a.Meta.RowKeys)
		for i := range a.Meta.Columns {
			f := &a.Meta.Columns[i]
			f.CellKeys = list(keyring.PurposeCell, f.ID, f.CellKeys)
			for _, former := range slices.Clone(f.Former) {
				keys, failed := keysOf(k, &former)
				err = errors.Join(err, failed)
				if former.Converted && failed == nil && len(keys) > 0 && !slices.ContainsFunc(keys, func(id string) bool { return !unused(id) }) {
					n += len(keys)
					a.Forget(f, former.ID)
				}
			}
		}
		a.Changed = n > 0
		return err
	})
	return n, err
}

// keysOf returns the ids of all keys of a field.
func keysOf(k keyring.Table, f *meta.Field) ([]string, error) {
	cells, err := k.Cells(f)
	if err != nil {
		return nil, err
	}
	ids, err := cells.IDs()
	if err != nil {
		return nil, err
	}
	search, err := k.Search(f)
	if err == nil && !search.IsZero() {
		ids = append(ids, keyring.ID(search))
	}
	return ids, err
}
