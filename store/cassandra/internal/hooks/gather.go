package hooks

import (
	"net"
	"runtime"
	"sync"
)

const (
	mostGathered = 1 << 20  // writers wait while more bytes than that are to be sent
	mostKept     = 64 << 10 // a buffer that had to be larger is not used again
)

// Gather returns a connection that sends together what goroutines write that run at the same time. Nothing waits for a timer, as it does
// in gocql's own way to do this: see what the adapter says of WriteCoalesceWaitTime.
//
// What is written may not have been sent when Write returns, as with the buffer of the kernel. If it cannot be sent, the connection is
// closed, so that whoever waits for an answer learns of it. Later writes return the error.
func Gather(conn net.Conn) net.Conn {
	g := &gathered{Conn: conn, more: make(chan struct{}, 1), closed: make(chan struct{})}
	g.room.L = &g.mu
	go g.send()
	return g
}

type gathered struct {
	net.Conn
	more   chan struct{} // has an element when there is something to send
	closed chan struct{}

	mu      sync.Mutex
	room    sync.Cond // there is room again, or an error
	waiting []byte    // to be sent
	err     error     // why nothing is sent any more
}

// Write implements [net.Conn].
func (g *gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && len(g.waiting) > mostGathered {
		g.room.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	g.waiting = append(g.waiting, b...)
	select {
	case g.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

// send sends what is written, until the connection is closed.
func (g *gathered) send() {
	var sent []byte
	for {
		select {
		case <-g.more:
		case <-g.closed:
			return
		}
		runtime.Gosched() // goroutines that can run write first
		g.mu.Lock()
		sent, g.waiting = g.waiting, sent[:0]
		select {
		case <-g.more: // of what was written since
		default:
		}
		g.room.Broadcast()
		g.mu.Unlock()
		if _, err := g.Conn.Write(sent); err != nil {
			_ = g.end(err)
			return
		}
		if cap(sent) > mostKept {
			sent = nil
		}
	}
}

// Close implements [net.Conn].
func (g *gathered) Close() error { return g.end(net.ErrClosed) }

// end closes the connection. Its writers get the error of the first call.
func (g *gathered) end(err error) error {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
		close(g.closed)
		g.room.Broadcast()
	}
	g.mu.Unlock()
	return g.Conn.Close()
}
