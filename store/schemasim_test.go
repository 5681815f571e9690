package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The simulation of schema changes: clients put rows, each its own, and read those of all, others
// change the schema and convert the table. Every request is a step, of the catalogue too; clients die,
// and sleep for long with what they knew; the outcome of a change of the catalogue may be unknown, and
// it may be made late. After every step each row must be for a new client as it was last acknowledged,
// or as a call under way or of a client that died has it, and where it is at rest be found through the
// column that queries are driven by. What old clients read must be what the row was at some moment of
// the call. And all changes of the schema must have one order.
type schemaWorld struct {
	*world
	schemaVariant
	asleep      map[*simDB]int // until which step
	rows        [3][]rowWrite  // by id; of a client each
	log         schemaLog
	tenant      bool        // the table has tenants, and the rows are of one
	clock       *timestamps // that decides which write is the last, or nil where conditions do
	lateChanges []func()    // changes of the catalogue that are yet to be made
	changed     bool        // since the rows were last looked at

	observer *Store // whose calls are no steps
	watch    func() // what is looked at after steps, where it is something else
	fresh    *Table // as a new client sees it

	first int // clients at first: each that dies is followed by another one

	checks int
	driven int // rows that had to be found through their column
	ties   int // of them, when all was over, where some writes of one timestamp had met
	stored int // rows that had to be stored as the schema says
	reads  int // of clients that did not know of the last change
	sweeps int
}

type schemaVariant struct {
	blind bool // changes of the catalogue have no condition
}

// A rowWrite is a Put of a row: the steps between which it was made, the last of them 0 as long as it is
// not acknowledged.
type rowWrite struct {
	level        int8
	note         int64
	began, acked int
}

// allowed reports whether a read between two steps may have returned the values, or no row.
func allowed(writes []rowWrite, found bool, level, note any, from, to int) bool {
	least := -1 // earlier writes are over
	for i, w := range writes {
		if 0 < w.acked && w.acked < from {
			least = i
		}
	}
	if !found {
		return least < 0
	}
	for i := max(least, 0); i < len(writes); i++ {
		if w := writes[i]; w.began <= to && w.level == level && w.note == note {
			return true
		}
	}
	return false
}

// atRest reports whether nobody writes the row between two steps, nor has died writing it, and what it
// then is.
func atRest(writes []rowWrite, from int) (rowWrite, bool) {
	if len(writes) == 0 {
		return rowWrite{}, false
	}
	last := writes[len(writes)-1]
	return last, 0 < last.acked && last.acked < from
}

// timestamps are the rules of a database where the later write is not told by a condition: each cell has
// the timestamp of the mutation that put or deleted it, and the greater one wins. Of two that are equal a
// deletion does, and otherwise the greater value.
type timestamps struct {
	mu    sync.Mutex
	last  int64
	cells map[string]map[string]stamped // by row and qualifier
	ends  map[string]int64              // by row: the timestamp of the last mutation that deleted all of it
	ties  int
}

func newTimestamps() *timestamps {
	return &timestamps{cells: make(map[string]map[string]stamped), ends: make(map[string]int64)}
}

type stamped struct {
	at    int64
	value []byte // nil where it was deleted
}

// next returns the timestamp of a mutation. Those that follow are for replacements.
func (c *timestamps) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last += 1 << 10
	return c.last
}

// merge returns what a mutation with timestamps changes of the row.
func (c *timestamps) merge(m driver.Mutation, puts, deletes int64) driver.Mutation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := string(m.Row); m.DeleteRow {
		c.ends[key] = max(c.ends[key], deletes)
		m = driver.Mutation{Row: m.Row}
		for q := range c.cells[key] {
			m.Deletes = append(m.Deletes, []byte(q))
		}
	} else if puts <= c.ends[key] {
		m.Puts = nil
	}
	row := c.cells[string(m.Row)]
	if row == nil {
		row = make(map[string]stamped)
		c.cells[string(m.Row)] = row
	}
	for _, cell := range m.Puts {
		is, q := row[string(cell.Qualifier)], string(cell.Qualifier)
		if puts == is.at {
			c.ties++
		}
		if puts > is.at || puts == is.at && is.value != nil && bytes.Compare(cell.Value, is.value) > 0 {
			row[q] = stamped{puts, bytes.Clone(cell.Value)}
		}
	}
	for _, q := range m.Deletes {
		if deletes >= row[string(q)].at {
			row[string(q)] = stamped{deletes, nil}
		}
	}
	m = driver.Mutation{Row: m.Row}
	for q, cell := range row {
		if cell.value == nil {
			m.Deletes = append(m.Deletes, []byte(q))
		} else {
			m.Puts = append(m.Puts, driver.Cell{Qualifier: []byte(q), Value: cell.value})
		}
	}
	return m
}

// mergeReplacement does so of a replacement, whose timestamps follow on what it has seen.
func (c *timestamps) mergeReplacement(r driver.Replacement) driver.Mutation {
	m := driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes}
	return c.merge(m, r.Seen.Stamp+1+int64(r.Rank), r.Seen.Stamp)
}

func (c *timestamps) fill(row []byte, cells []driver.Cell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range cells {
		cells[i].Stamp = c.cells[string(row)][string(cells[i].Qualifier)].at
	}
}

// stampedFamily is a family of such a database.
type stampedFamily struct {
	driver.Family
	clock *timestamps
}

func (f *stampedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	cells, err := f.Family.Get(ctx, row, s)
	if s.Stamps {
		f.clock.fill(row, cells)
	}
	return cells, err
}

func (f *stampedFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f *stampedFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		for row, err := range f.Family.Scan(ctx, r) {
			if r.Cells.Stamps {
				f.clock.fill(row.Key, row.Cells)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// schemaDB makes steps of what a client asks of the catalogue, and of replacements.
type schemaDB struct {
	*simDB
	s *schemaWorld
}

// Drop is not what a dead client does.
func (db *schemaDB) Drop(ctx context.Context, name string) error {
	db.s.mu.Lock()
	dead := db.dead
	db.s.mu.Unlock()
	if dead {
		return errDead
	}
	return db.simDB.DB.Drop(ctx, name)
}

func (db *schemaDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.simDB.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	if db.s.clock != nil && spec.Name[0] == 't' {
		f = &stampedFamily{f, db.s.clock}
	}
	return &schemaFamily{&simFamily{Family: f, db: db.simDB, name: spec.Name}, db}, nil
}

type schemaFamily struct {
	*simFamily
	of *schemaDB
}

func (f *schemaFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if f.name[0] != 't' {
		return f.simFamily.Apply(ctx, mutations...)
	}
	clock := f.of.s.clock
	if clock == nil {
		return f.simFamily.Apply(ctx, mutations...)
	}
	for _, m := range mutations {
		at := clock.next()
		err := f.db.w.call(f.db, fmt.Sprintf("apply t %x", m.Row), nil, func() error {
			return f.Family.Apply(context.Background(), clock.merge(m, at, at))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *schemaFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	return replaceEach(replacements, func(r driver.Replacement, tooLate func()) error {
		return f.db.w.call(f.db, fmt.Sprintf("apply %s %x replace", f.name[:1], r.Row), nil, func() error {
			if clock := f.of.s.clock; clock != nil {
				return f.Family.Apply(context.Background(), clock.mergeReplacement(r))
			}
			return replaceOne(f.Family, r, tooLate)
		})
	})
}

func (f *schemaFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (done bool, err error) {
	s := f.of.s
	err = f.db.w.call(f.db, "commit c", nil, func() error {
		change := func() (bool, error) {
			if s.blind && string(expect.Qualifier) == string(rootQualifier) {
				cells, err := rootOf(context.Background(), f.db.DB)
				if err != nil {
					return false, err
				}
				expect = cells[0]
			}
			return f.Family.CheckAndPut(context.Background(), row, expect, puts...)
		}
		s.mu.Lock()
		lot := s.r.IntN(40)
		s.mu.Unlock()
		switch lot {
		case 0:
			return driver.ErrUnknownOutcome
		case 1:
			_, err := change()
			return errors.Join(err, driver.ErrUnknownOutcome)
		case 2:
			s.mu.Lock()
			s.lateChanges = append(s.lateChanges, func() { _, _ = change() })
			s.mu.Unlock()
			return driver.ErrUnknownOutcome
		}
		done, err = change()
		return err
	})
	return done, err
}

func (s *schemaWorld) client() (*simDB, *Store) {
	for {
		s.mu.Lock()
		s.clients++
		db := &schemaDB{simDB: &simDB{DB: noSnapshots{s.db, false}, w: s.world, id: s.clients}, s: s}
		s.mu.Unlock()
		st, err := Open(context.Background(), db, kms.NewLocal(s.key), nil)
		if err == nil {
			st.db.Parts = 1 + db.id%2 // clients meet in the same part
			return db.simDB, st
		}
		if !errors.Is(err, errDead) {
			panic(err)
		}
	}
}

// open opens the table, for its tenant if it has one and rows are wanted.
func (s *schemaWorld) open(st *Store, rows bool) (*Table, error) {
	tbl, err := st.Table(context.Background(), "t")
	if err == nil && s.tenant && rows {
		return tbl.Tenant(context.Background(), "tenant")
	}
	return tbl, err
}

// tableOf is a new client that has opened the table.
func (s *schemaWorld) tableOf(rows bool) *Table {
	for {
		_, st := s.client()
		tbl, err := s.open(st, rows)
		if err == nil {
			return tbl
		}
		if !errors.Is(err, errDead) {
			panic(err)
		}
	}
}

// now returns the number of the step.
func (s *schemaWorld) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}

// look reads all rows as a new client.
func (s *schemaWorld) look() {
	ctx, at := context.Background(), s.now()+1
	version, err := s.observer.db.Catalogue.Version(ctx, nil)
	if err == nil && (s.fresh == nil || version != s.fresh.now().Version) {
		var st *Store
		if st, err = Open(ctx, noSnapshots{s.db, true}, kms.NewLocal(s.key), nil); err == nil {
			s.fresh, err = s.open(st, true)
		}
	}
	if err != nil {
		s.fail("a new client: %v", err)
		return
	}
	columns := s.fresh.Schema().Columns
	for id := range s.rows {
		s.mu.Lock()
		writes := slices.Clone(s.rows[id])
		s.mu.Unlock()
		got, err := s.fresh.Get(ctx, Row{"id": int64(id)})
		if err != nil {
			s.fail("get: %v", err)
			continue
		}
		s.checks++
		if !allowed(writes, got != nil, got["level"], got[columns[1].Describe().Name], at, at) {
			s.fail("an acknowledged value is lost")
		}
		s.converted(id)
		last, rests := atRest(writes, at)
		tied := s.clock != nil && s.clock.ties > 0
		if !rests || tied && (s.running > 0 || s.crashes() > 0) {
			// A conversion to an older schema that comes late may win a tie. Until its client has looked
			// at the version, the row is read as it should be, but columns that were changed do not lead
			// to it; or until it is converted again, if that client dies.
			continue
		}
		if tied {
			s.ties++
		}
		found := 0
		for row, err := range s.fresh.Query(ctx, Query{Where: Field[int8]("level").Equal(last.level)}) {
			if err != nil {
				s.fail("query: %v", err)
			} else if row["id"] == int64(id) {
				found++
			}
		}
		if forms.Drive(s.fresh.now().ByName["level"]) {
			s.driven++
		}
		if found != 1 {
			s.fail("an acknowledged row is not found")
		}
	}
}

// converted sees that a row is stored as it should be, when all is over, nobody has died, and the last
// conversion was to what the schema is.
func (s *schemaWorld) converted(id int) {
	if s.running > 0 || s.crashes() > 0 {
		return
	}
	ctx, now := context.Background(), s.fresh.now()
	status, err := s.fresh.Status(ctx)
	if err != nil {
		s.fail("status: %v", err)
		return
	}
	if status.Version < status.Latest || status.Done < status.Total {
		return
	}
	key, err := bykey.ExactKey(ctx, now, Row{"id": int64(id)})
	if err != nil {
		s.fail("key: %v", err)
		return
	}
	cells, err := now.Data.Get(ctx, key, driver.Slice{})
	if err != nil || len(cells) == 0 {
		return // it was looked for before
	}
	s.stored++
	if old, err := now.Outdated(driver.Row{Key: key, Cells: cells}, new(rowcodec.Scratch)); old || err != nil {
		s.fail("a row is not converted: %v", err)
	}
}

func (s *schemaWorld) puts(id int, r *rand.Rand) {
	tbl := s.tableOf(true)
	for n := 0; n < 6; {
		w := rowWrite{level: int8(r.IntN(5)), note: r.Int64N(1e9), began: s.now()}
		name := tbl.Schema().Columns[1].Describe().Name
		s.mu.Lock()
		s.rows[id] = append(s.rows[id], w)
		s.mu.Unlock()
		err := tbl.Put(context.Background(), Row{"id": int64(id), "level": w.level, name: w.note})
		s.mu.Lock()
		last := len(s.rows[id]) - 1
		switch {
		case err == nil:
			n++
			s.rows[id][last].acked = s.step
			s.changed = true
		case errors.Is(err, ErrColumn): // the name is another by now
			s.rows[id] = s.rows[id][:last]
		}
		s.mu.Unlock()
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case err != nil && !errors.Is(err, ErrColumn):
			s.fail("put: %v", err)
			return
		}
	}
}

// gets is a client that reads, and knows no more of the schema than it has to.
func (s *schemaWorld) gets(r *rand.Rand) {
	tbl := s.tableOf(true)
	for range 12 {
		from, id, level := s.now(), r.IntN(len(s.rows)), int8(r.IntN(5))
		name := tbl.Schema().Columns[1].Describe().Name
		if s.observed() > tbl.now().Version {
			s.mu.Lock()
			s.reads++
			s.mu.Unlock()
		}
		var err error
		if r.IntN(2) == 0 {
			var got Row
			if got, err = tbl.Get(context.Background(), Row{"id": int64(id)}); err == nil {
				s.mu.Lock()
				right := allowed(s.rows[id], got != nil, got["level"], got[name], from, s.step)
				s.mu.Unlock()
				if !right {
					s.fail("an old client has read what the row was not")
				}
			}
		} else {
			s.mu.Lock()
			before := s.rows
			s.mu.Unlock()
			var found [len(s.rows)]int
			for row, failed := range tbl.Query(context.Background(), Query{Where: Field[int8]("level").Equal(level)}) {
				if err = failed; err == nil {
					found[row["id"].(int64)]++
				}
			}
			for id, n := range found {
				s.mu.Lock()
				last, rests := atRest(before[id], from)
				rests = rests && len(s.rows[id]) == len(before[id])
				s.mu.Unlock()
				if err == nil && rests && (n == 1) != (last.level == level) {
					s.fail("an old client has found a row that nobody wrote %d times", n)
				}
			}
		}
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case err != nil && !errors.Is(err, ErrSchemaChanged):
			s.fail("an old client: %v", err)
			return
		}
	}
}

// observed returns the version of the catalogue.
func (s *schemaWorld) observed() uint32 {
	version, err := s.observer.db.Catalogue.Version(context.Background(), nil)
	if err != nil {
		s.fail("version: %v", err)
	}
	return version
}

func (s *schemaWorld) changes(r *rand.Rand) {
	db, st := s.client()
	ctx := context.Background()
	for range 6 {
		alter := func(op schemaOp, c Change) error {
			op.table = "t"
			return s.log.call(db.id, op, func() error { return st.Alter(ctx, "t", c) })
		}
		var err error
		kind := r.IntN(7)
		if s.tenant && r.IntN(3) == 0 {
			kind = 7
		}
		switch kind {
		case 0:
			err = alter(schemaOp{do: "change", column: "level", as: ordered}, ChangeColumn(OrderedColumn("level", Int8, MOPE)))
		case 1:
			err = alter(schemaOp{do: "change", column: "level", as: deterministic}, ChangeColumn(DeterministicColumn("level", Int8)))
		case 2:
			err = alter(schemaOp{do: "change", column: "level", as: randomised}, ChangeColumn(RandomisedColumn("level", Int8)))
		case 3:
			err = alter(schemaOp{do: "change", column: "level", as: plain}, ChangeColumn(PlainColumn("level", Int8)))
		case 4:
			if err = alter(schemaOp{do: "rename", column: "note", to: "memo"}, RenameColumn("note", "memo")); err == nil {
				err = alter(schemaOp{do: "rename", column: "memo", to: "note"}, RenameColumn("memo", "note"))
			}
		case 5:
			if err = alter(schemaOp{do: "drop column", column: "extra"}, DropColumn("extra")); err == nil {
				err = alter(schemaOp{do: "add", column: "extra", as: ordered}, AddColumn(OrderedColumn("extra", Int8, Plaintext)))
			}
		case 6:
			if s.tenant {
				err = st.RotateTenantKey(ctx, "tenant")
			} else {
				err = s.log.call(db.id, schemaOp{do: "keys", table: "t"}, func() error { return st.RotateKeys(ctx, "t") })
			}
		case 7:
			policies := []Policy{{}, {Whole: true}, {Sensitive: []string{"level"}}}
			err = setPolicy(ctx, st, "tenant", "t", policies[r.IntN(len(policies))])
		}
		if errors.Is(err, errDead) {
			db, st = s.client()
		} else if err != nil {
			s.fail("alter: %v", err)
			return
		}
	}
}

func (s *schemaWorld) converts() {
	tbl := s.tableOf(false)
	for i := range 3 {
		parts := 0
		if i == 1 {
			parts = 3 // which are none of those that others convert
		}
		if err := convertCut(context.Background(), tbl, parts); errors.Is(err, errDead) {
			tbl = s.tableOf(false)
		} else if err != nil {
			s.fail("convert: %v", err)
			return
		} else {
			s.mu.Lock()
			s.sweeps++
			s.mu.Unlock()
		}
	}
}

// steps lets one step after the other happen.
func (s *schemaWorld) steps(crashes float64) {
	for {
		synctest.Wait()
		if s.changed && s.watch != nil {
			s.changed = false
			s.watch()
		} else if s.changed && s.observer != nil {
			s.changed = false
			s.look()
		}
		s.mu.Lock()
		var awake []*waitingCall
		for _, p := range s.waiting {
			if s.asleep[p.client] <= s.step {
				awake = append(awake, p)
			}
		}
		s.step++
		if len(s.waiting) == 0 && s.running == 0 {
			s.mu.Unlock()
			return
		}
		if len(s.lateChanges) > 0 && s.r.IntN(10) == 0 {
			change := s.lateChanges[0]
			s.lateChanges, s.changed = s.lateChanges[1:], true
			s.mu.Unlock()
			change()
			continue
		}
		if len(awake) == 0 {
			s.mu.Unlock()
			time.Sleep(time.Second)
			continue
		}
		slices.SortFunc(awake, func(a, b *waitingCall) int {
			if a.client.id != b.client.id {
				return a.client.id - b.client.id
			}
			return strings.Compare(a.what, b.what)
		})
		p := awake[s.r.IntN(len(awake))]
		if s.r.IntN(25) == 0 || strings.HasPrefix(p.what, "apply t") && s.r.IntN(6) == 0 {
			s.asleep[p.client] = s.step + s.r.IntN(1500)
			s.mu.Unlock()
			continue
		}
		s.changed = s.changed || strings.HasPrefix(p.what, "apply") || strings.HasPrefix(p.what, "commit")
		f := lives
		if s.r.Float64() < crashes {
			f = diesBefore + fate(s.r.IntN(2))
			p.client.dead = true
		}
		var lost []*waitingCall
		s.waiting = slices.DeleteFunc(s.waiting, func(other *waitingCall) bool {
			if other != p && f != lives && other.client == p.client {
				lost = append(lost, other)
			}
			return other == p || f != lives && other.client == p.client
		})
		s.mu.Unlock()
		p.release <- f
		for _, other := range lost {
			other.release <- diesBefore
		}
		s.mu.Lock()
		bad := len(s.bad) > 0
		s.mu.Unlock()
		if bad {
			crashes = 0
		}
	}
}

// newSchemaWorld returns an empty one. Every other one has timestamps.
func newSchemaWorld(t *testing.T, v schemaVariant, seed uint64) *schemaWorld {
	t.Helper()
	sim.Seed(t, seed)
	s := &schemaWorld{
		world: &world{
			db: drivertest.NewMemory(), r: rand.New(rand.NewPCG(seed, 0)),
			stamps: make(map[string]int64), active: make(map[string]int), touched: make(map[string]int),
		},
		schemaVariant: v, asleep: make(map[*simDB]int),
	}
	s.key = ope.GenerateKey()
	s.tenant = seed/4%2 == 0
	if seed/2%2 == 0 {
		s.clock = newTimestamps()
	}
	return s
}

// start lets a client run.
func (s *schemaWorld) start(group *sync.WaitGroup, do func()) {
	s.running++
	group.Go(func() {
		do()
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	})
	synctest.Wait()
}

func (s *schemaWorld) crashes() int { return s.clients - s.first }

func simulateSchemas(t *testing.T, v schemaVariant, seed uint64, crashes float64) *schemaWorld {
	t.Helper()
	s := newSchemaWorld(t, v, seed)
	s.first = 8
	synctest.Test(t, func(t *testing.T) {
		var err error
		s.observer, err = Open(context.Background(), noSnapshots{s.db, false}, kms.NewLocal(s.key), nil)
		require.NoError(t, err)
		create := schemaOp{do: "create", table: "t", column: "level", to: "note"}
		require.NoError(t, s.log.call(0, create, func() error {
			_, err := s.observer.Create(context.Background(), Schema{
				Name: "t", CellPerColumn: seed%2 == 1, Tenants: s.tenant, Key: []KeyPart{HashedPart("id", Int64)},
				Columns: []Column{RandomisedColumn("level", Int8), RandomisedColumn("note", Int64)},
			})
			return err
		}))
		if s.tenant {
			require.NoError(t, s.observer.CreateTenant(context.Background(), "tenant"))
		}
		var group sync.WaitGroup
		for id := range s.rows {
			s.start(&group, func() { s.puts(id, rand.New(rand.NewPCG(seed, uint64(id)+10))) })
		}
		for i := range uint64(2) {
			s.start(&group, func() { s.changes(rand.New(rand.NewPCG(seed, i+20))) })
			s.start(&group, s.converts)
		}
		s.start(&group, func() { s.gets(rand.New(rand.NewPCG(seed, 30))) })
		s.steps(crashes)
		group.Wait()
		s.look()
	})
	s.judge()
	return s
}

// simulateCatalogues has clients that make, change and drop tables, and look at them.
func simulateCatalogues(t *testing.T, v schemaVariant, seed uint64, crashes float64) *schemaWorld {
	t.Helper()
	s := newSchemaWorld(t, v, seed)
	ctx := context.Background()
	work := func(r *rand.Rand) {
		db, st := s.client()
		for range 8 {
			op := schemaOp{table: string("tu"[r.IntN(2)]), column: string("ab"[r.IntN(2)]), to: string("ab"[r.IntN(2)])}
			alter := func(c Change) error { return st.Alter(ctx, op.table, c) }
			var err error
			switch op.do = []string{"create", "drop", "rename table", "add", "drop column", "rename", "change", "keys", "look", "look"}[r.IntN(10)]; op.do {
			case "create":
				err = s.log.call(db.id, op, func() error {
					_, err := st.Create(ctx, Schema{
						Name: op.table, Key: []KeyPart{HashedPart("id", Int64)},
						Columns: []Column{RandomisedColumn(op.column, Int8), RandomisedColumn("other", Int8)},
					})
					if errors.Is(err, driver.ErrNoFamily) {
						return nil // another one has dropped the table again
					}
					return err
				})
			case "drop":
				err = s.log.call(db.id, op, func() error { return st.Drop(ctx, op.table) })
			case "rename table":
				op.to = map[string]string{"t": "u", "u": "t"}[op.table]
				err = s.log.call(db.id, op, func() error { return st.RenameTable(ctx, op.table, op.to) })
			case "add":
				op.as = ordered
				err = s.log.call(db.id, op, func() error { return alter(AddColumn(OrderedColumn(op.column, Int8, MOPE))) })
			case "drop column":
				err = s.log.call(db.id, op, func() error { return alter(DropColumn(op.column)) })
			case "rename":
				err = s.log.call(db.id, op, func() error { return alter(RenameColumn(op.column, op.to)) })
			case "change":
				c := DeterministicColumn(op.column, Int8)
				if op.as = deterministic; r.IntN(2) == 0 {
					c, op.as = PlainColumn(op.column, Int8), plain
				}
				err = s.log.call(db.id, op, func() error { return alter(ChangeColumn(c)) })
			case "keys":
				err = s.log.call(db.id, op, func() error { return st.RotateKeys(ctx, op.table) })
			case "look":
				saw := ""
				err = s.log.read(db.id, op, &saw, func() error {
					tbl, err := st.Table(ctx, op.table)
					if err != nil {
						return err
					}
					state := tableState{columns: make(map[string]encryption), keys: len(tbl.now().Meta.RowKeys)}
					for _, c := range tbl.now().Columns {
						state.columns[c.Name] = c.Encryption
					}
					saw = state.String()
					return nil
				})
			}
			if errors.Is(err, errDead) {
				db, st = s.client()
			} else if err != nil {
				s.fail("%s: %v", op.do, err)
				return
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := Open(ctx, s.db, kms.NewLocal(s.key), nil)
		require.NoError(t, err)
		var group sync.WaitGroup
		for i := range uint64(4) {
			s.start(&group, func() { work(rand.New(rand.NewPCG(seed, i+40))) })
		}
		s.steps(crashes)
		group.Wait()
	})
	s.judge()
	return s
}

// A schemaLog is the history of what clients asked of the catalogue.
type schemaLog struct {
	mu      sync.Mutex
	time    int64
	history []porcupine.Operation
}

// A schemaOp is a change of a schema, or a look at one.
type schemaOp struct {
	do, table, column, to string
	as                    encryption
}

func (l *schemaLog) call(client int, op schemaOp, do func() error) error {
	return l.read(client, op, new(string), do)
}

// read notes a call and how it ends, with what it saw. Its error is one that no call may have, or
// that the client is dead: what became of a call that was under way then is not known.
func (l *schemaLog) read(client int, op schemaOp, saw *string, do func() error) error {
	l.mu.Lock()
	l.time++
	called := porcupine.Operation{ClientId: client, Input: op, Call: l.time}
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.time++
	called.Return, called.Output = l.time, *saw
	switch {
	case err == nil:
	case errors.Is(err, errDead), errors.Is(err, driver.ErrUnknownOutcome):
		called.Return, called.Output = math.MaxInt64, nil
		if !errors.Is(err, errDead) {
			err = nil
		}
	default:
		kinds := []error{ErrNoTable, ErrExists, ErrColumn}
		i := slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
		if i < 0 {
			return err
		}
		called.Output, err = kinds[i].Error(), nil
	}
	l.history = append(l.history, called)
	return err
}

// A tableState is what the catalogue says of a table.
type tableState struct {
	columns map[string]encryption
	keys    int
}

func (s tableState) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.columns)) {
		fmt.Fprintf(&b, "%s %s, ", name, s.columns[name])
	}
	return fmt.Sprintf("%s%d keys", b.String(), s.keys)
}

// after returns how an operation ends on tables of some state, and the state then. It does not change
// the state.
func (op schemaOp) after(tables map[string]tableState) (string, map[string]tableState) {
	t, there := tables[op.table]
	if op.do == "create" && there {
		return ErrExists.Error(), tables
	} else if op.do != "create" && !there {
		return ErrNoTable.Error(), tables
	}
	is, column := t.columns[op.column]
	_, taken := t.columns[op.to]
	next := maps.Clone(tables)
	t.columns = maps.Clone(t.columns)
	next[op.table] = t
	switch op.do {
	case "create":
		other := "other"
		if op.column == "level" {
			other = "note"
		}
		next[op.table] = tableState{map[string]encryption{op.column: randomised, other: randomised}, 1}
	case "drop":
		delete(next, op.table)
	case "rename table":
		if _, taken := tables[op.to]; taken {
			return ErrExists.Error(), tables
		}
		delete(next, op.table)
		next[op.to] = t
	case "add":
		if column {
			return ErrExists.Error(), tables
		}
		t.columns[op.column] = op.as
	case "drop column", "change":
		if !column {
			return ErrColumn.Error(), tables
		}
		if delete(t.columns, op.column); op.do == "change" {
			t.columns[op.column] = op.as
		}
	case "rename":
		switch {
		case taken:
			return ErrExists.Error(), tables
		case !column:
			return ErrColumn.Error(), tables
		}
		delete(t.columns, op.column)
		t.columns[op.to] = is
	case "keys":
		t.keys++
		next[op.table] = t
	case "look":
		return t.String(), tables
	}
	return "", next
}

// judge looks for an order of the history in which each call ends as it did.
func (s *schemaWorld) judge() {
	model := porcupine.Model{
		Init: func() any { return map[string]tableState{} },
		Step: func(state, op, output any) (bool, any) {
			ends, next := op.(schemaOp).after(state.(map[string]tableState))
			return output == nil || output == ends, next
		},
		Equal: reflect.DeepEqual,
	}
	if result := porcupine.CheckOperationsTimeout(model, s.log.history, time.Minute); result != porcupine.Ok {
		var b strings.Builder
		for _, op := range s.log.history {
			fmt.Fprintf(&b, "%d to %d: %d: %v: %v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
		}
		s.fail("the changes of the schema have no order: %s\n%s", result, b.String())
	}
}

func TestClientsWithOldSchemas(t *testing.T) {
	var checks, driven, crashes, sweeps, reads, ties, settled, stored, changes int
	runs := max(10, *simRuns/4)
	if testing.Short() {
		runs = min(runs, 20)
	}
	for i := range runs {
		seed := *simSeed + uint64(i)
		s := simulateSchemas(t, schemaVariant{}, seed, 0.004)
		require.Empty(t, s.bad, "-store.simseed=%d", seed)
		checks, driven, sweeps, crashes = checks+s.checks, driven+s.driven, sweeps+s.sweeps, crashes+s.crashes()
		reads, settled, stored, changes = reads+s.reads, settled+s.ties, stored+s.stored, changes+len(s.log.history)
		if s.clock != nil {
			ties += s.clock.ties
		}
	}
	t.Logf("%d runs, %d changes, %d checks, %d of them by the column, %d reads of old clients, %d crashes, %d conversions, %d ties, %d rows found after some, %d rows stored as the schema says",
		runs, changes, checks, driven, reads, crashes, sweeps, ties, settled, stored)
	require.Greater(t, driven, runs)
	require.Greater(t, reads, runs)
	require.Greater(t, crashes, runs/2)
	if runs >= 50 { // fewer may lack these
		require.Greater(t, ties, runs/10)
		require.Positive(t, settled)
		require.Positive(t, stored)
	}
}

func TestChangesOfSchemasHaveOneOrder(t *testing.T) {
	var calls, crashes int
	ends := make(map[any]int)
	for i := range *simRuns {
		seed := *simSeed + uint64(i)
		s := simulateCatalogues(t, schemaVariant{}, seed, 0.02)
		require.Empty(t, s.bad, "-store.simseed=%d", seed)
		calls, crashes = calls+len(s.log.history), crashes+s.clients-4
		for _, op := range s.log.history {
			if op.Input.(schemaOp).do != "look" {
				ends[op.Output]++
			}
		}
	}
	t.Logf("%d runs, %d calls, %d crashes; changes ended %v", *simRuns, calls, crashes, ends)
	require.Greater(t, crashes, *simRuns/2)
	for _, end := range []any{nil, "", ErrNoTable.Error(), ErrExists.Error(), ErrColumn.Error()} {
		require.Greater(t, ends[end], *simRuns/4, end)
	}
}

// The simulation notices when changes of tables have no condition.
func TestSchemaSimulationNotices(t *testing.T) {
	runs, bad := max(40, *simRuns/4), 0
	for i := range runs {
		s := simulateCatalogues(t, schemaVariant{blind: true}, *simSeed+uint64(i), 0)
		if slices.ContainsFunc(s.bad, func(b string) bool { return strings.Contains(b, "have no order: Illegal") }) {
			bad++
		}
	}
	t.Logf("%d of %d runs are bad", bad, runs)
	require.Positive(t, bad)
}
