// Package gate makes the connections of the adapter, and finds out whether a server will never let
// this client in: one that asks for Kerberos or TLS.
package gate

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Gohbase knows neither Kerberos nor TLS, and takes a server that asks for them for one that loses connections: it tries
// for ever. So what such a server says first is looked at here.
var (
	errKerberos = fmt.Errorf("%w: the server asks for Kerberos, which the client library gohbase does not know: "+
		"take a cluster with hbase.security.authentication=simple in a network of its own, or Cassandra", driver.ErrUnauthorised)
	errTLS = fmt.Errorf("%w: the server expects TLS, which the client library gohbase does not know: "+
		"take a port without TLS in a network of its own, or Cassandra", driver.ErrUnauthorised)
	errZooKeeper = fmt.Errorf("%w: ZooKeeper asks for a login, which the client library gohbase does not know: "+
		"let everybody read the znodes below zookeeper.znode.parent, or take Cassandra", driver.ErrUnauthorised)
)

// Unauthorised are the exceptions by which a server says that this user may not do it.
var Unauthorised = map[string]bool{
	"AccessDeniedException":  true,
	"AccessControlException": true,
	"AuthorizationException": true,
	"BadAuthException":       true,
}

// Quorum returns an error for the first of the ZooKeeper servers that is not one, as the client reads them: it tries such a one for ever.
func Quorum(quorum string) error {
	if quorum == "" {
		return errors.New("hbase: no ZooKeeper quorum given; want host:port, or several separated by commas")
	}
	servers := strings.Split(quorum, ",")
	for i, server := range servers {
		host, port, bad := server, "2181", error(nil)
		if strings.Contains(server, ":") {
			host, port, bad = net.SplitHostPort(server)
		}
		n, badPort := strconv.ParseUint(port, 10, 16)
		if bad != nil || badPort != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?#\\ \t\r\n") {
			return fmt.Errorf("hbase: server %d of %d of the ZooKeeper quorum is not HOST or HOST:PORT: give a name or an IP address, alone or with a port "+
				"from 1 to 65535, as zk1, zk1:2181 or [::1]:2181, and commas without blanks between several", i+1, len(servers))
		}
	}
	return nil
}

// A Gate makes connections, and finds out whether a server will never let this client in.
type Gate struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	members func() ([]string, error) // the region servers of the cluster; nil before Follow
	quiet   time.Duration            // how long one may be silent before it is looked for there
	known   sync.Map                 // addresses of servers that once were members

	mu     sync.Mutex
	denied error                   // why not, since one said so
	refuse context.CancelCauseFunc // ends an Open that is under way; nil after it
	shut   atomic.Bool
}

// Opening returns a context that ends when a server refuses this client, until done is called.
func (g *Gate) Opening(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	set := func(f context.CancelCauseFunc) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refuse = f
	}
	set(cancel)
	return ctx, func() { set(nil); cancel(nil) }
}

func (g *Gate) deny(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = err
	if g.refuse != nil {
		g.refuse(err)
	}
}

// admit forgets a refusal: a server has answered.
func (g *Gate) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = nil
}

// Reason returns why this client is not let in, and nil if it is.
func (g *Gate) Reason() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied
}

func (g *Gate) isOpening() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refuse != nil
}

// DialRegion makes a connection to a region server or master, DialZooKeeper one to ZooKeeper.
func (g *Gate) DialRegion(ctx context.Context, network, address string) (net.Conn, error) {
	return g.watch(ctx, network, address, false)
}

// Shut says that the client was closed.
func (g *Gate) Shut() { g.shut.Store(true) }

// lastWords is how long the client may use a connection that it got after it was closed.
const lastWords = 2 * time.Second

// DialForClient is DialRegion for the client. A closed one that is connecting to a server goes on until it is connected, again and again
// where it fails, and keeps the connection for ever. So it gets the connection, which is closed soon after.
func (g *Gate) DialForClient(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := g.DialRegion(ctx, network, address)
	if w, ok := conn.(*watched); ok {
		w.quiet = g.quiet
	}
	if err == nil && g.shut.Load() {
		time.AfterFunc(lastWords, func() { conn.Close() })
	}
	return conn, err
}

func (g *Gate) DialZooKeeper(ctx context.Context, network, address string) (net.Conn, error) {
	return g.watch(ctx, network, address, true)
}

// watch makes a connection that is looked at where it is one of TCP, as it is but for a Dial of the caller's own.
func (g *Gate) watch(ctx context.Context, network, address string, zooKeeper bool) (net.Conn, error) {
	conn, err := g.Dial(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return &watched{TCPConn: tcp, gate: g, address: address, zooKeeper: zooKeeper}, nil
	}
	return conn, err
}

// RefusedBy returns the error of a ZooKeeper that asks for a login, and nil for other errors: its client has texts only.
func RefusedBy(err error) error {
	const sessionNeedsLogin = "unknown error: -124" // SESSIONCLOSEDREQUIRESASLAUTH, which the client has no name for
	if text := err.Error(); strings.Contains(text, "zk: not authenticated") || strings.Contains(text, sessionNeedsLogin) {
		return errZooKeeper
	}
	return nil
}

// A watched connection looks at the first answer. Gohbase reads it by one goroutine, and writes it by several: a request
// is several pieces, which only a *net.TCPConn keeps together (net.Buffers), so that this has to be one.
type watched struct {
	*net.TCPConn
	gate      *Gate
	address   string
	zooKeeper bool

	first []byte // of the first answer, what was read of it
	known bool   // it was looked at

	silence
}

// Write writes a request that has no cells beside it, which the client does at once: among others, one that looks for a region.
func (w *watched) Write(b []byte) (int, error) {
	changed := pastSplit(b)
	if changed == nil {
		return w.TCPConn.Write(b)
	}
	if _, err := w.TCPConn.Write(changed); err != nil {
		return 0, err
	}
	return len(b), nil
}

// longestRefusal is longer than any answer that refuses a client, whose stack trace is in it.
const longestRefusal = 64 << 10

func (w *watched) look(err error) {
	switch size := len(w.first); {
	case err != nil && size == 0:
		// So a server ends that got no TLS. One that dies does, too.
		w.known = true
		if !errors.Is(err, net.ErrClosed) && w.gate.isOpening() && w.gate.speaksTLS(w.address) {
			w.gate.deny(errTLS)
		}
	case err != nil:
		w.known = true
	case size >= 2 && w.first[0] == 21 && w.first[1] == 3: // an alert of TLS
		w.known = true
		w.gate.deny(errTLS)
	case w.zooKeeper:
		w.known = size >= 2
	case size >= 4:
		length := binary.BigEndian.Uint32(w.first)
		if length > longestRefusal {
			w.known = true
		} else if size >= 4+int(length) {
			w.known = true
			w.answer(w.first[4 : 4+length])
		}
	}
	if w.known {
		w.first = nil
	}
}

// answer looks at an answer of a region server. One to no call of this client says that it is not let in.
func (w *watched) answer(b []byte) {
	text, n := protowire.ConsumeBytes(b)
	var header pb.ResponseHeader
	if n < 0 || proto.Unmarshal(text, &header) != nil {
		return
	}
	if header.GetCallId() != math.MaxUint32 || header.Exception == nil {
		w.gate.admit()
		return
	}
	class := header.Exception.GetExceptionClassName()
	class = class[strings.LastIndexByte(class, '.')+1:]
	if Unauthorised[class] || class == "SaslException" {
		w.gate.deny(fmt.Errorf("%w (%s)", errKerberos, class))
	}
}

var errSpoke = errors.New("the server speaks TLS")

// speaksTLS reports whether a server begins to speak TLS. Nothing is sent to it but the beginning of a handshake.
func (g *Gate) speaksTLS(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := g.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	err = tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, // nothing depends on who it is
		VerifyConnection:   func(tls.ConnectionState) error { return errSpoke },
	}).HandshakeContext(ctx)
	var network *net.OpError
	return errors.Is(err, errSpoke) || errors.As(err, &network) && network.Op == "remote error" && !errors.Is(err, io.EOF)
}
