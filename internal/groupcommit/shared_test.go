package groupcommit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// A reader counts calls. Each takes 3 ms, unless its context ends.
type reader struct {
	shared *Shared[int]
	calls  atomic.Int64
	err    error
}

func newReader() *reader {
	r := new(reader)
	r.shared = NewShared(func(ctx context.Context) (int, error) {
		call := int(r.calls.Add(1))
		select {
		case <-time.After(3 * time.Millisecond):
			return call, r.err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	return r
}

// start lets a caller ask, and returns when it waits.
func (r *reader) start(t *testing.T, ctx context.Context, want int, err error) {
	go func() {
		got, failed := r.shared.Do(ctx)
		require.ErrorIs(t, failed, err)
		require.Equal(t, want, got)
	}()
	synctest.Wait()
}

func TestCallsShareTheNextRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		r.start(t, t.Context(), 1, nil)
		r.start(t, t.Context(), 2, nil) // the first read began before
		r.start(t, t.Context(), 2, nil)
		time.Sleep(12 * time.Millisecond)
		synctest.Wait()
		r.err = errors.New("no")
		r.start(t, t.Context(), 3, r.err)
		r.start(t, t.Context(), 4, r.err)
		r.start(t, t.Context(), 4, r.err)
		time.Sleep(12 * time.Millisecond)
		require.Equal(t, 4, int(r.calls.Load()))
	})
}

func TestReadsWaitForAnnouncedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		r.start(t, t.Context(), 1, nil)
		r.shared.Announce()
		r.shared.Announce()
		time.Sleep(6 * time.Millisecond) // it took 3 ms, so the next read waits for 9
		synctest.Wait()
		r.start(t, t.Context(), 2, nil)
		r.shared.Arrive()
		time.Sleep(2 * time.Millisecond)
		r.start(t, t.Context(), 2, nil)
		require.Equal(t, 1, int(r.calls.Load()))
		r.shared.Arrive()
		r.start(t, t.Context(), 2, nil)
		require.Equal(t, 2, int(r.calls.Load()))
		time.Sleep(6 * time.Millisecond)

		r.shared.Announce() // and does not come
		r.start(t, t.Context(), 3, nil)
		time.Sleep(8 * time.Millisecond)
		require.Equal(t, 2, int(r.calls.Load()))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, 3, int(r.calls.Load()))
		r.start(t, t.Context(), 4, nil) // becomes due after the third one has ended
		time.Sleep(15 * time.Millisecond)
		require.Equal(t, 4, int(r.calls.Load()))

		r.shared.mu.Lock()
		r.shared.took = mostPatience // of a slow server
		r.shared.mu.Unlock()
		r.start(t, t.Context(), 5, nil)
		time.Sleep(9 * time.Millisecond)
		require.Equal(t, 4, int(r.calls.Load()))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, 5, int(r.calls.Load()))
		time.Sleep(6 * time.Millisecond)
	})
}

func TestReadsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		ctx, cancel := context.WithCancel(t.Context())
		r.start(t, ctx, 0, context.Canceled)
		cancel()
		synctest.Wait()
		r.start(t, t.Context(), 2, nil) // the first read was given up at once
		ctx, cancel = context.WithCancel(t.Context())
		r.start(t, ctx, 0, context.Canceled)
		cancel()
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 2, int(r.calls.Load())) // the third one was not begun

		ctx, cancel = context.WithCancel(t.Context())
		r.shared.Announce()
		r.start(t, ctx, 0, context.Canceled)
		cancel()
		time.Sleep(20 * time.Millisecond)
		require.Equal(t, 2, int(r.calls.Load()))
		_, err := r.shared.Do(ctx)
		require.ErrorIs(t, err, context.Canceled)

		r.shared.Arrive()
		r.start(t, t.Context(), 3, nil)
		ctx, cancel = context.WithCancel(t.Context())
		r.start(t, ctx, 0, context.Canceled)
		r.start(t, t.Context(), 4, nil)
		cancel() // one of two
		time.Sleep(20 * time.Millisecond)
	})
}

// A function that panics, or ends its goroutine, does so to each caller that it was called for, and to no other.
func TestReadsThatDoNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("mine") }, "end": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				s := NewShared(func(context.Context) (int, error) {
					calls++
					time.Sleep(time.Millisecond)
					if calls == 2 {
						leave()
					}
					return calls, nil
				})
				var got [4]int
				var thrown [4]any
				start := func(i int) {
					go func() {
						defer func() { thrown[i] = recover() }()
						got[i], _ = s.Do(t.Context())
					}()
					synctest.Wait()
				}
				start(0)
				start(1) // shares the second read with the next one
				start(2)
				time.Sleep(1500 * time.Microsecond)
				start(3) // while that is under way
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, [4]int{1, 0, 0, 3}, got)
				for _, i := range []int{1, 2} {
					if p, ok := thrown[i].(*relay.Panicked); name == "panic" {
						require.True(t, ok)
						require.Equal(t, "mine", p.Value)
					}
				}
			})
		})
	}
}

func TestManySharers(t *testing.T) {
	var mu sync.Mutex
	now := 0
	s := NewShared(func(context.Context) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return now, nil
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 100 {
				s.Announce()
				mu.Lock()
				now++
				mine := now
				mu.Unlock()
				s.Arrive()
				got, err := s.Do(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, got, mine) // it was read after what this one did
			}
		})
	}
	all.Wait()
}
