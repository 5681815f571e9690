package scheme

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func TestIdentity(t *testing.T) {
	opetest.TestScheme(t, func(_ testing.TB, d ope.Domain) ope.Scheme { return newIdentity(d) })
}

// A heldIndex makes commits wait, and counts them.
type heldIndex struct {
	ope.Index
	entered, release chan struct{}
	commits          atomic.Int64
	err              error
}

func (x *heldIndex) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	x.commits.Add(1)
	select {
	case x.entered <- struct{}{}:
	default:
	}
	<-x.release
	if x.err != nil {
		return false, x.err
	}
	return x.Index.Commit(ctx, u, cond, change)
}

// What Kerschbaum's scheme is compared with must share commits as it does: alone, each of 32 writers
// would wait for 31 commits of others.
func TestIndexedIdentitySharesCommits(t *testing.T) {
	const writers = 32
	x := &heldIndex{Index: opetest.NewIndex(), entered: make(chan struct{}, 1), release: make(chan struct{})}
	s := newIndexedIdentity(ope.Int32, x, "u")
	var g errgroup.Group
	write := func(ctx context.Context, v int64) func() error {
		return func() error { _, err := s.Encrypt(ctx, v); return err }
	}
	waiting := func(n int) {
		require.Eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.queue) == n }, 10*time.Second, time.Millisecond)
	}
	g.Go(write(t.Context(), 0))
	<-x.entered
	for i := range int64(writers - 1) {
		g.Go(write(t.Context(), i%20)) // some more than once
	}
	waiting(writers - 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, write(gone, 99)(), context.Canceled)
	close(x.release)
	require.NoError(t, g.Wait())
	require.EqualValues(t, 2, x.commits.Load())
	var found []int64
	for e, err := range s.Range(t.Context(), 0, 50) {
		require.NoError(t, err)
		found = append(found, e.Plaintext)
	}
	require.Len(t, found, 20)
	require.NoError(t, write(t.Context(), 19)())
	require.EqualValues(t, 2, x.commits.Load(), "what is known is not written again")

	x.err = errors.New("the index is down")
	require.ErrorIs(t, write(t.Context(), 200)(), x.err)
	x.err = nil
	require.NoError(t, write(t.Context(), 200)())
}
