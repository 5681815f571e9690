package meta

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// TokenSize is the length of the pseudo-random token of a value. Two values of a column share a
// token with probability 2^-128.
const TokenSize = 16

// DataFamily, postingFamily and indexFamily return the names of the table's families.
func (m *Table) DataFamily() string { return "t" + hex.EncodeToString(m.ID[:]) }

func (m *Table) postingFamily() string { return "x" + hex.EncodeToString(m.ID[:]) }

func (m *Table) IndexFamily() string { return IndexFamily(m.ID) }

// IndexFamily returns the name of the family of a table's indexes.
func IndexFamily(id TableID) string { return "i" + hex.EncodeToString(id[:]) }

// IsFamily reports whether a family has a name as those of tables have.
func IsFamily(name string) bool {
	id, err := hex.DecodeString(name[min(1, len(name)):])
	return err == nil && len(id) == len(TableID{}) && strings.ContainsRune("txi", rune(name[0]))
}

// Families returns the names of the families that the table may have.
func (m *Table) Families() []string {
	return []string{m.DataFamily(), m.postingFamily(), m.IndexFamily()}
}

// DataSpec returns the specification of the family of the table's rows.
func (m *Table) DataSpec() (driver.FamilySpec, error) {
	spec := driver.FamilySpec{Name: m.DataFamily(), Layout: driver.LayoutOrdered}
	leading, err := m.Key[0].Spec()
	switch leading.Encryption {
	case Hashed:
		spec.PrefixBytes = TokenSize
	case Plain:
		spec.PrefixBytes = leading.Type.Width()
	case Ordered:
		spec.SpreadBits = m.SpreadBits
	}
	if m.Tenants {
		spec.PrefixBytes += TokenSize
	}
	return spec, err
}

// PostingSpec returns that of the family of its postings.
func (m *Table) PostingSpec() driver.FamilySpec {
	spec := driver.FamilySpec{
		Name: m.postingFamily(), Layout: driver.LayoutOrdered,
		PrefixBytes: len(ColumnID{}), SpreadBits: m.SpreadBits,
	}
	if m.Tenants {
		spec.PrefixBytes += TokenSize
	}
	return spec
}

// HasPostings reports whether a column of the table is searched, or one was whose postings may be left, or deletions are
// noted among postings.
func (m *Table) HasPostings() bool {
	if len(m.Dropped) > 0 || m.AppendOnly() {
		return true
	}
	for _, f := range m.All()[len(m.Key):] {
		if f.searched() && !f.ServerIndex {
			return true
		}
	}
	return false
}

// HasSearched reports whether a column of the table is searched, or was and may have values.
func (m *Table) HasSearched() bool {
	return slices.ContainsFunc(m.All()[len(m.Key):], (*Field).searched)
}

func (m *Field) searched() bool { return m.Encryption == Ordered || m.Encryption == Deterministic }

// ServerIndexes returns the names of the indexes that the database has for columns of the table, former ones included.
func (m *Table) ServerIndexes() (names []string) {
	for _, f := range m.All() {
		if f.ServerIndex && !f.Converted {
			names = append(names, IndexName(f.ID))
		}
	}
	return names
}

// IndexName returns the name of the index of a column in the database.
func IndexName(id ColumnID) string { return "s" + hex.EncodeToString(id[:]) }
