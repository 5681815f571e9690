package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
)

// indexedSchemas are two tables with every kind of index: of a key part, of columns, shared, and
// database-wide.
func indexedSchemas(tenants, conditional bool) []Schema {
	t := Schema{
		Name: "t", Tenants: tenants, Conditional: conditional,
		Key: []KeyPart{OrderedPart("at", Int32, WozniakIndexed), PlainPart("id", Int64)},
		Columns: []Column{
			OrderedColumn("level", Int32, Kerschbaum), OrderedColumn("score", Int32, WozniakIndexed),
			OrderedColumn("also", Int32, Kerschbaum).SharedWith("t", "level"),
			OrderedColumn("wide", Int32, WozniakIndexed).DatabaseWide(), OrderedColumn("deep", Int32, Kerschbaum).DatabaseWide(),
			RandomisedColumn("note", String),
		},
	}
	u := Schema{
		Name: "u", Tenants: tenants, Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			OrderedColumn("level", Int32, Kerschbaum).SharedWith("t", "level"),
			OrderedColumn("wide", Int32, WozniakIndexed).DatabaseWide(), OrderedColumn("deep", Int32, Kerschbaum).DatabaseWide(),
		},
	}
	return []Schema{t, u}
}

// ordered are the parts and columns of a table that have an index.
func indexedOf(s Schema) (names []string) {
	for _, p := range s.Key {
		if scheme.Stateful(p.spec.Scheme) {
			names = append(names, p.spec.Name)
		}
	}
	for _, c := range s.Columns {
		if scheme.Stateful(c.spec.Scheme) {
			names = append(names, c.spec.Name)
		}
	}
	return names
}

func indexedRow(s Schema, i int) Row {
	row := Row{"id": int64(i)}
	for k, name := range indexedOf(s) {
		row[name] = int32(i*7919%1000*100 + k)
	}
	return row
}

// openIndexed opens the tables as a new client, for a tenant if they have some.
func openIndexed(t *testing.T, db driver.DB, tenant string) []*Table {
	t.Helper()
	st := stores(t, db, 1)[0]
	var tables []*Table
	for _, name := range []string{"t", "u"} {
		tbl, err := st.Table(t.Context(), name)
		require.NoError(t, err)
		if tenant != "" {
			tbl, err = tbl.Tenant(t.Context(), tenant)
			require.NoError(t, err)
		}
		tables = append(tables, tbl)
	}
	return tables
}

// makeIndexed makes the tables, with rows.
func makeIndexed(t *testing.T, db driver.DB, tenants, conditional bool, rows int) {
	t.Helper()
	st := stores(t, db, 1)[0]
	for _, s := range indexedSchemas(tenants, conditional) {
		tbl, err := st.Create(t.Context(), s)
		require.NoError(t, err)
		bound := []*Table{tbl}
		if tenants {
			bound = openTenants(t, st, s.Name, "a", "b")
		}
		for _, tbl := range bound {
			var all []Row
			for i := range rows {
				all = append(all, indexedRow(s, i))
			}
			require.NoError(t, tbl.Put(t.Context(), all...))
		}
	}
}

// soundIndexed checks with a new client that nothing is wrong, that rows are found by every part and
// column, and that others can be written and deleted.
func soundIndexed(t *testing.T, db driver.DB, tenant string, rows int) {
	t.Helper()
	ctx := t.Context()
	for _, tbl := range openIndexed(t, db, tenant) {
		report, err := tbl.Verify(ctx, &VerifyOptions{Fault: func(f inspect.Fault) { t.Errorf("%s, column %q at %x: %v", f.Kind, f.Column, f.Place, f.Err) }})
		require.NoError(t, err)
		require.True(t, report.Sound())
		require.Equal(t, rows, report.Rows)
		s := tbl.Schema()
		for _, name := range indexedOf(s) {
			require.Len(t, all(t, tbl, Query{Where: Field[int32](name).AtLeast(0)}), rows, name)
			got := all(t, tbl, Query{Where: Field[int32](name).Between(20_000, 60_000)})
			require.True(t, slices.IsSortedFunc(got, func(a, b Row) int { return int(a[name].(int32)) - int(b[name].(int32)) }), name)
		}
		for i := range rows {
			row, err := tbl.Get(ctx, indexedRow(s, i))
			require.NoError(t, err)
			require.NotNil(t, row, "row %d", i)
		}
		for i := rows; i < rows+10; i++ {
			require.NoError(t, tbl.Put(ctx, indexedRow(s, i)))
		}
		require.Len(t, all(t, tbl, Query{Where: Field[int32](indexedOf(s)[0]).AtLeast(0)}), rows+10)
		for i := rows; i < rows+10; i++ {
			require.NoError(t, tbl.Delete(ctx, indexedRow(s, i)))
		}
		require.Len(t, all(t, tbl, Query{}), rows)
	}
}

// unitOf returns the family of a column's index, and the row of its unit that has most records.
func unitOf(t *testing.T, tbl *Table, column string) (driver.Family, driver.Row) {
	t.Helper()
	v := tbl.now()
	k := tbl.store().db.Keys.Table(v.Meta.ID)
	if tbl.open().Bound() {
		_, meta, _, err := tbl.open().Entry(t.Context())
		require.NoError(t, err)
		k, err = tbl.store().db.Keys.OfTenant(k, meta)
		require.NoError(t, err)
	}
	var field *fieldMeta
	for _, f := range v.Meta.All() {
		if f.Name == column {
			field = f
		}
	}
	name, unit := k.State(field)
	family, err := tbl.store().db.Driver.Family(t.Context(), driver.FamilySpec{Name: name, Layout: driver.LayoutWide, Existing: true})
	require.NoError(t, err)
	var most driver.Row
	for row, err := range family.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		if rest, ok := strings.CutPrefix(string(row.Key), "u"+unit); ok && (rest == "" || rest[0] == '/') && len(row.Cells) > len(most.Cells) {
			most = row
		}
	}
	require.NotNil(t, most.Key)
	return family, most
}

// damages are what may happen to the unit of an index. Its cells are meta, nonce, header, records.
var damages = map[string]func(cells, other []driver.Cell) []driver.Cell{
	"a byte of a record":   func(c, _ []driver.Cell) []driver.Cell { return flipped(c, 10) },
	"a byte of the header": func(c, _ []driver.Cell) []driver.Cell { return flipped(c, 2) },
	"the state": func(c, _ []driver.Cell) []driver.Cell {
		c[0].Value = bytes.Clone(c[0].Value)
		c[0].Value[1] ^= 0x55
		return c
	},
	"a record is gone":   func(c, _ []driver.Cell) []driver.Cell { return slices.Delete(c, 10, 11) },
	"the header is gone": func(c, _ []driver.Cell) []driver.Cell { return slices.Delete(c, 2, 3) },
	"records are swapped": func(c, _ []driver.Cell) []driver.Cell {
		c[10].Value, c[11].Value = c[11].Value, c[10].Value
		return c
	},
	"the unit is gone":   func([]driver.Cell, []driver.Cell) []driver.Cell { return nil },
	"records of another": func(_, other []driver.Cell) []driver.Cell { return other },
}

func flipped(cells []driver.Cell, i int) []driver.Cell {
	cells[i].Value = bytes.Clone(cells[i].Value)
	cells[i].Value[len(cells[i].Value)/2] ^= 0x55
	return cells
}

// Whatever happens to an index, it is found, named, and made again from the rows.
func TestRebuildIndex(t *testing.T) {
	const rows = 30
	n := 0
	for _, tenant := range []string{"", "a"} {
		for _, column := range []string{"at", "score", "level", "also", "wide", "deep"} {
			for what, damage := range damages {
				n++
				if (testing.Short() || !sim.Full()) && n%5 > 0 {
					continue
				}
				repair, conditional := n%2 == 0, n%3 == 0
				t.Run(fmt.Sprintf("tenant %q/%s/%s", tenant, column, what), func(t *testing.T) {
					t.Parallel()
					ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
					makeIndexed(t, db, tenant != "", conditional, rows)
					tbl := openIndexed(t, db, tenant)[0]
					other := "deep"
					if column == "deep" {
						other = "at"
					}
					_, foreign := unitOf(t, tbl, other)
					family, unit := unitOf(t, tbl, column)
					require.NoError(t, family.Apply(ctx, driver.Mutation{Row: unit.Key, DeleteRow: true}))
					if cells := damage(unit.Cells, foreign.Cells); len(cells) > 0 {
						require.NoError(t, family.Apply(ctx, driver.Mutation{Row: unit.Key, Puts: cells}))
					}
					fresh := openIndexed(t, db, tenant)[0]
					report, err := fresh.Verify(ctx, nil)
					require.NoError(t, err)
					require.False(t, report.Sound())
					if what != "a record is gone" { // rows lack one value, if places do not tell it
						require.Positive(t, report.Faults[inspect.FaultIndex], report.Faults)
						require.Len(t, report.Faults, 1, report.Faults)
					}
					if repair {
						report, err = fresh.Verify(ctx, &repairing)
						require.NoError(t, err)
						require.True(t, report.Sound(), report.Faults)
					} else {
						require.NoError(t, fresh.RebuildIndex(ctx, column, nil))
					}
					soundIndexed(t, db, tenant, rows)
					if tenant != "" {
						soundIndexed(t, db, "b", rows)
					}
				})
			}
		}
	}
}

// A client that has put a value into the former index, and puts its row after the new one was filled,
// has it there too when the call returns; so has one that remembers a value whose rows are gone.
func TestRebuildIndexUnderWriters(t *testing.T) {
	const rows = 20
	for _, conditional := range []bool{false, true} {
		for _, remembered := range []bool{false, true} {
			for seed := range uint64(8) {
				t.Run(fmt.Sprintf("conditional %t/remembered %t/%d", conditional, remembered, seed), func(t *testing.T) {
					ctx, memory := t.Context(), drivertest.NewMemory()
					makeIndexed(t, noSnapshots{memory, false}, false, conditional, rows)
					r := rand.New(rand.NewPCG(seed, 1))
					schema := indexedSchemas(false, conditional)[0]
					db := &meddled{DB: noSnapshots{memory, false}}
					writer := openIndexed(t, db, "")[0]
					other := openIndexed(t, noSnapshots{memory, false}, "")[0]
					mine := indexedRow(schema, 500)
					for k, name := range indexedOf(schema) {
						mine[name] = int32(30_050 + k)
					}
					mine["note"] = "kept"
					meddle := func() {
						// The writer's row is one of an earlier schema, too.
						require.NoError(t, other.store().Alter(ctx, "t", ChangeColumn(DeterministicColumn("note", String))))
						for _, column := range indexedOf(schema) {
							require.NoError(t, other.RebuildIndex(ctx, column, nil))
						}
						// Neighbours, so that the pairs of the writer may find no place.
						for i := range 6 {
							row := indexedRow(schema, 600+i)
							for k, name := range indexedOf(schema) {
								row[name] = int32(30_000 + r.IntN(100) + 200*k)
							}
							require.NoError(t, other.Put(ctx, row))
						}
					}
					if remembered {
						require.NoError(t, writer.Put(ctx, mine))
						require.NoError(t, other.Delete(ctx, mine))
						meddle()
					} else {
						db.before = meddle
					}
					require.NoError(t, writer.Put(ctx, mine))
					got, err := writer.Get(ctx, mine)
					require.NoError(t, err)
					require.Equal(t, mine, got)
					reader := openIndexed(t, memory, "")[0]
					for _, name := range indexedOf(schema) {
						where := Field[int32](name).Equal(mine[name].(int32))
						require.Len(t, all(t, reader, Query{Where: And(where, Field[int64]("id").Equal(500))}), 1, name)
						require.Len(t, all(t, writer, Query{Where: And(Field[int32](name).Between(mine[name].(int32), mine[name].(int32)+40), Field[int64]("id").Equal(500))}), 1, name)
					}
					report, err := reader.Verify(ctx, &VerifyOptions{Fault: func(f inspect.Fault) { t.Errorf("%s, column %q: %v", f.Kind, f.Column, f.Err) }})
					require.NoError(t, err)
					require.Equal(t, rows+7, report.Rows)
				})
			}
		}
	}
}

// dyingDB fails every change from the n-th on: its client is dead.
type dyingDB struct {
	driver.DB
	left atomic.Int64
}

var errDied = errors.New("the client is dead")

type dyingFamily struct {
	driver.Committer
	db *dyingDB
}

func (db *dyingDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return dyingFamily{f.(driver.Committer), db}, nil
}

func (db *dyingDB) step() error {
	if db.left.Add(-1) < 0 {
		return errDied
	}
	return nil
}

func (f dyingFamily) Apply(ctx context.Context, m ...driver.Mutation) error {
	if err := f.db.step(); err != nil {
		return err
	}
	return f.Committer.Apply(ctx, m...)
}

func (f dyingFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	if err := f.db.step(); err != nil {
		return false, err
	}
	return f.Committer.CheckAndPut(ctx, row, expect, puts...)
}

func (f dyingFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	if err := f.db.step(); err != nil {
		return false, err
	}
	return f.Committer.Commit(ctx, row, expect, puts, deletes)
}

// Wherever a rebuild dies, readers find every row, writers write, and another call finishes it: also
// two at a time.
func TestRebuildIndexDies(t *testing.T) {
	const rows = 300
	for _, column := range []string{"at", "level", "wide"} {
		for steps := int64(0); steps < 12; steps += int64(sim.Every(5)) { // what goes on afterwards alternates
			t.Run(fmt.Sprintf("%s/%d", column, steps), func(t *testing.T) {
				t.Parallel()
				ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
				makeIndexed(t, db, false, false, rows)
				dying := &dyingDB{DB: db}
				tbl := openIndexed(t, dying, "")[0]
				dying.left.Store(steps)
				err := tbl.RebuildIndex(ctx, column, nil)
				if err != nil {
					require.ErrorIs(t, err, errDied)
				}
				clients := openIndexed(t, db, "")
				for _, name := range indexedOf(clients[0].Schema()) {
					require.Len(t, all(t, clients[0], Query{Where: Field[int32](name).AtLeast(0)}), rows, name)
				}
				switch steps % 3 {
				case 0: // a writer goes on
					extra := indexedRow(clients[0].Schema(), 900)
					require.NoError(t, clients[0].Put(ctx, extra))
					require.Len(t, all(t, clients[0], Query{Where: Field[int32](column).AtLeast(0)}), rows+1)
					require.NoError(t, clients[0].Delete(ctx, extra))
					_, err := clients[0].Verify(ctx, &repairing)
					require.NoError(t, err)
				case 1:
					_, err := clients[0].Verify(ctx, &repairing)
					require.NoError(t, err)
				case 2:
					done := make(chan error)
					second := openIndexed(t, db, "")[0]
					go func() { done <- second.RebuildIndex(ctx, column, nil) }()
					require.NoError(t, clients[0].RebuildIndex(ctx, column, nil))
					require.NoError(t, <-done)
				}
				soundIndexed(t, db, "", rows)
			})
		}
	}
}

// putUnsettled puts a row as a writer that dies before it settles.
func putUnsettled(t *testing.T, tbl *Table, row Row) {
	t.Helper()
	v := tbl.now()
	r, err := v.Check(row)
	require.NoError(t, err)
	require.NoError(t, v.EncryptAll(t.Context(), []*rowcodec.Record{r}, func(c *rowcodec.Column) bool { return c.Stateful && c.Order == nil }))
	require.NoError(t, encoded(t.Context(), v.View, r))
	require.NoError(t, v.Write(t.Context(), []*rowcodec.Record{r}))
}

// What a writer that dies between row and settling leaves is found, and mended.
func TestRebuildIndexAfterDeadWriter(t *testing.T) {
	const rows = 20
	for seed := range uint64(10) {
		ctx, memory := t.Context(), drivertest.NewMemory()
		makeIndexed(t, noSnapshots{memory, false}, false, false, rows)
		schema := indexedSchemas(false, false)[0]
		writer := openIndexed(t, noSnapshots{memory, false}, "")[0]
		other := openIndexed(t, noSnapshots{memory, false}, "")[0]
		mine := indexedRow(schema, 500)
		mine["at"] = int32(30_050)
		putUnsettled(t, writer, mine)
		require.NoError(t, other.Delete(ctx, mine))
		r := rand.New(rand.NewPCG(seed, 2))
		for _, column := range []string{"at", "score", "level"} {
			require.NoError(t, other.RebuildIndex(ctx, column, nil))
		}
		for i := range 6 {
			row := indexedRow(schema, 600+i)
			row["at"], row["score"] = int32(30_000+r.IntN(100)), mine["score"].(int32)+int32(r.IntN(100))-50
			require.NoError(t, other.Put(ctx, row))
		}
		putUnsettled(t, writer, mine)
		opts := repairing
		opts.Fault = func(f inspect.Fault) {
			t.Logf("seed %d: %s, column %q at %x: %v; repaired %t", seed, f.Kind, f.Column, f.Place, f.Err, f.Repaired)
		}
		_, err := other.Verify(ctx, &opts)
		require.NoError(t, err)
		report, err := openIndexed(t, noSnapshots{memory, false}, "")[0].Verify(ctx, &VerifyOptions{Fault: func(f inspect.Fault) {
			t.Logf("seed %d: %s, column %q at %x: %v", seed, f.Kind, f.Column, f.Place, f.Err)
		}})
		require.NoError(t, err)
		require.True(t, report.Sound(), report.Faults)
		require.Equal(t, rows+7, report.Rows)
		for _, name := range []string{"at", "score", "level"} {
			require.Len(t, all(t, other, Query{Where: And(Field[int32](name).Equal(mine[name].(int32)), Field[int64]("id").Equal(500))}), 1, name)
		}
	}
}

// The index of a scheme that a column had goes when all rows are converted, whatever state it is in, and
// verify does not look at it; so does that of a column that was dropped.
func TestFormerIndexGoes(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		st := stores(t, db, 1)[0]
		schema := Schema{Name: "t", Tenants: tenants, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{
			OrderedColumn("level", Int32, Kerschbaum), OrderedColumn("gone", Int32, WozniakIndexed), OrderedColumn("stays", Int32, Kerschbaum)}}
		tbl, err := st.Create(ctx, schema)
		require.NoError(t, err)
		bound := []*Table{tbl}
		if tenants {
			bound = openTenants(t, st, "t", "a", "b")
		}
		for _, tbl := range bound {
			for i := range 20 {
				require.NoError(t, tbl.Put(ctx, indexedRow(schema, i)))
			}
			family, unit := unitOf(t, tbl, "level")
			require.NoError(t, family.Apply(ctx, driver.Mutation{Row: unit.Key, Puts: flipped(unit.Cells, 9)[9:10]}))
		}
		units := func() (n int) {
			family, err := db.Family(ctx, driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide})
			require.NoError(t, err)
			for _, err := range family.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		before := units()
		require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int32, MOPE)), DropColumn("gone")))
		report, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), report.Faults)
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, len(bound), units(), "of %d", before)
		report, err = tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), report.Faults)
		for _, tbl := range bound {
			require.Len(t, all(t, tbl, Query{Where: Field[int32]("level").AtLeast(0)}), 20)
			require.Len(t, all(t, tbl, Query{Where: Field[int32]("stays").AtLeast(0)}), 20)
		}
	}
}

// An index that was lost as a whole, and that another client has begun again without knowing, cannot have the values of all
// rows: it has given one a place where others have theirs. RebuildIndex says so, and Verify stores these rows again.
func TestLostIndexThatWasBegunAgain(t *testing.T) {
	for _, value := range []int32{-5, 20, 5000} { // of the other client
		ctx, db := t.Context(), drivertest.NewMemory()
		st := stores(t, db, 1)[0]
		tbl, err := st.Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int32)}, Columns: []Column{OrderedColumn("k", Int32, WozniakIndexed)}})
		require.NoError(t, err)
		var rows []Row
		for i := range int32(100) {
			rows = append(rows, Row{"id": i, "k": i})
		}
		require.NoError(t, tbl.Put(ctx, rows...))
		family, unit := unitOf(t, tbl, "k")
		require.NoError(t, family.Apply(ctx, driver.Mutation{Row: unit.Key, DeleteRow: true}))

		other, err := stores(t, db, 1)[0].Table(ctx, "t")
		require.NoError(t, err)
		require.NoError(t, other.Put(ctx, Row{"id": int32(500), "k": value}))
		// A value that rows have already contradicts them for sure; the place of another one is drawn.
		if err := other.RebuildIndex(ctx, "k", nil); err != nil || value == 20 {
			require.ErrorIs(t, err, ope.ErrIndex)
			require.ErrorContains(t, err, "Verify with Repair")
		}
		report, err := other.Verify(ctx, &VerifyOptions{Repair: true, Grace: time.Nanosecond})
		require.NoError(t, err)
		require.True(t, report.Sound(), report.Faults)
		require.NoError(t, other.RebuildIndex(ctx, "k", nil), "no row contradicts another one by now")

		var want []int32
		for i := int32(10); i <= 50; i++ {
			want = append(want, i)
		}
		if value == 20 {
			want = append(want, 500)
		}
		var got []int32
		late, err := stores(t, db, 1)[0].Table(ctx, "t")
		require.NoError(t, err)
		for row, err := range late.Query(ctx, Query{Where: Field[int32]("k").Between(10, 50)}) {
			require.NoError(t, err)
			got = append(got, row["id"].(int32))
		}
		require.ElementsMatch(t, want, got)
	}
}

func TestRebuildIndexRefuses(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	makeIndexed(t, db, false, false, 3)
	tbl := openIndexed(t, db, "")[0]
	for _, column := range []string{"note", "id", "none"} {
		err := tbl.RebuildIndex(ctx, column, nil)
		require.ErrorIs(t, err, ErrColumn, column)
		require.NotErrorIs(t, err, ope.ErrIndex)
	}
}

// A client that does not know yet that another one has made an index again goes on with the new one: what it knew of the former
// says neither that the index is damaged nor that it is empty.
func TestIndexMadeAgainByAnotherClient(t *testing.T) {
	for _, used := range []bool{true, false} {
		for name, do := range map[string]func(ctx context.Context, tbl *Table) (int, error){
			"rebalance": func(ctx context.Context, tbl *Table) (int, error) {
				stats, err := tbl.Rebalance(ctx, "level", nil)
				return stats.Values, err
			},
			"explain": func(ctx context.Context, tbl *Table) (int, error) {
				e, err := tbl.Explain(ctx, Query{Where: Int64.Field("level").AtLeast(0)})
				return e.Estimate.Rows, err
			},
		} {
			ctx, list := t.Context(), stores(t, drivertest.NewMemory(), 2)
			tbl, err := list[0].Create(ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("level", Int64, Kerschbaum)}})
			require.NoError(t, err)
			require.NoError(t, tbl.Put(ctx, Row{"id": 1, "level": 1}, Row{"id": 2, "level": 2}, Row{"id": 3, "level": 3}))
			other, err := list[1].Table(ctx, "t")
			require.NoError(t, err)
			if used {
				require.Len(t, all(t, other, Query{Where: Int64.Field("level").AtLeast(0)}), 3)
			}
			require.NoError(t, tbl.RebuildIndex(ctx, "level", nil))
			n, err := do(ctx, other)
			require.NoError(t, err, name)
			require.Equal(t, 3, n, "%s, used before: %t", name, used)
		}
	}
}
