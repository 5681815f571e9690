package meta

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// An Alteration is a table's schema on its way to the next.
type Alteration struct {
	Meta    *Table
	Changed bool
	Others  Others
	made    []ColumnID // by this alteration
	later   []laterList
}

// A laterList is a list of columns to copy that names some which are not there yet.
type laterList struct {
	of    ColumnID
	names []string
}

// choose is that of the table, but that a list may name columns which a later change makes: [Alteration.Finish] looks for them.
func (a *Alteration) choose(f *Field, names []string) {
	if err := a.Meta.choose(f, names); err != nil {
		a.later = append(a.later, laterList{f.ID, names})
	}
}

// Finish ends the alteration. It is an error if a column is to cover one that is not there.
func (a *Alteration) Finish() error {
	for _, list := range a.later {
		i := slices.IndexFunc(a.Meta.Columns, func(f Field) bool { return f.ID == list.of })
		if i < 0 {
			continue // dropped or changed since
		}
		if err := a.Meta.choose(&a.Meta.Columns[i], list.names); err != nil {
			return err
		}
	}
	return nil
}

// Others are the tables of the catalogue, in one change of it.
type Others interface {
	Tables() ([]*Table, error) // as they were before or, if they were put, as that
	Put(*Table)
}

// Column returns a column that may be changed.
func (a *Alteration) Column(name string) (*Field, error) {
	if slices.ContainsFunc(a.Meta.Key, func(f Field) bool { return f.Name == name }) {
		return nil, fmt.Errorf("%w: %q is a part of the row key, which cannot be changed", fault.ErrSchema, name)
	}
	i := slices.IndexFunc(a.Meta.Columns, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no column %q", fault.ErrColumn, name)
	}
	return &a.Meta.Columns[i], nil
}

func (a *Alteration) free(name string) error {
	for _, f := range slices.Concat(a.Meta.Key, a.Meta.Columns) {
		if f.Name == name {
			return fmt.Errorf("%w: column %q", fault.ErrExists, name)
		}
	}
	return nil
}

// Add adds a column.
func (a *Alteration) Add(c Spec) error {
	if err := a.free(c.Name); err != nil {
		return err
	}
	if n := len(a.Meta.Columns) + 1; n > MaxColumns {
		return tooManyColumns(a.Meta.Name, n)
	}
	meta, err := newTaken(a.Meta).named(c)
	if err == nil {
		err = cmp.Or(a.Meta.placed(c), a.Meta.pageable(c), a.sealable(&meta), a.Meta.cover(&meta), a.Meta.indexable(&meta))
	}
	if err != nil {
		return err
	}
	a.Meta.number(&meta)
	a.Meta.Columns, a.Changed = append(a.Meta.Columns, meta), true
	a.made = append(a.made, meta.ID)
	a.choose(&a.Meta.Columns[len(a.Meta.Columns)-1], c.Copied)
	return nil
}

// SetTTL changes how long rows live that are put from now on.
func (a *Alteration) SetTTL(ttl time.Duration) error {
	if err := a.Meta.ours("a TTL"); err != nil {
		return err
	}
	was := *a.Meta
	err := a.Meta.setTTL(ttl)
	a.Changed = a.Changed || was.TTL != a.Meta.TTL || was.Layout != a.Meta.Layout
	return err
}

// sealable returns an error where nothing of the table may be encrypted and the column would be:
// rows have key cells that are not sealed.
func (a *Alteration) sealable(f *Field) error {
	if a.Meta.Clear && !f.Clear() {
		return fmt.Errorf("%w: column %q cannot be encrypted in a table that was made with nothing encrypted", fault.ErrSchema, f.Name)
	}
	return nil
}

// Drop removes a column.
func (a *Alteration) Drop(name string) error {
	f, err := a.Column(name)
	if err == nil {
		err = Unshared(a.Others, a.Meta, f)
	}
	if err != nil {
		return err
	}
	id := f.ID
	for _, gone := range append([]Field{*f}, f.Former...) {
		if slices.Contains(a.made, gone.ID) {
			continue // nothing has been written under it
		}
		if gone.ServerIndex {
			a.Meta.DroppedIndexes = append(a.Meta.DroppedIndexes, gone.ID)
		} else if gone.Searchable() {
			a.Meta.Dropped = append(a.Meta.Dropped, gone.ID)
		}
	}
	a.Changed = true
	a.Meta.Columns = slices.DeleteFunc(a.Meta.Columns, func(f Field) bool { return f.ID == id })
	a.recopy(id)
	return nil
}

// Rename gives a part or column another name.
func (a *Alteration) Rename(from, to string) error {
	if err := a.Meta.Renamable(); err != nil {
		return err
	}
	if err := checkColumnName(to); err != nil {
		return err
	}
	if err := a.free(to); err != nil {
		return err
	}
	for _, list := range [][]Field{a.Meta.Key, a.Meta.Columns} {
		for i := range list {
			f := &list[i]
			if f.Name != from {
				continue
			}
			f.Name, a.Changed = to, true
			if !f.ownsKey() {
				return nil
			}
			return Reshare(a.Others, a.Meta, func(s Share) bool { return s.ColumnRef == ColumnRef{a.Meta.ID, f.ID} }, func(s *Share) { s.ColumnName = to })
		}
	}
	return fmt.Errorf("%w: there is no column %q", fault.ErrColumn, from)
}

// Change gives a column another encryption, scheme or confidentiality.
func (a *Alteration) Change(c Spec) error {
	if err := a.Meta.ours("another encryption"); err != nil {
		return err
	}
	f, err := a.Column(c.Name)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.Type.ID() != f.Type {
		was, err := value.ParseID(f.Type)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: column %q: the type cannot be changed from %s to %s: add a column of another name", fault.ErrSchema, c.Name, was, c.Type)
	}
	next := c.field()
	if err := cmp.Or(a.sealable(&next), a.Meta.cover(&next), a.Meta.indexable(&next)); err != nil {
		return err
	}
	as := *f
	known := a.Meta.choose(&as, c.Copied) == nil
	same := known && f.Encryption == c.Encryption && f.Scheme == c.Scheme && f.Confidentiality == c.Confidentiality &&
		f.Covering == c.Covering && slices.Equal(f.Copied, as.Copied) && f.ServerIndex == c.ServerIndex
	if same && (f.Share == nil || f.Share.TableName == c.Table && f.Share.ColumnName == c.Column) {
		return nil
	}
	return a.replace(f, c)
}

// Renew gives a column, which shares no key, another one, and with it an index of its own. Everything else stays as it is.
func (a *Alteration) Renew(name string) error {
	f, err := a.Column(name)
	if err != nil {
		return err
	}
	c, err := a.Meta.SpecOf(f)
	if err != nil {
		return err
	}
	return a.replace(f, c)
}

// Rotate gives a column another search key, under another id. It is an error where the key is not the column's alone: others
// would keep the old one, and no longer be comparable.
func (a *Alteration) Rotate(name string) error {
	if err := a.Meta.ours("another search key"); err != nil {
		return err
	}
	if slices.ContainsFunc(a.Meta.Key, func(f Field) bool { return f.Name == name }) {
		return fmt.Errorf("%w: %q is a part of the row key, whose search key is in the key of every row: copy the rows into a new table", fault.ErrSchema, name)
	}
	f, err := a.Column(name)
	switch {
	case err != nil:
		return err
	case !f.Searchable() || f.Clear():
		return fmt.Errorf("%w: column %q has no search key, since it is not searched, or not encrypted", fault.ErrSchema, name)
	case f.Confidentiality == OfDatabase:
		return fmt.Errorf("%w: column %q has the search key of all such columns of the database: give it one of its own, as a change of its encryption",
			fault.ErrShared, name)
	case f.Share != nil:
		return fmt.Errorf("%w: column %q has the search key of column %q of table %q: give it one of its own, as a change of its encryption",
			fault.ErrShared, name, f.Share.ColumnName, f.Share.TableName)
	}
	return a.Renew(name)
}

// Forget removes a former id of a column, which no row has.
func (a *Alteration) Forget(f *Field, id ColumnID) {
	f.Former = slices.DeleteFunc(f.Former, func(former Field) bool { return former.ID == id })
	a.recopy(id)
	a.Changed = true
}

// replace puts a column in the place of one, which keeps the values that rows have until they are converted.
func (a *Alteration) replace(f *Field, c Spec) error {
	if err := Unshared(a.Others, a.Meta, f); err != nil {
		return err
	}
	// Cells and postings of the old kind stay what they are, under the old id. There are none of one that this alteration has made.
	former := *f
	former.Name, former.Former = "", nil
	var kept []Field
	if !slices.Contains(a.made, former.ID) {
		kept = []Field{former}
	}
	taken := newTaken(a.Meta)
	delete(taken.names, c.Name)
	next, err := taken.newField(c)
	if err != nil {
		return err
	}
	next.Former = append(kept, f.Former...)
	*f, a.Changed = next, true
	a.made = append(a.made, next.ID)
	a.recopy(former.ID, next.ID)
	a.choose(f, c.Copied)
	return nil
}

// recopy has copies that some columns were chosen for have others in place of one.
func (a *Alteration) recopy(id ColumnID, others ...ColumnID) {
	for _, f := range a.Meta.All() {
		if at := slices.Index(f.Copied, id); at >= 0 {
			f.Copied = slices.Replace(slices.Clone(f.Copied), at, at+1, others...)
		}
	}
}

// Unshared returns an error if another column shares the key of a column of the table or, where the
// column is nil, if one of another table shares any of the table's.
func Unshared(e Others, meta *Table, column *Field) error {
	owners := slices.Clone(meta.Columns)
	if column != nil {
		owners = append([]Field{*column}, column.Former...)
	}
	if !slices.ContainsFunc(owners, func(f Field) bool { return f.ownsKey() || len(f.Former) > 0 }) {
		return nil
	}
	metas, err := e.Tables()
	if err != nil {
		return err
	}
	for _, other := range metas {
		if other.ID == meta.ID {
			other = meta // as far as it was changed by now
		}
		for _, f := range other.All() {
			switch {
			case f.Share == nil || f.Share.Table != meta.ID:
			case column == nil && other.ID != meta.ID,
				column != nil && slices.ContainsFunc(owners, func(o Field) bool { return o.ID == f.Share.Column }):
				name, had := other.nameOf(f.ID)
				if had {
					return fmt.Errorf("%w: %q of table %q shared that of %q, and a client that sleeps may still write it so; it is kept as long as that column is: "+
						"copy table %[3]q into a new one before, as 'rangecrypt rekey --row-keys' does, or drop the column", fault.ErrShared, name, other.Name, f.Share.ColumnName)
				}
				return fmt.Errorf("%w: %q of table %q shares that of %q: drop it before, or give it a key of its own and then copy table %[3]q into a new one, "+
					"as 'rangecrypt rekey --row-keys' does", fault.ErrShared, name, other.Name, f.Share.ColumnName)
			}
		}
	}
	return nil
}

// Reshare changes what is said of an owner in the columns that share a key of the table: in meta,
// which is on its way, and in other tables, which it puts.
func Reshare(e Others, meta *Table, which func(Share) bool, with func(*Share)) error {
	change := func(m *Table) (changed bool) {
		for _, f := range m.All() {
			if f.Share != nil && which(*f.Share) {
				s := *f.Share
				with(&s)
				f.Share, changed = &s, true
			}
		}
		return changed
	}
	change(meta)
	metas, err := e.Tables()
	if err != nil {
		return err
	}
	for _, other := range metas {
		if other.ID == meta.ID {
			continue
		}
		if other = other.Clone(); change(other) {
			e.Put(other)
		}
	}
	return nil
}
