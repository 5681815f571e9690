package tokens

import (
	"context"
	"iter"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// ahead yields what a stage makes, which works in a goroutine of its own until the iteration ends. The stage is one item
// ahead. Where it says so of an item, it makes the next one only when that is asked for.
//
// The stage must end soon after its context is done. If the context that ahead was given is done, items may be missing. Where
// what the stage calls panics, or ends its goroutine, the iteration ends so.
func ahead[T any](ctx context.Context, stage func(context.Context) iter.Seq2[T, bool]) iter.Seq[T] {
	return func(yield func(T) bool) {
		var working sync.WaitGroup
		defer working.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		items, asked := make(chan T), make(chan struct{})
		var ended error
		working.Go(func() {
			defer close(items)
			relay.Into(&ended, func() error {
				for item, wait := range stage(ctx) {
					select {
					case items <- item:
					case <-ctx.Done():
						return nil
					}
					if !wait {
						continue
					}
					select {
					case <-asked:
					case <-ctx.Done():
						return nil
					}
				}
				return nil
			})
		})
		for {
			var item T
			var ok bool
			select {
			case item, ok = <-items:
			case asked <- struct{}{}:
				item, ok = <-items
			}
			if !ok {
				relay.Throw(ended)
				return
			}
			if !yield(item) {
				return
			}
		}
	}
}
