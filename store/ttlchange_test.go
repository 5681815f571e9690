package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A livingTable is a table whose TTL one client changes while another one puts rows.
type livingTable struct {
	*testing.T
	clock *handClock
	db    driver.DB
	st    *Store
	tbl   *Table
}

// livingSchemas are of tables that write in different ways.
var livingSchemas = map[string]Schema{
	"blind": {
		Key:     []KeyPart{HashedPart("device", String), OrderedPart("at", Int64, MOPE)},
		Columns: []Column{OrderedColumn("celsius", Int32, MOPE), DeterministicColumn("room", String), RandomisedColumn("note", String)},
	},
	"drawn": {
		Key:     []KeyPart{HashedPart("device", String), OrderedPart("at", Int64, WozniakIndexed)},
		Columns: []Column{OrderedColumn("celsius", Int32, Kerschbaum), DeterministicColumn("room", String), PlainColumn("note", String)},
	},
	"nothing searched": {
		CellPerColumn: true,
		Key:           []KeyPart{HashedPart("device", String), PlainPart("at", Int64)},
		Columns:       []Column{RandomisedColumn("celsius", Int32), PlainColumn("room", String), RandomisedColumn("note", String)},
	},
	"served": {
		Key:     []KeyPart{HashedPart("device", String), PlainPart("at", Int64)},
		Columns: []Column{OrderedColumn("celsius", Int32, MOPE).ServerIndex(), DeterministicColumn("room", String).ServerIndex(), RandomisedColumn("note", String)},
	},
	"copies": {
		AppendOnly: true,
		Key:        []KeyPart{HashedPart("device", String), PlainPart("at", Int64), TiePart("id")},
		Columns:    []Column{OrderedColumn("celsius", Int32, MOPE).Covering(), DeterministicColumn("room", String), RandomisedColumn("note", String)},
	},
}

func newLiving(t *testing.T, kind string, ttl time.Duration) *livingTable {
	t.Helper()
	l := &livingTable{T: t, clock: newHandClock()}
	l.db = drivertest.NewMemoryAt(l.clock.now)
	l.st = clocked(t, l.db, l.clock, 0)[0]
	schema := livingSchemas[kind]
	schema.Name, schema.TTL = "t", ttl
	var err error
	l.tbl, err = l.st.Create(t.Context(), schema)
	require.NoError(t, err)
	return l
}

// another opens the table as another client, whose calls from here on have the fate that a function says.
func (l *livingTable) another(fate func(call int) drivertest.Fault) *Table {
	l.Helper()
	calls, counting := 0, false
	st, err := Open(l.Context(), drivertest.NewFaulty(l.db, func(drivertest.Op) drivertest.Fault {
		if !counting {
			return drivertest.NoFault
		}
		calls++
		return fate(calls)
	}), kms.NewLocal(testMaster), &Options{Concurrency: 1})
	require.NoError(l, err)
	require.NoError(l, st.Close(l.Context()))
	st.db.Clock = rowcodec.Clock{Now: l.clock.now}
	tbl, err := st.Table(l.Context(), "t")
	require.NoError(l, err)
	counting = true
	return tbl
}

func (l *livingTable) setTTL(ttl time.Duration) {
	l.Helper()
	require.NoError(l, l.st.Alter(l.Context(), "t", SetTTL(ttl)))
}

func livingRow(at int) Row {
	return Row{"device": "a", "at": at, "celsius": at, "room": "r", "note": "n"}
}

// count returns how many rows there are, and requires as many in every way.
func (l *livingTable) count(what string) int {
	l.Helper()
	n, err := l.tbl.Count(l.Context(), Predicate{})
	require.NoError(l, err)
	for _, where := range []Predicate{String.Field("device").Equal("a"), Int32.Field("celsius").AtLeast(0), String.Field("room").Equal("r")} {
		rows := 0
		for _, err := range l.tbl.Query(l.Context(), Query{Where: where}) {
			require.NoError(l, err)
			rows++
		}
		require.Equal(l, n, rows, "%s: by %v", what, where)
	}
	return n
}

// sound verifies the table.
func (l *livingTable) sound(what string) {
	l.Helper()
	v, err := l.tbl.Verify(l.Context(), nil)
	require.NoError(l, err)
	require.True(l, v.Sound(), "%s: %v", what, v.Faults)
	require.Zero(l, v.Dangling, what)
}

const oneLife = time.Hour

// livesAsChanged requires that what was put just now oneLife for so long; less than nothing is for ever.
func (l *livingTable) livesAsChanged(rows int, ttl time.Duration, what string) {
	l.Helper()
	l.sound(what)
	v, err := l.tbl.Verify(l.Context(), nil)
	require.NoError(l, err)
	require.Zero(l, v.Uncopied, what)
	require.Equal(l, rows, l.count(what), what)
	if ttl < 0 {
		l.clock.advance(100 * oneLife)
		require.Equal(l, rows, l.count(what), what)
		l.sound(what)
		return
	}
	l.clock.advance(ttl - time.Second)
	require.Equal(l, rows, l.count(what), what)
	l.sound(what)
	l.clock.advance(time.Second)
	require.Zero(l, l.count(what), what)
	l.clock.advance(2*rowcodec.DefaultGrace + time.Second)
	for _, spec := range []driver.FamilySpec{l.tbl.now().Spec, l.tbl.now().PostingSpec} {
		if l.tbl.now().Postings == nil && spec.Name == l.tbl.now().PostingSpec.Name {
			continue
		}
		for row := range must2(l.db.Family(l.Context(), spec))(l.T).Scan(l.Context(), driver.Range{AnyOrder: true}) {
			require.Fail(l, "the database keeps something", "%s: %x", what, row.Key)
		}
	}
}

// A row that was put with another TTL than the table has when the Put returns is put again with that, wherever the change
// comes. So its index entries and copies end with it.
func TestPutSleepsThroughSetTTL(t *testing.T) {
	for kind := range livingSchemas {
		for _, change := range [][]time.Duration{{oneLife, 3 * oneLife}, {3 * oneLife, oneLife}, {TTLByRow, oneLife}, {oneLife, TTLByRow}, {oneLife, 2 * oneLife, 4 * oneLife}} {
			t.Run(fmt.Sprint(kind, change), func(t *testing.T) {
				for n, came := 0, true; came; n++ {
					l := newLiving(t, kind, change[0])
					last := len(change) - 1
					came = n == 0
					theirs := l.another(func(call int) drivertest.Fault {
						if 0 < n && n <= call && call < n+last {
							came = true
							l.setTTL(change[call-n+1])
						}
						return drivertest.NoFault
					})
					if n == 0 {
						l.setTTL(change[last])
					}
					what := fmt.Sprint("before call ", n)
					rows := []Row{livingRow(1), livingRow(2)}
					require.NoError(t, theirs.Put(t.Context(), rows...), what)
					// The rows of an index of the database are read beside the version, and may be read after it.
					knows := theirs.now().TTL == max(0, change[last])
					require.True(t, knows || kind == "served" || !came || l.tbl.now().TTL != max(0, change[last]), what)
					if came && knows {
						l.livesAsChanged(2, change[last], what)
					}
				}
			})
		}
	}
}

// A row keeps a TTL of its own, and rows that others have put keep theirs.
func TestRowsKeepTheirTTL(t *testing.T) {
	for kind := range livingSchemas {
		t.Run(kind, func(t *testing.T) {
			l := newLiving(t, kind, 2*oneLife)
			theirs := l.another(func(int) drivertest.Fault { return drivertest.NoFault })
			require.NoError(t, l.tbl.Put(t.Context(), livingRow(1)))
			l.setTTL(5 * oneLife)
			require.NoError(t, theirs.Expiring(oneLife).Put(t.Context(), livingRow(2)))
			require.NoError(t, theirs.Expiring(0).Put(t.Context(), livingRow(3)))
			l.sound(kind)
			for i, want := range []int{3, 2, 1, 1, 1, 1, 1} {
				require.Equal(t, want, l.count(kind), "after %d", i)
				l.clock.advance(oneLife)
			}
		})
	}
}

// A load that goes on leaves the rows that are there as they are, and puts others as the table says by then.
func TestLoadSleepsThroughSetTTL(t *testing.T) {
	for name, ttl := range map[string][]time.Duration{"longer": {oneLife, 3 * oneLife}, "not any more": {oneLife, TTLByRow}, "from now on": {TTLByRow, oneLife}} {
		t.Run(name, func(t *testing.T) {
			l := newLiving(t, "copies", ttl[0])
			load := []Row{livingRow(1), livingRow(2)}
			for i := range load {
				load[i]["id"] = LoadTie{byte(i), 1}
			}
			require.NoError(t, l.tbl.Put(t.Context(), load[0]))
			theirs := l.another(func(int) drivertest.Fault { return drivertest.NoFault })
			l.setTTL(ttl[1])
			require.NoError(t, theirs.Put(t.Context(), load...))
			l.sound(name)
			for range 5 {
				alive := 0
				for _, ttl := range ttl {
					if ttl < 0 || l.clock.now().Before(newHandClock().now().Add(ttl)) {
						alive++
					}
				}
				require.Equal(t, alive, l.count(name))
				l.clock.advance(oneLife)
			}
		})
	}
}

// copyAll puts the copies that index entries lack.
func copyAll(l *livingTable) error {
	_, err := recopy.All(l.Context(), l.tbl.now())
	return err
}

// Wherever the client dies that puts a row again, and whatever another one does meanwhile, index entries and copies have what
// the row has.
func TestRetimedRowsAreWhole(t *testing.T) {
	for kind := range livingSchemas {
		for _, change := range [][]time.Duration{{oneLife, 3 * oneLife}, {3 * oneLife, oneLife}, {TTLByRow, oneLife}, {oneLife, TTLByRow}} {
			for what, do := range map[string]func(l *livingTable) error{
				"crash": nil,
				"convert": func(l *livingTable) error {
					if err := l.st.RotateKeys(l.Context(), "t"); err != nil {
						return err
					}
					_, err := l.tbl.Convert(l.Context(), nil)
					return err
				},
				"copy":            copyAll,
				"copy, crash":     copyAll,
				"copy, crash two": copyAll,
				"delete": func(l *livingTable) error {
					for row, err := range l.tbl.Query(l.Context(), Query{}) {
						if err != nil {
							return err
						}
						delete(row, "celsius")
						delete(row, "room")
						delete(row, "note")
						if err := l.tbl.Delete(l.Context(), row); err != nil {
							return err
						}
					}
					return nil
				},
			} {
				t.Run(fmt.Sprint(kind, change, what), func(t *testing.T) {
					for n, came := 1, true; came; n += sim.Every(3) {
						l := newLiving(t, kind, change[0])
						came = false
						dies := map[string]int{"crash": n, "copy, crash": n + 1, "copy, crash two": n + 2}[what]
						theirs := l.another(func(call int) drivertest.Fault {
							came = came || call == n
							if call == n && do != nil {
								require.NoError(t, do(l))
							}
							if call == dies {
								return drivertest.CrashBefore
							}
							return drivertest.NoFault
						})
						l.setTTL(change[1])
						err := theirs.Put(t.Context(), livingRow(1))
						if dies == 0 {
							require.NoError(t, err)
						}
						at := fmt.Sprintf("%s before call %d", what, n)
						if dies == 0 && l.count(at) > 0 {
							l.sound(at)
						}
						for range 8 { // at whatever time it expires
							l.count(at)
							l.clock.advance(oneLife / 2)
						}
					}
				})
			}
		}
	}
}

// misplace gives rows other values in an index of the database, as equal timestamps may.
func (l *livingTable) misplace() {
	t := l.tbl.now()
	for row, err := range t.Data.Scan(l.Context(), driver.Range{AnyOrder: true, Cells: t.IndexSlice()}) {
		require.NoError(l, err)
		cell := row.Cells[0]
		cell.Stamp, cell.Index[0].Value = 0, []byte{1}
		require.NoError(l, t.Data.Apply(l.Context(), driver.Mutation{Row: row.Key, Puts: []driver.Cell{cell}}))
	}
}

// A Put that writes rows again whose index has other values does so with the TTL that counts by then.
func TestMisplacedRowsAreRetimed(t *testing.T) {
	for _, change := range [][]time.Duration{{oneLife, 3 * oneLife}, {3 * oneLife, oneLife}, {TTLByRow, oneLife}} {
		for n, came := 1, true; came; n++ {
			for m := n; m < n+4; m++ {
				l, set := newLiving(t, "served", change[0]), false
				came = false
				theirs := l.another(func(call int) drivertest.Fault {
					if came = came || call == n; call == n {
						l.misplace()
					}
					if call == m {
						set = true
						l.setTTL(change[1])
					}
					return drivertest.NoFault
				})
				if n == m {
					set = true
					l.setTTL(change[1])
				}
				require.NoError(t, theirs.Put(t.Context(), livingRow(1)))
				knows := theirs.now().TTL == max(0, change[1])
				if v, err := l.tbl.Verify(t.Context(), nil); set && came && knows && v.Sound() { // unless it came after the last look
					require.NoError(t, err)
					l.livesAsChanged(1, change[1], fmt.Sprint(change, " before calls ", n, " and ", m))
				}
			}
		}
	}
}

// On a database that does not tell who was faster, a conversion may leave a row as it was put. The Put looks once more.
func TestRetimedRowLosesToConversion(t *testing.T) {
	for kind := range livingSchemas {
		for _, change := range [][]time.Duration{{oneLife, 3 * oneLife}, {3 * oneLife, oneLife}, {TTLByRow, oneLife}} {
			l := newLiving(t, kind, change[0])
			var first []driver.Cell
			lost := false
			theirs := l.another(func(int) drivertest.Fault {
				for row, err := range l.tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true, Cells: l.tbl.now().IndexSlice()}) {
					require.NoError(t, err)
					if first == nil {
						first = row.Cells
					}
					if !lost && !bytes.Equal(first[0].Value, row.Cells[0].Value) {
						lost = true
						whole, err := l.tbl.now().Data.Get(t.Context(), row.Key, driver.Slice{Indexes: l.tbl.now().IndexNames()})
						require.NoError(t, err)
						whole[0].Value, whole[0].Stamp = first[0].Value, 0
						require.NoError(t, l.tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: whole[:1]}))
					}
				}
				return drivertest.NoFault
			})
			l.setTTL(change[1])
			require.NoError(t, theirs.Put(t.Context(), livingRow(1)))
			require.True(t, lost, kind)
			l.livesAsChanged(1, change[1], fmt.Sprint(kind, change))
		}
	}
}
