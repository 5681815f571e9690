package reads

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// Parallel calls do for 0 to n-1, up to most at a time, and returns the first error in their order. If one panics, or ends its
// goroutine, so does Parallel, when all have ended.
func Parallel(n, most int, do func(i int) error) error {
	slots := make(chan struct{}, most)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			relay.Into(&errs[i], func() error { return do(i) })
		})
	}
	wg.Wait()
	for _, err := range errs {
		relay.Throw(err)
	}
	return cmp.Or(errs...)
}

// Together does n things, up to most at a time. Who does one, and reports false, does no other.
func Together(n, most int, do func(i int) bool) {
	var next atomic.Int64
	workers := max(1, min(most, n))
	_ = Parallel(workers, workers, func(int) error {
		for i := int(next.Add(1)) - 1; i < n && do(i); i = int(next.Add(1)) - 1 {
		}
		return nil
	})
}

// All makes some reads, up to most at a time, and returns an error of one. If one fails, the context of the others ends, as they are
// of no use.
func All(ctx context.Context, most int, do []func(context.Context) error) (first error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make([]error, len(do))
	Together(len(do), most, func(i int) bool {
		if failures[i] = do[i](ctx); failures[i] != nil {
			cancel()
		}
		return failures[i] == nil
	})
	// The error that cancelled the others says more than theirs.
	for _, err := range failures {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}
