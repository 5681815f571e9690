// Package groupcommit lets the concurrent calls of one process share requests.
//
// A database makes some ten or hundred conditional commits of a unit a second, whether of one value or of
// hundreds. So one goroutine serves all callers. It takes with it whatever was asked for during the last commit,
// and ends when nobody waits. A read can be shared in the same way: it begins after all calls that it answers.
package groupcommit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// A Group collects the values of concurrent calls. Make it with [New].
type Group[V, R any] struct {
	most  int
	serve func(ctx context.Context, values []V) ([]R, error)

	mu      sync.Mutex
	queue   []*request[V, R]
	working bool
}

// A request is a call of Do that waits.
type request[V, R any] struct {
	ctx     context.Context
	values  []V
	results []R // of the first values, as many as are done
	done    chan struct{}
	err     error // set before done is closed
}

// New returns a group whose function gets at most so many values at a time. The function returns a result for
// each value. It is called by one goroutine at a time, and its context ends when no caller waits for it. If it panics, or ends its
// goroutine, so does each call that it served.
func New[V, R any](most int, serve func(ctx context.Context, values []V) ([]R, error)) *Group[V, R] {
	return &Group[V, R]{most: most, serve: serve}
}

// Do returns the results of the values. A call with many values lets others through between its parts. If the
// context ends first, the values may or may not have been served.
func (g *Group[V, R]) Do(ctx context.Context, values []V) ([]R, error) {
	if err := ctx.Err(); err != nil || len(values) == 0 {
		return nil, err
	}
	r := &request[V, R]{ctx: ctx, values: values, done: make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, r)
	if !g.working {
		g.working = true
		go g.work() // not the caller, who may leave while others wait
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		relay.Throw(r.err)
		return r.results, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Callers returns how many calls wait or are being served.
func (g *Group[V, R]) Callers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

func (g *Group[V, R]) work() {
	for {
		g.mu.Lock()
		g.queue = slices.DeleteFunc(g.queue, (*request[V, R]).finished)
		if len(g.queue) == 0 {
			g.working = false
			g.mu.Unlock()
			return
		}
		turn := g.deal()
		g.mu.Unlock()

		err := g.commit(turn)
		for i := range turn {
			if err != nil && len(turn) > 1 {
				// What fails one must not fail the others.
				turn[i].request.err = g.commit(turn[i : i+1])
			} else {
				turn[i].request.err = err
			}
		}
	}
}

// finished answers the caller if there is nothing left to do for it.
func (r *request[V, R]) finished() bool {
	if r.err == nil {
		r.err = r.ctx.Err()
	}
	if r.err == nil && len(r.results) < len(r.values) {
		return false
	}
	close(r.done)
	return true
}

// A part is the values of a request that take their turn.
type part[V, R any] struct {
	request *request[V, R]
	values  []V
}

// deal gives each request the same share of a turn. What is left over goes to the first ones. It is called with
// the lock held.
func (g *Group[V, R]) deal() []part[V, R] {
	turn := make([]part[V, R], 0, len(g.queue))
	left := g.most
	share := max(1, left/len(g.queue))
	for _, r := range g.queue {
		n := min(share, left, len(r.values)-len(r.results))
		if n == 0 {
			break
		}
		turn = append(turn, part[V, R]{r, r.values[len(r.results):][:n]})
		left -= n
	}
	for i := range turn {
		p := &turn[i]
		rest := p.request.values[len(p.request.results):]
		n := min(len(rest), len(p.values)+left)
		left -= n - len(p.values)
		p.values = rest[:n]
	}
	return turn
}

// commit serves the parts, as long as one of the callers waits.
func (g *Group[V, R]) commit(turn []part[V, R]) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(turn[0].request.ctx))
	defer cancel()
	var waiting atomic.Int64
	waiting.Store(int64(len(turn)))
	var values []V
	for _, p := range turn {
		values = append(values, p.values...)
		defer context.AfterFunc(p.request.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	var results []R
	err := relay.Beside(func() (err error) { // so that this goroutine lives on
		results, err = g.serve(ctx, values)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range turn {
		p.request.results = append(p.request.results, results[:len(p.values)]...)
		results = results[len(p.values):]
	}
	return nil
}
