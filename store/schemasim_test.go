package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// The simulation of schema changes: clients put rows, each its own, others change the schema and
// convert the table. Every request is a step, of the catalogue too; clients die, and sleep for long
// with what they knew. Each acknowledged row must be read as it was written, and found through
// the column that queries are driven by.
type schemaWorld struct {
	*world
	schemaVariant
	asleep map[*simDB]int // until which step
	acked  map[int64]Row  // what the rows hold, by id
	checks int
	driven int // rows that had to be found through their column
	alters int
	sweeps int
}

type schemaVariant struct {
	early bool // the version is read before the last write, and not behind it
}

// schemaDB makes steps of what a client asks of the catalogue, and of replacements.
type schemaDB struct {
	*simDB
	s    *schemaWorld
	mu   sync.Mutex
	root []driver.Cell // what a client is shown that does not read the version when it should
}

func (db *schemaDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.simDB.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &schemaFamily{&simFamily{Family: f, db: db.simDB, name: spec.Name}, db}, nil
}

type schemaFamily struct {
	*simFamily
	of *schemaDB
}

func (f *schemaFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if f.name == catalogueFamily && len(s.Only) == 1 && string(s.Only[0]) == string(rootQualifier) {
		f.of.mu.Lock()
		root := f.of.root
		f.of.mu.Unlock()
		if root != nil && f.of.s.early {
			return root, nil
		}
	}
	return f.simFamily.Get(ctx, row, s)
}

func (f *schemaFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if f.name[0] == 't' && f.of.s.early {
		root, err := rootOf(ctx, f.db.DB)
		if err != nil {
			return err
		}
		f.of.mu.Lock()
		f.of.root = root
		f.of.mu.Unlock()
	}
	return f.simFamily.Apply(ctx, mutations...)
}

func (f *schemaFamily) Replace(ctx context.Context, replacements ...driver.Replacement) error {
	for _, r := range replacements {
		err := f.db.w.call(f.db, fmt.Sprintf("apply %s %x replace", f.name[:1], r.Row), nil, func() error {
			return f.Family.Replace(context.Background(), r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *schemaWorld) client() (*simDB, *Store, *Table) {
	for {
		s.mu.Lock()
		s.clients++
		db := &schemaDB{simDB: &simDB{DB: noSnapshots{s.db, false}, w: s.world, id: s.clients}, s: s}
		s.mu.Unlock()
		st, err := Open(context.Background(), db, s.key, nil)
		if err == nil {
			var tbl *Table
			if tbl, err = st.Table(context.Background(), "t"); err == nil {
				return db.simDB, st, tbl
			}
		}
		if !errors.Is(err, errDead) {
			panic(err)
		}
	}
}

// check reads, as a new client, a row that nobody writes.
func (s *schemaWorld) check(id int64, want Row) {
	st, err := Open(context.Background(), noSnapshots{s.db, false}, s.key, nil)
	if err != nil {
		panic(err)
	}
	tbl, err := st.Table(context.Background(), "t")
	if err != nil {
		panic(err)
	}
	got, err := tbl.Get(context.Background(), Row{"id": id})
	if err != nil {
		s.fail("get: %v", err)
		return
	}
	s.checks++
	for i, name := range []string{"level", "note"} {
		if name = tbl.Schema().Columns[i].Name(); got[name] != want[[]string{"level", "note"}[i]] {
			s.fail("an acknowledged value is lost")
		}
	}
	q := Query{Where: Field[int8]("level").Equal(want["level"].(int8))}
	found := 0
	for row, err := range tbl.Query(context.Background(), q) {
		if err != nil {
			s.fail("query: %v", err)
		} else if row["id"] == id {
			found++
		}
	}
	if e, err := tbl.Explain(context.Background(), q); err == nil && e.Driver == "level" {
		s.driven++
	}
	if found != 1 {
		s.fail("an acknowledged row is not found")
	}
}

func (s *schemaWorld) puts(id int64, r *rand.Rand) {
	_, _, tbl := s.client()
	for n := 0; n < 6; {
		name := tbl.Schema().Columns[1].Name()
		row := Row{"id": id, "level": int8(r.IntN(5)), name: int64(r.IntN(1000))}
		err := tbl.Put(context.Background(), row)
		switch {
		case errors.Is(err, errDead):
			_, _, tbl = s.client()
			continue
		case errors.Is(err, ErrColumn): // the name is another by now
			continue
		case err != nil:
			s.fail("put: %v", err)
			return
		}
		n++
		s.acked[id] = Row{"level": row["level"], "note": row[name]}
		s.check(id, s.acked[id])
	}
}

func (s *schemaWorld) changes(r *rand.Rand) {
	_, st, _ := s.client()
	ctx := context.Background()
	for s.alters < 8 {
		var err error
		switch r.IntN(5) {
		case 0:
			err = st.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int8, MOPE)))
		case 1:
			err = st.Alter(ctx, "t", ChangeColumn(DeterministicColumn("level", Int8)))
		case 2:
			err = st.Alter(ctx, "t", ChangeColumn(RandomisedColumn("level", Int8)))
		case 3:
			if err = st.Alter(ctx, "t", RenameColumn("note", "memo")); errors.Is(err, ErrExists) {
				err = st.Alter(ctx, "t", RenameColumn("memo", "note"))
			}
		case 4:
			if err = st.Alter(ctx, "t", DropColumn("extra")); errors.Is(err, ErrColumn) {
				err = st.Alter(ctx, "t", AddColumn(OrderedColumn("extra", Int8, Plaintext)))
			}
		}
		if errors.Is(err, errDead) {
			_, st, _ = s.client()
		} else if err != nil {
			s.fail("alter: %v", err)
			return
		}
		s.alters++
	}
}

func (s *schemaWorld) converts() {
	_, _, tbl := s.client()
	for range 3 {
		if _, err := tbl.Convert(context.Background(), nil); errors.Is(err, errDead) {
			_, _, tbl = s.client()
		} else if err != nil {
			s.fail("convert: %v", err)
			return
		} else {
			s.sweeps++
		}
	}
}

// steps lets one step after the other happen.
func (s *schemaWorld) steps(crashes float64) {
	for {
		synctest.Wait()
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
		if s.r.IntN(25) == 0 {
			s.asleep[p.client] = s.step + s.r.IntN(1500)
			s.mu.Unlock()
			continue
		}
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

func simulateSchemas(t *testing.T, v schemaVariant, seed uint64, crashes float64) *schemaWorld {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	s := &schemaWorld{
		world: &world{
			db: drivertest.NewMemory(), r: rand.New(rand.NewPCG(seed, 0)),
			stamps: make(map[string]int64), active: make(map[string]int), touched: make(map[string]int),
		},
		schemaVariant: v, asleep: make(map[*simDB]int), acked: make(map[int64]Row),
	}
	s.key = ope.GenerateKey()
	synctest.Test(t, func(t *testing.T) {
		st, err := Open(context.Background(), noSnapshots{s.db, false}, s.key, nil)
		require.NoError(t, err)
		_, err = st.Create(context.Background(), Schema{
			Name: "t", Layout: Layout(seed % 2), Key: []KeyPart{HashedPart("id", Int64)},
			Columns: []Column{RandomisedColumn("level", Int8), RandomisedColumn("note", Int64)},
		})
		require.NoError(t, err)
		var group sync.WaitGroup
		start := func(do func()) {
			s.running++
			group.Go(func() {
				do()
				s.mu.Lock()
				s.running--
				s.mu.Unlock()
			})
			synctest.Wait()
		}
		for id := range int64(3) {
			start(func() { s.puts(id, rand.New(rand.NewPCG(seed, uint64(id)+10))) })
		}
		start(func() { s.changes(rand.New(rand.NewPCG(seed, 5))) })
		for range 2 {
			start(s.converts)
		}
		s.steps(crashes)
		group.Wait()
		for id, row := range s.acked {
			s.check(id, row)
		}
	})
	return s
}

func TestClientsWithOldSchemas(t *testing.T) {
	var checks, driven, crashes, sweeps int
	for i := range *simRuns {
		seed := *simSeed + uint64(i)
		s := simulateSchemas(t, schemaVariant{}, seed, 0.004)
		require.Empty(t, s.bad, "-store.simseed=%d", seed)
		checks, driven, sweeps, crashes = checks+s.checks, driven+s.driven, sweeps+s.sweeps, crashes+s.clients-6
	}
	t.Logf("%d runs, %d checks, %d of them by the column, %d crashes, %d conversions", *simRuns, checks, driven, crashes, sweeps)
	require.Greater(t, driven, *simRuns)
	require.Greater(t, crashes, *simRuns/2)
}

func TestSchemaSimulationNotices(t *testing.T) {
	for name, v := range map[string]schemaVariant{
		"the version is read before the last write": {early: true},
	} {
		t.Run(name, func(t *testing.T) {
			runs, bad := max(40, *simRuns), 0
			for i := range runs {
				if s := simulateSchemas(t, v, *simSeed+uint64(i), 0); slices.ContainsFunc(s.bad, func(b string) bool { return strings.Contains(b, "acknowledged") }) {
					bad++
				}
			}
			t.Logf("%d of %d runs are bad", bad, runs)
			require.Positive(t, bad)
		})
	}
}
