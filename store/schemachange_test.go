package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// meddled is the database of a client that others come in between of: right before, and right
// after, its first change of rows of a table.
type meddled struct {
	driver.DB
	before, after func()
	blind         bool // conditions are not looked at
	early         bool // the version is shown as it was before the last change of rows

	first, last sync.Once
	mu          sync.Mutex
	root        []driver.Cell
}

func (db *meddled) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &meddledFamily{f.(driver.Committer), db, spec.Name}, nil
}

type meddledFamily struct {
	driver.Committer
	db   *meddled
	name string
}

// rootOf returns the root of the catalogue as it is.
func rootOf(ctx context.Context, db driver.DB) ([]driver.Cell, error) {
	catalogue, err := db.Family(ctx, catalogueSpec)
	if err != nil {
		return nil, err
	}
	return catalogue.Get(ctx, catalogueRow, onlyRoot)
}

// change makes a change of rows.
func (f *meddledFamily) change(ctx context.Context, do func() error) error {
	if f.name[0] != 't' {
		return do()
	}
	if f.db.early {
		root, err := rootOf(ctx, f.db.DB)
		if err != nil {
			return err
		}
		f.db.mu.Lock()
		f.db.root = root
		f.db.mu.Unlock()
	}
	if f.db.before != nil {
		f.db.first.Do(f.db.before)
	}
	err := do()
	if f.db.after != nil {
		f.db.last.Do(f.db.after)
	}
	return err
}

func (f *meddledFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if f.name == catalogueFamily && len(s.Only) == 1 && string(s.Only[0]) == string(rootQualifier) {
		f.db.mu.Lock()
		root := f.db.root
		f.db.mu.Unlock()
		if root != nil {
			return root, nil
		}
	}
	return f.Committer.Get(ctx, row, s)
}

func (f *meddledFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	return f.change(ctx, func() error { return f.Committer.Apply(ctx, mutations...) })
}

func (f *meddledFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	err = f.change(ctx, func() (err error) {
		if !f.db.blind {
			late, err = f.Committer.Replace(ctx, replacements...)
			return err
		}
		var mutations []driver.Mutation
		for _, r := range replacements {
			mutations = append(mutations, driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes})
		}
		return f.Committer.Apply(ctx, mutations...)
	})
	return late, err
}

func (f *meddledFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (done bool, err error) {
	err = f.change(ctx, func() (err error) {
		done, err = f.Committer.CheckAndPut(ctx, row, expect, puts...)
		return err
	})
	return done, err
}

func (f *meddledFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (done bool, err error) {
	err = f.change(ctx, func() (err error) {
		if f.db.blind && f.name[0] == 't' {
			expect = nil
		}
		done, err = f.Committer.Commit(ctx, row, expect, puts, deletes)
		return err
	})
	return done, err
}

func staleSchema(layout bool, conditional bool) Schema {
	return Schema{
		Name: "t", CellPerColumn: layout, Conditional: conditional,
		Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			RandomisedColumn("value", Int16), DeterministicColumn("kind", Int16),
			PlainColumn("zone", String), RandomisedColumn("note", Int16),
		},
	}
}

func staleRow(id int64, value int16) Row {
	return Row{"id": id, "value": value, "kind": int16(2), "zone": "somewhere", "note": -value}
}

// misplaced returns what is wrong, for a new client, with a row that was acknowledged.
func misplaced(t *testing.T, db driver.DB, want Row, where Predicate, by string) (faults []string) {
	t.Helper()
	tbl, err := stores(t, db, 1)[0].Table(t.Context(), "t")
	require.NoError(t, err)
	got, err := tbl.Get(t.Context(), Row{"id": want["id"]})
	require.NoError(t, err)
	for name, v := range want {
		if got[name] != v {
			faults = append(faults, fmt.Sprintf("%s is %v", name, got[name]))
		}
	}
	if len(got) != len(want) {
		faults = append(faults, "it has other columns")
	}
	ids, driven := answer(t, tbl, where)
	require.Equal(t, by, driven)
	n := 0
	for _, id := range ids {
		if id == want["id"] {
			n++
		}
	}
	if n != 1 {
		faults = append(faults, fmt.Sprintf("it is found %d times", n))
	}
	for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		old, err := tbl.now().Outdated(row, new(rowcodec.Scratch))
		require.NoError(t, err)
		if old {
			faults = append(faults, "a row is not stored as the schema says")
		}
	}
	return faults
}

// A client with an old schema sleeps before the last step of a Put, while another one changes the
// schema and converts all rows. What the sleeper puts is read and found as the new schema says, and
// would not be if the version were not read after that step.
func TestPutSleepsThroughAlter(t *testing.T) {
	value := Field[int16]("value")
	for name, c := range map[string]struct {
		changes []Change
		becomes func(row Row)
		where   Predicate
		by      string
		meddles Row  // what the other client puts besides, of the new schema
		needs   bool // the version
	}{
		"ordered": {
			changes: []Change{ChangeColumn(OrderedColumn("value", Int16, MOPE))},
			where:   value.Equal(77), by: "value", needs: true,
		},
		"deterministic": {
			changes: []Change{ChangeColumn(DeterministicColumn("value", Int16))},
			where:   value.Equal(77), by: "value", needs: true,
		},
		"sealed": {
			changes: []Change{ChangeColumn(RandomisedColumn("zone", String))},
			where:   value.Equal(77), by: "all rows", needs: true,
		},
		"no longer searched": {
			changes: []Change{ChangeColumn(RandomisedColumn("kind", Int16))},
			where:   value.Equal(77), by: "all rows", needs: true,
		},
		// Names are not stored with rows.
		"renamed": {
			changes: []Change{RenameColumn("value", "other"), RenameColumn("note", "value"), RenameColumn("other", "note")},
			becomes: func(row Row) { row["value"], row["note"] = row["note"], row["value"] },
			where:   value.Equal(-77), by: "all rows",
		},
		"dropped": {
			changes: []Change{DropColumn("note")},
			becomes: func(row Row) { delete(row, "note") },
			where:   value.Equal(77), by: "all rows", needs: true,
		},
		"another of its name": {
			changes: []Change{DropColumn("note"), AddColumn(OrderedColumn("note", Int16, MOPE))},
			becomes: func(row Row) { delete(row, "note") },
			where:   value.Equal(77), by: "all rows", needs: true,
		},
		"added": {
			changes: []Change{AddColumn(OrderedColumn("more", Int16, MOPE))},
			where:   value.Equal(77), by: "all rows",
		},
		"added, with a value": {
			changes: []Change{AddColumn(OrderedColumn("more", Int16, MOPE))},
			where:   value.Equal(77), by: "all rows",
			meddles: Row{"id": int64(1), "more": int16(5)}, needs: true,
		},
	} {
		for _, layout := range []bool{packed, cellPerColumn} {
			for _, conditional := range []bool{false, true} {
				for _, id := range []int64{1, 9} { // that exists, and does not
					run := func(t *testing.T, early bool) []string {
						memory := drivertest.NewMemory()
						other := stores(t, memory, 1)[0]
						theirs, err := other.Create(t.Context(), staleSchema(layout, conditional))
						require.NoError(t, err)
						for i := range int64(4) {
							require.NoError(t, theirs.Put(t.Context(), staleRow(i, int16(i))))
						}
						slept := false
						db := &meddled{DB: memory, early: early, before: func() {
							slept = true
							require.NoError(t, other.Alter(t.Context(), "t", c.changes...))
							if c.meddles != nil {
								require.NoError(t, theirs.Put(t.Context(), c.meddles))
							}
							_, err := theirs.Convert(t.Context(), nil)
							require.NoError(t, err)
						}}
						st := stores(t, db, 1)[0]
						tbl, err := st.Table(t.Context(), "t")
						require.NoError(t, err)
						err = tbl.Put(t.Context(), staleRow(id, 77))
						if !early && (name == "dropped" || name == "another of its name") { // otherwise the writer does not look
							require.ErrorIs(t, err, ErrWritten)
						} else {
							require.NoError(t, err)
						}
						require.True(t, slept)
						want := staleRow(id, 77)
						if c.becomes != nil {
							c.becomes(want)
						}
						return misplaced(t, memory, want, c.where, c.by)
					}
					t.Run(fmt.Sprintf("%s/%v/conditional=%t/%d", name, layout, conditional, id), func(t *testing.T) {
						require.Empty(t, run(t, false))
						// A conditional Put of a row that was converted meanwhile begins again, with its last step too.
						// What the other client has put is in the way of the same row only.
						if !c.needs || conditional && id == 1 || c.meddles != nil && id != 1 {
							return
						}
						require.NotEmpty(t, run(t, true), "the version could be read earlier")
					})
				}
			}
		}
	}
}

// A row that is written or deleted after a conversion has read it, and before it is replaced, stays
// as it was written; that is due to the condition of the replacement.
func TestConvertLosesNoWrite(t *testing.T) {
	value := Field[int16]("value")
	for _, layout := range []bool{packed, cellPerColumn} {
		for _, conditional := range []bool{false, true} {
			for _, remove := range []bool{false, true} {
				run := func(t *testing.T, blind bool) (faults []string) {
					memory := drivertest.NewMemory()
					other := stores(t, memory, 1)[0]
					theirs, err := other.Create(t.Context(), staleSchema(layout, conditional))
					require.NoError(t, err)
					require.NoError(t, theirs.Put(t.Context(), staleRow(1, 5)))
					require.NoError(t, other.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
					written := false
					db := &meddled{DB: memory, blind: blind, before: func() {
						written = true
						if remove {
							require.NoError(t, theirs.Delete(t.Context(), Row{"id": int64(1)}))
						} else {
							require.NoError(t, theirs.Put(t.Context(), staleRow(1, 77)))
						}
					}}
					tbl, err := stores(t, db, 1)[0].Table(t.Context(), "t")
					require.NoError(t, err)
					_, err = tbl.Convert(t.Context(), nil)
					require.NoError(t, err)
					require.True(t, written)
					if !remove {
						faults = misplaced(t, memory, staleRow(1, 77), value.Equal(77), "value")
					}
					if ids, _ := answer(t, theirs, value.Equal(5)); len(ids) > 0 {
						faults = append(faults, "what it was before is found")
					}
					return faults
				}
				t.Run(fmt.Sprintf("%v/conditional=%t/delete=%t", layout, conditional, remove), func(t *testing.T) {
					require.Empty(t, run(t, false))
					require.NotEmpty(t, run(t, true), "the condition was not needed")
				})
			}
		}
	}
}

// A client that does not know of a column replaces a row which has it, and dies. The column is null
// in the row from then on, and what is left of it makes no row torn: by the version that the column
// came with.
func TestCellsOfColumnsUnknownToTheWriter(t *testing.T) {
	more := Field[int16]("more")
	for name, column := range map[string]Column{
		"ordered": OrderedColumn("more", Int16, MOPE), "deterministic": DeterministicColumn("more", Int16),
		"randomised": RandomisedColumn("more", Int16), "plain": PlainColumn("more", Int16),
	} {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			schema := staleSchema(cellPerColumn, false)
			other := stores(t, memory, 1)[0]
			theirs, err := other.Create(t.Context(), schema)
			require.NoError(t, err)
			dead := false
			dying := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				if op.Method == "Apply" && op.Family[0] == 't' {
					dead = true
					return drivertest.CrashAfter
				}
				return drivertest.NoFault
			})
			stale, err := stores(t, dying, 1)[0].Table(t.Context(), "t")
			require.NoError(t, err)
			require.NoError(t, other.Alter(t.Context(), "t", AddColumn(column)))
			for i := range int64(3) {
				row := staleRow(i, int16(i))
				row["more"] = int16(5)
				require.NoError(t, theirs.Put(t.Context(), row))
			}
			require.ErrorIs(t, stale.Put(t.Context(), staleRow(1, 77)), drivertest.ErrInjected)
			require.True(t, dead)

			check := func() {
				t.Helper()
				tbl, err := stores(t, memory, 1)[0].Table(t.Context(), "t")
				require.NoError(t, err)
				got, err := tbl.Get(t.Context(), Row{"id": int64(1)})
				require.NoError(t, err)
				require.Equal(t, staleRow(1, 77), got)
				got, err = tbl.Get(t.Context(), Row{"id": int64(1)}, "more")
				require.NoError(t, err)
				require.Equal(t, Row{"id": int64(1)}, got)
				ids, _ := answer(t, tbl, more.Equal(5))
				require.Equal(t, []int64{0, 2}, ids)
				report, err := tbl.Verify(t.Context(), nil)
				require.NoError(t, err)
				require.Empty(t, report.Faults)
			}
			check()
			stats, err := theirs.Convert(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, 1, stats.Converted, "what is left of the column goes")
			check()
		})
	}
}

// convertCut converts a table in so many parts, or by Convert.
func convertCut(ctx context.Context, tbl *Table, parts int) error {
	if parts == 0 {
		_, err := tbl.Convert(ctx, nil)
		return err
	}
	_, err := convertParts(ctx, tbl, parts)
	return err
}

// A client that dies at any call of a conversion loses no row and no value, and another one brings
// the conversion to its end.
func TestConvertCrashesAtEveryCall(t *testing.T) {
	const rows = 6
	value := Field[int16]("value")
	for name, c := range map[string]struct {
		to          Column
		layout      bool
		conditional bool
		cuts        [2]int // parts that the one who dies cuts the table into, and the other; 0 for Convert
	}{
		"packed":                {OrderedColumn("value", Int16, MOPE), packed, false, [2]int{}},
		"cells":                 {DeterministicColumn("value", Int16), cellPerColumn, false, [2]int{}},
		"mutable":               {OrderedColumn("value", Int16, Kerschbaum), packed, false, [2]int{}},
		"conditional":           {OrderedColumn("value", Int16, MOPE), packed, true, [2]int{}},
		"cells and conditional": {OrderedColumn("value", Int16, MOPE), cellPerColumn, true, [2]int{}},
		"parts":                 {OrderedColumn("value", Int16, MOPE), packed, false, [2]int{20, 3}},
		"parts, then all":       {DeterministicColumn("value", Int16), cellPerColumn, true, [2]int{20, 0}},
		"all, then parts":       {OrderedColumn("value", Int16, MOPE), packed, false, [2]int{0, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Each row has its values, is there once, and is found once by the column that changed.
			check := func(t *testing.T, tbl *Table, by string) {
				t.Helper()
				seen := make(map[int64]int)
				for row, err := range tbl.Query(t.Context(), Query{}) {
					require.NoError(t, err)
					id := row["id"].(int64)
					want := staleRow(id, int16(id/2))
					delete(want, "kind")
					require.Equal(t, want, row)
					seen[id]++
				}
				require.Len(t, seen, rows)
				for i := range int64(rows / 2) {
					ids, driven := answer(t, tbl, value.Equal(int16(i)))
					require.Equal(t, []int64{2 * i, 2*i + 1}, ids)
					if by != "" {
						require.Equal(t, by, driven)
					}
				}
				for id, n := range seen {
					require.Equal(t, 1, n, "row %d", id)
				}
			}
			step, died, calls := sim.Every(13), 0, 0
			if testing.Short() {
				step = 11
			}
			for _, late := range []bool{false, true} {
				over := false
				for n := 1; !over; n += step {
					synctest.Test(t, func(t *testing.T) { // pauses take no time
						memory := drivertest.NewMemory()
						two := stores(t, memory, 2)
						tbl, err := two[0].Create(t.Context(), staleSchema(c.layout, c.conditional))
						require.NoError(t, err)
						for i := range int64(rows) {
							require.NoError(t, tbl.Put(t.Context(), staleRow(i, int16(i/2))))
						}
						require.NoError(t, two[0].Alter(t.Context(), "t", ChangeColumn(c.to), ChangeColumn(RandomisedColumn("zone", String)), DropColumn("kind")))
						opened, counting := false, 0
						dying, err := stores(t, drivertest.NewFaulty(memory, func(drivertest.Op) drivertest.Fault {
							if !opened {
								return drivertest.NoFault
							}
							counting++
							switch {
							case counting != n:
								return drivertest.NoFault
							case late:
								return drivertest.CrashAfter
							}
							return drivertest.CrashBefore
						}), 1)[0].Table(t.Context(), "t")
						require.NoError(t, err)
						opened = true
						err = convertCut(t.Context(), dying, c.cuts[0])
						if counting < n {
							require.NoError(t, err)
							over = true
							return
						}
						require.ErrorIs(t, err, drivertest.ErrInjected)
						died++
						calls = max(calls, counting)
						fresh, err := two[1].Table(t.Context(), "t")
						require.NoError(t, err)
						check(t, fresh, "")
						require.NoError(t, convertCut(t.Context(), fresh, c.cuts[1]))
						check(t, fresh, "value")
						status, err := fresh.Status(t.Context())
						require.NoError(t, err)
						require.Empty(t, status.Pending)
						require.Equal(t, status.Total, status.Done)
						report, err := fresh.Verify(t.Context(), nil)
						require.NoError(t, err)
						require.Empty(t, report.Faults)
					})
				}
			}
			t.Logf("%d crashes, in up to %d calls", died, calls)
			require.Greater(t, died, 2*cmp.Or(c.cuts[0], sweepParts)/step, "there are some calls for each part")
		})
	}
}

// A Put that fails after it has written, while another client changes the schema and converts the
// table, still makes sure of what it may have written, and says what it cannot be sure of.
func TestFailedPutIsSettled(t *testing.T) {
	value := Field[int16]("value")
	for _, layout := range []bool{packed, cellPerColumn} {
		for _, call := range []string{"put", "conditional put", "update"} {
			// run returns the error of the call, and what is wrong with the row then.
			run := func(t *testing.T, blind bool) (faults []string, err error) {
				memory, ctx := drivertest.NewMemory(), t.Context()
				other := stores(t, memory, 1)[0]
				theirs, err := other.Create(ctx, staleSchema(layout, call != "put"))
				require.NoError(t, err)
				require.NoError(t, theirs.Put(ctx, staleRow(1, 5), staleRow(2, 6)))
				armed, failing := false, false
				db := &meddled{DB: memory, before: func() {
					require.NoError(t, other.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
					if call != "update" { // which would find out by that
						_, err := theirs.Convert(ctx, nil)
						require.NoError(t, err)
					}
				}}
				st := stores(t, drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
					switch {
					case !armed:
					case op.Family[0] == 't' && !op.Reads() && !failing:
						failing = true
						return drivertest.FailAfter
					case failing && (op.Family[0] == 't' && op.Reads() && call != "put" || blind):
						// A conditional change would be resolved by that.
						armed = blind
						return drivertest.FailBefore
					}
					return drivertest.NoFault
				}), 1)[0]
				tbl, err := st.Table(ctx, "t")
				require.NoError(t, err)
				armed = true
				id := int64(9)
				if call == "update" {
					id = 1
					err = tbl.Update(ctx, Row{"id": id, "value": int16(77)})
				} else {
					err = tbl.Put(ctx, staleRow(id, 77))
				}
				want := staleRow(id, 77)
				if call == "update" {
					want["note"] = int16(-5)
					_, converted := theirs.Convert(ctx, nil)
					require.NoError(t, converted)
				}
				require.True(t, failing)
				return misplaced(t, memory, want, value.Equal(77), "value"), err
			}
			t.Run(fmt.Sprintf("%v/%s", layout, call), func(t *testing.T) {
				faults, err := run(t, false)
				var batch *BatchError
				require.ErrorAs(t, err, &batch)
				require.Equal(t, []int{0}, batch.Failed)
				require.ErrorIs(t, err, drivertest.ErrInjected)
				require.ErrorContains(t, err, "the schema was changed during the call")
				require.Empty(t, faults)
				if call == "update" {
					return
				}
				faults, err = run(t, true)
				require.ErrorAs(t, err, &batch)
				require.Equal(t, []int{0}, batch.Failed, "the row is to be put again, which settles it")
				require.NotEmpty(t, faults)
			})
		}
	}
}

// What another client has just made of the schema counts before a name is refused. A name that nobody
// knows costs one read.
func TestNamesOfColumnsThatOthersMade(t *testing.T) {
	ctx := t.Context()
	more := Field[int16]("more")
	calls := map[string]func(tbl *Table) error{
		"put": func(tbl *Table) error {
			row := staleRow(1, 77)
			row["more"] = int16(5)
			return tbl.Put(ctx, row)
		},
		"get": func(tbl *Table) error {
			row, err := tbl.Get(ctx, Row{"id": int64(1)}, "more")
			if err == nil {
				require.Equal(t, Row{"id": int64(1), "more": int16(5)}, row)
			}
			return err
		},
		"where": func(tbl *Table) error {
			for row, err := range tbl.Query(ctx, Query{Where: more.Equal(5)}) {
				if err != nil {
					return err
				}
				require.Equal(t, int64(1), row["id"])
			}
			return nil
		},
		"columns": func(tbl *Table) error {
			for _, err := range tbl.Query(ctx, Query{Columns: []string{"more"}}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"update": func(tbl *Table) error { return tbl.Update(ctx, Row{"id": int64(1), "more": int16(5)}) },
		"page": func(tbl *Table) error {
			_, _, err := tbl.Page(ctx, Query{Where: more.AtLeast(0), Limit: 5})
			return err
		},
		"explain": func(tbl *Table) error {
			_, err := tbl.Analyze(ctx, Query{Where: more.Equal(5)})
			return err
		},
		"get by another key": func(tbl *Table) error {
			_, err := tbl.Get(ctx, Row{"number": int64(1)})
			return err
		},
		"delete by another key": func(tbl *Table) error { return tbl.Delete(ctx, Row{"number": int64(2)}) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			other := stores(t, memory, 1)[0]
			theirs, err := other.Create(ctx, staleSchema(packed, name == "update"))
			require.NoError(t, err)
			require.NoError(t, theirs.Put(ctx, staleRow(1, 77)))
			var counted []string
			counting := false
			open := func() *Table {
				counting = false
				st := stores(t, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
					if counting && op.Method != "Family" && op.Method != "Snapshot" {
						counted = append(counted, op.Method+" "+op.Family)
					}
					return drivertest.NoFault
				}), 1)[0]
				tbl, err := st.Table(ctx, "t")
				require.NoError(t, err)
				counting = true
				return tbl
			}
			tbl := open()
			require.ErrorIs(t, call(tbl), ErrColumn)
			require.Equal(t, []string{"Get catalogue"}, counted)

			tbl = open()
			if name == "get by another key" || name == "delete by another key" {
				require.NoError(t, other.Alter(ctx, "t", RenameColumn("id", "number")))
			} else {
				require.NoError(t, other.Alter(ctx, "t", AddColumn(OrderedColumn("more", Int16, MOPE))))
				row := staleRow(1, 77)
				row["more"] = int16(5)
				require.NoError(t, theirs.Put(ctx, row))
			}
			require.NoError(t, call(tbl))
		})
	}
}

// A client with an old schema sleeps before it updates or deletes a row under a condition, while
// another one changes the schema, and converts the rows or updates this one too, or does not.
func TestUpdateAndDeleteSleepThroughAlter(t *testing.T) {
	value := Field[int16]("value")
	for name, c := range map[string]struct {
		changes []Change // nil for new keys
		becomes func(row Row)
		by      string // what the value drives once rows are converted
	}{
		"keys":               {by: "all rows"},
		"ordered":            {changes: []Change{ChangeColumn(OrderedColumn("value", Int16, MOPE))}, by: "value"},
		"mutable":            {changes: []Change{ChangeColumn(OrderedColumn("value", Int16, Kerschbaum))}, by: "value"},
		"plain":              {changes: []Change{ChangeColumn(PlainColumn("value", Int16))}, by: "all rows"},
		"no longer searched": {changes: []Change{ChangeColumn(RandomisedColumn("kind", Int16))}, by: "all rows"},
		"sealed":             {changes: []Change{ChangeColumn(RandomisedColumn("zone", String))}, by: "all rows"},
		"renamed": {
			changes: []Change{RenameColumn("zone", "place"), RenameColumn("kind", "zone")},
			becomes: func(row Row) {
				row["place"], row["zone"] = row["zone"], row["kind"]
				delete(row, "kind")
			}, by: "all rows",
		},
		"dropped": {
			changes: []Change{DropColumn("kind")},
			becomes: func(row Row) { delete(row, "kind") }, by: "all rows",
		},
		"another of its name": {
			changes: []Change{DropColumn("kind"), AddColumn(OrderedColumn("kind", Int16, MOPE))},
			becomes: func(row Row) { delete(row, "kind") }, by: "all rows",
		},
	} {
		for _, layout := range []bool{packed, cellPerColumn} {
			for _, oneCell := range []bool{false, true} {
				for _, then := range []string{"", "convert", "update", "update and convert"} {
					for _, remove := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/%v/%t/%s/delete=%t", name, layout, oneCell, then, remove), func(t *testing.T) {
							ctx, memory := t.Context(), drivertest.NewMemory()
							direct := noSnapshots{memory, oneCell}
							other := stores(t, direct, 1)[0]
							theirs, err := other.Create(ctx, staleSchema(layout, true))
							require.NoError(t, err)
							require.NoError(t, theirs.Put(ctx, staleRow(1, 5), staleRow(2, 77)))
							want, slept := staleRow(1, 77), false
							want["note"] = int16(-5)
							db := &meddled{DB: memory, before: func() {
								slept = true
								if c.changes == nil {
									require.NoError(t, other.RotateKeys(ctx, "t"))
								} else {
									require.NoError(t, other.Alter(ctx, "t", c.changes...))
								}
								if strings.Contains(then, "update") {
									want["note"] = int16(9)
									require.NoError(t, theirs.Update(ctx, Row{"id": int64(1), "note": int16(9)}))
								}
								if strings.Contains(then, "convert") {
									_, err := theirs.Convert(ctx, nil)
									require.NoError(t, err)
								}
							}}
							stale, err := stores(t, noSnapshots{db, oneCell}, 1)[0].Table(ctx, "t")
							require.NoError(t, err)
							if remove {
								require.NoError(t, stale.Delete(ctx, Row{"id": int64(1)}))
							} else {
								require.NoError(t, stale.Update(ctx, Row{"id": int64(1), "value": int16(77)}))
							}
							require.True(t, slept)
							fresh, err := stores(t, direct, 1)[0].Table(ctx, "t")
							require.NoError(t, err)
							check := func() {
								t.Helper()
								got, err := fresh.Get(ctx, Row{"id": int64(1)})
								require.NoError(t, err)
								ids, _ := answer(t, fresh, value.Equal(77))
								if remove {
									require.Nil(t, got)
									require.Equal(t, []int64{2}, ids)
								} else {
									require.Equal(t, want, got)
									require.Equal(t, []int64{1, 2}, ids)
								}
								ids, _ = answer(t, fresh, value.Equal(5))
								require.Empty(t, ids)
								report, err := fresh.Verify(ctx, nil)
								require.NoError(t, err)
								require.Empty(t, report.Faults)
							}
							if c.becomes != nil {
								c.becomes(want)
							}
							check()
							if !remove && then == "update and convert" {
								_, by := answer(t, fresh, value.Equal(77))
								require.Equal(t, c.by, by)
							}
							_, err = fresh.Convert(ctx, nil)
							require.NoError(t, err)
							check()
							_, by := answer(t, fresh, value.Equal(77))
							require.Equal(t, c.by, by)
							// What is left of a row that was deleted is in nobody's way.
							next := staleRow(1, 6)
							if c.becomes != nil {
								c.becomes(next)
							}
							require.NoError(t, fresh.Put(ctx, next))
							got, err := fresh.Get(ctx, Row{"id": int64(1)})
							require.NoError(t, err)
							require.Equal(t, next, got)
						})
					}
				}
			}
		}
	}
}
