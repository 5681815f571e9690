package reads

import (
	"cmp"
	"sync"

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
