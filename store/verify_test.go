package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// verifySchema has a column of every kind that verifying is about.
func verifySchema(layout bool) Schema {
	return Schema{
		Name: "verified", CellPerColumn: layout,
		Key: []KeyPart{HashedPart("device", String), OrderedPart("at", Int64, MOPE), OrderedPart("name", String, WozniakIndexed)},
		Columns: []Column{
			OrderedColumn("linear", Int64, Boldyreva),
			OrderedColumn("rotated", Int32, MOPE),
			OrderedColumn("indexed", Int32, WozniakIndexed),
			OrderedColumn("mutable", Int32, Kerschbaum),
			OrderedColumn("clear", Int32, plaintextIndexed),
			DeterministicColumn("token", String),
			RandomisedColumn("note", String),
			PlainColumn("plain", Int32),
		},
	}
}

// verifiedRow returns a row; one of a number has no value in some column.
func verifiedRow(i int, r *rand.Rand) Row {
	row := Row{
		"device": fmt.Sprint("device", i%3), "at": int64(i*1_000_003) << 20, "name": fmt.Sprintf("a name that is long %d", i%5),
		"linear": r.Int64() - 1<<62, "rotated": int32(r.Uint32()), "indexed": r.Int32N(20), "mutable": r.Int32N(50), "clear": r.Int32N(50),
		"token": fmt.Sprint(r.IntN(4)), "note": "note", "plain": int32(i),
	}
	for _, c := range []string{"linear", "rotated", "indexed", "mutable", "clear", "token", "note", "plain"} {
		if r.IntN(8) == 0 {
			delete(row, c)
		}
	}
	return row
}

func verifiedTable(t *testing.T, db driver.DB, key ope.Key, schema Schema) *Table {
	t.Helper()
	st, err := Open(t.Context(), db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(t.Context())) // writes leave nothing to do
	tbl, err := st.Table(t.Context(), schema.Name)
	if errors.Is(err, ErrNoTable) {
		tbl, err = st.Create(t.Context(), schema)
	}
	require.NoError(t, err)
	return tbl
}

// verified returns what Verify says, and the faults.
func verified(t *testing.T, tbl *Table, opts VerifyOptions) (*inspect.Verification, []inspect.Fault) {
	t.Helper()
	var faults []inspect.Fault
	opts.Fault = func(f inspect.Fault) { faults = append(faults, f) }
	report, err := tbl.Verify(t.Context(), &opts)
	require.NoError(t, err)
	n := 0
	for _, kind := range inspect.FaultKinds() {
		n += report.Faults[kind]
	}
	require.Len(t, faults, n)
	return report, faults
}

var repairing = VerifyOptions{Repair: true, Grace: time.Millisecond}

// A table as clients leave it has no fault, on every database, whatever was written, replaced and
// deleted; and everything is counted.
func TestVerifySound(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for i, layout := range []bool{packed, cellPerColumn} {
			if !kind.Runs(layout == packed) {
				continue
			}
			r := rand.New(rand.NewPCG(1, uint64(i)))
			db, key := kind.Open(t, nil), ope.GenerateKey()
			tbl := verifiedTable(t, db, key, verifySchema(layout))
			report, faults := verified(t, tbl, VerifyOptions{})
			require.Empty(t, faults)
			require.Equal(t, &inspect.Verification{Faults: map[inspect.FaultKind]int{}, Indexes: report.Indexes}, report, "an empty table")
			want := map[int]Row{}
			ops := 400
			if kind.Name != "memory" {
				ops = 80 // each is a sync, or round trips
			}
			for range ops {
				i := r.IntN(ops / 4)
				row := verifiedRow(i, r)
				if r.IntN(4) == 0 {
					require.NoError(t, tbl.Delete(t.Context(), row))
					delete(want, i)
				} else {
					require.NoError(t, tbl.Put(t.Context(), row))
					want[i] = row
				}
			}
			_, err := tbl.Rebalance(t.Context(), "mutable", nil)
			require.NoError(t, err)
			postings := 0
			for _, row := range want {
				for _, c := range tbl.now().Columns {
					if c.Searched() && row[c.Name] != nil {
						postings++
					}
				}
			}
			for _, every := range []int{0, 7} {
				steps := map[string]bool{}
				report, faults = verified(t, verifiedTable(t, db, key, verifySchema(layout)), VerifyOptions{
					Every: every, Repair: true, Progress: func(step string, _ int) { steps[step] = true },
				})
				require.Empty(t, faults)
				require.True(t, report.Sound())
				require.Equal(t, len(want), report.Rows)
				require.Equal(t, postings, report.Postings)
				require.Zero(t, report.Dangling)
				require.True(t, steps["rows"] && steps["postings"] && !steps["waiting"], steps)
				require.Len(t, report.Indexes, 2)
				require.Equal(t, report, verifyParts(t, tbl, 7, nil))
				for _, x := range report.Indexes {
					require.Greater(t, x.Values, 5)
				}
				require.EqualValues(t, 1, report.Indexes[0].Version.Epoch)
				require.NotZero(t, report.Indexes[0].Version.Generation, "it was rebalanced")
			}
		}
	})
}

// Wherever a client dies there is no fault, only dangling postings; repairing drops them all, and
// loses no row, wherever it dies itself.
func TestVerifyAfterCrashAtEveryCall(t *testing.T) {
	const rows = 4
	schema := verifySchema(cellPerColumn)
	var prepared []Row
	r := rand.New(rand.NewPCG(1, 1))
	for i := range rows + 2 {
		row := verifiedRow(i, r)
		row["linear"], row["mutable"], row["token"] = int64(i), int32(i), "t" // always there
		prepared = append(prepared, row)
	}
	crashing := func(t *testing.T, n int, late bool, do func(db driver.DB) error) (memory driver.DB, key ope.Key, came bool) {
		memory, key = drivertest.NewMemory(), ope.GenerateKey()
		tbl := verifiedTable(t, memory, key, schema)
		require.NoError(t, tbl.Put(t.Context(), prepared[:rows]...))
		counting := 0
		faulty := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Family" || op.Family == "catalogue" {
				return drivertest.NoFault
			}
			if counting++; counting != n {
				return drivertest.NoFault
			}
			if late {
				return drivertest.CrashAfter
			}
			return drivertest.CrashBefore
		})
		_ = verifiedTable(t, faulty, key, schema)
		err := do(withKey{faulty, key})
		if err != nil {
			require.GreaterOrEqual(t, counting, n, err)
		} // else it may have crashed after its rows were acknowledged
		return memory, key, counting >= n
	}
	type action struct {
		name string
		do   func(db driver.DB) error
	}
	put := func(db driver.DB) error {
		changed := replaced(prepared[1], "linear", int64(99))
		tbl := verifiedTable(t, db, db.(withKey).key, schema)
		return tbl.Put(t.Context(), changed, prepared[rows], prepared[rows+1])
	}
	for _, a := range []action{
		{"put", put},
		{"delete", func(db driver.DB) error {
			tbl := verifiedTable(t, db, db.(withKey).key, schema)
			return tbl.Delete(t.Context(), prepared[0], prepared[1])
		}},
		{"rebalance", func(db driver.DB) error {
			_, err := verifiedTable(t, db, db.(withKey).key, schema).Rebalance(t.Context(), "mutable", nil)
			return err
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			dangling, crashes := 0, 0
			for _, late := range []bool{false, true} {
				for n := 1; ; n += sim.LongShare(1, 3, 4) {
					memory, key, came := crashing(t, n, late, a.do)
					if !came {
						break
					}
					crashes++
					tbl := verifiedTable(t, memory, key, schema)
					report, faults := verified(t, tbl, VerifyOptions{})
					require.Empty(t, faults, "call %d", n)
					dangling += report.Dangling
					found := findable(t, tbl)
					dropped, faults := verified(t, tbl, repairing)
					require.Empty(t, faults)
					require.Equal(t, report.Dangling, dropped.Dropped)
					clean, faults := verified(t, tbl, repairing)
					require.Empty(t, faults)
					require.Zero(t, clean.Dangling)
					require.Equal(t, report.Rows, clean.Rows)
					require.Equal(t, found, findable(t, tbl))
				}
			}
			require.Greater(t, crashes, 3)
			if a.name == "put" {
				require.Greater(t, dangling, 4)
			}
		})
	}
	t.Run("repair", func(t *testing.T) {
		crashes := 0
		for _, late := range []bool{false, true} {
			for n := 1; ; n += sim.Every(2) {
				memory, key, came := crashing(t, n, late, func(db driver.DB) error {
					sound := verifiedTable(t, db.(withKey).DB.(interface{ driver.DB }), db.(withKey).key, schema)
					_, err := sound.Verify(t.Context(), &repairing)
					return err
				})
				_ = key
				if !came {
					break
				}
				crashes++
				tbl := verifiedTable(t, memory, key, schema)
				_, faults := verified(t, tbl, VerifyOptions{})
				require.Empty(t, faults)
			}
		}
		require.Greater(t, crashes, 20/sim.Every(2))
	})
	// What there is to mend is mended in the end, wherever repairing died before.
	for n, more := 1, true; more; n += sim.Every(3) {
		memory, key := drivertest.NewMemory(), ope.GenerateKey()
		tbl := verifiedTable(t, memory, key, schema)
		require.NoError(t, tbl.Put(t.Context(), prepared[:rows]...))
		found := findable(t, tbl)
		hide(t, tbl, prepared[0], "linear")
		hide(t, tbl, prepared[1], "token")
		forge(t, tbl, prepared[2], "linear")
		counting := 0
		faulty := verifiedTable(t, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Family" || op.Family == "catalogue" {
				return drivertest.NoFault
			}
			if counting++; counting == n {
				return []drivertest.Fault{drivertest.CrashBefore, drivertest.CrashAfter}[n%2]
			}
			return drivertest.NoFault
		}), key, schema)
		_, err := faulty.Verify(t.Context(), &repairing)
		more = counting >= n
		require.Equal(t, more, err != nil)
		verified(t, tbl, repairing)
		report, faults := verified(t, tbl, VerifyOptions{})
		require.Empty(t, faults)
		require.Zero(t, report.Dangling)
		require.Equal(t, found, findable(t, tbl))
	}
}

// withKey is a database with the key that its tables are opened with.
type withKey struct {
	driver.DB
	key ope.Key
}

func replaced(row Row, column string, value any) Row {
	changed := Row{column: value}
	for name, v := range row {
		if name != column {
			changed[name] = v
		}
	}
	return changed
}

// findable returns how many rows are found by each column.
func findable(t *testing.T, tbl *Table) map[string]int {
	t.Helper()
	found := map[string]int{}
	for name, p := range map[string]Predicate{
		"all": {}, "linear": Field[int64]("linear").AtLeast(-1 << 63), "mutable": Field[int32]("mutable").AtLeast(-1 << 31),
		"token": Field[string]("token").Equal("t"), "rotated": Field[int32]("rotated").AtLeast(-1 << 31),
	} {
		for _, err := range tbl.Query(t.Context(), Query{Where: p}) {
			require.NoError(t, err)
			found[name]++
		}
	}
	return found
}

func stored(t *testing.T, tbl *Table, row Row) *rowcodec.Record {
	t.Helper()
	key, err := bykey.ExactKey(t.Context(), tbl.now(), row)
	require.NoError(t, err)
	r, err := tbl.now().Read(t.Context(), key, nil)
	require.NoError(t, err)
	require.NotNil(t, r)
	return r
}

// hide removes the posting of a row.
func hide(t *testing.T, tbl *Table, row Row, column string) (posting []byte) {
	t.Helper()
	posting = tbl.now().PostingKey(stored(t, tbl, row), tbl.now().ByName[column].Position)
	require.NoError(t, tbl.now().Postings.Apply(t.Context(), driver.Mutation{Row: posting, DeleteRow: true}))
	return posting
}

// forge makes a posting of a write that never was.
func forge(t *testing.T, tbl *Table, row Row, column string) {
	t.Helper()
	r := stored(t, tbl, row)
	r.Write[0] ^= 1
	posting := tbl.now().PostingKey(r, tbl.now().ByName[column].Position)
	require.NoError(t, tbl.now().Postings.Apply(t.Context(), driver.Mutation{Row: posting, Puts: []driver.Cell{rowcodec.PostingCell}}))
}

// leaveCells makes columns of a row null, and then puts the cells back that it had there, as a node does that was down for
// longer than the others remember what was deleted.
func leaveCells(t *testing.T, tbl *Table, row Row, columns ...string) (key []byte) {
	t.Helper()
	key = stored(t, tbl, row).Key
	var only [][]byte
	without := maps.Clone(row)
	for _, name := range columns {
		only = append(only, tbl.now().ByName[name].Id[:])
		delete(without, name)
	}
	slices.SortFunc(only, bytes.Compare)
	was, err := tbl.now().Data.Get(t.Context(), key, driver.Slice{Only: only})
	require.NoError(t, err)
	require.Len(t, was, len(columns))
	require.NoError(t, tbl.Put(t.Context(), without))
	if m := (driver.Mutation{Row: key, Puts: was}); tbl.now().Meta.Conditional {
		_, err = tbl.now().Data.CheckAndPut(t.Context(), key, driver.Cell{Qualifier: []byte("none")}, was...)
		require.NoError(t, err)
	} else {
		require.NoError(t, tbl.now().Data.Apply(t.Context(), m))
	}
	return key
}

// A row with cells that an earlier write has left is refused as a whole, and in tables with copies it is not even deleted.
// A repair takes these cells away.
func TestCellsOfEarlierWrites(t *testing.T) {
	for name, change := range map[string]func(*Schema){
		"row": func(*Schema) {}, "cell per column": func(s *Schema) { s.CellPerColumn = true },
		"conditional": func(s *Schema) { s.Conditional = true },
		"conditional with copies": func(s *Schema) {
			s.Conditional, s.Columns[0] = true, s.Columns[0].Covering()
		},
		"expiring": func(s *Schema) { s.TTL = time.Hour },
	} {
		for _, db := range testdb.All[:2] { // the servers remember what was deleted
			t.Run(name+", "+db.Name, func(t *testing.T) {
				schema := Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{
					OrderedColumn("c", Int64, MOPE), DeterministicColumn("d", String), OrderedColumn("k", Int64, Kerschbaum), PlainColumn("p", Int64),
				}}
				change(&schema)
				tbl, err := stores(t, db.Open(t, nil), 1)[0].Create(t.Context(), schema)
				require.NoError(t, err)
				var rows []Row
				for i := range int64(4) {
					rows = append(rows, Row{"id": i, "c": i, "d": fmt.Sprint(i), "k": i, "p": i})
				}
				require.NoError(t, tbl.Put(t.Context(), rows...))
				leaveCells(t, tbl, rows[1], "c", "p")
				leaveCells(t, tbl, rows[2], "d", "k")
				_, err = tbl.Get(t.Context(), rows[1])
				require.ErrorIs(t, err, ErrTorn)
				if tbl.now().Meta.Copies() {
					require.ErrorContains(t, tbl.Delete(t.Context(), rows[1]), "neither replaced nor deleted: 'rangecrypt verify --repair' may mend a mixture of two writes")
				}

				report, _ := verified(t, tbl, repairing)
				require.True(t, report.Sound(), "%v", report)
				require.Equal(t, 2, report.Faults[inspect.FaultTorn])
				report, _ = verified(t, tbl, VerifyOptions{})
				require.True(t, report.Sound(), "%v", report)
				require.Zero(t, report.Faults[inspect.FaultTorn])
				rows[1] = Row{"id": int64(1), "d": "1", "k": int64(1)}
				rows[2] = Row{"id": int64(2), "c": int64(2), "p": int64(2)}
				for i, row := range rows {
					got, err := tbl.Get(t.Context(), row)
					require.NoError(t, err)
					require.Equal(t, row, got)
					for _, column := range []string{"c", "k"} {
						n, err := tbl.Count(t.Context(), Int64.Field(column).Equal(int64(i)))
						require.NoError(t, err)
						require.Equal(t, row[column] != nil, n == 1)
					}
				}
				require.NoError(t, tbl.Delete(t.Context(), rows...))
				n, err := tbl.Count(t.Context(), Predicate{})
				require.NoError(t, err)
				require.Zero(t, n)
			})
		}
	}
}

// So it does in a table of which no column is searched.
func TestCellsOfEarlierWritesWithoutIndexes(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		tbl, err := stores(t, drivertest.NewMemory(), 1)[0].Create(t.Context(), Schema{
			Name: "t", CellPerColumn: true, Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{PlainColumn("p", Int64)},
		})
		require.NoError(t, err)
		row := Row{"id": int64(1), "p": int64(2)}
		require.NoError(t, tbl.Put(t.Context(), row))
		leaveCells(t, tbl, row, "p")
		report, _ := verified(t, tbl, repairing)
		require.True(t, report.Sound(), "%v", report)
		require.Equal(t, 1, report.Faults[inspect.FaultTorn])
		got, err := tbl.Get(t.Context(), row)
		require.NoError(t, err)
		require.Equal(t, Row{"id": int64(1)}, got)
	}
}

// Each kind of damage is told with its place, and nothing else is; what can be mended is.
func TestVerifyTellsDamage(t *testing.T) {
	type want struct {
		kind   inspect.FaultKind
		column string
		place  []byte
	}
	lines := func(wants []want) string {
		var lines []string
		for _, w := range wants {
			lines = append(lines, fmt.Sprintf("%s, column %s, at %x", w.kind, w.column, w.place))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	cellOf := func(t *testing.T, tbl *Table, row Row, column string, change func(value []byte) []byte) []byte {
		key := stored(t, tbl, row).Key
		qualifier := rowcodec.KeyQualifier
		if column != "" {
			qualifier = tbl.now().ByName[column].Id[:]
		}
		cells, err := tbl.now().Data.Get(t.Context(), key, driver.Slice{Only: [][]byte{qualifier}})
		require.NoError(t, err)
		require.Len(t, cells, 1)
		m := driver.Mutation{Row: key, Deletes: [][]byte{qualifier}}
		if value := change(bytes.Clone(cells[0].Value)); value != nil {
			m = driver.Mutation{Row: key, Puts: []driver.Cell{{Qualifier: qualifier, Value: value}}}
		}
		require.NoError(t, tbl.now().Data.Apply(t.Context(), m))
		return key
	}
	flip := func(value []byte) []byte { value[len(value)-1] ^= 1; return value }
	for name, c := range map[string]struct {
		damage   func(t *testing.T, tbl *Table, rows []Row) []want
		dangling int
		mended   bool
	}{
		"cell altered": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			return []want{{inspect.FaultCell, "", cellOf(t, tbl, rows[3], "note", flip)}}
		}},
		"key cell altered": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			return []want{{inspect.FaultCell, "", cellOf(t, tbl, rows[3], "", flip)}, {inspect.FaultCell, "", cellOf(t, tbl, rows[5], "", flip)}}
		}},
		"cell gone": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			return []want{{inspect.FaultTorn, "", cellOf(t, tbl, rows[3], "note", func([]byte) []byte { return nil })}}
		}},
		"key cell gone": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			return []want{{inspect.FaultTorn, "", cellOf(t, tbl, rows[3], "", func([]byte) []byte { return nil })}}
		}},
		"cell of an earlier write": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			var was []byte
			cellOf(t, tbl, rows[3], "note", func(value []byte) []byte { was = bytes.Clone(value); return value })
			require.NoError(t, tbl.Put(t.Context(), rows[3]))
			return []want{{inspect.FaultTorn, "", cellOf(t, tbl, rows[3], "note", func([]byte) []byte { return was })}}
		}},
		"cells of an earlier write where the row has none now": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			return []want{{inspect.FaultTorn, "", leaveCells(t, tbl, rows[3], "note", "linear", "plain")}}
		}},
		"row in place of another": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			cells, err := tbl.now().Data.Get(t.Context(), stored(t, tbl, rows[3]).Key, driver.Slice{})
			require.NoError(t, err)
			key := append(stored(t, tbl, rows[3]).Key, 1)
			require.NoError(t, tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: key, Puts: cells}))
			return []want{{inspect.FaultCell, "", key}}
		}},
		"rows gone": {dangling: 12, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			for _, row := range rows[:2] {
				require.NoError(t, tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: stored(t, tbl, row).Key, DeleteRow: true}))
			}
			return nil
		}},
		"postings forged": {dangling: 2, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			forge(t, tbl, rows[1], "linear")
			forge(t, tbl, rows[1], "token")
			return nil
		}},
		"posting of another value": {dangling: 1, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			r := stored(t, tbl, rows[1])
			r.Search[tbl.now().ByName["linear"].Position][3] ^= 1
			posting := tbl.now().PostingKey(r, tbl.now().ByName["linear"].Position)
			require.NoError(t, tbl.now().Postings.Apply(t.Context(), driver.Mutation{Row: posting, Puts: []driver.Cell{rowcodec.PostingCell}}))
			return nil
		}},
		"no postings": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			short, foreign := append(bytes.Clone(tbl.now().ByName["linear"].Id[:]), 7), bytes.Repeat([]byte{0}, 60)
			for _, key := range [][]byte{short, foreign} {
				require.NoError(t, tbl.now().Postings.Apply(t.Context(), driver.Mutation{Row: key, Puts: []driver.Cell{rowcodec.PostingCell}}))
			}
			return []want{{inspect.FaultPosting, "", short}, {inspect.FaultPosting, "", foreign}}
		}},
		"content of postings": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) (wants []want) {
			for i, cell := range []driver.Cell{{Qualifier: []byte{}, Value: []byte{7}}, {Qualifier: []byte{}, Value: make([]byte, 9)}, {Qualifier: []byte("more"), Value: []byte{}}} {
				posting := tbl.now().PostingKey(stored(t, tbl, rows[i]), tbl.now().ByName["linear"].Position)
				require.NoError(t, tbl.now().Postings.Apply(t.Context(), driver.Mutation{Row: posting, Puts: []driver.Cell{cell}}))
				wants = append(wants, want{inspect.FaultPosting, "linear", posting})
			}
			return wants
		}},
		"postings gone": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) (wants []want) {
			for _, column := range []string{"linear", "rotated", "indexed", "mutable", "clear", "token"} {
				wants = append(wants, want{inspect.FaultHidden, column, hide(t, tbl, rows[4], column)})
			}
			return wants
		}},
		"value gone from an index": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			x := openedIndex(t, tbl)
			unit := ope.Unit(fmt.Sprintf("%x", tbl.now().ByName["clear"].Id))
			view, err := x.Read(t.Context(), unit, nil, nil, 0)
			require.NoError(t, err)
			// The values are those of the rows, in their order.
			change(t, x, unit, ope.Change{Deletes: [][]byte{view.Records[6].Key}})
			return []want{{inspect.FaultUnknown, "clear", stored(t, tbl, rows[6]).Key}}
		}},
		"last value gone from a mutable index": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			x, unit := openedIndex(t, tbl), mutableUnit(tbl)
			view, err := x.Read(t.Context(), unit, make([]byte, 16), bytes.Repeat([]byte{0xff}, 16), 0)
			require.NoError(t, err)
			require.Len(t, view.Records, 1+len(rows))
			change(t, x, unit, ope.Change{Deletes: [][]byte{view.Records[len(rows)].Key}})
			return []want{{inspect.FaultUnknown, "mutable", stored(t, tbl, rows[len(rows)-1]).Key}}
		}},
		"record of a mutable index altered": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			x, unit := openedIndex(t, tbl), mutableUnit(tbl)
			view, err := x.Read(t.Context(), unit, make([]byte, 16), bytes.Repeat([]byte{0xff}, 16), 0)
			require.NoError(t, err)
			change(t, x, unit, ope.Change{Puts: []ope.Record{{Key: view.Records[3].Key, Value: flip(view.Records[3].Value)}}})
			return []want{{inspect.FaultIndex, "mutable", view.Records[3].Key}}
		}},
		"pair of an indexed key part gone": {mended: true, damage: func(t *testing.T, tbl *Table, rows []Row) (wants []want) {
			// All rows have the same name.
			x, unit := openedIndex(t, tbl), ope.Unit(fmt.Sprintf("%x", tbl.now().ByName["name"].Id))
			key := stored(t, tbl, rows[0]).Key
			ciphertext := key[len(key)-tokenSize-tbl.now().ByName["name"].Size : len(key)-tokenSize]
			change(t, x, unit, ope.Change{Deletes: [][]byte{ciphertext}})
			return []want{{inspect.FaultIndex, "name", nil}}
		}},
		"row key and ciphertext of another value": {damage: func(t *testing.T, tbl *Table, rows []Row) []want {
			// Somebody who has the key, or a client with a fault.
			r := stored(t, tbl, rows[2])
			other := stored(t, tbl, rows[8])
			require.NoError(t, tbl.Delete(t.Context(), rows[2]))
			r.Values[1] = rows[8]["at"]
			r.Search[tbl.now().ByName["linear"].Position] = other.Search[tbl.now().ByName["linear"].Position]
			require.NoError(t, tbl.now().Write(t.Context(), []*rowcodec.Record{r}))
			return []want{{inspect.FaultKey, "at", r.Key}, {inspect.FaultKey, "linear", r.Key}}
		}},
	} {
		on := func(t *testing.T, kind testdb.Database) {
			db, key := kind.Open(t, nil), ope.GenerateKey()
			tbl := verifiedTable(t, db, key, verifySchema(cellPerColumn))
			var rows []Row
			for i := range 12 {
				rows = append(rows, Row{
					"device": "d", "at": int64(i), "name": "n", "linear": int64(i), "rotated": int32(i), "indexed": int32(i),
					"mutable": int32(i), "clear": int32(i), "token": fmt.Sprint(i), "note": "note", "plain": int32(i),
				})
			}
			require.NoError(t, tbl.Put(t.Context(), rows...))
			wants := c.damage(t, tbl, rows)
			check := func(opts VerifyOptions, wants []want, repaired bool, dangling int) {
				t.Helper()
				report, faults := verified(t, tbl, opts)
				var got []want
				for _, f := range faults {
					got = append(got, want{f.Kind, f.Column, f.Place})
					require.Error(t, f.Err)
					require.Equal(t, repaired, f.Repaired, "%v", f)
					for _, secret := range []string{"device", "note"} {
						require.NotContains(t, strings.ReplaceAll(f.Err.Error(), `column "note"`, ""), secret)
					}
				}
				require.Equal(t, lines(wants), lines(got))
				require.Equal(t, len(wants) == 0 || repaired, report.Sound())
				require.Equal(t, dangling, report.Dangling)
				if opts.Repair {
					return
				}
				// A ciphertext may count with its row and with its posting, where these are in different parts.
				parts := verifyParts(t, tbl, 3, &opts)
				require.GreaterOrEqual(t, parts.Faults[inspect.FaultKey], report.Faults[inspect.FaultKey])
				delete(parts.Faults, inspect.FaultKey)
				delete(report.Faults, inspect.FaultKey)
				require.Equal(t, report, parts)
			}
			check(VerifyOptions{}, wants, false, c.dangling)
			check(repairing, wants, c.mended, c.dangling)
			if c.mended {
				wants = nil
			}
			check(VerifyOptions{}, wants, false, 0)
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { on(t, testdb.All[0]) }) // which has the time to look again
			if c.mended {
				on(t, testdb.All[1]) // else what is read is the same
			}
		})
	}
}

func openedIndex(t *testing.T, tbl *Table) ope.Index {
	t.Helper()
	x, err := index.OpenFamily(t.Context(), tbl.store().db.Driver, tbl.now().Meta.IndexFamily(), false)
	require.NoError(t, err)
	return x
}

func mutableUnit(tbl *Table) ope.Unit {
	return ope.Unit(fmt.Sprintf("%x/000000/0000000000000001", tbl.now().ByName["mutable"].Id))
}

// change changes records of a unit as its database can.
func change(t *testing.T, x ope.Index, unit ope.Unit, c ope.Change) {
	t.Helper()
	view, err := x.Read(t.Context(), unit, nil, nil, 1)
	require.NoError(t, err)
	require.NotEmpty(t, view.Records)
	c.Meta = view.Meta
	applied, err := x.Commit(t.Context(), unit, ope.Condition{State: view.Meta.State, Generation: view.Meta.Generation}, c)
	require.NoError(t, err)
	require.True(t, applied)
}

// Verify ends with its context, and says what it found so far.
func TestVerifyEnds(t *testing.T) {
	tbl := verifiedTable(t, drivertest.NewMemory(), ope.GenerateKey(), verifySchema(packed))
	r := rand.New(rand.NewPCG(1, 1))
	var rows []Row
	for i := range 600 {
		rows = append(rows, verifiedRow(i, r))
	}
	require.NoError(t, tbl.Put(t.Context(), rows...))
	ctx, cancel := context.WithCancel(t.Context())
	report, err := tbl.Verify(ctx, &VerifyOptions{Progress: func(step string, _ int) {
		if step == "rows" {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, chunks.FullBatch, report.Rows)
	for wrong, opts := range map[string]VerifyOptions{"a grace period of -1ns": {Grace: -1}, "one row in -1": {Every: -1}} {
		_, err := tbl.Verify(t.Context(), &opts)
		require.ErrorIs(t, err, driver.ErrRange)
		require.ErrorContains(t, err, wrong)
	}
	// A row that nobody can find by a column: the grace period is waited for, and can be ended.
	for i := range rows {
		if rows[i]["linear"] != nil {
			forge(t, tbl, rows[i], "linear")
			break
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	report, err = tbl.Verify(ctx, &VerifyOptions{Repair: true, Progress: func(step string, _ int) {
		if step == "waiting" {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, report.Dangling)
	require.Zero(t, report.Dropped)
}

// A posting waits for all of the grace period.
func TestVerifyGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tbl := verifiedTable(t, drivertest.NewMemory(), ope.GenerateKey(), verifySchema(packed))
		row := verifiedRow(1, rand.New(rand.NewPCG(1, 1)))
		row["linear"] = int64(1)
		require.NoError(t, tbl.Put(t.Context(), row))
		forge(t, tbl, row, "linear")
		begin := time.Now()
		report, err := tbl.Verify(t.Context(), &VerifyOptions{Repair: true})
		require.NoError(t, err)
		require.Equal(t, 1, report.Dropped)
		require.Equal(t, 10*time.Minute, time.Since(begin), "as the documentation of Grace says")
	})
}

// verifying is a client of the simulation that verifies and repairs. The grace period is over, as
// is assumed of it, when whatever was under way at its beginning is done; each look at that is a
// step.
func (w *world) verifying(ops int, found *inspect.Verification) {
	db, tbl := w.connect()
	for range ops {
		if w.call(db, "begin", nil, func() error { return nil }) != nil {
			db, tbl = w.connect()
		}
		v := tbl.verifier(&VerifyOptions{Repair: true, Fault: func(f inspect.Fault) { w.fail("verify: %s: %v", f.Kind, f.Err) }})
		v.Pause = func(context.Context) error { return w.call(db, "pause", nil, func() error { return nil }) }
		v.AwaitGrace = func(context.Context) error {
			w.mu.Lock()
			busy := map[string]bool{}
			for row, n := range w.active {
				busy[row] = n > 0
			}
			w.mu.Unlock()
			for more := true; more; {
				if err := w.call(db, "grace", nil, func() error { return nil }); err != nil {
					return err
				}
				more = false
				w.mu.Lock()
				for row, waits := range busy {
					busy[row] = waits && w.active[row] > 0
					more = more || busy[row]
				}
				w.mu.Unlock()
			}
			return nil
		}
		report, err := v.Run(context.Background())
		if errors.Is(err, errDead) {
			db, tbl = w.connect()
			continue
		}
		if err != nil {
			w.fail("verify: %v", err)
			return
		}
		w.mu.Lock()
		found.Rows += report.Rows
		found.Dangling += report.Dangling
		found.Dropped += report.Dropped
		w.mu.Unlock()
	}
}

func simulateVerify(t *testing.T, v variant, seed uint64) (*world, *inspect.Verification) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	w := &world{
		variant: v, db: drivertest.NewMemory(), schema: simSchema, r: rand.New(rand.NewPCG(seed, 1)),
		stamps: make(map[string]int64), active: make(map[string]int), touched: make(map[string]int),
	}
	if v.mutable {
		w.schema.Columns = slices.Clone(w.schema.Columns)
		w.schema.Columns[0] = OrderedColumn("level", Int8, Kerschbaum)
		w.oneCell = seed%2 == 0
	}
	w.key, _ = ope.NewKey(bytes.Repeat([]byte{1}, 32))
	found := new(inspect.Verification)
	synctest.Test(t, func(t *testing.T) {
		w.table = w.tableOn(noSnapshots{w.db, w.oneCell})
		var group sync.WaitGroup
		start := func(do func()) {
			w.running++
			group.Go(func() {
				do()
				w.mu.Lock()
				w.running--
				w.mu.Unlock()
			})
			synctest.Wait() // it has an id, and waits for its first step
		}
		for i := range 3 {
			start(func() { w.write(simBatches, rand.New(rand.NewPCG(seed, uint64(i)+10))) })
		}
		start(func() { w.verifying(3, found) })
		w.run(0.02)
		group.Wait()
		w.checkPostings()
	})
	return w, found
}

// Verifying and repairing while writers go on, and die, finds no fault and hides no row.
func TestVerifyBesideWriters(t *testing.T) {
	for name, v := range map[string]variant{"one clock": {}, "clocks that disagree": {skew: true}, "mutable column": {mutable: true}} {
		t.Run(name, func(t *testing.T) {
			var all inspect.Verification
			for i := range max(60, *simRuns/4) {
				seed := *simSeed + uint64(i)
				w, found := simulateVerify(t, v, seed)
				require.Empty(t, w.bad, "-store.simseed=%d\n%s", seed, strings.Join(w.trace, "\n"))
				all.Rows, all.Dangling, all.Dropped = all.Rows+found.Rows, all.Dangling+found.Dangling, all.Dropped+found.Dropped
			}
			t.Logf("%d rows, %d dangling postings, %d dropped", all.Rows, all.Dangling, all.Dropped)
			require.Greater(t, all.Dropped, 20)
		})
	}
}

// Cells that were emptied, since the database cannot delete them under a condition, are counted no more.
func TestVerifyCountsCellsAfterConversion(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx, st := t.Context(), stores(t, kind.Open(t, nil), 1)[0]
		for _, conditional := range []bool{false, true} {
			tbl, err := st.Create(ctx, Schema{
				Name: fmt.Sprint(conditional), Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)},
				Columns: []Column{OrderedColumn("pay", Int64, Boldyreva), RandomisedColumn("note", String)},
			})
			require.NoError(t, err)
			for i := range 3 {
				require.NoError(t, tbl.Put(ctx, Row{"id": i, "pay": i, "note": "x"}))
			}
			for _, pay := range []Column{OrderedColumn("pay", Int64, MOPE), RandomisedColumn("pay", Int64)} {
				v, faults := verified(t, tbl, VerifyOptions{})
				require.Empty(t, faults)
				require.Equal(t, [3]int{3, 6, 3}, [3]int{v.Rows, v.Cells, v.Postings})
				require.NoError(t, st.Alter(ctx, tbl.Schema().Name, ChangeColumn(pay)))
				_, err = tbl.Convert(ctx, nil)
				require.NoError(t, err)
			}
			v, faults := verified(t, tbl, VerifyOptions{})
			require.Empty(t, faults)
			require.Equal(t, [3]int{3, 3, 0}, [3]int{v.Rows, v.Cells, v.Postings})
		}
	})
}

// A verification that got no answer for as long as a call may take does not wait as long again to learn whether the schema is another.
func TestVerifyWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var verifying, gone atomic.Bool
		db := intercept.New(drivertest.NewMemory(), func(ctx context.Context, op intercept.Op, c intercept.Call) error {
			if verifying.Load() && strings.HasPrefix(op.Family, "x") { // its rows were read
				gone.Store(true)
			}
			if !gone.Load() {
				return c.Make(nil)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				return driver.ErrUnavailable
			}
		}, nil)
		schema := verifySchema(cellPerColumn)
		tbl := verifiedTable(t, db, ope.GenerateKey(), schema)
		require.NoError(t, tbl.Put(t.Context(), verifiedRow(0, rand.New(rand.NewPCG(1, 1)))))
		verifying.Store(true)
		start := time.Now()
		_, err := tbl.Verify(t.Context(), nil)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.Less(t, time.Since(start), 90*time.Second)
	})
}
