package meta

import (
	"crypto/rand"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// NewElsewhere returns the description of a table whose rows are in a table that the application keeps. It has a new id,
// and no columns yet.
func NewElsewhere(name string) (*Table, error) {
	m := &Table{Name: name, Key: []Field{}, Columns: []Field{}, Layout: inspect.Elsewhere}
	rand.Read(m.ID[:])
	return m, CheckTableName(name)
}

// Elsewhere reports whether the rows of the table are in a table that the application keeps. Then the catalogue has the
// keys of the columns, and nothing of the table is in a family.
func (m *Table) Elsewhere() bool { return m.Layout == inspect.Elsewhere }

// Paged reports whether the rows of the table are in sealed pages.
func (m *Table) Paged() bool { return m.PlainLayout() == inspect.Paged }

// Apart returns why package store does not open the table itself, and what to do instead; "" is that it does.
func (m *Table) Apart() string {
	switch {
	case m.Elsewhere():
		return "the application keeps its rows, and package store/cell opens its fields, and Store.Alter and Store.Drop of package store change and drop it"
	case m.Paged():
		return "its rows are in pages, and package store/paged opens it, and Store.Alter and Store.Drop of package store change and drop it"
	}
	return ""
}

// Registrable returns an error if a column makes no sense in the table, whether the table has one of its name or not.
func (m *Table) Registrable(c Spec) error {
	if err := c.check(); err != nil {
		return err
	}
	return m.placed(c)
}

// placed returns an error if nothing can be sealed or found under the keys of a column of the table, because the rows are
// elsewhere.
func (m *Table) placed(f Spec) error {
	what := ""
	switch {
	case !m.Elsewhere():
	case f.Encryption == Plain || scheme.Clear(f.Scheme):
		what = "is not encrypted, and needs no keys: leave it out"
	case scheme.Stateful(f.Scheme):
		what = fmt.Sprintf("has the scheme %q, which keeps its ciphertexts in an index of its own: take %q, %q or %q",
			f.Scheme, scheme.MOPE, scheme.Boldyreva, scheme.Wozniak)
	case f.Confidentiality != OfColumn:
		what = "shares a search key: leave that out"
	case f.Covering || f.ServerIndex:
		what = "has copies or a server index: leave that out, and make an index of the application's own table"
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: column %q of table %q, whose rows the application keeps, %s", fault.ErrSchema, f.Name, m.Name, what)
}

// Renamable returns an error if the table, or a column of it, must keep its name, because the rows are elsewhere. Programs
// register columns by their names at each start: one that has the old name would be given new keys, and find nothing.
func (m *Table) Renamable() error {
	if !m.Elsewhere() {
		return nil
	}
	return fmt.Errorf("%w: the application keeps the rows of table %q, and its programs register it by these names: keep them, which need not be those of the application's own table and columns",
		fault.ErrSchema, m.Name)
}

// ours returns an error if the rows of the table are elsewhere, or in pages, so that nothing here can do with them what is asked.
func (m *Table) ours(what string) error {
	switch {
	case m.Elsewhere():
		return fmt.Errorf("%w: %s: the application keeps the rows of table %q: add another column, and write the values there", fault.ErrSchema, what, m.Name)
	case m.Paged():
		return fmt.Errorf("%w: %s: the rows of table %q are in pages, and only a new table can have it: make one, and bring the rows into it", fault.ErrSchema, what, m.Name)
	}
	return nil
}
