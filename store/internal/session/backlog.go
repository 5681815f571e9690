package session

import (
	"context"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// A backlog does what calls leave to do when they return, and nobody waits for: so many things at a time. Whoever leaves more
// does it himself.
type backlog struct {
	slots chan struct{} // one is taken for each

	closing sync.Mutex
	taken   int // slots that nobody gets any more
}

func newBacklog(most int) *backlog { return &backlog{slots: make(chan struct{}, most)} }

// patience is how long the work of one call may take. A database that does not answer for so long is left alone.
const patience = time.Minute

// later does something soon after the call whose context it is.
func (b *backlog) later(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	select {
	case b.slots <- struct{}{}:
		go func() {
			defer func() { <-b.slots }()
			defer cancel()
			do(ctx)
		}()
	default:
		defer cancel()
		do(ctx)
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
