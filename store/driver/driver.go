// Package driver is the seam between package store and a wide-column database: what the database
// must do so that encrypted tables work on it. Applications use package store; this package is
// for those who connect another database. Package drivertest checks an implementation against
// every sentence below.
//
// A driver sees keys and values as bytes that are already encrypted. It never sees a plaintext
// or a key of a cipher.
//
// The model is the wide-column store of Chang et al. (Bigtable, TOCS 2008) reduced to what
// Cassandra, HBase and an embedded ordered store have in common: a database has families, a
// family has rows in bytewise order of their keys, a row has cells in bytewise order of their
// qualifiers, and a cell holds one value. Mutations of one row are atomic; nothing is promised
// across rows.
package driver

import (
	"context"
	"iter"
	"time"
)

// Limits that hold on every database. A driver returns [ErrTooLarge] beyond them, before it
// sends anything.
const (
	MaxRowKey    = 1<<15 - 1 // bytes; the least of the databases is HBase's
	MaxQualifier = 1<<15 - 1 // bytes
	MaxValue     = 8 << 20   // bytes
	MaxHeadValue = 4 << 10   // bytes; of a cell in the head of a wide row, see Slice.Head
	MaxParts     = 1 << 16   // of a scan, see Range.Parts
)

// A DB is a connection to one database or, where databases are shared, to one name space of it.
// All methods may be called from several goroutines at a time, but Close only once, after which
// no other method of the DB or of its families may be called.
type DB interface {
	// Family opens the family that spec describes and creates it when it does not exist or, where
	// spec says Existing, returns [ErrNoFamily]. A family that exists with another layout, or was
	// made by a newer format, is [ErrLayout].
	Family(ctx context.Context, spec FamilySpec) (Family, error)

	// Families returns the names of the families that exist, in ascending order.
	Families(ctx context.Context) ([]string, error)

	// Drop removes a family with all that it holds. A family that does not exist is no error. A
	// [Family] opened before must not be used again, other than that its methods return errors.
	Drop(ctx context.Context, name string) error

	// Close releases the connection. What was acknowledged before stays.
	Close() error
}

// A FamilySpec names a family and says how its rows are going to be read, for the databases that
// have to lay rows out accordingly.
type FamilySpec struct {
	// Name has 1 to 40 characters out of a-z, 0-9 and '_' and begins with a letter.
	Name string

	// Layout must be given.
	Layout Layout

	// PrefixBytes and SpreadBits say, for LayoutOrdered, how a database that cannot scan its
	// partitions in order (Cassandra) forms them. The first PrefixBytes of a row key and the
	// SpreadBits bits behind them name the partition; where both are zero the family is one
	// partition. They are part of the layout: a family is always opened with the same.
	//
	// PrefixBytes is for keys that begin with a fixed-length hash. A scan in order must then
	// keep within one prefix. SpreadBits, at most 16, is for keys that are evenly spread from
	// there on, such as ciphertexts of a well used domain: a scan visits the partitions that
	// its range meets one after the other.
	PrefixBytes int
	SpreadBits  int

	// Existing opens the family only where it exists; otherwise Family returns [ErrNoFamily] and
	// makes nothing. It is not part of the layout.
	Existing bool
}

// Layout says how the rows of a family are read.
type Layout uint8

const (
	_ Layout = iota // the zero Layout is invalid

	// LayoutOrdered is for many rows with few cells each, which are scanned in key order.
	LayoutOrdered

	// LayoutWide is for rows with many cells, of which slices are read. Such rows are found by
	// their whole key; only a scan with AnyOrder is possible.
	LayoutWide
)

// A Family is rows in unsigned bytewise order of their keys; a shorter key comes before those it
// is a prefix of. A row is cells in the same order of their qualifiers. A row exists while it
// has a cell. Row keys have 1 to MaxRowKey bytes, qualifiers 0 to MaxQualifier, values 0 to
// MaxValue; one cell holds one value, and older ones are not kept.
//
// Whatever is returned belongs to the caller, and what the caller passes in is not kept or
// changed. Every method returns soon after its context is done, with an error that wraps
// context.Cause or the context's error. Errors of the database's own client are wrapped, so that
// errors.As finds them, and are one of the kinds in this package where one applies.
//
// Reads observe every mutation that was acknowledged before they were called, by whichever
// client.
type Family interface {
	// Get returns the cells of a row that are in the slice, as of one instant. A row that does
	// not exist has no cells; that is no error.
	Get(ctx context.Context, row []byte, cells Slice) ([]Cell, error)

	// Scan yields the rows of the range that have a cell in its slice, each once, with these
	// cells, in ascending or descending order of their keys. Each row is as of one instant, but
	// the scan as a whole is not: it sees every row that is there from beginning to end, and may
	// or may not see others. It reads page by page, so that its memory does not depend on the
	// number of rows, and reads no more than about a page ahead when the caller stops.
	//
	// A yielded error is the last thing yielded; its Row is zero. Rows stay valid after the
	// iteration.
	Scan(ctx context.Context, r Range) iter.Seq2[Row, error]

	// Apply makes mutations durable: once it has returned nil they survive the death of any
	// process. It may be called with any number of them and sends them in batches. The cells of
	// one Mutation appear all at once; different mutations may appear in any order, and when an
	// error is returned any of them may have been applied. Applying again is harmless. Two
	// mutations of one call must not name the same row.
	//
	// Concurrent mutations of one cell leave the value of one of them (the last write wins, by
	// the database's notion of last). A mutation applied after another was acknowledged to the
	// same client wins over it.
	Apply(ctx context.Context, mutations ...Mutation) error

	// Replace rewrites rows as they were read, and loses nothing that is written meanwhile: each
	// replacement takes effect as if it had been made right after the mutation, or replacement, that
	// put its Seen. Where the row was written again or deleted since, by an Apply before or after
	// this call, that later mutation wins entirely, and that is no error. A mutation applied after a
	// replacement was acknowledged to the same client wins over it.
	//
	// It returns the indexes, ascending, of those replacements that came too late: what they saw was
	// there no more. A database that looks before it writes reports all of these, and may report one
	// that has taken effect, if a request was repeated; HBase and the embedded store do. One that
	// tells the later of two writes by their timestamps does not know, and reports none: Cassandra.
	// With an error nothing is reported.
	//
	// It takes any number of replacements, sends them in batches, makes them durable, and may be
	// repeated, as Apply. The cells of one appear all at once. Two of one call must not name the
	// same row.
	//
	// It is for rows that only Apply and Replace touch and that have a cell, the one that is Seen,
	// which every mutation of the row gives a value that it never had before, unless it deletes
	// the row. A mutation names, as put or deleted, all cells that a replacement of the row may:
	// what only one of the two names may be left as that one says.
	//
	// Of two replacements with one Seen, neither of which saw the other, one is left. On Cassandra
	// that goes cell by cell: of what both put the greater value is left, and what only one of them
	// puts is there, even where the other deletes it. So whichever is left in one cell must make
	// sense beside the cells of the other; or their values begin with something of the replacement's
	// own, after what both have in common; or they are not made at the same time.
	Replace(ctx context.Context, replacements ...Replacement) (late []int, err error)

	// CheckAndPut puts cells into a row if, and only if, the cell expect.Qualifier of that row
	// has the value expect.Value or, where expect.Value is nil, does not exist; it reports
	// whether it did. All of it is one linearizable step. An empty, non-nil value cannot be
	// expected and is refused, since not every database tells it from an absent cell. The puts
	// go to the same row; their TTL must be zero. It never deletes: HBase cannot under a
	// condition.
	//
	// A row that is ever touched by CheckAndPut or Commit must never be touched by Apply,
	// except to delete it when nobody will write it again: the two are not ordered with
	// respect to each other on every database.
	//
	// [ErrUnknownOutcome] means that the puts may or may not have been applied, or may still
	// be. Nothing is repeated behind the caller's back. A Get of the row that the same client
	// calls afterwards sees them if the database has decided for them; where it does not, they
	// may yet come. To be certain, let every change of a row replace a cell that its own
	// condition names, by a value never used before: once another change has been acknowledged,
	// the condition of the earlier one fails for ever.
	CheckAndPut(ctx context.Context, row []byte, expect Cell, puts ...Cell) (bool, error)
}

// A Committer is a [Family] that can check several cells of a row at once and delete under a
// condition. Cassandra and the embedded store have it; HBase has not.
type Committer interface {
	Family

	// Commit is CheckAndPut with any number of expectations, all of which must hold, and with
	// deletes of cells of the same row. Puts and deletes are final states and have no order
	// between them: a qualifier that is in both, or twice in one of them, is refused with
	// [ErrOverlap].
	Commit(ctx context.Context, row []byte, expect []Cell, puts []Cell, deletes [][]byte) (bool, error)
}

// A Snapshotter is a [DB] that can read all its families as of one instant.
type Snapshotter interface {
	DB

	// Snapshot returns a view as of now. Its families refuse to write. The caller closes it.
	Snapshot() (Snapshot, error)
}

// A Snapshot is a read-only view of a [DB] as of one instant.
type Snapshot interface {
	// Family returns the view of a family that existed when the snapshot was taken.
	Family(ctx context.Context, spec FamilySpec) (Family, error)
	Close() error
}

// A Cell is a value with its name within a row.
type Cell struct {
	Qualifier, Value []byte
	// TTL, if positive, is how long the cell is to live from the moment it is put. It is rounded
	// up to a whole second, and the cell is no longer returned from about that time on. Reads
	// leave it zero.
	TTL time.Duration
	// Stamp is filled by reads with Slice.Stamps, and zero otherwise. It says to Replace of the
	// same family which mutation the cell comes from, and means nothing else. Writes ignore it.
	Stamp int64
}

// A Row is a row key with cells of the row in ascending order of their qualifiers.
type Row struct {
	Key   []byte
	Cells []Cell
}

// A Mutation changes one row.
type Mutation struct {
	Row  []byte
	Puts []Cell

	// Deletes are qualifiers of cells that shall not exist. One that is also put, or is named
	// twice, is refused with [ErrOverlap].
	Deletes [][]byte

	// DeleteRow removes the whole row. Puts and Deletes must then be empty.
	DeleteRow bool
}

// A Replacement changes one row that was read. See Family.Replace.
type Replacement struct {
	Row []byte

	// Seen is a cell of the row, as it was read with its Stamp. The replacement must put another
	// value there, or delete it.
	Seen Cell

	// Puts and Deletes are as those of a [Mutation], but without a TTL.
	Puts    []Cell
	Deletes [][]byte
}

// A Slice is a part of a row: the cells whose qualifier is in Only or, where that is empty, in
// the half-open range [Start, End). A nil Start or End is unbounded. The zero Slice is the whole
// row. The cells of a slice come in ascending order; Reverse with a Limit takes them from the
// end, descending. A Limit of zero is no limit.
type Slice struct {
	Only       [][]byte
	Start, End []byte
	Limit      int
	Reverse    bool

	// Head adds the head of the row as of the same instant, wherever the bounds are: the cells
	// whose qualifier is empty or the single byte 0x00. They come first and Limit does not
	// count them. It should be small, since Cassandra sends it with every cell of the slice; the
	// values of such cells of a family with LayoutWide have at most MaxHeadValue bytes. Head is for Get from a family with LayoutWide, and not for Only or Reverse; any
	// other use is refused with [ErrRange].
	Head bool

	// Stamps fills the Stamp of each cell that is read.
	Stamps bool
}

// InHead reports whether the cell with the qualifier belongs to the head of its row.
func InHead(qualifier []byte) bool {
	return len(qualifier) == 0 || len(qualifier) == 1 && qualifier[0] == 0
}

// A Range is the rows of a scan: those with a key in the half-open range [Start, End), where nil
// is unbounded. In the order of their keys or, with Reverse, backwards; at most Limit of them,
// where zero is no limit. Cells must not be reversed or limited.
type Range struct {
	Start, End []byte
	Reverse    bool
	Limit      int
	Cells      Slice

	// AnyOrder lets the rows come in any order, which must then not be reversed. It is the only
	// way to scan a whole family with a PrefixBytes, or one with LayoutWide; a scan in order
	// that leaves its prefix is refused with [ErrRange].
	AnyOrder bool

	// Part and Parts take one of Parts disjoint shares of the range that together are all of it: a
	// row is in the same one whenever it is looked for, whatever else the family holds. Part is 0 to
	// Parts-1, and Parts at most MaxParts; 0 or 1 of them is the whole range. Shares need
	// AnyOrder. Those of two ranges have nothing to do with each other.
	//
	// A database that keeps rows in the order of their keys divides by the two bytes that follow
	// what all keys of the range begin with: see [Range.Share]. They should be evenly spread.
	// Cassandra divides by the hashes of its partitions, so that a partition is in one share.
	Part, Parts int
}
