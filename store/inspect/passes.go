package inspect

import "github.com/rangecrypt/rangecrypt/ope"

// ConvertStats counts what one call of Table.Convert did.
type ConvertStats struct {
	Rows       int // that were read
	Converted  int // that were rewritten
	Unreadable int // that were left as they are, since they cannot be read: Table.Verify says why
	Copies     int // that were put into index entries of columns that cover

	// Unfit rows were left as they are, since the schema does not take them: they hold NaN in a column that is
	// searched by now, or would be too large. The conversion goes on, and its columns are pending,
	// until such rows get null or another value there and Convert is called again.
	Unfit int
}

// Add adds what another call did.
func (s *ConvertStats) Add(other ConvertStats) {
	s.Rows, s.Converted, s.Unreadable = s.Rows+other.Rows, s.Converted+other.Converted, s.Unreadable+other.Unreadable
	s.Copies, s.Unfit = s.Copies+other.Copies, s.Unfit+other.Unfit
}

// A ConvertedPart is what one call of Table.ConvertPart did, and how far the conversion of the table was then.
type ConvertedPart struct {
	ConvertStats
	Done int  // of as many parts as the table was cut into for this call, by whichever client
	Over bool // all rows are converted, and the table's entry says so
}

// ConvertStatus is how far the conversion of a table is.
type ConvertStatus struct {
	// Pending are the columns whose encryption was changed and of which not all rows are known to be
	// converted.
	Pending []string
	// Version is that of the schema which the last conversion converts to, or 0 if there was none.
	Version uint32
	// Latest is the version that last changed how rows are stored: if it is not Version, there may be
	// rows of before.
	Latest uint32
	// Done of Total parts of the table are converted, by whichever client.
	Done, Total int
}

// A KeyUse says how much of a table is under which key.
type KeyUse struct {
	Keys   []KeyCount    // of each tenant those of key cells, then those of each column, the newest of each first
	Search []SearchCount // of each tenant those of the parts of the row key, then those of each column, the newest of each first

	Plain   int // cells that are not sealed
	Orphans int // cells of tenants that were dropped, in a table that is not open for one
	Dropped int // cells of columns that were dropped, and with them their keys: Table.Convert removes them
	Left    int // index entries of columns or tenants that were dropped, or of none: Table.Verify says which
	Unknown int // cells that no key of theirs opens, or that are none: Table.Verify says which

	// Catalogue is how many cells of the catalogue are about the table: its entry, earlier keys, how far conversions are, and a migration. All
	// are under the key of the database; those that it does not open are Unknown.
	Catalogue int
}

// A KeyCount is how many cells one key sealed.
type KeyCount struct {
	Tenant string // "" in tables without
	Column string // "" for key cells, with what is packed in them, and for the copies of rows that index entries have
	ID     string // of the key, in hex
	Newest bool   // it seals what is written from now on
	Cells  int

	// Deleted of the cells are what deleted rows of a table with Schema.Conditional leave: they have no values.
	Deleted int
}

// A SearchCount is how much is found by one search key.
type SearchCount struct {
	Tenant  string // "" in tables without
	Column  string // or part of the row key
	ID      string // of the key, in hex
	Newest  bool   // what is written from now on is found by it
	Entries int    // index entries, or values in the index that the database keeps; of a part of the row key, rows
	Records int    // of the index that the scheme keeps, if it does, its own notes included. Columns that share one have the same
}

// Orphans is what Table.DeleteOrphans deleted.
type Orphans struct {
	Rows     int
	Postings int // of these rows, or of rows that were gone already
	Indexes  int // units of columns with a stateful scheme
}

// A Fault is something that no client of package store leaves, wherever it dies; but for one that
// dies, or whose call fails, while another makes an index again: what it leaves then, Repair mends.
type Fault struct {
	Kind   FaultKind
	Tenant string // "" in tables without
	Column string // name of the column or key part; "" where it is the row or posting as a whole

	// Place is where it is: the row key, the key of the posting or, of an index, that of the record,
	// nil where it is the index as a whole. It is as the database has it, and no value.
	Place []byte

	// Err says what is wrong. It holds no value.
	Err error

	// Repaired says that it is mended.
	Repaired bool
}

// FaultKind is a kind of fault, in words.
type FaultKind string

// The kinds of faults.
const (
	FaultCell    FaultKind = "cell"            // of a row, which was changed, moved or sealed under another key
	FaultTorn    FaultKind = "torn row"        // a row with cells of two writes, or without one of its cells
	FaultKey     FaultKind = "key"             // a row key or ciphertext that is not of the row's value, or out of order
	FaultPosting FaultKind = "posting"         // no posting of this table, or one with content that no client gives it
	FaultIndex   FaultKind = "index"           // an index that is not such as clients leave it
	FaultUndone  FaultKind = "unfinished"      // an index that is being made again; who did that may have died
	FaultHidden  FaultKind = "missing posting" // of a row, which a query by the column does not find
	FaultUnknown FaultKind = "missing value"   // in the index of a stateful scheme, which a row has
	FaultCopy    FaultKind = "copy"            // in a posting, which is not that of its row, or has none
	FaultPage    FaultKind = "page"            // of a table of pages, which was changed, moved, removed or sealed under another key
)

// FaultKinds returns the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{FaultCell, FaultTorn, FaultKey, FaultPosting, FaultIndex, FaultUndone, FaultHidden, FaultUnknown, FaultCopy, FaultPage}
}

// A Verification is what Table.Verify found.
type Verification struct {
	Rows     int
	Deleted  int // of a table with Conditional, that left a key cell
	Expired  int // that the database has not removed yet
	Cells    int // of the rows
	Postings int
	Indexes  []Index

	// Dangling is the number of postings that point to no row, or to one that has another value by
	// now. They are no fault: a client that died leaves them, and one that writes makes some for a
	// moment. Each costs its space, and one read for a query that meets it. Those of a row that is yet to be converted,
	// which a conversion that died has left, do not count: another one relies on them.
	Dangling int

	// Unknown is the number of those whose column is not known: a client left them that slept while the column was dropped or
	// changed, and all rows were converted. No query meets them.
	Unknown int

	// Dropped is how many of these Repair dropped.
	Dropped int

	// Uncopied is the number of postings of columns that cover which have no copy of their row: its client is about to put
	// it, or died before. Queries read the row. Repair puts copies.
	Uncopied int

	// Orphans is the number of rows of tenants that were dropped, in a table that is not open for one,
	// and OrphanPostings that of their postings. They are no fault: nobody can read them any more.
	Orphans, OrphanPostings int

	// PutBack is that rows are newer than the catalogue. What it does not know then looks as if it had been dropped.
	PutBack bool

	// Faults is the number of faults of each kind, and Repaired how many of all were mended.
	Faults   map[FaultKind]int
	Repaired int
}

// An Index is what was found in the index of a column with a mutable scheme.
type Index struct {
	Tenant  string // "" in tables without
	Column  string
	Values  int
	Version ope.Version // at the end
}

// Add adds what was found elsewhere: of another tenant, or in another part of the table.
func (v *Verification) Add(other *Verification) {
	v.Rows, v.Deleted, v.Expired, v.Cells = v.Rows+other.Rows, v.Deleted+other.Deleted, v.Expired+other.Expired, v.Cells+other.Cells
	v.Postings, v.Dangling, v.Dropped = v.Postings+other.Postings, v.Dangling+other.Dangling, v.Dropped+other.Dropped
	v.Uncopied, v.Unknown = v.Uncopied+other.Uncopied, v.Unknown+other.Unknown
	v.Orphans, v.OrphanPostings = v.Orphans+other.Orphans, v.OrphanPostings+other.OrphanPostings
	v.Indexes, v.Repaired = append(v.Indexes, other.Indexes...), v.Repaired+other.Repaired
	v.PutBack = v.PutBack || other.PutBack
	if v.Faults == nil {
		v.Faults = make(map[FaultKind]int)
	}
	for kind, n := range other.Faults {
		v.Faults[kind] += n
	}
}

// Sound reports whether there is no fault that was not mended, and no row newer than the catalogue.
func (v *Verification) Sound() bool {
	n := 0
	for _, faults := range v.Faults {
		n += faults
	}
	return n == v.Repaired && !v.PutBack
}
