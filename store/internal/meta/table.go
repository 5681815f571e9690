// Package meta has what the catalogue says of tables and tenants: their ids, descriptions and policies, how a schema is
// checked, and how it is altered. It reads and writes nothing.
package meta

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// A Table is a schema as the catalogue keeps it, with the ids that the database sees and the keys.
type Table struct {
	ID          TableID      `json:"id"`
	Name        string       `json:"name"`
	Version     uint32       `json:"version"` // of the catalogue that this was put with
	Key         []Field      `json:"key"`
	Columns     []Field      `json:"columns"`
	SpreadBits  int          `json:"spread_bits"`
	Layout      string       `json:"layout"`
	PageRows    int          `json:"page_rows,omitempty"` // of a table of pages
	Numbers     uint32       `json:"numbers,omitempty"`   // of parts and columns that it has, or had
	Conditional bool         `json:"conditional,omitempty"`
	Clear       bool         `json:"clear,omitempty"` // nothing is encrypted, nor ever will be
	Tenants     bool         `json:"tenants,omitempty"`
	TTL         int64        `json:"ttl,omitempty"`     // seconds that rows live unless they say otherwise; 0 is for ever
	RowKeys     []WrappedKey `json:"row_keys"`          // of key cells
	Archived    Archive      `json:"archived,omitzero"` // where earlier keys are

	// Dropped are the ids of searched columns that are gone: there may be postings of them.
	Dropped []ColumnID `json:"dropped,omitempty"`

	// DroppedIndexes are those of columns that are gone and had indexes of the database, which may be there.
	DroppedIndexes []ColumnID `json:"dropped_indexes,omitempty"`
}

// A Field is a key part or column of a table.
type Field struct {
	ID              ColumnID        `json:"id"`
	Name            string          `json:"name"`
	Number          uint32          `json:"number,omitempty"` // in pages, in place of the id
	Type            string          `json:"type"`
	Encryption      Encryption      `json:"encryption"`
	Scheme          string          `json:"scheme,omitempty"`
	Confidentiality confidentiality `json:"confidentiality,omitempty"`
	Share           *Share          `json:"share,omitempty"`        // of a column that is ofColumns
	Covering        bool            `json:"covering,omitempty"`     // its postings have copies of the rows
	Copied          []ColumnID      `json:"copied,omitempty"`       // the columns of the table that copies have, the field's own included; none is all
	ServerIndex     bool            `json:"server_index,omitempty"` // it has no postings, but an index of the database
	Since           uint32          `json:"since"`                  // the version that the id came with
	SearchKey       WrappedKey      `json:"search_key,omitempty"`
	CellKeys        []WrappedKey    `json:"cell_keys,omitempty"`

	// Unit is the number of the index that a stateful scheme uses: 0, or the version of the catalogue
	// that began to make it again. Filling says that the values of rows are still put into it.
	Unit    uint32 `json:"unit,omitempty"`
	Filling bool   `json:"filling,omitempty"`

	// Former are the ids under which rows that were not converted yet have the column's values, the
	// latest first.
	Former []Field `json:"former,omitempty"`

	// Converted, of a former id: all rows were converted. It is kept, since a client that slept through
	// that may die in the middle of a write and leave a row that has it.
	Converted bool `json:"converted,omitempty"`
}

// A Share names the column whose search key and index another column has.
type Share struct {
	ColumnRef
	TableName  string `json:"table_name"`
	ColumnName string `json:"column_name"`
}

// A WrappedKey is a sealed key. A list of them has the newest at its end.
type WrappedKey []byte

// SharesWith returns the names of other tables with columns whose keys the table is to share.
func (m *Table) SharesWith() []string {
	var names []string
	for _, f := range m.Columns {
		if f.Share != nil && f.SearchKey == nil && f.Share.TableName != m.Name && !slices.Contains(names, f.Share.TableName) {
			names = append(names, f.Share.TableName)
		}
	}
	return names
}

// Shareable returns the column of the table whose key f is to share.
func (m *Table) Shareable(f *Field) (*Field, error) {
	name := f.Share.ColumnName
	for i := range m.Key {
		if m.Key[i].Name == name {
			return nil, fmt.Errorf("%w: column %q cannot share the key of %q: it is a part of the row key of %q", fault.ErrSchema, f.Name, name, m.Name)
		}
	}
	i := slices.IndexFunc(m.Columns, func(c Field) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: column %q cannot share a key: table %q has no column %q", fault.ErrColumn, f.Name, m.Name, name)
	}
	owner := &m.Columns[i]
	switch {
	case m.Elsewhere():
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: the application keeps the rows of table %q", fault.ErrSchema, f.Name, name, m.Name)
	case owner.Confidentiality == OfDatabase:
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: that is database-wide; make both so", fault.ErrSchema, f.Name, name)
	case !slices.Equal(f.SecureType(), owner.SecureType()):
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: type, encryption and scheme are %s, and %s", fault.ErrSchema,
			f.Name, name, inWords(f.SecureType()), inWords(owner.SecureType()))
	case owner.SearchKey == nil:
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: that has none yet; name it after it in the schema", fault.ErrSchema, f.Name, name)
	}
	return owner, nil
}

// inWords returns a secure type, of which parts are empty where there is no scheme.
func inWords(secureType []string) string {
	return strings.TrimSpace(strings.Join(secureType, " "))
}

// Clone returns a copy whose lists of fields and keys can be changed.
func (m *Table) Clone() *Table {
	c := *m
	c.Key, c.Columns = slices.Clone(m.Key), slices.Clone(m.Columns)
	c.RowKeys, c.Dropped, c.DroppedIndexes = slices.Clone(m.RowKeys), slices.Clone(m.Dropped), slices.Clone(m.DroppedIndexes)
	for _, list := range [][]Field{c.Key, c.Columns} {
		for i := range list {
			list[i].CellKeys, list[i].Former = slices.Clone(list[i].CellKeys), slices.Clone(list[i].Former)
		}
	}
	return &c
}

// All returns the fields of the table, former ones included.
func (m *Table) All() []*Field {
	var fields []*Field
	for _, list := range [][]Field{m.Key, m.Columns} {
		for i := range list {
			fields = append(fields, &list[i])
			for j := range list[i].Former {
				fields = append(fields, &list[i].Former[j])
			}
		}
	}
	return fields
}

// nameOf returns the name of the part or column that has an id, or had it before it was changed.
func (m *Table) nameOf(id ColumnID) (name string, had bool) {
	for _, f := range slices.Concat(m.Key, m.Columns) {
		if f.ID == id {
			return f.Name, false
		}
		if slices.ContainsFunc(f.Former, func(former Field) bool { return former.ID == id }) {
			return f.Name, true
		}
	}
	return "", false
}

// Owner returns the column of whose search key and index that of a table are.
func (m *Field) Owner(table TableID) ColumnRef {
	if m.Share != nil {
		return m.Share.ColumnRef
	}
	return ColumnRef{table, m.ID}
}

// SecureType returns what columns must have in common to share a key.
func (m *Field) SecureType() []string { return []string{m.Type, string(m.Encryption), m.Scheme} }

// Differs says why equal values of a column of a table and one of another are not found by equal postings; "": they are.
func (m *Field) Differs(table TableID, n *Field, other TableID) string {
	switch {
	case !slices.Equal(m.SecureType(), n.SecureType()):
		return "their types, encryptions or schemes differ"
	case m.Confidentiality == OfDatabase && n.Confidentiality == OfDatabase:
	case m.Confidentiality == OfDatabase || n.Confidentiality == OfDatabase || m.Owner(table) != n.Owner(other):
		return "they have search keys of their own, and would need to share one"
	}
	return ""
}

// Searchable reports whether the field has a search key.
func (m *Field) Searchable() bool {
	return m.Encryption == Ordered || m.Encryption == Hashed || m.Encryption == Deterministic
}

// Clear reports whether the database sees the values.
func (m *Field) Clear() bool { return Spec{Encryption: m.Encryption, Scheme: m.Scheme}.Clear() }

// ownsKey reports whether other columns may share the key of the field.
func (m *Field) ownsKey() bool {
	return (m.Encryption == Ordered || m.Encryption == Deterministic) && m.Confidentiality == OfColumn
}

// Fingerprint returns bytes that are equal for fields that have equal ciphers.
func (m *Field) Fingerprint() []byte {
	sized := func(b, part []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(part))), part...) }
	var b []byte
	for _, part := range []string{m.Type, string(m.Encryption), m.Scheme, string(m.Confidentiality), string(m.SearchKey)} {
		b = sized(b, []byte(part))
	}
	if m.Share != nil {
		b = append(append(b, m.Share.Table[:]...), m.Share.Column[:]...)
	}
	if n := len(m.CellKeys); n > 0 { // keys are added at the end and removed, so that their number and the last one tell lists apart
		b = sized(binary.AppendUvarint(b, uint64(n)), m.CellKeys[n-1])
	}
	return binary.BigEndian.AppendUint32(b, m.Unit)
}

// Sharers returns the other columns that have the search key of a column of a table.
func (m *Field) Sharers(table *Table, all []*Table) []string {
	var names []string
	for _, other := range all {
		if other.Tenants != table.Tenants {
			continue // what is database-wide in the one is not in the other
		}
		for i := range other.Columns {
			c := &other.Columns[i]
			same := other.ID == table.ID && c.ID == m.ID
			wide := c.Confidentiality == OfDatabase && m.Confidentiality == OfDatabase && slices.Equal(c.SecureType(), m.SecureType())
			own := c.Confidentiality != OfDatabase && m.Confidentiality != OfDatabase && c.Owner(other.ID) == m.Owner(table.ID)
			if !same && (wide || own) {
				names = append(names, other.Name+"."+c.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// An IndexRef names an index, which one or more columns use.
type IndexRef struct {
	ColumnRef        // of whose columns it is, where it is not database-wide
	Secure    string // type, encryption and scheme, where it is
	Tenants   bool
}

// Index returns the index of a field, if its scheme is stateful.
func (m *Field) Index(table *Table) (IndexRef, bool) {
	if m.Confidentiality == OfDatabase {
		return IndexRef{Secure: strings.Join(m.SecureType(), " "), Tenants: table.Tenants}, scheme.Stateful(m.Scheme)
	}
	return IndexRef{ColumnRef: m.Owner(table.ID), Tenants: table.Tenants}, scheme.Stateful(m.Scheme)
}

// Using returns the fields of a table that use an index.
func (m *Table) Using(ref IndexRef) (fields []*Field) {
	for _, f := range m.All() {
		if r, ok := f.Index(m); ok && r == ref {
			fields = append(fields, f)
		}
	}
	return fields
}
