package reads

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
)

// Panicked is what code of the application, such as its index, panicked with in a goroutine of a scheme. The scheme panics
// with it where it was called, so that who recovers there is not passed by.
type Panicked struct {
	Value any
	Stack []byte // of the goroutine
}

// Error returns both: it is what is seen where nobody recovers.
func (p *Panicked) Error() string {
	return fmt.Sprintf("%v\n\nin a goroutine of a scheme:\n%s", p.Value, p.Stack)
}

// Catch makes an error of a panic. It is deferred.
func Catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case *Panicked:
		*err = v
	default:
		*err = &Panicked{v, debug.Stack()}
	}
}

// Throw panics again with what Catch has caught.
func Throw(err error) {
	if p := new(Panicked); errors.As(err, &p) {
		panic(p)
	}
}

// A Group is one of package groupcommit. What its function panics with, each call that it served panics with.
type Group[V, R any] struct{ *groupcommit.Group[V, R] }

// NewGroup returns a group whose function gets at most so many values at a time.
func NewGroup[V, R any](most int, serve func(ctx context.Context, values []V) ([]R, error)) Group[V, R] {
	return Group[V, R]{groupcommit.New(most, func(ctx context.Context, values []V) (results []R, err error) {
		defer Catch(&err)
		return serve(ctx, values)
	})}
}

// Do returns the results of the values.
func (g Group[V, R]) Do(ctx context.Context, values []V) ([]R, error) {
	results, err := g.Group.Do(ctx, values)
	Throw(err)
	return results, err
}
