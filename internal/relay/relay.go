// Package relay has goroutines whose end is that of who waits for them, also where it is no return: code of an application,
// such as a callback, may panic, or end its goroutine as a test does that fails.
package relay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// Panicked is what code of the application panicked with in a goroutine of ours. Who waits for that panics with it, so
// that who recovers there is not passed by.
type Panicked struct {
	Value any
	Stack []byte // of the goroutine
}

// Error returns both: it is what is seen where nobody recovers.
func (p *Panicked) Error() string {
	return fmt.Sprintf("%v\n\nin a goroutine of rangecrypt:\n%s", p.Value, p.Stack)
}

// errEnded is the error of what called [runtime.Goexit].
var errEnded = errors.New("the goroutine was ended by what it called")

// Into sets an error to what do returns or, where it does not, to what [Throw] brings to another goroutine. It may end this one.
func Into(err *error, do func() error) {
	*err = errEnded
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panicked:
			*err = v
		default:
			*err = &Panicked{v, debug.Stack()}
		}
	}()
	*err = do()
}

// Throw panics, or ends the goroutine, where an error says that this is how another one ended.
func Throw(err error) {
	if p := new(Panicked); errors.As(err, &p) {
		panic(p)
	}
	if errors.Is(err, errEnded) {
		runtime.Goexit()
	}
}

// Beside does something in a goroutine of its own, and returns its error when that is over: one for [Throw] where do did not return.
func Beside(do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		Into(&err, do)
	}()
	<-done
	return err
}

// A Group runs functions at the same time, as that of errgroup does. If one panics, or ends its goroutine, so does Wait. The zero
// Group cancels nothing.
type Group struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
	first  error
}

// WithContext returns a group and a context that ends with its first error, and when Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{cancel: cancel}, ctx
}

// Go calls do in a goroutine of its own.
func (g *Group) Go(do func() error) {
	g.wg.Go(func() {
		var err error
		defer func() {
			if err != nil {
				g.once.Do(func() { g.first = err; g.end() })
			}
		}()
		Into(&err, do)
	})
}

func (g *Group) end() {
	if g.cancel != nil {
		g.cancel()
	}
}

// Wait returns the first error when all functions are over.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.end()
	Throw(g.first)
	return g.first
}

// Each calls do for 0 to n-1 at the same time, and returns when all are over. The first error ends the context of the others, and
// is returned. If one panics, or ends its goroutine, so does Each.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := WithContext(ctx)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
