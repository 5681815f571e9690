package migrate

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

var (
	simRuns = flag.Int("migrate.sim", sim.LongShare(500, 150, 60), "schedules of each simulation of a migration")
	simSeed = flag.Uint64("migrate.simseed", 1, "seed of the first one; the next ones follow")
)

// The simulation: eight writers insert rows, update single columns, delete, and insert again through a Mirror, while two processes
// copy. Each call of the source, of the table's families and of the migration's record is a step. In the end the table must have
// what the source has: at once where no writer died between his two writes, else after a verification with repair. Where the last
// write wins, one that is made after its caller has given up may need that, too. After a cut-over in the middle nothing that was written into the table since may be undone.
type world struct {
	sim.World
	memory driver.DB
	key    ope.Key
	source *memorySource
	r      *rand.Rand
	dead   map[int64]bool // rows of which a writer died, so that only a verification mends them
	rows   int64          // how many there may be
	pages  bool           // the table has pages
}

const simRows = 3

// A client's table: of rows that stand alone, or of pages.
type simTable interface {
	Get(ctx context.Context, key store.Row, columns ...string) (store.Row, error)
	Put(ctx context.Context, rows ...store.Row) error
	Query(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
}

// simDB is what a client has of the database.
type simDB struct {
	driver.DB
	c       *sim.Client
	entries bool // calls for index entries are steps, too
}

// Close leaves the memory to others.
func (db simDB) Close() error { return nil }

func (db simDB) Describe() driver.Description { return driver.Describe(db.DB) }

func (db simDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return simFamily{f, db.c, spec.Name[:1], db.entries}, err
}

type simFamily struct {
	driver.Family
	c       *sim.Client
	name    string
	entries bool
}

// call makes a call a step. What the catalogue says of the table never changes here.
func (f simFamily) call(kind sim.Kind, what string, row []byte, step bool, do func(bool) error) error {
	if !step || f.c == nil {
		return do(false)
	}
	err := f.c.Call(sim.Call{Kind: kind, What: fmt.Sprintf("%s %s %x", what, f.name, row), On: f.name + string(row), Do: do})
	return asDriver(err, kind, what)
}

// asDriver returns an error of the simulation as drivers have it.
func asDriver(err error, kind sim.Kind, what string) error {
	switch {
	case errors.Is(err, sim.ErrUnknown) && what == "check":
		return fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
	case errors.Is(err, sim.ErrUnknown), errors.Is(err, sim.ErrFailed):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// steps reports whether a call on cells of a row is a step.
func (f simFamily) steps(qualifiers [][]byte) bool {
	return f.name == "t" || f.name == "x" && f.entries || f.name == "c" && len(qualifiers) == 1 && len(qualifiers[0]) > 0 && qualifiers[0][0] == 4
}

func (f simFamily) Get(ctx context.Context, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	err = f.call(sim.Read, "get", row, f.steps(s.Only), func(bool) (err error) {
		cells, err = f.Family.Get(context.Background(), row, s)
		return err
	})
	return cells, err
}

func (f simFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f simFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var rows []driver.Row
		err := f.call(sim.Read, "scan", r.Start, f.steps(nil), func(bool) error {
			for row, err := range f.Family.Scan(context.Background(), r) {
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
			return nil
		})
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if err != nil {
			yield(driver.Row{}, err)
		}
	}
}

func (f simFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for _, m := range mutations {
		err := f.call(sim.Write, "apply", m.Row, f.steps(nil), func(bool) error { return f.Family.Apply(context.Background(), m) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (f simFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (done bool, err error) {
	err = f.call(sim.Write, "check", row, f.steps([][]byte{expect.Qualifier}), func(bool) (err error) {
		done, err = f.Family.CheckAndPut(context.Background(), row, expect, puts...)
		return err
	})
	return done, err
}

// simSource is what a client has of the source.
type simSource struct {
	*memorySource
	c *sim.Client
}

func (s simSource) step(kind sim.Kind, what string, do func(bool) error) error {
	if s.c == nil {
		return do(false)
	}
	return asDriver(s.c.Call(sim.Call{Kind: kind, What: what + " source", On: "source", Do: do}), kind, what)
}

func (s simSource) Read(ctx context.Context, keys []store.Row) (all []Found, err error) {
	err = s.step(sim.Read, "read", func(bool) (err error) {
		all, err = s.memorySource.Read(ctx, keys)
		return err
	})
	return all, err
}

func (s simSource) Scan(ctx context.Context, part inspect.Part) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		var all []Found
		err := s.step(sim.Read, "scan", func(bool) error {
			for f, err := range s.memorySource.Scan(ctx, part) {
				if err != nil {
					return err
				}
				all = append(all, f)
			}
			return nil
		})
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(Found{}, err)
		}
	}
}

// connect returns the migration and the table as a client has them, or with nil as one has them whose calls are no steps.
func (w *world) connect(c *sim.Client) (m *Migration, tbl simTable) {
	open := func() {
		ctx := context.Background()
		st, err := store.Open(ctx, simDB{w.memory, c, w.source.tied}, kms.NewLocal(w.key), nil)
		switch {
		case err != nil:
		case w.pages:
			tbl, err = paged.Open(ctx, st, "orders")
		default:
			tbl, err = st.Table(ctx, "orders")
		}
		if err == nil {
			m, err = Open(ctx, st, "orders", simSource{w.source, c})
		}
		if err != nil && (c == nil || !c.Dead()) {
			panic(err)
		}
	}
	if c == nil {
		open()
	} else {
		c.Free(open)
	}
	return m, tbl
}

// client lets a client do something until that is done, or it dies and no other one goes on.
func (w *world) client(do func(m *Migration, tbl simTable, c *sim.Client) (over bool, err error)) {
	c := w.Client()
	w.Go(func() {
		var m *Migration
		var tbl simTable
		for {
			if c.Call(sim.Call{Kind: sim.Begin, What: "begin"}) != nil {
				return
			}
			if m == nil {
				m, tbl = w.connect(c)
			}
			over, err := do(m, tbl, c)
			switch {
			case over:
				return
			case c.Dead():
				c, m = w.Client(), nil // somebody goes on
			case err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknownOutcome):
				w.Fail("%v", err)
				return
			}
		}
	})
}

// writes is what one writer does.
func (w *world) writes(ops int) {
	w.client(func(m *Migration, tbl simTable, c *sim.Client) (bool, error) {
		if ops == 0 {
			return true, nil
		}
		ops--
		id := w.r.Int64N(w.rows)
		var row store.Row
		n := w.r.Int64N(3)
		switch w.r.IntN(4) {
		case 0: // few values, so that a row is often what it was before
			row = store.Row{"a": n, "b": n}
		case 1:
			row = store.Row{"a": n}
		case 2:
			row = store.Row{"b": n}
		}
		if w.source.tied && row != nil {
			row = store.Row{"a": id, "b": n} // rows that are put again have the index entries of before
		}
		for {
			err := w.writeOnce(m, c, id, row)
			switch {
			case c.Dead():
				w.dead[id] = true
				return false, err
			case errors.Is(err, ErrCutOver):
				w.Count("refused")
				return true, nil
			case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrUnknownOutcome):
				continue // as an application does
			}
			w.Count("writes")
			return false, err
		}
	})
}

func (w *world) writeOnce(m *Migration, c *sim.Client, id int64, row store.Row) error {
	return m.Mirror().Write(context.Background(), []store.Row{w.source.key(id)}, func(context.Context) error {
		source := simSource{w.source, c}
		err := source.step(sim.Write, "write", func(bool) error { return w.source.change(id, row, 0) })
		w.dead[id] = w.dead[id] || err != nil // it may be made long after the application has given up
		return err
	})
}

// copies is what one copier does.
func (w *world) copies(parts int) {
	part := 0
	w.client(func(m *Migration, tbl simTable, c *sim.Client) (bool, error) {
		_, err := m.Copy(context.Background(), inspect.Part{Index: part, Of: parts}, nil)
		if err == nil {
			part++
			w.Count("copied")
		}
		return part == parts || errors.Is(err, ErrCutOver) || errors.Is(err, ErrPhase), err
	})
}

// A kind is how a table takes writes.
type kind int

const (
	lastWins kind = iota
	swaps
	dated // copies count as made earlier
	datedSwaps
	adds   // only, and deletes
	sealed // in pages, which swap
)

func newWorld(t *testing.T, seed uint64, of kind, chooser *sim.Random) *world {
	r := rand.New(rand.NewPCG(seed, 2))
	memory := driver.DB(noSnapshots{drivertest.NewMemory()})
	if of == dated || of == datedSwaps {
		memory = &datedDB{DB: memory, stamps: make(map[string]int64)}
	}
	w := &world{memory: memory, key: ope.GenerateKey(), source: newMemorySource(), r: r, dead: make(map[int64]bool), rows: simRows, pages: of == sealed}
	if w.pages {
		w.rows = 2 * simRows // so that pages are cut
	}
	w.source.tied = of == adds // with copies in their index entries
	chooser.R = r
	w.Choose, w.Faults = chooser, chooser.Crash+chooser.Unknown+chooser.Freeze > 0
	ctx := context.Background()
	for id := range w.rows { // some of them
		if r.IntN(3) > 0 {
			row := store.Row{"a": int64(0), "b": r.Int64N(3)}
			if w.source.tied {
				row["a"] = id
			}
			require.NoError(t, w.source.change(id, row, 0))
			f := w.source.rows[id]
			f.Written = f.Written.Add(-time.Duration(id%2) * time.Hour)
			w.source.rows[id] = f
		}
	}
	st, err := store.Open(ctx, w.memory, kms.NewLocal(w.key), nil)
	require.NoError(t, err)
	a := store.DeterministicColumn("a", store.Int64)
	if of == datedSwaps {
		a = store.RandomisedColumn("a", store.Int64)
	}
	key := []store.KeyPart{store.HashedPart("id", store.Int64)}
	if w.source.tied {
		key = append(key, store.TiePart("tie"))
		a = store.OrderedColumn("a", store.Int64, store.Boldyreva).Covering()
	}
	schema := store.Schema{
		Name: "orders", Key: key, Conditional: of == swaps || of == datedSwaps, AppendOnly: w.source.tied,
		Columns: []store.Column{a, store.RandomisedColumn("b", store.Int64)},
	}
	if w.pages { // of one partition
		schema.Key, schema.SpreadBits = []store.KeyPart{store.OrderedPart("id", store.Int64, store.Plaintext)}, -1
		schema.Columns[0] = store.PlainColumn("a", store.Int64)
		_, err = paged.Create(ctx, st, schema, 2)
	} else {
		_, err = st.Create(ctx, schema)
	}
	require.NoError(t, err)
	m, err := Open(ctx, st, "orders", w.source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	require.NoError(t, st.Close(ctx))
	return w
}

// noSnapshots hides that a database is a Snapshotter and its families Committers.
type noSnapshots struct{ driver.DB }

func (db noSnapshots) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return struct{ driver.Family }{f}, err
}

// A datedDB lets the last write win by its time, as Cassandra does: of two values of one time it keeps the greater one.
type datedDB struct {
	driver.DB
	mu     sync.Mutex
	stamps map[string]int64 // of cells and, under the key of a row, of its deletion
	last   int64
}

func (db *datedDB) Describe() driver.Description {
	return driver.Description{System: "cassandra", Backdates: true}
}

func (db *datedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return datedFamily{f, db, spec.Name}, err
}

type datedFamily struct {
	driver.Family
	db   *datedDB
	name string
}

func (f datedFamily) row(key []byte) string { return fmt.Sprintf("%s %x", f.name, key) }

func (f datedFamily) cell(key, qualifier []byte) string {
	return fmt.Sprintf("%s %x", f.row(key), qualifier)
}

func (f datedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	cells, err := f.Family.Get(ctx, row, s)
	for i := range cells {
		if s.Stamps {
			cells[i].Stamp = f.db.stamps[f.cell(row, cells[i].Qualifier)]
		}
	}
	return cells, err
}

func (f datedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	made, err := f.Family.CheckAndPut(ctx, row, expect, puts...)
	f.db.last = max(f.db.last+1, time.Now().UnixMicro())
	for _, c := range puts {
		if made {
			f.db.stamps[f.cell(row, c.Qualifier)] = f.db.last
		}
	}
	return made, err
}

func (f datedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	for _, m := range mutations {
		f.db.last = max(f.db.last+1, time.Now().UnixMicro())
		stamp := f.db.last
		if !m.AsOf.IsZero() {
			stamp = m.AsOf.UnixMicro()
		}
		was, err := f.Family.Get(ctx, m.Row, driver.Slice{})
		if err != nil {
			return err
		}
		wins := driver.Mutation{Row: m.Row}
		deletes := m.Deletes
		if m.DeleteRow {
			f.db.stamps[f.row(m.Row)] = max(stamp, f.db.stamps[f.row(m.Row)])
			for _, c := range was {
				deletes = append(deletes, c.Qualifier)
			}
		}
		for _, q := range deletes {
			if at := f.cell(m.Row, q); stamp >= f.db.stamps[at] {
				f.db.stamps[at] = stamp
				wins.Deletes = append(wins.Deletes, q)
			}
		}
		for _, c := range m.Puts {
			at := f.cell(m.Row, c.Qualifier)
			same := stamp == f.db.stamps[at] && slices.ContainsFunc(was, func(w driver.Cell) bool {
				return bytes.Equal(w.Qualifier, c.Qualifier) && bytes.Compare(w.Value, c.Value) < 0
			})
			if (stamp > f.db.stamps[at] || same) && stamp > f.db.stamps[f.row(m.Row)] {
				f.db.stamps[at] = stamp
				wins.Puts = append(wins.Puts, c)
			}
		}
		if err := f.Family.Apply(ctx, wins); err != nil {
			return err
		}
	}
	return nil
}

// differing returns the rows that the table does not have as the source has them.
func (w *world) differing(tbl simTable) (ids []int64) {
	for id := range w.rows {
		row, err := tbl.Get(context.Background(), w.source.key(id))
		if err != nil && !errors.Is(err, store.ErrTorn) {
			w.Fail("get: %v", err)
		}
		if found := w.source.rows[id]; err != nil || !maps.Equal(row, found.Row) || w.source.tied && !w.indexed(tbl, id, found.Row["a"]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// indexed reports whether a row is found by its value of a column that covers, and by no other.
func (w *world) indexed(tbl simTable, id int64, a any) bool {
	var found []any
	for row, err := range tbl.Query(context.Background(), store.Query{Where: store.Int64.Field("a").AtLeast(-1)}) {
		if err != nil {
			w.Fail("query: %v", err)
			break
		}
		if row["id"] == id {
			found = append(found, row["a"])
		}
	}
	return len(found) == 0 && a == nil || len(found) == 1 && found[0] == a
}

// simulate lets writers and copiers go on until all is quiet, and then verifies and repairs.
func simulate(t *testing.T, seed uint64, of kind, chooser *sim.Random) *world {
	t.Helper()
	sim.Seed(t, seed)
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, of, chooser)
		for range 8 {
			w.writes(1 + int(seed/2)%3)
		}
		w.copies(2)
		w.copies(3)
		w.Run(20_000)
		w.End()
		m, tbl := w.connect(nil)
		if pages, is := tbl.(*paged.Table); is {
			all, err := pages.Verify(context.Background())
			require.NoError(t, err)
			if all.Pages > 1 {
				w.Count("cut")
			}
		}
		for _, id := range w.differing(tbl) {
			if w.Count("mended"); !w.dead[id] && (of == swaps || of == datedSwaps || of == sealed || chooser.Unknown == 0) {
				w.Fail("row %d differs, though nobody died who wrote it", id)
			}
		}
		found, err := m.Verify(context.Background(), inspect.Part{Of: 1}, &PassOptions{Repair: true})
		require.NoError(t, err)
		require.Zero(t, found.Rows.Differs+found.Rows.Refused)
		if ids := w.differing(tbl); len(ids) > 0 {
			w.Fail("rows %v differ after a verification with repair", ids)
		}
	})
	return w
}

func TestMigrationsSimulated(t *testing.T) {
	for name, of := range map[string]kind{"conditional": swaps, "last write wins": lastWins, "copies count as earlier": dated, "conditional, copies count as earlier": datedSwaps, "rows are only added": adds, "pages": sealed} {
		t.Run(name, func(t *testing.T) {
			counts := make(sim.Counts)
			for seed := *simSeed; seed < *simSeed+uint64(*simRuns); seed++ {
				chooser := &sim.Random{Freeze: 0.05, Frozen: []int{30, 100, 300}[seed%3], Burst: 0.3}
				if seed%2 == 0 {
					chooser.Crash, chooser.Unknown = 0.01, 0.02
				}
				w := simulate(t, seed, of, chooser)
				counts.Add(w.Counts())
				require.Empty(t, w.Bad(), "seed %d:\n%s", seed, w.Story())
			}
			require.Empty(t, counts.Missing("writes", "copied", "mended", "unknown, late", "dies, late"), "%v", counts)
			if of == sealed {
				require.Empty(t, counts.Missing("cut"), "%v", counts)
			}
			t.Log(counts)
		})
	}
}

// A copy of what the source had before comes when another one has what it has now, and the writer has found that: it comes too late.
// Which of two values of one time the database keeps is by chance.
func TestLateCopiesLose(t *testing.T) {
	ctx, keys := t.Context(), []store.Row{{"id": int64(1)}}
	for seed := range uint64(20) {
		w := newWorld(t, seed, dated, new(sim.Random))
		m, tbl := w.connect(nil)
		require.NoError(t, w.source.change(1, store.Row{"a": int64(1), "b": int64(1)}, 0))
		before, err := m.source.Read(ctx, keys)
		require.NoError(t, err)
		require.NoError(t, m.Mirror().Write(ctx, keys, func(ctx context.Context) error {
			if err := w.source.change(1, store.Row{"a": int64(2), "b": int64(2)}, 0); err != nil {
				return err
			}
			_, err := m.Copy(ctx, inspect.Part{Of: 1}, nil)
			return err
		}))
		rec, err := m.record(ctx)
		require.NoError(t, err)
		asOf, earlier := m.asOf(rec)
		require.True(t, earlier)
		before[0].Written = asOf
		require.NoError(t, m.pass(nil).copyRows(ctx, rec, before))
		row, err := tbl.Get(ctx, keys[0])
		require.NoError(t, err)
		require.Equal(t, store.Row{"id": int64(1), "a": int64(2), "b": int64(2)}, row)
	}
}

// What is written into the table after the cut-over stays, whatever dual writes and copies are still under way.
func simulateCutover(t *testing.T, seed uint64, of kind) *world {
	t.Helper()
	sim.Seed(t, seed)
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, of, &sim.Random{Freeze: 0.05, Frozen: 100, Burst: 0.3})
		for range 6 {
			w.writes(3)
		}
		w.copies(2)
		last := make(map[int64]int64)
		w.client(func(m *Migration, tbl simTable, c *sim.Client) (bool, error) {
			ctx := context.Background()
			for range w.r.IntN(60) {
				if err := c.Call(sim.Call{Kind: sim.Begin, What: "wait"}); err != nil {
					return true, err
				}
			}
			_, err := m.update(ctx, false, func(rec *catalogue.Migration) error {
				rec.Phase, rec.CutOver = catalogue.PhaseCutOver, 1
				return nil
			})
			for n := int64(100); n < 106 && err == nil; n++ {
				id := n % w.rows
				if err = tbl.Put(ctx, store.Row{"id": id, "a": n, "b": n}); err == nil {
					last[id] = n
				}
			}
			return true, err
		})
		w.Run(20_000)
		w.End()
		_, tbl := w.connect(nil)
		for id, n := range last {
			w.Count("kept")
			row, err := tbl.Get(context.Background(), store.Row{"id": id})
			if err != nil || row["a"] != n || row["b"] != n {
				w.Fail("row %d was written after the cut-over, and is another: %v", id, err)
			}
		}
	})
	return w
}

func TestCutoversSimulated(t *testing.T) {
	counts := make(sim.Counts)
	for seed := *simSeed; seed < *simSeed+uint64(*simRuns); seed++ {
		w := simulateCutover(t, seed, []kind{swaps, datedSwaps, sealed}[seed%3])
		counts.Add(w.Counts())
		require.Empty(t, w.Bad(), "seed %d:\n%s", seed, w.Story())
	}
	require.Empty(t, counts.Missing("kept", "refused", "writes"), "%v", counts)
}
