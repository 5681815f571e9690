package store_test

import (
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var formRuns = flag.Int("store.forms", 0, "runs of TestFormsUnderClientsThatDie on each database; 0 is a few")

// A formModel is three clients of a real database that run as they like: one writes rows, one changes a column and converts the
// table, and one asks. Each dies at some call of the database, and another one takes its place.
type formModel struct {
	t       *testing.T
	db      driver.DB
	changes int
	resting map[int64]int8 // rows that nobody writes
	deaths  atomic.Int64
	asked   atomic.Int64 // queries by several forms
}

// A mortal is a client of one role, and what takes its place.
type mortal struct {
	of  *formModel
	r   *rand.Rand
	st  *store.Store
	tbl *store.Table
}

// do calls an operation until it ends with a living client, and returns its error.
func (c *mortal) do(op func() error) error {
	for {
		var err error
		if c.st == nil {
			db := drivertest.NewFaulty(c.of.db, drivertest.CrashAt(30+c.r.IntN(400), c.r.IntN(2) == 0))
			if c.st, err = store.Open(background, db, kms.NewLocal(testKey), nil); err == nil {
				c.tbl, err = c.st.Table(background, "t")
			}
		}
		if err == nil {
			err = op()
		}
		if !errors.Is(err, drivertest.ErrInjected) {
			return err
		}
		c.of.deaths.Add(1)
		c.st = nil
	}
}

// writes replaces rows, each of which must be found once and as it was written last.
func (c *mortal) writes(last map[int64]int8) error {
	for range 14 {
		id, level := int64(c.r.IntN(4)), int8(c.r.IntN(40))
		if err := c.do(func() error { return c.tbl.Put(background, store.Row{"id": id, "level": level}) }); err != nil {
			return err
		}
		last[id] = level
		found := 0
		err := c.do(func() error {
			found = 0
			for row, err := range c.tbl.Query(background, store.Query{Where: store.Int8.Field("level").Between(level-1, level+1)}) {
				if err != nil {
					return err
				}
				if row["id"] == id {
					found++
				}
			}
			return nil
		})
		if errors.Is(err, store.ErrSchemaChanged) {
			continue
		}
		if err != nil {
			return err
		}
		if found != 1 {
			return errors.New("a row that was written is not found once by its writer")
		}
	}
	return nil
}

// changes gives the column other schemes and search keys, and converts rows.
func (c *mortal) changes(schemes []store.ColumnScheme) error {
	for i := range 2 * c.of.changes {
		err := c.do(func() (err error) {
			switch {
			case i%2 == 1:
				_, err = c.tbl.Convert(background, nil)
			case c.r.IntN(2) == 0:
				err = c.st.RotateSearchKeys(background, "t", "level")
			default:
				err = c.st.Alter(background, "t", store.ChangeColumn(store.OrderedColumn("level", store.Int8, pick(c.r, schemes))))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// asks asks for rows that nobody writes, in an order or in none, and in pages.
func (c *mortal) asks() error {
	from, paged := int8(c.r.IntN(20)), c.r.IntN(3) == 0
	to := from + int8(c.r.IntN(40))
	q := store.Query{Where: store.Int8.Field("level").Between(from, to), Reverse: c.r.IntN(2) == 0}
	if c.r.IntN(2) == 0 {
		q.OrderBy = "level"
	}
	var rows []store.Row
	err := c.do(func() (err error) {
		rows, q.PageToken = nil, ""
		if !paged {
			q.Limit = 0
			rows, err = all(c.tbl, q)
			return err
		}
		for more := true; more && err == nil; more = q.PageToken != "" {
			var page []store.Row
			q.Limit = 1 + c.r.IntN(20)
			page, q.PageToken, err = c.tbl.Page(background, q)
			rows = append(rows, page...)
		}
		return err
	})
	if errors.Is(err, store.ErrSchemaChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	found := make(map[int64]int)
	for _, row := range rows {
		found[row["id"].(int64)]++
	}
	for id, level := range c.of.resting {
		if n := found[id]; n > 1 || (n == 1) != (from <= level && level <= to) {
			return errors.New("a row that nobody writes is missed, or found twice")
		}
	}
	if (q.OrderBy != "" || q.Reverse || paged) && !slices.IsSortedFunc(rows, func(a, b store.Row) int {
		order := cmp.Compare(a["level"].(int8), b["level"].(int8))
		if q.Reverse {
			return -order
		}
		return order
	}) {
		return errors.New("rows are not in order")
	}
	return c.do(func() error {
		e, err := c.tbl.Explain(background, store.Query{Where: store.Int8.Field("level").Equal(3)})
		if len(e.Changing) > 0 {
			c.of.asked.Add(1)
		}
		return err
	})
}

func (m *formModel) run(seed uint64) {
	t := m.t
	schemes := []store.ColumnScheme{store.MOPE, store.Wozniak, store.Boldyreva}
	if seed%2 == 0 {
		schemes = []store.ColumnScheme{store.MOPE, store.WozniakIndexed, store.Kerschbaum}
	}
	st := open(t, m.db)
	tbl := create(t, st, store.Schema{
		Name: "t", Conditional: seed%3 == 0, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("level", store.Int8, schemes[0])},
	})
	m.resting = make(map[int64]int8)
	var rows []store.Row
	for id := int64(100); id < 160; id++ {
		m.resting[id] = int8(id * 7 % 40)
		rows = append(rows, store.Row{"id": id, "level": m.resting[id]})
	}
	require.NoError(t, tbl.Put(background, rows...))
	client := func(role uint64) *mortal { return &mortal{of: m, r: rand.New(rand.NewPCG(seed, role))} }
	last := make(map[int64]int8)
	var failed [3]error
	var work, ask sync.WaitGroup
	var over atomic.Bool
	work.Go(func() { failed[0] = client(0).writes(last) })
	work.Go(func() { failed[1] = client(1).changes(schemes) })
	ask.Go(func() {
		for c := client(2); failed[2] == nil && !over.Load(); {
			failed[2] = c.asks()
		}
	})
	work.Wait()
	over.Store(true)
	ask.Wait()
	require.NoError(t, errors.Join(failed[:]...), "run %d", seed)

	tbl, err := open(t, m.db).Table(background, "t")
	require.NoError(t, err)
	_, err = tbl.Convert(background, nil)
	require.NoError(t, err)
	_, err = tbl.Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
	require.NoError(t, err)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), "run %d: %v", seed, report.Faults)
	got := make(map[int64]int8)
	for _, row := range collect(t, tbl, store.Query{Where: store.Int8.Field("level").AtLeast(-1), OrderBy: "level"}) {
		got[row["id"].(int64)] = row["level"].(int8)
	}
	for id, level := range last {
		require.Equal(t, level, got[id], "run %d", seed)
	}
	require.Len(t, got, len(last)+len(m.resting))
	require.NoError(t, st.Drop(background, "t"))
}

// On each database, queries find every row once, and in order, whoever changes the column meanwhile, and dies.
func TestFormsUnderClientsThatDie(t *testing.T) {
	seed := seeded(t).Uint64()
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		runs := cmp.Or(*formRuns, map[bool]int{false: sim.Share(6, 2), true: 1}[kind.Server])
		m := &formModel{t: t, db: kind.Open(t, nil), changes: changesOf(kind, 4)}
		for i := range runs {
			m.run(seed + uint64(i))
		}
		require.Positive(t, m.deaths.Load())
		t.Logf("%d runs, %d clients died, %d queries by several forms", runs, m.deaths.Load(), m.asked.Load())
	})
}
