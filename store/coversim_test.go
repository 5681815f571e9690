package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The simulation of tables whose index entries have copies of rows. Clients add rows, put rows of a load again, delete rows,
// put copies into what dead clients left, change the schema, convert, and query. After each step every copy must be of a row
// that is there, and every row must have its index entries. Queries must return what nobody changed meanwhile, and nothing
// that was deleted before they began.
//
// In a conditional table they replace rows instead, and change them. Each change gives the row another note, so that a query
// must not return a note that was gone before it began.
type coverWorld struct {
	sim.World
	coverVariant
	db      driver.DB
	key     ope.Key
	r       *rand.Rand
	times   map[string]*timestamps // of the families of the table, or nil where the database compares what a replacement has seen
	watcher atomic.Pointer[Table]  // whose calls are no steps; it may be opened again while clients pause
	direct  sync.Mutex             // held by calls that are no steps
	altered bool                   // since the watcher opened the table

	seed      uint64
	rows      map[int64]*coverRow // by their notes, which name them
	now       map[string]coverNow // the rows of a conditional table as they are, by their keys
	straggled map[string]int      // the last steps at which the writers of rows had not ended, or had died, by the keys of the rows
	next      int64
	step      atomic.Int64
	found     int // rows that queries had to return
	gone      int // rows that no query was to return

	writing map[int]bool // calls under way that write rows, by their numbers
	writes  int
}

type coverVariant struct {
	clocks      bool // the last write wins, by clocks that disagree
	changes     bool // of the schema
	conditional bool // rows are replaced, under conditions
	renews      bool // a column's index is made again, and the table repaired: see renewsim_test.go
	forms       bool // columns get other schemes and search keys: see coverformsim_test.go
}

// A coverNow is what a row is, and since when.
type coverNow struct {
	write rowcodec.WriteID
	note  int64
	since int // step
}

// A coverRow is what is known of a row.
type coverRow struct {
	load    bool // of a load, so that it may be put again
	busy    int  // calls under way that change it
	unsure  bool // such a call failed, and may take effect at any time
	touched int  // the last step at which it was busy
	put     bool // acknowledged
	deleted int  // the step at which its deletion was acknowledged, or 0
}

const coverRows = 6 // of the load

// coverDB is what a client has of the database.
type coverDB struct {
	driver.DB
	w    *coverWorld
	c    *sim.Client // nil for the watcher
	skew int64
	mu   sync.Mutex
	last int64 // timestamp
}

func (db *coverDB) Close() error { return nil }

func (db *coverDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	own := spec.Name[0] == 't' || spec.Name[0] == 'x'
	if times := db.w.times[spec.Name[:1]]; times != nil {
		f = &stampedFamily{f, times}
	}
	return &coverFamily{Family: f, db: db, name: spec.Name[:1], own: own}, nil
}

// stamp returns the timestamp of a mutation. Those up to the next are for replacements.
func (db *coverDB) stamp() int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.last = max(db.last+64, db.w.step.Load()*64+db.skew) &^ 63
	return db.last
}

func (db *coverDB) see(cells []driver.Cell) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, c := range cells {
		db.last = max(db.last, c.Stamp)
	}
}

type coverFamily struct {
	driver.Family
	db   *coverDB
	name string
	own  bool // of the table, and not the catalogue
}

func (f *coverFamily) call(kind sim.Kind, what string, row []byte, do func(late bool) error) error {
	if f.db.c == nil {
		// What such a client does in the background is not in steps either.
		f.db.w.direct.Lock()
		defer f.db.w.direct.Unlock()
		return do(false)
	}
	if !f.own && !f.db.w.renews {
		kind = sim.Begin // what becomes of the catalogue is simulated elsewhere
	}
	return f.db.c.Call(sim.Call{Kind: kind, What: fmt.Sprintf("%s %s %x", what, f.name, row), On: f.name + string(row), Do: do})
}

func (f *coverFamily) Get(ctx context.Context, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	err = f.call(sim.Read, "get", row, func(bool) (err error) {
		cells, err = f.Family.Get(ctx, row, s)
		return err
	})
	f.db.see(cells)
	return cells, err
}

func (f *coverFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f *coverFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return scanInSteps(f.Family, r, func(start []byte, read func() error) error {
		return f.call(sim.Read, "scan", start, func(bool) error { return read() })
	}, func(row *driver.Row) { f.db.see(row.Cells) })
}

func (f *coverFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for _, m := range scrambled(f.db.w.seed, mutations) {
		at := f.db.stamp()
		err := f.call(sim.Write, "apply", m.Row, func(bool) error {
			return f.apply(m, at, at)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// apply makes a mutation with timestamps, where they decide.
func (f *coverFamily) apply(m driver.Mutation, puts, deletes int64) error {
	times := f.db.w.times[f.name]
	if times == nil {
		return f.Family.Apply(context.Background(), m)
	}
	return f.Family.Apply(context.Background(), times.merge(m, puts, deletes))
}

func orderOf(seed uint64, key []byte) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, key)
	return h.Sum64()
}

func (f *coverFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	return replaceEach(replacements, func(r driver.Replacement, tooLate func()) error {
		return f.call(sim.Write, "replace", r.Row, func(bool) error {
			if f.db.w.times[f.name] != nil {
				return f.apply(driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes}, r.Seen.Stamp+1+int64(r.Rank), r.Seen.Stamp)
			}
			return replaceOne(f.Family, r, tooLate)
		})
	})
}

func (f *coverFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (done bool, err error) {
	err = f.call(sim.Write, "check", row, func(bool) (err error) {
		done, err = f.Family.CheckAndPut(context.Background(), row, expect, puts...)
		f.db.w.altered = f.db.w.altered || f.name == catalogueFamily[:1]
		return err
	})
	return done, err
}

var coverSchema = Schema{
	Name: "t", AppendOnly: true,
	Key: []KeyPart{HashedPart("device", Int8), TiePart("id")},
	Columns: []Column{
		OrderedColumn("celsius", Int8, MOPE).Covering(), DeterministicColumn("room", Int8).Covering(),
		OrderedColumn("watt", Int8, Wozniak), RandomisedColumn("note", Int64),
	},
}

// schema returns that of the table.
func (w *coverWorld) schema() Schema {
	s := coverSchema
	if w.conditional {
		s.AppendOnly, s.Conditional, s.Key = false, true, []KeyPart{HashedPart("device", Int8), PlainPart("slot", Int8)}
	}
	if w.renews {
		s.Columns = slices.Clone(s.Columns)
		s.Columns[0] = ranked.Covering()
	}
	return s
}

// connect returns the table as a client sees it.
func (w *coverWorld) connect(c *sim.Client) (*Store, *Table) {
	db := &coverDB{DB: noSnapshots{w.db, true}, w: w, c: c}
	if w.clocks && c != nil {
		db.skew = int64(w.r.IntN(20_000))
	}
	var st *Store
	var tbl *Table
	open := func() {
		var err error
		if st, err = Open(context.Background(), db, kms.NewLocal(w.key), nil); err == nil {
			tbl, err = st.Table(context.Background(), "t")
		}
		if errors.Is(err, ErrNoTable) {
			tbl, err = st.Create(context.Background(), w.schema())
		}
		if err == nil {
			st.db.Parts = 1 // calls that do the same at the same time have no order
		}
		if err != nil {
			panic(err)
		}
	}
	if c == nil {
		open()
	} else {
		c.Free(open)
	}
	return st, tbl
}

// watch opens the table for the watcher.
func (w *coverWorld) watch() {
	_, tbl := w.connect(nil)
	w.watcher.Store(tbl)
}

// A client makes calls until it has made some, or dies.
func (w *coverWorld) client(ops int, op func(*coverClient) error) {
	c := &coverClient{World: w, c: w.Client()}
	w.Go(func() {
		for ops > 0 {
			if c.Call(sim.Call{Kind: sim.Begin, What: "begin"}) != nil {
				return
			}
			if c.st == nil {
				c.st, c.tbl = w.connect(c.c)
			}
			ops--
			err := op(c)
			if errors.Is(err, sim.ErrDead) || c.c.Dead() {
				c.c, c.st = w.Client(), nil // somebody goes on
				continue
			}
			if err != nil && !errors.Is(err, sim.ErrFailed) && !errors.Is(err, sim.ErrUnknown) {
				w.Fail("%v", err)
				return
			}
		}
		if c.st != nil {
			c.st.Close(context.Background())
		}
	})
}

type coverClient struct {
	World *coverWorld
	c     *sim.Client
	st    *Store
	tbl   *Table
}

func (c *coverClient) Call(call sim.Call) error { return c.c.Call(call) }

// change notes that a call changes rows, until it ends.
func (w *coverWorld) change(notes []int64, do func() error) error {
	for _, n := range notes {
		w.rows[n].busy++
	}
	err := w.underWay(do)
	for _, n := range notes {
		r := w.rows[n]
		r.busy--
		r.touched = int(w.step.Load())
		r.unsure = r.unsure || err != nil
	}
	return err
}

func (w *coverWorld) values(note int64) Row {
	r := rand.New(rand.NewPCG(uint64(note), 7))
	row := Row{"device": int8(r.IntN(2)), "note": note}
	for _, name := range []string{"celsius", "room", "watt"} {
		if r.IntN(6) > 0 {
			row[name] = int8(r.IntN(3))
		}
	}
	return row
}

// write replaces rows, inserts them, or changes some of their columns.
func (c *coverClient) write() error {
	w, ctx := c.World, context.Background()
	var rows []Row
	var notes []int64
	for _, i := range w.r.Perm(4)[:1+w.r.IntN(2)] {
		w.next++
		w.rows[w.next] = new(coverRow)
		row := w.values(w.next)
		row["device"], row["slot"] = int8(i%2), int8(i/2)
		rows, notes = append(rows, row), append(notes, w.next)
	}
	return w.change(notes, func() (err error) {
		switch w.r.IntN(4) {
		case 0:
			err = c.tbl.Insert(ctx, rows...)
		case 1, 2:
			for _, row := range rows { // what is not named stays
				for _, name := range []string{"celsius", "room", "watt"} {
					if w.r.IntN(2) == 0 {
						delete(row, name)
					}
				}
			}
			err = c.tbl.Update(ctx, rows...)
		default:
			err = c.tbl.Put(ctx, rows...)
			for _, n := range notes {
				w.rows[n].put = w.rows[n].put || err == nil
			}
		}
		unsettled := errors.Is(err, sim.ErrDead) || errors.Is(err, sim.ErrFailed) || errors.Is(err, sim.ErrUnknown) // of other rows
		if (errors.Is(err, ErrRowExists) || errors.Is(err, ErrNoRow)) && !unsettled {
			w.Count("refused")
			return nil
		}
		return err
	})
}

// add puts new rows, or rows of the load that may be there.
func (c *coverClient) add() error {
	w := c.World
	if w.conditional {
		return c.write()
	}
	var rows []Row
	var notes []int64
	if w.r.IntN(3) == 0 {
		for _, i := range w.r.Perm(coverRows)[:1+w.r.IntN(2)] {
			row := w.values(int64(i))
			row["id"] = LoadTie{byte(i + 1)}
			rows, notes = append(rows, row), append(notes, int64(i))
		}
	} else {
		for range 1 + w.r.IntN(2) {
			w.next++
			w.rows[w.next] = new(coverRow)
			rows, notes = append(rows, w.values(w.next)), append(notes, w.next)
		}
	}
	return w.change(notes, func() error {
		err := c.tbl.Put(context.Background(), rows...)
		for _, n := range notes {
			w.rows[n].put = w.rows[n].put || err == nil
		}
		return err
	})
}

// remove deletes rows that are there.
func (c *coverClient) remove() error {
	w := c.World
	var rows []Row
	var notes []int64
	for note, row := range w.state() {
		key := Row{"device": row["device"]}
		for _, name := range []string{"id", "slot"} {
			if row[name] != nil {
				key[name] = row[name]
			}
		}
		rows, notes = append(rows, key), append(notes, note)
	}
	if len(rows) == 0 {
		return nil
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(notes[i] - notes[j]) })
	var some []Row
	var of []int64
	for _, i := range w.r.Perm(len(order))[:min(len(order), 1+w.r.IntN(2))] {
		some, of = append(some, rows[order[i]]), append(of, notes[order[i]])
	}
	return w.change(of, func() error {
		err := c.tbl.Delete(context.Background(), some...)
		for _, n := range of {
			if err == nil && !w.conditional {
				w.rows[n].deleted = int(w.step.Load())
			}
		}
		return err
	})
}

// query asks in one of many ways.
func (c *coverClient) query() error {
	w := c.World
	q := Query{Reverse: !w.renews && w.r.IntN(2) == 0}
	least := int8(w.r.IntN(3))
	switch w.r.IntN(5) {
	case 0:
		q.Where = Int8.Field("celsius").AtLeast(least)
	case 1:
		q.Where = Int8.Field("room").In(0, least)
	case 2:
		q.Where, q.Reverse = Int8.Field("watt").AtLeast(least), q.Reverse && !w.changes
		if w.r.IntN(2) == 0 { // which copies may have that some columns were chosen for
			q.Columns = []string{"device", "slot", "watt", "note"}
			if !w.conditional {
				q.Columns[1] = "id"
			}
		}
	case 3:
		q.Where = Or(Int8.Field("room").Equal(least), Int8.Field("celsius").Equal(least))
	default:
		q.Reverse = false
	}
	paged := w.forms && c.reorder(&q)
	began := int(w.step.Load())
	before := w.state()
	got, places := make(map[int64]bool), make(map[string]bool)
	var rows []Row
	for row, err := range c.answer(q, paged) {
		if errors.Is(err, ErrSchemaChanged) {
			w.Count("queries of columns that were changed")
			return nil
		}
		if err != nil {
			return err
		}
		rows = append(rows, row) // and looks at the world only when the query does nothing any more
	}
	w.checkOrder(q, rows)
	for _, row := range rows {
		note := row["note"].(int64)
		if w.conditional && !paged { // between two pages a row may be replaced by one that comes later
			place := fmt.Sprint(row["device"], row["slot"])
			if places[place] {
				w.Fail("a query returned the row at %s twice, at last as %d", place, note)
			}
			places[place] = true
		}
		switch r := w.rows[note]; {
		case got[note]:
			w.Fail("a query returned row %d twice", note)
		case r.deleted > 0 && r.deleted < began && !r.load:
			w.Fail("a query returned row %d, which was deleted at step %d", note, r.deleted)
		case !w.selects(q.Where, row):
			w.Fail("a query returned row %d, which it does not select", note)
		}
		got[note] = true
	}
	for note, row := range before {
		if w.stays(note, began) && w.selects(q.Where, row) {
			w.found++
			if !got[note] {
				w.Fail("a query did not return row %d", note)
			}
		}
	}
	for _, r := range w.rows {
		if r.deleted > 0 && r.deleted < began && !r.load {
			w.gone++
		}
	}
	w.Count("queries")
	return nil
}

// stays reports whether nobody has changed the row of a note since a step, nor is about to.
func (w *coverWorld) stays(note int64, step int) bool {
	r := w.rows[note]
	stays := r.busy == 0 && !r.unsure && r.touched < step
	for _, now := range w.now { // it may have been replaced by others, and nobody may rely on a write before it has ended
		if now.note == note {
			return stays && now.since < step
		}
	}
	return stays && !w.conditional
}

func (w *coverWorld) selects(p Predicate, row Row) bool {
	return (&world{table: w.watcher.Load()}).satisfies(p, row)
}

// state returns the rows that there are, by their notes.
func (w *coverWorld) state() map[int64]Row {
	rows := make(map[int64]Row)
	for r := range w.records() {
		row := w.watcher.Load().now().Row(r, nil)
		rows[row["note"].(int64)] = row
	}
	return rows
}

// records yields the rows that there are.
func (w *coverWorld) records() iter.Seq[*rowcodec.Record] {
	t := w.watcher.Load().now()
	return func(yield func(*rowcodec.Record) bool) {
		for row, err := range t.Data.Scan(context.Background(), driver.Range{AnyOrder: true}) {
			var r *rowcodec.Record
			if err == nil {
				r, err = t.Opened(context.Background(), t.Data, row, nil, new(rowcodec.Scratch))
			}
			if err != nil {
				panic(err)
			}
			if r != nil && !yield(r) {
				return
			}
		}
	}
}

// check looks at all rows and index entries.
func (w *coverWorld) check() {
	w.step.Add(1)
	if w.altered {
		w.altered = false
		w.watch()
	}
	t := w.watcher.Load().now()
	rows := make(map[string]*rowcodec.Record)
	for r := range w.records() {
		rows[string(r.Key)] = r
	}
	if w.conditional {
		w.observe(rows)
	}
	postings := make(map[string]bool)
	for posting, err := range t.Postings.Scan(context.Background(), driver.Range{AnyOrder: true}) {
		if err != nil {
			panic(err)
		}
		if _, is := t.CutDeletion(posting.Key); is {
			w.Count("deletions")
			continue
		}
		postings[string(posting.Key)] = true
		value := rowcodec.PostingValue(posting.Cells)
		switch {
		case rowcodec.Doubtful(value):
			w.Count("doubtful")
		case rowcodec.Pending(value):
			w.Count("pending")
		default:
			w.Count("copies")
			w.checkCopy(posting.Key, value, rows)
		}
	}
	for key, r := range rows {
		if now := w.rows[w.noteOf(r).(int64)]; now.busy > 0 || now.unsure {
			w.straggled[key] = int(w.step.Load())
		}
		for i, c := range t.Stored {
			if c.Of != nil && (w.clocks || w.rows[w.noteOf(r).(int64)].load) {
				continue // a conversion to an earlier schema may have won, or the row was put again under one: postings of later forms lead to it
			}
			if r.Search[i] != nil && !postings[string(t.PostingKey(r, i))] {
				w.Fail("row %v has no index entry in column %q: %x, as of %d", w.noteOf(r), c.Name, t.PostingKey(r, i), r.Version)
			}
			if now := w.rows[w.noteOf(r).(int64)]; w.renews && c.Of == nil && c.Posted() && forms.Settled(c) && r.Search[i] == nil && r.Values[t.ValueIndex(c)] != nil && now.busy == 0 && !now.unsure {
				w.Fail("row %v is stored as column %q was, as of %d", w.noteOf(r), c.Name, r.Version)
			}
		}
	}
}

// observe notes what rows of a conditional table have become.
func (w *coverWorld) observe(rows map[string]*rowcodec.Record) {
	for key, was := range w.now {
		if r := rows[key]; r == nil || w.noteOf(r) != any(was.note) {
			w.rows[was.note].deleted = int(w.step.Load())
		}
		if rows[key] == nil {
			delete(w.now, key)
		}
	}
	for key, r := range rows {
		if was, known := w.now[key]; !known || was.write != r.Write {
			w.now[key] = coverNow{r.Write, w.noteOf(r).(int64), int(w.step.Load())}
		}
	}
}

func (w *coverWorld) noteOf(r *rowcodec.Record) any {
	return w.watcher.Load().now().Row(r, nil)["note"]
}

// checkCopy looks whether a copy is of a row.
func (w *coverWorld) checkCopy(key, value []byte, rows map[string]*rowcodec.Record) {
	t := w.watcher.Load().now()
	i := slices.IndexFunc(t.Columns, func(c *rowcodec.Column) bool { return bytes.HasPrefix(key, c.Lead) })
	if i < 0 {
		return // of a column that was changed since, whose copies are hints
	}
	c := t.Columns[i]
	r, err := t.OpenCopy(c, key, value, nil, new(rowcodec.Scratch))
	if err != nil {
		if !errors.As(err, new(rowcodec.NewerRow)) {
			w.Fail("a copy: %v", err)
		}
		return
	}
	row := rows[string(r.Key)]
	if row == nil {
		w.Fail("column %q has a copy of row %v, which is not there: %x, as of %d", c.Name, w.noteOf(r), key, r.Version)
		return
	}
	trimmed := *row
	trimmed.Values = slices.Clone(row.Values)
	if c.Trim(t.View, &trimmed); row.Write != r.Write || !t.SameValues(&trimmed, r) {
		w.Fail("column %q has a copy of row %v, which is another one", c.Name, w.noteOf(r))
	}
}

// alter changes whether a column covers, or rotates keys, and converts the rows.
func (c *coverClient) alter() error {
	ctx := context.Background()
	var err error
	switch c.World.r.IntN(7) {
	case 0:
		err = c.st.RotateKeys(ctx, "t")
	case 1:
		err = c.st.Alter(ctx, "t", ChangeColumn(OrderedColumn("watt", Int8, Wozniak).Covering()))
	case 2:
		err = c.st.Alter(ctx, "t", ChangeColumn(OrderedColumn("watt", Int8, Wozniak).Covering("note")))
	case 3: // which copies that it was chosen for must follow
		err = c.st.Alter(ctx, "t", ChangeColumn(DeterministicColumn("note", Int64)))
	case 4:
		err = c.st.Alter(ctx, "t", ChangeColumn(RandomisedColumn("note", Int64)))
	case 5:
		err = c.st.Alter(ctx, "t", ChangeColumn(OrderedColumn("watt", Int8, Wozniak)))
	default:
		_, err = c.tbl.Convert(ctx, nil)
	}
	return err
}

// mend puts the copies that are missing.
func (c *coverClient) mend() error {
	ctx, t := context.Background(), c.tbl.now()
	return c.World.underWay(func() error { return c.mendCopies(ctx, t) })
}

func (c *coverClient) mendCopies(ctx context.Context, t *engine.Engine) error {
	if c.World.conditional && c.World.r.IntN(2) == 0 {
		return recopy.Each(ctx, t, func(covers *rowcodec.Column, postings []driver.Row) error {
			return recopy.Missing(ctx, t, covers, postings)
		})
	}
	_, err := recopy.All(ctx, t)
	return err
}

func coverRun(t *testing.T, v coverVariant, seed uint64) *coverWorld {
	t.Helper()
	sim.Seed(t, seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := &coverWorld{
		coverVariant: v, seed: seed, db: drivertest.NewMemory(), r: rand.New(rand.NewPCG(seed, 2)), rows: make(map[int64]*coverRow), now: make(map[string]coverNow), straggled: make(map[string]int), next: coverRows,
		World: sim.World{Faults: true, Choose: &sim.Random{
			R: r, Crash: 0.01, Unknown: 0.02, Freeze: 0.02, Frozen: []int{20, 200, 1000}[r.IntN(3)], Burst: []float64{0, 0.5, 0.9}[r.IntN(3)],
		}},
	}
	if v.renews {
		w.Choose.(*sim.Random).Crash = 0.03
	}
	w.Step = w.check
	for i := range int64(coverRows) {
		w.rows[i] = &coverRow{load: true}
	}
	if v.clocks {
		w.times = map[string]*timestamps{"x": newTimestamps()}
		if !v.conditional {
			w.times["t"] = newTimestamps()
		}
	}
	w.key, _ = ope.NewKey(bytes.Repeat([]byte{1}, 32))
	synctest.Test(t, func(t *testing.T) {
		w.watch()
		for range 2 {
			w.client(6, (*coverClient).add)
			w.client(5, (*coverClient).remove)
			w.client(4, (*coverClient).query)
		}
		if w.renews {
			w.renewing()
		}
		w.client(3, (*coverClient).mend)
		for range 2 {
			if v.changes {
				w.client(4, (*coverClient).alter)
			}
			if v.forms {
				w.client(4, (*coverClient).reform)
			}
		}
		w.Run(50_000)
		w.End()
		if len(w.Bad()) == 0 {
			w.finish()
		}
	})
	return w
}

// finish looks, as a new client, at what is left, and repairs it.
func (w *coverWorld) finish() {
	ctx, began := context.Background(), int(w.step.Load())
	_, tbl := w.connect(nil)
	w.watcher.Store(tbl)
	if w.changes || w.renews || w.forms {
		if _, err := tbl.Convert(ctx, nil); err != nil {
			w.Fail("%v", err)
		}
	}
	for _, repair := range []bool{false, true, false} {
		stragglers := 0
		v, err := tbl.Verify(ctx, &VerifyOptions{Repair: repair, Grace: 1, Fault: func(f inspect.Fault) {
			if w.straggles(f, began) {
				stragglers++
			}
		}})
		switch {
		case err != nil:
			w.Fail("%v", err)
		case !v.Sound() && v.Faults[inspect.FaultHidden]-stragglers+v.Faults[inspect.FaultCopy]+v.Faults[inspect.FaultTorn]+v.Faults[inspect.FaultCell] > 0:
			w.Fail("verify: %v, %d of them rows of clients that died", v.Faults, stragglers)
		}
		if !repair {
			continue
		}
		synctest.Wait() // for what the repair has left to be done
		if v, err = tbl.Verify(ctx, nil); err != nil || !v.Sound() || v.Uncopied > 0 || v.Dangling > 0 {
			w.Fail("after a repair: %v %v, %d without copies, %d dangling", err, v.Faults, v.Uncopied, v.Dangling)
		}
	}
	state := w.state()
	for note, r := range w.rows {
		_, there := state[note]
		switch {
		case r.load || r.unsure:
		case r.put && r.deleted == 0 && !there:
			w.Fail("row %d was put, and is not there", note)
		case r.deleted > 0 && there:
			w.Fail("row %d was deleted, and is there", note)
		}
	}
}

// straggles reports whether a fault that was found since a step is that of a row which a client wrote as an earlier schema has it, and
// did not live to look whether that was changed, or had not looked yet. By now the row may be another one.
func (w *coverWorld) straggles(f inspect.Fault, since int) bool {
	straggled, did := w.straggled[string(f.Place)]
	return did && straggled >= since && f.Kind == inspect.FaultHidden && (w.forms || w.renews || w.changes)
}

// coverRuns makes runs with seeds one after the other, and adds up what they met.
func coverRuns(t *testing.T, v coverVariant, runs int) (total sim.Counts, found, gone int) {
	t.Helper()
	total = make(sim.Counts)
	for i := range runs {
		seed := *simSeed + uint64(i)
		w := coverRun(t, v, seed)
		require.Empty(t, w.Bad(), "-store.simseed=%d\n%s", seed, w.Story())
		total.Add(w.Counts())
		found, gone = found+w.found, gone+w.gone
	}
	return total, found, gone
}

var coverVariants = map[string]coverVariant{
	"compared":                  {},
	"clocks":                    {clocks: true},
	"compared, schema changes":  {changes: true},
	"clocks, changes of schema": {clocks: true, changes: true},
	"conditional":               {conditional: true},
	"conditional, clocks":       {conditional: true, clocks: true, changes: true},
}

// Equal seeds give equal runs; otherwise a failure could not be looked into.
func TestCopiesSimulationIsRepeatable(t *testing.T) {
	for seed := range uint64(12) {
		v := coverVariant{clocks: seed%2 == 0, changes: seed%3 == 0, conditional: seed%4 > 1}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			sim.RequireRepeatable(t, func() []string { return coverRun(t, v, seed).Trace() })
		})
	}
}

// Simulated: whatever clients do at a time, and wherever they die, no query sees a copy without its row.
func TestCopiesSimulated(t *testing.T) {
	for name, v := range coverVariants {
		t.Run(name, func(t *testing.T) {
			runs := *simRuns
			if testing.Short() {
				runs /= 4
			}
			total, found, gone := coverRuns(t, v, runs)
			t.Logf("%d runs: %v; queries had to return %d rows, and not to return %d", runs, total, found, gone)
			if runs < 50 {
				return // in which not everything need happen
			}
			require.Empty(t, total.Missing("copies", "pending", "doubtful", "queries", "dies before", "dies after", "dies, late", "unknown, late"))
			require.Greater(t, found, runs)
			require.Greater(t, gone, runs/2)
		})
	}
}
