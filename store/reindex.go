package store

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
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
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

// RebuildIndex makes the index of a key part or column with a stateful scheme again, from the rows: of
// one that [Table.Verify] finds damaged. Columns that share the index have it made again with it, those
// of other tables included. Readers and writers go on; those that need a new value of a
// [WozniakIndexed] column wait, and help. The call may be stopped at any moment, made again, and made
// by several clients at a time. progress may be nil; it is called with the number of rows read so far.
//
// Values that no row has are in the index no more. Memory is some 50 bytes for each distinct value of a
// WozniakIndexed column.
//
// A column without an index is [ErrColumn]. Rows that contradict the others stay as they are: Verify
// names them, and mends them with Repair.
func (tbl *Table) RebuildIndex(ctx context.Context, column string, progress func(rows int)) (err error) {
	t := tbl.now()
	ctx, end := tbl.st.observer.operation(ctx, "rebuild index", t.Family())
	rows := 0
	defer func() { end(rows, err) }()
	b := &indexBuild{st: tbl.st, progress: func(n int) {
		if rows = n; progress != nil {
			progress(n)
		}
	}}
	if t, err = tbl.refresh(ctx); err == nil {
		err = b.again(ctx, t, column)
	}
	if err == nil {
		_, err = tbl.refresh(ctx)
	}
	if err != nil {
		return fmt.Errorf("store: rebuild the index of column %q of %q: %w", column, tbl.now().Meta.Name, engine.Gone(err))
	}
	return nil
}

// changeIndex changes what the entries of all tables say of an index, with one change of the catalogue.
func (st *Store) changeIndex(ctx context.Context, ref indexRef, with func(e *edit, f *fieldMeta) bool) error {
	return st.catalogue.ChangeEntries(ctx, nil, func(e *edit) error {
		metas, err := e.Tables()
		if err != nil {
			return err
		}
		for _, meta := range metas {
			meta, changed := meta.Clone(), false
			for _, f := range meta.Using(ref) {
				changed = with(e, f) || changed
			}
			if changed {
				e.Put(meta)
			}
		}
		return nil
	})
}

// indexBuild is one execution of RebuildIndex, or of what a writer finishes of one.
type indexBuild struct {
	st       *Store
	progress func(rows int)
	rows     int
}

// again makes the index of a column again. If that is under way, and not damaged, it is finished.
func (b *indexBuild) again(ctx context.Context, t *engine.Engine, column string) error {
	c := t.ByName[column]
	if c == nil {
		return fmt.Errorf("%w: there is no column %q", ErrColumn, column)
	}
	if !c.Stateful {
		return fmt.Errorf("%w: it has no index", ErrColumn)
	}
	ref, was := t.IndexOf(c), c.Unit
	if c.Filling {
		if err := b.finish(ctx, ref); err == nil || !engine.Refused(err) || errors.Is(err, errPutBack) {
			return err
		}
	}
	err := b.st.changeIndex(ctx, ref, func(e *edit, f *fieldMeta) bool {
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
func (b *indexBuild) finish(ctx context.Context, ref indexRef) error {
	metas, version, err := b.st.catalogue.Tables(ctx)
	if err != nil {
		return err
	}
	metas = slices.DeleteFunc(metas, func(m *tableMeta) bool { return len(m.Using(ref)) == 0 })
	if len(metas) == 0 {
		return ErrNoTable
	}
	if f := metas[0].Using(ref)[0]; f.Filling {
		var tables []*Table
		for _, meta := range metas {
			tbl, err := b.st.open(ctx, meta, version)
			if err != nil {
				return err
			}
			tables = append(tables, tbl)
		}
		if err := b.fillAll(ctx, ref, tables); err != nil {
			return err
		}
		err = b.st.changeIndex(ctx, ref, func(_ *edit, g *fieldMeta) bool {
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
	for _, meta := range metas {
		if err := b.st.dropUnused(ctx, meta); err != nil {
			return err
		}
		b.st.mu.Lock()
		tbl := b.st.tables[meta.ID]
		b.st.mu.Unlock()
		if tbl != nil {
			_, _ = tbl.refresh(ctx) // what cannot be read now, the next write or query will
		}
		b.st.refreshBound(ctx, func(t *Table) bool { return t.id == meta.ID })
	}
	return nil
}

// fillAll fills an index from the rows of some tables: all of its units, one for each tenant.
func (b *indexBuild) fillAll(ctx context.Context, ref indexRef, tables []*Table) error {
	if !ref.Tenants {
		return b.fill(ctx, ref, tables)
	}
	names, err := b.st.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		bound := make([]*Table, len(tables))
		for i, tbl := range tables {
			if bound[i], err = tbl.Tenant(ctx, name); err != nil {
				break
			}
		}
		if err == nil {
			err = b.fill(ctx, ref, bound)
		}
		// One that was dropped by now is none.
		if err != nil && !errors.Is(err, ErrNoTenant) {
			return fmt.Errorf("tenant %q: %w", name, err)
		}
	}
	return nil
}

// fill puts the values of all rows into the unit of an index. Pairs that contradict others are left
// out, and with them nothing else is written.
func (b *indexBuild) fill(ctx context.Context, ref indexRef, tables []*Table) error {
	pairs := make(map[int64][][]byte) // the ciphertexts that rows have of a code
	var scheme ope.Scheme
	for _, tbl := range tables {
		t, err := tbl.refresh(ctx)
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
func (st *Store) dropIndexes(ctx context.Context, ref indexRef, example *fieldMeta, table tableID) error {
	k := st.keys.Table(table)
	family, _, _ := k.Units(example)
	f, err := st.db.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: true})
	if err != nil {
		return err
	}
	var units []string
	heads := driver.Slice{Only: [][]byte{metaQualifier, nonceQualifier}}
	for row, err := range f.Scan(ctx, driver.Range{Cells: heads, AnyOrder: true}) {
		if err != nil {
			return err
		}
		if len(row.Key) > 0 && row.Key[0] == 'u' {
			units = append(units, string(row.Key[1:]))
		}
	}
	// What is there was made by one that the catalogue, if it is read now, has.
	prefixes, present, err := st.unitNames(ctx, ref, k, example)
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
func (st *Store) unitNames(ctx context.Context, ref indexRef, k tableKeys, example *fieldMeta) (prefixes, present []string, err error) {
	metas, _, err := st.catalogue.Tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	var used []*fieldMeta
	for _, meta := range metas {
		for _, f := range meta.Using(ref) {
			if !f.Converted {
				used = append(used, f)
			}
		}
	}
	names := func(k tableKeys) {
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
	tenants, err := st.catalogue.AllTenants(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, tenant := range tenants {
		of, err := st.keys.OfTenant(k, tenant)
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
func (st *Store) dropUnused(ctx context.Context, meta *tableMeta) error {
	done := make(map[indexRef]bool)
	for _, f := range meta.All() {
		ref, ok := f.Index(meta)
		if !ok || done[ref] || f.Unit == 0 && !f.Converted {
			continue
		}
		done[ref] = true
		if err := st.dropIndexes(ctx, ref, f, meta.ID); err != nil {
			return err
		}
	}
	return nil
}
