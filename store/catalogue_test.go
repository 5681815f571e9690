package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// catalogueCells returns the cells of a database's catalogue, and what replaces them.
func catalogueCells(t *testing.T, db driver.DB) (cells []driver.Cell, set func(...driver.Cell)) {
	t.Helper()
	family, err := db.Family(t.Context(), catalogueSpec)
	require.NoError(t, err)
	cells, err = family.Get(t.Context(), catalogueRow, driver.Slice{})
	require.NoError(t, err)
	return cells, func(cells ...driver.Cell) {
		m := driver.Mutation{Row: catalogueRow}
		for _, c := range cells {
			if c.Value == nil {
				m.Deletes = append(m.Deletes, c.Qualifier)
			} else {
				m.Puts = append(m.Puts, c)
			}
		}
		require.NoError(t, family.Apply(t.Context(), m))
	}
}

// entriesOf returns those cells of a catalogue that are entries.
func entriesOf(cells []driver.Cell) []driver.Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c driver.Cell) bool { return c.Qualifier[0] != tableEntry && c.Qualifier[0] != tenantEntry })
}

// Any cell that is put back, or removed, alone is noticed by who reads all of them. Nobody who is new notices if
// the whole row is put back. That is said in docs/security.md.
func TestCatalogueIsPutBack(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	for _, name := range []string{"a", "b"} {
		_, err := st.Create(ctx, alterSchema(name))
		require.NoError(t, err)
	}
	before, set := catalogueCells(t, db)
	require.NoError(t, st.Alter(ctx, "a", AddColumn(RandomisedColumn("new", Int64))))
	require.NoError(t, st.Alter(ctx, "b", AddColumn(RandomisedColumn("new", Int64))))
	now, _ := catalogueCells(t, db)
	changed := 0
	for i := range now {
		if bytes.Equal(before[i].Value, now[i].Value) {
			continue
		}
		changed++
		for _, value := range [][]byte{before[i].Value, nil} {
			if i == 0 && value == nil {
				continue // see TestTamperedCatalogue
			}
			set(driver.Cell{Qualifier: now[i].Qualifier, Value: value})
			_, err := stores(t, db, 1)[0].Tables(ctx)
			require.ErrorIs(t, err, ErrTampered)
			err = st.RenameTable(ctx, "b", "c")
			require.ErrorIs(t, err, ErrTampered, "a change that depends on all entries is made")
			set(now[i])
		}
	}
	require.Len(t, now, changed, "the root, both entries, and all nodes, which are above them")
	_, err := st.Tables(ctx)
	require.NoError(t, err)
	set(before...)
	_, err = stores(t, db, 1)[0].Tables(ctx)
	require.NoError(t, err, "the whole row is as it once was")
}

// Two databases of one master key, and two master keys, never mix: whatever of one is put into the
// other is refused.
func TestDatabasesDoNotMix(t *testing.T) {
	ctx := t.Context()
	master := ope.GenerateKey()
	var dbs []driver.DB
	for _, key := range []ope.Key{master, master, ope.GenerateKey()} {
		db := drivertest.NewMemory()
		st, err := Open(ctx, db, kms.NewLocal(key), nil)
		require.NoError(t, err)
		tbl, err := st.Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "at": int64(2), "note": "n"}))
		dbs = append(dbs, db)
	}
	own, set := catalogueCells(t, dbs[0])
	ours := entriesOf(own)[0]
	use := func() error {
		st, err := Open(ctx, dbs[0], kms.NewLocal(master), nil)
		if err != nil {
			return err
		}
		tbl, err := st.Table(ctx, "t")
		if err != nil {
			return err
		}
		_, err = tbl.Get(ctx, Row{"id": int64(1), "at": int64(2)})
		return err
	}
	require.NoError(t, use())
	seen := make(map[string]bool)
	for i, db := range dbs {
		cells, _ := catalogueCells(t, db)
		for _, c := range cells {
			require.False(t, seen[string(c.Qualifier)+"|"+string(c.Value)])
			seen[string(c.Qualifier)+"|"+string(c.Value)] = true
			require.True(t, i == 0 || !bytes.Equal(c.Qualifier, ours.Qualifier), "names of two databases can be compared")
		}
		if i == 0 {
			continue
		}
		set(cells[0])
		require.ErrorIs(t, use(), ErrWrongKey, "the root of another database")
		set(own...)
		set(driver.Cell{Qualifier: ours.Qualifier, Value: entriesOf(cells)[0].Value})
		require.ErrorIs(t, use(), ErrWrongKey, "the entry of another database")
		set(own...)
		// The wrapped key of the one with the sealed part of the other.
		wrapped, _, err := cutRoot(cells[0].Value)
		require.NoError(t, err)
		_, sealed, err := cutRoot(own[0].Value)
		require.NoError(t, err)
		mixed := slices.Concat(cells[0].Value[:3], wrapped, sealed)
		set(driver.Cell{Qualifier: rootQualifier, Value: mixed})
		if i == 1 { // under the same master key, so that it can be unwrapped
			require.ErrorIs(t, use(), ErrTampered)
		} else {
			require.ErrorIs(t, use(), ErrWrongKey)
		}
		set(own...)
	}
	require.NoError(t, use())
}

// A catalogue of a newer format is refused, with what is needed.
func TestNewerCatalogue(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	cells, set := catalogueCells(t, db)
	newer := bytes.Clone(cells[0].Value)
	newer[0] = formatFields + 1
	set(driver.Cell{Qualifier: rootQualifier, Value: newer})
	_, err = Open(ctx, db, kms.NewLocal(testMaster), nil)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, "use the version that wrote it or a later one")
	require.ErrorIs(t, st.Alter(ctx, "t", DropColumn("note")), ErrFormat, "a client that is open notices too")
	set(cells...)

	// A table with what this version does not know.
	for _, change := range []func(*tableMeta){
		func(m *tableMeta) { m.Layout = "new" },
		func(m *tableMeta) { m.Columns[0].Type = "new/1" },
		func(m *tableMeta) { m.Columns[0].Encryption = "new" },
		func(m *tableMeta) { m.Columns[0].Confidentiality = "new" },
		func(m *tableMeta) { m.Columns[0].Confidentiality = ofColumns },
		func(m *tableMeta) { m.Columns[0].Encryption, m.Columns[0].Scheme = ordered, "new" },
	} {
		meta, _, err := st.db.Catalogue.Table(ctx, "t")
		require.NoError(t, err)
		change(meta)
		require.NoError(t, st.db.Catalogue.Change(ctx, []string{"t"}, func(e *edit) error { e.Put(meta); return nil }))
		_, err = stores(t, db, 1)[0].Table(ctx, "t")
		require.True(t, errors.Is(err, ErrFormat) || errors.Is(err, ErrTampered), "%v", err)
		now, _ := catalogueCells(t, db)
		require.NotEqual(t, cells, now)

		// What is not known would be lost by who writes the entry again.
		st = stores(t, db, 1)[0]
		for what, err := range map[string]error{
			"alter": st.Alter(ctx, "t", RenameColumn("zone", "area")), "rename": st.RenameTable(ctx, "t", "u"),
			"rotate": st.RotateKeys(ctx, "t"), "drop": st.Drop(ctx, "t"),
		} {
			require.True(t, errors.Is(err, ErrFormat) || errors.Is(err, ErrTampered), "%s: %v", what, err)
		}
		after, _ := catalogueCells(t, db)
		require.Equal(t, now, after)
		set(cells...)
		st = stores(t, db, 1)[0]
	}
}

// Programs that would lose fields of tables refuse the catalogue from the first such table on.
func TestFormatOfLaterFields(t *testing.T) {
	ctx := t.Context()
	plain := Schema{Key: []KeyPart{HashedPart("id", Int64), TiePart("tie")}, Columns: []Column{OrderedColumn("value", Int64, MOPE)}}
	added, conditional, served, chosen := plain, plain, plain, plain
	added.AppendOnly, conditional.Conditional = true, true
	served.Columns = []Column{OrderedColumn("value", Int64, MOPE).ServerIndex()}
	chosen.Conditional, chosen.Columns = true, []Column{OrderedColumn("value", Int64, MOPE).Covering("value")}
	expiring := plain
	expiring.TTL = time.Hour
	for name, test := range map[string]struct {
		schema Schema
		later  bool
	}{"plain": {plain, false}, "expiring": {expiring, false}, "conditional": {conditional, false}, "append only": {added, true}, "served": {served, true}, "chosen": {chosen, true}} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			st := stores(t, db, 1)[0]
			format := func() byte {
				cells, _ := catalogueCells(t, db)
				return cells[0].Value[0]
			}
			require.Equal(t, byte(catalogueFormat), format())
			test.schema.Name = "t"
			_, err := st.Create(ctx, test.schema)
			require.NoError(t, err)
			want := byte(catalogueFormat)
			if test.later {
				want = formatFields
			}
			require.Equal(t, want, format())

			// A lease comes and goes beside it.
			require.NoError(t, st.SetLease(ctx, 100*time.Millisecond))
			require.Equal(t, max(want, formatLease), format())
			lease, err := stores(t, db, 1)[0].Lease(ctx)
			require.NoError(t, err)
			require.Equal(t, 100*time.Millisecond, lease.Duration)
			require.NoError(t, st.SetLease(ctx, 0))
			require.Equal(t, want, format())

			// It stays when the table is gone: others may have been open meanwhile.
			require.NoError(t, st.Drop(ctx, "t"))
			require.Equal(t, want, format())
		})
	}
}

// Opening a database takes one read of the catalogue, and a table one more.
func TestCatalogueReads(t *testing.T) {
	ctx, memory := t.Context(), drivertest.NewMemory()
	schema := alterSchema("t")
	schema.Columns = append(schema.Columns, OrderedColumn("wide", Int64, Kerschbaum).DatabaseWide(), OrderedColumn("value", Int64, WozniakIndexed))
	_, err := stores(t, memory, 1)[0].Create(ctx, schema)
	require.NoError(t, err)
	var mu sync.Mutex
	reads := 0
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Family == catalogueFamily && op.Method != "Family" {
			reads++
		}
		return drivertest.NoFault
	})
	st := stores(t, db, 1)[0]
	require.Equal(t, 1, reads)
	_, err = st.Table(ctx, "t")
	require.NoError(t, err)
	require.Equal(t, 2, reads)
}

// A table of a thousand columns: its entry is small, and so is what is kept of it.
func TestThousandColumns(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	schema := Schema{Name: "wide", Key: []KeyPart{HashedPart("id", Int64)}}
	for i := range maxColumns {
		name := fmt.Sprintf("a column with a name of forty bytes %4d", i)
		schema.Columns = append(schema.Columns, []Column{
			RandomisedColumn(name, String), DeterministicColumn(name, String), OrderedColumn(name, Int64, MOPE), PlainColumn(name, Float64),
			OrderedColumn(name, Date, Boldyreva),
		}[i%5])
	}
	_, err := stores(t, db, 1)[0].Create(ctx, schema)
	require.NoError(t, err)
	cells, _ := catalogueCells(t, db)
	entry := entriesOf(cells)[0]
	require.Less(t, len(entry.Value), 1<<20)
	st := stores(t, db, 1)[0]
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	tbl, err := st.Table(ctx, "wide")
	require.NoError(t, err)
	after := used()
	t.Logf("the entry has %d bytes, the table takes %d", len(entry.Value), int64(after)-int64(before))
	require.Less(t, int64(after)-int64(before), int64(5<<20))
	require.Greater(t, int64(after)-int64(before), int64(100<<10), "nothing was measured")
	runtime.KeepAlive(tbl)
}

// Raw keys occur in no description.
func TestDescribe(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	schema := alterSchema("t")
	schema.Columns = append(schema.Columns, DeterministicColumn("a", Int64), DeterministicColumn("b", Int64).SharedWith("t", "a"),
		OrderedColumn("wide", Int64, Kerschbaum).DatabaseWide())
	tbl, err := st.Create(ctx, schema)
	require.NoError(t, err)
	other := alterSchema("u")
	other.Columns = append(other.Columns, OrderedColumn("also", Int64, Kerschbaum).DatabaseWide(), DeterministicColumn("c", Int64).SharedWith("t", "b"))
	_, err = st.Create(ctx, other)
	require.NoError(t, err)
	require.NoError(t, st.RotateKeys(ctx, "t", "a"))
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("zone", Int32, MOPE))))

	d, err := tbl.Describe(ctx)
	require.NoError(t, err)
	require.Equal(t, "t", d.Name)
	require.Equal(t, hex.EncodeToString(tbl.now().Meta.ID[:]), d.ID)
	require.EqualValues(t, 5, d.Version)
	require.Len(t, d.RowKeys, 2)
	require.Equal(t, []string{"i" + hex.EncodeToString(st.db.Catalogue.Database[:]), "t" + d.ID, "x" + d.ID}, d.Families)
	by := make(map[string]inspect.Field)
	for _, f := range append(d.Key, d.Columns...) {
		by[f.Name] = f
	}
	require.Equal(t, "hashed", by["id"].Encryption)
	require.NotEmpty(t, by["id"].SearchKey)
	require.Empty(t, by["id"].CellKeys)
	require.Equal(t, "column", by["a"].Confidentiality)
	require.Equal(t, []string{"t.b", "u.c"}, by["a"].SharedWith)
	require.Equal(t, []string{"t.a", "u.c"}, by["b"].SharedWith)
	require.Equal(t, "multicolumn", by["b"].Confidentiality)
	require.Equal(t, by["a"].SearchKey, by["b"].SearchKey)
	require.Equal(t, []string{"u.also"}, by["wide"].SharedWith)
	require.Equal(t, "database", by["wide"].Confidentiality)
	require.Len(t, by["a"].CellKeys, 2)
	require.Len(t, by["b"].CellKeys, 1)
	require.Equal(t, "ordered", by["zone"].Encryption)
	require.Equal(t, "mope", by["zone"].Scheme)
	require.Equal(t, "plain", by["zone"].Former[0].Encryption)
	require.EqualValues(t, 5, by["zone"].Since)
	require.EqualValues(t, 2, by["zone"].Former[0].Since)
	ids := make(map[string]bool)
	for _, f := range by {
		require.False(t, ids[f.ID])
		ids[f.ID] = true
	}
	all := fmt.Sprintf("%+v", d)
	for name, key := range allKeys(t, tbl) {
		require.NotContains(t, all, hex.EncodeToString(key.Secret()[:8]), name)
	}
	database, err := st.Describe(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 5, database.Version)
	require.Equal(t, hex.EncodeToString(st.db.Catalogue.Database[:]), database.ID)
	require.Len(t, database.Tables, 2)
	require.Equal(t, d, database.Tables[0])

	require.NoError(t, stores(t, db, 1)[0].Drop(ctx, "u"))
	require.NoError(t, stores(t, db, 1)[0].Drop(ctx, "t"))
	_, err = tbl.Describe(ctx)
	require.ErrorIs(t, err, ErrNoTable)
}

// What a change would have put is recognised however many others came after, or it is said that it
// cannot be known.
func TestChangesAreRecognised(t *testing.T) {
	ctx, memory := context.Background(), drivertest.NewMemory()
	other := stores(t, memory, 1)[0]
	_, err := other.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	for _, later := range []int{0, 1, keptChanges - 1, keptChanges, 2 * keptChanges} {
		for _, fault := range []drivertest.Fault{drivertest.FailAfter, drivertest.Lose} {
			n := 0
			var mu sync.Mutex
			db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if op.Conditional() {
					if n++; n == 1 {
						return fault
					}
				} else if n == 1 && op.Method == "Get" {
					n++
					// The client slept before it looked what became of its change.
					for range later {
						require.NoError(t, other.RotateKeys(ctx, "t", "note"))
					}
				}
				return drivertest.NoFault
			})
			st := stores(t, db, 1)[0]
			name := fmt.Sprint("c", later, fault)
			err := st.Alter(ctx, "t", AddColumn(PlainColumn(name, Int64)))
			made := slices.Contains(columnNames(schemaOf(t, memory, "t")), name)
			if later >= keptChanges {
				require.ErrorIs(t, err, driver.ErrUnknownOutcome, "%d later", later)
				require.Equal(t, fault == drivertest.FailAfter, made)
				continue
			}
			require.NoError(t, err)
			require.True(t, made)
		}
	}
}
