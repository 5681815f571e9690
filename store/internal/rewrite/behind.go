package rewrite

import (
	"context"
	"errors"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// behind returns an error if a row is newer than the catalogue. To make an index again is a change of the catalogue. After it, such
// rows would be no newer, and lose what the catalogue does not know of them when they are stored again. All rows are read of the tables
// that use the index. Of each other table without tenants it is a batch: to read all of a store for one index takes too long.
func behind(ctx context.Context, db *session.Database, ref meta.IndexRef) error {
	metas, version, err := db.Catalogue.Tables(ctx)
	if err != nil {
		return err
	}
	for _, m := range metas {
		uses, limit := len(m.Using(ref)) > 0, 0
		if !uses {
			if m.Tenants { // of which each would be asked
				continue
			}
			limit = chunks.FullBatch
		}
		tbl, err := db.Table(ctx, m, version)
		if err == nil {
			err = newer(ctx, tbl, limit)
		}
		if uses {
			err = lost(ctx, db, m, err)
		}
		dropped := isGone(err) && !errors.Is(err, fault.ErrTampered)
		if err != nil && !dropped && (uses || errors.Is(err, catalogue.ErrPutBack)) { // other tables may have faults of their own
			return err
		}
	}
	return nil
}

// lost returns the error of a table that is there no more, unless the catalogue has it still: then the database has lost a part of it.
// No index that it uses comes to an end, and nobody writes new values, until that is back or the table is dropped.
func lost(ctx context.Context, db *session.Database, m *meta.Table, err error) error {
	if !isGone(err) {
		return err
	}
	now, _, failed := db.Catalogue.Table(ctx, m.Name)
	switch {
	case errors.Is(failed, fault.ErrNoTable), failed == nil && now.ID != m.ID:
		return err
	case failed != nil:
		return failed
	}
	return db.Lost(ctx, now, err)
}

// isGone reports whether an error says that a table, or a part of it, is not there.
func isGone(err error) bool {
	return errors.Is(err, fault.ErrNoTable) || errors.Is(err, driver.ErrNoFamily)
}

// newer returns an error if one of some rows of a table is newer than the catalogue. 0 is all.
func newer(ctx context.Context, tbl *session.Table, limit int) error {
	t := tbl.Now()
	if t.Meta.Tenants && !tbl.Bound() {
		return tbl.EachTenant(ctx, func(one *session.Table) error { return newer(ctx, one, limit) })
	}
	keys := t.Rows(0, 1)
	keys.Cells.Only, keys.Limit = [][]byte{rowcodec.KeyQualifier}, limit
	return chunks.InBatches(ctx, t.Data, keys, func(rows []driver.Row) error {
		var s rowcodec.Scratch
		latest := uint32(0)
		for _, row := range rows {
			s.Where.Of(t.View, row.Key)
			for _, cell := range row.Cells { // of which one was left by a deletion is empty
				// Of one that was changed, nothing is known. One of another key says when it was written.
				_, h, err := t.OpenKeyCell(cell.Value, &s)
				if later := rowcodec.NewerRow(0); err == nil || errors.As(err, &later) {
					latest = max(latest, h.Policy)
				}
			}
		}
		_, err := t.Env.AtLeast(ctx, latest)
		return err
	})
}
