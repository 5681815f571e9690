package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var (
	simRuns = flag.Int("store.sim", sim.LongShare(50, 25, 10), "runs of each simulation")
	simSeed = flag.Uint64("store.simseed", 1, "seed of the first run of a simulation; the next ones follow")
)

// The simulation: clients write, delete and query a few rows of one table in a database without
// snapshots. Every mutation of a row, every read and every page of two rows is a step, and a
// seeded scheduler decides whose step is next. A client may die at a step, before it is made,
// after it, or with it still under way; another takes its place. After each step every row must
// have its postings, and every query must keep the promise of the package comment.
type world struct {
	variant variant
	db      driver.DB
	key     ope.Key
	schema  Schema
	oneCell bool // the database can check one cell only
	r       *rand.Rand
	table   *Table // of an observer whose calls are no steps

	mu      sync.Mutex
	waiting []*waitingCall
	late    []*waitingCall // of dead clients
	running int            // goroutines that are not done
	clients int

	time   int64
	stamps map[string]int64 // by family and row: the timestamp of the last mutation
	mixed  int              // rows that two mutations with one timestamp have left

	left map[string]bool // rows that a dead client may have left mixed

	step    int
	active  map[string]int // by row: writes under way
	touched map[string]int // by row: the last step at which a write was under way
	trace   []string
	bad     []string
	queries int
	stable  int // rows that queries had to find
	indexed int // rows whose values had to be in the index
}

// A variant is what is different from the protocol as it is.
type variant struct {
	skew       bool // the last write wins by clocks that disagree
	noReadBack bool // old postings are dropped without looking whether the old row is still there
	valueKeyed bool // postings do not carry the write id
	forgetful  bool // queries believe that they read a snapshot, and keep no list of the rows seen
	mutable    bool // the ordered column has a mutable scheme, which is rebalanced now and then
	loses      bool // a value is taken for being in the index before it is
	served     bool // the database has indexes, and often gives two mutations one timestamp
	noLookBack bool // nobody looks whether an index has the values of another mutation
}

type waitingCall struct {
	client  *simDB
	what    string
	rows    []string // that writes of this call touch
	do      func() error
	release chan fate
}

type fate int

const (
	lives fate = iota
	diesBefore
	diesAfter
	diesDuring // and the call is made at some later time
)

var errDead = errors.New("the client is dead")

// call waits until the scheduler lets the step happen.
func (w *world) call(c *simDB, what string, rows []string, do func() error) error {
	p := &waitingCall{client: c, what: what, rows: rows, do: do, release: make(chan fate)}
	w.mu.Lock()
	if c.dead {
		w.mu.Unlock()
		return errDead
	}
	w.waiting = append(w.waiting, p)
	w.mu.Unlock()
	switch <-p.release {
	case lives:
		return do()
	case diesAfter:
		return errors.Join(do(), errDead)
	}
	return errDead
}

// simDB is a client's connection.
type simDB struct {
	driver.DB
	w     *world
	id    int
	clock int64 // how much its clock is ahead
	last  int64 // timestamp, where these are coarse
	dead  bool
}

func (db *simDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil || spec.Name == catalogueFamily {
		return f, err // the catalogue is not what is simulated
	}
	sim := &simFamily{f, db, spec.Name, spec.Name[0] == 'x' && db.w.variant.valueKeyed}
	if c, ok := f.(driver.Committer); ok {
		return &simCommitter{sim, c}, nil
	}
	return sim, nil
}

type simFamily struct {
	driver.Family
	db        *simDB
	name      string
	valueOnly bool
}

// simCommitter is a family that can check several cells at once.
type simCommitter struct {
	*simFamily
	committer driver.Committer
}

func (f *simCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (applied bool, err error) {
	err = f.db.w.call(f.db, fmt.Sprintf("commit %s %x", f.name[:1], row), nil, func() error {
		if len(deletes) == 0 && f.db.w.loses() { // what moves in an index is not lost, or nobody could read it
			applied, err = true, nil
			return nil
		}
		applied, err = f.committer.Commit(context.Background(), row, expect, puts, deletes)
		return err
	})
	return applied, err
}

// loses reports whether a commit is acknowledged but not made.
func (w *world) loses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.variant.loses && w.r.IntN(4) == 0
}

func (f *simFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (applied bool, err error) {
	err = f.db.w.call(f.db, fmt.Sprintf("commit %s %x", f.name[:1], row), nil, func() error {
		if f.db.w.loses() {
			applied, err = true, nil
			return nil
		}
		applied, err = f.Family.CheckAndPut(context.Background(), row, expect, puts...)
		return err
	})
	return applied, err
}

func (f *simFamily) Get(ctx context.Context, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	err = f.db.w.call(f.db, fmt.Sprintf("get %s %x %x %x %x", f.name[:1], row, s.Start, s.End, s.Only), nil, func() error {
		if f.db.w.variant.noLookBack && len(s.Indexes) > 0 {
			return nil // as if the row were gone
		}
		if f.db.w.variant.noReadBack && len(s.Only) == 1 && f.name[0] == 't' {
			return nil // as if the old row were gone
		}
		cells, err = f.Family.Get(ctx, row, s)
		return err
	})
	return cells, err
}

func (f *simFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f *simFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return scanInSteps(f.Family, r, func(start []byte, read func() error) error {
		return f.db.w.call(f.db, fmt.Sprintf("scan %s %x", f.name[:1], start), nil, read)
	}, func(row *driver.Row) {
		if f.valueOnly {
			row.Key = append(row.Key, make([]byte, 16)...)
		}
	})
}

// replaceEach makes replacements one after the other, and returns those that came too late.
func replaceEach(replacements []driver.Replacement, replace func(r driver.Replacement, tooLate func()) error) (late []int, err error) {
	for i, r := range replacements {
		if err := replace(r, func() { late = append(late, i) }); err != nil {
			return nil, err
		}
	}
	return late, nil
}

// replaceOne makes a replacement.
func replaceOne(f driver.Family, r driver.Replacement, tooLate func()) error {
	missed, err := f.Replace(context.Background(), r)
	if len(missed) > 0 {
		tooLate()
	}
	return err
}

// scrambled returns mutations in some order, which is the same one in each run of a seed.
func scrambled(seed uint64, mutations []driver.Mutation) []driver.Mutation {
	order := func(m driver.Mutation) uint64 { return orderOf(seed, m.Row) }
	return slices.SortedFunc(slices.Values(mutations), func(a, b driver.Mutation) int { return cmp.Compare(order(a), order(b)) })
}

// scanInSteps yields the rows of a range. Each two are read in a step, and each is given to a function before.
func scanInSteps(f driver.Family, r driver.Range, step func(start []byte, read func() error) error, each func(*driver.Row)) iter.Seq2[driver.Row, error] {
	if r.Each != nil {
		return r.InTurn(func(r driver.Range) iter.Seq2[driver.Row, error] { return scanInSteps(f, r, step, each) })
	}
	return func(yield func(driver.Row, error) bool) {
		for left := r.Limit; ; {
			var rows []driver.Row
			err := step(r.Start, func() error {
				page := r
				page.Limit = 2
				for row, err := range f.Scan(context.Background(), page) {
					if err != nil {
						return err
					}
					rows = append(rows, row)
				}
				return nil
			})
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for _, row := range rows {
				if r.Reverse {
					r.End = bytes.Clone(row.Key)
				} else {
					r.Start = append(bytes.Clone(row.Key), 0)
				}
				each(&row)
				if !yield(row, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(rows) < 2 {
				return
			}
		}
	}
}

func (f *simFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	w := f.db.w
	w.mu.Lock()
	mutations = slices.Clone(mutations)
	w.r.Shuffle(len(mutations), func(i, j int) { mutations[i], mutations[j] = mutations[j], mutations[i] })
	w.mu.Unlock()
	for _, m := range mutations {
		if f.valueOnly {
			m.Row = m.Row[:len(m.Row)-16]
		}
		w.mu.Lock()
		w.time += 2
		at := w.time + f.db.clock
		if w.variant.served {
			at = max(w.time/16*16, f.db.last+16)
			f.db.last = at
		}
		w.mu.Unlock()
		var rows []string
		if f.name[0] == 't' {
			rows = []string{string(m.Row)}
		}
		err := w.call(f.db, fmt.Sprintf("apply %s %x", f.name[:1], m.Row), rows, func() error {
			row := f.name + string(m.Row)
			if w.variant.skew {
				if at <= w.stamps[row] {
					return nil // an older write
				}
				w.stamps[row] = at
			}
			if w.variant.served {
				return w.applyAt(f.Family, row, at, m)
			}
			return f.Family.Apply(context.Background(), m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applyAt applies a mutation with a timestamp as Cassandra does: of two with one timestamp, each cell has the greater value,
// and so has each index, but nothing is greater than any value.
func (w *world) applyAt(f driver.Family, row string, at int64, m driver.Mutation) error {
	ctx, was := context.Background(), w.stamps[row]
	if at < was {
		return nil
	}
	w.stamps[row] = at
	if at > was {
		return f.Apply(ctx, m)
	}
	cells, err := f.Get(ctx, m.Row, driver.Slice{Indexes: w.table.now().IndexNames()})
	if err != nil || len(cells) == 0 || m.DeleteRow { // what is deleted stays so
		return errors.Join(err, f.Apply(ctx, driver.Mutation{Row: m.Row, DeleteRow: true}))
	}
	has := make(map[string]driver.Cell)
	for _, c := range cells {
		has[string(c.Qualifier)] = c
	}
	next := driver.Mutation{Row: m.Row}
	deleted := func(q []byte) bool {
		return slices.ContainsFunc(m.Deletes, func(d []byte) bool { return bytes.Equal(d, q) })
	}
	for _, c := range m.Puts {
		old, there := has[string(c.Qualifier)]
		if !there {
			next.Deletes = append(next.Deletes, c.Qualifier) // the other one has deleted it
			continue
		}
		c.Index = slices.Clone(c.Index)
		for i, v := range c.Index {
			if o := old.Index[i]; o.Index != v.Index {
				panic("other indexes")
			} else if o.Value == nil || v.Value != nil && bytes.Compare(o.Value, v.Value) > 0 {
				c.Index[i] = o
			}
		}
		if bytes.Compare(old.Value, c.Value) > 0 {
			c.Value = old.Value
		}
		next.Puts = append(next.Puts, c)
	}
	for q := range has {
		if deleted([]byte(q)) {
			next.Deletes = append(next.Deletes, []byte(q))
		}
	}
	if err := f.Apply(ctx, next); err != nil {
		return err
	}
	if w.misplaced(f, m.Row) {
		w.mixed++
	}
	return nil
}

// misplaced reports whether an index does not have the values of a row, or the row is of two mutations.
func (w *world) misplaced(f driver.Family, row []byte) bool {
	cells, err := f.Get(context.Background(), row, w.table.now().IndexSlice())
	if err != nil {
		panic(err)
	}
	wrong, err := w.table.now().Misplaced(context.Background(), driver.Row{Key: row, Cells: cells}, nil, new(rowcodec.Scratch))
	return err != nil || len(wrong) > 0
}

// checkIndexes looks for rows that nobody is writing, and that an index of the database does not lead to.
func (w *world) checkIndexes(all bool) {
	for row, err := range w.table.now().Data.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		if (all || w.active[string(row.Key)] == 0 && !w.left[string(row.Key)]) && w.misplaced(w.table.now().Data, row.Key) {
			w.fail("an index does not lead to a row")
		}
	}
}

var simSchema = Schema{
	Name: "simulated",
	Key:  []KeyPart{HashedPart("id", Int8)},
	Columns: []Column{
		OrderedColumn("level", Int8, MOPE),
		DeterministicColumn("kind", Int8),
		RandomisedColumn("note", Int64),
	},
}

// connect returns the table as a new client sees it.
func (w *world) connect() (*simDB, *Table) {
	w.mu.Lock()
	w.clients++
	db := &simDB{DB: noSnapshots{w.db, w.oneCell}, w: w, id: w.clients}
	if w.variant.skew {
		db.clock = int64(w.r.IntN(200))
	}
	w.mu.Unlock()
	if w.variant.forgetful {
		return db, w.tableOn(falseSnapshots{db})
	}
	return db, w.tableOn(db)
}

func (db *simDB) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.AddIndex(ctx, db.DB, spec, name)
}

func (db *simDB) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.DropIndex(ctx, db.DB, spec, name)
}

func (db noSnapshots) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.AddIndex(ctx, db.DB, spec, name)
}

func (db noSnapshots) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.DropIndex(ctx, db.DB, spec, name)
}

// falseSnapshots says that it has snapshots, which are the database as it is at any moment.
type falseSnapshots struct{ driver.DB }

func (db falseSnapshots) Snapshot() (driver.Snapshot, error) { return db, nil }
func (db falseSnapshots) Close() error                       { return nil }

func (w *world) tableOn(db driver.DB) *Table {
	ctx := context.Background()
	st, err := Open(ctx, db, kms.NewLocal(w.key), nil)
	if err != nil {
		panic(err)
	}
	tbl, err := st.Table(ctx, w.schema.Name)
	if errors.Is(err, ErrNoTable) {
		tbl, err = st.Create(ctx, w.schema)
	}
	if err != nil {
		panic(err)
	}
	return tbl
}

// noSnapshots hides that a database is a Snapshotter, and may hide that its families are Committers.
type noSnapshots struct {
	driver.DB
	oneCell bool
}

func (db noSnapshots) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if db.oneCell && err == nil {
		return struct{ driver.Family }{f}, nil
	}
	return f, err
}

// Writers change the rows from 0 on; some more are there that nobody changes.
const (
	simRows    = 4
	simAtRest  = 3
	simBatches = 7
)

func (w *world) rowKey(row Row) string {
	key, err := bykey.ExactKey(context.Background(), w.table.now(), row)
	if err != nil {
		panic(err)
	}
	return string(key)
}

// begin and end say that rows may be changing.
func (w *world) begin(rows []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		w.active[row]++
		w.touched[row] = w.step
	}
}

func (w *world) end(rows []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		w.active[row]--
		w.touched[row] = w.step
	}
}

// level returns a value: of few, or of many where these are in an index.
func (w *world) level(r *rand.Rand) int8 {
	if w.variant.mutable {
		return int8(r.IntN(40) - 20)
	}
	return int8(r.IntN(3) - 1)
}

// write is a client that puts and deletes; when it dies another one goes on.
func (w *world) write(ops int, r *rand.Rand) {
	db, tbl := w.connect()
	if w.call(db, "begin", nil, func() error { return nil }) != nil {
		_, tbl = w.connect()
	}
	for range ops {
		var rows []Row
		for _, id := range r.Perm(simRows)[:1+r.IntN(2)] {
			row := Row{"id": int8(id), "note": int64(r.IntN(1000))}
			if r.IntN(5) > 0 {
				row["level"] = w.level(r)
			}
			if r.IntN(5) > 0 {
				row["kind"] = int8(r.IntN(2))
			}
			rows = append(rows, row)
		}
		var keys []string
		for _, row := range rows {
			keys = append(keys, w.rowKey(row))
		}
		w.begin(keys)
		var err error
		if w.variant.mutable && r.IntN(10) == 0 {
			_, err = tbl.Rebalance(context.Background(), "level", nil)
		} else if r.IntN(5) == 0 {
			err = tbl.Delete(context.Background(), rows...)
		} else {
			err = tbl.Put(context.Background(), rows...)
		}
		if errors.Is(err, errDead) {
			w.leave(keys)
		}
		w.end(keys)
		switch {
		case errors.Is(err, errDead):
			_, tbl = w.connect()
		case err != nil:
			w.fail("write: %v", err)
			return
		}
	}
}

// leave says that a client died which was writing rows.
func (w *world) leave(rows []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		if w.variant.served {
			w.left[row] = true
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf("step %d: ", w.step)+fmt.Sprintf(format, args...))
}

// read is a client that queries.
func (w *world) read(ops int, r *rand.Rand) {
	db, tbl := w.connect()
	if w.call(db, "begin", nil, func() error { return nil }) != nil {
		_, tbl = w.connect()
	}
	for range ops {
		q := Query{Reverse: r.IntN(2) == 0}
		level, kind := Field[int8]("level"), Field[int8]("kind")
		switch r.IntN(8) {
		case 0:
			q.Where = Field[int8]("level").AtLeast(-100)
		case 1:
			q.Where = Field[int8]("level").Between(w.level(r), 20)
		case 2:
			q.Where = Field[int8]("kind").In(0, 1)
		case 3:
			q.Where, q.Reverse = Predicate{}, false
		case 4: // several ways, which a row may change between
			q.Where = Or(level.Between(w.level(r), w.level(r)), kind.Equal(int8(r.IntN(2))))
		case 5:
			q.Where = Or(kind.Equal(1), And(level.AtLeast(w.level(r)), Not(kind.Equal(1))), level.Less(w.level(r)))
		case 6: // by the postings, and then the rows without a value
			q.OrderBy = "level"
		case 7: // sorted by the client
			q.Where, q.OrderBy = Or(kind.In(0, 1), level.Equal(w.level(r))), []string{"level", "note"}[r.IntN(2)]
		}
		if w.variant.served && q.OrderBy == "" {
			q.Reverse = false // which is refused
		}
		began := w.step
		before := w.state()
		got := make(map[string]int)
		var failed error
		var last any
		for row, err := range tbl.Query(context.Background(), q) {
			if err != nil {
				failed = err
				break
			}
			if !w.satisfies(q.Where, row) {
				w.fail("a query returned a row that does not satisfy it")
			}
			got[w.rowKey(row)]++
			if v := row[q.OrderBy]; q.OrderBy != "" {
				if len(got) > 1 && !mayFollow(last, v, q.Reverse) {
					w.fail("a query returned %v after %v", v, last)
				}
				last = v
			}
		}
		if errors.Is(failed, errDead) {
			_, tbl = w.connect()
			continue
		}
		if w.variant.served && w.schema.CellPerColumn && errors.Is(failed, ErrTorn) {
			continue // cells of two mutations with one timestamp, of which nobody lives to write the row again
		}
		if failed != nil {
			w.fail("query: %v", failed)
			return
		}
		w.checkAnswer(q, began, before, got)
	}
}

// mayFollow reports whether one value may come after another; null comes last.
func mayFollow(before, after any, reverse bool) bool {
	number := func(v any) int64 {
		if small, ok := v.(int8); ok {
			return int64(small)
		}
		return v.(int64)
	}
	switch {
	case after == nil:
		return true
	case before == nil:
		return false
	case reverse:
		return number(before) >= number(after)
	}
	return number(before) <= number(after)
}

func (w *world) satisfies(p Predicate, row Row) bool {
	t := w.table.now().View
	tree, err := predicate.New(t, p.where)
	if err != nil {
		panic(err)
	}
	values := make([]any, len(t.Parts)+len(t.Columns))
	for _, c := range t.ByName {
		values[t.ValueIndex(c)] = row[c.Name]
	}
	return tree.Holds(values)
}

type rowState struct {
	row  Row
	busy bool
}

// state returns the rows as they are now.
func (w *world) state() map[string]rowState {
	state := make(map[string]rowState)
	for row, err := range w.table.now().Data.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		r, err := w.table.now().Decode(row, nil, new(rowcodec.Scratch))
		if err != nil && w.variant.served {
			continue // of two mutations
		}
		if err != nil {
			panic(err)
		}
		w.mu.Lock()
		state[string(row.Key)] = rowState{w.table.now().Row(r, nil), w.active[string(row.Key)] > 0}
		w.mu.Unlock()
	}
	return state
}

func (w *world) checkAnswer(q Query, began int, before map[string]rowState, got map[string]int) {
	w.mu.Lock()
	w.queries++
	w.mu.Unlock()
	for _, n := range got {
		if n > 1 {
			w.fail("a query returned a row %d times", n)
		}
	}
	for key, s := range before {
		w.mu.Lock()
		unchanged := !s.busy && !w.left[key] && w.active[key] == 0 && w.touched[key] < began
		if unchanged {
			w.stable++
		}
		w.mu.Unlock()
		if unchanged && w.satisfies(q.Where, s.row) != (got[key] == 1) {
			w.fail("a query returned a row that nobody wrote %d times", got[key])
		}
	}
}

// checkPostings looks for rows without their postings.
func (w *world) checkPostings() {
	if w.variant.served {
		w.checkIndexes(false)
		return
	}
	postings := make(map[string]bool)
	for row, err := range w.table.now().Postings.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		postings[string(row.Key)] = true
	}
	for row, err := range w.table.now().Data.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		r, err := w.table.now().Decode(row, nil, new(rowcodec.Scratch))
		if err != nil {
			panic(err)
		}
		for _, key := range w.table.now().PostingKeys(r) {
			if w.variant.valueKeyed {
				key = key[:len(key)-16]
			}
			if !postings[string(key)] {
				w.fail("a row has no posting")
			}
		}
	}
}

// run lets one step after the other happen until all clients are done.
func (w *world) run(crashes float64) {
	for {
		synctest.Wait()
		w.mu.Lock()
		slices.SortFunc(w.waiting, func(a, b *waitingCall) int {
			if a.client.id != b.client.id {
				return a.client.id - b.client.id
			}
			return strings.Compare(a.what, b.what)
		})
		if len(w.waiting) == 0 {
			done := w.running == 0
			w.mu.Unlock()
			if done {
				return
			}
			time.Sleep(time.Second) // a client pauses
			continue
		}
		w.step++
		if len(w.late) > 0 && w.r.IntN(10) == 0 {
			p := w.late[0]
			w.late = w.late[1:]
			w.mu.Unlock()
			w.trace = append(w.trace, "late "+p.what)
			if err := p.do(); err != nil {
				panic(err)
			}
			w.leave(p.rows)
			w.end(p.rows)
			w.checkPostings()
			continue
		}
		i := w.r.IntN(len(w.waiting))
		p := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		f := lives
		if w.r.Float64() < crashes {
			f = diesBefore + fate(w.r.IntN(3))
			p.client.dead = true
		}
		var lost []*waitingCall
		if f != lives { // what else it had under way is lost
			w.waiting = slices.DeleteFunc(w.waiting, func(other *waitingCall) bool {
				if other.client == p.client {
					lost = append(lost, other)
					return true
				}
				return false
			})
		}
		w.trace = append(w.trace, fmt.Sprintf("%d %s %d", p.client.id, p.what, f))
		if f == diesDuring && (strings.HasPrefix(p.what, "apply") || strings.HasPrefix(p.what, "commit")) {
			w.late = append(w.late, p)
			for _, row := range p.rows {
				w.active[row]++
			}
		}
		w.mu.Unlock()
		p.release <- f
		for _, other := range lost {
			other.release <- diesBefore
		}
		synctest.Wait()
		if strings.HasPrefix(p.what, "apply") {
			w.checkPostings()
		}
		if len(w.bad) > 0 {
			crashes = 0
		}
	}
}

// simulate runs one simulation and returns it.
func simulate(t *testing.T, v variant, seed uint64, crashes float64) *world {
	t.Helper()
	sim.Seed(t, seed)
	w := &world{
		variant: v, db: drivertest.NewMemory(), schema: simSchema,
		r:      rand.New(rand.NewPCG(seed, 0)),
		stamps: make(map[string]int64), active: make(map[string]int), touched: make(map[string]int), left: make(map[string]bool),
	}
	if seed%2 == 0 {
		w.schema.CellPerColumn = cellPerColumn
	}
	if v.mutable {
		w.schema.Columns = slices.Clone(w.schema.Columns)
		w.schema.Columns[0] = OrderedColumn("level", Int8, Kerschbaum)
		w.oneCell = seed%4 < 2
	}
	if v.served {
		w.schema.Columns = slices.Clone(w.schema.Columns)
		w.schema.Columns[0], w.schema.Columns[1] = w.schema.Columns[0].ServerIndex(), w.schema.Columns[1].ServerIndex()
	}
	w.key, _ = ope.NewKey(bytes.Repeat([]byte{1}, 32))
	synctest.Test(t, func(t *testing.T) {
		w.table = w.tableOn(noSnapshots{w.db, w.oneCell})
		for i := range simAtRest {
			row := Row{"id": int8(simRows + i), "note": int64(i), "level": int8(i - 1), "kind": int8(i % 2)}
			if err := w.table.Put(context.Background(), row); err != nil {
				panic(err)
			}
		}
		var group sync.WaitGroup
		start := func(do func(int, *rand.Rand), ops int) {
			r := rand.New(rand.NewPCG(seed, uint64(w.running)+1))
			w.running++
			group.Go(func() {
				do(ops, r)
				w.mu.Lock()
				w.running--
				w.mu.Unlock()
			})
			synctest.Wait() // it has an id, and waits for its first step
		}
		for range 3 {
			start(w.write, simBatches)
		}
		for range 2 {
			start(w.read, 4)
		}
		w.run(crashes)
		group.Wait()
		for _, p := range w.late {
			if err := p.do(); err != nil {
				panic(err)
			}
		}
		w.checkPostings()
		w.checkIndex()
		w.repairIndexes()
	})
	return w
}

// repairIndexes repairs what dead clients left, and looks whether all is mended.
func (w *world) repairIndexes() {
	if !w.variant.served || len(w.bad) > 0 {
		return
	}
	tbl := w.tableOn(noSnapshots{w.db, w.oneCell})
	wrong := 0
	for row, err := range tbl.now().Data.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		if _, err := tbl.now().Decode(row, nil, new(rowcodec.Scratch)); err != nil {
			// Of two mutations: only to write it again mends that.
			if err := tbl.now().Data.Apply(context.Background(), driver.Mutation{Row: row.Key, DeleteRow: true}); err != nil {
				panic(err)
			}
		} else if w.misplaced(tbl.now().Data, row.Key) {
			wrong++
		}
	}
	v, err := tbl.Verify(context.Background(), &VerifyOptions{Repair: true, Grace: 1})
	if err != nil {
		w.fail("verify: %v", err)
		return
	}
	if rows := v.Faults[inspect.FaultHidden]; rows < wrong || wrong == 0 && rows > 0 || v.Repaired < wrong {
		w.fail("of %d rows that an index does not lead to, Verify found %v and mended %d", wrong, v.Faults, v.Repaired)
	}
	w.checkIndexes(true)
}

// checkIndex looks, as a new client, for rows whose values are not in the index.
func (w *world) checkIndex() {
	tbl := w.tableOn(noSnapshots{w.db, w.oneCell})
	level := tbl.now().ByName["level"]
	if level.Order == nil {
		return
	}
	indexed := make(map[int64]bool)
	for e, err := range level.Order.Range(context.Background(), -128, 127) {
		if err != nil {
			w.fail("index: %v", err)
		}
		indexed[e.Plaintext] = true
	}
	for _, s := range w.state() {
		if v := s.row["level"]; v != nil && !indexed[int64(v.(int8))] {
			w.fail("a value of a row is not in the index")
		}
		if v := s.row["level"]; v != nil {
			w.indexed++
		}
	}
}

func TestConcurrentWritersAndCrashes(t *testing.T) {
	for name, v := range map[string]variant{
		"one clock":                            {},
		"clocks that disagree":                 {skew: true},
		"mutable column":                       {mutable: true},
		"mutable column, clocks that disagree": {mutable: true, skew: true},
		"indexes of the database":              {served: true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := *simRuns
			if testing.Short() {
				runs /= 4
			}
			var steps, queries, stable, crashes, indexed, mixed int
			for i := range runs {
				seed := *simSeed + uint64(i)
				w := simulate(t, v, seed, 0.02)
				require.Empty(t, w.bad, "-store.simseed=%d\n%s", seed, strings.Join(w.trace, "\n"))
				steps += w.step
				queries += w.queries
				stable += w.stable
				indexed += w.indexed
				crashes += w.clients - 5
				mixed += w.mixed
			}
			t.Logf("%d runs, %d steps, %d crashes, %d queries, which had to find or leave out %d rows that were not written", runs, steps, crashes, queries, stable)
			require.Greater(t, queries, runs)
			require.Greater(t, stable, runs)
			require.Greater(t, crashes, runs/2)
			if v.mutable {
				require.Greater(t, indexed, runs)
			}
			if v.served {
				t.Logf("two mutations with one timestamp left %d rows that an index did not lead to", mixed)
				require.Greater(t, mixed, runs/4)
			}
		})
	}
}

// The simulation notices when the protocol lacks one of its steps.
func TestSimulationNotices(t *testing.T) {
	for _, c := range []struct {
		name    string
		variant variant
		notice  string
	}{
		{"no read-back", variant{skew: true, noReadBack: true}, "a row has no posting"},
		{"postings keyed by value", variant{valueKeyed: true}, "a row has no posting"},
		{"postings keyed by value, clocks that disagree", variant{valueKeyed: true, skew: true}, "a row has no posting"},
		{"values that are not in the index", variant{mutable: true, loses: true}, "a value of a row is not in the index"},
		{"no look back", variant{served: true, noLookBack: true}, "an index does not lead to a row"},
		{"no list of the rows seen", variant{forgetful: true}, "a query returned a row 2 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs, bad := max(40, *simRuns/4), 0
			kinds := make(map[string]int)
			for i := range runs {
				w := simulate(t, c.variant, *simSeed+uint64(i), 0.02)
				if len(w.bad) > 0 {
					bad++
					_, what, _ := strings.Cut(w.bad[0], ": ")
					kinds[what]++
				}
			}
			t.Logf("%d of %d runs are bad: %v", bad, runs, kinds)
			require.Greater(t, kinds[c.notice], runs/10)
		})
	}
}

// Equal seeds give equal runs; otherwise a failure could not be looked into.
func TestSimulationIsRepeatable(t *testing.T) {
	for seed := range uint64(5) {
		for _, v := range []variant{{skew: true}, {mutable: true}} {
			t.Run(fmt.Sprintf("%d, mutable %v", seed, v.mutable), func(t *testing.T) {
				sim.RequireRepeatable(t, func() []string {
					w := simulate(t, v, seed, 0.02)
					require.Greater(t, len(w.trace), 50)
					return w.trace
				})
			})
		}
	}
}
