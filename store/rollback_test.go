package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// rollback is a database whose operator keeps old cells of the catalogue: of when a column of a table, and
// one of a table with tenants, was in the clear.
type rollback struct {
	db          driver.DB
	before, now map[string]driver.Cell // the catalogue, by qualifier
	set         func(...driver.Cell)
	table, log  []byte // the qualifiers of the entries
	tenant      []byte
}

const inTheClear = "to be sealed"

func rollbackSchema(name string, tenants, conditional bool) Schema {
	return Schema{
		Name: name, Tenants: tenants, Conditional: conditional, Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{PlainColumn("zone", String), OrderedColumn("value", Int64, Boldyreva), RandomisedColumn("note", String)},
	}
}

func rollbackRow(id int64) Row {
	return Row{"id": id, "zone": inTheClear, "value": id, "note": "note"}
}

// newRollback makes the database. Tables are opened in stale before the catalogue is changed, and in current after it.
func newRollback(t *testing.T, conditional bool) (r *rollback, stale, current map[string]*Table) {
	t.Helper()
	ctx := context.Background()
	r = &rollback{db: drivertest.NewMemory()}
	three := stores(t, r.db, 3)
	require.NoError(t, three[0].CreateTenant(ctx, "a"))
	for i := range 20 { // neighbours in the tree
		require.NoError(t, three[0].CreateTenant(ctx, fmt.Sprint("other ", i)))
	}
	for _, schema := range []Schema{rollbackSchema("table", false, conditional), rollbackSchema("log", true, conditional)} {
		_, err := three[0].Create(ctx, schema)
		require.NoError(t, err)
	}
	stale = rollbackTables(t, three[1])
	cells, set := catalogueCells(t, r.db)
	r.before, r.set = byQualifier(cells), set
	require.NoError(t, three[0].Alter(ctx, "table", ChangeColumn(RandomisedColumn("zone", String))))
	require.NoError(t, three[0].Alter(ctx, "log", AddColumn(PlainColumn("more", String))))
	require.NoError(t, three[0].SetPolicy(ctx, "a", "log", Policy{Sensitive: []string{"zone", "note"}}))
	current = rollbackTables(t, three[2])
	cells, _ = catalogueCells(t, r.db)
	r.now = byQualifier(cells)
	c := three[0].db.Catalogue
	r.table, r.log, r.tenant = c.Qualifier("table"), c.Qualifier("log"), c.TenantQualifier("a")
	return r, stale, current
}

func rollbackTables(t *testing.T, st *Store) map[string]*Table {
	t.Helper()
	table, err := st.Table(context.Background(), "table")
	require.NoError(t, err)
	unbound, err := st.Table(context.Background(), "log")
	require.NoError(t, err)
	log, err := unbound.Tenant(context.Background(), "a")
	require.NoError(t, err)
	return map[string]*Table{"table": table, "log": log}
}

func byQualifier(cells []driver.Cell) map[string]driver.Cell {
	m := make(map[string]driver.Cell)
	for _, c := range cells {
		m[string(c.Qualifier)] = c
	}
	return m
}

// restore puts the catalogue back as it is.
func (r *rollback) restore(t *testing.T) {
	t.Helper()
	cells, _ := catalogueCells(t, r.db)
	for _, c := range cells {
		if _, there := r.now[string(c.Qualifier)]; !there {
			r.set(driver.Cell{Qualifier: c.Qualifier})
		}
	}
	for _, c := range r.now {
		r.set(c)
	}
}

// manipulations are what an operator does with the cells of an entry's path, short of the root.
func (r *rollback) manipulations(entry []byte) map[string]func() {
	chain := path(entry)
	all := make(map[string]func())
	for i := range chain {
		all[fmt.Sprintf("the entry and %d nodes above it put back", i)] = func() {
			for _, q := range chain[:i+1] {
				r.set(r.before[string(q)])
			}
		}
		all[fmt.Sprintf("the entry put back, and a node at height %d removed", i)] = func() {
			r.set(r.before[string(entry)])
			r.set(driver.Cell{Qualifier: chain[i]})
		}
		all[fmt.Sprintf("a cell at height %d removed", i)] = func() { r.set(driver.Cell{Qualifier: chain[i]}) }
		all[fmt.Sprintf("a cell at height %d has the value of another", i)] = func() {
			for q, other := range r.now {
				if len(q) == len(chain[i]) && q[0] == chain[i][0] && q != string(chain[i]) && (q[0] != 0 || q[1] == chain[i][1]) {
					r.set(driver.Cell{Qualifier: chain[i], Value: other.Value})
					return
				}
			}
			r.set(driver.Cell{Qualifier: chain[i], Value: r.now[string(chain[i-1])].Value}) // there is one first node
		}
	}
	all["all of it removed"] = func() {
		for _, q := range chain {
			r.set(driver.Cell{Qualifier: q})
		}
	}
	all["the entry put back, listed in a leaf that is not of the root"] = func() {
		r.set(r.before[string(entry)])
		leaf := r.now[string(chain[1])]
		i := bytes.Index(leaf.Value, entry) + len(entry)
		was := r.before[string(chain[1])].Value
		j := bytes.Index(was, entry) + len(entry)
		r.set(driver.Cell{Qualifier: chain[1], Value: slices.Concat(leaf.Value[:i], was[j:j+16], leaf.Value[i+16:])})
	}
	return all
}

// operations are what a client may do that knows the table as of some time.
func (r *rollback) operations() map[string]func(ctx context.Context, tbl *Table) error {
	row, at := rollbackRow(7), Row{"id": int64(1)}
	return map[string]func(ctx context.Context, tbl *Table) error{
		"put": func(ctx context.Context, tbl *Table) error { return tbl.Put(ctx, row) },
		"get": func(ctx context.Context, tbl *Table) error { _, err := tbl.Get(ctx, at); return err },
		"query": func(ctx context.Context, tbl *Table) error {
			for _, err := range tbl.Query(ctx, Query{Where: Field[int64]("value").AtLeast(0)}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"update": func(ctx context.Context, tbl *Table) error {
			if !tbl.now().Meta.Conditional {
				return tbl.Put(ctx, row)
			}
			return tbl.Update(ctx, Row{"id": int64(1), "zone": inTheClear})
		},
		"delete":  func(ctx context.Context, tbl *Table) error { return tbl.Delete(ctx, Row{"id": int64(9)}) },
		"convert": func(ctx context.Context, tbl *Table) error { _, err := tbl.Convert(ctx, nil); return err },
		"verify": func(ctx context.Context, tbl *Table) error {
			report, err := tbl.Verify(ctx, nil)
			if err == nil && !report.Sound() {
				err = ErrTampered
			}
			return err
		},
	}
}

// entryOperations are those that concern the entry of a table or of a tenant.
func (r *rollback) entryOperations(name string) map[string]func(ctx context.Context, st *Store) error {
	all := map[string]func(ctx context.Context, st *Store) error{
		"open": func(ctx context.Context, st *Store) error { _, err := st.Table(ctx, "table"); return err },
		"alter": func(ctx context.Context, st *Store) error {
			return st.Alter(ctx, "table", AddColumn(PlainColumn("x", Int8)))
		},
		"rotate": func(ctx context.Context, st *Store) error { return st.RotateKeys(ctx, "table") },
		"rename": func(ctx context.Context, st *Store) error { return st.RenameTable(ctx, "table", "other name") },
		"drop":   func(ctx context.Context, st *Store) error { return st.Drop(ctx, "table") },
		"create": func(ctx context.Context, st *Store) error {
			_, err := st.Create(ctx, rollbackSchema("table", false, false))
			return err
		},
		"tables":   func(ctx context.Context, st *Store) error { _, err := st.Tables(ctx); return err },
		"tenants":  func(ctx context.Context, st *Store) error { _, err := st.Tenants(ctx); return err },
		"describe": func(ctx context.Context, st *Store) error { _, err := st.Describe(ctx); return err },
	}
	if name == "table" {
		return all
	}
	policy := Policy{Sensitive: []string{"zone"}}
	all["open"] = func(ctx context.Context, st *Store) error {
		tbl, err := st.Table(ctx, "log")
		if err == nil {
			_, err = tbl.Tenant(ctx, "a")
		}
		return err
	}
	all["policy"] = func(ctx context.Context, st *Store) error { _, _, err := st.Policy(ctx, "a", "log"); return err }
	all["set policy"] = func(ctx context.Context, st *Store) error { return st.SetPolicy(ctx, "a", "log", policy) }
	for _, other := range []string{"alter", "rotate", "rename", "drop", "create"} {
		delete(all, other)
	}
	if name == "tenant" {
		all["rotate tenant key"] = func(ctx context.Context, st *Store) error { return st.RotateTenantKey(ctx, "a") }
		all["create tenant"] = func(ctx context.Context, st *Store) error { return st.CreateTenant(ctx, "a") }
		all["drop tenant"] = func(ctx context.Context, st *Store) error { return st.DropTenant(ctx, "a") }
	}
	return all
}

// noneInTheClear fails if a row was written as the schema or policy once was.
func (r *rollback) noneInTheClear(t *testing.T, tbl *Table, what string) {
	t.Helper()
	for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		for _, c := range row.Cells {
			require.NotContains(t, string(c.Value), inTheClear, what)
		}
	}
}

// Whatever of the catalogue is put back, removed or moved without the root is noticed by whoever reads it: a
// client that is new, and one that knows the table as it once was. One that knows the latest entry goes on with
// that. Nothing is ever written as it once was.
func TestRollbackOfEntries(t *testing.T) {
	for name, entry := range map[string]func(*rollback) []byte{
		"table":           func(r *rollback) []byte { return r.table },
		"tenant":          func(r *rollback) []byte { return r.tenant },
		"table of tenant": func(r *rollback) []byte { return r.log },
	} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprint(name, conditional), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testRollbackOfEntries(t, name, conditional, entry) })
			})
		}
	}
}

func testRollbackOfEntries(t *testing.T, name string, conditional bool, entry func(*rollback) []byte) {
	ctx := t.Context()
	r, _, _ := newRollback(t, conditional)
	names := slices.Sorted(func(yield func(string) bool) {
		for what := range r.manipulations(entry(r)) {
			if !yield(what) {
				return
			}
		}
	})
	which := "table"
	if name != "table" {
		which = "log"
	}
	for _, what := range names {
		r, stale, current := newRollback(t, conditional)
		row := rollbackRow(1)
		require.NoError(t, current[which].Put(ctx, row))
		manipulate := r.manipulations(entry(r))[what]
		for op, do := range r.entryOperations(name) {
			st := stores(t, r.db, 1)[0]
			manipulate()
			require.ErrorIs(t, do(ctx, st), ErrTampered, "%s: %s", what, op)
			r.restore(t)
		}
		for op, do := range r.operations() {
			manipulate()
			err := do(ctx, stale[which])
			if op != "delete" { // which writes nothing that depends on the schema
				// It looks at the entry, since the version is another than it knows or the row is newer.
				require.ErrorIs(t, err, ErrTampered, "%s: %s of a client that knows the table as it was", what, op)
			}
			err = do(ctx, current[which])
			require.True(t, err == nil || errors.Is(err, ErrTampered), "%s: %s: %v", what, op, err)
			r.restore(t)
			if op == "put" {
				require.NoError(t, current[which].Delete(ctx, Row{"id": int64(7)}), "what was refused may have been written")
			}
		}
		got, err := current[which].Get(ctx, Row{"id": int64(1)})
		require.NoError(t, err)
		require.Equal(t, row, got)
		r.noneInTheClear(t, current[which], what)
	}
}

// The whole catalogue put back is noticed by a client that has seen a later one, and by one that meets a row which
// was written at a later version: that row is not replaced. Nobody else notices: see docs/security.md.
func TestRollbackOfTheCatalogue(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			r, _, current := newRollback(t, conditional)
			for _, which := range []string{"table", "log"} {
				require.NoError(t, current[which].Put(ctx, rollbackRow(1)))
			}
			for q := range r.now {
				if _, there := r.before[q]; !there {
					r.set(driver.Cell{Qualifier: []byte(q)})
				}
			}
			for _, c := range r.before {
				r.set(c)
			}
			for _, which := range []string{"table", "log"} {
				_, err := current[which].store().Table(ctx, which)
				require.ErrorIs(t, err, errPutBack)
				for op, do := range r.operations() {
					err := do(ctx, current[which])
					if op == "put" || op == "update" {
						require.ErrorIs(t, err, errPutBack, op)
					}
					// What it reads and deletes is as it should be: it knows the latest entry.
					require.True(t, err == nil || errors.Is(err, errPutBack), "%s: %v", op, err)
				}
				fresh := rollbackTables(t, stores(t, r.db, 1)[0])[which]
				for _, op := range []string{"get", "query", "convert", "verify", "update"} {
					if op != "update" || conditional {
						require.ErrorIs(t, r.operations()[op](ctx, fresh), ErrTampered, op)
					}
				}
				err = fresh.Put(ctx, rollbackRow(1))
				require.ErrorIs(t, err, errPutBack, "the row that is there is newer")
				require.ErrorContains(t, err, "restore the newest copy of the catalogue")
				require.NoError(t, fresh.Put(ctx, rollbackRow(8)), "of a new row there is no sign")
				require.NoError(t, fresh.Delete(ctx, Row{"id": int64(8)}))
				r.noneInTheClear(t, fresh, "a newer row was replaced")
				require.NoError(t, fresh.Delete(ctx, Row{"id": int64(1)}), "it may be deleted")
			}
		})
	}
}

// An index is not made again from rows that are newer than a catalogue which was put back. Other changes, and
// deletions, read no rows and do not notice: see docs/security.md.
func TestRollbackAndIndexes(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		for _, column := range []string{"w", "k", "part"} {
			synctest.Test(t, func(t *testing.T) {
				ctx, db := t.Context(), drivertest.NewMemory()
				two := stores(t, db, 2)
				tbl, err := two[0].Create(ctx, Schema{
					Name: "table", Tenants: tenants, Key: []KeyPart{HashedPart("id", Int64), OrderedPart("part", Int64, WozniakIndexed)},
					Columns: []Column{OrderedColumn("w", Int64, WozniakIndexed), OrderedColumn("k", Int64, Kerschbaum)},
				})
				require.NoError(t, err)
				if tenants {
					require.NoError(t, two[0].CreateTenant(ctx, "a"))
				}
				bound := func(tbl *Table) *Table {
					if tenants {
						tbl, err = tbl.Tenant(ctx, "a")
						require.NoError(t, err)
					}
					return tbl
				}
				row := Row{"id": int64(1), "part": int64(1), "w": int64(1), "k": int64(1)}
				require.NoError(t, bound(tbl).Put(ctx, row))
				before, set := catalogueCells(t, db)
				for _, more := range []string{"more", "still more"} { // making an index again begins with one change, too
					require.NoError(t, two[0].Alter(ctx, "table", AddColumn(PlainColumn(more, String))))
				}
				require.NoError(t, bound(tbl).Put(ctx, Row{"id": int64(2), "part": int64(2), "w": int64(2), "k": int64(2)}))
				for _, c := range before {
					set(c)
				}
				for range 2 { // what the first call left does not hide it from the second
					fresh, err := stores(t, db, 1)[0].Table(ctx, "table")
					require.NoError(t, err)
					err = fresh.RebuildIndex(ctx, column, nil)
					require.ErrorIs(t, err, errPutBack)
					require.ErrorIs(t, err, ErrTampered)
				}
				for _, c := range before {
					set(c)
				}
				fresh := two[1]
				old, err := fresh.Table(ctx, "table")
				require.NoError(t, err)
				require.NoError(t, bound(old).Delete(ctx, row))
				if tenants {
					require.NoError(t, fresh.RotateTenantKey(ctx, "a"))
				} else {
					require.NoError(t, fresh.RotateKeys(ctx, "table"))
				}
				require.NoError(t, fresh.Alter(ctx, "table", AddColumn(PlainColumn("other", String))))
			})
		}
	}
}

// A repair under a catalogue that was put back leaves the postings of columns which that does not know: rows that are newer have them.
func TestRollbackAndRepair(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, db := t.Context(), drivertest.NewMemory()
			st := stores(t, db, 1)[0]
			_, err := st.Create(ctx, Schema{
				Name: "table", Tenants: tenants, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{DeterministicColumn("old", Int64)},
			})
			require.NoError(t, err)
			require.NoError(t, st.CreateTenant(ctx, "a"))
			open := func() *Table {
				tbl, err := stores(t, db, 1)[0].Table(ctx, "table")
				require.NoError(t, err)
				if tenants {
					tbl, err = tbl.Tenant(ctx, "a")
					require.NoError(t, err)
				}
				return tbl
			}
			before, set := catalogueCells(t, db)
			require.NoError(t, st.Alter(ctx, "table", AddColumn(DeterministicColumn("new", Int64))))
			require.NoError(t, open().Put(ctx, Row{"id": int64(1), "new": int64(2)}))
			newest, _ := catalogueCells(t, db)
			for _, c := range before {
				set(c)
			}
			for _, bound := range []bool{false, tenants} {
				old := open()
				if !bound {
					old, err = stores(t, db, 1)[0].Table(ctx, "table")
					require.NoError(t, err)
				}
				v, err := old.Verify(ctx, &VerifyOptions{Repair: true, Grace: 1})
				require.NoError(t, err)
				require.Equal(t, 1, v.Faults[inspect.FaultCell])
				require.Equal(t, bound, v.Dangling == 0, "the postings of an unknown column are of no tenant")
				require.Zero(t, v.Dropped)
				require.Zero(t, v.Repaired)
			}
			for _, c := range newest {
				set(c)
			}
			n, err := open().Count(ctx, Field[int64]("new").Equal(2))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
}

// An undecided database shows the catalogue as it was until something is put there by a condition, as
// Cassandra may after a writer died in the middle of a change.
type undecidedDB struct {
	driver.DB
	before driver.Cell // the root
	open   *bool
	err    error // of deciding
}

func (db undecidedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if spec.Name == catalogueFamily {
		f = undecidedFamily{f, db}
	}
	return f, err
}

type undecidedFamily struct {
	driver.Family
	db undecidedDB
}

func (f undecidedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	cells, err := f.Family.Get(ctx, row, s)
	if *f.db.open && len(cells) > 0 {
		cells = slices.Clone(cells)
		cells[0] = f.db.before
	}
	return cells, err
}

func (f undecidedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	if *f.db.open && f.db.err != nil {
		return false, f.db.err
	}
	*f.db.open = false
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

// A change of the catalogue that some reads show and others do not is decided, and does not count as put
// back, however long its writer has been dead.
func TestUndecidedCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r, _, _ := newRollback(t, false)
		db := undecidedDB{r.db, r.before[string(rootQualifier)], new(bool), nil}
		tbl := rollbackTables(t, stores(t, db, 1)[0])["table"]
		*db.open = true
		require.NoError(t, tbl.Put(ctx, rollbackRow(1)))
		require.False(t, *db.open)

		db.err = driver.ErrUnauthorised // a client that may only read
		tbl = rollbackTables(t, stores(t, db, 1)[0])["table"]
		*db.open = true
		err := tbl.Put(ctx, rollbackRow(2))
		require.ErrorIs(t, err, errPutBack)
		require.ErrorIs(t, err, driver.ErrUnauthorised)
		require.ErrorContains(t, err, "cannot be found out")
	})
}

// An operator who puts back or removes the progress of a conversion makes work, and loses nothing: when Convert returns
// without an error, every row is stored as the schema says.
func TestRollbackOfProgress(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, rollbackSchema("table", false, false))
	require.NoError(t, err)
	for i := range 300 {
		require.NoError(t, tbl.Put(ctx, rollbackRow(int64(i))))
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	_, set := catalogueCells(t, db)
	kept := []driver.Cell{{Qualifier: progressQualifier(tbl.open().ID(), tbl.now().Prefix)}}
	for round := range 6 {
		scheme := []Column{RandomisedColumn("zone", String), PlainColumn("zone", String)}[round%2]
		require.NoError(t, st.Alter(ctx, "table", ChangeColumn(scheme)))
		meddled := 0
		_, err = tbl.Convert(ctx, func(int, int) {
			_, cell, err := tbl.open().Progress(ctx)
			require.NoError(t, err)
			kept = append(kept, cell)
			if r.IntN(8) == 0 && meddled < 20 {
				meddled++
				set(kept[r.IntN(len(kept))])
			}
		})
		if err != nil {
			require.ErrorIs(t, err, ErrTampered)
			continue
		}
		for row, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			old, err := tbl.now().Outdated(row, new(rowcodec.Scratch))
			require.NoError(t, err)
			require.False(t, old)
		}
	}
	require.NotEmpty(t, kept)
}
