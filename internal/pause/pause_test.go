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
