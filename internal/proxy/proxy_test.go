package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// echo is a server that sends back what it gets, connection by connection, until it is closed.
type echo struct {
	net.Listener
	wait sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	got    []int // bytes of each connection
	ended  int
	broken int // of those that ended, how many were reset
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{Listener: l}
	e.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			i := len(e.conns)
			e.conns, e.got = append(e.conns, c), append(e.got, 0)
			e.mu.Unlock()
			e.wait.Go(func() {
				defer c.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := c.Read(b)
					e.mu.Lock()
					e.got[i] += n
					e.mu.Unlock()
					if err == nil {
						_, err = c.Write(b[:n])
					}
					if err != nil {
						e.mu.Lock()
						defer e.mu.Unlock()
						e.ended++
						if !errors.Is(err, io.EOF) {
							e.broken++
						}
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		e.mu.Lock()
		for _, c := range e.conns {
			c.Close()
		}
		e.mu.Unlock()
		e.wait.Wait()
	})
	return e
}

// seen returns how many bytes the i-th connection has brought, and how many connections have ended
// or were reset.
func (e *echo) seen(i int) (got, ended, broken int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i < len(e.got) {
		got = e.got[i]
	}
	return got, e.ended, e.broken
}

// has requires that the first connection has brought something, or nothing.
func (e *echo) has(t *testing.T, something bool) {
	t.Helper()
	some := func() bool { got, _, _ := e.seen(0); return got > 0 }
	if something {
		require.Eventually(t, some, time.Minute, time.Millisecond)
	} else {
		require.False(t, some())
	}
}

// through returns a proxy, the server that it stands for, and a function that connects the two. Nothing may be
// left of them when the test is over.
func through(t *testing.T, tap Tap) (*Proxy, *echo, func() net.Conn) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	e := newEcho(t)
	p := New(tap)
	t.Cleanup(p.Close)
	return p, e, func() net.Conn {
		c, err := p.Dial(t.Context(), "tcp", e.Addr().String())
		require.NoError(t, err)
		require.IsType(t, &net.TCPConn{}, c)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

func receive(t *testing.T, c net.Conn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
}

// silent requires that nothing arrives for a while. It can only err on the side of passing.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
}

func TestCarriesAllBytes(t *testing.T) {
	var mu sync.Mutex
	tapped := map[Direction]*bytes.Buffer{ToServer: {}, ToClient: {}}
	_, _, connect := through(t, func(connection int, to Direction, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1, connection)
		tapped[to].Write(b)
	})
	c := connect()
	all := make([]byte, 3<<20)
	for i := range all {
		all[i] = byte(i * i >> 7)
	}
	go func() {
		_, _ = c.Write(all)
		_ = c.(*net.TCPConn).CloseWrite() // the answers come all the same
	}()
	back, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, bytes.Equal(all, back))
	mu.Lock()
	defer mu.Unlock()
	for to, b := range tapped {
		require.True(t, bytes.Equal(all, b.Bytes()), "%v", to)
	}
}

// A delay is there in both directions and keeps the order, also when it becomes shorter.
func TestDelay(t *testing.T) {
	p, _, connect := through(t, nil)
	const delay = time.Second
	p.Set(Weather{Delay: delay})
	begun := time.Now()
	c := connect()
	require.GreaterOrEqual(t, time.Since(begun), 2*delay, "to connect is a round trip")
	begun = time.Now()
	for _, text := range []string{"a", "b", "c"} {
		send(t, c, text)
	}
	receive(t, c, "abc")
	took := time.Since(begun)
	require.GreaterOrEqual(t, took, 2*delay)
	require.Less(t, took, 5*delay, "bytes on their way do not wait for each other, which would take six")

	p.Set(Weather{Delay: time.Hour})
	send(t, c, "later")
	silent(t, c)
	p.Set(Weather{})
	send(t, c, "!")
	receive(t, c, "later!")
}

func TestHold(t *testing.T) {
	for _, to := range []Direction{ToServer, ToClient, BothWays} {
		p, e, connect := through(t, nil)
		c := connect()
		p.Set(Weather{Hold: to})
		send(t, c, "held")
		silent(t, c)
		e.has(t, to == ToClient)
		p.Set(Weather{})
		receive(t, c, "held")
	}
}

func TestDrop(t *testing.T) {
	for _, to := range []Direction{ToServer, ToClient, BothWays} {
		var read atomic.Int64
		p, e, connect := through(t, func(_ int, way Direction, b []byte) {
			if to&ToServer == 0 || way == ToServer {
				read.Add(int64(len(b)))
			}
		})
		old := connect()
		p.Set(Weather{Drop: to})
		new := connect()
		send(t, old, "lost")
		send(t, new, "lost, too")
		bytes := len("lost" + "lost, too")
		if to == ToClient {
			bytes *= 2
		}
		require.Eventually(t, func() bool { return int(read.Load()) == bytes }, time.Minute, time.Millisecond)
		silent(t, old)
		silent(t, new)
		e.has(t, to == ToClient)

		// A connection never goes on after a gap. Others do.
		p.Set(Weather{})
		send(t, old, "nobody hears this")
		silent(t, old)
		c := connect()
		send(t, c, "a new one")
		receive(t, c, "a new one")
		p.Cut()
		_, err := old.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}

func TestCut(t *testing.T) {
	p, e, connect := through(t, nil)
	a, b := connect(), connect()
	for _, c := range []net.Conn{a, b} {
		send(t, c, "x")
		receive(t, c, "x")
	}
	require.Equal(t, 2, p.Connections())
	p.Cut()
	require.Equal(t, 2, p.Cuts())
	for _, c := range []net.Conn{a, b} {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	require.Eventually(t, func() bool { _, _, broken := e.seen(0); return broken == 2 }, time.Minute, time.Millisecond, "the server is told, too")
	require.Eventually(t, func() bool { return p.Connections() == 0 }, time.Minute, time.Millisecond)
	c := connect()
	send(t, c, "on")
	receive(t, c, "on")
}

// TestCutAfter cuts after every number of bytes of a conversation.
func TestCutAfter(t *testing.T) {
	const text = "conversation"
	for _, to := range []Direction{ToServer, ToClient, BothWays} {
		p, e, connect := through(t, nil)
		for n := 1; n <= len(text); n++ {
			p.CutAfter(int64(n), to)
			c := connect()
			_, err := c.Write([]byte(text))
			require.NoError(t, err)
			back, err := io.ReadAll(c)
			require.ErrorIs(t, err, syscall.ECONNRESET, "%d bytes", n)
			require.LessOrEqual(t, len(back), n)
			require.Equal(t, n, p.Cuts())
			// It was one cut.
			c = connect()
			send(t, c, text)
			receive(t, c, text)
			require.NoError(t, c.Close())
			require.Eventually(t, func() bool { _, ended, _ := e.seen(0); return ended == 2*n }, time.Minute, time.Millisecond)
			if got, _, _ := e.seen(2 * (n - 1)); to == ToServer {
				require.LessOrEqual(t, got, n)
			}
		}
	}
}

func TestRefuse(t *testing.T) {
	p, e, connect := through(t, nil)
	c := connect()
	send(t, c, "x")
	receive(t, c, "x")
	p.Set(Weather{Refuse: true})
	_, err := p.Dial(t.Context(), "tcp", e.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	// Without Dial, the kernel has accepted it before the proxy can refuse.
	at, err := p.Listen(e.Addr().String())
	require.NoError(t, err)
	other, err := net.Dial("tcp", at)
	if err == nil {
		defer other.Close()
		_, err = other.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	send(t, c, "what was connected stays")
	receive(t, c, "what was connected stays")
	p.Set(Weather{})
	connect()
}

func TestServerThatIsNotThere(t *testing.T) {
	p, e, _ := through(t, nil)
	require.NoError(t, e.Listener.Close())
	c, err := p.Dial(t.Context(), "tcp", e.Addr().String())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestClose closes a proxy in any weather, with bytes on their way: nothing is left, which through
// looks after.
func TestClose(t *testing.T) {
	for _, w := range []Weather{{}, {Delay: time.Hour}, {Hold: BothWays}, {Drop: BothWays}, {Drop: ToClient}, {Refuse: true}} {
		p, e, connect := through(t, nil)
		c, ended := connect(), connect()
		// The kernel accepts before the proxy does, which would refuse them in other weather.
		require.Eventually(t, func() bool { return p.Connections() == 2 }, time.Minute, time.Millisecond)
		p.Set(w)
		send(t, c, "on its way")
		send(t, ended, "on its way")
		require.NoError(t, ended.Close())
		require.Eventually(t, func() bool { return p.Connections() == 1 }, time.Minute, time.Millisecond)
		p.Close()
		require.Zero(t, p.Connections())
		_, err := io.ReadAll(c)
		require.Error(t, err)
		_, err = p.Dial(t.Context(), "tcp", e.Addr().String())
		require.Error(t, err)
	}
}

// A client that sends without end fills the proxy, not the memory; and can be cut.
func TestFull(t *testing.T) {
	p, _, connect := through(t, nil)
	c := connect()
	p.Set(Weather{Hold: BothWays})
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
	sent := 0
	for b := make([]byte, 1<<20); ; {
		n, err := c.Write(b)
		sent += n
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
	}
	require.Less(t, sent, readBytes*queued+(64<<20))
	p.Cut()
}

func BenchmarkRoundTrip(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	p := New(nil)
	defer p.Close()
	c, err := p.Dial(b.Context(), "tcp", l.Addr().String())
	require.NoError(b, err)
	one := make([]byte, 100)
	for b.Loop() {
		_, err := c.Write(one)
		require.NoError(b, err)
		_, err = io.ReadFull(c, one)
		require.NoError(b, err)
	}
}
