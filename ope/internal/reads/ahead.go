// Package reads has ways to read an index faster than one page after the other.
package reads

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
)

// An Ahead reads a unit page by page: the next one while its caller opens the records of the last. It is for one goroutine,
// and has at most one page that nobody has asked for yet.
type Ahead struct {
	read   func(ctx context.Context, from, to []byte) (ope.View, error)
	ctx    context.Context
	cancel context.CancelFunc
	next   *page
}

type page struct {
	from, to []byte
	view     ope.View
	err      error
	done     chan struct{}
}

// NewAhead returns what reads pages, each of which has records with from <= key < to. Who is done with it calls Stop.
func NewAhead(ctx context.Context, read func(ctx context.Context, from, to []byte) (ope.View, error)) *Ahead {
	a := &Ahead{read: read}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// Read returns a page. If there is more up to the same end, it begins to read that: from the last record on, which comes
// again, so that it can be seen that none is missing in between.
func (a *Ahead) Read(from, to []byte) (ope.View, error) {
	p := a.next
	a.next = nil
	switch {
	case p == nil:
	case bytes.Equal(p.from, from) && bytes.Equal(p.to, to):
		<-p.done
		relay.Throw(p.err)
	default:
		<-p.done // so that no more than one is read at a time
		p = nil
	}
	if p == nil {
		p = &page{}
		p.view, p.err = a.read(a.ctx, from, to)
	}
	if n := len(p.view.Records); p.err == nil && p.view.More && n > 0 {
		next := &page{from: p.view.Records[n-1].Key, to: to, done: make(chan struct{})}
		a.next = next
		go func() {
			defer close(next.done)
			relay.Into(&next.err, func() (err error) {
				next.view, err = a.read(a.ctx, next.from, next.to)
				return err
			})
		}()
	}
	return p.view, p.err
}

// Stop ends what is being read.
func (a *Ahead) Stop() {
	a.cancel()
	if a.next != nil {
		<-a.next.done
	}
}
