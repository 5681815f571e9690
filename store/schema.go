package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
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
}

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

// tableMeta is a schema as the catalogue keeps it, with the ids that the database sees.
type tableMeta struct {
	ID         tableID     `json:"id"`
	Name       string      `json:"name"`
	Key        []fieldMeta `json:"key"`
	Columns    []fieldMeta `json:"columns"`
	SpreadBits int         `json:"spread_bits"`
	Layout     string      `json:"layout"`
}

type fieldMeta struct {
	ID         columnID   `json:"id"`
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	Encryption encryption `json:"encryption"`
	Scheme     string     `json:"scheme,omitempty"`
}

// dataFamily, postingFamily and indexFamily return the names of the table's families.
func (m *tableMeta) dataFamily() string    { return "t" + hex.EncodeToString(m.ID[:]) }
func (m *tableMeta) postingFamily() string { return "x" + hex.EncodeToString(m.ID[:]) }
func (m *tableMeta) indexFamily() string   { return "i" + hex.EncodeToString(m.ID[:]) }

// families returns the names of the families that the table has.
func (m *tableMeta) families() []string {
	names := []string{m.dataFamily()}
	if m.hasPostings() {
		names = append(names, m.postingFamily())
	}
	if m.hasIndex() {
		names = append(names, m.indexFamily())
	}
	return names
}

// hasPostings reports whether a column of the table is searched.
func (m *tableMeta) hasPostings() bool {
	for _, c := range m.Columns {
		if c.Encryption == ordered || c.Encryption == deterministic {
			return true
		}
	}
	return false
}

// hasIndex reports whether a part or column of the table has a stateful scheme.
func (m *tableMeta) hasIndex() bool {
	return slices.ContainsFunc(slices.Concat(m.Key, m.Columns), func(f fieldMeta) bool { return stateful(f.Scheme) })
}

const defaultSpreadBits = 4

// newTableMeta checks a schema and gives it ids.
func newTableMeta(s Schema) (*tableMeta, error) {
	m := &tableMeta{Name: s.Name, Columns: []fieldMeta{}, SpreadBits: s.SpreadBits, Layout: s.Layout.String()}
	rand.Read(m.ID[:])
	switch {
	case len(s.Name) == 0 || len(s.Name) > 100:
		return nil, fmt.Errorf("%w: a table name has 1 to 100 bytes, this one %d", ErrSchema, len(s.Name))
	case !utf8.ValidString(s.Name):
		return nil, fmt.Errorf("%w: table name %q is not valid UTF-8", ErrSchema, s.Name)
	case len(s.Key) == 0:
		return nil, fmt.Errorf("%w: table %q has no row key", ErrSchema, s.Name)
	case len(s.Columns) > 1000:
		return nil, fmt.Errorf("%w: table %q has %d columns, at most 1000", ErrSchema, s.Name, len(s.Columns))
	case s.SpreadBits < -1 || s.SpreadBits > 12:
		return nil, fmt.Errorf("%w: table %q: SpreadBits is %d, need -1 to 12", ErrSchema, s.Name, s.SpreadBits)
	case s.Layout != Packed && s.Layout != CellPerColumn:
		return nil, fmt.Errorf("%w: table %q: %v is not a layout of this package", ErrSchema, s.Name, s.Layout)
	case s.SpreadBits == -1:
		m.SpreadBits = 0
	case s.SpreadBits == 0:
		m.SpreadBits = defaultSpreadBits
	}
	names := make(map[string]bool)
	ids := make(map[columnID]bool)
	add := func(f field) (fieldMeta, error) {
		switch {
		case len(f.name) == 0 || len(f.name) > 100:
			return fieldMeta{}, fmt.Errorf("%w: a column name has 1 to 100 bytes, %q has %d", ErrSchema, f.name, len(f.name))
		case !utf8.ValidString(f.name):
			return fieldMeta{}, fmt.Errorf("%w: column name %q is not valid UTF-8", ErrSchema, f.name)
		case names[f.name]:
			return fieldMeta{}, fmt.Errorf("%w: two columns are named %q", ErrSchema, f.name)
		case f.typ == nil:
			return fieldMeta{}, fmt.Errorf("%w: column %q has no type", ErrSchema, f.name)
		case f.encryption == "":
			return fieldMeta{}, fmt.Errorf("%w: column %q was not made by a function of this package", ErrSchema, f.name)
		case f.encryption == ordered && !f.typ.orderable():
			return fieldMeta{}, fmt.Errorf("%w: column %q: values of type %s have no order", ErrSchema, f.name, f.typ.id())
		}
		if err := f.typ.valid(); err != nil {
			return fieldMeta{}, fmt.Errorf("%w: column %q: %w", ErrSchema, f.name, err)
		}
		if f.encryption == ordered {
			if _, err := newScheme(f.scheme, ope.GenerateKey(), f.typ.domain(), new(index), "", 0); err != nil {
				return fieldMeta{}, fmt.Errorf("%w: column %q: %w", ErrSchema, f.name, err)
			}
		}
		names[f.name] = true
		meta := fieldMeta{Name: f.name, Type: f.typ.id(), Encryption: f.encryption, Scheme: f.scheme}
		for meta.ID == (columnID{}) || ids[meta.ID] {
			rand.Read(meta.ID[:])
		}
		ids[meta.ID] = true
		return meta, nil
	}
	for i, part := range s.Key {
		switch {
		case part.encryption == tieBreaker && i == 0:
			return nil, fmt.Errorf("%w: a row key cannot consist of tie-breaker %q alone; use HashedPart or PlainPart with UUID", ErrSchema, part.name)
		case part.encryption == tieBreaker && i != len(s.Key)-1:
			return nil, fmt.Errorf("%w: tie-breaker %q is not the last part of the row key", ErrSchema, part.name)
		case part.encryption == plain && i == 0 && part.typ != nil && part.typ.width() == 0:
			return nil, fmt.Errorf("%w: part %q of varying length cannot lead a row key in the plain; use HashedPart", ErrSchema, part.name)
		}
		meta, err := add(part.field)
		if err != nil {
			return nil, err
		}
		m.Key = append(m.Key, meta)
	}
	for _, column := range s.Columns {
		meta, err := add(column.field)
		if err != nil {
			return nil, err
		}
		m.Columns = append(m.Columns, meta)
	}
	return m, nil
}

// schema returns the schema again, with the types and schemes of this version.
func (m *tableMeta) schema() (Schema, error) {
	s := Schema{Name: m.Name, SpreadBits: m.SpreadBits}
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
	return field{name: m.Name, typ: typ, encryption: m.Encryption, scheme: m.Scheme}, nil
}

func (m *tableMeta) marshal() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic("store: " + err.Error()) // strings, integers and ids always marshal
	}
	return b
}
