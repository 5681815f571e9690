package relay

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// ended reports whether a function ends its goroutine.
func ended(f func()) bool {
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	<-done
	return !returned
}

// thrown returns what a function panics with.
func thrown(t *testing.T, f func()) (p *Panicked) {
	t.Helper()
	defer func() {
		var ok bool
		p, ok = recover().(*Panicked)
		require.True(t, ok, "it does not panic")
		require.Contains(t, p.Error(), "relay_test.go", "where it happened")
	}()
	f()
	return nil
}

func TestEndsReachWhoWaits(t *testing.T) {
	wrong := errors.New("wrong")
	require.ErrorIs(t, Beside(func() error { return wrong }), wrong)
	require.NoError(t, Beside(func() error { return nil }))
	Throw(wrong)
	Throw(nil)

	twice := func(do func() error) error { return Beside(func() error { err := Beside(do); Throw(err); return err }) }
	require.Equal(t, "mine", thrown(t, func() { Throw(twice(func() error { panic("mine") })) }).Value)
	require.True(t, ended(func() { Throw(twice(func() error { runtime.Goexit(); return nil })) }))
}

// The first of several that ends otherwise than well ends the others, and decides how all end.
func TestOneEndsAll(t *testing.T) {
	first := func(do func() error) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			if i == 2 {
				return do()
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	wrong := errors.New("wrong")
	require.ErrorIs(t, Each(t.Context(), 4, first(func() error { return wrong })), wrong)
	require.Equal(t, "mine", thrown(t, func() { _ = Each(t.Context(), 4, first(func() error { panic("mine") })) }).Value)
	require.True(t, ended(func() { _ = Each(t.Context(), 4, first(func() error { runtime.Goexit(); return nil })) }))

	var done [5]bool
	var of [5]context.Context
	require.NoError(t, Each(t.Context(), 5, func(ctx context.Context, i int) error { done[i], of[i] = true, ctx; return nil }))
	require.Error(t, of[0].Err(), "it ends with those that it was for")
	require.Equal(t, [5]bool{true, true, true, true, true}, done)
}
