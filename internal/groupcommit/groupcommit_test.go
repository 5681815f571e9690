package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A server doubles values. Each call of it waits until it is let on.
type server struct {
	group *Group[int, int]
	on    chan struct{}
	calls [][]int
}

var errNegative = errors.New("negative")

func newServer(most int) *server {
	s := &server{on: make(chan struct{})}
	s.group = New(most, func(ctx context.Context, values []int) ([]int, error) {
		select {
		case <-s.on:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.calls = append(s.calls, slices.Clone(values))
		out := make([]int, len(values))
		for i, v := range values {
			if v < 0 {
				return nil, errNegative
			}
			out[i] = 2 * v
		}
		return out, nil
	})
	return s
}

// start lets a caller ask for values, and returns when it waits.
func (s *server) start(t *testing.T, ctx context.Context, want error, values ...int) {
	go func() {
		got, err := s.group.Do(ctx, values)
		if want != nil {
			require.ErrorIs(t, err, want)
			return
		}
		require.NoError(t, err)
		require.Len(t, got, len(values))
		for i, v := range values {
			require.Equal(t, 2*v, got[i])
		}
	}()
	synctest.Wait()
}

func (s *server) finish(t *testing.T, calls ...[]int) {
	close(s.on)
	synctest.Wait()
	require.Equal(t, calls, s.calls)
	require.Zero(t, s.group.Callers())
}

func TestCallsShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(4)
		s.start(t, t.Context(), nil, 1)
		s.start(t, t.Context(), nil, 2)
		s.start(t, t.Context(), nil, 3)
		require.Equal(t, 3, s.group.Callers())
		s.finish(t, []int{1}, []int{2, 3})
	})
}

// Each caller has its share of a turn, and the first ones have what the others leave.
func TestLargeCallsLetOthersThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(4)
		s.start(t, t.Context(), nil, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		s.start(t, t.Context(), nil, 11)
		s.start(t, t.Context(), nil, 12, 13, 14)
		s.finish(t, []int{1, 2, 3, 4}, []int{5, 6, 11, 12}, []int{7, 8, 13, 14}, []int{9, 10})
	})
	synctest.Test(t, func(t *testing.T) { // more callers than values in a turn
		s := newServer(2)
		for i := range 4 {
			s.start(t, t.Context(), nil, i)
		}
		s.finish(t, []int{0}, []int{1, 2}, []int{3})
	})
}

func TestOneFailureFailsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(4)
		s.start(t, t.Context(), nil, 1)
		s.start(t, t.Context(), nil, 2)
		s.start(t, t.Context(), errNegative, -3, 4)
		s.finish(t, []int{1}, []int{2, -3, 4}, []int{2}, []int{-3, 4})
	})
}

func TestCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(4)
		ctx, cancel := context.WithCancel(t.Context())
		s.start(t, ctx, context.Canceled, 1)
		s.start(t, ctx, context.Canceled, 2)
		s.start(t, t.Context(), nil, 3)
		cancel()
		synctest.Wait()
		s.finish(t, []int{3}) // nobody waited for the commit of 1, so it was given up
		_, err := s.group.Do(ctx, []int{4})
		require.ErrorIs(t, err, context.Canceled)
	})
	synctest.Test(t, func(t *testing.T) { // a commit goes on while somebody waits for it
		s := newServer(4)
		ctx, cancel := context.WithCancel(t.Context())
		s.start(t, t.Context(), nil, 1)
		s.start(t, ctx, context.Canceled, 2)
		s.start(t, t.Context(), nil, 3)
		s.on <- struct{}{}
		synctest.Wait()
		cancel()
		synctest.Wait()
		s.finish(t, []int{1}, []int{2, 3})
	})
}

func TestManyCallers(t *testing.T) {
	s := newServer(7)
	close(s.on)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			got, err := s.group.Do(t.Context(), []int{i, i + 1, i + 2})
			require.NoError(t, err)
			require.Equal(t, []int{2 * i, 2*i + 2, 2*i + 4}, got)
		})
	}
	all.Wait()
	got, err := s.group.Do(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, got)
}
