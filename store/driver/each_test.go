package driver_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ahead is a database that scans several ranges by Ahead, and one range by what it wraps.
type ahead struct {
	driver.DB
	scans int
}

func (db ahead) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return aheadFamily{f.(driver.Committer), db.scans, spec}, nil
}

type aheadFamily struct {
	driver.Committer
	scans int
	spec  driver.FamilySpec
}

func (f aheadFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if r.Each == nil || f.spec.CheckRange(r) != nil {
		return f.Committer.Scan(ctx, r)
	}
	return r.Ahead(ctx, f.scans, f.Committer.Scan)
}

// Scans ahead are a way to keep the contract.
func TestAheadKeepsTheContract(t *testing.T) {
	drivertest.TestDriver(t, func(testing.TB) driver.DB { return ahead{drivertest.NewMemory(), 7} }, nil)
}

// No more scans are made at a time than asked for, nothing is read far ahead of the caller, and the first error is the last
// thing.
func TestAhead(t *testing.T) {
	const scans = 8
	r := driver.Range{}
	for i := range 200 {
		r.Each = append(r.Each, driver.Bounds{Start: []byte{byte(i), 0}, End: []byte{byte(i), 1}})
	}
	var now, most, begun atomic.Int64
	failing := -1
	failed := errors.New("failed")
	scan := func(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
		return func(yield func(driver.Row, error) bool) {
			begun.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				yield(driver.Row{}, ctx.Err())
			} else if int(r.Start[0]) == failing {
				yield(driver.Row{}, failed)
			} else {
				yield(driver.Row{Key: r.Start}, nil)
			}
		}
	}
	for _, stop := range []int{1, 50, 200} {
		begun.Store(0)
		n := 0
		for row, err := range r.Ahead(t.Context(), scans, scan) {
			require.NoError(t, err)
			require.Equal(t, byte(n), row.Key[0])
			if n++; n == stop {
				break
			}
		}
		require.Equal(t, stop, n)
		require.Zero(t, now.Load(), "a scan goes on")
		require.LessOrEqual(t, begun.Load(), int64(stop+scans))
	}
	require.LessOrEqual(t, most.Load(), int64(scans))
	require.Greater(t, most.Load(), int64(1))

	failing = 100
	n := 0
	for _, err := range r.Ahead(t.Context(), scans, scan) {
		if n++; n == failing+1 {
			require.ErrorIs(t, err, failed)
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, failing+1, n)
	failing = -1

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range r.Ahead(ctx, scans, scan) {
		require.NoError(t, last)
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)

	// Iterations of one sequence do not disturb each other.
	seq := r.Ahead(t.Context(), scans, scan)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			n := 0
			for range seq {
				n++
			}
			if n != len(r.Each) {
				t.Errorf("%d rows", n)
			}
		})
	}
	all.Wait()
	require.Equal(t, []byte{199, 0}, slices.Collect(keysOf(driver.Range{Each: r.Each, Reverse: true}.Ahead(t.Context(), scans, scan)))[0])
}

// A scan that panics, or ends its goroutine, does so to who iterates, after the rows before it.
func TestAheadOfScansThatDoNotReturn(t *testing.T) {
	r := driver.Range{}
	for i := range 20 {
		r.Each = append(r.Each, driver.Bounds{Start: []byte{byte(i), 0}, End: []byte{byte(i), 1}})
	}
	for name, leave := range map[string]func(){"panic": func() { panic("mine") }, "end": runtime.Goexit} {
		rows, returned, thrown := 0, false, any(nil)
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { thrown = recover() }()
			for range r.Ahead(t.Context(), 3, func(_ context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
				return func(yield func(driver.Row, error) bool) {
					if r.Start[0] >= 7 {
						leave()
					}
					yield(driver.Row{Key: r.Start}, nil)
				}
			}) {
				rows++
			}
			returned = true
		})
		all.Wait()
		require.False(t, returned, name)
		require.Equal(t, 7, rows, name)
		if name == "panic" {
			require.ErrorContains(t, thrown.(error), "mine")
		}
	}
}

func keysOf(rows iter.Seq2[driver.Row, error]) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for row := range rows {
			if !yield(row.Key) {
				return
			}
		}
	}
}
