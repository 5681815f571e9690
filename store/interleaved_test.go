package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A sleeper is a client's database that lets the client sleep before one of its calls, while others do something.
type sleeper struct {
	n    int // the call, counted from when the client was armed
	then func()
	end  int // if not zero, the client dies before this call

	mu    sync.Mutex
	armed bool
	calls int
	slept bool // otherwise the client makes fewer calls
	died  bool // so, too
}

func (s *sleeper) over(db driver.DB) driver.DB {
	return drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.armed {
			if s.calls++; s.calls == s.n {
				s.slept = true
				s.then()
			}
			if s.calls == s.end {
				s.died = true
				return drivertest.CrashBefore
			}
		}
		return drivertest.NoFault
	})
}

// opens returns the store and the table "t" as the client knows them that sleeps from now on.
func (s *sleeper) opens(t *testing.T, db driver.DB) (*Store, *Table) {
	t.Helper()
	st := stores(t, s.over(db), 1)[0]
	st.db.Parts = 1 // calls that do the same at the same time have no order
	tbl, err := st.Table(t.Context(), "t")
	require.NoError(t, err)
	s.armed = true
	return st, tbl
}

// addedSchema is of a table whose rows are only added, with copies of them.
func addedSchema() Schema {
	return Schema{
		Name: "t", AppendOnly: true, Key: []KeyPart{HashedPart("device", Int8), TiePart("id")},
		Columns: []Column{
			OrderedColumn("celsius", Int8, MOPE).Covering(), DeterministicColumn("room", Int8).Covering(),
			OrderedColumn("watt", Int8, Wozniak), RandomisedColumn("note", Int8),
		},
	}
}

// equally requires that each of some columns leads to the rows that a scan of all finds, and returns how many there are.
func equally(t *testing.T, tbl *Table, what string, columns ...string) int {
	t.Helper()
	rows := func(q Query) (rows []Row) {
		for row, err := range tbl.Query(t.Context(), q) {
			require.NoError(t, err, what)
			rows = append(rows, row)
		}
		return rows
	}
	all := rows(Query{})
	for _, c := range columns {
		require.ElementsMatch(t, all, rows(Query{Where: Field[int8](c).Between(-100, 100)}), "%s: by %q", what, c)
	}
	return len(all)
}

// A client of an old schema deletes a row, and before each of its calls another one changes the schema and begins to convert the
// rows. It goes to sleep before each of its calls in turn until the row is gone. No index entry that it makes then has the row.
func TestDeleteBesideConversionAtEveryCall(t *testing.T) {
	for name, column := range map[string]Column{
		"another scheme":    OrderedColumn("celsius", Int8, Wozniak).Covering(),
		"ordered now":       OrderedColumn("room", Int8, MOPE).Covering(),
		"copies now":        OrderedColumn("watt", Int8, Wozniak).Covering(),
		"searched now":      DeterministicColumn("note", Int8).Covering(),
		"randomised for it": RandomisedColumn("watt", Int8),
	} {
		t.Run(name, func(t *testing.T) {
			for i, reached := 1, true; reached; i++ {
				for j := 1; ; j++ {
					ctx, memory := t.Context(), drivertest.NewMemory()
					st := stores(t, memory, 1)[0]
					tbl, err := st.Create(ctx, addedSchema())
					require.NoError(t, err)
					for v := range int8(2) {
						require.NoError(t, tbl.Put(ctx, Row{"device": v, "id": LoadTie{1}, "celsius": v, "room": v, "watt": v, "note": v}))
					}
					asleep, awake, converted := make(chan struct{}), make(chan struct{}), make(chan error, 1)
					other := sleeper{n: j, then: func() { close(asleep); <-awake }}
					theirs, converting := other.opens(t, memory)
					deleter := sleeper{n: i, then: func() {
						go func() {
							err := theirs.Alter(ctx, "t", ChangeColumn(column))
							if err == nil {
								_, err = converting.Convert(ctx, nil)
							}
							converted <- err
						}()
						select {
						case <-asleep:
						case err := <-converted:
							converted <- err
						}
					}}
					_, deleting := deleter.opens(t, memory)
					require.NoError(t, deleting.Delete(ctx, Row{"device": int8(0), "id": LoadTie{1}}))
					if reached = deleter.slept; !reached {
						break
					}
					close(awake)
					what := fmt.Sprintf("deleter before call %d, converter before call %d", i, j)
					require.NoError(t, <-converted, what)
					fresh, err := stores(t, memory, 1)[0].Table(ctx, "t")
					require.NoError(t, err)
					require.Equal(t, 1, equally(t, fresh, what, "celsius", "room", "watt", "note"))
					if !other.slept {
						break
					}
				}
			}
		})
	}
}

// Two clients of a load put the same row, and another one deletes what the first of them has put before each call of the
// second in turn. If the second leaves the row there, each column leads to it.
func TestLoadBesideDeleteAtEveryCall(t *testing.T) {
	put := 0
	for n, reached := 1, true; reached; n++ {
		ctx, memory := t.Context(), drivertest.NewMemory()
		tbl, err := stores(t, memory, 1)[0].Create(ctx, addedSchema())
		require.NoError(t, err)
		row := Row{"device": int8(1), "id": LoadTie{1}, "celsius": int8(1), "room": int8(1), "watt": int8(1), "note": int8(1)}
		second := sleeper{n: n, then: func() {
			require.NoError(t, tbl.Put(ctx, row))
			require.NoError(t, tbl.Delete(ctx, row))
		}}
		_, putting := second.opens(t, memory)
		require.NoError(t, putting.Put(ctx, row))
		reached = second.slept
		put += equally(t, tbl, fmt.Sprintf("before call %d", n), "celsius", "room", "watt")
	}
	require.Greater(t, put, 1)
}

// A client converts a part of the rows, and before each of its calls in turn another one changes the schema again and converts
// another part. What the first has converted to the schema of before is no part of the later conversion.
func TestPartOfEarlierConversionAtEveryCall(t *testing.T) {
	for n, reached := 1, true; reached; n++ {
		ctx, memory := context.Background(), drivertest.NewMemory()
		two := stores(t, memory, 1)[0]
		tbl, err := two.Create(ctx, convertSchema())
		require.NoError(t, err)
		for i := range 20 {
			require.NoError(t, tbl.Put(ctx, convertRow(i)))
		}
		require.NoError(t, two.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
		first := sleeper{n: n, then: func() {
			require.NoError(t, two.Alter(ctx, "t", ChangeColumn(DeterministicColumn("value", Int16))))
			_, err := tbl.ConvertPart(ctx, partOf(1, 2))
			require.NoError(t, err)
		}}
		_, converting := first.opens(t, memory)
		_, err = converting.ConvertPart(ctx, partOf(0, 2))
		require.NoError(t, err)
		reached = first.slept
		_, err = convertParts(ctx, tbl, 2)
		require.NoError(t, err)
		require.Empty(t, oldRows(t, tbl), "before call %d", n)
	}
}

// timedDB is a database in which the later of two writes is told by its timestamp.
type timedDB struct {
	driver.DB
	clock *timestamps
}

func (db timedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil || spec.Name[0] != 't' {
		return f, err
	}
	return &timedFamily{stampedFamily{f, db.clock}}, nil
}

type timedFamily struct{ stampedFamily }

func (f *timedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for _, m := range mutations {
		at := f.clock.next()
		if err := f.Family.Apply(ctx, f.clock.merge(m, at, at)); err != nil {
			return err
		}
	}
	return nil
}

func (f *timedFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	for _, r := range replacements {
		if err := f.Family.Apply(ctx, f.clock.mergeReplacement(r)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// A client converts rows, sleeps before one of its calls while another one changes the column and the keys once more and converts
// all rows, and dies before that call or a later one, for each two calls. The rows stay at the version of
// the later conversion, or at a later one.
func TestConverterOfEarlierSchemaDiesAtEveryCall(t *testing.T) {
	ctx := t.Context()
	for n, slept := 1, true; slept; n++ {
		for end, died := n, true; died; end++ {
			db := timedDB{drivertest.NewMemory(), newTimestamps()}
			st := stores(t, db, 1)[0]
			tbl, err := st.Create(ctx, Schema{
				Name: "t", Key: []KeyPart{HashedPart("id", Int8)}, Columns: []Column{OrderedColumn("celsius", Int8, MOPE)},
			})
			require.NoError(t, err)
			for i := range int8(4) {
				require.NoError(t, tbl.Put(ctx, Row{"id": i, "celsius": i}))
			}
			require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("celsius", Int8, Wozniak))))
			versions := func() (all []uint32) {
				for row, err := range tbl.now().Data.Scan(ctx, tbl.now().Rows(0, 1)) {
					require.NoError(t, err)
					h, err := seal.PeekHeader(row.Cells[0].Value)
					require.NoError(t, err)
					all = append(all, h.Policy)
				}
				return all
			}
			var converted []uint32
			first := sleeper{n: n, end: end, then: func() {
				require.NoError(t, st.RotateKeys(ctx, "t"))
				require.NoError(t, st.Alter(ctx, "t", ChangeColumn(OrderedColumn("celsius", Int8, MOPE))))
				_, err := tbl.Convert(ctx, nil)
				require.NoError(t, err)
				converted = versions()
			}}
			_, converting := first.opens(t, db)
			_, err = converting.Convert(ctx, nil)
			slept, died = first.slept, first.died
			require.Equal(t, died, err != nil, "%v", err)
			if !slept {
				break
			}
			fresh, err := stores(t, db, 1)[0].Table(ctx, "t")
			require.NoError(t, err)
			what := fmt.Sprintf("asleep before call %d, dead before call %d", n, end)
			require.Equal(t, 4, equally(t, fresh, what, "celsius"))
			require.GreaterOrEqual(t, slices.Min(versions()), slices.Max(converted), what)
		}
	}
}
