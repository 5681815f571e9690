package store

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// leaseHold is how long a change waits for a lease, as docs/architecture.md says.
func leaseHold(d time.Duration) time.Duration { return d + d/16 + 50*time.Millisecond }

// leaseStores opens one database as several clients, which use leases by the clock of the bubble.
func leaseStores(t *testing.T, db driver.DB, n int) []*Store {
	t.Helper()
	list := stores(t, db, n)
	began := time.Now()
	for _, st := range list {
		st.useLeases(func() time.Duration { return time.Since(began) })
	}
	return list
}

func lasts(t *testing.T, d time.Duration, do func() error) {
	t.Helper()
	began := time.Now()
	require.NoError(t, do())
	require.Equal(t, d, time.Since(began))
}

// lastsAbout is for passes, in which goroutines may have to wait for each other.
func lastsAbout(t *testing.T, d time.Duration, do func() error) {
	t.Helper()
	began := time.Now()
	require.NoError(t, do())
	require.GreaterOrEqual(t, time.Since(began), d)
	require.Less(t, time.Since(began), d+time.Second)
}

func TestSetLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), drivertest.NewMemory()
		clients := leaseStores(t, db, 2)
		st, other := clients[0], clients[1]
		format := func() byte {
			cells, _ := catalogueCells(t, db)
			return cells[0].Value[0]
		}
		requireLease := func(d, wait time.Duration, ending bool, of byte) {
			t.Helper()
			lease, err := other.Lease(ctx)
			require.NoError(t, err)
			require.Equal(t, inspect.Lease{Duration: d, Wait: wait, Ending: ending}, lease)
			require.Equal(t, of, format())
		}
		set := func(d time.Duration) func() error { return func() error { return st.SetLease(ctx, d) } }
		requireLease(0, 0, false, catalogueFormat)
		lasts(t, 0, set(0))
		requireLease(0, 0, false, catalogueFormat)

		lasts(t, 0, set(time.Second))
		requireLease(time.Second, leaseHold(time.Second), false, formatLease)
		lasts(t, 0, set(time.Second))
		lasts(t, 0, set(10*time.Second))
		requireLease(10*time.Second, leaseHold(10*time.Second), false, formatLease)

		// A shorter one counts for writers at once, and as set when the former one is over.
		go func() {
			time.Sleep(leaseHold(10*time.Second) - 1)
			requireLease(2*time.Second, leaseHold(10*time.Second), true, formatLease)
		}()
		lasts(t, leaseHold(10*time.Second), set(2*time.Second))
		requireLease(2*time.Second, leaseHold(2*time.Second), false, formatLease)
		go func() {
			time.Sleep(time.Second)
			requireLease(0, leaseHold(2*time.Second), true, formatLease)
		}()
		lasts(t, leaseHold(2*time.Second), set(0))
		requireLease(0, 0, false, catalogueFormat)
	})
}

func TestLeasesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), drivertest.NewMemory()
		st := leaseStores(t, db, 1)[0]
		cells, _ := catalogueCells(t, db)
		for d, says := range map[time.Duration]string{
			-time.Second:                           "take at least 100ms, or switch the lease off",
			1:                                      "take at least 100ms, or switch the lease off",
			100*time.Millisecond - 1:               "take at least 100ms, or switch the lease off",
			time.Minute + time.Millisecond:         "take at most 1m0s",
			time.Hour:                              "take at most 1m0s",
			time.Second + 500*time.Microsecond:     "round it",
			100*time.Millisecond + time.Nanosecond: "round it",
		} {
			err := st.SetLease(ctx, d)
			require.ErrorIs(t, err, ErrLease, d)
			require.ErrorContains(t, err, says)
			require.False(t, Retryable(err))
		}
		// A check of the version takes a second here.
		var calls []string
		slow, err := Open(ctx, timed(db, &calls), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		began := time.Now()
		slow.useLeases(func() time.Duration { return time.Since(began) })
		err = slow.SetLease(ctx, 3*time.Second)
		require.ErrorIs(t, err, ErrLease)
		require.ErrorContains(t, err, "where a check of the version took 1s just now: take at least 4s, or switch the lease off")
		now, _ := catalogueCells(t, db)
		require.Equal(t, cells, now, "nothing was changed")
		require.NoError(t, slow.SetLease(ctx, 4*time.Second))
	})
}

// A catalogue of the first format gets its tree with a lease, and keeps it when that is off.
func TestLeaseOfACatalogueWithoutTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tables := range []int{0, 3} {
			ctx, db := t.Context(), drivertest.NewMemory()
			st := leaseStores(t, db, 1)[0]
			for i := range tables {
				_, err := st.Create(ctx, alterSchema(fmt.Sprint(i)))
				require.NoError(t, err)
			}
			cells, set := catalogueCells(t, db)
			old, nodes := toFormatNoTree(t, st.db.Catalogue, cells)
			set(append(old, nodes...)...)
			for _, d := range []time.Duration{time.Second, 0} {
				require.NoError(t, st.SetLease(ctx, d))
				found, err := leaseStores(t, db, 1)[0].Tables(ctx)
				require.NoError(t, err)
				require.Len(t, found, tables)
			}
			now, _ := catalogueCells(t, db)
			require.Equal(t, byte(catalogueFormat), now[0].Value[0])
			require.Len(t, now, len(cells))
		}
	})
}

// A rotation of the master key leaves the lease.
func TestLeaseAndMasterKey(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	require.NoError(t, st.SetLease(ctx, time.Second))
	next := kms.NewLocal(ope.GenerateKey())
	require.NoError(t, st.RotateMaster(ctx, next))
	opened, err := Open(ctx, db, next, nil)
	require.NoError(t, err)
	lease, err := opened.Lease(ctx)
	require.NoError(t, err)
	require.Equal(t, time.Second, lease.Duration)
}

// Who takes the format byte of a lease away makes no catalogue without one of it.
func TestFormatOfALeaseIsBound(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	require.NoError(t, st.SetLease(ctx, time.Second))
	cells, set := catalogueCells(t, db)
	cells[0].Value[0] = catalogueFormat
	set(cells...)
	_, err := Open(ctx, db, kms.NewLocal(testMaster), nil)
	require.ErrorIs(t, err, ErrTampered)
}

func TestChangesWaitForLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), drivertest.NewMemory()
		clients := leaseStores(t, db, 2)
		st, other := clients[0], clients[1]
		const d = 10 * time.Second
		hold := leaseHold(d)
		require.NoError(t, st.SetLease(ctx, d))
		schema := Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("level", Int8), OrderedColumn("k", Int8, Kerschbaum)}}
		shared := Schema{Name: "of tenants", Tenants: true, Key: schema.Key, Columns: schema.Columns}
		var tbl *Table
		lasts(t, 0, func() (err error) { tbl, err = st.Create(ctx, schema); return err })
		lasts(t, 0, func() (err error) { _, err = st.Create(ctx, shared); return err })
		lasts(t, 0, func() error { return st.CreateTenant(ctx, "acme") })
		for what, do := range map[string]func() error{
			"alter":         func() error { return st.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int8, MOPE))) },
			"rotate keys":   func() error { return st.RotateKeys(ctx, "t") },
			"policy":        func() error { return st.SetPolicy(ctx, "acme", "of tenants", Policy{Whole: true}) },
			"rotate tenant": func() error { return st.RotateTenantKey(ctx, "acme") },
		} {
			t.Log(what)
			lasts(t, hold, do)
		}
		// What is as wanted already may have become so right now.
		lasts(t, hold, func() error { return other.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int8, MOPE))) })
		lasts(t, 0, func() error { return other.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int8, MOPE))) })

		// The end of a conversion is a change as well. Its beginning need not wait for what this client knows for so long.
		time.Sleep(hold)
		lastsAbout(t, hold, func() error { _, err := tbl.Convert(ctx, nil); return err })
		converts, err := other.Table(ctx, "t")
		require.NoError(t, err)
		lastsAbout(t, hold, func() error { _, err := converts.Convert(ctx, nil); return err })

		lastsAbout(t, 2*hold, func() error { return tbl.RebuildIndex(ctx, "k", nil) })
		lasts(t, hold, func() error { return st.RenameTable(ctx, "t", "u") })
		lasts(t, hold, func() error { return st.DropTenant(ctx, "acme") })
		lasts(t, hold, func() error { return st.Drop(ctx, "u") })
		lasts(t, 0, func() error { return st.CreateTenant(ctx, "acme") })
	})
}

// A wait ends when it was to end, whatever else its client changes meanwhile; and a conversion waits for changes of its own
// table only.
func TestWaitsForLeasesAreNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		clients := leaseStores(t, drivertest.NewMemory(), 2)
		st, other := clients[0], clients[1]
		hold := leaseHold(10 * time.Second)
		require.NoError(t, st.SetLease(ctx, 10*time.Second))
		tbl, err := st.Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		_, err = st.Create(ctx, alterSchema("u"))
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			time.Sleep(5 * time.Second)
			done <- st.Alter(ctx, "u", RenameColumn("zone", "area"))
		}()
		lasts(t, hold, func() error { return st.Alter(ctx, "t", RenameColumn("zone", "area")) })
		lasts(t, 5*time.Second, func() error { return <-done })

		require.NoError(t, other.Alter(ctx, "u", RenameColumn("area", "zone")))
		lasts(t, 0, func() error { _, err := tbl.open().Settled(ctx); return err })
	})
}

// Whoever deletes what a dropped tenant left may be another client than the one that dropped it, and died.
func TestRowsOfDroppedTenantsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		clients := leaseStores(t, drivertest.NewMemory(), 2)
		require.NoError(t, clients[0].SetLease(ctx, 10*time.Second))
		tbl, _, _ := orphanTable(t, clients[0], stateless(), false)
		lasts(t, 0, func() error { _, err := tbl.DeleteOrphans(ctx, nil); return err })
		dying, die := context.WithCancel(ctx)
		time.AfterFunc(1, die)
		require.ErrorIs(t, clients[0].DropTenant(dying, "beta"), context.Canceled)
		purges, err := clients[1].Table(ctx, "log")
		require.NoError(t, err)
		lasts(t, leaseHold(10*time.Second), func() error {
			deleted, err := purges.DeleteOrphans(ctx, nil)
			require.Positive(t, deleted.Rows)
			return err
		})
	})
}

// A change that cannot wait is not made; one whose wait is cut is made, and says so.
func TestChangesThatCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		st := leaseStores(t, drivertest.NewMemory(), 1)[0]
		_, err := st.Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		require.NoError(t, st.SetLease(ctx, 10*time.Second))
		columns := func() []string {
			schemas, err := st.Tables(ctx)
			require.NoError(t, err)
			return columnNames(schemas[0])
		}
		before := columns()
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		for _, do := range []func() error{
			func() error { return st.Alter(short, "t", RenameColumn("zone", "area")) },
			func() error { return st.SetLease(short, time.Second) },
		} {
			lasts(t, 0, func() error {
				err := do()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "nothing was changed: a change waits 10.675s for clients with a lease, and the context ends in 1s: give it more time")
				return nil
			})
		}
		require.Equal(t, before, columns())
		require.NoError(t, st.SetLease(short, 20*time.Second), "a longer lease waits for nothing")

		cut, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		err = st.Alter(cut, "t", RenameColumn("zone", "area"))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "the catalogue says so, but clients with a lease may write as before for another 20.3s")
		require.NotEqual(t, before, columns())

		// What the change came with stays: the index of a column that has one now.
		cut, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, st.Alter(cut, "t", AddColumn(DeterministicColumn("lamp", Int32).ServerIndex())), context.Canceled)
		tbl, err := st.Table(ctx, "t")
		require.NoError(t, err)
		n, err := tbl.Count(ctx, Int32.Field("lamp").Equal(3))
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

// A change is made, its answer is lost, and whoever made it does not wait, or cannot read on. What it came with stays: other clients
// have the table, and may have put rows.
func TestLostAnswerOfAChangeThatIsNotWaitedFor(t *testing.T) {
	for name, unread := range map[string]bool{"the context ends": false, "the catalogue cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				var lose bool
				reads := 0 // of the catalogue that are answered from now on
				db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
					if op.Method == "Get" && reads > 0 {
						if reads--; reads == 0 {
							return driver.ErrUnavailable
						}
					}
					err := c.Make(nil)
					if op.Method == "CheckAndPut" && lose && err == nil {
						lose = false
						if unread {
							reads = 2 // the first one finds the change
						}
						return driver.ErrUnknownOutcome
					}
					return err
				}, nil)
				st := leaseStores(t, db, 1)[0]
				_, err := st.Create(ctx, alterSchema("t"))
				require.NoError(t, err)
				require.NoError(t, st.SetLease(ctx, 10*time.Second))
				time.Sleep(time.Minute) // that of the lease itself is over
				for table, change := range map[string]func(context.Context) error{
					"u": func(ctx context.Context) error { _, err := st.Create(ctx, alterSchema("u")); return err },
					"t": func(ctx context.Context) error {
						return st.Alter(ctx, "t", AddColumn(DeterministicColumn("lamp", Int32).ServerIndex()))
					},
				} {
					lose = true
					cut, cancel := context.WithCancel(ctx)
					time.AfterFunc(time.Second, cancel)
					require.ErrorContains(t, change(cut), "the catalogue says so, but clients with a lease may write as before")
					cancel()
					tbl, err := st.Table(ctx, table)
					require.NoError(t, err)
					where := And()
					if table == "t" {
						where = Int32.Field("lamp").Equal(3)
					}
					n, err := tbl.Count(ctx, where)
					require.NoError(t, err)
					require.Zero(t, n)
				}
			})
		})
	}
}

// Who dies while a lease becomes shorter leaves changes that wait for the longer one, until somebody sets it again.
func TestLeaseOfADeadClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		clients := leaseStores(t, drivertest.NewMemory(), 3)
		_, err := clients[0].Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		require.NoError(t, clients[0].SetLease(ctx, 10*time.Second))
		dying, die := context.WithCancel(ctx)
		time.AfterFunc(time.Second, die)
		require.ErrorIs(t, clients[0].SetLease(dying, 0), context.Canceled)
		time.Sleep(time.Hour)
		lease, err := clients[1].Lease(ctx)
		require.NoError(t, err)
		require.Equal(t, inspect.Lease{Wait: leaseHold(10 * time.Second), Ending: true}, lease)
		lasts(t, leaseHold(10*time.Second), func() error { return clients[1].Alter(ctx, "t", RenameColumn("zone", "area")) })
		lasts(t, leaseHold(10*time.Second), func() error { return clients[2].SetLease(ctx, 0) })
		lasts(t, 0, func() error { return clients[1].Alter(ctx, "t", RenameColumn("area", "zone")) })
	})
}

// A client that waits for the end of a longer lease does not end one that others have set meanwhile.
func TestLeaseIsSetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		clients := leaseStores(t, drivertest.NewMemory(), 4)
		require.NoError(t, clients[0].SetLease(ctx, 10*time.Second))
		hold, began := leaseHold(10*time.Second), time.Now()
		go func() { require.NoError(t, clients[0].SetLease(ctx, time.Second)) }()
		time.Sleep(5 * time.Second)
		require.NoError(t, clients[1].SetLease(ctx, 10*time.Second))
		time.Sleep(time.Second)
		go func() { require.NoError(t, clients[2].SetLease(ctx, time.Second)) }()
		for _, c := range []struct {
			at     time.Duration
			ending bool
		}{{hold - 1, true}, {hold + time.Second, true}, {6*time.Second + hold - 1, true}, {6*time.Second + hold + 1, false}} {
			time.Sleep(c.at - time.Since(began))
			lease, err := clients[3].Lease(ctx)
			require.NoError(t, err)
			require.Equal(t, c.ending, lease.Ending, c.at)
			require.Equal(t, time.Second, lease.Duration)
		}
	})
}

// The least favourable case that a lease stands. The clock of a writer is 3 % slow. It reads the version right before a
// client changes the column and dies; and its row is written when its lease is about to end. A client whose clock is 3 % fast
// converts the table. The row must have been converted.
func TestLeaseStandsClocksThatDiffer(t *testing.T) {
	for _, d := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaseStandsClocks(t, d) })
		})
	}
}

// A leaseScene is the least favourable case that a lease stands.
type leaseScene struct {
	ctx    context.Context
	client func(db driver.DB, percent time.Duration) *Store // whose clock is so fast
	memory driver.DB
	admin  *Store
	writer *Store
	writes *Table
	until  time.Time // a row of the writer is written then
	reads  int       // of the catalogue, by the writer
}

func newLeaseScene(t *testing.T, d time.Duration, column Column) *leaseScene {
	s := &leaseScene{ctx: t.Context(), memory: noSnapshots{drivertest.NewMemory(), false}}
	began := time.Now()
	s.client = func(db driver.DB, percent time.Duration) *Store {
		st, err := Open(s.ctx, db, kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		require.NoError(t, st.Close(s.ctx))
		st.useLeases(func() time.Duration { return time.Since(began) * percent / 100 })
		return st
	}
	s.admin = s.client(s.memory, 100)
	_, err := s.admin.Create(s.ctx, Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64), TiePart("tie")}, Columns: []Column{column}})
	require.NoError(t, err)
	require.NoError(t, s.admin.SetLease(s.ctx, d))
	s.writer = s.client(intercept.New(s.memory, func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if op.Family == catalogueFamily && op.Reads() {
			s.reads++
		}
		if op.Family != "" && op.Family[0] == 't' && !op.Reads() && op.Method != "Family" {
			time.Sleep(time.Until(s.until))
		}
		return c.Make(nil)
	}, nil), 97)
	s.writes, err = s.writer.Table(s.ctx, "t")
	require.NoError(t, err)
	return s
}

// write puts a row, which is written a moment after the lease ends, or before if that is negative, by the clock of the writer.
func (s *leaseScene) write(t *testing.T, d, moment time.Duration, level int8) (written chan struct{}) {
	_, err := s.writer.Lease(s.ctx)
	require.NoError(t, err)
	s.until, s.reads, written = time.Now().Add(d*100/97+moment), 0, make(chan struct{})
	go func() {
		defer close(written)
		require.NoError(t, s.writes.Put(s.ctx, Row{"id": 1, "level": level}))
	}()
	return written
}

// dies calls do for a client that dies while it waits.
func (s *leaseScene) dies(t *testing.T, do func(context.Context) error) {
	dying, die := context.WithCancel(s.ctx)
	time.AfterFunc(1, die)
	require.ErrorIs(t, do(dying), context.Canceled)
}

func (s *leaseScene) requireFound(t *testing.T, tbl *Table, rows int) {
	t.Helper()
	found := 0
	for _, err := range tbl.Query(s.ctx, Query{Where: Int8.Field("level").AtLeast(-100)}) {
		require.NoError(t, err)
		found++
	}
	require.True(t, forms.Settled(tbl.now().ByName["level"]))
	require.Equal(t, rows, found)
}

func leaseStandsClocks(t *testing.T, d time.Duration) {
	s := newLeaseScene(t, d, RandomisedColumn("level", Int8))
	written := s.write(t, d, -time.Millisecond, 7)
	s.dies(t, func(ctx context.Context) error {
		return s.admin.Alter(ctx, "t", ChangeColumn(OrderedColumn("level", Int8, MOPE)))
	})
	tbl, err := s.client(s.memory, 103).Table(s.ctx, "t")
	require.NoError(t, err)
	_, err = tbl.Convert(s.ctx, nil)
	require.NoError(t, err)
	<-written
	require.Zero(t, s.reads, "the row was to be acknowledged by the lease")
	s.requireFound(t, tbl, 1)

	<-s.write(t, d, 0, 7) // learns of the change
	<-s.write(t, d, -time.Millisecond, 7)
	require.Zero(t, s.reads)
	<-s.write(t, d, time.Millisecond, 7)
	require.Equal(t, 1, s.reads, "the lease is over")
	s.requireFound(t, tbl, 4)
}

// So it is with an index that is made again by a client that dies, and finished by another one.
func TestIndexesMadeAgainWaitForLeases(t *testing.T) {
	for _, end := range []string{"made again", "finished by a writer"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const d = time.Second
				s := newLeaseScene(t, d, OrderedColumn("level", Int8, Kerschbaum))
				written := s.write(t, d, -time.Millisecond, 7)
				// What is put into the index is put into the former one.
				synctest.Wait()
				tbl, err := s.admin.Table(s.ctx, "t")
				require.NoError(t, err)
				s.dies(t, func(ctx context.Context) error { return tbl.RebuildIndex(ctx, "level", nil) })
				other, err := s.client(s.memory, 103).Table(s.ctx, "t")
				require.NoError(t, err)
				if end == "made again" {
					require.NoError(t, other.RebuildIndex(s.ctx, "level", nil))
				} else {
					now := other.now()
					require.NoError(t, now.Env.Fill(s.ctx, now.IndexOf(now.ByName["level"])))
				}
				<-written
				require.Zero(t, s.reads, "the row was to be acknowledged by the lease")
				fresh, err := s.client(s.memory, 100).Table(s.ctx, "t")
				require.NoError(t, err)
				s.requireFound(t, fresh, 1)
			})
		})
	}
}

// Who waits makes sure first that every client finds the version from which it waits: on Cassandra, what it has read may be a
// change that is not decided yet.
func TestWaitsForLeasesBeginWithADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		st := leaseStores(t, db, 1)[0]
		_, err := st.Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		require.NoError(t, st.SetLease(ctx, time.Second))
		dying, die := context.WithCancel(ctx)
		time.AfterFunc(1, die)
		require.Error(t, st.Alter(dying, "t", RenameColumn("zone", "area")))
		var calls []string
		other, err := Open(ctx, timed(db, &calls), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		began := time.Now()
		other.useLeases(func() time.Duration { return time.Since(began) })
		tbl, err := other.Table(ctx, "t")
		require.NoError(t, err)
		calls = nil
		require.NoError(t, tbl.convertOnly(ctx))
		require.Equal(t, []string{"Get c", "Get c", "CheckAndPut c"}, calls[:3], "the entry; the root, and that it is the root")
	})
}

// convertOnly is Convert without its statistics.
func (tbl *Table) convertOnly(ctx context.Context) error {
	_, err := tbl.Convert(ctx, nil)
	return err
}

// Without the lease, a client reads the version after each write.
func TestClientsWithoutLease(t *testing.T) {
	ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, alterSchema("t"))
	require.NoError(t, err)
	require.NoError(t, st.SetLease(ctx, time.Minute))
	for _, without := range []bool{false, true} {
		reads := 0
		client, err := Open(ctx, intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if op.Family == catalogueFamily && op.Method == "Get" {
				reads++
			}
			return c.Make(nil)
		}, nil), kms.NewLocal(testMaster), &Options{NoLease: without})
		require.NoError(t, err)
		client.db.Catalogue.Clock = func() time.Duration { return 0 }
		tbl, err := client.Table(ctx, "t")
		require.NoError(t, err)
		reads = 0
		for i := range 3 {
			require.NoError(t, tbl.Put(ctx, Row{"id": i, "at": i}))
		}
		if without || client.db.NoLease { // which it is where clocks stop with the machine
			require.Equal(t, 3, reads)
		} else {
			require.Zero(t, reads)
		}
	}
}

// What becomes of rows that could not be written is not known, so that they are settled as ever.
func TestFailedWritesReadTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), noSnapshots{drivertest.NewMemory(), false}
		admin := leaseStores(t, db, 1)[0]
		_, err := admin.Create(ctx, alterSchema("t"))
		require.NoError(t, err)
		require.NoError(t, admin.SetLease(ctx, time.Minute))
		reads, fails := 0, false
		st, err := Open(ctx, drivertest.NewFaulty(db, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Get" && op.Family == catalogueFamily {
				reads++
			}
			if fails && op.Family[0] == 't' && op.Method == "Apply" {
				return drivertest.FailAfter
			}
			return drivertest.NoFault
		}), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		st.useLeases(func() time.Duration { return 0 })
		tbl, err := st.Table(ctx, "t")
		require.NoError(t, err)
		reads = 0
		require.NoError(t, tbl.Put(ctx, Row{"id": 1, "at": 1}))
		require.Zero(t, reads)
		fails = true
		require.Error(t, tbl.Put(ctx, Row{"id": 2, "at": 2}))
		require.Positive(t, reads)
	})
}
