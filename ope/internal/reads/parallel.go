package reads

import (
	"cmp"
	"sync"
)

// Parallel calls do for 0 to n-1, up to most at a time, and returns the first error in their order. If one panics, so does
// Parallel, when all have ended.
func Parallel(n, most int, do func(i int) error) error {
	slots := make(chan struct{}, most)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer Catch(&errs[i])
			errs[i] = do(i)
		})
	}
	wg.Wait()
	for _, err := range errs {
		Throw(err)
	}
	return cmp.Or(errs...)
}
