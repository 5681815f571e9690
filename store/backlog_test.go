package store_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A Put of rows that exist returns when these are written. Their old postings go afterwards, and Close waits for that.
func TestWritesLeavePostingsToDropLater(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			memory := drivertest.NewMemory()
			schema := holders(packed)
			schema.Conditional = conditional
			create(t, open(t, memory), schema)
			slow := intercept.WithLatency(memory, func() time.Duration { return time.Second })
			st, err := store.Open(background, slow, kms.NewLocal(testKey), &store.Options{Concurrency: 2})
			require.NoError(t, err)
			tbl, err := st.Table(background, schema.Name)
			require.NoError(t, err)
			took := func(do func() error) int {
				began := time.Now()
				require.NoError(t, do())
				return int(time.Since(began) / time.Second)
			}
			put := func(balance int) int {
				return took(func() error { return tbl.Put(background, store.Row{"id": 1, "balance": balance}) })
			}
			dangling := func() int {
				fresh, err := open(t, memory).Table(background, schema.Name)
				require.NoError(t, err)
				report, err := fresh.Verify(background, nil)
				require.NoError(t, err)
				require.True(t, report.Sound(), report.Faults)
				return report.Dangling
			}
			put(1)
			first := put(2)
			if !conditional { // where the last request is made while the version is read
				require.Equal(t, 1, dangling(), "the posting of the first balance is still there")
			}
			time.Sleep(time.Minute)
			require.Zero(t, dangling())

			// Each call leaves less to do than it takes itself.
			require.Equal(t, first, put(3))
			require.Equal(t, first, put(4))
			put(5)
			ended, cancel := context.WithTimeout(background, time.Millisecond)
			defer cancel()
			put(6)
			if !conditional {
				require.ErrorIs(t, st.Close(ended), context.DeadlineExceeded)
			}
			require.NoError(t, st.Close(background))
			require.Zero(t, dangling())
			require.Greater(t, put(7), first, "after Close")
			require.Zero(t, dangling())
			require.NoError(t, st.Close(background), "twice")
		})
	}
}

// Where the database hangs while it drops postings, calls wait for that no longer than their contexts live.
func TestPostingsThatHangHoldNoCall(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			memory := drivertest.NewMemory()
			hangs := intercept.New(memory, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
				if op.Method == "Apply" && op.Family[0] == 'x' {
					if _, put := c.Size(); put == 0 {
						<-ctx.Done()
						return ctx.Err()
					}
				}
				return c.Make(nil)
			}, nil)
			st, err := store.Open(background, hangs, kms.NewLocal(testKey), &store.Options{Concurrency: 1})
			require.NoError(t, err)
			schema := holders(packed)
			schema.Conditional = conditional
			tbl := create(t, st, schema)
			for balance := range 5 {
				ctx, cancel := context.WithTimeout(background, 5*time.Second)
				began := time.Now()
				require.NoError(t, tbl.Put(ctx, store.Row{"id": 1, "balance": balance}))
				require.LessOrEqual(t, time.Since(began), 5*time.Second)
				cancel()
			}
			require.Len(t, collect(t, tbl, store.Query{}), 1)
			require.NoError(t, st.Close(background))
		})
	}
}

// Close does not take long, however many requests a call may keep under way.
func TestCloseWithoutABound(t *testing.T) {
	st, err := store.Open(background, drivertest.NewMemory(), kms.NewLocal(testKey), &store.Options{Concurrency: math.MaxInt, CacheValues: math.MaxInt})
	require.NoError(t, err)
	schema := holders(packed)
	create(t, st, schema)
	tbl, err := st.Table(background, schema.Name)
	require.NoError(t, err)
	for balance := range 3 {
		require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": balance}))
	}
	ended, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	require.NoError(t, st.Close(ended))
}

// An update posts new values while it reads the row. Where there is none, or another than is asked for, nothing is left.
func TestUpdatesThatAreRefusedLeaveNoPostings(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, holders(packed))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": 10}, store.Row{"id": 2, "balance": 20}))
	require.ErrorIs(t, tbl.UpdateIf(background, store.Row{"id": 1, "balance": 11}, store.Row{"balance": 12}), store.ErrConflict)
	require.ErrorIs(t, tbl.Update(background, store.Row{"id": 3, "balance": 30}), store.ErrNoRow)
	require.ErrorIs(t, tbl.Update(background, store.Row{"id": 2, "balance": 21}, store.Row{"id": 3, "balance": 31}), store.ErrNoRow)
	require.NoError(t, tbl.Update(background, store.Row{"id": 2, "balance": 22}))
	require.NoError(t, st.Close(background))
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Faults)
	require.Zero(t, report.Dangling)
	require.Equal(t, 2, report.Postings)
}

// An insertion that is refused, and a change that loses against another, leave nothing either.
func TestChangesThatLoseLeaveNoPostings(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, holders(packed))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": int64(0)}))
	for i := range 20 {
		err := tbl.Insert(background, store.Row{"id": 100 + i, "balance": i}, store.Row{"id": 1, "balance": i})
		require.ErrorIs(t, err, store.ErrRowExists)
	}
	var lost atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 10 {
				row, err := tbl.Get(background, store.Row{"id": 1})
				if err == nil {
					was := row["balance"].(int64)
					err = tbl.UpdateIf(background, store.Row{"id": 1, "balance": was + 1}, store.Row{"balance": was})
				}
				if errors.Is(err, store.ErrConflict) {
					lost.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	require.NoError(t, st.Close(background))
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Faults)
	require.Zero(t, report.Dangling)
	t.Logf("%d lost, %d rows", lost.Load(), report.Rows)
}

// What fails after the rows were acknowledged is no error of the call. The log has it.
func TestPostingsThatCannotBeDropped(t *testing.T) {
	memory := drivertest.NewMemory()
	applied := 0
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Apply" && op.Family[0] == 'x' {
			if applied++; applied == 3 {
				return drivertest.FailBefore
			}
		}
		return drivertest.NoFault
	})
	var log strings.Builder
	st, err := store.Open(background, db, kms.NewLocal(testKey), &store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, st.Close(background))
	tbl := create(t, st, holders(packed))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": 1}))
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "balance": 2}))
	require.Equal(t, 3, applied)
	require.Contains(t, log.String(), "postings of rows that were replaced or deleted are left over")
	require.NotContains(t, log.String(), "balance")
	require.Empty(t, collect(t, tbl, store.Query{Where: balance.Equal(1)}))
	require.Len(t, collect(t, tbl, store.Query{Where: balance.Equal(2)}), 1)
	report, err := tbl.Verify(background, nil)
	require.NoError(t, err)
	require.Equal(t, 1, report.Dangling)
}

// Calls of the same time share reads of the version, and a read begins after the writes that it is for. The error of one is
// that of all.
func TestCallsShareReadsOfTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers = 32
		memory := struct{ driver.DB }{drivertest.NewMemory()}
		create(t, open(t, memory), holders(packed))
		reads, failing := 0, false
		counted := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Get" && op.Family == "catalogue" {
				if reads++; failing {
					return drivertest.FailBefore
				}
			}
			return drivertest.NoFault
		})
		st, err := store.Open(background, intercept.WithLatency(counted, func() time.Duration { return time.Second }), kms.NewLocal(testKey), nil)
		require.NoError(t, err)
		tbl, err := st.Table(background, "holders")
		require.NoError(t, err)
		put := func() (errs []error) {
			errs = make([]error, writers)
			var group sync.WaitGroup
			for i := range writers {
				group.Go(func() { errs[i] = tbl.Insert(background, store.Row{"id": reads*writers + i, "balance": i}) })
			}
			group.Wait()
			return errs
		}
		reads = 0
		for _, err := range put() {
			require.NoError(t, err)
		}
		require.LessOrEqual(t, reads, 2)
		failing = true
		for _, err := range put() {
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, "after the write the catalogue could not be asked")
		}

		// A caller that leaves does not end the read of the others.
		failing = false
		ended, cancel := context.WithTimeout(background, 1500*time.Millisecond) // while the version is read
		defer cancel()
		var left, stayed error
		var group sync.WaitGroup
		group.Go(func() { left = tbl.Insert(ended, store.Row{"id": -1}) })
		group.Go(func() { stayed = tbl.Insert(background, store.Row{"id": -2}) })
		group.Wait()
		require.ErrorIs(t, left, context.DeadlineExceeded)
		require.NoError(t, stayed)
	})
}
