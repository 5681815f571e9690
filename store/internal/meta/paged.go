package meta

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

const (
	maxPageRows       = 4096
	maxPageSpreadBits = 8 // the first key of a partition is a byte longer than its prefix
)

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

// page makes a table one of pages, unless the schema has what they cannot hold.
func (m *Table) page(s Schema) error {
	what := ""
	switch {
	case s.PageRows == 0:
		return nil
	case s.PageRows < 2 || s.PageRows > maxPageRows:
		return fmt.Errorf("%w: table %q: %d rows a page, need 2 to %d", fault.ErrSchema, m.Name, s.PageRows, maxPageRows)
	case s.CellPerColumn:
		what = "CellPerColumn: sealed columns share a cell with those of other rows"
	case s.Conditional:
		what = "Conditional: every write of a page is a compare-and-set already"
	case s.AppendOnly:
		what = "AppendOnly: leave it out, rows of a page can be replaced"
	case s.Tenants:
		what = "Tenants: make a table for each, since the rows of a page share one key"
	case s.TTL != 0:
		what = "TTL: delete old rows, since a page has one life"
	case m.SpreadBits > maxPageSpreadBits:
		what = fmt.Sprintf("a spread of %d bits: at most %d", m.SpreadBits, maxPageSpreadBits)
	}
	if what != "" {
		return fmt.Errorf("%w: table %q: a table of pages cannot have %s", fault.ErrSchema, m.Name, what)
	}
	m.Layout, m.PageRows = inspect.Paged, s.PageRows
	for _, part := range s.Key {
		if scheme.Stateful(part.Scheme) {
			return fmt.Errorf("%w: table %q: key part %q of a table of pages cannot have the scheme %q, which keeps an index: take %q, %q or %q",
				fault.ErrSchema, m.Name, part.Name, part.Scheme, scheme.MOPE, scheme.Boldyreva, scheme.Wozniak)
		}
	}
	return nil
}

// pageable returns an error if pages have no room for what a column is to have.
func (m *Table) pageable(c Spec) error {
	if !m.Paged() || c.Encryption == Plain || c.Encryption == Randomised {
		return nil
	}
	return fmt.Errorf("%w: column %q of table %q, which has pages, cannot be searched, since pages have no index entries: make it randomised or plain, "+
		"or a part of the row key", fault.ErrSchema, c.Name, m.Name)
}
