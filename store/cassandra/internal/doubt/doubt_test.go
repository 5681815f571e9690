package doubt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestDoubts(t *testing.T) {
	d := New()
	has := func(row string) bool {
		_, in := d.Has([]byte(row))
		return in
	}
	require.False(t, has("a"))
	d.Add([]byte("a"))
	require.True(t, has("a"))
	require.False(t, has("b"))
	mark, _ := d.Has([]byte("a"))
	d.Add([]byte("a")) // while the row is read
	d.Settle([]byte("a"), mark)
	require.True(t, has("a"), "the read need not have met the second change")
	mark, _ = d.Has([]byte("a"))
	d.Settle([]byte("a"), mark)
	require.False(t, has("a"))
}

func TestRoom(t *testing.T) {
	d := New()
	settled := 0
	settle := func(_ context.Context, row []byte) error {
		mark, in := d.Has(row)
		require.True(t, in)
		d.Settle(row, mark)
		settled++
		return nil
	}
	for i := range Max {
		require.NoError(t, d.Room(t.Context(), settle))
		require.Zero(t, settled)
		d.Add(fmt.Append(nil, i))
	}
	silent := errors.New("silent")
	require.ErrorIs(t, d.Room(t.Context(), func(context.Context, []byte) error { return silent }), silent)
	require.NoError(t, d.Room(t.Context(), settle))
	require.NoError(t, d.Room(t.Context(), settle))
	require.Equal(t, 1, settled)
}

// TestRoomForAll: those who wait share one read, and each of them waits no longer than its own context lasts.
func TestRoomForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		for i := range Max {
			d.Add(fmt.Append(nil, i))
		}
		reads, answer := 0, make(chan error)
		settle := func(ctx context.Context, _ []byte) error {
			reads++
			select {
			case err := <-answer:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Room(first, settle) }()
		synctest.Wait()
		others := make(chan error, 10)
		for range cap(others) {
			go func() { others <- d.Room(t.Context(), settle) }()
		}
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		answer <- nil
		for range cap(others) {
			require.NoError(t, <-others)
		}
		require.Equal(t, 1, reads)
	})
}
