package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// opened returns a store under keys of its own.
func opened(t *testing.T, db driver.DB) *store.Store { return openedWith(t, db, ope.GenerateKey()) }

func openedWith(t *testing.T, db driver.DB, key ope.Key) *store.Store {
	st, err := store.Open(t.Context(), db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close(context.Background())) })
	return st
}

// A pagesTable is what the two kinds of tables have in common.
type pagesTable interface {
	simTable
	Delete(ctx context.Context, keys ...store.Row) error
}

// create makes a table with so many rows a page, 0 for rows that stand alone.
func create(t *testing.T, st *store.Store, schema store.Schema, pageRows int) (tbl pagesTable) {
	var err error
	if pageRows > 0 {
		tbl, err = paged.Create(t.Context(), st, schema, pageRows)
	} else {
		tbl, err = st.Create(t.Context(), schema)
	}
	require.NoError(t, err)
	return tbl
}

// rowsOf returns the rows of a table by their keys.
func rowsOf(t *testing.T, tbl simTable) map[string]store.Row {
	all := make(map[string]store.Row)
	for r, err := range tbl.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		all[fmt.Sprint(r["device"], r["at"], r["id"])] = r
	}
	return all
}

var pagesColumns = []store.Column{store.RandomisedColumn("celsius", store.Float64), store.PlainColumn("model", store.String)}

// pagesKeys are keys that cut tables into partitions in all ways.
var pagesKeys = map[string]func(store.KeyScheme) store.Schema{
	"hashed": func(by store.KeyScheme) store.Schema {
		return store.Schema{Key: []store.KeyPart{store.HashedPart("device", store.Int64), store.OrderedPart("at", store.Int64, by), store.TiePart("id")}}
	},
	"plain": func(by store.KeyScheme) store.Schema {
		return store.Schema{Key: []store.KeyPart{store.PlainPart("device", store.Uint8), store.OrderedPart("at", store.Int64, by), store.TiePart("id")}}
	},
	"ordered": func(by store.KeyScheme) store.Schema {
		return store.Schema{Key: []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 1000), by), store.HashedPart("device", store.Int64), store.TiePart("id")}}
	},
	"ordered, in one partition": func(by store.KeyScheme) store.Schema {
		return store.Schema{SpreadBits: -1, Key: []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 1000), by), store.HashedPart("device", store.Int64), store.TiePart("id")}}
	},
}

func pagesRow(name string, i int) store.Row {
	r := store.Row{"device": int64(i % 5), "at": int64(7 * i), "id": [16]byte{1, byte(i)}, "celsius": float64(i) / 3, "model": "m"}
	if name == "plain" {
		r["device"] = uint8(i % 5)
	}
	return r
}

// Rows come out of pages into pages, out of pages, and into pages, under other keys, while they are written.
func TestFromAndIntoPages(t *testing.T) {
	t.Parallel() // it waits most of the time
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for name, schema := range pagesKeys {
			for _, of := range [][2]int{{4, 3}, {4, 0}, {0, 4}} {
				if kind.Name != "memory" && of != [2]int{4, 3} && name != "hashed" {
					continue // which takes time, and says no more
				}
				t.Run(fmt.Sprintf("%s, %d to %d", name, of[0], of[1]), func(t *testing.T) {
					t.Parallel() // it waits most of the time
					fromAndIntoPages(t, kind, name, schema, of)
				})
			}
		}
	})
}

func fromAndIntoPages(t *testing.T, kind testdb.Database, name string, schemaOf func(store.KeyScheme) store.Schema, of [2]int) {
	ctx, st := t.Context(), opened(t, kind.Open(t, nil))
	schema := schemaOf(store.MOPE)
	schema.Name, schema.Columns = "readings", pagesColumns
	from := create(t, st, schema, of[0])
	schema = schemaOf(store.Boldyreva)
	schema.Name, schema.Columns = "readings.next", pagesColumns
	into := create(t, st, schema, of[1])
	row := func(i int) store.Row { return pagesRow(name, i) }
	var rows []store.Row
	for i := range 60 {
		rows = append(rows, row(i))
	}
	require.NoError(t, from.Put(ctx, rows...))
	source, err := FromTable(ctx, st, "readings")
	require.NoError(t, err)
	m, err := Open(ctx, st, "readings.next", source)
	require.NoError(t, err)
	plan, err := m.Prepare(ctx, false)
	require.NoError(t, err, plan)
	mirrored := func(keys []store.Row, do func(ctx context.Context, rows ...store.Row) error) {
		t.Helper()
		require.NoError(t, m.Mirror().Write(ctx, keys, func(ctx context.Context) error { return do(ctx, keys...) }))
	}
	copied := 0
	for i := range 3 {
		done, err := m.Copy(ctx, inspect.Part{Index: i, Of: 3}, &PassOptions{Shares: 2})
		require.NoError(t, err)
		copied += done.Rows.Copied
		mirrored([]store.Row{row(10 * i)}, from.Delete)
		mirrored([]store.Row{row(60 + i), row(70 + i), row(80 + i)}, from.Put)
		other := row(40 + i)
		other["celsius"] = -1.0
		mirrored([]store.Row{other}, from.Put)
	}
	require.NotZero(t, copied)
	again, err := m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	require.True(t, again.Again)
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.True(t, done.Over)
	require.Equal(t, Counts{Equal: 66}, done.Rows)
	require.Equal(t, rowsOf(t, from), rowsOf(t, into))

	// Each difference is found, of whatever kind, and mended.
	wrong := row(5)
	wrong["model"] = "another"
	require.NoError(t, into.Put(ctx, wrong, row(90)))
	require.NoError(t, into.Delete(ctx, row(6)))
	found := make(map[string]int)
	done, err = m.Verify(ctx, whole, &PassOptions{Finding: func(f Finding) { found[f.Err.Error()]++ }})
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 64, Differs: 3}, done.Rows)
	require.Equal(t, map[string]int{errDiffers.Error(): 1, errMissing.Error(): 1, errExtra.Error(): 1}, found)
	require.ErrorIs(t, m.Cutover(ctx), ErrDiffers)
	done, err = m.Verify(ctx, whole, &PassOptions{Repair: true})
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 64, Mended: 3}, done.Rows)
	require.Equal(t, rowsOf(t, from), rowsOf(t, into))
	done, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 66}, done.Rows)

	require.NoError(t, m.Cutover(ctx))
	require.ErrorIs(t, m.Mirror().Write(ctx, []store.Row{row(1)}, func(context.Context) error { return errors.New("not called") }), ErrCutOver)
	if kind.Server { // which keeps write times, also of pages: what the application changes from now on is not late
		later := row(7)
		later["model"] = "later"
		require.NoError(t, into.Put(ctx, later))
	}
	done, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Zero(t, done.Rows.Differs)
	late := row(8)
	late["model"] = "late"
	require.NoError(t, from.Put(ctx, late)) // past the wrapper
	_, err = m.Drop(ctx, false, nil)
	require.ErrorIs(t, err, ErrDiffers)
	require.NoError(t, from.Put(ctx, row(8)))
	if kind.Server && of[0] > 0 {
		require.NoError(t, into.Put(ctx, row(7))) // a neighbour of row 8 may count as late
	}
	_, err = m.Drop(ctx, false, nil)
	require.NoError(t, err)
	require.NoError(t, st.RenameTable(ctx, "readings.next", "readings"))
	require.Len(t, rowsOf(t, into), 66)
	if pages, is := into.(*paged.Table); is {
		all, err := pages.Verify(ctx)
		require.NoError(t, err)
		require.Equal(t, 66, all.Rows)
		require.Greater(t, all.Pages, 15)
	}
}

// However a table of pages is cut into parts, each row is in one of them, and stays there when pages are cut.
func TestPartsOfPages(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for name, schemaOf := range pagesKeys {
			t.Run(name, func(t *testing.T) {
				ctx, st := t.Context(), opened(t, kind.Open(t, nil))
				schema := schemaOf(store.Plaintext)
				schema.Name, schema.Columns = "t", pagesColumns
				tbl := create(t, st, schema, 3)
				source, err := FromTable(ctx, st, "t")
				require.NoError(t, err)
				partOf := make(map[string]int)
				look := func(n int) {
					for _, parts := range []int{1, 3, 64} {
						found := make(map[string]int)
						for part := range parts {
							for f, err := range source.Scan(ctx, inspect.Part{Index: part, Of: parts}) {
								require.NoError(t, err)
								key := fmt.Sprint(parts, f.Row["device"], f.Row["at"])
								require.NotContains(t, found, key)
								if before, known := partOf[key]; known {
									require.Equal(t, before, part, "a row has moved")
								}
								found[key], partOf[key] = part, part
								require.Equal(t, kind.Server, time.Since(f.Written) < time.Hour)
							}
						}
						require.Len(t, found, n)
					}
				}
				look(0)
				n := 0
				for _, step := range []int{7, 3, 2} {
					var rows []store.Row
					for i := 0; i < 140; i++ {
						if i%step == 0 {
							rows = append(rows, pagesRow(name, i))
						}
					}
					require.NoError(t, tbl.Put(ctx, rows...))
					n = len(rowsOf(t, tbl))
					look(n)
				}
				require.Greater(t, n, 80)
			})
		}
	})
}

// A chain of pages without its first page, or with a gap, is damage wherever it is: no row is passed over.
func TestPartsOfDamagedPages(t *testing.T) {
	for name, schemaOf := range pagesKeys {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time to look again
				for lost := range 3 {
					ctx, db := t.Context(), drivertest.NewMemory()
					st := opened(t, db)
					schema := schemaOf(store.Plaintext)
					schema.Name, schema.Columns = "t", pagesColumns
					tbl := create(t, st, schema, 2)
					for i := range 40 {
						require.NoError(t, tbl.Put(ctx, pagesRow(name, i)))
					}
					names, err := db.Families(ctx)
					require.NoError(t, err)
					for _, family := range names {
						if family[0] != 't' {
							continue
						}
						spec := driver.FamilySpec{Name: family, Layout: driver.LayoutOrdered, Existing: true}
						f, err := db.Family(ctx, spec)
						for _, prefix := range []int{1, 16} {
							if err != nil {
								spec.PrefixBytes = prefix
								f, err = db.Family(ctx, spec)
							}
						}
						if err != nil {
							spec.PrefixBytes, spec.SpreadBits = 0, 4
							f, err = db.Family(ctx, spec)
						}
						require.NoError(t, err)
						var keys [][]byte
						for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
							require.NoError(t, err)
							keys = append(keys, row.Key)
						}
						require.Greater(t, len(keys), 5)
						require.NoError(t, f.Apply(ctx, driver.Mutation{Row: keys[lost], DeleteRow: true}))
					}
					next := schemaOf(store.Boldyreva)
					next.Name, next.Columns = "next", pagesColumns
					create(t, st, next, 2)
					source, err := FromTable(ctx, st, "t")
					require.NoError(t, err)
					m, err := Open(ctx, st, "next", source)
					require.NoError(t, err)
					_, err = m.Prepare(ctx, false)
					if err == nil {
						for i := range 4 {
							if _, one := m.Copy(ctx, inspect.Part{Index: i, Of: 4}, nil); one != nil {
								err = one
							}
						}
					}
					require.ErrorIs(t, err, store.ErrTampered, "%d", lost)
					require.Equal(t, 1, bytes.Count([]byte(err.Error()), []byte("bring the family back")), "%v", err)
					require.ErrorContains(t, err, `of table "t"`)
				}
			})
		})
	}
}

// What is refused is said before anything begins, or of the row; all else is copied.
func TestIntoPagesThatDoNotTakeARow(t *testing.T) {
	ctx, st := t.Context(), opened(t, drivertest.NewMemory())
	schema := func(name string, ttl time.Duration) store.Schema {
		return store.Schema{Name: name, TTL: ttl, Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("note", store.Bytes)}}
	}
	into := create(t, st, schema("into", 0), 4)
	create(t, st, schema("hour", time.Hour), 0)
	from := create(t, st, schema("by row", store.TTLByRow), 0)
	source, err := FromTable(ctx, st, "hour")
	require.NoError(t, err)
	m, err := Open(ctx, st, "into", source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.ErrorIs(t, err, ErrUnfit)
	require.ErrorContains(t, err, "neither conditional nor of pages")

	require.NoError(t, from.Put(ctx, store.Row{"id": int64(1), "note": []byte("a")}, store.Row{"id": int64(2), "note": make([]byte, 3<<20)}))
	require.NoError(t, from.(*store.Table).Expiring(time.Hour).Put(ctx, store.Row{"id": int64(3), "note": []byte("c")}))
	source, err = FromTable(ctx, st, "by row")
	require.NoError(t, err)
	m, err = Open(ctx, st, "into", source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	var why []string
	done, err := m.Copy(ctx, whole, &PassOptions{Finding: func(f Finding) { why = append(why, f.Err.Error()) }})
	require.NoError(t, err)
	require.Equal(t, Counts{Copied: 1, Refused: 2}, done.Rows)
	require.Len(t, why, 2)
	require.Contains(t, why[0]+why[1], "a row of a page at most")
	require.Contains(t, why[0]+why[1], "neither conditional nor of pages")
	require.Len(t, rowsOf(t, into), 1)
	done, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 1, Refused: 2}, done.Rows)
	require.ErrorIs(t, m.Cutover(ctx), ErrDiffers)
	err = m.Mirror().Write(ctx, []store.Row{{"id": int64(3)}}, func(context.Context) error { return nil })
	require.ErrorIs(t, err, ErrUnfit)
	_, err = Open(ctx, st, "nothing", source)
	require.ErrorIs(t, err, store.ErrNoTable)
}

// Pages that a copy writes while the table gets a new key, or another column, are written once more, under the new schema.
func TestSchemaChangesDuringACopyIntoPages(t *testing.T) {
	for name, change := range map[string]func(context.Context, *store.Store) error{
		"key": func(ctx context.Context, st *store.Store) error { return st.RotateKeys(ctx, "into") },
		"column": func(ctx context.Context, st *store.Store) error {
			return st.Alter(ctx, "into", store.DropColumn("b"), store.AddColumn(store.PlainColumn("b", store.Int64)))
		},
	} {
		t.Run(name, func(t *testing.T) { schemaChanges(t, change) })
	}
}

func schemaChanges(t *testing.T, change func(context.Context, *store.Store) error) {
	ctx, db, key := t.Context(), drivertest.NewMemory(), ope.GenerateKey()
	here, there := openedWith(t, db, key), openedWith(t, db, key)
	tbl := create(t, here, store.Schema{
		Name: "into", SpreadBits: -1, Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Plaintext)},
		Columns: []store.Column{store.PlainColumn("a", store.Int64), store.RandomisedColumn("b", store.Int64)},
	}, 2)
	source := newMemorySource()
	for id := range int64(9) {
		require.NoError(t, source.change(id, store.Row{"a": id, "b": id}, 0))
	}
	m, err := Open(ctx, here, "into", source)
	require.NoError(t, err)
	_, err = m.Prepare(ctx, false)
	require.NoError(t, err)
	reads := 0
	source.before = func(what string) error {
		if what != "read" {
			return nil
		}
		if reads++; reads == 1 {
			return change(ctx, there)
		}
		return nil
	}
	_, err = m.Copy(ctx, whole, nil)
	require.NoError(t, err)
	require.Greater(t, reads, 1)
	all, err := tbl.(*paged.Table).Verify(ctx)
	require.NoError(t, err)
	require.Zero(t, all.Old)
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: 9}, done.Rows)
}

// Copies and writers of a few processes at once, in pages of both tables, with answers that are lost: in the end both have the same.
func TestPagesInChaos(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		runs := sim.Share(8, 3)
		if kind.Server {
			runs = 1
		}
		for i := range runs {
			seed := *simSeed + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				pagesInChaos(t, kind.Open(t, nil), []int{-1, 2}[i%2], rand.New(rand.NewPCG(seed, 1)))
			})
		}
	})
}

func pagesInChaos(t *testing.T, db driver.DB, spread int, r *rand.Rand) {
	ctx, key := t.Context(), ope.GenerateKey()
	const rows = 60
	connect := func(db driver.DB) (*Migration, *paged.Table) {
		st := openedWith(t, db, key)
		schema := store.Schema{SpreadBits: spread, Key: []store.KeyPart{store.OrderedPart("id", store.Int64.Within(0, 1000), store.Boldyreva)}, Columns: []store.Column{store.RandomisedColumn("n", store.Int64)}}
		for _, name := range []string{"from", "into"} {
			schema.Name = name
			_, err := paged.Create(ctx, st, schema, 3)
			require.True(t, err == nil || errors.Is(err, store.ErrExists), err)
		}
		source, err := FromTable(ctx, st, "from")
		require.NoError(t, err)
		m, err := Open(ctx, st, "into", source)
		require.NoError(t, err)
		from, err := paged.Open(ctx, st, "from")
		require.NoError(t, err)
		return m, from
	}
	m, from := connect(db)
	var first []store.Row
	for id := range int64(rows) {
		first = append(first, store.Row{"id": id, "n": int64(0)})
	}
	require.NoError(t, from.Put(ctx, first...))
	_, err := m.Prepare(ctx, false)
	require.NoError(t, err)
	unknown := 0.2 * r.Float64()
	failed := make(chan error, 8)
	var late sync.WaitGroup
	for client := range 6 {
		random := rand.New(rand.NewPCG(r.Uint64(), 2))
		f := &intercept.Fog{Random: rand.New(rand.NewPCG(r.Uint64(), 3)), Late: &late}
		m, from := connect(intercept.New(db, f.Call, nil))
		f.Unknown = unknown
		go func() {
			if client < 2 {
				for i := range 4 {
					if _, err := m.Copy(ctx, inspect.Part{Index: i, Of: 4}, &PassOptions{Shares: 2}); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
				return
			}
			for n := range 40 {
				var keys []store.Row
				for _, id := range random.Perm(rows)[:1+random.IntN(4)] {
					keys = append(keys, store.Row{"id": int64(id), "n": int64(100*client + n)})
				}
				do := from.Put
				if random.IntN(3) == 0 {
					do = from.Delete
				}
				err := driver.ErrUnknownOutcome // where another client has written the row since, the application makes its write again
				for errors.Is(err, driver.ErrUnknownOutcome) {
					err = m.Mirror().Write(ctx, keys, func(ctx context.Context) error { return do(ctx, keys...) })
				}
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range 6 {
		require.NoError(t, <-failed)
	}
	late.Wait()
	into, err := paged.Open(ctx, openedWith(t, db, key), "into")
	require.NoError(t, err)
	values := func(tbl simTable) map[any]any {
		all := make(map[any]any)
		for row, err := range tbl.Query(ctx, store.Query{}) {
			require.NoError(t, err)
			all[row["id"]] = row["n"]
		}
		return all
	}
	require.Equal(t, values(from), values(into), "no writer died")
	done, err := m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Equal: len(values(from))}, done.Rows)
}

// Of a page whose writer died while it cut it, rows are read where they are: others may have changed them in the pages that were made.
func TestSeeACutPage(t *testing.T) {
	for n := 1; n <= 4; n++ {
		ctx, db, key := t.Context(), drivertest.NewMemory(), ope.GenerateKey()
		st := openedWith(t, db, key)
		tbl := create(t, st, store.Schema{
			Name: "t", SpreadBits: -1, Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Plaintext)}, Columns: []store.Column{store.RandomisedColumn("n", store.Int64)},
		}, 2)
		changes, armed, errDead := 0, false, errors.New("dead")
		victim, err := paged.Open(ctx, openedWith(t, intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if armed && op.Conditional() {
				changes++
			}
			if changes > n {
				return errDead
			}
			return c.Make(nil)
		}, nil), key), "t")
		require.NoError(t, err)
		armed = true
		var rows []store.Row
		for id := range int64(7) {
			rows = append(rows, store.Row{"id": id, "n": id})
		}
		require.ErrorIs(t, victim.Put(ctx, rows...), errDead)
		source, err := FromTable(ctx, st, "t")
		require.NoError(t, err)
		read := func() {
			t.Helper()
			found, err := source.Read(ctx, rows)
			require.NoError(t, err)
			for i, f := range found {
				require.True(t, f.Exists)
				require.Equal(t, rows[i], f.Row)
			}
		}
		read()
		if n == 1 {
			continue // no page was made
		}
		rows[6] = store.Row{"id": int64(6), "n": int64(100)}
		require.NoError(t, tbl.Put(ctx, rows[6]))
		read()
	}
}

// Whoever dies at any call of a copy from pages into pages, or is told nothing, leaves what the next one brings to its end.
func TestCopyOfPagesThatIsInterrupted(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"dies before": drivertest.CrashBefore, "dies after": drivertest.CrashAfter, "answer lost": drivertest.FailAfter, "lost": drivertest.Lose, "late": drivertest.FailLate,
	} {
		t.Run(name, func(t *testing.T) {
			every := sim.Every(3)
			for n, reached := 1, true; reached; n += every {
				reached = interruptedCopy(t, fault, n)
			}
		})
	}
}

// interruptedCopy has the n-th call of a copy fail, and reports whether there was one.
func interruptedCopy(t *testing.T, fault drivertest.Fault, n int) bool {
	ctx, db, key := t.Context(), drivertest.NewMemory(), ope.GenerateKey()
	st := openedWith(t, db, key)
	schema := pagesKeys["hashed"](store.MOPE)
	schema.Name, schema.Columns = "from", pagesColumns
	from := create(t, st, schema, 3)
	schema.Name = "into"
	into := create(t, st, schema, 3)
	var rows []store.Row
	for i := range 20 {
		rows = append(rows, pagesRow("hashed", i%2*5+i*10)) // of two devices
	}
	require.NoError(t, from.Put(ctx, rows...))
	want := rowsOf(t, from)
	steps := func(st *store.Store) (m *Migration, err error) {
		source, err := FromTable(ctx, st, "from")
		if err == nil {
			m, err = Open(ctx, st, "into", source)
		}
		var s Status
		if err == nil {
			s, err = m.Status(ctx)
		}
		if err == nil && s.Phase == "" {
			_, err = m.Prepare(ctx, false)
		}
		if err == nil && s.Phase != "cut over" {
			_, err = m.Copy(ctx, whole, nil)
		}
		if err == nil && s.Phase != "cut over" {
			_, err = m.Verify(ctx, whole, &PassOptions{Repair: true})
		}
		if err == nil && s.Phase != "cut over" {
			err = m.Cutover(ctx)
		}
		return m, err
	}
	calls, armed := 0, false
	dying := openedWith(t, drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
		if !armed {
			return drivertest.NoFault
		}
		if calls++; calls == n {
			return fault
		}
		return drivertest.NoFault
	}), key)
	armed = true
	_, _ = steps(dying)
	armed = false
	m, err := steps(st)
	require.NoError(t, err)
	s, err := m.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "cut over", s.Phase)
	require.Equal(t, want, rowsOf(t, into))
	_, err = m.Verify(ctx, whole, nil)
	require.NoError(t, err)
	_, err = m.Drop(ctx, false, nil)
	require.NoError(t, err)
	require.Equal(t, want, rowsOf(t, into))
	return calls >= n
}
