package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Schema describes a table.
type Schema struct {
	// Name has 1 to 100 bytes. The database does not see it.
	Name string

	// Key is the row key: one or more parts, in the order in which rows are sorted. A hashed part
	// that leads the key says which rows are stored together (the partition), and ranges apply to
	// the first ordered part with every earlier part fixed. See [HashedPart], [OrderedPart],
	// [PlainPart] and [TiePart].
	Key []KeyPart

	// Columns are the other columns, in any order. See [RandomisedColumn], [DeterministicColumn],
	// [OrderedColumn] and [PlainColumn].
	Columns []Column

	// SpreadBits says into how many partitions, 2 to the power of it, a database without ordered
	// partitions (Cassandra) lays the rows of a table that begins with an ordered part, and the
	// index entries of every ordered column. 0 is the default, 4: right for some 10 GB. With more,
	// short ranges touch more partitions; with fewer, partitions grow beyond what Cassandra likes
	// (100 MB each). -1 means one partition. Other databases ignore it.
	SpreadBits int

	// Layout says which values share a cell. The zero Layout is Packed.
	Layout Layout

	// Conditional makes every write of a row a compare-and-set: [Table.Update] can change single
	// columns, no write is decided by clocks, and a deleted row leaves some 80 bytes. A write is
	// preceded by a read, and on Cassandra a compare-and-set takes several round trips and waits for
	// others in its partition: let such a table begin with a [HashedPart].
	Conditional bool

	// Tenants says that rows are of tenants, each with keys of its own, so that the table is opened for
	// one of them with [Table.Tenant]. Rows do not name their tenant; each tenant has its own values of
	// the row key. What columns share a key with is what the same tenant has in them, also where they
	// are database-wide.
	Tenants bool
}

// A Layout says which values of a row share a cell.
type Layout int

// The layouts.
const (
	// Packed puts the values of all columns that are sealed and not searched into the sealed cell
	// of the row key: opening a row takes one decryption, whatever their number. It is the mini-page
	// of Shmueli et al. carried over to wide rows.
	Packed Layout = iota

	// CellPerColumn gives every column a cell of its own: queries of few out of many or large
	// columns read and open these only.
	CellPerColumn
)

// String returns "packed" or "cell per column".
func (l Layout) String() string {
	switch l {
	case Packed:
		return "packed"
	case CellPerColumn:
		return "cell per column"
	}
	return fmt.Sprintf("Layout(%d)", int(l))
}

// encryption is how a part or column is protected. The strings are stored.
type encryption string

const (
	plain         encryption = "plain"
	hashed        encryption = "hashed"
	ordered       encryption = "ordered"
	tieBreaker    encryption = "tie"
	randomised    encryption = "randomised"
	deterministic encryption = "deterministic"
)

// A KeyPart is a part of the row key. Make one with the functions below; the zero KeyPart is
// invalid.
type KeyPart struct{ field }

// A Column is a column of a table that is not part of its row key. Make one with the functions
// below; the zero Column is invalid.
type Column struct{ field }

// field is what key parts and columns have in common.
type field struct {
	name       string
	typ        Type
	encryption encryption
	scheme     string // for ordered: the name of the scheme

	confidentiality confidentiality
	table, column   string // whose search key it shares, where it is ofColumns
}

// confidentiality says which columns share a search key (Ferretti et al. 2014, section 3.1). The
// strings are stored.
type confidentiality string

const (
	ofColumn   confidentiality = ""            // COL: one column
	ofColumns  confidentiality = "multicolumn" // MCOL: the column that it was made for, and those that name it
	ofDatabase confidentiality = "database"    // DBC: all such columns of equal types, encryptions and schemes
)

// Name returns the name of the part.
func (p KeyPart) Name() string { return p.name }

// Name returns the name of the column.
func (c Column) Name() string { return c.name }

// Describe returns in words how the part is stored, for example "time: timestamp/ms, ordered
// (mope)".
func (p KeyPart) Describe() string { return p.describe() }

// Describe returns in words how the column is stored.
func (c Column) Describe() string { return c.describe() }

// clear reports whether the database sees the values.
func (f field) clear() bool {
	return f.encryption == plain || f.encryption == tieBreaker || f.scheme == Plaintext.name || f.scheme == PlaintextIndexed.name
}

func (f field) describe() string {
	s := fmt.Sprintf("%s: %s, %s", f.name, f.typ.id(), f.encryption)
	if f.scheme != "" {
		s += " (" + f.scheme + ")"
	}
	switch f.confidentiality {
	case ofColumns:
		s += fmt.Sprintf(", key shared with %s.%s", f.table, f.column)
	case ofDatabase:
		s += ", key shared by the database"
	}
	return s
}

// HashedPart is a part of which the database sees a keyed hash: rows are found by its exact value
// only. As the first part it spreads rows over partitions and keeps the rows of one value
// together.
func HashedPart(name string, t Type) KeyPart {
	return KeyPart{field{name: name, typ: t, encryption: hashed}}
}

// OrderedPart is a part that is encrypted with an order-preserving scheme, which must be
// immutable because no wide-column store can rename a row (Waage et al. 2016, criterion I): a
// [MutableScheme] does not compile here.
//
// Strings, byte strings and other types that do not fit in 64 bits are ordered by a prefix; a
// keyed hash of the whole value follows in the row key, and rows are put in their exact order by
// the client.
func OrderedPart(name string, t Type, scheme KeyScheme) KeyPart {
	return KeyPart{field{name: name, typ: t, encryption: ordered, scheme: scheme.name}}
}

// PlainPart is a part that is not encrypted. The database sees it.
func PlainPart(name string, t Type) KeyPart {
	return KeyPart{field{name: name, typ: t, encryption: plain}}
}

// TiePart makes duplicates legal: 16 bytes at the end of the key that are drawn at random for a
// row which does not name them. Its values are of type [16]byte.
func TiePart(name string) KeyPart {
	return KeyPart{field{name: name, typ: UUID, encryption: tieBreaker}}
}

// RandomisedColumn is a column that is sealed and cannot be searched in the database.
func RandomisedColumn(name string, t Type) Column {
	return Column{field{name: name, typ: t, encryption: randomised}}
}

// DeterministicColumn is a sealed column that can be searched for exact values. The database sees
// which rows have equal values.
func DeterministicColumn(name string, t Type) Column {
	return Column{field{name: name, typ: t, encryption: deterministic}}
}

// OrderedColumn is a sealed column that can be searched for ranges. The database sees the order
// of its values, and what else the scheme gives away.
func OrderedColumn(name string, t Type, scheme ColumnScheme) Column {
	return Column{field{name: name, typ: t, encryption: ordered, scheme: scheme.columnScheme()}}
}

// SharedWith returns the column with the search key of another one, which may be of the same table:
// so the two can be joined, see [Join]. The other column must have the same type, encryption and
// scheme, and exist when the table is created or altered; where a scheme is stateful the two share
// its index. Values are sealed under keys of their own all the same.
//
// The database sees what it would see if both were one column: which rows of the one and the other
// have equal values and, of ordered columns, which is less. Whoever knows or guesses the
// distribution of one column learns about the other.
//
// Only deterministic and ordered columns have a search key.
func (c Column) SharedWith(table, column string) Column {
	c.confidentiality, c.table, c.column = ofColumns, table, column
	return c
}

// DatabaseWide returns the column with the search key that all columns of the database share that
// have the same type, encryption and scheme and are database-wide: any two can be joined. What the
// database sees grows with each of them, as [Column.SharedWith] says.
func (c Column) DatabaseWide() Column {
	c.confidentiality, c.table, c.column = ofDatabase, "", ""
	return c
}

// Shared returns the names of the table and column that [Column.SharedWith] was given or, in the
// schema of a table, of the column whose key it was first; ok is false where there is none.
func (c Column) Shared() (table, column string, ok bool) {
	return c.table, c.column, c.confidentiality == ofColumns
}

// IsDatabaseWide reports whether the column is [Column.DatabaseWide].
func (c Column) IsDatabaseWide() bool { return c.confidentiality == ofDatabase }

// PlainColumn is a column that is not encrypted nor authenticated. The database sees it.
func PlainColumn(name string, t Type) Column {
	return Column{field{name: name, typ: t, encryption: plain}}
}

// A ColumnScheme encrypts ordered columns: a [KeyScheme] or a [MutableScheme].
type ColumnScheme interface{ columnScheme() string }

// A KeyScheme is an immutable order-preserving scheme: it may encrypt row keys as well as
// columns.
type KeyScheme struct{ name string }

func (s KeyScheme) columnScheme() string { return s.name }

// A MutableScheme is an order-preserving scheme whose ciphertexts move. It encrypts columns only.
//
// Its ciphertexts are in an index of the table, which keeps the order of the values, and nowhere
// else. The postings of a column carry a keyed hash of the value, as those of a
// [DeterministicColumn]: equality is searched for without the index, and a range is read from the
// index value by value. So ciphertexts move without a row or posting being written, and rows that
// are deleted leave their values in the index. It suits columns with few rows for each row that a
// query returns, as all but the largest lists and reports; to scan much of a large table, take a
// [KeyScheme].
type MutableScheme struct{ name string }

func (s MutableScheme) columnScheme() string { return s.name }

// The order-preserving schemes. The store derives their keys and builds them; a key never serves
// two columns.
//
// The stateful ones, WozniakIndexed and the [MutableScheme]s, keep what they gave out in an index
// of the table, which every writer shares: a value that is new costs a commit to the index, and a
// column has at most about 10^6 distinct values; more is [ope.ErrFull]. A Put makes the values of
// its rows durable there before its rows.
var (
	// Boldyreva is the stateless linear scheme of Boldyreva et al. (EUROCRYPT 2009).
	Boldyreva = KeyScheme{"boldyreva"}

	// MOPE is Boldyreva with a secret modular shift (Boldyreva et al., CRYPTO 2011). A range that
	// wraps around the shift becomes two.
	MOPE = KeyScheme{"mope"}

	// Wozniak is random subrange selection with random uniform sampling (Wozniak et al. 2013) made
	// stateless by a key; linear, with ciphertexts of 3 times as many bits as the values.
	Wozniak = KeyScheme{"wozniak"}

	// WozniakIndexed is random uniform sampling as Waage et al. (SECRYPT 2016, section 3.2.1) modify
	// it: stateful; a ciphertext is drawn when its value is first written, and stays. The index has
	// the pairs of the values that were written only, so that it has room for 10^6 of these; see
	// TargetsOnly of [wozniak.IndexedOptions].
	WozniakIndexed = KeyScheme{"wozniak-indexed"}

	// Kerschbaum is the mutable scheme of Kerschbaum and Schröpfer (CCS 2014) with local
	// relabelling: stateful; it gives away no more than order and equality, and to who watches or
	// copies the index the order in which values came, see [Table.Rebalance].
	Kerschbaum = MutableScheme{"kerschbaum"}

	// KerschbaumPublished is Kerschbaum with the rules of the paper, which write the whole index
	// anew when a gap is exhausted: for comparison. Sorted values are its worst case. Values have at
	// most 63 bits.
	KerschbaumPublished = MutableScheme{"kerschbaum-published"}

	// Plaintext does not encrypt. A part or column with it is stored as it is, and can be searched
	// for ranges like an encrypted one: for values that are no secret, and to measure what
	// encryption costs.
	Plaintext = KeyScheme{"plaintext"}

	// PlaintextIndexed does not encrypt either, and is stored and searched as a column with a
	// MutableScheme is: to measure what Kerschbaum costs.
	PlaintextIndexed = MutableScheme{"plaintext-indexed"}
)

// newScheme builds the order-preserving scheme of the given name. A stateful one keeps its state in
// units of the index whose names begin with unit, and remembers a number of values.
func newScheme(name string, key ope.Key, d ope.Domain, x ope.Index, unit string, remembers int) (ope.Scheme, error) {
	switch name {
	case Boldyreva.name:
		return boldyreva.New(key, d, nil)
	case MOPE.name:
		return boldyreva.NewModular(key, d, nil)
	case Wozniak.name:
		return wozniak.New(key, d, nil)
	case WozniakIndexed.name:
		return wozniak.NewIndexed(key, d, x, ope.Unit(unit), &wozniak.IndexedOptions{TargetsOnly: true, CacheValues: remembers})
	case Kerschbaum.name:
		return kerschbaum.New(key, d, x, &kerschbaum.Options{Name: unit, CacheValues: remembers})
	case KerschbaumPublished.name:
		return kerschbaum.New(key, d, x, &kerschbaum.Options{Name: unit, CacheValues: remembers, Lambda: publishedLambda})
	case Plaintext.name:
		return newIdentity(d), nil
	case PlaintextIndexed.name:
		return newIndexedIdentity(d, x, ope.Unit(unit)), nil
	}
	return nil, fmt.Errorf("%w: scheme %q is not known to this version", ErrFormat, name)
}

// publishedLambda makes labels of 2b+1 bits for values of b bits.
const publishedLambda = 2

// stateful reports whether the scheme of the given name keeps its state in an index.
func stateful(name string) bool {
	switch name {
	case WozniakIndexed.name, Kerschbaum.name, KerschbaumPublished.name, PlaintextIndexed.name:
		return true
	}
	return false
}

// Random ids. They name things in keys, associated data and the database, and are never used
// again. Names occur in the catalogue only.
type (
	databaseID [16]byte
	tableID    [16]byte
	columnID   [4]byte // unique within its table
)

func (id databaseID) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(id[:])), nil }
func (id tableID) MarshalText() ([]byte, error)    { return []byte(hex.EncodeToString(id[:])), nil }
func (id columnID) MarshalText() ([]byte, error)   { return []byte(hex.EncodeToString(id[:])), nil }

func (id *databaseID) UnmarshalText(text []byte) error { return unhex(id[:], text) }
func (id *tableID) UnmarshalText(text []byte) error    { return unhex(id[:], text) }
func (id *columnID) UnmarshalText(text []byte) error   { return unhex(id[:], text) }

func unhex(dst, text []byte) error {
	if hex.DecodedLen(len(text)) != len(dst) {
		return fmt.Errorf("an id has %d hex digits, need %d", len(text), 2*len(dst))
	}
	_, err := hex.Decode(dst, text)
	return err
}

// tableMeta is a schema as the catalogue keeps it, with the ids that the database sees and the keys.
type tableMeta struct {
	ID          tableID      `json:"id"`
	Name        string       `json:"name"`
	Version     uint32       `json:"version"` // of the catalogue that this was put with
	Key         []fieldMeta  `json:"key"`
	Columns     []fieldMeta  `json:"columns"`
	SpreadBits  int          `json:"spread_bits"`
	Layout      string       `json:"layout"`
	Conditional bool         `json:"conditional,omitempty"`
	Clear       bool         `json:"clear,omitempty"` // nothing is encrypted, nor ever will be
	Tenants     bool         `json:"tenants,omitempty"`
	RowKeys     []wrappedKey `json:"row_keys"` // of key cells

	// Dropped are the ids of searched columns that are gone: there may be postings of them.
	Dropped []columnID `json:"dropped,omitempty"`
}

type fieldMeta struct {
	ID              columnID        `json:"id"`
	Name            string          `json:"name"`
	Type            string          `json:"type"`
	Encryption      encryption      `json:"encryption"`
	Scheme          string          `json:"scheme,omitempty"`
	Confidentiality confidentiality `json:"confidentiality,omitempty"`
	Share           *share          `json:"share,omitempty"` // of a column that is ofColumns
	Since           uint32          `json:"since"`           // the version that the id came with
	SearchKey       wrappedKey      `json:"search_key,omitempty"`
	CellKeys        []wrappedKey    `json:"cell_keys,omitempty"`

	// Former are the ids under which rows that were not converted yet have the column's values, the
	// latest first.
	Former []fieldMeta `json:"former,omitempty"`

	// Converted, of a former id: all rows were converted. It is kept, since a client that slept through
	// that may die in the middle of a write and leave a row that has it.
	Converted bool `json:"converted,omitempty"`
}

// A share names the column whose search key and index another column has.
type share struct {
	columnRef
	TableName  string `json:"table_name"`
	ColumnName string `json:"column_name"`
}

type columnRef struct {
	Table  tableID  `json:"table"`
	Column columnID `json:"column"`
}

// sharesWith returns the names of other tables with columns whose keys the table is to share.
func (m *tableMeta) sharesWith() []string {
	var names []string
	for _, f := range m.Columns {
		if f.Share != nil && f.SearchKey == nil && f.Share.TableName != m.Name && !slices.Contains(names, f.Share.TableName) {
			names = append(names, f.Share.TableName)
		}
	}
	return names
}

// shareable returns the column of the table whose key f is to share.
func (m *tableMeta) shareable(f *fieldMeta) (*fieldMeta, error) {
	name := f.Share.ColumnName
	for i := range m.Key {
		if m.Key[i].Name == name {
			return nil, fmt.Errorf("%w: column %q cannot share the key of %q: it is a part of the row key of %q", ErrSchema, f.Name, name, m.Name)
		}
	}
	i := slices.IndexFunc(m.Columns, func(c fieldMeta) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: column %q cannot share a key: table %q has no column %q", ErrColumn, f.Name, m.Name, name)
	}
	owner := &m.Columns[i]
	switch {
	case owner.Confidentiality == ofDatabase:
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: that is database-wide; make both so", ErrSchema, f.Name, name)
	case !slices.Equal(f.secureType(), owner.secureType()):
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: type, encryption and scheme are %s, and %s", ErrSchema,
			f.Name, name, strings.Join(f.secureType(), " "), strings.Join(owner.secureType(), " "))
	case owner.SearchKey == nil:
		return nil, fmt.Errorf("%w: column %q cannot share the key of %q: that has none yet; name it after it in the schema", ErrSchema, f.Name, name)
	}
	return owner, nil
}

// clone returns a copy whose lists of fields and keys can be changed.
func (m *tableMeta) clone() *tableMeta {
	c := *m
	c.Key, c.Columns = slices.Clone(m.Key), slices.Clone(m.Columns)
	c.RowKeys, c.Dropped = slices.Clone(m.RowKeys), slices.Clone(m.Dropped)
	for _, list := range [][]fieldMeta{c.Key, c.Columns} {
		for i := range list {
			list[i].CellKeys, list[i].Former = slices.Clone(list[i].CellKeys), slices.Clone(list[i].Former)
		}
	}
	return &c
}

// owner returns the column of whose search key and index that of a table are.
func (m *fieldMeta) owner(table tableID) columnRef {
	if m.Share != nil {
		return m.Share.columnRef
	}
	return columnRef{table, m.ID}
}

// secureType returns what columns must have in common to share a key.
func (m *fieldMeta) secureType() []string { return []string{m.Type, string(m.Encryption), m.Scheme} }

// searchable reports whether the field has a search key.
func (m *fieldMeta) searchable() bool {
	return m.Encryption == ordered || m.Encryption == hashed || m.Encryption == deterministic
}

// clear reports whether the database sees the values.
func (m *fieldMeta) clear() bool { return field{encryption: m.Encryption, scheme: m.Scheme}.clear() }

// all returns the fields of the table, former ones included.
func (m *tableMeta) all() []*fieldMeta {
	var fields []*fieldMeta
	for _, list := range [][]fieldMeta{m.Key, m.Columns} {
		for i := range list {
			fields = append(fields, &list[i])
			for j := range list[i].Former {
				fields = append(fields, &list[i].Former[j])
			}
		}
	}
	return fields
}

// dataFamily, postingFamily and indexFamily return the names of the table's families.
func (m *tableMeta) dataFamily() string    { return "t" + hex.EncodeToString(m.ID[:]) }
func (m *tableMeta) postingFamily() string { return "x" + hex.EncodeToString(m.ID[:]) }
func (m *tableMeta) indexFamily() string   { return indexOf(m.ID) }

func indexOf(id tableID) string { return "i" + hex.EncodeToString(id[:]) }

// families returns the names of the families that the table may have.
func (m *tableMeta) families() []string {
	return []string{m.dataFamily(), m.postingFamily(), m.indexFamily()}
}

// dataSpec returns the specification of the family of the table's rows.
func (m *tableMeta) dataSpec() (driver.FamilySpec, error) {
	spec := driver.FamilySpec{Name: m.dataFamily(), Layout: driver.LayoutOrdered}
	leading, err := m.Key[0].field()
	switch leading.encryption {
	case hashed:
		spec.PrefixBytes = tokenSize
	case plain:
		spec.PrefixBytes = leading.typ.width()
	case ordered:
		spec.SpreadBits = m.SpreadBits
	}
	if m.Tenants {
		spec.PrefixBytes += tokenSize
	}
	return spec, err
}

// postingSpec returns that of the family of its postings.
func (m *tableMeta) postingSpec() driver.FamilySpec {
	spec := driver.FamilySpec{
		Name: m.postingFamily(), Layout: driver.LayoutOrdered,
		PrefixBytes: len(columnID{}), SpreadBits: m.SpreadBits,
	}
	if m.Tenants {
		spec.PrefixBytes += tokenSize
	}
	return spec
}

// hasPostings reports whether a column of the table is searched, or one was whose postings may be left.
func (m *tableMeta) hasPostings() bool {
	if len(m.Dropped) > 0 {
		return true
	}
	for _, f := range m.all()[len(m.Key):] {
		if f.Encryption == ordered || f.Encryption == deterministic {
			return true
		}
	}
	return false
}

const (
	defaultSpreadBits = 4
	maxColumns        = 1000
)

// newTableMeta checks a schema and gives it ids.
func newTableMeta(s Schema) (*tableMeta, error) {
	m := &tableMeta{Name: s.Name, Columns: []fieldMeta{}, SpreadBits: s.SpreadBits, Layout: s.Layout.String(), Conditional: s.Conditional, Tenants: s.Tenants}
	rand.Read(m.ID[:])
	if err := checkTableName(s.Name); err != nil {
		return nil, err
	}
	switch {
	case len(s.Key) == 0:
		return nil, fmt.Errorf("%w: table %q has no row key", ErrSchema, s.Name)
	case len(s.Columns) > maxColumns:
		return nil, tooManyColumns(s.Name, len(s.Columns))
	case s.SpreadBits < -1 || s.SpreadBits > 12:
		return nil, fmt.Errorf("%w: table %q: SpreadBits is %d, need -1 to 12", ErrSchema, s.Name, s.SpreadBits)
	case s.Layout != Packed && s.Layout != CellPerColumn:
		return nil, fmt.Errorf("%w: table %q: %v is not a layout of this package", ErrSchema, s.Name, s.Layout)
	case s.SpreadBits == -1:
		m.SpreadBits = 0
	case s.SpreadBits == 0:
		m.SpreadBits = defaultSpreadBits
	}
	taken := newTaken(m)
	m.Clear = !m.Tenants // key cells of tenants are sealed, and any column may be
	for i, part := range s.Key {
		switch {
		case part.encryption == tieBreaker && i == 0:
			return nil, fmt.Errorf("%w: a row key cannot consist of tie-breaker %q alone; use HashedPart or PlainPart with UUID", ErrSchema, part.name)
		case part.encryption == tieBreaker && i != len(s.Key)-1:
			return nil, fmt.Errorf("%w: tie-breaker %q is not the last part of the row key", ErrSchema, part.name)
		case part.encryption == plain && i == 0 && part.typ != nil && part.typ.width() == 0:
			return nil, fmt.Errorf("%w: part %q of varying length cannot lead a row key in the plain; use HashedPart", ErrSchema, part.name)
		}
		meta, err := taken.newField(part.field)
		if err != nil {
			return nil, err
		}
		m.Key = append(m.Key, meta)
		m.Clear = m.Clear && part.clear()
	}
	for _, column := range s.Columns {
		meta, err := taken.newField(column.field)
		if err != nil {
			return nil, err
		}
		m.Columns = append(m.Columns, meta)
		m.Clear = m.Clear && column.clear()
	}
	return m, nil
}

func checkTableName(name string) error {
	if len(name) == 0 || len(name) > 100 {
		return fmt.Errorf("%w: a table name has 1 to 100 bytes, this one %d", ErrSchema, len(name))
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: table name %q is not valid UTF-8", ErrSchema, name)
	}
	return nil
}

func checkColumnName(name string) error {
	if len(name) == 0 || len(name) > 100 {
		return fmt.Errorf("%w: a column name has 1 to 100 bytes, %q has %d", ErrSchema, name, len(name))
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: column name %q is not valid UTF-8", ErrSchema, name)
	}
	return nil
}

func tooManyColumns(table string, n int) error {
	return fmt.Errorf("%w: table %q has %d columns, at most %d", ErrSchema, table, n, maxColumns)
}

// taken are the names and ids that a table has used up.
type taken struct {
	names map[string]bool
	ids   map[columnID]bool
}

func newTaken(m *tableMeta) taken {
	t := taken{make(map[string]bool), make(map[columnID]bool)}
	for _, f := range m.all() {
		t.names[f.Name], t.ids[f.ID] = true, true
	}
	for _, id := range m.Dropped {
		t.ids[id] = true
	}
	return t
}

// newField checks a part or column and gives it an id.
func (t taken) newField(f field) (fieldMeta, error) {
	if err := f.check(); err != nil {
		return fieldMeta{}, err
	}
	if t.names[f.name] {
		return fieldMeta{}, fmt.Errorf("%w: two columns are named %q", ErrSchema, f.name)
	}
	t.names[f.name] = true
	meta := fieldMeta{Name: f.name, Type: f.typ.id(), Encryption: f.encryption, Scheme: f.scheme, Confidentiality: f.confidentiality}
	if f.confidentiality == ofColumns {
		meta.Share = &share{TableName: f.table, ColumnName: f.column}
	}
	for meta.ID == (columnID{}) || t.ids[meta.ID] {
		rand.Read(meta.ID[:])
	}
	t.ids[meta.ID] = true
	return meta, nil
}

// check returns an error if the field makes no sense by itself.
func (f field) check() error {
	if err := checkColumnName(f.name); err != nil {
		return err
	}
	switch {
	case f.typ == nil:
		return fmt.Errorf("%w: column %q has no type", ErrSchema, f.name)
	case f.encryption == "":
		return fmt.Errorf("%w: column %q was not made by a function of this package", ErrSchema, f.name)
	case f.encryption == ordered && !f.typ.orderable():
		return fmt.Errorf("%w: column %q: values of type %s have no order", ErrSchema, f.name, f.typ.id())
	case f.confidentiality != ofColumn && f.encryption != ordered && f.encryption != deterministic:
		return fmt.Errorf("%w: column %q is %s: only deterministic and ordered columns have a search key to share", ErrSchema, f.name, f.encryption)
	}
	if err := f.typ.valid(); err != nil {
		return fmt.Errorf("%w: column %q: %w", ErrSchema, f.name, err)
	}
	if f.encryption == ordered {
		if _, err := newScheme(f.scheme, ope.GenerateKey(), f.typ.domain(), new(index), "", 0); err != nil {
			return fmt.Errorf("%w: column %q: %w", ErrSchema, f.name, err)
		}
	}
	return nil
}

// schema returns the schema again, with the types and schemes of this version.
func (m *tableMeta) schema() (Schema, error) {
	s := Schema{Name: m.Name, SpreadBits: m.SpreadBits, Conditional: m.Conditional, Tenants: m.Tenants}
	if len(m.Key) == 0 {
		return Schema{}, fmt.Errorf("%w: table %q has no row key", ErrFormat, m.Name)
	}
	if s.SpreadBits == 0 {
		s.SpreadBits = -1
	}
	switch m.Layout {
	case Packed.String():
	case CellPerColumn.String():
		s.Layout = CellPerColumn
	default:
		return Schema{}, fmt.Errorf("%w: table %q: layout %q is not known to this version", ErrFormat, m.Name, m.Layout)
	}
	for _, meta := range m.Key {
		f, err := meta.field()
		if err != nil {
			return Schema{}, err
		}
		s.Key = append(s.Key, KeyPart{f})
	}
	for _, meta := range m.Columns {
		f, err := meta.field()
		if err != nil {
			return Schema{}, err
		}
		s.Columns = append(s.Columns, Column{f})
	}
	return s, nil
}

func (m fieldMeta) field() (field, error) {
	typ, err := parseType(m.Type)
	if err != nil {
		return field{}, fmt.Errorf("column %q: %w", m.Name, err)
	}
	switch m.Encryption {
	case plain, hashed, ordered, tieBreaker, randomised, deterministic:
	default:
		return field{}, fmt.Errorf("%w: column %q: encryption %q is not known to this version", ErrFormat, m.Name, m.Encryption)
	}
	if m.Encryption == ordered && !typ.orderable() {
		return field{}, fmt.Errorf("%w: column %q: values of type %s have no order", ErrFormat, m.Name, m.Type)
	}
	f := field{name: m.Name, typ: typ, encryption: m.Encryption, scheme: m.Scheme, confidentiality: m.Confidentiality}
	switch m.Confidentiality {
	case ofColumn, ofDatabase:
	case ofColumns:
		if m.Share == nil {
			return field{}, fmt.Errorf("%w: column %q shares a key with none", ErrFormat, m.Name)
		}
		f.table, f.column = m.Share.TableName, m.Share.ColumnName
	default:
		return field{}, fmt.Errorf("%w: column %q: confidentiality %q is not known to this version", ErrFormat, m.Name, m.Confidentiality)
	}
	return f, nil
}
