// Package administer changes and describes what the catalogue says of tables and tenants, and makes and drops what the
// database has for them.
package administer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Create makes a table.
func Create(ctx context.Context, db *session.Database, schema meta.Schema) (*session.Table, error) {
	m, err := meta.New(schema)
	if err != nil {
		// One that is there may have a schema that could not be given any more.
		if _, _, absent := db.Catalogue.Table(ctx, schema.Name); absent == nil {
			err = fmt.Errorf("%w: table %q; and as given now, it could not be made: %w", fault.ErrExists, schema.Name, err)
		}
		return nil, fmt.Errorf("create: %w", err)
	}
	// Programs may make their tables whenever they start: then families need not be made to be dropped again.
	if _, _, absent := db.Catalogue.Table(ctx, m.Name); absent == nil {
		return nil, fmt.Errorf("create table %q: %w", schema.Name, fault.ErrExists)
	}
	// The families come first: a client that sees the table in the catalogue finds them.
	// Families of a Create that died here are empty, and nothing points to them.
	err = makeFamilies(ctx, db, m, nil)
	if err == nil {
		if _, err = makeIndexes(ctx, db, m, nil); err != nil {
			takeBack(ctx, db, m)
		}
	} else if ctx.Err() == nil && !errors.Is(err, driver.ErrUnavailable) { // the database refuses one of them
		takeBack(ctx, db, m)
	}
	if err != nil {
		return nil, fmt.Errorf("create table %q: %w", schema.Name, err)
	}
	var made *meta.Table
	err = db.Catalogue.Change(ctx, append(m.SharesWith(), m.Name), func(e *catalogue.Edit) error {
		if e.Table(m.Name) != nil {
			return fault.ErrExists // of the table that the error names
		}
		made = m.Clone()
		return complete(db, e, made)
	})
	if err != nil {
		if !mayBeMade(err) {
			takeBack(ctx, db, m)
		}
		return nil, fmt.Errorf("create table %q: %w", schema.Name, err)
	}
	tbl, err := db.Table(ctx, made, made.Version)
	if err != nil {
		return nil, fmt.Errorf("table %q was created, but cannot be opened: %w", schema.Name, fault.Gone(err))
	}
	return tbl, nil
}

// takeBackTime is for how long what was made in vain is taken back where the context has ended: the database may be what has not answered.
const takeBackTime = 10 * time.Second

// takeBack drops the families of a table that is not made. Nothing refers to them; failing to drop them costs their empty space.
func takeBack(ctx context.Context, db *session.Database, m *meta.Table) {
	ctx, cancel := pause.Outlasting(ctx, takeBackTime)
	defer cancel()
	_ = dropFamilies(ctx, db, m)
}

// mayBeMade reports whether a change of the catalogue that ended with an error is there, or may be: then others may use what it came with.
func mayBeMade(err error) bool {
	return errors.Is(err, driver.ErrUnknownOutcome) || errors.As(err, new(*fault.Unwaited))
}

// makeFamilies makes the families that a table needs and did not need before, if it was there.
func makeFamilies(ctx context.Context, db *session.Database, m, before *meta.Table) error {
	specs, err := familiesOf(db, m, false)
	if err != nil {
		return err
	}
	if before != nil {
		there, err := familiesOf(db, before, false)
		if err != nil {
			return err
		}
		maps.DeleteFunc(specs, func(name string, _ driver.FamilySpec) bool { _, ok := there[name]; return ok })
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if _, err := db.Driver.Family(ctx, specs[name]); err != nil {
			return err
		}
	}
	return nil
}

// makeIndexes makes the indexes of the database that a table needs and did not need before. It returns those that may be made, also
// with an error.
func makeIndexes(ctx context.Context, db *session.Database, m, before *meta.Table) (made []string, err error) {
	if m.Elsewhere() {
		return nil, nil
	}
	spec, err := m.DataSpec()
	if err != nil {
		return nil, err
	}
	var there []string
	if before != nil {
		there = before.ServerIndexes()
	}
	for _, f := range m.All() {
		name := meta.IndexName(f.ID)
		if !f.ServerIndex || f.Converted || slices.Contains(there, name) {
			continue
		}
		made = append(made, name)
		err := driver.AddIndex(ctx, db.Driver, spec, name)
		if errors.Is(err, driver.ErrNoIndex) {
			return made, fmt.Errorf("%w: column %q cannot have a server index: %w; leave it out: then the column has index entries, which every database keeps",
				fault.ErrSchema, f.Name, err)
		}
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// familiesOf returns the families that a table needs, those of columns of other tables whose keys it shares only where asked for.
func familiesOf(db *session.Database, m *meta.Table, shared bool) (map[string]driver.FamilySpec, error) {
	if m.Elsewhere() {
		return nil, nil
	}
	data, err := m.DataSpec()
	if err != nil {
		return nil, err
	}
	specs := map[string]driver.FamilySpec{data.Name: data}
	if m.HasPostings() {
		postings := m.PostingSpec()
		specs[postings.Name] = postings
	}
	k := db.Keys.Table(m.ID)
	for _, f := range m.All() {
		if scheme.Stateful(f.Scheme) && (shared || f.Confidentiality != meta.OfColumns) {
			name, _ := k.State(f)
			specs[name] = driver.FamilySpec{Name: name, Layout: driver.LayoutWide}
		}
	}
	return specs, nil
}

// Remake makes the families again that the database has lost of a table, if a verification can fill them: those of its index
// entries and indexes, and of the indexes whose keys it shares. It returns their names. Of a table whose rows are lost it makes nothing.
func Remake(ctx context.Context, db *session.Database, table string) (made []string, err error) {
	m, _, err := db.Catalogue.Table(ctx, table)
	if err != nil {
		return nil, err
	}
	if m, err = db.Whole(ctx, m); err != nil {
		return nil, err
	}
	specs, err := familiesOf(db, m, true)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		there := specs[name]
		there.Existing = true
		switch _, err := db.Driver.Family(ctx, there); {
		case err == nil:
		case !errors.Is(err, driver.ErrNoFamily):
			return nil, err
		case name == m.DataFamily():
			return nil, nil
		default:
			made = append(made, name)
		}
	}
	for _, name := range made {
		if _, err := db.Driver.Family(ctx, specs[name]); err != nil {
			return nil, err
		}
	}
	// Who drops the table removes it from the catalogue first, and then its families.
	_, _, _, err = db.Catalogue.Entry(ctx, m.Name, m.ID, nil)
	if errors.Is(err, fault.ErrNoTable) {
		for _, name := range made {
			err = fault.Join(err, db.Driver.Drop(ctx, name))
		}
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// complete puts a description whose new fields have no keys yet, nor an owner of a shared one.
func complete(db *session.Database, e *catalogue.Edit, m *meta.Table) error {
	k := db.Keys.Of(m)
	k.Equip(m)
	for i := range m.Columns {
		f := &m.Columns[i]
		if f.Confidentiality != meta.OfColumns || f.SearchKey != nil {
			continue
		}
		other := m
		if f.Share.TableName != m.Name {
			if other = e.Table(f.Share.TableName); other == nil {
				return fmt.Errorf("%w: column %q shares the key of a column of %q", fault.ErrNoTable, f.Name, f.Share.TableName)
			}
		}
		if other.Tenants != m.Tenants {
			return fmt.Errorf("%w: column %q cannot share the key of a column of %q: one of the tables has tenants, the other has not", fault.ErrSchema, f.Name, f.Share.TableName)
		}
		owner, err := other.Shareable(f)
		if err != nil {
			return err
		}
		key, err := db.Keys.Table(other.ID).Search(owner)
		if err != nil {
			return err
		}
		if owner.Share != nil {
			f.Share = owner.Share
		} else {
			f.Share = &meta.Share{
				ColumnRef: meta.ColumnRef{Table: other.ID, Column: owner.ID}, TableName: other.Name, ColumnName: owner.Name,
			}
		}
		f.SearchKey = k.Seal(keyring.PurposeSearch, f.ID, key)
		f.Unit, f.Filling = owner.Unit, owner.Filling
	}
	if err := e.JoinIndexes(m); err != nil {
		return err
	}
	for _, f := range m.All() {
		if f.Since == 0 {
			f.Since = e.NextVersion()
		}
	}
	e.Put(m)
	return nil
}

// Alter makes one change of the catalogue that replaces the description of a table. It needs those of
// the tables whose keys columns are to share.
func Alter(ctx context.Context, db *session.Database, table string, shares []string, do func(*meta.Alteration) error) error {
	var before, next *meta.Table
	var indexes []string // that attempts made
	var tried meta.TableID
	doubted := false
	err := db.Catalogue.Change(ctx, append([]string{table}, shares...), func(e *catalogue.Edit) error {
		if before = e.Table(table); before == nil {
			return fault.ErrNoTable
		}
		if _, err := before.Schema(); err != nil {
			return err // before something is made for it
		}
		next = before.Clone()
		a := &meta.Alteration{Meta: next, Others: e}
		if err := do(a); err != nil || !a.Changed {
			return err
		}
		err := a.Finish()
		if err == nil {
			doubted, err = doubt(ctx, db, before, next)
		}
		if err != nil {
			return err
		}
		// As when a table is created, families come first. One that is made for nothing is empty,
		// and is dropped with the table.
		tried = next.ID
		if err := makeFamilies(ctx, db, next, before); err != nil {
			return err
		}
		made, err := makeIndexes(ctx, db, next, before)
		if indexes = append(indexes, made...); err != nil {
			return err
		}
		return complete(db, e, next)
	})
	if mayBeMade(err) {
		return err // the table has the indexes, or may
	}
	undoing, cancel := pause.Outlasting(ctx, takeBackTime)
	defer cancel()
	for _, name := range indexes {
		if err != nil || !slices.Contains(next.ServerIndexes(), name) {
			spec, _ := next.DataSpec()                           // which they were made with
			_ = driver.DropIndex(undoing, db.Driver, spec, name) // one that is left is empty
		}
	}
	if errors.Is(err, fault.ErrNoTable) && tried != (meta.TableID{}) {
		_ = dropRest(undoing, db, tried) // if it was dropped meanwhile, before a family was made
	}
	if err == nil {
		db.Show(ctx, next)
	}
	if doubted && err == nil {
		_, err = doubt(ctx, db, before, next) // what was verified while the table was altered
	}
	return err
}

// doubt has rows verified again, before the cut-over, that come into a table, or out of it, if there is a column of a name that it did not
// have: the name may be that of a column which was dropped, and whose values were verified. It reports whether there are such rows.
func doubt(ctx context.Context, db *session.Database, before, next *meta.Table) (doubted bool, err error) {
	was := make(map[string]meta.ColumnID)
	for _, f := range before.Columns {
		was[f.Name] = f.ID
	}
	if !slices.ContainsFunc(next.Columns, func(is meta.Field) bool {
		of := func(f meta.Field) bool { return f.ID == was[is.Name] }
		return !of(is) && !slices.ContainsFunc(is.Former, of)
	}) {
		return false, nil
	}
	return doubtEach(ctx, db, func(into meta.TableID, rec catalogue.Migration) (bool, error) {
		return into == next.ID || rec.From(next), nil
	})
}

// doubtEach has rows verified again by some of the migrations that go on, and reports whether there are such.
func doubtEach(ctx context.Context, db *session.Database, which func(into meta.TableID, rec catalogue.Migration) (bool, error)) (doubted bool, err error) {
	records, err := db.Catalogue.Dual(ctx)
	for into, rec := range records {
		is, err := which(into, rec)
		if err == nil && is {
			doubted, err = true, db.Catalogue.Doubt(ctx, into)
		}
		if err != nil {
			return doubted, err
		}
	}
	return doubted, err
}

// RotateKeys gives a table a new key for key cells, and one to each of the named columns, or to all where none is named.
func RotateKeys(ctx context.Context, db *session.Database, table string, columns []string) error {
	return Alter(ctx, db, table, nil, func(a *meta.Alteration) error {
		if a.Meta.Tenants {
			return fmt.Errorf("%w: the keys of its cells are those of the tenants; see RotateTenantKey", fault.ErrTenant)
		}
		if a.Meta.Elsewhere() {
			return fmt.Errorf("%w: the application keeps its rows, whose keys are not rotated: add another column, and write the values there", fault.ErrSchema)
		}
		keys := db.Keys.Table(a.Meta.ID)
		for _, name := range columns {
			if slices.ContainsFunc(a.Meta.Key, func(f meta.Field) bool { return f.Name == name }) {
				return fmt.Errorf("%w: %q is a part of the row key, which has no key of its own: the cells of row keys get a new one in any case", fault.ErrColumn, name)
			}
			f, err := a.Column(name)
			if err == nil && f.Clear() {
				err = fmt.Errorf("%w: column %q is not sealed", fault.ErrColumn, name)
			}
			if err != nil {
				return err
			}
		}
		a.Meta.RowKeys = append(a.Meta.RowKeys, keys.Fresh(keyring.PurposeRow, meta.ColumnID{}))
		for i := range a.Meta.Columns {
			f := &a.Meta.Columns[i]
			if !f.Clear() && (len(columns) == 0 || slices.Contains(columns, f.Name)) {
				f.CellKeys = append(f.CellKeys, keys.Fresh(keyring.PurposeCell, f.ID))
			}
		}
		a.Changed = true
		return nil
	})
}

// RotateSearchKeys gives each of the named columns of a table a new search key.
func RotateSearchKeys(ctx context.Context, db *session.Database, table string, columns []string) error {
	if len(columns) == 0 {
		return fmt.Errorf("%w: no column is named: name those that are to get new search keys", fault.ErrColumn)
	}
	return Alter(ctx, db, table, nil, func(a *meta.Alteration) error {
		if a.Meta.Tenants {
			return fmt.Errorf("%w: its search keys are derived from the keys of the tenants, and stay as long as these", fault.ErrTenant)
		}
		for i, name := range columns {
			if slices.Contains(columns[:i], name) {
				continue
			}
			if err := a.Rotate(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// RenameTable gives a table another name.
func RenameTable(ctx context.Context, db *session.Database, from, to string) error {
	if err := meta.CheckTableName(to); err != nil {
		return err
	}
	if _, err := unmigrated(ctx, db, from, false); err != nil {
		return err
	}
	var m *meta.Table
	err := db.Catalogue.Change(ctx, []string{from, to}, func(e *catalogue.Edit) error {
		before := e.Table(from)
		switch {
		case before == nil:
			return fault.ErrNoTable
		case e.Table(to) != nil:
			return fmt.Errorf("%w: table %q", fault.ErrExists, to)
		}
		if err := before.Renamable(); err != nil {
			return err
		}
		m = before.Clone()
		m.Name = to
		err := meta.Reshare(e, m, func(s meta.Share) bool { return s.Table == m.ID }, func(s *meta.Share) { s.TableName = to })
		if err != nil {
			return err
		}
		e.Remove(from)
		e.Put(m)
		return nil
	})
	if err != nil {
		return err
	}
	db.Show(ctx, m)
	return nil
}

// DropTable removes a table with all its rows: the one that has the name when it begins. Another one may get the name meanwhile.
func DropTable(ctx context.Context, db *session.Database, name string) error {
	m, err := unmigrated(ctx, db, name, true)
	if err != nil {
		return err
	}
	return dropTable(ctx, db, name, m.ID)
}

// DropSource removes a table of which all rows have come into another one, unless that is done. A table that has got its name is another one.
func DropSource(ctx context.Context, db *session.Database, name string, source meta.TableID) error {
	_, err := unmigrated(ctx, db, name, true)
	if err == nil {
		err = dropTable(ctx, db, name, source)
	}
	if errors.Is(err, fault.ErrNoTable) {
		err = dropRest(ctx, db, source)
	}
	return err
}

// dropTable removes the table that has a name and an id.
func dropTable(ctx context.Context, db *session.Database, name string, id meta.TableID) error {
	var m *meta.Table
	err := db.Catalogue.Change(ctx, []string{name}, func(e *catalogue.Edit) error {
		switch m = e.Table(name); {
		case m == nil:
			return fault.ErrNoTable
		case m.ID != id:
			return another(fault.ErrNoTable)
		}
		if err := meta.Unshared(e, m, nil); err != nil {
			return err
		}
		e.Remove(name)
		return nil
	})
	if err == nil {
		err = dropFamilies(ctx, db, m)
	} else if !errors.As(err, new(*fault.Unwaited)) {
		return err
	}
	if err != nil {
		return fmt.Errorf("it is gone from the catalogue, but its data is not yet; drop families %s: %w", strings.Join(m.Families(), ", "), err)
	}
	return nil
}

// another returns the error of a kind for what is to be dropped and has been, where another one has its name.
func another(kind error) error {
	return fmt.Errorf("%w: another client has dropped it, and another one has its name by now, which stays", kind)
}

// unmigrated returns a table, and an error if the rows of a table are coming into another one or, if that matters, those of another one into
// it: then applications write both.
func unmigrated(ctx context.Context, db *session.Database, name string, into bool) (*meta.Table, error) {
	m, other, phase, err := follower(ctx, db, name)
	if err == nil && into {
		switch rec, err := db.Catalogue.Migration(ctx, m.ID); {
		case err != nil:
			return nil, err
		case rec.Phase.Dual():
			return nil, fmt.Errorf("%w: rows of %s are coming into it: cut the migration over, or abort it, before", fault.ErrPhase, rec.Source)
		}
	}
	if err == nil && phase.Dual() {
		err = fmt.Errorf("%w: its rows are coming into table %q: cut the migration over, or abort it, before", fault.ErrPhase, other)
	}
	return m, err
}

// Followed returns [fault.ErrPhase] if the rows of a table are coming into another one of the database, or have come: what is written by
// who does not know that would be missing there.
func Followed(ctx context.Context, db *session.Database, name string) error {
	_, other, phase, err := follower(ctx, db, name)
	switch {
	case err != nil:
		return err
	case phase.Dual():
		return fmt.Errorf("%w: the rows of table %q are coming into table %q, which would not get what is written here: let that come to its end, or abort it, before", fault.ErrPhase, name, other)
	case phase == catalogue.PhaseCutOver, phase == catalogue.PhaseDropped: // a drop that was interrupted ends without another look at rows
		return fmt.Errorf("%w: the rows of table %q are in table %q by now: write there", fault.ErrPhase, name, other)
	}
	return nil
}

// Own is of a source of rows that is a table of a store, and returns that table, or nil where it is gone.
type Own interface{ Own() *session.Table }

// NoSource returns [fault.ErrPhase] if rows of a table that others are to come into are coming into another one, or have come: that one would
// miss the others, and who drops the source of that one would drop them. It may be the source of the others, then of any database.
func NoSource(ctx context.Context, tbl *session.Table, source any) error {
	t := tbl.Now().Meta
	_, other, _, err := follower(ctx, tbl.Database(), t.Name)
	if own, is := source.(Own); is && own.Own() != nil && err == nil && other == "" {
		from := own.Own()
		var rec catalogue.Migration
		rec, err = from.Database().Catalogue.Migration(ctx, from.ID())
		if rec.From(t) && rec.Phase != catalogue.PhaseAborted {
			other = from.Now().Meta.Name
		}
	}
	if err == nil && other != "" {
		err = fmt.Errorf("%w: rows of table %q are coming into table %q, or have come, and who drops the source of that one drops what comes here: take another table", fault.ErrPhase, t.Name, other)
	}
	return err
}

// MadeAgain returns [fault.ErrNoTable] if a table was dropped and made again under its name, and rows of a source come into the new one, or have
// come: it would not get what is written by who has the old one.
func MadeAgain(ctx context.Context, was *session.Table, source string) error {
	db := was.Database()
	now, _, err := db.Catalogue.Table(ctx, was.Now().Meta.Name)
	switch {
	case errors.Is(err, fault.ErrNoTable):
		return nil
	case err != nil:
		return err
	case now.ID == was.ID():
		return nil
	}
	rec, err := db.Catalogue.Migration(ctx, now.ID)
	if err == nil && rec.Source == source && rec.Phase != "" && rec.Phase != catalogue.PhaseAborted {
		err = fmt.Errorf("%w: there is another one with its name by now, into which the rows come: open that one, and take its Mirror", fault.ErrNoTable)
	}
	return err
}

// follower returns a table and, if its rows are coming into another one, or have come, the name of that and the phase of the migration.
func follower(ctx context.Context, db *session.Database, name string) (m *meta.Table, other string, phase catalogue.Phase, err error) {
	e, err := db.Catalogue.All(ctx)
	if err != nil {
		return nil, "", "", err
	}
	if m = e.Table(name); m == nil {
		return nil, "", "", fault.ErrNoTable
	}
	tables, err := e.Tables()
	if err != nil {
		return nil, "", "", err
	}
	records, err := db.Catalogue.Migrations(ctx, tables)
	if err != nil {
		return nil, "", "", err
	}
	for _, into := range tables {
		rec := records[into.ID]
		switch {
		case rec.From(m) && rec.Phase.Dual(): // which matters more
			return m, into.Name, rec.Phase, nil
		case rec.From(m) && (rec.Phase == catalogue.PhaseCutOver || rec.Phase == catalogue.PhaseDropped):
			other, phase = into.Name, rec.Phase
		}
	}
	return m, other, phase, nil
}

// dropFamilies closes a table that is gone, and drops what it had in the database.
func dropFamilies(ctx context.Context, db *session.Database, m *meta.Table) error {
	db.Forget(m.ID)
	var err error
	for _, family := range m.Families() {
		err = fault.Join(err, db.Driver.Drop(ctx, family))
	}
	return err
}

// Gone returns an error if a table of which rows have come is in the catalogue, under any name.
func Gone(ctx context.Context, db *session.Database, rec catalogue.Migration) error {
	source, err := rec.SourceID()
	if err != nil {
		return err
	}
	return gone(ctx, db, source)
}

func gone(ctx context.Context, db *session.Database, source meta.TableID) error {
	e, err := db.Catalogue.All(ctx)
	if err != nil {
		return err
	}
	m, err := e.Find("", source)
	switch {
	case err == nil:
		return fmt.Errorf("it is table %q by now, and nothing was dropped: rename it back, or drop it by that name", m.Name)
	case errors.Is(err, fault.ErrNoTable):
		return nil
	}
	return err
}

// DropRest drops what an earlier drop has left of a table that is gone from the catalogue, of which rows have come. One that is there by
// another name stays, and is an error.
func DropRest(ctx context.Context, db *session.Database, rec catalogue.Migration) error {
	source, err := rec.SourceID()
	if err != nil {
		return err
	}
	return dropRest(ctx, db, source)
}

func dropRest(ctx context.Context, db *session.Database, source meta.TableID) error {
	if err := gone(ctx, db, source); err != nil {
		return err
	}
	return dropFamilies(ctx, db, &meta.Table{ID: source})
}
