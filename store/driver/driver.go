// Package driver is the seam between package store and a wide-column database: what the database
// must do so that encrypted tables work on it. Applications use package store; this package is
// for those who connect another database. Package drivertest checks an implementation against
// every sentence below.
//
// A driver sees keys and values as bytes that are already encrypted. It never sees a plaintext
// or a key of a cipher.
//
// The model is the wide-column store of Chang et al. (Bigtable, TOCS 2008), reduced to what clusters
// and embedded ordered stores have in common. A database has families. A family has rows in bytewise
// order of their keys. A row has cells in bytewise order of their qualifiers. A cell holds one value.
// Mutations of one row are atomic; nothing is promised across rows.
package driver

import (
	"context"
	"iter"
	"time"
)

// Limits that hold on every database. Package store keeps to them. Beyond them, a driver must return
// [ErrTooLarge] before it sends anything.
const (
	MaxRowKey    = 1<<15 - 1 // bytes
	MaxQualifier = 1<<15 - 1 // bytes
	MaxValue     = 8 << 20   // bytes
	MaxHeadValue = 4 << 10   // bytes; of a cell in the head of a wide row, see Slice.Head
	MaxParts     = 1 << 16   // of a scan, see Range.Parts
	MaxBatch     = 1 << 10   // rows of one GetBatch, ranges of Range.Each

	// MaxCells and MaxChange bound the cells that one change of a row names. These are the cells that
	// it puts, deletes and, other than in Replace, expects. Each counts the bytes of its value, of
	// its qualifier and of the row key.
	MaxCells  = 1<<16 - 1
	MaxChange = 15 << 20 // bytes
)

// A DB is a connection to one database or, where databases are shared, to one name space of it.
// Several goroutines may call its methods at a time. Close may be called once; after that, methods of
// the DB and of its families should return [ErrClosed].
type DB interface {
	// Family opens the family that spec describes. If there is none, Family must create it or, where
	// spec says Existing, return [ErrNoFamily]. For a family of another layout or of a newer format,
	// it must return [ErrLayout].
	Family(ctx context.Context, spec FamilySpec) (Family, error)

	// Families returns the names of the families that exist, in ascending order.
	Families(ctx context.Context) ([]string, error)

	// Drop removes a family with all that it holds. A family that does not exist is no error. The
	// methods of a [Family] that was opened before must return errors.
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

	// PrefixBytes and SpreadBits form the partitions of a family with LayoutOrdered, on databases
	// that cannot scan partitions in order. The first PrefixBytes of a row key and the next
	// SpreadBits bits name the partition; if both are zero, the family is one partition. They are
	// part of the layout: a family must always be opened with the same.
	//
	// PrefixBytes is for keys that begin with a hash of fixed length. A scan in order must then
	// keep within one prefix. SpreadBits, at most 16, is for keys that are evenly spread after
	// the prefix. A scan visits the partitions of its range one after the other.
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
	// their whole key; a scan of them must be in any order.
	LayoutWide
)

// A Family is rows in unsigned bytewise order of their keys; a shorter key comes before those it
// is a prefix of. A row is cells in the same order of their qualifiers, and exists while it has a
// cell. Row keys have 1 to MaxRowKey bytes, qualifiers 0 to MaxQualifier, values 0 to MaxValue. A
// cell holds one value; older ones are not kept.
//
// What a method returns must belong to the caller. What the caller passes must be neither kept nor
// changed. A method must return soon after its context is done, with an error that wraps the
// context's error or its cause. It must wrap errors of the database's own client, so that errors.As
// finds them, and give them one of the kinds in this package where one applies.
//
// A read must observe every mutation, of any client, that was acknowledged before the call.
type Family interface {
	// Get returns the cells of a row that are in the slice, as of one instant. A row that does
	// not exist has no cells; that is no error.
	Get(ctx context.Context, row []byte, cells Slice) ([]Cell, error)

	// GetBatch is Get of many rows, in few requests. It returns the cells of each, in the order of
	// rows, or an error for all. Each row is as of one instant; two rows need not be of the same. A
	// row may be named twice. There are at most MaxBatch rows, which may be none.
	//
	// It is for families with LayoutOrdered. The slice must not have a Limit.
	GetBatch(ctx context.Context, rows [][]byte, cells Slice) ([][]Cell, error)

	// Scan yields the rows of the range that have a cell in its slice, each once, with these
	// cells, in ascending or descending order of their keys. Each row is as of one instant. The
	// scan as a whole is not: it must see every row that is there from beginning to end, and may
	// see others. Its memory must not depend on the number of rows. When the caller stops, it
	// should not have read much more than a page ahead.
	//
	// An error must be the last thing yielded, with a zero Row. Rows must stay valid after the
	// iteration.
	Scan(ctx context.Context, r Range) iter.Seq2[Row, error]

	// Apply makes mutations durable: once it has returned nil, they must survive the death of any
	// process. It takes any number of them and sends them in batches. The cells of one Mutation
	// must appear all at once; different mutations may appear in any order. After an error, any
	// of them may have been applied. Applying them again must be harmless. Two mutations of one
	// call must not name the same row.
	//
	// Of concurrent mutations of one cell, the value of one must be left. A mutation must win over
	// those that were acknowledged to the same client before it was applied, and over cells that it has read with their
	// stamps before. A driver that sends a mutation again, which may win over one that came between, says so (internal/pause).
	Apply(ctx context.Context, mutations ...Mutation) error

	// Replace rewrites rows as they were read, in batches, durably and repeatably as Apply does. Each
	// must take effect as if it had been made right after the change that put its Seen: a mutation
	// that came later, or comes later, must win entirely, and that is no error. The cells of one
	// must appear all at once. Two of one call must not name the same row.
	//
	// It returns the ascending indexes of replacements whose Seen was there no more. A database that
	// cannot tell must return none. One that repeats a request may also name one that took effect.
	//
	// It is for rows that only Apply and Replace touch. Every mutation of such a row must put or
	// delete all cells that a replacement may, or none of them. One of all must give the cell that is
	// Seen a value that this cell never had, or delete the row. One of none decides nothing between
	// others, and lasts beside them. Of replacements with one Seen, one must be left. A database may
	// decide that cell by cell: of what several put the greatest value is left, and what only one puts
	// is there.
	Replace(ctx context.Context, replacements ...Replacement) (late []int, err error)

	// CheckAndPut puts cells into a row if, and only if, the cell expect.Qualifier has the value
	// expect.Value or, where that is nil, does not exist. It reports whether it did. The whole must
	// be one linearizable step. An expected value must not be empty and non-nil, and the TTL of the
	// puts must be zero. Rows that CheckAndPut or Commit ever touches must not be touched by Apply,
	// except to delete them when nobody will write them again.
	//
	// After [ErrUnknownOutcome] the puts may have been applied, or may still be; the driver must not
	// repeat them. A later Get of the row by this client must see them if the database has decided
	// for them. They can no longer come once another change of the row is acknowledged, if that
	// change gives a never used value to the cell that the condition names.
	CheckAndPut(ctx context.Context, row []byte, expect Cell, puts ...Cell) (bool, error)
}

// A Committer is a [Family] that can check several cells of a row at once and delete under a
// condition. Not every database can.
type Committer interface {
	Family

	// Commit is CheckAndPut with any number of expectations, all of which must hold, and with
	// deletes of cells of the same row. Puts and deletes have no order. For a qualifier that is in
	// both, or twice in one of them, Commit must return [ErrOverlap].
	Commit(ctx context.Context, row []byte, expect []Cell, puts []Cell, deletes [][]byte) (bool, error)
}

// A Guarder is a [Family] that checks a [Guard] where it puts. Not every database can, and those with a
// [Committer] need not.
type Guarder interface {
	Family

	// PutGuarded is CheckAndPut with a guard for a condition. False says that nothing was put, and no
	// more: a database may refuse what its guard allows. After [ErrUnknownOutcome] the puts may still
	// come whenever the guard holds.
	PutGuarded(ctx context.Context, row []byte, guard Guard, puts ...Cell) (bool, error)
}

// A Guard is a condition on cells of a row.
type Guard struct {
	Prefix []byte   // of the value of the cell with the empty qualifier; not empty
	Free   [][]byte // qualifiers, ascending, none empty, of cells that do not exist or have the value Gone
	Gone   []byte   // not empty
}

// A Snapshotter is a [DB] that can read all its families as of one instant.
type Snapshotter interface {
	DB

	// Snapshot returns a view as of now. Writes to its families must return [ErrReadOnly]. The
	// caller must close it.
	Snapshot() (Snapshot, error)
}

// A Snapshot is a read-only view of a [DB] as of one instant.
type Snapshot interface {
	// Family returns the view of a family that existed when the snapshot was taken.
	Family(ctx context.Context, spec FamilySpec) (Family, error)
	Close() error
}

// A Describer is a [DB] that says which database it is, for spans and metrics.
type Describer interface {
	DB
	Describe() Description
}

// A Description is what anyone may know of a database. It may be empty.
type Description struct {
	System    string // product, as OpenTelemetry's attribute db.system.name has it
	Namespace string // keyspace or name space, as db.namespace has it; empty where there is none
	Backdates bool   // whether Mutation.AsOf counts
	Undecided bool   // whether Slice.Decided counts
}

// Describe returns what db says of itself. That is nothing unless it is a [Describer].
func Describe(db DB) Description {
	if d, ok := db.(Describer); ok {
		return d.Describe()
	}
	return Description{}
}

// A Cell is a value with its name within a row.
type Cell struct {
	Qualifier, Value []byte
	// TTL, if positive, is how long the cell lives after it was put, rounded up to a second. Reads
	// should stop returning the cell at about that time. They leave TTL zero.
	TTL time.Duration
	// Stamp is filled by reads with Slice.Stamps, and zero otherwise. From it, Replace of the same
	// family learns which mutation the cell comes from. Writes ignore it.
	Stamp int64
	// Index is for families of an [Indexer]: what the cell has in indexes. A put sets those that it names, and leaves others
	// as they are. A read fills those of Slice.Indexes, in their order.
	Index []IndexValue
}

// A Row is a row key with cells of the row in ascending order of their qualifiers.
type Row struct {
	Key   []byte
	Cells []Cell
}

// LatestStamp returns the latest stamp of cells that were read with them, or 0.
func LatestStamp(cells []Cell) (latest int64) {
	for i := range cells {
		latest = max(latest, cells[i].Stamp)
	}
	return latest
}

// A Mutation changes one row.
type Mutation struct {
	Row  []byte
	Puts []Cell

	// Deletes are qualifiers of cells that shall not exist. One that is also put, or named twice,
	// is [ErrOverlap].
	Deletes [][]byte

	// DeleteRow removes the whole row. Puts and Deletes must then be empty.
	DeleteRow bool

	// AsOf, where it is not zero, is when the mutation is to count as made: a mutation that was made later, or comes later, by the
	// clock of its maker, wins entirely. That holds for deletions as long as the database remembers them. All mutations of one call
	// have the same. Databases whose [Description] does not say Backdates ignore it.
	AsOf time.Time
}

// A Replacement changes one row that was read. See Family.Replace.
type Replacement struct {
	Row []byte

	// Seen is a cell of the row, as it was read with its Stamp. The replacement must put another
	// value there, or delete it.
	Seen Cell

	// Puts and Deletes are as those of a [Mutation]. When the time of a put with a TTL is over, what it replaced must not
	// come back.
	Puts    []Cell
	Deletes [][]byte

	// Rank, from 0 to MaxRank, decides between replacements with one Seen where the database does not compare it: the one with
	// the greatest wins. Those of one rank must leave a row that the caller accepts, whatever cells of each it keeps. Databases that
	// compare Seen ignore it: the first one wins.
	Rank int
}

// MaxRank is the greatest rank of a [Replacement].
const MaxRank = 6

// A Slice is a part of a row: the cells whose qualifier is in Only or, where that is empty, in
// the half-open range [Start, End), in ascending order. A nil Start or End is unbounded, and a Limit
// of zero is no limit. The zero Slice is the whole row.
type Slice struct {
	Only       [][]byte
	Start, End []byte
	Limit      int

	// Head adds the head of the row as of the same instant, wherever the bounds are: the cells
	// whose qualifier is empty or the single byte 0x00. They come first and Limit does not count
	// them. In a family with LayoutWide their values have at most MaxHeadValue bytes. Head is for
	// Get from such a family, without Only; any other use is [ErrRange].
	Head bool

	// NeedsFirst says that the caller takes a row without the least of Only for one that does not exist. Get and GetBatch may
	// then return it without cells. Only must not be empty.
	NeedsFirst bool

	// Skip is a value whose cells a database may leave out; Limit then does not count them. Nil is none.
	Skip []byte

	// Stamps fills the Stamp of each cell that is read.
	Stamps bool

	// Decided, for Get, has the database decide first what earlier reads of the row may have shown of it: CheckAndPut and Commit of
	// others that nobody was told of. From then on, every read sees those. Databases whose [Description] does not say Undecided show
	// only what every later read sees, and ignore it.
	Decided bool

	// Indexes are those of which the cell with the empty qualifier gets its values, if that is read from a family of an
	// [Indexer] with LayoutOrdered.
	Indexes []string
}

// InHead reports whether the cell with the qualifier belongs to the head of its row.
func InHead(qualifier []byte) bool {
	return len(qualifier) == 0 || len(qualifier) == 1 && qualifier[0] == 0
}

// Bounds are the keys from Start on that are below End; a nil End is unbounded.
type Bounds struct{ Start, End []byte }

// A Range is the rows of a scan: those with a key in the half-open range [Start, End), where nil
// is unbounded. They come in the order of their keys or, with Reverse, backwards, at most Limit of
// them; zero is no limit. Cells must not have a Limit or a Head.
type Range struct {
	Start, End []byte

	// Each, unless it is nil, has 1 to MaxBatch ranges in place of Start and End. The Start of each is below its End, and
	// that is not above the Start of the next one. The rows come in the order of their keys, as those of one range do, but
	// Limit holds for each. The scan must be in order; a family with PrefixBytes can serve ranges of several prefixes.
	//
	// It is for very many ranges with a few rows each, which are to cost less than a scan for each. A driver that
	// knows nothing better has [Range.InTurn] and [Range.Ahead].
	Each []Bounds

	Reverse bool
	Limit   int
	Cells   Slice

	// AnyOrder lets the rows come in any order, without Reverse. A family with LayoutWide, or more
	// than one prefix of a family with PrefixBytes, can only be scanned in this way; a scan of them
	// in order is [ErrRange]. Without Parts, rows of one prefix come one after the other, in the order of their keys.
	AnyOrder bool

	// After, with AnyOrder, leaves out what a scan of the same range yields up to the row of that key, and that row.
	// The row need not be there any more, and be in the range; it must be a valid key. So the rows of a family come in
	// one order in all scans in any order that have no Parts, and After is for them. LayoutWide has none: there it is
	// [ErrRange].
	After []byte

	// Part and Parts take one of Parts disjoint shares of the range that together are all of it. A
	// row must always be in the same one, whatever else the family holds. Part is 0 to Parts-1,
	// and Parts at most MaxParts; 0 or 1 of them is the whole range. Shares need AnyOrder.
	//
	// All Parts cut one line. Say that each row has a place from 0 to 1 there; then it is in the part that has
	// this place, from Part/Parts on and below (Part+1)/Parts. So where some shares leave no gap, they have all rows there,
	// although their Parts differ.
	//
	// A database that keeps rows in the order of their keys should divide them by [Range.Share].
	Part, Parts int

	// Index, if not nil, leaves of the range the rows with some values in an index. The family must be of an [Indexer], the
	// scan in any order without After, and Cells the one with the empty qualifier.
	Index *IndexRange
}
