package store

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// lazyStore opens a Store that converts rows when they are read.
func lazyStore(t testing.TB, db driver.DB, opts Options) *Store {
	t.Helper()
	opts.ConvertOnRead = true
	st, err := Open(t.Context(), db, testMaster, &opts)
	require.NoError(t, err)
	t.Cleanup(st.Close)
	return st
}

// idle waits until no row waits to be converted, and none is.
func idle(t testing.TB, st *Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		st.lazy.mu.Lock()
		defer st.lazy.mu.Unlock()
		return !st.lazy.busy
	}, time.Minute, time.Millisecond)
}

// oldRows returns the ids of the rows that are not stored as the table stores rows.
func oldRows(t testing.TB, tbl *Table) (ids []int64) {
	t.Helper()
	v, err := tbl.refresh(t.Context())
	require.NoError(t, err)
	for row, err := range v.data.Scan(t.Context(), v.rows(0, 1)) {
		require.NoError(t, err)
		old, err := v.outdated(row, new(scratch))
		require.NoError(t, err)
		if old {
			r, err := v.decode(row, nil, new(scratch))
			require.NoError(t, err)
			ids = append(ids, r.values[0].(int64))
		}
	}
	slices.Sort(ids)
	return ids
}

// Rows that a read finds stored in an older way are written anew behind it, those and no others, and
// read as before.
func TestConvertOnRead(t *testing.T) {
	for _, c := range []struct {
		layout      Layout
		conditional bool
	}{{Packed, false}, {CellPerColumn, false}, {Packed, true}} {
		t.Run(fmt.Sprintf("%v/conditional=%t", c.layout, c.conditional), func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, kind testdb.Database) {
				ctx, db := t.Context(), kind.Open(t, nil)
				st, other := lazyStore(t, db, Options{}), stores(t, db, 1)[0]
				schema := plainTenants(c.layout)
				schema.Conditional = c.conditional
				_, err := st.Create(ctx, schema)
				require.NoError(t, err)
				tbl := openTenants(t, st, "log", "alpha")[0]
				const n = 12
				var rows []Row
				for i := range n {
					rows = append(rows, tenantRow(i))
				}
				require.NoError(t, st.SetPolicy(ctx, "alpha", "log", Policy{}))
				require.NoError(t, tbl.Put(ctx, rows...))
				ids := func(from int) (ids []int64) {
					for i := from; i < n; i++ {
						ids = append(ids, int64(i))
					}
					return ids
				}
				read := func() {
					t.Helper()
					require.Equal(t, rows, sorted(t, tbl, Query{}))
					idle(t, st)
				}
				read()
				require.Empty(t, oldRows(t, tbl))

				// By Get, by a query for some, and by one for all.
				require.NoError(t, other.SetPolicy(ctx, "alpha", "log", Policy{Sensitive: []string{"note"}}))
				got, err := tbl.Get(ctx, rows[0])
				require.NoError(t, err)
				require.Equal(t, rows[0], got)
				idle(t, st)
				require.Equal(t, ids(0), oldRows(t, tbl), "it cannot know yet")
				got, err = tbl.Get(ctx, rows[0])
				require.NoError(t, err)
				require.Equal(t, rows[0], got)
				idle(t, st)
				require.Equal(t, ids(1), oldRows(t, tbl))
				require.False(t, holds(everything(t, tbl), []byte(rows[0]["note"].(string))))
				require.True(t, holds(everything(t, tbl), []byte(rows[1]["note"].(string))))
				require.Len(t, sorted(t, tbl, Query{Where: Field[int64]("id").In(1, 2), Columns: []string{"size"}}), 2)
				idle(t, st)
				require.Equal(t, ids(3), oldRows(t, tbl), "also where the changed column was not asked for")
				require.Len(t, sorted(t, tbl, Query{Where: Field[string]("note").Equal(rows[3]["note"].(string))}), 1)
				idle(t, st)
				require.Equal(t, ids(4), oldRows(t, tbl), "a row that is read and does not satisfy the predicate is not found")
				page, _, err := tbl.Page(ctx, Query{Where: Field[int16]("level").Equal(4), Limit: 5}) // 4 and 11
				require.NoError(t, err)
				require.Len(t, page, 2)
				idle(t, st)
				require.Equal(t, ids(5)[:6], oldRows(t, tbl))
				read()
				require.Empty(t, oldRows(t, tbl))

				// A new key, another encryption, a column that is gone.
				for _, change := range []func() error{
					func() error { return st.RotateTenantKey(ctx, "alpha") },
					func() error { return st.Alter(ctx, "log", ChangeColumn(OrderedColumn("size", Int64, MOPE))) },
					func() error { return st.Alter(ctx, "log", DropColumn("zone")) },
					func() error { return st.SetPolicy(ctx, "alpha", "log", Policy{}) },
				} {
					// Cassandra waits where a row was replaced too often since it was put.
					require.NoError(t, tbl.Put(ctx, rows...))
					require.NoError(t, change())
					if tbl.now().byName["zone"] == nil {
						for _, row := range rows {
							delete(row, "zone")
						}
					}
					require.Equal(t, ids(0), oldRows(t, tbl))
					read()
					require.Empty(t, oldRows(t, tbl))
				}
				read()
				report, err := tbl.Verify(ctx, nil)
				require.NoError(t, err)
				require.Empty(t, report.Faults)
				require.Equal(t, n, report.Rows)
			})
		})
	}
}

// callCounter counts the calls of a database by their method.
type callCounter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *callCounter) decide(op drivertest.Op) drivertest.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[op.Method]++
	return drivertest.NoFault
}

func (c *callCounter) reset() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = nil
	return n
}

// Rows that are stored as they should be cost no request more, nor does a Get of what is in the clear
// begin to open anything, however old the row is.
func TestConvertOnReadCostsNothing(t *testing.T) {
	for _, layout := range []Layout{Packed, CellPerColumn} {
		ctx, memory := t.Context(), drivertest.NewMemory()
		var calls callCounter
		st := lazyStore(t, drivertest.NewFaulty(memory, calls.decide), Options{})
		_, err := st.Create(ctx, plainTenants(layout))
		require.NoError(t, err)
		tbl := openTenants(t, st, "log", "alpha")[0]
		require.NoError(t, st.SetPolicy(ctx, "alpha", "log", Policy{Sensitive: []string{"note", "size"}}))
		var rows []Row
		for i := range 30 {
			rows = append(rows, tenantRow(i))
		}
		require.NoError(t, tbl.Put(ctx, rows...))
		// The version of the table is another one by now, and the rows are as they should be.
		require.NoError(t, st.Alter(ctx, "log", AddColumn(RandomisedColumn("more", String)), RenameColumn("size", "bytes")))
		require.NoError(t, st.SetPolicy(ctx, "alpha", "log", Policy{Sensitive: []string{"bytes", "note"}}))
		calls.reset()
		_, err = tbl.Get(ctx, rows[1])
		require.NoError(t, err)
		idle(t, st)
		require.Equal(t, map[string]int{"Get": 1}, calls.reset())
		require.Len(t, sorted(t, tbl, Query{}), len(rows))
		idle(t, st)
		require.Equal(t, map[string]int{"Snapshot": 1, "Family": 1, "Scan": 1}, calls.reset())

		require.NoError(t, st.SetPolicy(ctx, "alpha", "log", Policy{}))
		calls.reset()
		got, err := tbl.Get(ctx, rows[1], "zone")
		require.NoError(t, err)
		require.Equal(t, rows[1]["zone"], got["zone"])
		idle(t, st)
		require.Equal(t, map[string]int{"Get": 1}, calls.reset())
		keyless := *tbl.now()
		keyless.keySealer = nil
		want, err := keyless.want([]string{"zone"})
		require.NoError(t, err)
		r, err := keyless.getClear(ctx, stored(t, tbl, rows[1]).key, rows[1], want)
		require.NoError(t, err)
		require.Equal(t, rows[1]["zone"], keyless.row(r, want)["zone"])
		require.Len(t, oldRows(t, tbl), len(rows))
	}
}

// A row that is written or deleted after it was read again, and before it is replaced, stays as it was
// written; that is due to the condition of the replacement.
func TestConvertOnReadLosesNoWrite(t *testing.T) {
	for _, layout := range []Layout{Packed, CellPerColumn} {
		for _, conditional := range []bool{false, true} {
			for _, remove := range []bool{false, true} {
				run := func(t *testing.T, blind bool) (faults []string) {
					ctx, memory := t.Context(), drivertest.NewMemory()
					other := stores(t, memory, 1)[0]
					theirs, err := other.Create(ctx, staleSchema(layout, conditional))
					require.NoError(t, err)
					require.NoError(t, theirs.Put(ctx, staleRow(1, 5)))
					require.NoError(t, other.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE))))
					written := false
					db := &meddled{DB: memory, blind: blind, before: func() {
						written = true
						if remove {
							require.NoError(t, theirs.Delete(ctx, Row{"id": int64(1)}))
						} else {
							require.NoError(t, theirs.Put(ctx, staleRow(1, 77)))
						}
					}}
					st := lazyStore(t, db, Options{})
					tbl, err := st.Table(ctx, "t")
					require.NoError(t, err)
					got, err := tbl.Get(ctx, Row{"id": int64(1)})
					require.NoError(t, err)
					require.Equal(t, staleRow(1, 5), got)
					idle(t, st)
					require.True(t, written)
					got, err = theirs.Get(ctx, Row{"id": int64(1)})
					require.NoError(t, err)
					switch {
					case remove && got != nil:
						faults = append(faults, "the row is back")
					case !remove && got["value"] != int16(77):
						faults = append(faults, "the row is as it was")
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

// A policy that is changed, and to which all rows are converted, after a row was read and before it is
// replaced: the row is stored as the policy says all the same, since the version is read behind. The
// other conversion has its only part done, and ends before it says that all is over, so that Convert
// finds nothing to do in it.
func TestConversionSleepsThroughPolicy(t *testing.T) {
	conversions := map[string]func(t *testing.T, tbl *Table){
		"read": func(t *testing.T, tbl *Table) {
			_, err := tbl.Get(t.Context(), tenantRow(1))
			require.NoError(t, err)
			idle(t, tbl.st)
		},
		"Convert": func(t *testing.T, tbl *Table) {
			_, err := tbl.Convert(t.Context(), nil)
			require.NoError(t, err)
		},
	}
	for by, convert := range conversions {
		for _, layout := range []Layout{Packed, CellPerColumn} {
			for _, conditional := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/conditional=%t", by, layout, conditional), func(t *testing.T) {
					run := func(t *testing.T, guards schemaGuards) []int64 {
						guards.parts = 1
						ctx, memory := t.Context(), drivertest.NewMemory()
						other := stores(t, memory, 1)[0]
						other.guards = guards
						schema := plainTenants(layout)
						schema.Conditional = conditional
						_, err := other.Create(ctx, schema)
						require.NoError(t, err)
						theirs := openTenants(t, other, "log", "alpha")[0]
						sealed := Policy{Sensitive: []string{"note"}}
						require.NoError(t, other.SetPolicy(ctx, "alpha", "log", sealed))
						require.NoError(t, theirs.Put(ctx, tenantRow(1)))
						require.NoError(t, other.SetPolicy(ctx, "alpha", "log", Policy{}))
						db := &meddled{DB: memory, before: func() {
							require.NoError(t, other.SetPolicy(ctx, "alpha", "log", sealed))
							ctx, cancel := context.WithCancel(ctx)
							stats, err := theirs.Convert(ctx, &ConvertOptions{Progress: func(done, total int) {
								if done == total {
									cancel()
								}
							}})
							require.ErrorIs(t, err, context.Canceled)
							require.Equal(t, ConvertStats{Rows: 1}, stats, "the row is as the policy says")
						}}
						st := lazyStore(t, db, Options{})
						st.guards = guards
						convert(t, openTenants(t, st, "log", "alpha")[0])
						got, err := theirs.Get(ctx, tenantRow(1))
						require.NoError(t, err)
						require.Equal(t, tenantRow(1), got)
						return oldRows(t, theirs)
					}
					require.Empty(t, run(t, schemaGuards{}))
					require.NotEmpty(t, run(t, schemaGuards{noVersion: true}), "the version was not needed")
				})
			}
		}
	}
}

// A client that dies at any call loses no row, and the next one goes on.
func TestConvertOnReadCrashesAtEveryCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, dead := 1, true; dead; n++ {
			ctx, memory := t.Context(), drivertest.NewMemory()
			other := stores(t, memory, 1)[0]
			theirs, err := other.Create(ctx, convertSchema())
			require.NoError(t, err)
			rows := []Row{convertRow(1), convertRow(2), convertRow(4)}
			require.NoError(t, theirs.Put(ctx, rows...))
			require.NoError(t, other.Alter(ctx, "t", ChangeColumn(OrderedColumn("value", Int16, MOPE)), DropColumn("kind")))
			for _, row := range rows {
				delete(row, "kind")
			}
			var crashed atomic.Bool
			at := drivertest.CrashAt(n, after)
			st, err := Open(ctx, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				fault := at(op)
				if fault != drivertest.NoFault {
					crashed.Store(true)
				}
				return fault
			}), testMaster, &Options{ConvertOnRead: true})
			if err == nil {
				var tbl *Table
				if tbl, err = st.Table(ctx, "t"); err == nil {
					for _, err = range tbl.Query(ctx, Query{}) {
						if err != nil {
							break
						}
					}
				}
				require.Eventually(t, func() bool {
					st.lazy.mu.Lock()
					defer st.lazy.mu.Unlock()
					return !st.lazy.busy || crashed.Load()
				}, time.Minute, time.Millisecond)
				st.Close()
			}
			if dead = crashed.Load(); !dead {
				require.NoError(t, err)
				require.Empty(t, oldRows(t, theirs))
			} else if err != nil {
				require.ErrorIs(t, err, drivertest.ErrInjected)
			}
			next := lazyStore(t, memory, Options{})
			tbl, err := next.Table(ctx, "t")
			require.NoError(t, err)
			require.Equal(t, rows, sorted(t, tbl, Query{}), "after call %d", n)
			idle(t, next)
			require.Empty(t, oldRows(t, tbl), "after call %d", n)
			require.Equal(t, rows, sorted(t, tbl, Query{}), "after call %d", n)
			_, err = tbl.Convert(ctx, nil)
			require.NoError(t, err)
			report, err := tbl.Verify(ctx, nil)
			require.NoError(t, err)
			require.Empty(t, report.Faults, "after call %d", n)
		}
	}
}

// stoppingDB calls a function before rows are replaced, and fails as that does.
type stoppingDB struct {
	driver.DB
	before func(ctx context.Context, rows int) error
}

type stoppingFamily struct {
	driver.Family
	db *stoppingDB
}

func (db *stoppingDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return &stoppingFamily{f, db}, err
}

func (f *stoppingFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	if err := f.db.before(ctx, len(replacements)); err != nil {
		return nil, err
	}
	return f.Family.Replace(ctx, replacements...)
}

// More rows than may wait are left to later reads, which never wait themselves. Close waits for the
// rows that are under way and begins no others; where the database does not answer, it does not wait for long.
func TestCloseWithRowsToConvert(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			begun, gate := make(chan struct{}, 10), make(chan struct{})
			var replaced atomic.Int64 // rows
			db := &stoppingDB{noSnapshots{DB: drivertest.NewMemory()}, func(ctx context.Context, rows int) error {
				begun <- struct{}{}
				select {
				case <-gate:
				case <-ctx.Done():
					return ctx.Err()
				}
				replaced.Add(int64(rows))
				return nil
			}}
			st, err := Open(ctx, db, testMaster, &Options{ConvertOnRead: true})
			require.NoError(t, err)
			tbl, err := st.Create(ctx, Schema{
				Name: "t", Key: []KeyPart{PlainPart("id", Int64)},
				Columns: []Column{RandomisedColumn("value", Int16)},
			})
			require.NoError(t, err)
			var rows []Row
			for i := range int64(mostLazy + 1000) {
				rows = append(rows, Row{"id": i, "value": int16(i)})
			}
			require.NoError(t, tbl.Put(ctx, rows...))
			require.NoError(t, st.RotateKeys(ctx, "t"))
			for range 2 { // all of them are read, and one batch is converted
				require.Equal(t, rows, sorted(t, tbl, Query{}))
			}
			<-begun
			st.lazy.mu.Lock()
			require.Len(t, st.lazy.known, mostLazy)
			require.LessOrEqual(t, len(st.lazy.waiting), mostLazy-1)
			st.lazy.mu.Unlock()

			begin := time.Now()
			closed := make(chan struct{})
			go func() {
				st.Close()
				close(closed)
			}()
			synctest.Wait()
			select {
			case <-closed:
				t.Fatal("it did not wait")
			default:
			}
			if answers {
				close(gate)
			}
			<-closed
			if answers {
				require.Zero(t, time.Since(begin))
				require.Positive(t, replaced.Load())
				require.LessOrEqual(t, replaced.Load(), int64(lazyBatch))
			} else {
				require.Equal(t, lazyGrace, time.Since(begin))
				require.Zero(t, replaced.Load())
			}
			st.Close()
			require.Equal(t, rows, sorted(t, tbl, Query{}))
			require.Empty(t, begun)
			require.Len(t, oldRows(t, tbl), len(rows)-int(replaced.Load()))
		})
	}
}

// What cannot be converted fails no read, is tried again later, and is told once in a while; of a
// database that cannot be written to, nothing is told.
func TestConvertOnReadFails(t *testing.T) {
	for _, fails := range []error{driver.ErrUnavailable, driver.ErrReadOnly} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			var refuses atomic.Pointer[error]
			db := &stoppingDB{drivertest.NewMemory(), func(context.Context, int) error {
				if err := refuses.Load(); err != nil {
					return fmt.Errorf("refused: %w", *err)
				}
				return nil
			}}
			var out lockedBuffer
			st, err := Open(ctx, db, testMaster, &Options{ConvertOnRead: true, Logger: textLogger(&out), MeterProvider: metering{out: &out}})
			require.NoError(t, err)
			defer st.Close()
			tbl, err := st.Create(ctx, convertSchema())
			require.NoError(t, err)
			var rows []Row
			for i := range 10 {
				rows = append(rows, convertRow(i))
			}
			require.NoError(t, tbl.Put(ctx, rows...))
			require.NoError(t, st.RotateKeys(ctx, "t"))
			refuses.Store(&fails)
			for range 100 { // nothing waits when the first pauses end, and they grow all the same
				require.Equal(t, rows, sorted(t, tbl, Query{}))
				time.Sleep(3 * time.Second)
			}
			told := strings.Count(out.String(), "rows that were read are not converted")
			if fails == driver.ErrReadOnly {
				require.Zero(t, told)
			} else {
				require.Greater(t, told, 3)
				require.Less(t, told, 15)
			}
			refuses.Store(nil)
			time.Sleep(mostLazyPause)
			require.Equal(t, rows, sorted(t, tbl, Query{}))
			synctest.Wait()
			require.Empty(t, oldRows(t, tbl))
			converted := 0
			for _, line := range strings.Split(out.String(), "\n") {
				var n int
				if _, err := fmt.Sscanf(line, "rangecrypt.rows %d error=false rangecrypt.operation=convert on read", &n); err == nil {
					converted += n
				}
			}
			require.Equal(t, len(rows), converted, "they are counted")
		})
	}
}

// Reads of rows that are as they should be, and that are of an older version all the same.
func BenchmarkConvertOnRead(b *testing.B) {
	for _, on := range []bool{false, true} {
		for _, older := range []bool{false, true} {
			b.Run(fmt.Sprintf("on=%t/older=%t", on, older), func(b *testing.B) {
				ctx := b.Context()
				st, err := Open(ctx, drivertest.NewMemory(), testMaster, &Options{ConvertOnRead: on})
				require.NoError(b, err)
				defer st.Close()
				tbl, err := st.Create(ctx, plainTenantsWithout(Packed))
				require.NoError(b, err)
				require.NoError(b, tbl.Put(ctx, tenantRow(1)))
				if older {
					require.NoError(b, st.Alter(ctx, "log", RenameColumn("note", "text")))
				}
				key := Row{"id": int64(1), "at": int32(1)}
				b.ReportAllocs()
				for b.Loop() {
					if row, err := tbl.Get(ctx, key); err != nil || row == nil {
						b.Fatal(row, err)
					}
				}
			})
		}
	}
}

func plainTenantsWithout(layout Layout) Schema {
	schema := plainTenants(layout)
	schema.Tenants = false
	return schema
}

func textLogger(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }
