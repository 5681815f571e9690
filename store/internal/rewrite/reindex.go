package rewrite

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// The index of a stateful scheme is made again from the rows, whose sealed cells are the truth, where
// it was damaged. Nothing is mended in place: a client that remembers what a unit had would go on with
// that. So the steps are
//
//  1. one change of the catalogue gives all columns that use the index another number for it, and with
//     that other units; it says that these are being filled
//  2. the values of all rows are put there
//  3. another change says that it is done; and the former units are emptied or removed
//
// A writer reads the version after its rows, as ever. One that meets another number puts the values of
// its rows into the new units before it acknowledges them; if there is yet another number by then, into
// those. Where ciphertexts move, which are in no row, that is all; ranges of such a column open rows until
// step 3.
//
// Where they stay, a writer may have drawn a pair from the former unit and store its row at any later time.
// If the new unit did not have that pair, the row would have to be stored again under another key, and
// be there twice until then; and a value that others store in between would have two ciphertexts. So step 2 is
//
//  2. a. the rows are read
//     b. the former unit is sealed: no pair is drawn there any more, and it is never opened again
//     c. its pairs are put into the new unit, and those of rows that contradict none of them
//
// Whatever was drawn before b is in c. Who draws later is refused, reads the catalogue and begins again: it has
// written no row yet. Whoever needs a new pair before step 3 does 2 and 3 himself, so nobody waits for a
// client that died.
//
// A row is stored again under another ciphertext only if its pair is missing or wrong in a former unit that was
// damaged, or was left out because that unit was half full.

// RebuildIndex makes the index of a part or column again, and calls progress, if it is not nil, with the number of rows
// read so far.
func RebuildIndex(ctx context.Context, tbl *session.Table, column string, progress func(rows int)) error {
	t, err := tbl.Refresh(ctx)
	if err != nil {
		return err
	}
	build := &indexBuild{db: tbl.Database(), progress: progress}
	if err := build.again(ctx, tbl, t, column); err != nil {
		return err
	}
	switch _, err = tbl.Refresh(ctx); {
	case err == nil && build.unfit > 0:
		err = fault.As(fmt.Sprintf("the index is made again, but the schema does not take %d rows, which stay as they are, and until they are put "+
			"again with other values, queries by the column open all rows", build.unfit), ope.ErrIndex)
	case err == nil && build.left > 0:
		err = fault.As(fmt.Sprintf("the index is made again, but %d values that rows have contradict others and are not in it; "+
			"Verify with Repair, 'rangecrypt verify --repair', stores these rows again", build.left), ope.ErrIndex)
	}
	return err
}

// Reindex is RebuildIndex of a table as the caller knows it. It says nothing of rows that were left as they are.
func Reindex(ctx context.Context, tbl *session.Table, t *engine.Engine, column string, progress func(rows int)) error {
	return (&indexBuild{db: tbl.Database(), progress: progress}).again(ctx, tbl, t, column)
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
	was      uint32 // number of the index when it began, or 0
	left     int    // values of rows that were left out, since they contradict others
	unfit    int    // rows that the schema does not take, where all rows are stored again
}

// again makes the index of a column again. If that is under way, and not damaged, it is finished.
func (b *indexBuild) again(ctx context.Context, tbl *session.Table, t *engine.Engine, column string) error {
	c := t.ByName[column]
	if c == nil {
		return fmt.Errorf("%w: there is no column %q", fault.ErrColumn, column)
	}
	if c.ServerIndex {
		return fmt.Errorf("%w: the database keeps its index; where that is gone, Verify with Repair, 'rangecrypt verify --repair', makes it again", fault.ErrColumn)
	}
	if !c.Stateful {
		return fmt.Errorf("%w: it has no index", fault.ErrColumn)
	}
	ref, was := t.IndexOf(c), c.Unit
	b.was = was
	err := behind(ctx, b.db, ref)
	if err != nil {
		return err
	}
	if c.RankSize > 0 {
		b.unfit, err = renew(ctx, tbl, column, b.progress)
		return err
	}
	if c.Filling {
		if err := b.finish(ctx, ref); err == nil || !fault.Refused(err) || errors.Is(err, catalogue.ErrPutBack) {
			return err
		}
	}
	for first := true; ; first = false {
		last := was
		err = b.changeIndex(ctx, ref, func(e *catalogue.Edit, f *meta.Field) bool {
			if f.Unit != last { // another client has begun
				return false
			}
			f.Unit, f.Filling = e.NextVersion(), true
			was = f.Unit
			return true
		})
		if err != nil {
			return err
		}
		// A catalogue that is newer than this one, and was put back, may have had an index of that number, which is over. Nor does
		// it have one of the next number, since the end of an index has one, too.
		if err = b.finish(ctx, ref); err == nil || !first || !fault.Refused(err) || errors.Is(err, catalogue.ErrPutBack) {
			return err
		}
	}
}

// finish fills an index with the values of all rows, says so, and removes what was there before. If another
// client begins to make it again, it is that one which is finished. A table that is dropped meanwhile needs it no more.
func (b *indexBuild) finish(ctx context.Context, ref meta.IndexRef) error {
	for {
		metas, version, err := b.users(ctx, ref)
		if err != nil {
			return err
		}
		err = b.finishOnce(ctx, ref, metas, version)
		dropped := isGone(err)
		if !dropped && !fault.Refused(err) {
			return err
		}
		now, _, failed := b.users(ctx, ref)
		switch {
		case errors.Is(failed, fault.ErrNoTable):
			return err
		case failed != nil:
			return fault.Join(err, failed)
		}
		changed := now[0].Using(ref)[0].Unit != metas[0].Using(ref)[0].Unit
		if dropped {
			changed = slices.ContainsFunc(metas, func(m *meta.Table) bool {
				return !slices.ContainsFunc(now, func(n *meta.Table) bool { return n.ID == m.ID })
			})
		}
		if !changed {
			return err
		}
		pause.Repeats(ctx, "index_changed")
	}
}

// users returns the tables that use an index, and the version of the catalogue that says so. It is an error if there are none.
func (b *indexBuild) users(ctx context.Context, ref meta.IndexRef) ([]*meta.Table, uint32, error) {
	metas, version, err := b.db.Catalogue.Tables(ctx)
	metas = slices.DeleteFunc(metas, func(m *meta.Table) bool { return len(m.Using(ref)) == 0 })
	if err == nil && len(metas) == 0 {
		err = fault.ErrNoTable
	}
	return metas, version, err
}

// finishOnce does so for the index as it is in the catalogue at a version, in tables that use it.
func (b *indexBuild) finishOnce(ctx context.Context, ref meta.IndexRef, metas []*meta.Table, version uint32) error {
	f := metas[0].Using(ref)[0]
	if f.Filling {
		if err := b.db.Catalogue.Quiesce(ctx, version); err != nil {
			return err
		}
		var tables []*session.Table
		for _, m := range metas {
			tbl, err := b.db.Table(ctx, m, version)
			if err != nil {
				return lost(ctx, b.db, m, err)
			}
			tables = append(tables, tbl)
		}
		if err := b.fillAll(ctx, ref, tables); err != nil {
			return err
		}
		err := b.changeIndex(ctx, ref, func(_ *catalogue.Edit, g *meta.Field) bool {
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
		if err := DropUnused(ctx, b.db, m); err != nil {
			return err
		}
		b.db.Refresh(ctx, m.ID)
	}
	return nil
}

// changeIndex changes what the entries of all tables say of an index, with one change of the catalogue.
func (b *indexBuild) changeIndex(ctx context.Context, ref meta.IndexRef, with func(e *catalogue.Edit, f *meta.Field) bool) error {
	return fault.Part(b.db.Catalogue.ChangeEntries(ctx, nil, func(e *catalogue.Edit) error {
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
	}))
}

// fillAll fills an index from the rows of some tables: all of its units, one for each tenant.
func (b *indexBuild) fillAll(ctx context.Context, ref meta.IndexRef, tables []*session.Table) error {
	b.left = 0
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

// fill puts the values of all rows into the unit of an index, and the pairs of its former unit. Pairs that
// contradict others are left out, and with them nothing else is written.
func (b *indexBuild) fill(ctx context.Context, ref meta.IndexRef, tables []*session.Table) error {
	pairs := make(map[int64][][]byte) // the ciphertexts that rows have of a code
	stores := func(code int64, ct []byte) bool {
		return slices.ContainsFunc(pairs[code], func(other []byte) bool { return bytes.Equal(ct, other) })
	}
	var from *session.Table
	var user *rowcodec.Column
	for _, tbl := range tables {
		t, err := tbl.Refresh(ctx)
		if err != nil {
			return err
		}
		users := slices.DeleteFunc(slices.Concat(t.Parts, t.Stored), func(c *rowcodec.Column) bool { return !c.Stateful || t.IndexOf(c) != ref })
		if len(users) == 0 {
			continue
		}
		from, user = tbl, users[0]
		err = chunks.InBatches(ctx, t.Data, chunks.Under(t.Prefix), func(rows []driver.Row) error {
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
					if !stores(code, ct) {
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
	if user == nil || user.Order != nil {
		return nil
	}
	// After the rows were read, since that may fail. What was drawn by now for other rows is there.
	former, err := b.sealFormer(ctx, from, user)
	if err != nil {
		return err
	}
	var stored []wozniak.Pair
	for code, cts := range pairs {
		for _, ct := range cts {
			stored = append(stored, wozniak.Pair{Plaintext: code, Ciphertext: ct})
		}
	}
	for _, lists := range former {
		for j, list := range lists {
			if len(list) > mostCarried {
				lists[j] = slices.DeleteFunc(list, func(p wozniak.Pair) bool { return !stores(p.Plaintext, p.Ciphertext) })
			}
		}
	}
	left, err := user.Scheme.(*wozniak.Indexed).Restore(ctx, nil, slices.Concat(former[0], [][]wozniak.Pair{stored}, former[1])...)
	for _, p := range left {
		if stores(p.Plaintext, p.Ciphertext) {
			b.left++
		}
	}
	return err
}

// mostCarried is how many pairs the former unit of an index may have for those to be kept that no row has. Beyond it, most of them
// are of rows that are gone, and an index that is made again is the time to leave them.
const mostCarried = 500_000

// sealFormer ends the former units of an index whose pairs never change. It returns the pairs of those that are
// sound, and of the others, the newest unit first.
func (b *indexBuild) sealFormer(ctx context.Context, tbl *session.Table, c *rowcodec.Column) (former [2][][]wozniak.Pair, err error) {
	m, tenant, _, err := tbl.Entry(ctx)
	if err != nil {
		return former, err
	}
	k := b.db.Keys.Table(m.ID)
	if tenant != nil {
		if k, err = b.db.Keys.OfTenant(k, tenant); err != nil {
			return former, err
		}
	}
	i := slices.IndexFunc(m.All(), func(f *meta.Field) bool { return f.ID == c.Id })
	if i < 0 {
		return former, nil // it was dropped
	}
	field := m.All()[i]
	family, all, first := k.Units(field)
	_, present := k.State(field)
	if present == first {
		return former, nil
	}
	f, err := b.db.Driver.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: true})
	if err != nil {
		return former, err
	}
	heads, err := index.Heads(ctx, f)
	if err != nil {
		return former, err
	}
	var units []string
	for unit, head := range heads {
		// Those of higher numbers, if there are any by now, are not former ones.
		// What came of the division of one is sealed with it.
		if strings.HasPrefix(unit, all+"-") && unit < present && !index.Retired(head) && !strings.Contains(unit, "/") {
			units = append(units, unit)
		}
	}
	if b.was > 0 { // also if it was never opened, so that it is not
		was := *field
		was.Unit = b.was
		if _, unit := k.State(&was); unit < present && heads[unit] == nil {
			units = append(units, unit)
		}
	}
	slices.Sort(units)
	slices.Reverse(units)
	if !index.Retired(heads[first]) {
		units = append(units, first) // so, too
	}
	for _, unit := range units {
		was, err := c.FormerScheme(unit)
		if err != nil {
			return former, err
		}
		pairs, sound, err := was.(*wozniak.Indexed).Seal(ctx)
		switch {
		case fault.Refused(err):
			sound = false
		case err != nil:
			return former, fmt.Errorf("column %q: %w", c.Name, err)
		}
		if sound {
			former[0] = append(former[0], pairs)
		} else {
			former[1] = append(former[1], pairs)
		}
	}
	return former, nil
}

// leftovers removes what is left of indexes. It reads the heads of a family once, however many indexes columns of the table had.
type leftovers struct {
	db    *session.Database
	table meta.TableID
	found map[string]foundUnits // by family
}

// foundUnits are the heads of the units of a family.
type foundUnits struct {
	family driver.Family
	heads  map[string][]driver.Cell
}

func newLeftovers(db *session.Database, table meta.TableID) *leftovers {
	return &leftovers{db, table, make(map[string]foundUnits)}
}

func (s *leftovers) units(ctx context.Context, family string) (u foundUnits, err error) {
	u, has := s.found[family]
	if has {
		return u, nil
	}
	if u.family, err = s.db.Driver.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: true}); err == nil {
		u.heads, err = index.Heads(ctx, u.family)
	}
	if err == nil {
		s.found[family] = u
	}
	return u, err
}

// index removes what is left of an index but the units of its present number; all of it, if no
// row needs it any more. Nobody reads the others. A client that still writes to one, because it does not know of
// the change, puts what it wrote into the present ones; where pairs never change it cannot, since a mark is left.
// As long as the present units are being filled, the others are needed.
func (s *leftovers) index(ctx context.Context, ref meta.IndexRef, example *meta.Field) error {
	k := s.db.Keys.Table(s.table)
	family, all, _ := k.Units(example)
	units, err := s.units(ctx, family)
	if err != nil {
		return err
	}
	// Names of units begin with that, those of tenants included, unless each tenant has other names. Mostly nothing is left, as
	// of all former indexes, and the catalogue is not read for that.
	if !ref.Tenants || ref.Secure == "" {
		left := false
		for unit := range units.heads {
			left = left || strings.HasPrefix(unit, all)
		}
		if !left {
			return nil
		}
	}
	// What is there was made by one that the catalogue, if it is read now, has.
	names, err := namesOfUnits(ctx, s.db, ref, k, example)
	if err != nil || names.filling {
		return err
	}
	var drops []driver.Mutation
	for unit, head := range units.heads {
		begins := func(with string) bool { return strings.HasPrefix(unit, with) }
		kept := slices.ContainsFunc(names.present, func(p string) bool { return unit == p || begins(p+"/") })
		if kept || !slices.ContainsFunc(names.all, begins) {
			continue
		}
		if example.Scheme == scheme.WozniakIndexed && slices.ContainsFunc(names.used, begins) {
			if index.Retired(head) {
				continue
			}
			if err := index.Retire(ctx, units.family, ope.Unit(unit)); !fault.Refused(err) {
				if err != nil {
					return err
				}
				continue
			}
			// It cannot be opened again, nor read: it goes.
		}
		drops = append(drops, driver.Mutation{Row: append([]byte{'u'}, unit...), DeleteRow: true})
	}
	if len(drops) == 0 {
		return nil
	}
	return units.family.Apply(ctx, drops...)
}

// unitNames are the names of all units of an index.
type unitNames struct {
	all     []string // what they begin with
	used    []string // what those begin with that belong to a present tenant, or to none, if rows need the index
	present []string // those that rows need
	filling bool     // which lack values of rows
}

// namesOfUnits reads the catalogue, which says which units are in use.
func namesOfUnits(ctx context.Context, db *session.Database, ref meta.IndexRef, k keyring.Table, example *meta.Field) (n unitNames, err error) {
	metas, _, err := db.Catalogue.Tables(ctx)
	if err != nil {
		return n, err
	}
	var used []*meta.Field
	for _, m := range metas {
		for _, f := range m.Using(ref) {
			if !f.Converted {
				used = append(used, f)
				n.filling = n.filling || f.Filling
			}
		}
	}
	names := func(k keyring.Table) {
		_, all, _ := k.Units(example)
		if n.all = append(n.all, all); len(used) > 0 {
			now := *example
			now.Unit = used[0].Unit
			_, unit := k.State(&now)
			n.used, n.present = append(n.used, all), append(n.present, unit)
		}
	}
	if !ref.Tenants {
		names(k)
		return n, nil
	}
	tenants, err := db.Catalogue.AllTenants(ctx)
	if err != nil {
		return n, err
	}
	for _, tenant := range tenants {
		of, err := db.Keys.OfTenant(k, tenant)
		if err != nil {
			return n, err
		}
		names(of)
	}
	if ref.Secure == "" { // also those of tenants that are gone
		n.all = append(n.all, hex.EncodeToString(ref.Column[:]))
	}
	return n, nil
}

// DropUnused removes what nobody uses of the indexes of a table: of its present and former columns
// what is there of earlier numbers, and all of those that no row needs.
func DropUnused(ctx context.Context, db *session.Database, m *meta.Table) error {
	done, left := make(map[meta.IndexRef]bool), newLeftovers(db, m.ID)
	for _, f := range m.All() {
		ref, ok := f.Index(m)
		if !ok || done[ref] || f.Unit == 0 && !f.Converted {
			continue
		}
		done[ref] = true
		if err := left.index(ctx, ref, f); err != nil {
			return err
		}
	}
	return nil
}
