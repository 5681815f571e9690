// Package proxy is a network between a client and its servers that can be made slow, silent or
// broken. It is for tests, and for measuring as if the servers were far away. All of it runs in this
// process: a [Proxy] listens on the loopback interface, once for each server, and carries bytes.
//
// A faulty network loses whole connections, never bytes in the middle of one. So a connection that
// has lost some carries no others in that direction, also when all is well again: it is like one
// that a firewall on the way has forgotten. [Proxy.Cut] ends it.
package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// A Direction is one in which bytes are carried, or both.
type Direction uint8

const (
	ToServer Direction = 1 << iota
	ToClient
	BothWays = ToServer | ToClient
)

// A Weather is how the network is. The zero Weather is a good one.
type Weather struct {
	// Delay is how much later bytes arrive than without the proxy, in each direction, in the order
	// they were sent. Connecting by [Proxy.Dial] takes twice as long.
	Delay time.Duration

	// Bandwidth, if it is not 0, is how many bytes a second pass in each direction, those of all connections together. They
	// leave one after the other, in the order in which they were read.
	Bandwidth int

	// Loss is the share of packets that are lost on the way, from 0 to below 1; see [Line]. What follows on the same connection and in
	// the same direction arrives after them.
	Loss float64

	// Hold keeps bytes, and the ends of connections, until it is over: then they arrive.
	Hold Direction

	// Drop swallows them. New connections are accepted.
	Drop Direction

	// Refuse refuses new connections. Those that exist stay.
	Refuse bool
}

// A Tap is given all that a proxy has read, with the number of the connection, before anything
// happens to it. It must not keep the bytes. Calls for one connection and direction follow one
// another; others come at the same time.
type Tap func(connection int, to Direction, b []byte)

const (
	// What waits in the proxy, for each connection and direction, is at most so many reads of so
	// many bytes. That is enough for tens of thousands of requests a second over a long way. It is
	// so little that a silent server holds up a client that sends a large request.
	readBytes = 4 << 10
	queued    = 1024

	connectTimeout = 5 * time.Second
)

// A Proxy stands between clients and servers.
type Proxy struct {
	tap   Tap
	wait  sync.WaitGroup
	lines map[Direction]*Line

	mu        sync.Mutex
	weather   Weather
	changed   chan struct{} // closed when the weather changes
	listeners map[string]net.Listener
	links     map[*link]struct{}
	accepted  int
	open      int
	cuts      int
	closed    bool

	armed Direction // CutAfter is to happen
	left  int64     // bytes until then
}

// New returns a proxy that does nothing but carry bytes. The tap may be nil.
func New(tap Tap) *Proxy {
	return &Proxy{
		tap: tap, changed: make(chan struct{}),
		listeners: make(map[string]net.Listener), links: make(map[*link]struct{}),
		lines: linesOf(0),
	}
}

func linesOf(seed uint64) map[Direction]*Line {
	return map[Direction]*Line{ToServer: NewLine(seed, ToServer), ToClient: NewLine(seed, ToClient)}
}

// Seed has the proxy lose other packets. It is for one that has not carried any yet.
func (p *Proxy) Seed(seed uint64) { p.lines = linesOf(seed) }

// Listen returns the address at which the proxy stands for the server at target.
func (p *Proxy) Listen(target string) (address string, err error) {
	return p.ListenAt("127.0.0.1:0", target)
}

// ListenAt is like Listen, at an address that is given. A target has one address: that of the first call.
func (p *Proxy) ListenAt(at, target string) (address string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", net.ErrClosed
	}
	l := p.listeners[target]
	if l == nil {
		if l, err = net.Listen("tcp", at); err != nil {
			return "", err
		}
		p.listeners[target] = l
		p.wait.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				p.wait.Go(func() { p.serve(conn, target) })
			}
		})
	}
	return l.Addr().String(), nil
}

// Dial connects to a server through the proxy. It has the form of [net.Dialer.DialContext] and
// returns a *net.TCPConn, whose RemoteAddr is the proxy's. It is for clients that are told by one
// server where the others are.
func (p *Proxy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	w, closed := p.weather, p.closed
	p.mu.Unlock()
	if w.Delay > 0 && !closed {
		if err := pause.For(ctx, 2*w.Delay); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
	}
	if w.Refuse {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	at, err := p.Listen(address)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, at)
}

// Set changes the weather, for all connections at once.
func (p *Proxy) Set(w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut resets all connections, towards both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.cuts += len(links)
	p.mu.Unlock()
	for _, l := range links {
		l.end(true)
	}
}

// CutAfter resets a connection in the middle of what it carries: the one that carries the n-th of
// the bytes that all of them carry from now on in the given directions. It arrives, what follows
// does not. There is one such cut at a time; a further call replaces it.
func (p *Proxy) CutAfter(n int64, to Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.left = to, max(1, n)
}

// Cuts returns how many connections were reset by Cut and CutAfter.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Connections returns how many connections clients have open, also where the weather keeps servers
// from learning that one was closed.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// Close resets all connections. When it returns, nothing of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Unlock()
	p.Cut()
	p.wait.Wait()
}

// now returns the weather, and a channel that is closed when it changes.
func (p *Proxy) now() (Weather, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather, p.changed
}

// spend returns how many of n bytes may be carried, and whether the connection is then cut.
func (p *Proxy) spend(n int, to Direction) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed&to == 0 || n == 0 {
		return n, false
	}
	if int64(n) < p.left {
		p.left -= int64(n)
		return n, false
	}
	p.armed = 0
	p.cuts++
	return int(p.left), true
}

// serve carries one connection.
func (p *Proxy) serve(client net.Conn, target string) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	server, err := net.DialTimeout("tcp", target, connectTimeout)
	if err != nil {
		reset(client)
		return
	}
	l.server = server
	p.mu.Lock()
	refused := p.closed || p.weather.Refuse
	if !refused {
		p.accepted++
		l.number = p.accepted
		p.links[l] = struct{}{}
		p.open++
	}
	p.mu.Unlock()
	if refused {
		reset(client)
		reset(server)
		return
	}
	var ways sync.WaitGroup
	for to, ends := range map[Direction][2]net.Conn{ToServer: {client, server}, ToClient: {server, client}} {
		queue := make(chan piece, queued)
		ways.Go(func() {
			l.read(queue, ends[0], to)
			if to == ToServer {
				p.mu.Lock()
				p.open--
				p.mu.Unlock()
			}
		})
		ways.Go(func() { l.write(queue, ends[1], to) })
	}
	ways.Wait()
	l.end(false)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// A link is a connection of a client with the one to the server that it is carried on.
type link struct {
	proxy          *Proxy
	number         int
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed at the end
}

func (l *link) end(broken bool) {
	l.once.Do(func() {
		close(l.done)
		for _, c := range []net.Conn{l.client, l.server} {
			if broken {
				reset(c)
			} else {
				_ = c.Close()
			}
		}
	})
}

// reset closes a connection so that its other end is told that it broke.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// A piece is what was read at once: bytes or, last, the end.
type piece struct {
	at  time.Time // when it left: not before those in front of it have arrived
	b   []byte
	err error // io.EOF, or that the connection broke
}

func (l *link) read(queue chan<- piece, from net.Conn, to Direction) {
	buffer := make([]byte, readBytes)
	for {
		n, err := from.Read(buffer)
		now := time.Now()
		if n > 0 {
			if l.proxy.tap != nil {
				l.proxy.tap(l.number, to, buffer[:n])
			}
			w, _ := l.proxy.now()
			if !l.put(queue, piece{at: l.proxy.lines[to].Leave(w, now, n), b: append([]byte(nil), buffer[:n]...)}) {
				return
			}
		}
		if err != nil {
			l.put(queue, piece{at: now, err: err})
			return
		}
	}
}

func (l *link) put(queue chan<- piece, x piece) bool {
	select {
	case queue <- x:
		return true
	case <-l.done:
		return false
	}
}

func (l *link) write(queue <-chan piece, conn net.Conn, to Direction) {
	lost := false
	for {
		var x piece
		select {
		case x = <-queue:
		case <-l.done:
			return
		}
		w, ok := l.hold(x.at, to)
		if !ok {
			return
		}
		if lost = lost || w.Drop&to != 0; lost {
			continue // until the link is cut: its end is lost, too
		}
		switch {
		case errors.Is(x.err, io.EOF):
			_ = conn.(*net.TCPConn).CloseWrite()
			return
		case x.err != nil:
			l.end(true)
			return
		}
		n, cut := l.proxy.spend(len(x.b), to)
		if _, err := conn.Write(x.b[:n]); err != nil || cut {
			l.end(true)
			return
		}
	}
}

// hold waits until what was read at a time may arrive, and returns the weather at which it does.
func (l *link) hold(at time.Time, to Direction) (Weather, bool) {
	for {
		w, changed := l.proxy.now()
		var arrives <-chan time.Time
		if w.Hold&to == 0 {
			wait := w.Delay - time.Since(at)
			if wait <= 0 {
				return w, true
			}
			timer := time.NewTimer(wait)
			defer timer.Stop()
			arrives = timer.C
		}
		select {
		case <-arrives:
			return w, true
		case <-changed:
		case <-l.done:
			return Weather{}, false
		}
	}
}
