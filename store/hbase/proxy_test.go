package hbase

import (
	"bytes"
	"sync"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
)

// A network stands between the client and every server. Its Dial is for [Options].
type network struct {
	*proxy.Proxy

	mu       sync.Mutex
	match    []byte
	answered bool
	from     int // the connection whose answer is not to arrive; 0 is none
}

func newNetwork(tb testing.TB) *network {
	n := &network{}
	n.Proxy = proxy.New(n.tap)
	tb.Cleanup(n.Close)
	return n
}

// cutAt cuts all connections at the next request that contains match: before it gets to the server
// or, with answered, instead of the answer.
func (n *network) cutAt(match string, answered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.match, n.answered, n.from = []byte(match), answered, 0
}

// done reports whether that has come to pass.
func (n *network) done() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.match == nil && n.from == 0
}

func (n *network) tap(connection int, to proxy.Direction, b []byte) {
	n.mu.Lock()
	cut := false
	switch {
	case to == proxy.ToClient && connection == n.from:
		n.from, cut = 0, true
	case to == proxy.ToServer && n.match != nil && bytes.Contains(b, n.match):
		n.match, cut = nil, !n.answered
		if n.answered {
			n.from = connection
		}
	}
	n.mu.Unlock()
	if cut {
		n.Cut()
	}
}

// down takes the network away until its weather is set again.
func (n *network) down() {
	n.Set(proxy.Weather{Refuse: true})
	n.Cut()
}
