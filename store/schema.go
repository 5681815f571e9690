package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Schema describes a table.
type Schema struct {
	// Name has 1 to 100 bytes of valid UTF-8, without control characters, and neither begins nor ends with a space. So
	// has the name of a part or column. The database sees none of them.
	Name string

	// Key is the row key: one or more parts, in the order in which rows are sorted. A hashed part that leads the key says
	// which rows are stored together (the partition), and ranges apply to the first ordered part with every earlier part
	// fixed. See [HashedPart], [OrderedPart], [PlainPart] and [TiePart].
	Key []KeyPart

	// Columns are the other columns, in any order. See [RandomisedColumn], [DeterministicColumn],
	// [OrderedColumn] and [PlainColumn].
	Columns []Column

	// SpreadBits says into how many partitions, 2 to the power of it, a database without ordered partitions (Cassandra)
	// lays the rows of a table that begins with an ordered part, and the index entries of every ordered column. 0 is the
	// default, 4: right for some 10 GB. With more, short ranges touch more partitions; with fewer, partitions grow beyond
	// what Cassandra likes (100 MB each). The greatest is 12, and -1 means one partition. Other databases ignore it.
	SpreadBits int

	// CellPerColumn gives every column a cell of its own, so that queries of few out of many or large
	// columns read and open these only. Without it the values of all columns that are sealed and not searched
	// are packed into the sealed cell of the row key: opening a row takes one decryption, whatever their number. That
	// is what Iyer et al. (EDBT 2004) call optimised NSM, one encryption a record, carried over to wide rows. Their
	// own model, PPC, goes further: it seals one part of a whole page of records, a mini-page, at once.
	CellPerColumn bool

	// Conditional makes every write of a row a compare-and-set: [Table.Update] can change single columns, no write is decided
	// by clocks, and a deleted row leaves some 80 bytes. A write is preceded by a read, and on Cassandra a compare-and-set
	// takes several round trips and waits for others in its partition: let such a table begin with a [HashedPart]. Where another
	// client may have written a row after the call had, the error is [driver.ErrUnknownOutcome]. That is [Retryable], but the call that is made again may undo that write.
	Conditional bool

	// AppendOnly says that rows are added and deleted, and never replaced: the row key ends with a [TiePart], which the
	// store draws for each row. A Put reads nothing before. A row names it by a [LoadTie] only: otherwise it is [ErrColumn].
	AppendOnly bool

	// Tenants says that rows are of tenants, each with keys of its own, so that the table is opened for
	// one of them with [Table.Tenant]. Rows do not name their tenant: two tenants may have rows of
	// the same key. Columns that share a search key, database-wide ones included, share it within one tenant.
	Tenants bool

	// TTL is how long a row lives after it was put: whole seconds, at most ten years. [Table.Expiring] puts rows of another
	// TTL. 0 is a table whose rows never expire; with [TTLByRow] they expire only if they are put so.
	//
	// When a row expires is sealed in it. From then on nothing finds the row, by the clock of the reader. The database removes
	// the cells of columns one hour later, and the key cell and the index entries after another hour. Clocks of clients must
	// differ by less than half an hour, and by as much a row is found longer or shorter. A table with Conditional refuses TTL.
	TTL time.Duration
}

// TTLByRow in [Schema.TTL] lets those rows expire that are put through [Table.Expiring], which says when, and no others.
const TTLByRow = meta.TTLByRow

// A KeyPart is a part of the row key. Make one with the functions below; the zero KeyPart is invalid.
type KeyPart struct{ spec field }

// A Column is a column of a table that is not part of its row key. Make one with the functions
// below; the zero Column is invalid.
type Column struct{ spec field }

// Describe returns how the part is stored. What only the catalogue can tell, such as ids, is left out.
func (p KeyPart) Describe() inspect.Field { return p.spec.Inspect() }

// Describe returns how the column is stored. What only the catalogue can tell, such as ids, is left out.
func (c Column) Describe() inspect.Field { return c.spec.Inspect() }

// HashedPart is a part of which the database sees a keyed hash: rows are found by its exact value only. As the first part
// it spreads rows over partitions and keeps the rows of one value together.
func HashedPart(name string, t Type) KeyPart {
	return KeyPart{field{Name: name, Type: innerOf(t), Encryption: hashed}}
}

// OrderedPart is a part that is encrypted with an order-preserving scheme, which must be immutable because no wide-column
// store can rename a row (Waage et al. 2016, criterion I): a [MutableScheme] does not compile here.
//
// Strings, byte strings and other types that do not fit in 64 bits are ordered by a prefix; a keyed hash of the whole
// value follows in the row key, and rows are put in their exact order by the client.
func OrderedPart(name string, t Type, scheme KeyScheme) KeyPart {
	return KeyPart{field{Name: name, Type: innerOf(t), Encryption: ordered, Scheme: scheme.name}}
}

// PlainPart is a part that is not encrypted: the database sees its values. Rows are found by one value and, unless the part
// is the first, by a range of values. For either, all parts before it are fixed to values and none of these is ordered. As
// the first part it spreads rows over partitions, as a [HashedPart] does. A type of varying length, such as [String],
// cannot be that of the first part.
func PlainPart(name string, t Type) KeyPart {
	return KeyPart{field{Name: name, Type: innerOf(t), Encryption: plain}}
}

// TiePart makes duplicates legal: 16 bytes at the end of the key, drawn at random for a row which does not name them. Values are
// [16]byte. [Table.Put] does not say what it drew: name the part, or use a [TableOf], which sets it. A [Tie] of zeros names none.
func TiePart(name string) KeyPart {
	return KeyPart{field{Name: name, Type: value.UUID, Encryption: tieBreaker}}
}

// A LoadTie, a [16]byte, is the value of a [TiePart] for a row of a load, which may be put again: the first bytes of a hash of the
// load's name and the row's number. With [Schema.AppendOnly], a row that is there stays as it is; one with other values is
// [ErrRowExists]; when a row expires does not count. An application that puts rows through a migrate.Mirror draws them, too, at random
// and never zeros. One process at a time runs a load. Its rows leave index entries when they are deleted, until [Table.Verify] repairs.
type LoadTie = rowcodec.LoadTie

// RandomisedColumn is a column that is sealed and cannot be searched in the database.
func RandomisedColumn(name string, t Type) Column {
	return Column{field{Name: name, Type: innerOf(t), Encryption: randomised}}
}

// DeterministicColumn is a sealed column that can be searched for exact values. The database sees which rows have equal values.
func DeterministicColumn(name string, t Type) Column {
	return Column{field{Name: name, Type: innerOf(t), Encryption: deterministic}}
}

// OrderedColumn is a sealed column that can be searched for ranges. The database sees the order
// of its values, and what else the scheme gives away.
func OrderedColumn(name string, t Type, scheme ColumnScheme) Column {
	c := Column{field{Name: name, Type: innerOf(t), Encryption: ordered}}
	if scheme != nil {
		c.spec.Scheme = scheme.columnScheme()
	}
	return c
}

// SharedWith returns the column with the search key of another one, which may be of the same table: so the two can be joined,
// see [Join]. The other column must have the same type, encryption and scheme, and exist when the table is created or altered;
// where a scheme is stateful the two share its index. Values are sealed under keys of their own all the same.
//
// The database sees what it would see if both were one column: which rows of the one and the other have equal values and,
// of ordered columns, which is less. Whoever knows or guesses the distribution of one column learns about the other.
//
// Only deterministic and ordered columns have a search key.
func (c Column) SharedWith(table, column string) Column {
	c.spec.Confidentiality, c.spec.Table, c.spec.Column = ofColumns, table, column
	return c
}

// DatabaseWide returns the column with a search key of the whole database. All database-wide columns of one type, encryption
// and scheme share it, so that any two can be joined. What the database sees grows with each of them, as
// [Column.SharedWith] says.
func (c Column) DatabaseWide() Column {
	c.spec.Confidentiality, c.spec.Table, c.spec.Column = ofDatabase, "", ""
	return c
}

// Covering returns the column with a copy of the row in each of its index entries, so that a query by the column is one scan,
// as one by the row key is: no row is read besides. Each such column takes the space of the row once more. The table must
// have [Schema.AppendOnly] or [Schema.Conditional]: elsewhere a row is replaced unseen, and its copy would be an old one.
//
// A copy comes soon after its row was written, and until then a query reads the row. One whose client died before stays
// without, until [Table.Convert] or [Table.Verify] with Repair. The table's key seals a copy, also of columns with keys of their
// own. To add or remove copies, use [ChangeColumn]. Only ordered and deterministic columns cover, but for those of [WozniakIndexed].
//
// With names, a copy has these columns only, the column itself and the row key: name the column for no others. A query that asks
// for other columns, or has conditions on them, reads the rows. What copies have can be changed too; a column that is dropped is no more copied.
func (c Column) Covering(columns ...string) Column {
	c.spec.Covering, c.spec.Copied = true, slices.Clone(columns)
	return c
}

// ServerIndex returns the column with an index that the database keeps (SAI of Cassandra 5, no other database), in place
// of index entries. A Put of a row that may exist then reads and writes the row only. It reads the row back before it
// returns: if two clients write a row in one microsecond, the index may have the value of the other one. A row whose
// writer dies at that moment is missed by queries of the column until [Table.Verify] with Repair.
//
// Rows come with the index, and in no order: the client sorts at most 100,000. [Table.Page] and Reverse need an order by
// a column, and a join is refused. One column leads to the rows, and the client checks others. A table with Conditional
// or AppendOnly refuses it, and so do schemes with a state, and databases without such indexes. See also [ChangeColumn].
func (c Column) ServerIndex() Column {
	c.spec.ServerIndex = true
	return c
}

// PlainColumn is a column that is not encrypted nor authenticated. The database sees it.
func PlainColumn(name string, t Type) Column {
	return Column{field{Name: name, Type: innerOf(t), Encryption: plain}}
}

// A ColumnScheme encrypts ordered columns: a [KeyScheme], a [MutableScheme] or [KerschbaumRanked].
type ColumnScheme interface{ columnScheme() string }

// A scheme has a name.
type named struct{ name string }

// String returns the name, as [ParseScheme] reads it.
func (n named) String() string { return n.name }

func (n named) columnScheme() string { return n.name }

// A KeyScheme is an immutable order-preserving scheme: it may encrypt row keys as well as columns.
type KeyScheme struct{ named }

// A MutableScheme is an order-preserving scheme whose ciphertexts move. It encrypts columns only.
//
// Its ciphertexts are in an index of the table, which keeps the order of the values, and nowhere else. The postings of a column
// carry a keyed hash of the value, as those of a [DeterministicColumn]: equality is searched for without the index, and a range
// is read from the index value by value. So ciphertexts move without a row or posting being written, and rows that are deleted
// leave their values in the index. It suits queries that return few rows; to scan much of a large table, take a [KeyScheme].
type MutableScheme struct{ named }

// The order-preserving schemes. The store derives their keys and builds them; a key never serves two columns.
//
// The stateful ones, WozniakIndexed, KerschbaumRanked and the [MutableScheme]s, keep what they gave out in an index of the table,
// which every writer shares: a value that is new costs a commit to the index. With KerschbaumRanked and the MutableSchemes
// a column has at most about 10^8 distinct values; more is [ope.ErrFull]. A Put makes the values of its rows durable
// there before its rows.
var (
	// Boldyreva is the stateless linear scheme of Boldyreva et al. (EUROCRYPT 2009).
	Boldyreva = KeyScheme{named{scheme.Boldyreva}}

	// MOPE is Boldyreva with a secret modular shift (Boldyreva et al., CRYPTO 2011). A range that
	// wraps around the shift becomes two.
	MOPE = KeyScheme{named{scheme.MOPE}}

	// Wozniak is random subrange selection with random uniform sampling (Wozniak et al. 2013) made stateless by a key;
	// linear, with ciphertexts of 3 times as many bits as the values, and of at least 64 more.
	Wozniak = KeyScheme{named{scheme.Wozniak}}

	// WozniakIndexed is random uniform sampling as Waage et al. (SECRYPT 2016, section 3.2.1) modify it: stateful; a
	// ciphertext is drawn when its value is first written, and stays. The index has the pairs of the values that were
	// written only. It is divided at 10^6 of these, and from then on earlier versions refuse it.
	WozniakIndexed = KeyScheme{named{scheme.WozniakIndexed}}

	// Kerschbaum is the mutable scheme of Kerschbaum and Schröpfer (CCS 2014) with local
	// relabelling: stateful. It gives away no more than order and equality. Whoever watches or
	// copies the index also learns in which order values came, see [Table.Rebalance].
	Kerschbaum = MutableScheme{named{scheme.Kerschbaum}}

	// KerschbaumRanked is Kerschbaum with a rank for each value, which never moves, before its ciphertext in index entries. So
	// a range is one scan, as with a [KeyScheme], and [Column.Covering] makes it as fast as one by the row key. For that, a copy
	// of the table shows the order of the rows, and a part of the order in which values came, which nothing wipes out. It
	// encrypts columns only, and has no key to share with others.
	KerschbaumRanked ColumnScheme = named{scheme.KerschbaumRanked}

	// Plaintext does not encrypt. A part or column with it is stored as it is, and can be searched for ranges like an encrypted
	// one: for values that are no secret, and to measure what encryption costs.
	Plaintext = KeyScheme{named{scheme.Plaintext}}
)

// ParseScheme returns the order-preserving scheme of a name, as schema files and command lines have
// it, and as a scheme prints itself. It is a [KeyScheme], a [MutableScheme] or [KerschbaumRanked]. The names
// include those of the schemes of package compare. An unknown name is [ErrSchema].
func ParseScheme(name string) (ColumnScheme, error) {
	var names []string
	for _, s := range []ColumnScheme{
		Boldyreva, MOPE, Wozniak, WozniakIndexed, Kerschbaum, KerschbaumRanked, MutableScheme{named{scheme.KerschbaumPublished}}, Plaintext,
		MutableScheme{named{scheme.PlaintextIndexed}},
	} {
		if s.columnScheme() == name {
			return s, nil
		}
		names = append(names, s.columnScheme())
	}
	return nil, fmt.Errorf("%w: unknown scheme %q: there is %s", ErrSchema, name, strings.Join(names, ", "))
}

// Check returns an error, which is [ErrSchema], if the schema makes no sense. [Store.Create] checks it, too; what needs the
// catalogue, as whether a table of the name exists or a column can share the key of another, only Create can tell.
func (s Schema) Check() error {
	_, err := newTableMeta(s.inner())
	return err
}

// inner returns the schema as the layers below have it.
func (s Schema) inner() meta.Schema {
	m := meta.Schema{Name: s.Name, SpreadBits: s.SpreadBits, CellPerColumn: s.CellPerColumn, Conditional: s.Conditional, AppendOnly: s.AppendOnly, Tenants: s.Tenants, TTL: s.TTL}
	for _, part := range s.Key {
		m.Key = append(m.Key, part.spec)
	}
	for _, column := range s.Columns {
		m.Columns = append(m.Columns, column.spec)
	}
	return m
}

// publicSchema undoes inner.
func publicSchema(m meta.Schema) Schema {
	s := Schema{Name: m.Name, SpreadBits: m.SpreadBits, CellPerColumn: m.CellPerColumn, Conditional: m.Conditional, AppendOnly: m.AppendOnly, Tenants: m.Tenants, TTL: m.TTL}
	for _, part := range m.Key {
		s.Key = append(s.Key, KeyPart{part})
	}
	for _, column := range m.Columns {
		s.Columns = append(s.Columns, Column{column})
	}
	return s
}
