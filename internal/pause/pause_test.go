package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, For(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(start))

		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		err := For(ctx, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.Equal(t, time.Hour+time.Minute, time.Since(start))
		require.Error(t, For(ctx, 0), "a context that is done ends the shortest wait too")
		require.NoError(t, For(t.Context(), -time.Second))
	})
}

func TestGrown(t *testing.T) {
	for n, longest := range []time.Duration{8, 16, 32, 50, 50} {
		least, greatest := longest, time.Duration(0)
		for range 10_000 {
			d := Grown(8, 50, n)
			least, greatest = min(least, d), max(greatest, d)
		}
		require.Equal(t, longest-longest/2, least)
		require.Equal(t, longest, greatest)
	}
	require.LessOrEqual(t, Grown(time.Second, time.Hour, 1000), time.Hour, "the doubling does not overflow")
}

// What is repeated is told to the innermost who counts, once for each repetition that begins.
func TestRepetitionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Repeats(t.Context(), "nobody counts")
		require.NoError(t, Again(t.Context(), "nobody counts", time.Second, time.Second, 0))
		var counted []string
		ctx, cancel := context.WithCancel(Counting(t.Context(), func(_ context.Context, why string) { counted = append(counted, why) }))
		Repeats(ctx, "at once")
		require.NoError(t, Again(ctx, "later", time.Second, time.Second, 0))
		require.NoError(t, Again(context.WithoutCancel(ctx), "in the background", time.Second, time.Second, 3))
		cancel()
		require.ErrorIs(t, Again(ctx, "never", time.Second, time.Second, 0), context.Canceled)
		require.Equal(t, []string{"at once", "later", "in the background"}, counted)
	})
}

// What does not end is waited for as long as the context lasts.
func TestWithin(t *testing.T) {
	failed := errors.New("failed")
	n, inTime, err := Within(t.Context(), func() (int, error) { return 1, failed })
	require.Equal(t, 1, n)
	require.True(t, inTime)
	require.Equal(t, failed, err)

	ctx, cancel := context.WithCancel(t.Context())
	never := make(chan struct{})
	defer close(never)
	n, inTime, err = Within(ctx, func() (int, error) { cancel(); <-never; return 1, nil })
	require.Zero(t, n)
	require.False(t, inTime)
	require.Equal(t, context.Canceled, err)
}
