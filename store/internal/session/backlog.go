package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A backlog does what calls leave to do when they return, and nobody waits for: so many things at a time. Whoever leaves more
// does it himself.
type backlog struct {
	slots   chan struct{} // one is taken for each
	refused atomic.Bool   // to change the database, where nobody has to

	closing sync.Mutex
	taken   int // slots that nobody gets any more
}

// mostSlots is more than a process has use for, and close takes each: a Concurrency without an end is one of the largest int.
const mostSlots = 1 << 16

func newBacklog(most int) *backlog {
	return &backlog{slots: make(chan struct{}, min(most, mostSlots))}
}

// patience is how long the work of one call may take. A database that does not answer for so long is left alone.
const patience = time.Minute

// later does something soon after the call whose context it is. A call that does it itself takes at most half of the time that it has left:
// where the database hangs, all slots are taken. What is not done then does no harm.
func (b *backlog) later(ctx context.Context, do func(context.Context)) {
	if !b.beside(ctx, do) {
		most := patience
		if end, ok := ctx.Deadline(); ok {
			most = min(most, time.Until(end)/2)
		}
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		do(ctx)
	}
}

// spare does something, if a slot is free and the database has not refused such a thing before.
func (b *backlog) spare(ctx context.Context, do func(context.Context) error) {
	if b.refused.Load() {
		return
	}
	b.beside(ctx, func(ctx context.Context) {
		if err := do(ctx); errors.Is(err, driver.ErrUnauthorised) || errors.Is(err, driver.ErrReadOnly) {
			b.refused.Store(true)
		}
	})
}

// beside begins to do something that may go on when the call has returned whose context it is, or reports that no slot is free.
func (b *backlog) beside(ctx context.Context, do func(context.Context)) bool {
	select {
	case b.slots <- struct{}{}:
		go func() {
			defer func() { <-b.slots }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			do(ctx)
		}()
		return true
	default:
		return false
	}
}

// close waits for what is being done. From then on, calls do all themselves.
func (b *backlog) close(ctx context.Context) error {
	b.closing.Lock()
	defer b.closing.Unlock()
	for ; b.taken < cap(b.slots); b.taken++ {
		select {
		case b.slots <- struct{}{}:
		case <-ctx.Done():
			return pause.Ended(ctx)
		}
	}
	return nil
}
