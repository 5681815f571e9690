package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Change is a change of a table's schema, for [Store.Alter].
type Change struct {
	shares []string // tables that it needs the entries of
	apply  func(*alteration) error
}

// An alteration is a table's schema on its way to the next.
type alteration struct {
	edit    *edit
	meta    *tableMeta
	changed bool
}

// AddColumn adds a column. Rows that are there have no value in it. A name that a part or column
// has is [ErrExists].
func AddColumn(c Column) Change {
	return Change{tableOf(c), func(a *alteration) error { return a.add(c) }}
}

// DropColumn removes a column: from now on it has no values, and what rows still hold of it cannot
// be opened any more. One whose key another column shares is [ErrShared].
func DropColumn(name string) Change {
	return Change{nil, func(a *alteration) error { return a.drop(name) }}
}

// RenameColumn gives a part or column another name. Nothing but the catalogue is written.
func RenameColumn(from, to string) Change {
	return Change{nil, func(a *alteration) error { return a.rename(from, to) }}
}

// ChangeColumn gives the column of the name of c the encryption, scheme and confidentiality of c;
// the type must be as it was. Rows that are there keep the values and are read as before, but are
// not found by what the database can search until [Table.Convert] has written them anew: queries
// open and check them all.
//
// In a table of which nothing is encrypted a column cannot be encrypted; make another table.
func ChangeColumn(c Column) Change {
	return Change{tableOf(c), func(a *alteration) error { return a.change(c) }}
}

func tableOf(c Column) []string {
	if c.confidentiality == ofColumns {
		return []string{c.table}
	}
	return nil
}

// Alter changes the schema of a table: all the changes, one after the other, or none of them. It
// is one small write, and no row is touched. Other clients notice before they acknowledge their
// next write.
//
// A column that is not there is [ErrColumn], one that is there already [ErrExists], and a change
// that makes no sense [ErrSchema], as is every change of the row key other than a name.
func (st *Store) Alter(ctx context.Context, table string, changes ...Change) (err error) {
	ctx, end := st.observer.operation(ctx, "alter", "")
	defer func() { end(0, err) }()
	names := []string{table}
	for _, c := range changes {
		if c.apply == nil {
			return fmt.Errorf("store: alter table %q: %w: a Change was not made by a function of this package", table, ErrSchema)
		}
		names = append(names, c.shares...)
	}
	err = st.alter(ctx, table, names, func(a *alteration) error {
		for _, c := range changes {
			if err := c.apply(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: alter table %q: %w", table, err)
	}
	return nil
}

// RotateKeys gives a table a new key for the cells of row keys, with what is packed in them, and
// each of the named columns, or all where none is named, a new key for its cells. New values are
// sealed with the new keys; what is there stays readable, under the keys whose ids it carries, and
// [Table.Convert] writes it anew. It is one small write.
//
// What values are found by, ciphertexts and tokens, has keys of its own, which are not replaced:
// change the column, see [ChangeColumn].
func (st *Store) RotateKeys(ctx context.Context, table string, columns ...string) (err error) {
	ctx, end := st.observer.operation(ctx, "rotate keys", "")
	defer func() { end(0, err) }()
	err = st.alter(ctx, table, []string{table}, func(a *alteration) error {
		if a.meta.Tenants {
			return fmt.Errorf("%w: the keys of its cells are those of the tenants; see RotateTenantKey", ErrTenant)
		}
		keys := st.keys.table(a.meta.ID)
		for _, name := range columns {
			f, err := a.column(name)
			if err == nil && f.clear() {
				err = fmt.Errorf("%w: column %q is not sealed", ErrColumn, name)
			}
			if err != nil {
				return err
			}
		}
		a.meta.RowKeys = append(a.meta.RowKeys, keys.fresh(purposeRow, columnID{}))
		for i := range a.meta.Columns {
			f := &a.meta.Columns[i]
			if !f.clear() && (len(columns) == 0 || slices.Contains(columns, f.Name)) {
				f.CellKeys = append(f.CellKeys, keys.fresh(purposeCell, f.ID))
			}
		}
		a.changed = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: rotate keys of table %q: %w", table, err)
	}
	return nil
}

// alter makes one change of the catalogue that replaces the meta of a table.
func (st *Store) alter(ctx context.Context, table string, names []string, do func(*alteration) error) error {
	var next *tableMeta
	err := st.catalogue.change(ctx, names, func(e *edit) error {
		before := e.table(table)
		if before == nil {
			return ErrNoTable
		}
		next = before.clone()
		a := &alteration{edit: e, meta: next}
		if err := do(a); err != nil || !a.changed {
			return err
		}
		// As when a table is created, families come first. One that is made for nothing is empty,
		// and is dropped with the table.
		if err := st.makeFamilies(ctx, next, before); err != nil {
			return err
		}
		return st.complete(e, next)
	})
	if err != nil {
		return err
	}
	st.show(ctx, next)
	return nil
}

// show lets the table, if it is open, know what the catalogue says of it since a change.
func (st *Store) show(ctx context.Context, meta *tableMeta) {
	st.mu.Lock()
	tbl := st.tables[meta.ID]
	st.mu.Unlock()
	if tbl != nil {
		// If families cannot be opened now, the next write or query will.
		_, _ = tbl.adopt(ctx, meta, nil, meta.Version)
	}
	st.refreshBound(ctx, func(b *Table) bool { return b.id == meta.ID })
}

// RenameTable gives a table another name. Nothing but the catalogue is written, and tables that are
// open stay so. A table that does not exist is [ErrNoTable], and a name that is taken [ErrExists].
func (st *Store) RenameTable(ctx context.Context, from, to string) (err error) {
	ctx, end := st.observer.operation(ctx, "rename", "")
	defer func() { end(0, err) }()
	if err := checkTableName(to); err != nil {
		return fmt.Errorf("store: rename table %q: %w", from, err)
	}
	var meta *tableMeta
	err = st.catalogue.change(ctx, []string{from, to}, func(e *edit) error {
		before := e.table(from)
		switch {
		case before == nil:
			return ErrNoTable
		case e.table(to) != nil:
			return fmt.Errorf("%w: table %q", ErrExists, to)
		}
		meta = before.clone()
		meta.Name = to
		err := e.sharers(meta, func(s share) bool { return s.Table == meta.ID }, func(s *share) { s.TableName = to })
		if err != nil {
			return err
		}
		e.remove(from)
		e.put(meta)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: rename table %q: %w", from, err)
	}
	st.show(ctx, meta)
	return nil
}

// Drop removes a table with all its rows. One that does not exist is [ErrNoTable]; one with a
// column whose key a column of another table shares is [ErrShared]. Readers and writers of the
// table get errors from now on.
func (st *Store) Drop(ctx context.Context, name string) (err error) {
	ctx, end := st.observer.operation(ctx, "drop", "")
	defer func() { end(0, err) }()
	var meta *tableMeta
	err = st.catalogue.change(ctx, []string{name}, func(e *edit) error {
		if meta = e.table(name); meta == nil {
			return ErrNoTable
		}
		if err := e.unshared(meta, nil); err != nil {
			return err
		}
		e.remove(name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: drop table %q: %w", name, err)
	}
	if err := st.dropFamilies(ctx, meta); err != nil {
		return fmt.Errorf("store: drop table %q: it is gone from the catalogue, but its data is not yet; drop families %s: %w",
			name, strings.Join(meta.families(), ", "), err)
	}
	return nil
}

// column returns a column that may be changed.
func (a *alteration) column(name string) (*fieldMeta, error) {
	if slices.ContainsFunc(a.meta.Key, func(f fieldMeta) bool { return f.Name == name }) {
		return nil, fmt.Errorf("%w: %q is a part of the row key, which cannot be changed", ErrSchema, name)
	}
	i := slices.IndexFunc(a.meta.Columns, func(f fieldMeta) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no column %q", ErrColumn, name)
	}
	return &a.meta.Columns[i], nil
}

func (a *alteration) free(name string) error {
	for _, f := range slices.Concat(a.meta.Key, a.meta.Columns) {
		if f.Name == name {
			return fmt.Errorf("%w: column %q", ErrExists, name)
		}
	}
	return nil
}

func (a *alteration) add(c Column) error {
	if err := a.free(c.name); err != nil {
		return err
	}
	if n := len(a.meta.Columns) + 1; n > maxColumns {
		return tooManyColumns(a.meta.Name, n)
	}
	meta, err := newTaken(a.meta).newField(c.field)
	if err == nil {
		err = a.sealable(&meta)
	}
	a.meta.Columns, a.changed = append(a.meta.Columns, meta), true
	return err
}

// sealable returns an error where nothing of the table may be encrypted and the column would be:
// rows have key cells that are not sealed.
func (a *alteration) sealable(f *fieldMeta) error {
	if a.meta.Clear && !f.clear() {
		return fmt.Errorf("%w: column %q cannot be encrypted in a table that was made with nothing encrypted", ErrSchema, f.Name)
	}
	return nil
}

func (a *alteration) drop(name string) error {
	f, err := a.column(name)
	if err == nil {
		err = a.edit.unshared(a.meta, f)
	}
	if err != nil {
		return err
	}
	id := f.ID
	for _, gone := range append([]fieldMeta{*f}, f.Former...) {
		if gone.searchable() {
			a.meta.Dropped = append(a.meta.Dropped, gone.ID)
		}
	}
	a.changed = true
	a.meta.Columns = slices.DeleteFunc(a.meta.Columns, func(f fieldMeta) bool { return f.ID == id })
	return nil
}

func (a *alteration) rename(from, to string) error {
	if err := checkColumnName(to); err != nil {
		return err
	}
	if err := a.free(to); err != nil {
		return err
	}
	for _, list := range [][]fieldMeta{a.meta.Key, a.meta.Columns} {
		for i := range list {
			f := &list[i]
			if f.Name != from {
				continue
			}
			f.Name, a.changed = to, true
			if !f.ownsKey() {
				return nil
			}
			return a.edit.sharers(a.meta, func(s share) bool { return s.columnRef == columnRef{a.meta.ID, f.ID} }, func(s *share) { s.ColumnName = to })
		}
	}
	return fmt.Errorf("%w: there is no column %q", ErrColumn, from)
}

func (a *alteration) change(c Column) error {
	f, err := a.column(c.name)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if id := c.typ.id(); id != f.Type {
		return fmt.Errorf("%w: column %q: the type cannot be changed from %s to %s", ErrSchema, c.name, f.Type, id)
	}
	next := fieldMeta{Name: c.name, Type: f.Type, Encryption: c.encryption, Scheme: c.scheme, Confidentiality: c.confidentiality}
	if err := a.sealable(&next); err != nil {
		return err
	}
	same := f.Encryption == c.encryption && f.Scheme == c.scheme && f.Confidentiality == c.confidentiality
	if same && (f.Share == nil || f.Share.TableName == c.table && f.Share.ColumnName == c.column) {
		return nil
	}
	if err := a.edit.unshared(a.meta, f); err != nil {
		return err
	}
	// Cells and postings of the old kind stay what they are, under the old id.
	former := *f
	former.Name, former.Former = "", nil
	taken := newTaken(a.meta)
	delete(taken.names, c.name)
	if next, err = taken.newField(c.field); err != nil {
		return err
	}
	next.Former = append([]fieldMeta{former}, f.Former...)
	*f, a.changed = next, true
	return nil
}

// ownsKey reports whether other columns may share the key of the field.
func (m *fieldMeta) ownsKey() bool {
	return (m.Encryption == ordered || m.Encryption == deterministic) && m.Confidentiality == ofColumn
}

// unshared returns an error if another column shares the key of a column of the table or, where the
// column is nil, if one of another table shares any of the table's.
func (e *edit) unshared(meta *tableMeta, column *fieldMeta) error {
	owners := slices.Clone(meta.Columns)
	if column != nil {
		owners = append([]fieldMeta{*column}, column.Former...)
	}
	if !slices.ContainsFunc(owners, func(f fieldMeta) bool { return f.ownsKey() || len(f.Former) > 0 }) {
		return nil
	}
	metas, err := e.tables()
	if err != nil {
		return err
	}
	for _, other := range metas {
		if other.ID == meta.ID {
			other = meta // as far as it was changed by now
		}
		for _, f := range other.all() {
			switch {
			case f.Share == nil || f.Share.Table != meta.ID:
			case column == nil && other.ID != meta.ID,
				column != nil && slices.ContainsFunc(owners, func(o fieldMeta) bool { return o.ID == f.Share.Column }):
				return fmt.Errorf("%w: %q of table %q shares that of %q", ErrShared, f.Name, other.Name, f.Share.ColumnName)
			}
		}
	}
	return nil
}

// sharers changes what is said of an owner in the columns that share a key of the table: in meta,
// which is on its way, and in other tables, which it puts.
func (e *edit) sharers(meta *tableMeta, which func(share) bool, with func(*share)) error {
	change := func(m *tableMeta) (changed bool) {
		for _, f := range m.all() {
			if f.Share != nil && which(*f.Share) {
				s := *f.Share
				with(&s)
				f.Share, changed = &s, true
			}
		}
		return changed
	}
	change(meta)
	metas, err := e.tables()
	if err != nil {
		return err
	}
	for _, other := range metas {
		if other.ID == meta.ID {
			continue
		}
		if other = other.clone(); change(other) {
			e.put(other)
		}
	}
	return nil
}

// settle notes which former ids of a table's columns no row has any more, because all of them were
// written under the version swept of the catalogue or a later one. It returns the latest version of
// the entry that all rows are known to follow, which takes in what it has noted itself; or 0 if the entry
// was changed since swept, and nothing was left to note.
func (st *Store) settle(ctx context.Context, name string, id tableID, swept uint32) (version uint32, err error) {
	err = st.catalogue.change(ctx, []string{name}, func(e *edit) error {
		meta, err := e.find(name, id)
		if err != nil {
			return err
		}
		meta = meta.clone()
		settled := false
		for i := range meta.Columns {
			f := &meta.Columns[i]
			for j := range f.Former {
				if f.Since <= swept && !f.Former[j].Converted {
					f.Former[j].Converted, settled = true, true
				}
			}
		}
		if meta.Version <= swept && len(meta.Dropped) > 0 {
			meta.Dropped, settled = nil, true
		}
		same := meta.Version == swept
		if settled {
			e.put(meta)
		}
		switch {
		case same:
			version = meta.Version
		case settled:
			version = swept
		default:
			version = 0
		}
		return nil
	})
	return version, err
}
