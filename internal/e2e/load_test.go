package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/index"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A tableKind is how the table of clients finds rows by their columns.
type tableKind string

const (
	hintedTable tableKind = "index entries"
	copiesTable tableKind = "copies" // in index entries, of rows that are replaced under a condition
	servedTable tableKind = "server index"
)

// tableKinds returns the kinds of tables that a database can hold.
func tableKinds(db testdb.Database) []tableKind {
	if db.Name == "cassandra" {
		return []tableKind{hintedTable, copiesTable, servedTable}
	}
	return []tableKind{hintedTable, copiesTable}
}

func (k tableKind) schema() store.Schema {
	at, level := store.OrderedColumn("at", store.Int64, store.Boldyreva), store.OrderedColumn("level", store.Int64, store.Kerschbaum)
	switch k {
	case copiesTable:
		at, level = at.Covering(), level.Covering()
	case servedTable:
		at = at.ServerIndex()
	}
	return store.Schema{
		Name:        "load",
		Key:         []store.KeyPart{store.OrderedPart("id", store.Int64, store.MOPE)},
		Columns:     []store.Column{at, level, store.RandomisedColumn("note", store.Int64)},
		Conditional: k == copiesTable,
		SpreadBits:  2,
	}
}

// value returns what a row with the note has in a column.
func value(column string, id, note int64) int64 {
	mix := uint64(note) * 0x9e3779b97f4a7c15 >> 33
	switch {
	case column == "id":
		return id
	case column == "at":
		return int64(mix % 100)
	case column == "level" && mix%4 == 0: // clients append, each to its own
		return 1000 + note
	case column == "level":
		return int64(mix>>2) % 400
	}
	return note
}

// A client uses the table of a database, one call at a time.
type client struct {
	number     int // no two clients have the same
	r          *rand.Rand
	table      *store.Table
	kind       tableKind
	tell       func(call)
	wrong      func(format string, args ...any)
	later      func(error) // told an error after which the same call may succeed
	rebalanced func()
	fresh      *atomic.Int64
	calls      *atomic.Int64 // ids of calls, which goroutines with one connection share

	writes  int64
	timeout time.Duration // of one call
}

// A connection is what the clients of one process share.
type connection struct {
	number int // no two connections have the same, ever
	db     driver.DB
	table  *store.Table
	kind   tableKind
	index  ope.Index
	calls  atomic.Int64
	fresh  atomic.Int64
	tell   func(call)
}

// connect opens the table, and makes it where it does not exist. Calls on units of indexes are told.
func connect(ctx context.Context, number int, db driver.DB, key ope.Key, kind tableKind, how string, tell func(call)) (*connection, error) {
	c := &connection{number: number, kind: kind, tell: tell}
	schema := kind.schema()
	c.db = c.watch(faulty(db, how))
	st, err := store.Open(ctx, c.db, kms.NewLocal(key), nil)
	if err != nil {
		return nil, err
	}
	c.table, err = st.Table(ctx, schema.Name)
	if errors.Is(err, store.ErrNoTable) {
		c.table, err = st.Create(ctx, schema)
	}
	if err != nil {
		return nil, err
	}
	c.index, err = index.Open(ctx, c.db, "e2e")
	return c, err
}

// client returns the n-th client of a connection.
func (c *connection) client(n int, seed uint64) *client {
	return &client{
		number: c.number*8 + n, r: rand.New(rand.NewPCG(seed, uint64(n))), table: c.table, kind: c.kind,
		tell: c.tell, fresh: &c.fresh, calls: &c.calls, timeout: time.Minute, rebalanced: func() {},
	}
}

// begin records a call, and returns what records its end.
func (c *client) begin(k call) (end func(call)) {
	k.Client, k.ID, k.Begin = c.number/8, c.calls.Add(1), time.Now().UnixNano()
	c.tell(k)
	return func(done call) {
		done.Client, done.ID, done.Begin, done.End = k.Client, k.ID, k.Begin, time.Now().UnixNano()
		c.tell(done)
	}
}

// hot is the number of rows that all clients write.
const hot = 10

// step does one thing. It returns an error after which the client cannot go on.
func (c *client) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var err error
	switch n := c.r.IntN(100); {
	case n < 35:
		err = c.put(ctx, c.r.Int64N(hot))
	case n < 40:
		err = c.delete(ctx, c.r.Int64N(hot))
	case n < 52:
		err = c.put(ctx, int64(c.number)<<32|c.fresh.Add(1))
	case n < 72:
		err = c.get(ctx, c.r.Int64N(hot))
	case n < 97:
		err = c.query(ctx)
	default:
		if _, err = c.table.Rebalance(ctx, "level", nil); err == nil {
			c.rebalanced()
		}
	}
	if err != nil && ctx.Err() == context.Canceled {
		return nil // the test has ended the load
	}
	if err != nil && (store.Retryable(err) || errors.Is(err, context.DeadlineExceeded)) {
		c.later(err)
		return nil
	}
	return err
}

func (c *client) put(ctx context.Context, id int64) error {
	c.writes++
	k := call{Kind: putRow, ID64: id, Note: int64(c.number)<<24 | c.writes}
	end := c.begin(k)
	row := store.Row{"id": id, "note": k.Note}
	for _, column := range []string{"at", "level"} {
		row[column] = value(column, id, k.Note)
	}
	write := c.table.Put
	if c.kind == copiesTable && c.r.IntN(2) == 0 {
		write = c.table.Update
	}
	switch err := write(ctx, row); {
	case errors.Is(err, store.ErrNoRow): // by Update, which then has written nothing
		k.Kind, k.Note = getRow, 0
	case err != nil:
		return err
	}
	end(k)
	return nil
}

func (c *client) delete(ctx context.Context, id int64) error {
	k := call{Kind: putRow, ID64: id}
	end := c.begin(k)
	if err := c.table.Delete(ctx, store.Row{"id": id}); err != nil {
		return err
	}
	end(k)
	return nil
}

func (c *client) get(ctx context.Context, id int64) error {
	k := call{Kind: getRow, ID64: id}
	end := c.begin(k)
	row, err := c.table.Get(ctx, store.Row{"id": id})
	if err != nil {
		return err
	}
	if row != nil {
		k.Note = c.note(row)
	}
	end(k)
	return nil
}

// note returns the note of a row, of which everything else follows.
func (c *client) note(row store.Row) int64 {
	id, note := row["id"].(int64), row["note"].(int64)
	for _, column := range []string{"at", "level"} {
		if row[column] != value(column, id, note) {
			c.wrong("row %d holds a mixture: its note is %d, its %s is %v", id, note, column, row[column])
		}
	}
	return note
}

// query reads a range by one of the columns.
func (c *client) query(ctx context.Context) error {
	k := call{Kind: queryRows, Column: []string{"id", "at", "level"}[c.r.IntN(3)]}
	switch k.Column {
	case "id":
		k.Lo = c.r.Int64N(hot)
		k.Hi = k.Lo + c.r.Int64N(hot)
	case "at":
		k.Lo = c.r.Int64N(100)
		k.Hi = k.Lo + c.r.Int64N(40)
	default:
		k.Lo = c.r.Int64N(400)
		if k.Hi = k.Lo + c.r.Int64N(100); c.r.IntN(8) == 0 {
			k.Hi = math.MaxInt64
		}
	}
	return c.find(ctx, k)
}

func (c *client) find(ctx context.Context, k call) error {
	end := c.begin(k)
	seen := make(map[int64]bool)
	last := int64(math.MinInt64)
	for row, err := range c.table.Query(ctx, store.Query{Where: store.Field[int64](k.Column).Between(k.Lo, k.Hi)}) {
		if err != nil {
			return err
		}
		id, note := row["id"].(int64), c.note(row)
		x := value(k.Column, id, note)
		unordered := k.Column == "at" && c.kind == servedTable
		if x < last && !unordered || x < k.Lo || x > k.Hi || seen[id] {
			c.wrong("a query by %s from %d to %d returned row %d, which has %d, after one with %d; twice: %v",
				k.Column, k.Lo, k.Hi, id, x, last, seen[id])
		}
		seen[id], last = true, x
		k.Found = append(k.Found, rowNote{id, note})
	}
	end(k)
	return nil
}

// look reads everything there is, by every column, and then the rows with the given ids. It returns
// the ids of rows that are torn, which two writers with equal timestamps leave; they are mended.
func (c *client) look(ctx context.Context, ids []int64) (torn []int64, err error) {
	for _, id := range ids {
		err := c.get(ctx, id)
		if errors.Is(err, store.ErrTorn) {
			torn = append(torn, id)
			err = c.put(ctx, id)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, column := range []string{"id", "at", "level"} {
		if err := c.find(ctx, call{Kind: queryRows, Column: column, Lo: math.MinInt64, Hi: math.MaxInt64}); err != nil {
			return nil, err
		}
	}
	return torn, nil
}

// watch returns the database, with the calls on units of indexes told.
func (c *connection) watch(db driver.DB) driver.DB {
	w := &watchedDB{db, c}
	switch db := db.(type) {
	case driver.Snapshotter:
		return &watchedSnapshotter{w}
	case driver.Indexer:
		return &watchedIndexer{w, db}
	}
	return w
}

type watchedIndexer struct {
	*watchedDB
	indexer driver.Indexer
}

func (db *watchedIndexer) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return db.indexer.AddIndex(ctx, spec, name)
}

func (db *watchedIndexer) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return db.indexer.DropIndex(ctx, spec, name)
}

type watchedDB struct {
	driver.DB
	c *connection
}

type watchedSnapshotter struct{ *watchedDB }

func (db *watchedSnapshotter) Snapshot() (driver.Snapshot, error) {
	return db.DB.(driver.Snapshotter).Snapshot()
}

func (db *watchedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil || family(spec) != "index" {
		return f, err
	}
	watched := &watchedFamily{f, db.c, spec.Name}
	if committer, ok := f.(driver.Committer); ok {
		return &watchedCommitter{watched, committer}, nil
	}
	if guarder, ok := f.(driver.Guarder); ok {
		return &watchedGuarder{watched, guarder}, nil
	}
	return watched, nil
}

// family says what a family holds, for which package store has letters.
func family(spec driver.FamilySpec) string {
	switch {
	case spec.Name[0] == 'i':
		return "index"
	case spec.Name[0] == 't':
		return "rows"
	case spec.Name[0] == 'x':
		return "postings"
	}
	return "catalogue"
}

type watchedFamily struct {
	driver.Family
	c    *connection
	name string
}

func (f *watchedFamily) begin(k call, row []byte) (call, func(call)) {
	k.Unit = f.name + " " + hex.EncodeToString(row)
	return k, (&client{number: f.c.number * 8, tell: f.c.tell, calls: &f.c.calls}).begin(k)
}

func (f *watchedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	k, end := f.begin(call{Kind: readUnit, Slice: &s}, row)
	cells, err := f.Family.Get(ctx, row, s)
	if err == nil {
		k.Cells = sums(cells)
		end(k)
	}
	return cells, err
}

func (f *watchedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return f.commit(row, call{Expect: sums([]driver.Cell{expect}), Puts: sums(puts)}, func() (bool, error) {
		return f.Family.CheckAndPut(ctx, row, expect, puts...)
	})
}

func (f *watchedFamily) commit(row []byte, k call, do func() (bool, error)) (bool, error) {
	k.Kind = commitUnit
	k, end := f.begin(k, row)
	applied, err := do()
	switch {
	case err == nil:
		k.Applied = applied
		end(k)
	case errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknownOutcome):
		k.Kind = notMade
		end(k)
	}
	return applied, err
}

type watchedCommitter struct {
	*watchedFamily
	committer driver.Committer
}

func (f *watchedCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	k := call{Expect: sums(expect), Puts: sums(puts)}
	for _, q := range deletes {
		k.Deletes = append(k.Deletes, hex.EncodeToString(q))
	}
	return f.commit(row, k, func() (bool, error) { return f.committer.Commit(ctx, row, expect, puts, deletes) })
}

type watchedGuarder struct {
	*watchedFamily
	guarder driver.Guarder
}

func (f *watchedGuarder) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	return f.commit(row, call{Guard: &guard, Puts: sums(puts)}, func() (bool, error) {
		return f.guarder.PutGuarded(ctx, row, guard, puts...)
	})
}

func sums(cells []driver.Cell) []cell {
	out := make([]cell, len(cells))
	for i, c := range cells {
		out[i].Q = hex.EncodeToString(c.Qualifier)
		if c.Value != nil {
			out[i].Sum = sum(c.Value)
			if len(c.Qualifier) == 0 {
				out[i].Head = hex.EncodeToString(c.Value)
			}
		}
	}
	return out
}

func sum(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:8])
}

// faults are ways in which a database may be broken, for tests of the tests.
var faults = []string{"forgets rows", "forgets postings", "forgets commits", "ignores conditions", "reads old cells"}

// faulty returns a database that is broken in the given way, or is not where there is none.
func faulty(db driver.DB, how string) driver.DB {
	if how == "" {
		return db
	}
	if !slices.Contains(faults, how) {
		panic(fmt.Sprintf("there is no such way to break a database: %s", how))
	}
	return &faultyDB{DB: db, how: how}
}

type faultyDB struct {
	driver.DB
	how string
	n   atomic.Int64
	old sync.Map // from what was asked to what was answered first
}

func (db *faultyDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	faulty := &faultyFamily{Family: f, db: db, of: family(spec)}
	if committer, ok := f.(driver.Committer); ok {
		return &faultyCommitter{faulty, committer}, nil
	}
	return faulty, nil
}

// now reports whether a call on a family is one that goes wrong: one in ten.
func (db *faultyDB) now(how, of, family string) bool {
	return db.how == how && of == family && db.n.Add(1)%10 == 0
}

type faultyFamily struct {
	driver.Family
	db *faultyDB
	of string
}

func (f *faultyFamily) Apply(ctx context.Context, ms ...driver.Mutation) error {
	if f.db.now("forgets rows", "rows", f.of) || f.db.now("forgets postings", "postings", f.of) {
		return nil
	}
	return f.Family.Apply(ctx, ms...)
}

func (f *faultyFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if f.db.how != "reads old cells" || f.of != "index" {
		return f.Family.Get(ctx, row, s)
	}
	key := fmt.Sprintf("%x %x %x %x %d", row, s.Start, s.End, s.Only, s.Limit)
	if old, again := f.db.old.Load(key); again && f.db.n.Add(1)%3 == 0 {
		return old.([]driver.Cell), nil
	}
	cells, err := f.Family.Get(ctx, row, s)
	if err == nil {
		f.db.old.LoadOrStore(key, cells)
	}
	return cells, err
}

func (f *faultyFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	if f.db.now("forgets commits", "index", f.of) {
		return true, nil
	}
	if f.db.now("ignores conditions", "index", f.of) {
		return true, f.Family.Apply(ctx, driver.Mutation{Row: row, Puts: puts})
	}
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

type faultyCommitter struct {
	*faultyFamily
	committer driver.Committer
}

func (f *faultyCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	if f.db.now("forgets commits", "index", f.of) {
		return true, nil
	}
	if f.db.now("ignores conditions", "index", f.of) {
		expect = nil
	}
	return f.committer.Commit(ctx, row, expect, puts, deletes)
}
