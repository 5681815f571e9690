package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A formWorld is the simulation of schema changes where two columns are always searched, whatever their encryption, so that
// queries are driven by them while rows have several forms. There are rows that nobody writes, and rows that are deleted as a
// query finds them. Some worlds have a table with tenants, and some a conditional one.
type formWorld struct {
	*schemaWorld
	forms       []func() Column
	ranges      bool // the level has an order in all forms
	strict      bool // the columns drive at any moment, so that no page loses its place
	conditional bool
	resting     []Row
	counts      sim.Counts
}

// formsOf returns the encryptions between which a world changes. Ranges are asked for only where all have an order.
func formsOf(seed uint64) (forms []func() Column, ranges, strict bool) {
	ordered := func(schemes ...ColumnScheme) {
		for _, s := range schemes {
			forms = append(forms, func() Column { return OrderedColumn("level", Int8, s) })
		}
	}
	switch ordered(MOPE); seed % 4 {
	case 0:
		ordered(Boldyreva, Wozniak)
		return forms, true, true
	case 1:
		ordered(WozniakIndexed, Kerschbaum)
		return forms, true, true
	case 2:
		ordered(WozniakIndexed, KerschbaumRanked) // which drives nothing where it follows on itself
		return forms, true, false
	}
	ordered(Kerschbaum)
	return append(forms, func() Column { return DeterministicColumn("level", Int8) }), false, false
}

// formRow is a row of the table. Rows of a note have one kind.
func formRow(id int64, level int8, note int64) Row {
	return Row{"id": id, "level": level, "note": note, "kind": kindOfNote(note)}
}

func kindOfNote(note int64) int8 { return int8(max(note, -note) % 4) }

// count counts what has happened.
func (s *formWorld) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// writes is a client that replaces a row of its own.
func (s *formWorld) writes(id int, r *rand.Rand) {
	tbl := s.tableOf(true)
	for n := 0; n < 6; {
		w := rowWrite{level: int8(r.IntN(5)), note: r.Int64N(1e9), began: s.now()}
		s.mu.Lock()
		s.rows[id] = append(s.rows[id], w)
		last := len(s.rows[id]) - 1
		s.mu.Unlock()
		write := tbl.Put
		if s.conditional && n > 0 && r.IntN(2) == 0 {
			write = tbl.Update
		}
		err := write(context.Background(), formRow(int64(id), w.level, w.note))
		if err == nil {
			n++
			s.mu.Lock()
			s.rows[id][last].acked, s.changed = s.step, true
			s.mu.Unlock()
		}
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case errors.Is(err, driver.ErrUnknownOutcome):
			s.count("writes of unknown outcome")
		case err != nil:
			s.fail("write: %v", err)
			return
		}
	}
}

// alters is a client that changes the encryption of a column, or rotates a key.
func (s *formWorld) alters(r *rand.Rand) {
	_, st := s.client()
	ctx := context.Background()
	for range 5 {
		var err error
		switch kind := r.IntN(len(s.forms) + 2); {
		case kind < len(s.forms):
			err = st.Alter(ctx, "t", ChangeColumn(s.forms[kind]()))
		case s.tenant: // whose keys its search keys are derived from
			err = st.RotateTenantKey(ctx, "tenant")
		case kind == len(s.forms):
			err = st.RotateSearchKeys(ctx, "t", "level")
		default:
			err = st.RotateSearchKeys(ctx, "t", "kind", "level")
		}
		if errors.Is(err, errDead) {
			_, st = s.client()
		} else if err != nil {
			s.fail("alter: %v", err)
			return
		}
	}
}

// A formQuery is a query by the columns, in any order.
type formQuery struct {
	Query
	paged   bool
	selects func(level, kind int8) bool
	text    string
}

// draw returns a query.
func (s *formWorld) draw(r *rand.Rand) (q formQuery) {
	lo, k := int8(r.IntN(5)), int8(r.IntN(4))
	hi := lo + int8(r.IntN(40))
	byLevel, byKind := Int8.Field("level").Between(lo, hi), Int8.Field("kind").Equal(k)
	within := func(level int8) bool { return lo <= level && level <= hi }
	if !s.ranges {
		hi = lo + int8(r.IntN(2))
		byLevel = Int8.Field("level").In(lo, hi)
	}
	switch r.IntN(8) {
	case 0, 1:
		q.text = "level or kind"
		q.Where, q.selects = Or(byLevel, byKind), func(level, kind int8) bool { return within(level) || kind == k }
	case 2:
		q.text = "level and kind"
		q.Where, q.selects = And(byLevel, byKind), func(level, kind int8) bool { return within(level) && kind == k }
	case 3:
		q.text = "kind"
		q.Where, q.selects = byKind, func(_, kind int8) bool { return kind == k }
	default:
		q.text = "level"
		q.Where, q.selects = byLevel, func(level, _ int8) bool { return within(level) }
	}
	switch r.IntN(4) {
	case 0:
		q.OrderBy = "level"
	case 1:
		q.OrderBy, q.Reverse = "level", true
	case 2:
		q.Reverse = s.strict
	}
	q.paged = (q.OrderBy != "" || s.strict) && r.IntN(2) == 0
	q.text = fmt.Sprintf("%s, level %d to %d, kind %d, order %q, reverse %t, pages %t", q.text, lo, hi, k, q.OrderBy, q.Reverse, q.paged)
	return q
}

// answer returns what a client finds.
func (s *formWorld) answer(tbl *Table, q formQuery, r *rand.Rand) (rows []Row, err error) {
	ctx := context.Background()
	if !q.paged {
		for row, err := range tbl.Query(ctx, q.Query) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		return rows, nil
	}
	for more := true; more; more = q.PageToken != "" {
		var page []Row
		q.Limit = 1 + r.IntN(6)
		if page, q.PageToken, err = tbl.Page(ctx, q.Query); err != nil {
			return nil, err
		}
		rows = append(rows, page...)
	}
	return rows, nil
}

// asks is a client that queries by the columns.
func (s *formWorld) asks(r *rand.Rand) {
	tbl := s.tableOf(true)
	for range 10 {
		from := s.now()
		q := s.draw(r)
		s.mu.Lock()
		before := s.rows
		s.mu.Unlock()
		if t := tbl.now(); len(forms.Of(t.ByName["level"])) > 1 || len(forms.Of(t.ByName["kind"])) > 1 {
			s.count("queries by several forms")
		}
		rows, err := s.answer(tbl, q, r)
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
			continue
		case errors.Is(err, ErrSchemaChanged): // while rows were returned
			s.count("queries overtaken")
			continue
		case !s.strict && (errors.Is(err, ErrToken) || errors.Is(err, driver.ErrRange)):
			s.count("pages without a place")
			continue
		case err != nil:
			s.fail("query: %v", err)
			return
		}
		s.count("queries")
		s.judgeAnswer(before, from, q, rows)
	}
}

// judgeAnswer fails unless an answer has each row that nobody has written meanwhile once, and all rows in order.
func (s *formWorld) judgeAnswer(before [3][]rowWrite, from int, q formQuery, rows []Row) {
	selects, found := q.selects, make(map[int64]int)
	for _, row := range rows {
		found[row["id"].(int64)]++
		if !selects(row["level"].(int8), row["kind"].(int8)) || row["kind"] != kindOfNote(row["note"].(int64)) {
			s.fail("row %d is found as what was not asked for: %s", row["id"], q.text)
		}
	}
	if q.OrderBy != "" && !slices.IsSortedFunc(rows, func(a, b Row) int {
		order := cmp.Compare(a["level"].(int8), b["level"].(int8))
		if q.Reverse {
			return -order
		}
		return order
	}) {
		s.fail("rows are not in order: %s", q.text)
	}
	for _, row := range s.resting {
		id := row["id"].(int64)
		if (found[id] == 1) != selects(row["level"].(int8), row["kind"].(int8)) || found[id] > 1 {
			s.fail("row %d, which nobody writes, is found %d times since step %d: %s", id, found[id], from, q.text)
		}
	}
	for id := range before {
		s.mu.Lock()
		last, rests := atRest(before[id], from)
		rests = rests && len(s.rows[id]) == len(before[id])
		s.mu.Unlock()
		if n := found[int64(id)]; rests && (n == 1) != selects(last.level, kindOfNote(last.note)) || n > 1 && (rests || !q.paged) {
			s.fail("row %d is found %d times since step %d: %s", id, n, from, q.text)
		}
	}
}

// purges is a client that puts rows of its own, and deletes those that a query by the columns finds.
func (s *formWorld) purges(r *rand.Rand) {
	const first, n = 50, 6
	ctx, tbl := context.Background(), s.tableOf(true)
	again := func(err error) bool {
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case err != nil && !errors.Is(err, driver.ErrUnknownOutcome) && !errors.Is(err, ErrSchemaChanged):
			s.fail("purge: %v", err)
			return false
		}
		return err != nil
	}
	for range 3 {
		var rows []Row
		for id := range int64(n) {
			rows = append(rows, formRow(first+id, int8(r.IntN(37)), -1-r.Int64N(100)))
		}
		for again(tbl.Put(ctx, rows...)) {
		}
		q := s.draw(r)
		q.paged = false
		q.Where = And(q.Where, Int64.Field("note").Less(0))
		purge := func() error {
			got, err := s.answer(tbl, q, r)
			if err != nil || len(got) == 0 {
				return err
			}
			return tbl.Delete(ctx, got...)
		}
		for again(purge()) {
		}
		for _, row := range rows {
			var got Row
			for again(func() (err error) { got, err = tbl.Get(ctx, Row{"id": row["id"]}); return err }()) {
			}
			if (got == nil) != q.selects(row["level"].(int8), row["kind"].(int8)) {
				s.fail("row %d should be deleted if it was selected, and only then: it is there: %t: %s", row["id"], got != nil, q.text)
			}
		}
		s.count("purges")
	}
}

func simulateForms(t *testing.T, seed uint64, crashes float64) *formWorld {
	t.Helper()
	s := &formWorld{schemaWorld: newSchemaWorld(t, schemaVariant{}, seed), counts: make(sim.Counts)}
	s.forms, s.ranges, s.strict = formsOf(seed)
	v := rand.New(rand.NewPCG(seed, 3))
	s.tenant, s.conditional = v.IntN(4) == 0, v.IntN(3) == 0
	if s.conditional {
		s.clock = nil
	}
	some := 4
	if v.IntN(2) == 0 {
		some = 40
	}
	s.first = 11
	changes := 0
	s.watch = func() { // queries do most of the looking
		if changes++; changes%4 == 0 {
			s.look()
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var err error
		s.observer, err = Open(ctx, noSnapshots{s.db, true}, kms.NewLocal(s.key), nil)
		require.NoError(t, err)
		_, err = s.observer.Create(ctx, Schema{
			Name: "t", CellPerColumn: v.IntN(2) == 0, Tenants: s.tenant, Conditional: s.conditional, Key: []KeyPart{HashedPart("id", Int64)},
			Columns: []Column{s.forms[0](), RandomisedColumn("note", Int64), DeterministicColumn("kind", Int8)},
		})
		require.NoError(t, err)
		if s.tenant {
			require.NoError(t, s.observer.CreateTenant(ctx, "tenant"))
		}
		for i := range int64(some) {
			s.resting = append(s.resting, formRow(100+i, int8(i%37), i))
		}
		var group sync.WaitGroup
		s.start(&group, func() {
			if err := s.tableOf(true).Put(ctx, s.resting...); err != nil {
				s.fail("put: %v", err)
			}
		})
		s.steps(0)
		for id := range s.rows {
			s.start(&group, func() { s.writes(id, rand.New(rand.NewPCG(seed, uint64(id)+10))) })
		}
		s.start(&group, func() { s.purges(rand.New(rand.NewPCG(seed, 40))) })
		for i := range uint64(2) {
			s.start(&group, func() { s.alters(rand.New(rand.NewPCG(seed, i+20))) })
			s.start(&group, s.converts)
			s.start(&group, func() { s.asks(rand.New(rand.NewPCG(seed, i+30))) })
		}
		s.steps(crashes)
		group.Wait()
		s.look()
	})
	return s
}

func TestQueriesWhileFormsChange(t *testing.T) {
	driven, crashes, counts := 0, 0, make(sim.Counts)
	runs := max(12, *simRuns/4)
	if testing.Short() {
		runs = min(runs, 24)
	}
	for i := range runs {
		seed := *simSeed + uint64(i)
		s := simulateForms(t, seed, 0.003)
		require.Empty(t, s.bad, "-store.simseed=%d", seed)
		driven, crashes = driven+s.driven, crashes+s.crashes()
		counts.Add(s.counts)
	}
	require.Positive(t, driven)
	require.Empty(t, counts.Missing("queries", "queries by several forms", "purges"))
	t.Logf("%d runs, %d clients died, %d rows were at rest and found by the column, %v", runs, crashes, driven, counts)
}
