package reads

import (
	"context"

	"github.com/rangecrypt/rangecrypt/internal/groupcommit"
	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// A Group is one of package groupcommit. If its function panics, or ends its goroutine, so does each call that it served.
type Group[V, R any] struct{ *groupcommit.Group[V, R] }

// NewGroup returns a group whose function gets at most so many values at a time.
func NewGroup[V, R any](most int, serve func(ctx context.Context, values []V) ([]R, error)) Group[V, R] {
	return Group[V, R]{groupcommit.New(most, func(ctx context.Context, values []V) (results []R, err error) {
		err = relay.Beside(func() (err error) { // so that the goroutine of the group lives on
			results, err = serve(ctx, values)
			return err
		})
		return results, err
	})}
}

// Do returns the results of the values.
func (g Group[V, R]) Do(ctx context.Context, values []V) ([]R, error) {
	results, err := g.Group.Do(ctx, values)
	relay.Throw(err)
	return results, err
}
