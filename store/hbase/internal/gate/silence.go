package gate

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A server that hangs keeps its connections. The cluster notices, and gives its regions to others. If the server wakes then, it
// answers reads from its memory until it has noticed itself, which takes it a second. These answers lack what was written elsewhere.
// So one that was silent for a while is looked for among the members of the cluster: a client neither waits for one that is
// none any more, nor believes what it says first. A client that asks it only after it woke cannot know.

// silence is how long a server has said nothing of what it was asked for.
type silence struct {
	quiet time.Duration // after so long, the server is looked for; 0 for never

	mu       sync.Mutex
	waits    bool          // for answers of a region server
	patience time.Duration // for the next piece of one
	since    time.Time     // when the last one came, or the wait began
}

// next returns by when something must have come, or be looked after. It is called with the lock held.
func (s *silence) next() time.Time {
	left := s.patience - time.Since(s.since)
	if s.quiet > 0 {
		left = min(left, s.quiet)
	}
	return time.Now().Add(left)
}

// SetReadDeadline sets until when an answer must come. The client calls it with each request, which would put it off for ever while a
// server hangs: its regions may long be elsewhere. So only what is read puts it off.
func (w *watched) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	waited := w.waits
	w.waits, w.patience = !t.IsZero() && !w.zooKeeper, time.Until(t)
	if waited && w.waits {
		return nil
	}
	if w.waits {
		w.since = time.Now()
		t = w.next()
	}
	return w.TCPConn.SetReadDeadline(t)
}

// errGone is the error of a connection to a server that is no member of the cluster any more.
var errGone = errors.New("the cluster has given the regions of the server to others")

// heard puts off when the next piece of an answer must come. Its error says that what came is not to be believed.
func (w *watched) heard() error {
	w.mu.Lock()
	silent := w.waits && w.quiet > 0 && time.Since(w.since) >= w.quiet
	w.mu.Unlock()
	if silent && w.gate.gone(w.address) {
		return errGone
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits {
		w.since = time.Now()
		_ = w.TCPConn.SetReadDeadline(w.next()) // an error is one of the next read, too
	}
	return nil
}

// waitsOn reports whether it is worth waiting on, when nothing has come in time.
func (w *watched) waitsOn() bool {
	w.mu.Lock()
	over := w.waits && time.Since(w.since) >= w.patience
	w.mu.Unlock()
	if w.quiet == 0 || over || w.gate.gone(w.address) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.waits || w.TCPConn.SetReadDeadline(w.next()) == nil
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.TCPConn.Read(b)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.waitsOn() {
		n, err = w.TCPConn.Read(b)
	}
	if n > 0 {
		if gone := w.heard(); gone != nil {
			return 0, gone
		}
	}
	if !w.known {
		w.first = append(w.first, b[:n]...)
		w.look(err)
	}
	return n, err
}

// gone reports whether a server was a member of the cluster and is none any more. What cannot be found out is not so.
func (g *Gate) gone(address string) bool {
	members, err := g.members()
	if err != nil || len(members) == 0 {
		return false
	}
	is := false
	for _, m := range members {
		if host, rest, ok := strings.Cut(m, ","); ok { // host,port,start
			port, _, _ := strings.Cut(rest, ",")
			member := strings.ToLower(net.JoinHostPort(host, port))
			g.known.Store(member, true)
			is = is || member == strings.ToLower(address)
		}
	}
	_, was := g.known.Load(strings.ToLower(address))
	return was && !is
}

// quiet is less than a server may hang before its session with ZooKeeper ends, as clusters are set up: 90 s by default.
const quiet = 5 * time.Second

// Follow has the gate ask ZooKeeper which region servers a cluster has.
func (g *Gate) Follow(quorum, root string) {
	g.quiet, g.members = quiet, func() ([]string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), quiet)
		defer cancel()
		// The client tries for ever, and closes no connection on which nothing was answered yet.
		dial := func(network, address string, within time.Duration) (net.Conn, error) {
			dialling, stop := context.WithTimeout(ctx, within)
			defer stop()
			conn, err := g.DialZooKeeper(dialling, network, address)
			if err == nil {
				context.AfterFunc(ctx, func() { conn.Close() })
			}
			return conn, err
		}
		conn, _, err := zk.Connect(strings.Split(quorum, ","), quiet, zk.WithDialer(dial), zk.WithLogger(mute{}))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, conn.Close)()
		members, _, err := conn.Children(path.Join(root, "rs"))
		return members, err
	}
}

// mute is the log of a client of which nobody waits for an answer.
type mute struct{}

func (mute) Printf(string, ...any) {}
