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

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

func alterSchema(name string) Schema {
	return Schema{
		Name:    name,
		Key:     []KeyPart{HashedPart("id", Int64), OrderedPart("at", Int64, MOPE)},
		Columns: []Column{RandomisedColumn("note", String), PlainColumn("zone", Int32)},
	}
}

// stores opens one database as several independent clients.
func stores(t *testing.T, db driver.DB, n int) []*Store {
	t.Helper()
	list := make([]*Store, n)
	for i := range list {
		var err error
		list[i], err = Open(t.Context(), db, kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		require.NoError(t, list[i].Close(t.Context())) // writes leave nothing to do, so that tests see all that they do
	}
	return list
}

func columnNames(s Schema) []string {
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.Describe().Name)
	}
	return names
}

// schemaOf returns what a new client finds in the catalogue.
func schemaOf(t *testing.T, db driver.DB, table string) Schema {
	t.Helper()
	tbl, err := stores(t, db, 1)[0].Table(t.Context(), table)
	require.NoError(t, err)
	return tbl.Schema()
}

func TestAlter(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	row := Row{"id": int64(1), "at": int64(2), "note": "n", "zone": int32(3)}
	require.NoError(t, tbl.Put(ctx, row))

	require.NoError(t, st.Alter(ctx, "t", AddColumn(OrderedColumn("value", Int64, MOPE)), RenameColumn("note", "text"), RenameColumn("at", "time")))
	require.Equal(t, []string{"text", "zone", "value"}, columnNames(schemaOf(t, db, "t")))
	require.Equal(t, []string{"text", "zone", "value"}, columnNames(tbl.Schema()), "a table that is open has the new schema")
	again, err := st.Table(ctx, "t")
	require.NoError(t, err)
	require.Same(t, tbl, again)
	got, err := tbl.Get(ctx, Row{"id": int64(1), "time": int64(2)})
	require.NoError(t, err)
	require.Equal(t, Row{"id": int64(1), "time": int64(2), "text": "n", "zone": int32(3)}, got)
	row = Row{"id": int64(1), "time": int64(4), "text": "m", "value": int64(5)}
	require.NoError(t, tbl.Put(ctx, row))
	for got, err := range tbl.Query(ctx, Query{Where: Field[int64]("value").AtLeast(5)}) {
		require.NoError(t, err)
		require.Equal(t, row, got)
	}

	require.NoError(t, st.Alter(ctx, "t", DropColumn("zone"), AddColumn(RandomisedColumn("zone", String))))
	got, err = tbl.Get(ctx, Row{"id": int64(1), "time": int64(2)})
	require.NoError(t, err)
	require.Equal(t, Row{"id": int64(1), "time": int64(2), "text": "n"}, got, "a column of the same name is another one")

	require.NoError(t, st.RenameTable(ctx, "t", "u"))
	_, err = st.Table(ctx, "t")
	require.ErrorIs(t, err, ErrNoTable)
	again, err = st.Table(ctx, "u")
	require.NoError(t, err)
	require.Same(t, tbl, again)
	require.Equal(t, "u", tbl.Schema().Name)
	_, err = st.Create(ctx, alterSchema("t"))
	require.NoError(t, err, "the name is free again")
	require.NoError(t, st.Drop(ctx, "u"))
	names, err := db.Families(ctx)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(names, " "), strings.TrimPrefix(tbl.now().Meta.DataFamily(), "t"))
}

// What makes no sense is refused at the call, with a reason, and changes nothing.
func TestAlterRefused(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	_, err = st.Create(ctx, alterSchema("other"))
	require.NoError(t, err)
	_, err = st.Create(ctx, Schema{Name: "clear", Key: []KeyPart{PlainPart("id", Int64)}, Columns: []Column{PlainColumn("c", Int64)}})
	require.NoError(t, err)
	many := make([]Change, 999)
	for i := range many {
		many[i] = AddColumn(RandomisedColumn(fmt.Sprint("c", i), Bool))
	}
	before, err := st.db.Catalogue.Version(ctx, nil)
	require.NoError(t, err)
	for _, c := range []struct {
		changes []Change
		kind    error
		text    string
	}{
		{[]Change{AddColumn(PlainColumn("note", Int8))}, ErrExists, `"note"`},
		{[]Change{AddColumn(PlainColumn("at", Int8))}, ErrExists, `"at"`},
		{[]Change{AddColumn(PlainColumn("new", Int8)), AddColumn(PlainColumn("new", Int8))}, ErrExists, `"new"`},
		{[]Change{AddColumn(PlainColumn("", Int8))}, ErrSchema, "1 to 100 bytes"},
		{[]Change{AddColumn(PlainColumn("\xff", Int8))}, ErrSchema, "UTF-8"},
		{[]Change{AddColumn(Column{})}, ErrSchema, ""},
		{[]Change{{}}, ErrSchema, "not made by a function"},
		{many, ErrSchema, "at most 1000"},
		{[]Change{DropColumn("none")}, ErrColumn, `"none"`},
		{[]Change{DropColumn("id")}, ErrSchema, "part of the row key"},
		{[]Change{ChangeColumn(PlainColumn("at", Int64))}, ErrSchema, "part of the row key"},
		{[]Change{ChangeColumn(PlainColumn("none", Int64))}, ErrColumn, `"none"`},
		{[]Change{ChangeColumn(DeterministicColumn("note", Int64))}, ErrSchema, "type cannot be changed"},
		{[]Change{ChangeColumn(RandomisedColumn("zone", Int32.Within(0, 5)))}, ErrSchema, "type cannot be changed"},
		{[]Change{RenameColumn("none", "some")}, ErrColumn, `"none"`},
		{[]Change{RenameColumn("note", "zone")}, ErrExists, `"zone"`},
		{[]Change{RenameColumn("note", "id")}, ErrExists, `"id"`},
		{[]Change{RenameColumn("note", "")}, ErrSchema, "1 to 100 bytes"},
		{[]Change{AddColumn(RandomisedColumn("new", Int8).DatabaseWide())}, ErrSchema, "only deterministic and ordered"},
		{[]Change{AddColumn(DeterministicColumn("new", Int8).SharedWith("none", "x"))}, ErrNoTable, `"none"`},
		{[]Change{AddColumn(DeterministicColumn("new", Int8).SharedWith("other", "x"))}, ErrColumn, `"x"`},
		{[]Change{AddColumn(DeterministicColumn("new", Int64).SharedWith("other", "id"))}, ErrSchema, "part of the row key"},
		{[]Change{AddColumn(DeterministicColumn("new", String).SharedWith("other", "note"))}, ErrSchema, "deterministic"},
	} {
		err := st.Alter(ctx, "t", c.changes...)
		require.ErrorIs(t, err, c.kind)
		require.ErrorContains(t, err, c.text)
		require.False(t, Retryable(err))
	}
	require.ErrorIs(t, st.Alter(ctx, "none", DropColumn("x")), ErrNoTable)
	require.ErrorIs(t, st.Alter(ctx, "clear", AddColumn(RandomisedColumn("s", Int64))), ErrSchema)
	require.ErrorIs(t, st.Alter(ctx, "clear", ChangeColumn(OrderedColumn("c", Int64, MOPE))), ErrSchema)
	require.ErrorIs(t, st.RenameTable(ctx, "none", "some"), ErrNoTable)
	require.ErrorIs(t, st.RenameTable(ctx, "t", "other"), ErrExists)
	require.ErrorIs(t, st.RenameTable(ctx, "t", "t"), ErrExists)
	require.ErrorIs(t, st.RenameTable(ctx, "t", ""), ErrSchema)
	require.ErrorIs(t, st.RotateKeys(ctx, "t", "none"), ErrColumn)
	require.ErrorIs(t, st.RotateKeys(ctx, "t", "zone"), ErrColumn)
	err = st.RotateKeys(ctx, "t", "id")
	require.ErrorIs(t, err, ErrColumn)
	require.NotErrorIs(t, err, ErrSchema)
	require.ErrorContains(t, err, "is a part of the row key, which has no key of its own")
	require.ErrorIs(t, st.Drop(ctx, "none"), ErrNoTable)
	require.NoError(t, st.Alter(ctx, "t"))
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(PlainColumn("zone", Int32))), "as it is")
	after, err := st.db.Catalogue.Version(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.Equal(t, []string{"note", "zone"}, columnNames(schemaOf(t, db, "t")))

	require.NoError(t, st.Alter(ctx, "clear", AddColumn(PlainColumn("d", Int64))))
	require.NoError(t, st.Alter(ctx, "t", many[:998]...))
	require.ErrorIs(t, st.Alter(ctx, "t", many[998]), ErrSchema)
}

// A change of what can be searched gives the column another id; the old one is kept for the rows
// that have it, until they are converted.
func TestChangeColumn(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	meta := func() *tableMeta {
		m, _, err := st.db.Catalogue.Table(ctx, "t")
		require.NoError(t, err)
		return m
	}
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(RandomisedColumn("zone", Int32))))
	require.Len(t, meta().Columns[1].CellKeys, 1)
	require.Empty(t, meta().Columns[1].Former[0].CellKeys)

	first := meta().Columns[0]
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("note", String, Kerschbaum))))
	second := meta().Columns[0]
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, meta().Version, second.Since)
	require.Equal(t, "note", second.Name)
	require.Len(t, second.Former, 1)
	require.Equal(t, first.ID, second.Former[0].ID)
	require.Equal(t, first.CellKeys, second.Former[0].CellKeys)
	swept := meta().Version
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(DeterministicColumn("note", String))))
	third := meta().Columns[0]
	require.Equal(t, []columnID{second.ID, first.ID}, []columnID{third.Former[0].ID, third.Former[1].ID})
	require.Empty(t, third.Former[0].Former)
	require.NotEqual(t, second.SearchKey, third.SearchKey)

	settle := func(name string, swept uint32) uint32 {
		version, err := st.db.Catalogue.Settle(ctx, name, tbl.open().ID(), swept)
		require.NoError(t, err)
		return version
	}
	require.Equal(t, swept, settle("t", swept))
	require.Equal(t, third, meta().Columns[0], "rows may still have former ids")
	require.Equal(t, meta().Version+1, settle("a former name", meta().Version))
	for _, f := range meta().Columns[0].Former {
		require.True(t, f.Converted)
	}
	version := meta().Version
	require.Equal(t, version, settle("t", version))
	require.Equal(t, version, meta().Version, "nothing was left to do")
	require.Zero(t, settle("t", 1), "nor is it known of what is between")
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("zone", Int32, MOPE))))
	swept = meta().Version
	require.NoError(t, st.RotateKeys(ctx, "t"))
	require.Equal(t, swept, settle("t", swept), "rows may have the former keys")
	require.True(t, meta().Columns[1].Former[0].Converted)
	require.NoError(t, st.Alter(ctx, "t", DropColumn("note")))
	require.Equal(t, []columnID{third.ID, second.ID}, meta().Dropped, "of those that had postings")
	_, err = st.db.Catalogue.Settle(ctx, "t", tableID{1}, 1)
	require.ErrorIs(t, err, ErrNoTable)
}

func TestRotateKeys(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	for _, layout := range []bool{packed, cellPerColumn} {
		schema := tamperSchema(inspect.Layout(layout), layout)
		tbl, err := st.Create(ctx, schema)
		require.NoError(t, err)
		row := func(i int64) Row {
			return Row{"id": i, "at": i, "ordered": i, "also": i, "token": "t", "secret": "s", "other": "o", "plain": "p"}
		}
		for i := range int64(4) {
			require.NoError(t, tbl.Put(ctx, row(i)))
			if i == 2 {
				require.NoError(t, st.RotateKeys(ctx, schema.Name, "secret"))
				continue
			}
			require.NoError(t, st.RotateKeys(ctx, schema.Name))
		}
		for _, tbl := range []*Table{tbl, tableOfAnother(t, db, schema.Name)} {
			for i := range int64(4) {
				got, err := tbl.Get(ctx, row(i))
				require.NoError(t, err)
				require.Equal(t, row(i), got)
				n := 0
				for got, err := range tbl.Query(ctx, Query{Where: Field[int64]("ordered").Equal(i)}) {
					require.NoError(t, err)
					require.Equal(t, row(i), got)
					n++
				}
				require.Equal(t, 1, n, "what values are found by has not changed")
			}
		}
		// Each row's key cell is sealed with another key.
		ids := make(map[string]bool)
		for r, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			ids[string(r.Cells[0].Value[1:17])] = true
		}
		require.Len(t, ids, 4)
		meta := tbl.now().Meta
		require.Len(t, meta.RowKeys, 5)
		for _, f := range meta.Columns {
			want := map[string]int{"secret": 5, "plain": 0}
			n, ok := want[f.Name]
			if !ok {
				n = 4
			}
			require.Len(t, f.CellKeys, n, f.Name)
		}
	}
}

// A client that does not know of new keys finds out when it meets what they sealed, whatever it does.
func TestRotateKeysBehindAClient(t *testing.T) {
	ctx := t.Context()
	row := func(i int64) Row {
		return Row{"id": i, "at": i, "ordered": i, "also": i, "token": "t", "secret": "s", "other": "o", "plain": "p"}
	}
	for name, meet := range map[string]func(*testing.T, *Table){
		"get": func(t *testing.T, tbl *Table) {
			got, err := tbl.Get(ctx, row(1))
			require.NoError(t, err)
			require.Equal(t, row(1), got)
		},
		"query": func(t *testing.T, tbl *Table) {
			n := 0
			for got, err := range tbl.Query(ctx, Query{Where: Field[int64]("ordered").Equal(1)}) {
				require.NoError(t, err)
				require.Equal(t, row(1), got)
				n++
			}
			require.Equal(t, 1, n)
		},
		"put": func(t *testing.T, tbl *Table) { require.NoError(t, tbl.Put(ctx, row(1))) },
		"delete": func(t *testing.T, tbl *Table) {
			require.NoError(t, tbl.Delete(ctx, row(1)))
		},
		"verify": func(t *testing.T, tbl *Table) {
			report, err := tbl.Verify(ctx, nil)
			require.NoError(t, err)
			require.True(t, report.Sound(), report.Faults)
		},
		"convert": func(t *testing.T, tbl *Table) {
			stats, err := tbl.Convert(ctx, nil)
			require.NoError(t, err)
			require.Zero(t, stats.Unreadable)
		},
	} {
		for _, layout := range []bool{packed, cellPerColumn} {
			t.Run(fmt.Sprint(name, ", ", layout), func(t *testing.T) {
				db := drivertest.NewMemory()
				st := stores(t, db, 1)[0]
				tbl, err := st.Create(ctx, tamperSchema("t", layout))
				require.NoError(t, err)
				asleep := tableOfAnother(t, db, "t")
				require.NoError(t, st.RotateKeys(ctx, "t"))
				require.NoError(t, tbl.Put(ctx, row(1)))
				meet(t, asleep)
				report, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.True(t, report.Sound(), report.Faults)
				require.Zero(t, report.Dangling)
			})
		}
	}
}

func tableOfAnother(t *testing.T, db driver.DB, name string) *Table {
	t.Helper()
	tbl, err := stores(t, db, 1)[0].Table(t.Context(), name)
	require.NoError(t, err)
	return tbl
}

// Many clients change one table at a time, over a database that loses answers: every change that
// is acknowledged was made, once, and none was lost.
func TestConcurrentAlter(t *testing.T) {
	const clients, each = 8, 6
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	memory := drivertest.NewMemory()
	st := stores(t, memory, 1)[0]
	_, err := st.Create(t.Context(), alterSchema("t"))
	require.NoError(t, err)
	_, err = st.Create(t.Context(), alterSchema("u"))
	require.NoError(t, err)
	var mu sync.Mutex
	var faults bool
	random := drivertest.Randomly(seed, 0.1)
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if f := random(op); faults && op.Conditional() {
			return f
		}
		return drivertest.NoFault
	})
	list := stores(t, db, clients)
	mu.Lock()
	faults = true
	mu.Unlock()
	made := make([][]string, clients)
	unsure := make([][]string, clients)
	var group sync.WaitGroup
	for i, st := range list {
		group.Go(func() {
			for j := range each {
				name := fmt.Sprintf("c%d_%d", i, j)
				column := RandomisedColumn(name, Int64)
				if j%2 == 0 {
					column = OrderedColumn(name, Int64, Kerschbaum)
				}
				err := st.Alter(t.Context(), []string{"t", "u"}[j%2], AddColumn(column))
				switch {
				case err == nil:
					made[i] = append(made[i], name)
				case errors.Is(err, driver.ErrUnknownOutcome) || errors.Is(err, driver.ErrUnavailable):
					unsure[i] = append(unsure[i], name)
				default:
					t.Errorf("%v", err)
				}
				// All want the same name; one gets it.
				if err := st.Alter(t.Context(), "t", AddColumn(PlainColumn(fmt.Sprint("same", j), Int64))); err == nil {
					mu.Lock()
					made[0] = append(made[0], fmt.Sprint("same", j))
					mu.Unlock()
				} else if !errors.Is(err, ErrExists) && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknownOutcome) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	group.Wait()
	names := append(columnNames(schemaOf(t, memory, "t")), columnNames(schemaOf(t, memory, "u"))...)
	slices.Sort(names)
	all := slices.Concat(made...)
	require.Greater(t, len(all), clients*each/2)
	for _, name := range all {
		require.Contains(t, names, name)
	}
	slices.Sort(all)
	require.Equal(t, slices.Compact(slices.Clone(all)), all, "a name was given to two")
	version, err := st.db.Catalogue.Version(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 3+len(names)-4, int(version), "each change was made once")
	// What was made without being known is among those that were tried.
	tried := slices.Concat(all, slices.Concat(unsure...))
	for _, name := range names {
		if strings.HasPrefix(name, "c") {
			require.Contains(t, tried, name)
		}
	}
}

// A client dies at any request: the change is there as a whole or not at all, the table can be
// used, and the change can be made by another.
func TestAlterCrash(t *testing.T) {
	ctx := context.Background()
	changes := map[string]struct {
		do   func(*Store) error
		made func(*Store) bool
	}{
		"add": {
			func(st *Store) error {
				return st.Alter(ctx, "t", AddColumn(OrderedColumn("value", Int64, Kerschbaum)), AddColumn(DeterministicColumn("shared", Int64).SharedWith("owner", "token")))
			},
			func(st *Store) bool { return hasColumn(st, "t", "value") },
		},
		"change": {
			func(st *Store) error {
				return st.Alter(ctx, "t", ChangeColumn(OrderedColumn("zone", Int32, WozniakIndexed)))
			},
			func(st *Store) bool {
				m, _, err := st.db.Catalogue.Table(ctx, "t")
				return err == nil && m.Columns[1].Scheme == WozniakIndexed.name
			},
		},
		"rename": {
			func(st *Store) error { return st.RenameTable(ctx, "t", "v") },
			func(st *Store) bool { return hasColumn(st, "v", "note") },
		},
		"drop": {
			func(st *Store) error { return st.Drop(ctx, "t") },
			func(st *Store) bool { return !hasColumn(st, "t", "note") },
		},
		"create": {
			func(st *Store) error {
				s := alterSchema("w")
				s.Columns = append(s.Columns, OrderedColumn("wide", Int64, Kerschbaum).DatabaseWide())
				_, err := st.Create(ctx, s)
				return err
			},
			func(st *Store) bool { return hasColumn(st, "w", "note") },
		},
		"rotate keys": {
			func(st *Store) error { return st.RotateKeys(ctx, "t") },
			func(st *Store) bool {
				m, _, err := st.db.Catalogue.Table(ctx, "t")
				return err == nil && len(m.RowKeys) == 2
			},
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			crashes, wasMade := 0, 0
			for n := 1; ; n++ {
				done := false
				for _, after := range []bool{false, true} {
					memory := drivertest.NewMemory()
					st := stores(t, memory, 1)[0]
					owner := alterSchema("owner")
					owner.Columns = append(owner.Columns, DeterministicColumn("token", Int64))
					for _, s := range []Schema{alterSchema("t"), owner} {
						_, err := st.Create(ctx, s)
						require.NoError(t, err)
					}
					calls := 0
					db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
						calls = op.N
						return drivertest.CrashAt(2+n, after)(op) // Open makes two
					})
					dying := stores(t, db, 1)[0]
					err := change.do(dying)
					done = err == nil && calls < 2+n
					if !done {
						crashes++
					}
					check := stores(t, memory, 1)[0]
					made := change.made(check)
					require.True(t, made || err != nil, "an acknowledged change is not there")
					if made {
						wasMade++
					}
					if !made {
						require.NoError(t, change.do(check))
						require.True(t, change.made(check))
					}
					metas, err := check.Tables(ctx)
					require.NoError(t, err)
					for _, s := range metas {
						tbl, err := check.Table(ctx, s.Name)
						require.NoError(t, err)
						require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "at": int64(2), "zone": int32(4)}))
					}
				}
				if done {
					break
				}
			}
			require.GreaterOrEqual(t, crashes, 4)
			require.Greater(t, wasMade, 2, "no crash after the change was made")
		})
	}
}

func hasColumn(st *Store, table, column string) bool {
	m, _, err := st.db.Catalogue.Table(context.Background(), table)
	return err == nil && slices.ContainsFunc(m.Columns, func(f fieldMeta) bool { return f.Name == column })
}

// Where columns of another table share keys with several that are renamed at once, all of them follow, also where two change their names.
func TestRenamedOwnersOfKeys(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	key := []KeyPart{HashedPart("id", Int64)}
	_, err := st.Create(ctx, Schema{Name: "owner", Key: key, Columns: []Column{DeterministicColumn("a", Int64), DeterministicColumn("b", Int64)}})
	require.NoError(t, err)
	_, err = st.Create(ctx, Schema{Name: "sharer", Key: key, Columns: []Column{
		DeterministicColumn("of a", Int64).SharedWith("owner", "a"), DeterministicColumn("of b", Int64).SharedWith("owner", "b"),
	}})
	require.NoError(t, err)
	for _, rename := range []struct {
		changes []Change
		a, b    string
	}{
		{[]Change{RenameColumn("a", "c"), RenameColumn("b", "d")}, "c", "d"},
		{[]Change{RenameColumn("c", "e"), RenameColumn("d", "c"), RenameColumn("e", "d")}, "d", "c"},
	} {
		require.NoError(t, st.Alter(ctx, "owner", rename.changes...))
		columns := schemaOf(t, db, "sharer").Columns
		require.Equal(t, &inspect.ColumnName{Table: "owner", Column: rename.a}, columns[0].Describe().KeyOf)
		require.Equal(t, &inspect.ColumnName{Table: "owner", Column: rename.b}, columns[1].Describe().KeyOf)
	}
	// So does a column that is added by the same change, and shares the key of one that follows.
	require.NoError(t, st.Alter(ctx, "owner", RenameColumn("d", "f"), AddColumn(DeterministicColumn("again", Int64).SharedWith("sharer", "of a"))))
	require.Equal(t, &inspect.ColumnName{Table: "owner", Column: "f"}, schemaOf(t, db, "owner").Columns[2].Describe().KeyOf)
}
