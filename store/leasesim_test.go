package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// The simulation of the lease. Writers put rows, others change the schema, convert, set the lease, and query by the column
// that is changed. Requests and their answers are steps that take a millisecond each; some take half a second. Clients die at
// any of them. Each has a clock of its own, which is up to 3 % too fast or too slow and shows some time of its own. That
// of a writer jumps ahead now and then, and that of all others stops, since a lease allows both. The clock of a writer stops only in
// the variant that shows what a lease does not stand.
//
// Whenever a row is acknowledged and a conversion has ended, each row that nobody is writing must be read as it was
// acknowledged, and be found by the column. And a row whose writing began after a change of the schema had returned
// must be stored as of that version or a later one.
type leaseWorld struct {
	sim.World
	leaseVariant
	seed uint64
	db   driver.DB
	key  ope.Key
	r    *rand.Rand
	rows [3]leaseRow // by id; of a writer each

	written map[string]int // by family and row: how often

	observer *Store // whose calls are no steps
	seen     *Table // as it knows it

	made   uint32 // the latest version that gave the column another encryption, of changes that have returned
	driven int    // rows that had to be found by the column
}

type leaseVariant struct {
	stops bool // the clocks of writers stop while they wait for an answer
	off   bool // there is no lease
	forms bool // the column gets other search keys and schemes that have an order, and is asked for ranges
}

// A leaseRow is what is known of a row.
type leaseRow struct {
	level  int8
	there  bool
	busy   bool
	writes int  // that have begun
	unsure bool // a write failed since it was acknowledged last, and may take effect
}

// A leaseClock is that of a machine.
type leaseClock struct {
	mu      sync.Mutex
	began   time.Time
	rate    time.Duration // a thousand is right
	ahead   time.Duration
	lost    time.Duration
	stopped time.Time
}

func (c *leaseClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now()
	if !c.stopped.IsZero() {
		at = c.stopped
	}
	return c.ahead + (at.Sub(c.began)-c.lost)*c.rate/1000
}

// sleeps lets a request take long. The clock stops meanwhile, or jumps ahead afterwards, or does neither.
func (c *leaseClock) sleeps(d time.Duration, stops, jumps bool) {
	c.mu.Lock()
	if stops = stops && c.stopped.IsZero(); stops {
		c.stopped = time.Now()
	}
	c.mu.Unlock()
	time.Sleep(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if stops {
		c.lost, c.stopped = c.lost+time.Since(c.stopped), time.Time{}
	}
	if jumps {
		c.ahead += d
	}
}

// leaseDB is what a client has of the database.
type leaseDB struct {
	driver.DB
	w      *leaseWorld
	c      *sim.Client // nil for the observer
	clock  *leaseClock
	writes bool
}

func (db *leaseDB) Close() error { return nil }

func (db *leaseDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &leaseFamily{Family: f, db: db, name: spec.Name[:1]}, nil
}

type leaseFamily struct {
	driver.Family
	db   *leaseDB
	name string
}

// call makes a request, and then waits for the answer.
func (f *leaseFamily) call(kind sim.Kind, what string, row []byte, do func(late bool) error) error {
	db := f.db
	if db.c == nil {
		return do(false)
	}
	var takes time.Duration
	jumps := false
	what = fmt.Sprintf("%s %s %x", what, f.name, row)
	err := db.c.Call(sim.Call{Kind: kind, What: what, On: f.name + string(row), Do: func(late bool) error {
		if db.w.r.IntN(12) == 0 {
			// Steps come at whole milliseconds. Who goes on in between goes on alone.
			takes = time.Duration(db.w.r.IntN(600_000_000))
			jumps = db.writes && db.w.r.IntN(4) == 0
		}
		return do(late)
	}})
	if takes > 0 {
		db.clock.sleeps(takes, db.w.stops || !db.writes, jumps)
		db.w.Count("slow answers") // what others did before is seen by this goroutine: a count takes the lock of the world
	}
	return err
}

func (f *leaseFamily) Get(ctx context.Context, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	err = f.call(sim.Read, "get", row, func(bool) (err error) {
		cells, err = f.Family.Get(ctx, row, s)
		return err
	})
	return cells, err
}

func (f *leaseFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return drivertest.GetEach(ctx, f, rows, s)
}

func (f *leaseFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return scanInSteps(f.Family, r, func(start []byte, read func() error) error {
		return f.call(sim.Read, "scan", start, func(bool) error { return read() })
	}, func(*driver.Row) {})
}

func (f *leaseFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for _, m := range scrambled(f.db.w.seed, mutations) {
		row, sent := f.name+string(m.Row), f.db.w.written[f.name+string(m.Row)]
		err := f.call(sim.Write, "apply", m.Row, func(late bool) error {
			if late && f.db.w.written[row] != sent {
				return nil // its timestamp is the older one
			}
			f.db.w.written[row]++
			return f.Family.Apply(context.Background(), m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *leaseFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	return replaceEach(replacements, func(r driver.Replacement, tooLate func()) error {
		return f.call(sim.Write, "replace", r.Row, func(bool) error {
			f.db.w.written[f.name+string(r.Row)]++
			return replaceOne(f.Family, r, tooLate)
		})
	})
}

func (f *leaseFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (done bool, err error) {
	err = f.call(sim.Write, "check", row, func(bool) (err error) {
		done, err = f.Family.CheckAndPut(context.Background(), row, expect, puts...)
		return err
	})
	if errors.Is(err, sim.ErrUnknown) {
		err = driver.ErrUnknownOutcome
	}
	return done, err
}

// A leaseClient is a process of a role, and what takes its place when it dies.
type leaseClient struct {
	w      *leaseWorld
	writes bool
	c      *sim.Client
	st     *Store
	tbl    *Table
}

// connect opens the table for a new client.
func (c *leaseClient) connect() error {
	w := c.w
	c.c = w.Client()
	clock := &leaseClock{began: time.Now(), rate: time.Duration(970 + w.r.IntN(61)), ahead: time.Duration(w.r.IntN(1e9)) * time.Hour / 1e9}
	db := &leaseDB{DB: noSnapshots{w.db, true}, w: w, c: c.c, clock: clock, writes: c.writes}
	var err error
	c.c.Free(func() {
		if c.st, err = Open(context.Background(), db, kms.NewLocal(w.key), nil); err == nil {
			c.st.useLeases(clock.now)
			c.st.db.Parts = 1 // calls that do the same at the same time have no order
			c.tbl, err = c.st.Table(context.Background(), "t")
		}
	})
	return err
}

// client lets clients of a role make calls until they have made some.
func (w *leaseWorld) client(writes bool, ops int, op func(*leaseClient) error) {
	c := &leaseClient{w: w, writes: writes}
	w.Go(func() {
		for range ops {
			if c.c == nil || c.c.Dead() {
				if err := c.connect(); err != nil {
					if !c.c.Dead() {
						w.Fail("connect: %v", err)
					}
					return
				}
			}
			if c.c.Call(sim.Call{Kind: sim.Begin, What: "begin"}) != nil {
				continue
			}
			err := op(c)
			if err != nil && !c.c.Dead() && !isAny(err, sim.ErrDead, sim.ErrFailed, sim.ErrUnknown, driver.ErrUnknownOutcome, ErrSchemaChanged) {
				w.Fail("%v", err)
				return
			}
		}
		if c.st != nil && !c.c.Dead() {
			_ = c.st.Close(context.Background())
		}
	})
}

func isAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

func (c *leaseClient) write(id int) error {
	w, row := c.w, &c.w.rows[id]
	level, least := int8(w.r.IntN(5)), w.made
	row.busy = true
	row.writes++
	before := c.st.db.Catalogue.Leased(c.tbl.now().Version)
	var err error
	if values := (Row{"id": int64(id), "level": level}); c.tbl.now().Meta.Conditional && row.there && w.r.IntN(2) == 0 {
		err = c.tbl.Update(context.Background(), values)
	} else {
		err = c.tbl.Put(context.Background(), values)
	}
	row.busy = false
	if err != nil {
		row.unsure = true
		return err
	}
	row.level, row.there, row.unsure = level, true, false
	if before {
		w.Count("writes that began with a lease")
	}
	w.look(id, least)
	return nil
}

// change makes a column another one.
func (c *leaseClient) change() error {
	columns := []Column{OrderedColumn("level", Int8, MOPE), DeterministicColumn("level", Int8), RandomisedColumn("level", Int8)}
	if c.w.forms {
		columns = []Column{columns[0], OrderedColumn("level", Int8, Wozniak), OrderedColumn("level", Int8, WozniakIndexed)}
	}
	var err error
	if c.w.forms && c.w.r.IntN(2) == 0 {
		err = c.st.RotateSearchKeys(context.Background(), "t", "level")
	} else {
		err = c.st.Alter(context.Background(), "t", ChangeColumn(columns[c.w.r.IntN(len(columns))]))
	}
	if err != nil {
		return err
	}
	c.w.Count("changes")
	c.w.made = max(c.w.made, c.tbl.now().Meta.Columns[0].Since)
	return nil
}

func (c *leaseClient) convert() error {
	if _, err := c.tbl.Convert(context.Background(), nil); err != nil {
		return err
	}
	c.w.Count("conversions")
	for id := range c.w.rows {
		c.w.look(id, 0)
	}
	return nil
}

func (c *leaseClient) setLease() error {
	leases := []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, 0}
	err := c.st.SetLease(context.Background(), leases[c.w.r.IntN(len(leases))])
	if errors.Is(err, ErrLease) { // a read took long
		return nil
	}
	return err
}

// query asks by the column, as a client that may know an old schema.
func (c *leaseClient) query() error {
	w, level := c.w, int8(c.w.r.IntN(5))
	before, most := w.rows, level
	q := Query{Where: Int8.Field("level").Equal(level)}
	if w.forms {
		most += int8(w.r.IntN(4))
		q.Where = Int8.Field("level").Between(level, most)
		if w.r.IntN(2) == 0 {
			q.OrderBy = "level"
		}
		if len(forms.Of(c.tbl.now().ByName["level"])) > 1 {
			w.Count("queries by several forms")
		}
	}
	found := make(map[int64]int)
	for row, err := range c.tbl.Query(context.Background(), q) {
		if err != nil {
			return err
		}
		found[row["id"].(int64)]++
	}
	for id, row := range before {
		if row == w.rows[id] && row.there && !row.busy && !row.unsure && (level <= row.level && row.level <= most) != (found[int64(id)] == 1) {
			w.Fail("a query for %d to %d found row %d %d times, which has %d", level, most, id, found[int64(id)], row.level)
		}
	}
	return nil
}

// look reads a row as a new client.
func (w *leaseWorld) look(id int, least uint32) {
	row := w.rows[id]
	if row.busy || row.unsure || !row.there {
		return
	}
	ctx := context.Background()
	version, err := w.observer.db.Catalogue.Version(ctx, nil)
	if err == nil && (w.seen == nil || version != w.seen.now().Version) {
		var st *Store
		if st, err = Open(ctx, noSnapshots{w.db, true}, kms.NewLocal(w.key), nil); err == nil {
			w.seen, err = st.Table(ctx, "t")
		}
	}
	if err != nil {
		w.Fail("a new client: %v", err)
		return
	}
	got, err := w.seen.Get(ctx, Row{"id": int64(id)})
	if err != nil || got == nil || got["level"] != row.level {
		w.Fail("row %d is %v, acknowledged was %d: %v", id, got, row.level, err)
		return
	}
	found := 0
	for r, err := range w.seen.Query(ctx, Query{Where: Field[int8]("level").Equal(row.level)}) {
		if err != nil {
			w.Fail("query: %v", err)
			return
		}
		if r["id"] == int64(id) {
			found++
		}
	}
	if forms.Settled(w.seen.now().ByName["level"]) {
		w.driven++
	}
	if found != 1 {
		w.Fail("row %d, which was acknowledged, is found %d times", id, found)
	}
	key, err := bykey.ExactKey(ctx, w.seen.now(), Row{"id": int64(id)})
	if err != nil {
		w.Fail("key: %v", err)
		return
	}
	r, err := w.seen.now().Read(ctx, key, nil)
	if err != nil || r == nil || r.Version < least {
		w.Fail("row %d is stored as of before version %d, which a change had returned when its writing began: %v", id, least, err)
	}
}

func simulateLeases(t *testing.T, v leaseVariant, seed uint64, crash float64) *leaseWorld {
	t.Helper()
	sim.Seed(t, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := &leaseWorld{leaseVariant: v, seed: seed, db: drivertest.NewMemory(), r: r, key: ope.GenerateKey(), written: make(map[string]int)}
	w.Choose = &sim.Random{R: r, Crash: crash, Unknown: crash, Freeze: 0.01, Frozen: 200, Burst: 0.3}
	w.Faults = crash > 0
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var err error
		w.observer, err = Open(ctx, noSnapshots{w.db, true}, kms.NewLocal(w.key), nil)
		require.NoError(t, err)
		_, err = w.observer.Create(ctx, Schema{
			Name: "t", Conditional: seed%3 == 0, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("level", Int8, MOPE)},
		})
		require.NoError(t, err)
		if !v.off {
			require.NoError(t, w.observer.SetLease(ctx, 400*time.Millisecond))
		}
		for id := range w.rows {
			w.client(true, 14, func(c *leaseClient) error { return c.write(id) })
		}
		w.client(false, 4, (*leaseClient).change)
		w.client(false, 3, (*leaseClient).change)
		w.client(false, 4, (*leaseClient).convert)
		w.client(false, 3, (*leaseClient).convert)
		w.client(false, 6, (*leaseClient).query)
		if !v.off && seed%2 == 0 {
			w.client(false, 3, (*leaseClient).setLease)
		}
		w.Run(20_000)
		w.End()
		time.Sleep(time.Minute) // for what clients still wait for
		for id := range w.rows {
			w.look(id, 0)
		}
	})
	return w
}

// useLeases lets the client use leases, by a clock of a test.
func (st *Store) useLeases(clock func() time.Duration) {
	st.db.Catalogue.Clock, st.db.NoLease = clock, false
}

func TestLeasesSimulated(t *testing.T) {
	counts, driven := make(sim.Counts), 0
	for i := range *simRuns {
		seed := *simSeed + uint64(i)
		w := simulateLeases(t, leaseVariant{}, seed, 0.01)
		require.Empty(t, w.Bad(), "-store.simseed=%d\n%s", seed, w.Story())
		counts.Add(w.Counts())
		driven += w.driven
	}
	t.Logf("%d runs, %d rows found by the column, %v", *simRuns, driven, counts)
	require.Greater(t, driven, *simRuns)
	require.Greater(t, counts["writes that began with a lease"], *simRuns)
	require.Empty(t, counts.Missing("changes", "conversions", "dies after", "dies, late", "unknown, done", "unknown, late"))
}

// Under a lease, queries by a column that has several forms find each row once.
func TestLeasesOfSeveralFormsSimulated(t *testing.T) {
	counts, runs := make(sim.Counts), max(10, *simRuns/2)
	for i := range runs {
		seed := *simSeed + uint64(i)
		w := simulateLeases(t, leaseVariant{forms: true}, seed, 0.01)
		require.Empty(t, w.Bad(), "-store.simseed=%d\n%s", seed, w.Story())
		counts.Add(w.Counts())
	}
	t.Logf("%d runs, %v", runs, counts)
	require.Empty(t, counts.Missing("queries by several forms", "changes", "conversions", "writes that began with a lease"))
}

// What the simulation finds where the clock of a machine stops between the writing of a row and its answer: that is the limit
// which docs/operations.md names. It takes up to some hundreds of runs.
func TestLeasesDoNotStandClocksThatStop(t *testing.T) {
	for i := range max(10, *simRuns/4) {
		w := simulateLeases(t, leaseVariant{stops: true, off: true}, *simSeed+uint64(i), 0.01)
		require.Empty(t, w.Bad(), "the same clocks do no harm without a lease: -store.simseed=%d\n%s", *simSeed+uint64(i), w.Story())
	}
	const most = 2000
	for i := range most {
		if w := simulateLeases(t, leaseVariant{stops: true}, *simSeed+uint64(i), 0.01); len(w.Bad()) > 0 {
			t.Logf("run %d: %s", i+1, w.Bad())
			return
		}
	}
	t.Errorf("none of %d runs is bad, so that the simulation finds nothing", most)
}
