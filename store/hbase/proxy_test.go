package hbase

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// A proxy stands between the client and every server, and can be told to misbehave. Its dial
// function is for [Options].
type proxy struct {
	mu        sync.Mutex
	listeners map[string]net.Listener // by the address of the server
	conns     map[net.Conn]struct{}
	down      bool
	frozen    chan struct{} // not nil while nothing is passed on; closed afterwards

	// match, if set, picks one request, by bytes that are in it. The connection is then cut: when
	// the server has answered that request or, where drop is set, before it gets there.
	match   []byte
	drop    bool
	matched int
}

func newProxy(tb testing.TB) *proxy {
	p := &proxy{listeners: make(map[string]net.Listener), conns: make(map[net.Conn]struct{})}
	tb.Cleanup(func() {
		p.setDown(true)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.listeners {
			l.Close()
		}
	})
	return p
}

func (p *proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errors.New("the proxy is down")
	}
	l := p.listeners[address]
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		p.listeners[address] = l
		go p.serve(l, address)
	}
	// The client needs a *net.TCPConn: see Options.Dial.
	return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
}

func (p *proxy) serve(l net.Listener, address string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", address)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = struct{}{}, struct{}{}
		p.mu.Unlock()
		cut := make(chan struct{})
		go p.pass(near, far, func(b []byte) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.match) == 0 || !bytes.Contains(b, p.match) {
				return true
			}
			p.match = nil
			p.matched++
			if !p.drop {
				close(cut)
			}
			return !p.drop
		})
		go p.pass(far, near, func([]byte) bool {
			select {
			case <-cut:
				return false
			default:
				return true
			}
		})
	}
}

// pass copies until an end is closed or keep says no, and closes both.
func (p *proxy) pass(from, to net.Conn, keep func([]byte) bool) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if !keep(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	if down {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *proxy) freeze() (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	frozen := make(chan struct{})
	p.frozen = frozen
	return func() {
		p.mu.Lock()
		p.frozen = nil
		p.mu.Unlock()
		close(frozen)
	}
}

// cut arms the proxy for the next request that contains match.
func (p *proxy) cut(match string, drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.drop, p.matched = []byte(match), drop, 0
}
