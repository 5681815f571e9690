package cassandra

import (
	"context"
	"net"
	"runtime"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// A coalescer is a connection that sends together what is written at the same time. A system call for each request costs
// as much as the rest of a request. It waits for no timer: what is written while a call is under way goes with the next
// one, and before each call those goroutines run that are ready to.
type coalescer struct {
	net.Conn

	mu       sync.Mutex
	taken    sync.Cond // or err was set
	waiting  []byte
	spare    []byte // of the call before
	sending  bool   // a goroutine does
	deadline time.Time
	err      error // what ended the connection
}

// mostWaiting is from how many bytes on that wait a Write waits, too.
const mostWaiting = 1 << 20

func coalesce(conn net.Conn) *coalescer {
	c := &coalescer{Conn: conn}
	c.taken.L = &c.mu
	return c
}

// SetWriteDeadline says by when what is written from then on must be sent.
func (c *coalescer) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.err
}

// Write returns before p is sent. If it cannot be, the connection is closed, which ends all that wait for answers.
func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.waiting) > mostWaiting {
		c.taken.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	c.waiting = append(c.waiting, p...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(p), nil
}

// send sends until nothing waits.
func (c *coalescer) send() {
	for {
		runtime.Gosched()
		c.mu.Lock()
		if len(c.waiting) == 0 || c.err != nil {
			c.sending = false
			c.mu.Unlock()
			return
		}
		p, deadline := c.waiting, c.deadline
		c.waiting, c.spare = c.spare[:0], nil
		c.taken.Broadcast()
		c.mu.Unlock()
		err := c.Conn.SetWriteDeadline(deadline)
		if err == nil {
			_, err = c.Conn.Write(p)
		}
		if err != nil {
			_ = c.end(err)
		}
		if c.mu.Lock(); cap(p) <= mostWaiting {
			c.spare = p
		}
		c.mu.Unlock()
	}
}

func (c *coalescer) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.taken.Broadcast()
	return c.Conn.Close()
}

func (c *coalescer) Close() error { return c.end(net.ErrClosed) }

// DialHost implements [gocql.HostDialer].
func (d *openingDialer) DialHost(ctx context.Context, host *gocql.HostInfo) (*gocql.DialedHost, error) {
	conn, err := d.DialContext(ctx, "tcp", host.ConnectAddressAndPort())
	if err != nil {
		return nil, err
	}
	dialed, err := gocql.WrapTLS(ctx, conn, host.HostnameAndPort(), d.tls)
	if err == nil {
		dialed.Conn = coalesce(dialed.Conn)
	}
	return dialed, err
}

var _ gocql.HostDialer = (*openingDialer)(nil)
