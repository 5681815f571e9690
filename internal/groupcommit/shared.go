package groupcommit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// A Shared lets concurrent calls share the answers of a read. Each read begins after all calls that it answers. Make it
// with [NewShared].
//
// Callers that work between two reads could fall into two halves, of which one works while the other one's read is under
// way. A database has more to do for two halves than for a whole. So a read waits until the calls that were announced
// have come, but not for much longer than a read takes: see [Shared.join].
type Shared[R any] struct {
	read      func(context.Context) (R, error)
	announced atomic.Int64

	mu      sync.Mutex
	running bool
	took    time.Duration // the last read, within bounds
	next    *sharedRead[R]
}

// A sharedRead is one call of the function, and who waits for it.
type sharedRead[R any] struct {
	ctx    context.Context // ends when nobody waits any more
	cancel context.CancelFunc
	done   chan struct{} // closed when result and err are set
	result R
	err    error

	// Guarded by the lock of the Shared.
	waiting int
	late    *time.Timer // makes it due; nil of one that has been due from the beginning
	due     bool
}

const (
	// For so many times what the last read took, a read waits. What many callers do before takes a few times as long as
	// one read, since a server answers them one after the other. Waiting for as long as one read left a third of 32
	// callers for the next read. Waiting for longer than this gains nothing more.
	patience = 3

	// But never for longer than this, so that a call which is slow does not hold up others.
	mostPatience = 10 * time.Millisecond
)

// NewShared returns what calls a function one time after the other. The function gets a context of one of the callers,
// which ends when no caller waits for it.
func NewShared[R any](read func(context.Context) (R, error)) *Shared[R] {
	return &Shared[R]{read: read, took: time.Millisecond}
}

// Announce says that Do will be called soon, and Arrive right before the call.
func (s *Shared[R]) Announce() { s.announced.Add(1) }

// Arrive takes back what Announce said.
func (s *Shared[R]) Arrive() { s.announced.Add(-1) }

// Do returns what a call of the function returns that begins after Do does. If the context ends first, the error is that of
// the context.
func (s *Shared[R]) Do(ctx context.Context) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	r := s.join(ctx)
	select {
	case <-r.done:
		relay.Throw(r.err)
		return r.result, r.err
	case <-ctx.Done():
		s.leave(r)
		return result, ctx.Err()
	}
}

// join returns the next read, for one more caller.
func (s *Shared[R]) join(ctx context.Context) *sharedRead[R] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, all := s.next, s.announced.Load() <= 0
	if r == nil {
		r = &sharedRead[R]{done: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		s.next = r
		if !all {
			r.late = time.AfterFunc(min(patience*s.took, mostPatience), func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.makeDue(r)
			})
		}
	}
	r.waiting++
	if all {
		s.makeDue(r)
	}
	return r
}

// makeDue begins a read, or lets it follow the one that is under way. It is called with the lock held.
func (s *Shared[R]) makeDue(r *sharedRead[R]) {
	r.due = true
	if s.next == r && !s.running {
		s.running = true
		s.take()
		go s.run(r) // not the caller, who may leave while others wait
	}
}

// take takes the next read away, so that nobody joins it any more. It is called with the lock held.
func (s *Shared[R]) take() {
	if s.next.late != nil {
		s.next.late.Stop()
	}
	s.next = nil
}

// run makes a read, and those that become due meanwhile.
func (s *Shared[R]) run(r *sharedRead[R]) {
	for r != nil {
		begin := time.Now()
		r.err = relay.Beside(func() (err error) { // so that this goroutine lives on
			r.result, err = s.read(r.ctx)
			return err
		})
		took := time.Since(begin)
		r.cancel()
		close(r.done)
		s.mu.Lock()
		s.took = min(took, mostPatience)
		if r = s.next; r != nil && r.due {
			s.take()
		} else {
			r, s.running = nil, false
		}
		s.mu.Unlock()
	}
}

// leave ends a read that nobody waits for.
func (s *Shared[R]) leave(r *sharedRead[R]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiting--; r.waiting > 0 {
		return
	}
	r.cancel()
	if s.next == r {
		s.take()
	}
}
