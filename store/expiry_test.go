package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A handClock is moved by hand.
type handClock struct{ at atomic.Int64 }

func newHandClock() *handClock {
	c := new(handClock)
	c.at.Store(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *handClock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *handClock) advance(d time.Duration) { c.at.Add(int64(d)) }

// off returns the clock as a client has it whose own is fast.
func (c *handClock) off(by time.Duration) func() time.Time {
	return func() time.Time { return c.now().Add(by) }
}

// clocked opens a database whose clients have the clock with some errors.
func clocked(t *testing.T, db driver.DB, clock *handClock, off ...time.Duration) []*Store {
	t.Helper()
	clients := stores(t, db, len(off))
	for i, st := range clients {
		st.db.Clock = rowcodec.Clock{Now: clock.off(off[i])}
	}
	return clients
}

func expirySchema(name string, cells, tenants bool, ttl time.Duration) Schema {
	return Schema{
		Name: name, CellPerColumn: cells, Tenants: tenants, TTL: ttl,
		Key: []KeyPart{HashedPart("device", String), OrderedPart("at", Int64, MOPE)},
		Columns: []Column{
			OrderedColumn("level", Int16, Boldyreva), DeterministicColumn("site", String), RandomisedColumn("note", String),
			PlainColumn("zone", String), OrderedColumn("rank", Int16, Kerschbaum), OrderedColumn("drawn", Int16, WozniakIndexed),
		},
	}
}

// An expiryModel is what a table has, and what a client sees of it by its clock.
type expiryModel struct {
	clock *handClock
	rows  map[[2]any]expiringRow
}

type expiringRow struct {
	row     Row
	expires int64 // 0 is never
}

func keyOfRow(row Row) [2]any { return [2]any{row["device"], row["at"]} }

func (m *expiryModel) put(row Row, now time.Time, ttl time.Duration) {
	r := expiringRow{row: row}
	if ttl > 0 {
		r.expires = now.Add(ttl + time.Second - 1).Unix()
	}
	m.rows[keyOfRow(row)] = r
}

func (m *expiryModel) alive(now time.Time) []Row {
	var rows []Row
	for _, r := range m.rows {
		if r.expires == 0 || now.Unix() < r.expires {
			rows = append(rows, r.row)
		}
	}
	return rows
}

func texted(rows []Row) []string {
	var texts []string
	for _, row := range rows {
		texts = append(texts, fmt.Sprint(row))
	}
	slices.Sort(texts)
	return texts
}

// check compares all ways of reading with the model.
func (m *expiryModel) check(t *testing.T, tbl *Table, now time.Time) {
	t.Helper()
	ctx, alive := t.Context(), m.alive(now)
	selected := func(q Query) (rows []Row) {
		t.Helper()
		for row, err := range tbl.Query(ctx, q) {
			require.NoError(t, err)
			rows = append(rows, row)
		}
		return rows
	}
	matching := func(ok func(Row) bool) []string {
		return texted(slices.DeleteFunc(slices.Clone(alive), func(row Row) bool { return !ok(row) }))
	}
	require.Equal(t, texted(alive), texted(selected(Query{})))
	require.Equal(t, matching(func(r Row) bool { return r["device"] == "d0" }), texted(selected(Query{Where: Field[string]("device").Equal("d0")})))
	for _, name := range []string{"level", "rank", "drawn"} {
		want := matching(func(r Row) bool { v, ok := r[name].(int16); return ok && v >= 3 })
		require.Equal(t, want, texted(selected(Query{Where: Field[int16](name).AtLeast(3)})), name)
	}
	require.Equal(t, matching(func(r Row) bool { return r["site"] == "s1" }), texted(selected(Query{Where: Field[string]("site").Equal("s1")})))
	var paged []Row
	for q := (Query{Where: Field[string]("device").Equal("d1"), Limit: 2}); ; {
		rows, next, err := tbl.Page(ctx, q)
		require.NoError(t, err)
		paged = append(paged, rows...)
		if q.PageToken = next; next == "" {
			break
		}
	}
	require.Equal(t, matching(func(r Row) bool { return r["device"] == "d1" }), texted(paged))
	explained, err := tbl.Analyze(ctx, Query{Where: Field[int16]("level").AtLeast(3)})
	require.NoError(t, err)
	require.Equal(t, len(matching(func(r Row) bool { v, ok := r["level"].(int16); return ok && v >= 3 })), explained.Rows)
	joined := 0
	for _, err := range Join(ctx, tbl, "site", tbl, "site", nil) {
		require.NoError(t, err)
		joined++
	}
	pairs := 0
	for _, a := range alive {
		for _, b := range alive {
			if a["site"] != nil && a["site"] == b["site"] {
				pairs++
			}
		}
	}
	require.Equal(t, pairs, joined)
	for key, r := range m.rows {
		want := Row(nil)
		if r.expires == 0 || now.Unix() < r.expires {
			want = r.row
		}
		got, err := tbl.Get(ctx, Row{"device": key[0], "at": key[1]})
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = tbl.Get(ctx, Row{"device": key[0], "at": key[1]}, "zone") // which takes no key
		require.NoError(t, err)
		require.Equal(t, want != nil, got != nil)
	}
}

// verify makes sure that nothing is wrong, whatever has expired.
func (m *expiryModel) verify(t *testing.T, tbl *Table, now time.Time, repair bool) {
	t.Helper()
	report, err := tbl.Verify(t.Context(), &VerifyOptions{Repair: repair, Grace: time.Nanosecond})
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Equal(t, len(m.alive(now)), report.Rows)
	require.LessOrEqual(t, report.Rows+report.Expired, len(m.rows))
}

// Rows expire as a model of them does, for two clients whose clocks differ by a minute, however the rows are written, written
// again, converted and repaired.
func TestExpiry(t *testing.T) {
	for _, kind := range []struct {
		name           string
		cells, tenants bool
		ttl            time.Duration
	}{{"packed", packed, false, time.Hour}, {"cells", cellPerColumn, false, TTLByRow}, {"tenants", packed, true, 30 * time.Minute}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			ctx, clock := t.Context(), newHandClock()
			db := drivertest.NewMemoryAt(clock.now)
			offs := []time.Duration{0, -time.Minute, time.Minute}
			clients := clocked(t, db, clock, offs...)
			_, err := clients[0].Create(ctx, expirySchema("t", kind.cells, kind.tenants, kind.ttl))
			require.NoError(t, err)
			if kind.tenants {
				for _, name := range []string{"acme", "other"} {
					require.NoError(t, clients[0].CreateTenant(ctx, name))
				}
			}
			var tables []*Table
			for _, st := range clients {
				tbl, err := st.Table(ctx, "t")
				require.NoError(t, err)
				if kind.tenants {
					tbl, err = tbl.Tenant(ctx, "acme")
					require.NoError(t, err)
				}
				tables = append(tables, tbl)
			}
			m := &expiryModel{clock, make(map[[2]any]expiringRow)}
			changed := 0
			for range 120 {
				by := rnd.IntN(len(tables))
				tbl, now := tables[by], clock.off(offs[by])()
				switch n := rnd.IntN(20); {
				case n < 9:
					ttl := max(0, kind.ttl)
					if rnd.IntN(2) == 0 {
						ttl = []time.Duration{0, time.Second, 5 * time.Minute, 3 * time.Hour}[rnd.IntN(4)]
						tbl = tbl.Expiring(ttl)
					}
					rows := make(map[[2]any]Row)
					for range 1 + rnd.IntN(4) {
						row := randomExpiring(rnd)
						rows[keyOfRow(row)] = row
						m.put(row, now, ttl)
					}
					require.NoError(t, tbl.Put(ctx, slices.Collect(maps.Values(rows))...))
				case n < 11:
					row := randomExpiring(rnd)
					require.NoError(t, tbl.Delete(ctx, row))
					delete(m.rows, keyOfRow(row))
				case n < 15:
					clock.advance([]time.Duration{time.Millisecond, time.Second, time.Minute, 20 * time.Minute, 2 * time.Hour}[rnd.IntN(5)])
				case n == 15:
					m.verify(t, tbl, clock.off(offs[by])(), rnd.IntN(2) == 0)
				case n == 16:
					changed++
					column := RandomisedColumn("note", String)
					if changed%2 == 1 {
						column = DeterministicColumn("note", String)
					}
					require.NoError(t, clients[by].Alter(ctx, "t", ChangeColumn(column)))
				case n == 17 && kind.tenants:
					require.NoError(t, clients[by].RotateTenantKey(ctx, "acme"))
				case n == 17:
					require.NoError(t, clients[by].RotateKeys(ctx, "t"))
				case n == 18:
					_, err := tbl.Convert(ctx, nil)
					require.NoError(t, err)
				default:
					require.NoError(t, tbl.RebuildIndex(ctx, []string{"rank", "drawn"}[rnd.IntN(2)], nil))
				}
				look := rnd.IntN(len(tables))
				m.check(t, tables[look], clock.off(offs[look])())
			}
			if kind.tenants {
				other, err := clients[0].Table(ctx, "t")
				require.NoError(t, err)
				other, err = other.Tenant(ctx, "other")
				require.NoError(t, err)
				(&expiryModel{clock, nil}).check(t, other, clock.now())
			}
			// What the database has of expired rows is gone two graces later, by the clocks of those who put and converted them.
			clock.advance(4*time.Hour + 2*rowcodec.DefaultGrace)
			m.check(t, tables[0], clock.now())
			for _, name := range must2(db.Families(ctx))(t) {
				if name[0] != 't' && name[0] != 'x' {
					continue
				}
				n, postings := 0, 0
				for _, r := range m.alive(clock.now()) {
					n++
					for _, c := range tables[0].now().Columns {
						if c.Searched() && c.Name != "note" && r[c.Name] != nil { // which may be to be converted
							postings++
						}
					}
				}
				rows := len(familyRows(t, db, tables[0], name))
				if name[0] == 't' {
					require.Equal(t, n, rows)
				} else {
					require.GreaterOrEqual(t, rows, postings)
				}
			}
		})
	}
}

func must2[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// familyRows returns all rows of the rows or postings of a table.
func familyRows(t *testing.T, db driver.DB, tbl *Table, name string) (rows []driver.Row) {
	t.Helper()
	spec := tbl.now().Spec
	if name[0] == 'x' {
		spec = tbl.now().PostingSpec
	}
	f, err := db.Family(t.Context(), spec)
	require.NoError(t, err)
	for row, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

func randomExpiring(rnd *rand.Rand) Row {
	row := Row{"device": fmt.Sprint("d", rnd.IntN(2)), "at": int64(rnd.IntN(6))}
	for _, name := range []string{"level", "rank", "drawn"} {
		if rnd.IntN(4) > 0 {
			row[name] = int16(rnd.IntN(6))
		}
	}
	for name, text := range map[string]string{"site": "s", "note": "n", "zone": "z"} {
		if rnd.IntN(4) > 0 {
			row[name] = fmt.Sprint(text, rnd.IntN(3))
		}
	}
	return row
}

// The cells of an expired row may vanish in any order: no reader notices.
func TestExpiredCellsVanishInAnyOrder(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	db := drivertest.NewMemoryAt(clock.now)
	st := clocked(t, db, clock, 0)[0]
	tbl, err := st.Create(ctx, expirySchema("t", cellPerColumn, false, time.Hour))
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		row := randomExpiring(rnd)
		require.NoError(t, tbl.Put(ctx, row))
	}
	rows := familyRows(t, db, tbl, "t")
	require.NotEmpty(t, rows)
	clock.advance(time.Hour + time.Second)
	for _, row := range rows {
		rnd.Shuffle(len(row.Cells), func(i, j int) { row.Cells[i], row.Cells[j] = row.Cells[j], row.Cells[i] })
		for _, cell := range row.Cells {
			require.NoError(t, tbl.now().Data.Apply(ctx, driver.Mutation{Row: row.Key, Deletes: [][]byte{cell.Qualifier}}))
			got, err := tbl.now().Read(ctx, row.Key, nil)
			require.NoError(t, err)
			require.Nil(t, got)
			report, err := tbl.Verify(ctx, nil)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			require.Zero(t, report.Rows)
		}
	}
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, stats)
}

// A clock may be wrong by any time: what it has put can be read, and whoever writes it again does not lose it.
func TestClocksThatAreWrongByCenturies(t *testing.T) {
	const year = 365 * 24 * time.Hour
	ctx, clock := t.Context(), newHandClock()
	db := drivertest.NewMemoryAt(clock.now)
	clients := clocked(t, db, clock, 0, 0, -60*year)
	clients[1].db.Clock.Now = func() time.Time { return clock.now().AddDate(400, 0, 0) }
	_, err := clients[0].Create(ctx, expirySchema("t", cellPerColumn, false, time.Hour))
	require.NoError(t, err)
	var tables [3]*Table
	for i, st := range clients {
		tables[i], err = st.Table(ctx, "t")
		require.NoError(t, err)
	}
	tbl, ahead, behind := tables[0], tables[1], tables[2]
	row := Row{"device": "d", "at": int64(1), "level": int16(4), "site": "s", "note": "n", "zone": "z"}
	require.NoError(t, ahead.Put(ctx, row))

	require.NoError(t, clients[0].RotateKeys(ctx, "t"))
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, stats.Converted)
	clock.advance(time.Hour)
	got, err := tbl.Get(ctx, Row{"device": "d", "at": int64(1)})
	require.NoError(t, err)
	require.Equal(t, row["note"], got["note"])
	report, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	require.Zero(t, report.Dangling)

	row["at"] = int64(2)
	err = behind.Put(ctx, row)
	require.ErrorContains(t, err, "the clock of this machine shows a time before 1970: set it")
	require.False(t, Retryable(err))
}

// The cells of a row end in the order that readers need: those of columns, then the key cell and the postings. Whoever writes
// the row again keeps that.
func TestCellsOfRowsEnd(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	db := drivertest.NewMemoryAt(clock.now)
	st := clocked(t, db, clock, 0)[0]
	tbl, err := st.Create(ctx, expirySchema("t", cellPerColumn, false, time.Hour))
	require.NoError(t, err)
	row := Row{"device": "d", "at": int64(1), "level": int16(4), "site": "s", "note": "n", "zone": "z"}
	require.NoError(t, tbl.Put(ctx, row))
	state := func() (cells, postings int) {
		for _, r := range familyRows(t, db, tbl, "t") {
			cells += len(r.Cells)
		}
		return cells, len(familyRows(t, db, tbl, "x"))
	}
	is := func(cells, postings int) {
		t.Helper()
		c, p := state()
		require.Equal(t, [2]int{cells, postings}, [2]int{c, p})
	}
	clock.advance(30 * time.Minute)
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(DeterministicColumn("note", String))))
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, stats.Converted)
	is(5, 3)
	clock.advance(29 * time.Minute)
	got, err := tbl.Get(ctx, row)
	require.NoError(t, err)
	require.Equal(t, row, got)
	clock.advance(time.Minute)
	got, err = tbl.Get(ctx, row)
	require.NoError(t, err)
	require.Nil(t, got)
	is(5, 3)
	report, err := tbl.Verify(ctx, &VerifyOptions{Repair: true, Grace: time.Nanosecond})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 3, 0, 0}, []int{report.Rows, report.Expired, report.Postings, report.Dangling, len(report.Faults)})
	clock.advance(time.Hour - time.Second)
	is(5, 3)
	clock.advance(2 * time.Second)
	is(1, 3)
	clock.advance(time.Hour - 3*time.Second)
	is(1, 3)
	clock.advance(3 * time.Second)
	is(0, 0)
}

// A schema or row with a TTL that makes no sense is refused, with what to do.
func TestRefusedTTL(t *testing.T) {
	ctx := t.Context()
	st := stores(t, drivertest.NewMemory(), 1)[0]
	for _, ttl := range []time.Duration{-2, 1, 1500 * time.Millisecond, 3651 * 24 * time.Hour, -time.Hour} {
		_, err := st.Create(ctx, expirySchema("t", packed, false, ttl))
		require.ErrorIs(t, err, ErrSchema, "%v", ttl)
		require.ErrorContains(t, err, "need whole seconds from 1s to")
	}
	conditional := expirySchema("t", packed, false, time.Hour)
	conditional.Conditional = true
	require.ErrorIs(t, conditional.Check(), ErrSchema)
	require.ErrorContains(t, conditional.Check(), "conditional table")
	conditional.TTL = 0
	tbl, err := st.Create(ctx, conditional)
	require.NoError(t, err)
	row := Row{"device": "d", "at": int64(1)}
	for _, ttl := range []time.Duration{time.Hour, TTLByRow} {
		err = tbl.Expiring(ttl).Put(ctx, row)
		require.ErrorIs(t, err, ErrSchema)
		require.ErrorContains(t, err, "rows of a table with Conditional do not expire")
		require.NotContains(t, err.Error(), "SetTTL", "which is refused, too")
	}
	require.NoError(t, tbl.Expiring(0).Put(ctx, row))
	require.ErrorIs(t, st.Alter(ctx, "t", SetTTL(time.Hour)), ErrSchema)
	tbl, err = st.Create(ctx, expirySchema("ever", packed, false, 0))
	require.NoError(t, err)
	err = tbl.Expiring(time.Hour).Put(ctx, row)
	require.ErrorIs(t, err, ErrSchema)
	require.ErrorContains(t, err, "SetTTL")
	require.NoError(t, tbl.Expiring(0).Put(ctx, row))
	tbl, err = st.Create(ctx, expirySchema("by row", packed, false, TTLByRow))
	require.NoError(t, err)
	for _, ttl := range []time.Duration{-1, 1, 3651 * 24 * time.Hour} {
		require.ErrorIs(t, tbl.Expiring(ttl).Put(ctx, row), ErrSchema, "%v", ttl)
	}
	err = tbl.Expiring(TTLByRow).Put(ctx, row)
	require.ErrorContains(t, err, "give Expiring whole seconds from 1s to")
	require.NotContains(t, err.Error(), "-1ns")
	require.NoError(t, tbl.Expiring(3650*24*time.Hour).Put(ctx, row))
}

// The TTL of a table changes for rows that are put from then on, also by clients that do not know of the change yet.
func TestSetTTL(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	db := drivertest.NewMemoryAt(clock.now)
	clients := clocked(t, db, clock, 0, 0)
	_, err := clients[0].Create(ctx, expirySchema("t", cellPerColumn, false, 0))
	require.NoError(t, err)
	var tables []*Table
	for _, st := range clients {
		tbl, err := st.Table(ctx, "t")
		require.NoError(t, err)
		tables = append(tables, tbl)
	}
	row := func(at int) Row { return Row{"device": "d", "at": int64(at), "level": int16(at), "zone": "z"} }
	found := func(want ...int) {
		t.Helper()
		for _, tbl := range tables {
			var got []int
			for r, err := range tbl.Query(ctx, Query{Where: Field[string]("device").Equal("d")}) {
				require.NoError(t, err)
				got = append(got, int(r["at"].(int64)))
			}
			require.Equal(t, want, got)
			for at := range 6 { // of a plain column alone
				r, err := tbl.Get(ctx, row(at), "zone")
				require.NoError(t, err)
				require.Equal(t, slices.Contains(want, at), r != nil)
			}
		}
	}
	require.NoError(t, tables[1].Put(ctx, row(0)))
	require.NoError(t, clients[0].Alter(ctx, "t", SetTTL(time.Hour)))
	require.Equal(t, time.Hour, tables[0].Schema().TTL)
	require.NoError(t, tables[0].Put(ctx, row(1)))
	require.NoError(t, tables[1].Expiring(2*time.Hour).Put(ctx, row(2))) // of which it learns here
	found(0, 1, 2)
	require.NoError(t, clients[0].Alter(ctx, "t", SetTTL(0)))
	require.NoError(t, tables[0].Put(ctx, row(3)))
	require.Equal(t, TTLByRow, tables[0].Schema().TTL)
	require.NoError(t, tables[0].Expiring(time.Minute).Put(ctx, row(4)))
	found(0, 1, 2, 3, 4)
	clock.advance(time.Minute)
	found(0, 1, 2, 3)
	clock.advance(time.Hour)
	found(0, 2, 3)
	clock.advance(time.Hour)
	found(0, 3)
	described, err := tables[0].Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, TTLByRow, described.TTL)
	require.Equal(t, inspect.CellPerColumn, described.Layout)
}

// A client whose clock is fast deletes also rows that have expired for it alone, where it looks up the row key in an index.
func TestFastClockDeletesByIndexedKey(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	clients := clocked(t, drivertest.NewMemoryAt(clock.now), clock, 0, 20*time.Minute)
	tbl, err := clients[0].Create(ctx, Schema{Name: "events", TTL: time.Minute, Key: []KeyPart{OrderedPart("id", Int64, WozniakIndexed)},
		Columns: []Column{RandomisedColumn("v", Int64)}})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "v": int64(1)}))
	theirs, err := clients[1].Table(ctx, "events")
	require.NoError(t, err)
	require.NoError(t, theirs.Delete(ctx, Row{"id": int64(1)}))
	row, err := tbl.Get(ctx, Row{"id": int64(1)})
	require.NoError(t, err)
	require.Nil(t, row)
}
