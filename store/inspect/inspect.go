// Package inspect has what package store reports of a database: what its catalogue says, and what the
// passes over a table and an explained query found. All of them are plain values without methods that
// read anything. None holds a key or, but for what the names of tables and columns say, a value.
package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Database is what the catalogue says.
type Database struct {
	ID      string   // random, in hex
	Key     string   // id of the database key, in hex
	Version uint32   // how often the catalogue was changed
	Tables  []Table  // by name
	Tenants []Tenant // by name
}

// A Lease is what the catalogue says of the lease of writers.
type Lease struct {
	Duration time.Duration // 0 where there is none

	// Wait is how long a change of a schema waits for writers; 0 where there is no lease.
	Wait time.Duration

	// Ending says that a longer lease of before has not been waited for. That is over when [store.Store.SetLease] returns; if
	// that was interrupted, changes go on to wait for the longer lease until it is called again.
	Ending bool
}

// What the catalogue and schema files call the two ways in which the values of a row share cells.
const (
	Packed        = "packed"
	CellPerColumn = "cell per column"
)

// Elsewhere is the layout of a table whose rows are in a table that the application keeps: see package store/cell. It has no
// row key and no families here, only the keys of its columns.
const Elsewhere = "elsewhere"

// Paged is the layout of a table whose rows are in sealed pages: see package store/paged.
const Paged = "paged"

// Apart reports whether package store does not open the table: the application keeps its rows, or they are in pages.
func (t Table) Apart() bool { return t.Layout == Elsewhere || t.Layout == Paged }

// Layout returns the one of a schema: CellPerColumn or Packed.
func Layout(cellPerColumn bool) string {
	if cellPerColumn {
		return CellPerColumn
	}
	return Packed
}

// A Tenant is what the catalogue says of a tenant.
type Tenant struct {
	Name string
	Keys []string // ids of its keys in hex, the one that new cells are sealed under first
}

// A Table is what the catalogue says of a table, for administration. It holds ids of keys,
// which tell nothing about them, and no keys. Ids are in hex.
type Table struct {
	Name       string
	ID         string
	Version    uint32 // of the catalogue, that the last change of the table made
	Layout     string // Packed, CellPerColumn, Elsewhere or Paged
	PageRows   int    // of a page, where the layout is Paged
	SpreadBits int    // 0 is one partition

	// TTL is how long rows live that do not say otherwise: -1 is for ever, and 0 says that no row expires.
	TTL time.Duration

	Conditional bool     // rows are written by compare-and-set
	AppendOnly  bool     // rows are added and deleted, and never replaced
	Tenants     bool     // rows are of tenants, and all keys those of the tenants: see [Tenant]
	Clear       bool     // nothing is encrypted, nor can be
	Families    []string // of the database, that the table has: of rows, postings and indexes
	RowKeys     []string // ids of the keys of key cells, the one for new cells first
	Key         []Field
	Columns     []Field
}

// A Field is what the catalogue says of a part of a row key or of a column.
type Field struct {
	Name            string
	Type            string // as store.ParseType reads it
	Encryption      string // "plain", "hashed", "ordered", "tie", "randomised" or "deterministic"
	Scheme          string // of an ordered one
	Confidentiality string // of a column with a search key: "column", "multicolumn" or "database"

	// Covering says that the column's index entries have copies of the rows. Copied are the columns that a copy has besides
	// the column itself and the row key; nil is all.
	Covering bool
	Copied   []string

	// ServerIndex says that the column has no index entries, but an index that the database keeps.
	ServerIndex bool

	// KeyOf is the column whose search key it has, where the schema names one.
	KeyOf *ColumnName

	// SharedWith are the columns that have its search key, as table.column in ascending order.
	SharedWith []string

	ID        string   // the physical name
	Since     uint32   // the version of the catalogue that it came with
	SearchKey string   // id of the key of its ciphertexts and tokens, or empty
	CellKeys  []string // ids of the keys of its cells, the one for new cells first

	// Remaking says that the index of a stateful scheme is being made again, which is not finished. Until it is,
	// ranges of a column whose ciphertexts move are answered from all rows, in no order.
	Remaking bool

	// Former are the ids that the column had before its encryption was changed, the latest first.
	// Unless one is Converted, rows may have values there.
	Former    []Field
	Converted bool
}

// String says in words how the part or column is stored, for example "time: timestamp/ms, ordered (mope)".
func (f Field) String() string {
	s := fmt.Sprintf("%s: %s, %s", f.Name, cmp.Or(f.Type, "no type"), f.Encryption)
	if f.Scheme != "" {
		s += " (" + f.Scheme + ")"
	}
	switch {
	case f.KeyOf != nil:
		s += fmt.Sprintf(", key shared with %s.%s", f.KeyOf.Table, f.KeyOf.Column)
	case f.Confidentiality == "database":
		s += ", key shared by the database"
	}
	return s
}

// SameCopies reports whether copies of rows in the index entries of two columns of one name have the same columns, where
// the row key has these parts. A list is a set. The column itself and the row key are in every copy, so that naming
// them says nothing.
func (f Field) SameCopies(other Field, key []Field) bool {
	named := func(names []string) []string {
		sorted := slices.Compact(slices.Sorted(slices.Values(names)))
		return slices.DeleteFunc(sorted, func(name string) bool {
			return name == f.Name || slices.ContainsFunc(key, func(part Field) bool { return part.Name == name })
		})
	}
	return (f.Copied == nil) == (other.Copied == nil) && slices.Equal(named(f.Copied), named(other.Copied))
}

// A ColumnName is the name of a column, with that of its table.
type ColumnName struct{ Table, Column string }

// An Estimate says how many rows and postings there are, to somebody who has read some of them.
type Estimate struct {
	Rows    int  // most likely
	AtLeast int  // so many were counted
	Exact   bool // they were all counted
	Rough   bool // what was read tells so little that Rows may be far off, or much of it was missed
}

// And returns the estimate of both together.
func (e Estimate) And(o Estimate) Estimate {
	return Estimate{e.Rows + o.Rows, e.AtLeast + o.AtLeast, e.Exact && o.Exact, e.Rough || o.Rough}
}

// An Explanation says how a query is going to be answered or, where it was analysed, how it was. It holds no values.
type Explanation struct {
	// Driver is what is scanned: the name of a column whose postings are, "row key" for rows that the key restricts, or
	// "all rows". A query that takes several ways, one after the other, has them all here, with " or " between them.
	// One that has "all rows" among them is ErrScan with RequireIndex.
	Driver string
	// Intervals is the number of ranges of keys or, where the driver has a mutable scheme, of
	// values.
	Intervals int
	// Buckets is the number of partitions that the ranges meet on a database without ordered
	// partitions, or 0 for all there are.
	Buckets int
	// Opened are the columns that are read and opened of each row, beside its key, in the order of the schema.
	Opened []string
	// Copied are the columns of Driver whose index entries have copies of rows that answer the query: no row is read, but
	// where a copy is not there yet. Others of Driver may cover, and their copies lack columns that are asked for, or are in
	// conditions: these are Uncopied, and the rows are read.
	Copied, Uncopied []string
	// Sorted says that the client keeps the rows to sort them.
	Sorted bool
	// Unauthenticated says that nothing of a row is authenticated: plain columns are taken as the database gives them, and those
	// of Opened are read, and none is opened.
	Unauthenticated bool
	// Changing are the columns of Driver whose encryption was changed, or whose search key, and of which not all rows were
	// converted by Table.Convert. The index entries of before are scanned, and then those of now.
	Changing []string
	// Unconverted are the columns of the predicate whose encryption was changed and of which not all
	// rows were converted by Table.Convert. They cannot drive the query, so that they are checked
	// in each row.
	Unconverted []string

	// Estimate is how many rows and postings the ranges hold, as a probe of some of them says; it is zero where the query
	// was run, which counts Hits. Where rows come in the order of a column that drives, it is of those with a value there, and Nulls
	// is how many are looked at for the others, which come after them.
	Estimate, Nulls Estimate

	// What follows is counted where the query was run.

	// Tokens is the number of values that the index of a driver with a mutable scheme has in the
	// ranges; the postings of each are looked up. A range of few values that there can be is looked
	// up without the index.
	Tokens int
	// Requests is the number of scans and reads that were sent; a scan pages by itself, one of tokens has many of these, and
	// one read has many rows.
	Requests int
	// Hits is the number of rows and postings that were found in the ranges.
	Hits int
	// Discarded is how many of them did not count: the row is not there, has another value by
	// now, or does not satisfy the rest of the predicate.
	Discarded int
	// Rows is the number of rows that the query returns.
	Rows int
}
