package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

func convertSchema() Schema {
	return Schema{
		Name: "t",
		Key:  []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			RandomisedColumn("value", Int16), OrderedColumn("level", Int16, MOPE), DeterministicColumn("kind", Int16),
			PlainColumn("zone", Int16), RandomisedColumn("note", Int16),
		},
	}
}

func convertRow(i int) Row {
	row := Row{"id": int64(i), "value": int16(i % 7), "level": int16(i % 5), "kind": int16(i % 3), "zone": int16(i), "note": int16(-i)}
	if i%4 == 0 {
		delete(row, "value")
	}
	return row
}

// answer returns the ids of the rows that a query yields, ascending, and what drove it.
func answer(t *testing.T, tbl *Table, where Predicate) (ids []int64, driver string) {
	t.Helper()
	for row, err := range tbl.Query(t.Context(), Query{Where: where}) {
		require.NoError(t, err)
		ids = append(ids, row["id"].(int64))
	}
	slices.Sort(ids)
	e, err := tbl.Analyze(t.Context(), Query{Where: where})
	require.NoError(t, err)
	return ids, e.Driver
}

// Every change of an encryption is seen in every row at once, and drives queries after a conversion.
func TestConvert(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		for name, to := range map[string]Column{
			"ordered": OrderedColumn("value", Int16, MOPE), "mutable": OrderedColumn("value", Int16, Kerschbaum), "ranked": OrderedColumn("value", Int16, KerschbaumRanked),
			"stateful": OrderedColumn("value", Int16, WozniakIndexed), "deterministic": DeterministicColumn("value", Int16),
			"plaintext": OrderedColumn("value", Int16, Plaintext),
		} {
			t.Run(fmt.Sprintf("%v/%s", layout, name), func(t *testing.T) {
				ctx, db := t.Context(), drivertest.NewMemory()
				two := stores(t, db, 2)
				schema := convertSchema()
				schema.CellPerColumn = layout
				stale, err := two[0].Create(ctx, schema)
				require.NoError(t, err)
				const n = 300
				var rows []Row
				for i := range n {
					rows = append(rows, convertRow(i))
				}
				require.NoError(t, stale.Put(ctx, rows...))
				require.NoError(t, two[1].Alter(ctx, "t", ChangeColumn(to), ChangeColumn(PlainColumn("note", Int16)),
					ChangeColumn(RandomisedColumn("level", Int16)), ChangeColumn(RandomisedColumn("zone", Int16)), RenameColumn("kind", "sort")))
				tbl, err := two[1].Table(ctx, "t")
				require.NoError(t, err)
				at := func(i int) Row {
					row := convertRow(i)
					row["sort"] = row["kind"]
					delete(row, "kind")
					return row
				}
				check := func(drives string) {
					t.Helper()
					for i := range n {
						got, err := tbl.Get(ctx, Row{"id": int64(i)})
						require.NoError(t, err)
						require.Equal(t, at(i), got)
					}
					var want []int64
					for i := range n {
						if i%7 == 3 && i%4 != 0 {
							want = append(want, int64(i))
						}
					}
					ids, by := answer(t, tbl, Field[int16]("value").Equal(3))
					require.Equal(t, want, ids)
					require.Equal(t, drives, by)
				}
				check("all rows")
				e, err := tbl.Analyze(ctx, Query{Where: Field[int16]("value").Equal(3)})
				require.NoError(t, err)
				require.Equal(t, []string{"value"}, e.Unconverted)
				_, err = tbl.Analyze(ctx, Query{Where: Field[int16]("value").AtLeast(3), Reverse: true})
				require.ErrorIs(t, err, driver.ErrRange)
				require.ErrorContains(t, err, `column "value" was changed`)
				// A client that does not know writes as it always did, and all the same.
				require.NoError(t, stale.Put(ctx, convertRow(7), convertRow(9)))
				require.Equal(t, "sort", stale.Schema().Columns[2].Describe().Name, "it knows now")
				check("all rows")
				status, err := tbl.Status(ctx)
				require.NoError(t, err)
				require.ElementsMatch(t, []string{"value", "level", "zone", "note"}, status.Pending)

				var last [2]int
				stats, err := tbl.Convert(ctx, func(done, total int) { last = [2]int{done, total} })
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertStats{Rows: n, Converted: n - 2}, stats)
				require.Equal(t, [2]int{sweepParts, sweepParts}, last)
				check("value")
				status, err = tbl.Status(ctx)
				require.NoError(t, err)
				require.Empty(t, status.Pending)
				report, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.Empty(t, report.Faults)
				require.Zero(t, report.Dangling, "old postings are gone")
				stats, err = tbl.Convert(ctx, nil)
				require.NoError(t, err)
				require.Equal(t, inspect.ConvertStats{Rows: n}, stats)

				// What a dropped column leaves goes, too.
				require.NoError(t, two[1].Alter(ctx, "t", DropColumn("value"), DropColumn("zone")))
				report, err = tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.Empty(t, report.Faults)
				_, err = tbl.Convert(ctx, nil)
				require.NoError(t, err)
				for row, err := range tbl.now().Data.Scan(ctx, driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					old, err := tbl.now().Outdated(row, new(rowcodec.Scratch))
					require.NoError(t, err)
					require.False(t, old)
				}
				if tbl.now().Postings != nil {
					postings := 0
					for _, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
						require.NoError(t, err)
						postings++
					}
					require.Equal(t, n, postings, "of one column")
				}
			})
		}
	}
}

// Of two clients that finish a conversion both know to which version rows are converted, whoever comes
// first; and that a rotation of keys, which came between, is not among what they have done.
func TestConclude(t *testing.T) {
	for _, rotated := range []bool{false, true} {
		ctx, db := t.Context(), drivertest.NewMemory()
		both := stores(t, db, 2)
		_, err := both[0].Create(ctx, convertSchema())
		require.NoError(t, err)
		require.NoError(t, both[0].Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE)), DropColumn("kind")))
		var targets [2]uint32
		var views [2]*engine.Engine
		var tables [2]*Table
		for i, st := range both {
			tables[i], err = st.Table(ctx, "t")
			require.NoError(t, err)
			views[i] = tables[i].now()
		}
		if rotated {
			require.NoError(t, both[0].RotateKeys(ctx, "t"))
		}
		for i, tbl := range tables {
			targets[i], err = (&rewrite.Conversion{Table: tbl.open()}).Conclude(ctx, views[i])
			require.NoError(t, err)
		}
		after, err := tables[0].refresh(ctx)
		require.NoError(t, err)
		want := after.Since
		if rotated {
			want = views[0].Since
		}
		require.Equal(t, [2]uint32{want, want}, targets)
	}
}

// The postings of the last column that was searched go, too.
func TestConvertDropsLastPostings(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{DeterministicColumn("kind", Int16), PlainColumn("zone", Int16)},
	})
	require.NoError(t, err)
	for i := range 10 {
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(i), "kind": int16(i), "zone": int16(i)}))
	}
	family := tbl.now().Postings
	postings := func() (n int) {
		for _, err := range family.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, 10, postings())
	require.NoError(t, st.Alter(ctx, "t", DropColumn("kind")))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Zero(t, postings())
	require.True(t, tbl.now().Postings == nil)
}

// A table or a policy that is changed while rows are converted is one to convert to.
func TestConvertBeginsAgain(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, st *Store) error{
		"keys": func(ctx context.Context, st *Store) error { return st.RotateKeys(ctx, "log") },
		"policy": func(ctx context.Context, st *Store) error {
			return setPolicy(ctx, st, "alpha", "log", Policy{Whole: true})
		},
		"column": func(ctx context.Context, st *Store) error {
			return st.Alter(ctx, "log", ChangeColumn(OrderedColumn("size", Int64, MOPE)))
		},
	} {
		for _, first := range []Change{AddColumn(PlainColumn("more", Int16)), ChangeColumn(RandomisedColumn("size", Int64))} {
			ctx, db := t.Context(), drivertest.NewMemory()
			both := stores(t, db, 2)
			schema := plainTenants(cellPerColumn)
			schema.Tenants = name == "policy"
			tbl, err := both[0].Create(ctx, schema)
			require.NoError(t, err)
			if schema.Tenants {
				tbl = openTenants(t, both[0], "log", "alpha")[0]
			}
			const n = 200
			for i := range n {
				require.NoError(t, tbl.Put(ctx, tenantRow(i)))
			}
			require.NoError(t, both[0].Alter(ctx, "log", first))
			changed := false
			stats, err := tbl.Convert(ctx, func(done, total int) {
				if done == total/2 && !changed {
					changed = true
					require.NoError(t, change(ctx, both[1]))
				}
			})
			require.NoError(t, err)
			require.True(t, changed)
			require.Equal(t, 2*n, stats.Rows, name)
			require.Empty(t, oldRows(t, tbl))
			status, err := tbl.Status(ctx)
			require.NoError(t, err)
			require.Equal(t, status.Latest, status.Version)
			require.Empty(t, status.Pending)
		}
	}
}

// A callback that does not return ends the call, though it is called in another goroutine: a panic can be recovered from, and
// a test that has failed ends. The next call goes on where it was.
func TestConvertWhoseCallbackEnds(t *testing.T) {
	for _, end := range []func(){func() { panic("of the caller") }, runtime.Goexit} {
		st := stores(t, drivertest.NewMemory(), 1)[0] // each ends its own conversion: the rest of it may be done before all of the call know
		tbl, err := st.Create(t.Context(), convertSchema())
		require.NoError(t, err)
		require.NoError(t, tbl.Put(t.Context(), convertRow(1)))
		require.NoError(t, st.Alter(t.Context(), "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
		said := make(chan any, 1)
		go func() {
			calls, returned := 0, false
			defer func() { said <- fmt.Sprint(recover(), returned) }()
			_, _ = tbl.Convert(t.Context(), func(int, int) {
				if calls++; calls == 2 {
					end()
				}
			})
			returned = true
		}()
		require.NotContains(t, <-said, "true")
		_, err = tbl.Convert(t.Context(), nil)
		require.NoError(t, err)
		status, err := tbl.Status(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Pending)
	}
}

// Clients share a conversion, and it goes on where one stopped.
func TestConvertIsShared(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	clients := stores(t, db, 3)
	tbl, err := clients[0].Create(ctx, convertSchema())
	require.NoError(t, err)
	const n = 500
	for i := range n {
		require.NoError(t, tbl.Put(ctx, convertRow(i)))
	}
	require.NoError(t, clients[0].Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
	stopped, cancel := context.WithCancel(ctx)
	_, err = tbl.Convert(stopped, func(done, _ int) {
		if done == sweepParts/4 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	status, err := tbl.Status(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, status.Done, sweepParts/4)
	require.Less(t, status.Done, sweepParts)
	left := sweepParts - status.Done
	var group, joined sync.WaitGroup
	joined.Add(len(clients))
	stats, errs := make([]inspect.ConvertStats, len(clients)), make([]error, len(clients))
	for i, st := range clients {
		group.Go(func() {
			var once sync.Once
			tbl, err := st.Table(ctx, "t")
			if err == nil {
				stats[i], err = tbl.Convert(ctx, func(int, int) {
					once.Do(func() { joined.Done(); joined.Wait() }) // nobody begins before all are there
				})
			}
			errs[i] = err
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	read := 0
	for _, s := range stats {
		read += s.Rows
	}
	t.Logf("%d rows read, %d of %d parts", read, left, sweepParts)
	require.Less(t, read, n*3/2, "who comes last does not begin again")
	_, by := answer(t, tbl, Field[int16]("value").Equal(3))
	require.Equal(t, "value", by)
	report, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}

// oldRows returns the ids of the rows that are not stored as the table stores rows.
func oldRows(t testing.TB, tbl *Table) (ids []int64) {
	t.Helper()
	v, err := tbl.refresh(t.Context())
	require.NoError(t, err)
	for row, err := range v.Data.Scan(t.Context(), v.Rows(0, 1)) {
		require.NoError(t, err)
		old, err := v.Outdated(row, new(rowcodec.Scratch))
		require.NoError(t, err)
		if old {
			r, err := v.Decode(row, nil, new(rowcodec.Scratch))
			require.NoError(t, err)
			ids = append(ids, r.Values[0].(int64))
		}
	}
	slices.Sort(ids)
	return ids
}

// A policy that is changed, and to which all rows are converted, after a row was read and before it is
// replaced: the row is stored as the policy says all the same, since the version is read after the row. The
// other conversion has its only part done, and ends before it says that all is over, so that Convert
// finds nothing to do in it.
func TestConversionSleepsThroughPolicy(t *testing.T) {
	for _, layout := range []bool{packed, cellPerColumn} {
		for _, conditional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/conditional=%t", layout, conditional), func(t *testing.T) {
				ctx, memory := t.Context(), drivertest.NewMemory()
				other := stores(t, memory, 1)[0]
				other.db.Parts = 1
				schema := plainTenants(layout)
				schema.Conditional = conditional
				_, err := other.Create(ctx, schema)
				require.NoError(t, err)
				theirs := openTenants(t, other, "log", "alpha")[0]
				sealed := Policy{Sensitive: []string{"note"}}
				require.NoError(t, setPolicy(ctx, other, "alpha", "log", sealed))
				require.NoError(t, theirs.Put(ctx, tenantRow(1)))
				require.NoError(t, setPolicy(ctx, other, "alpha", "log", Policy{}))
				db := &meddled{DB: memory, before: func() {
					require.NoError(t, setPolicy(ctx, other, "alpha", "log", sealed))
					ctx, cancel := context.WithCancel(ctx)
					stats, err := theirs.Convert(ctx, func(done, total int) {
						if done == total {
							cancel()
						}
					})
					require.ErrorIs(t, err, context.Canceled)
					require.Equal(t, inspect.ConvertStats{Rows: 1}, stats, "the row is as the policy says")
				}}
				st := stores(t, db, 1)[0]
				st.db.Parts = 1
				_, err = openTenants(t, st, "log", "alpha")[0].Convert(ctx, nil)
				require.NoError(t, err)
				got, err := theirs.Get(ctx, tenantRow(1))
				require.NoError(t, err)
				require.Equal(t, tenantRow(1), got)
				require.Empty(t, oldRows(t, theirs))
			})
		}
	}
}

// A row that the schema does not take is counted, and is no error, also where the schema is changed once more during the conversion.
func TestUnfitRowsWhileTheSchemaChanges(t *testing.T) {
	ctx, list := t.Context(), stores(t, drivertest.NewMemory(), 2)
	tbl, err := list[0].Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("level", Float64), RandomisedColumn("note", String)},
	})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": 1, "level": math.NaN()}, Row{"id": 2, "level": 2.5}))
	require.NoError(t, list[0].Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Float64, MOPE))))
	before := tbl.now()
	var rows []driver.Row
	r := before.Rows(0, 1)
	r.Cells.Stamps = true
	for row, err := range before.Data.Scan(ctx, r) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	require.Len(t, rows, 2)
	require.NoError(t, list[1].Alter(ctx, "t", AddColumn(OrderedColumn("watt", Int64, MOPE))))
	done, err := before.ConvertAndSettle(ctx, rows)
	require.NoError(t, err)
	require.Equal(t, 1, done.Unfit)
	stats, err := tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, 1, stats.Unfit)
	require.Len(t, all(t, tbl, Query{Where: Field[float64]("level").AtLeast(0)}), 1)
}
