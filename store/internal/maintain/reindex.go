package maintain

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// The index of a stateful scheme is made again from the rows, whose sealed cells are the truth, where
// it was damaged. Nothing is mended in place: a client that remembers what a unit had would go on with
// that. So the steps are
//
//  1. one change of the catalogue gives all columns that use the index another number for it, and with
//     that other units; it says that these are being filled
//  2. the values of all rows are put there
//  3. another change says that it is done; and the former units are removed
//
// A writer reads the version after its rows, as ever. One that meets another number puts the values of
// its rows into the new units before it acknowledges them. Where ciphertexts move, which are in no row,
// that is all; ranges of such a column open rows until step 3. Where they stay, the pairs that rows
// have are put there first, as they are, and whoever needs a new pair before that is done does step 2
// and 3 himself: so nobody waits for a client that died. A row whose pair does not fit there, since
// its writer drew it from the former unit and came late, is stored again under one that does.

// RebuildIndex makes the index of a part or column again, and calls progress, if it is not nil, with the number of rows
// read so far.
func RebuildIndex(ctx context.Context, tbl *session.Table, column string, progress func(rows int)) error {
	t, err := tbl.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := (&indexBuild{db: tbl.Database(), progress: progress}).again(ctx, t, column); err != nil {
		return err
	}
	_, err = tbl.Refresh(ctx)
	return err
}

// FinishIndex finishes an index that is being made again, whoever began it.
func FinishIndex(ctx context.Context, db *session.Database, ref meta.IndexRef) error {
	return (&indexBuild{db: db}).finish(ctx, ref)
}

// indexBuild is one execution of RebuildIndex, or of what a writer finishes of one.
type indexBuild struct {
	db       *session.Database
	progress func(rows int)
	rows     int
}

// again makes the index of a column again. If that is under way, and not damaged, it is finished.
func (b *indexBuild) again(ctx context.Context, t *engine.Engine, column string) error {
	c := t.ByName[column]
	if c == nil {
		return fmt.Errorf("%w: there is no column %q", fault.ErrColumn, column)
	}
	if !c.Stateful {
		return fmt.Errorf("%w: it has no index", fault.ErrColumn)
	}
	ref, was := t.IndexOf(c), c.Unit
	if c.Filling {
		if err := b.finish(ctx, ref); err == nil || !engine.Refused(err) || errors.Is(err, catalogue.ErrPutBack) {
			return err
		}
	}
	err := b.changeIndex(ctx, ref, func(e *catalogue.Edit, f *meta.Field) bool {
		if f.Unit != was { // another client has begun
			return false
		}
		f.Unit, f.Filling = e.NextVersion(), true
		return true
	})
	if err != nil {
		return err
	}
	return b.finish(ctx, ref)
}

// finish fills an index with the values of all rows, says so, and removes what was there before.
func (b *indexBuild) finish(ctx context.Context, ref meta.IndexRef) error {
	metas, version, err := b.db.Catalogue.Tables(ctx)
	if err != nil {
		return err
	}
	metas = slices.DeleteFunc(metas, func(m *meta.Table) bool { return len(m.Using(ref)) == 0 })
	if len(metas) == 0 {
		return fault.ErrNoTable
	}
	if f := metas[0].Using(ref)[0]; f.Filling {
		var tables []*session.Table
		for _, m := range metas {
			tbl, err := b.db.Table(ctx, m, version)
			if err != nil {
				return err
			}
			tables = append(tables, tbl)
		}
		if err := b.fillAll(ctx, ref, tables); err != nil {
			return err
		}
		err = b.changeIndex(ctx, ref, func(_ *catalogue.Edit, g *meta.Field) bool {
			done := g.Filling && g.Unit == f.Unit
			if done {
				g.Filling = false
			}
			return done
		})
		if err != nil {
			return err
		}
	}
	for _, m := range metas {
		if err := dropUnused(ctx, b.db, m); err != nil {
			return err
		}
		b.db.Refresh(ctx, m.ID)
	}
	return nil
}

// changeIndex changes what the entries of all tables say of an index, with one change of the catalogue.
func (b *indexBuild) changeIndex(ctx context.Context, ref meta.IndexRef, with func(e *catalogue.Edit, f *meta.Field) bool) error {
	return b.db.Catalogue.ChangeEntries(ctx, nil, func(e *catalogue.Edit) error {
		metas, err := e.Tables()
		if err != nil {
			return err
		}
		for _, m := range metas {
			m, changed := m.Clone(), false
			for _, f := range m.Using(ref) {
				changed = with(e, f) || changed
			}
			if changed {
				e.Put(m)
			}
		}
		return nil
	})
}

// fillAll fills an index from the rows of some tables: all of its units, one for each tenant.
func (b *indexBuild) fillAll(ctx context.Context, ref meta.IndexRef, tables []*session.Table) error {
	if !ref.Tenants {
		return b.fill(ctx, ref, tables)
	}
	tenants, err := b.db.Catalogue.AllTenants(ctx)
	if err != nil {
		return fmt.Errorf("tenants: %w", err)
	}
	for _, tenant := range tenants {
		bound := make([]*session.Table, len(tables))
		for i, tbl := range tables {
			if bound[i], err = tbl.ForTenant(ctx, tenant.Name); err != nil {
				break
			}
		}
		if err == nil {
			err = b.fill(ctx, ref, bound)
		}
		// One that was dropped by now is none.
		if err != nil && !errors.Is(err, fault.ErrNoTenant) {
			return fmt.Errorf("tenant %q: %w", tenant.Name, err)
		}
	}
	return nil
}

// fill puts the values of all rows into the unit of an index. Pairs that contradict others are left
// out, and with them nothing else is written.
func (b *indexBuild) fill(ctx context.Context, ref meta.IndexRef, tables []*session.Table) error {
	pairs := make(map[int64][][]byte) // the ciphertexts that rows have of a code
	var scheme ope.Scheme
	for _, tbl := range tables {
		t, err := tbl.Refresh(ctx)
		if err != nil {
			return err
		}
		users := slices.DeleteFunc(slices.Concat(t.Parts, t.Stored), func(c *rowcodec.Column) bool { return !c.Stateful || t.IndexOf(c) != ref })
		if len(users) == 0 {
			continue
		}
		scheme = users[0].Scheme
		err = engine.InBatches(ctx, t.Data, engine.Under(t.Prefix), func(rows []driver.Row) error {
			b.rows += len(rows)
			if b.progress != nil {
				b.progress(b.rows)
			}
			found, err := t.PairsOf(ctx, users, rows)
			if err != nil {
				return err
			}
			if users[0].Order != nil {
				_, err := users[0].Batches.EncryptBatch(ctx, slices.Sorted(maps.Keys(found)))
				return err
			}
			for code, cts := range found {
				for _, ct := range cts {
					if !slices.ContainsFunc(pairs[code], func(other []byte) bool { return bytes.Equal(ct, other) }) {
						pairs[code] = append(pairs[code], ct)
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	indexed, ok := scheme.(*wozniak.Indexed)
	if !ok || len(pairs) == 0 {
		return nil
	}
	var all []wozniak.Pair
	for code, cts := range pairs {
		for _, ct := range cts {
			all = append(all, wozniak.Pair{Plaintext: code, Ciphertext: ct})
		}
	}
	_, err := indexed.Restore(ctx, all)
	return err
}

// dropIndexes removes what is left of an index but the units of its present number; all of it, if no
// row needs it any more. Nobody reads the others, and a client that still writes there, because it does
// not know of the change, puts what it wrote into the present ones.
func dropIndexes(ctx context.Context, db *session.Database, ref meta.IndexRef, example *meta.Field, table meta.TableID) error {
	k := db.Keys.Table(table)
	family, _, _ := k.Units(example)
	f, err := db.Driver.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: true})
	if err != nil {
		return err
	}
	var units []string
	heads := driver.Slice{Only: [][]byte{index.MetaQualifier, index.NonceQualifier}}
	for row, err := range f.Scan(ctx, driver.Range{Cells: heads, AnyOrder: true}) {
		if err != nil {
			return err
		}
		if len(row.Key) > 0 && row.Key[0] == 'u' {
			units = append(units, string(row.Key[1:]))
		}
	}
	// What is there was made by one that the catalogue, if it is read now, has.
	prefixes, present, err := unitNames(ctx, db, ref, k, example)
	if err != nil {
		return err
	}
	var drops []driver.Mutation
	for _, unit := range units {
		ours := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(unit, p) })
		kept := slices.ContainsFunc(present, func(p string) bool { return unit == p || strings.HasPrefix(unit, p+"/") })
		if ours && !kept {
			drops = append(drops, driver.Mutation{Row: append([]byte{'u'}, unit...), DeleteRow: true})
		}
	}
	if len(drops) == 0 {
		return nil
	}
	return f.Apply(ctx, drops...)
}

// unitNames returns what the names of all units of an index begin with, and those that are in use.
func unitNames(ctx context.Context, db *session.Database, ref meta.IndexRef, k keyring.Table, example *meta.Field) (prefixes, present []string, err error) {
	metas, _, err := db.Catalogue.Tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	var used []*meta.Field
	for _, m := range metas {
		for _, f := range m.Using(ref) {
			if !f.Converted {
				used = append(used, f)
			}
		}
	}
	names := func(k keyring.Table) {
		_, all, _ := k.Units(example)
		if prefixes = append(prefixes, all); len(used) > 0 {
			now := *example
			now.Unit = used[0].Unit
			_, unit := k.State(&now)
			present = append(present, unit)
		}
	}
	if !ref.Tenants {
		names(k)
		return prefixes, present, nil
	}
	tenants, err := db.Catalogue.AllTenants(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, tenant := range tenants {
		of, err := db.Keys.OfTenant(k, tenant)
		if err != nil {
			return nil, nil, err
		}
		names(of)
	}
	if ref.Secure == "" { // also those of tenants that are gone
		prefixes = append(prefixes, hex.EncodeToString(ref.Column[:]))
	}
	return prefixes, present, nil
}

// dropUnused removes what nobody uses of the indexes of a table: of its present and former columns
// what is there of earlier numbers, and all of those that no row needs.
func dropUnused(ctx context.Context, db *session.Database, m *meta.Table) error {
	done := make(map[meta.IndexRef]bool)
	for _, f := range m.All() {
		ref, ok := f.Index(m)
		if !ok || done[ref] || f.Unit == 0 && !f.Converted {
			continue
		}
		done[ref] = true
		if err := dropIndexes(ctx, db, ref, f, m.ID); err != nil {
			return err
		}
	}
	return nil
}
