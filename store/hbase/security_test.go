package hbase

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/big"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/gate"
)

// A fake is a server that answers as ZooKeeper or HBase does when it asks for Kerberos or TLS: the real one does so only
// with a key distribution centre beside it.
type fake func(conn net.Conn)

// serve answers until the test ends, and returns the address.
func (f fake) serve(t *testing.T, l net.Listener) string {
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				f(conn)
			})
		}
	})
	t.Cleanup(wait.Wait)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func (f fake) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return f.serve(t, l)
}

// listenTLS is a server that takes TLS only.
func listenTLS(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	require.NoError(t, err)
	return fake(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).serve(t, l)
}

// frame reads what begins with its length.
func frame(conn net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, b)
	return b, err
}

func send(conn net.Conn, b []byte) {
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
}

// zooKeeper leads to the server of hbase:meta, or answers each request with an error.
func zooKeeper(meta string, code int32) fake {
	return func(conn net.Conn) {
		if _, err := frame(conn); err != nil {
			return
		}
		hello := binary.BigEndian.AppendUint32(nil, 0)       // version
		hello = binary.BigEndian.AppendUint32(hello, 10_000) // timeout
		hello = binary.BigEndian.AppendUint64(hello, 1)      // session
		hello = append(binary.BigEndian.AppendUint32(hello, 16), make([]byte, 16)...)
		send(conn, hello)
		for {
			request, err := frame(conn)
			if err != nil || len(request) < 8 {
				return
			}
			answer := append([]byte{}, request[:4]...) // its number
			answer = binary.BigEndian.AppendUint64(answer, 1)
			if code != 0 && binary.BigEndian.Uint32(request[4:]) == 4 { // getData
				send(conn, binary.BigEndian.AppendUint32(answer, uint32(code)))
				continue
			}
			answer = binary.BigEndian.AppendUint32(answer, 0)
			if binary.BigEndian.Uint32(request[4:]) == 4 {
				host, port, _ := net.SplitHostPort(meta)
				number, _ := strconv.Atoi(port)
				text, _ := proto.Marshal(&pb.MetaRegionServer{
					Server: &pb.ServerName{HostName: &host, Port: proto.Uint32(uint32(number))}, RpcVersion: proto.Uint32(0),
				})
				data := append([]byte{0xff, 0, 0, 0, 1, 'm'}, append([]byte("PBUF"), text...)...)
				answer = append(binary.BigEndian.AppendUint32(answer, uint32(len(data))), data...)
				answer = append(answer, make([]byte, 68)...) // its statistics
			}
			send(conn, answer)
		}
	}
}

// kerberos answers a client without Kerberos as ServerRpcConnection of HBase 2.6 does: to no call of it, and ends.
func kerberos(class, message string) fake {
	return func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, 6)); err != nil { // "HBas", version, kind of login
			return
		}
		header, _ := proto.Marshal(&pb.ResponseHeader{
			CallId:    proto.Uint32(math.MaxUint32),
			Exception: &pb.ExceptionResponse{ExceptionClassName: &class, StackTrace: &message, DoNotRetry: proto.Bool(true)},
		})
		send(conn, protowire.AppendBytes(nil, header))
		_, _ = io.Copy(io.Discard, conn)
	}
}

// A cluster that asks for what gohbase does not know ends in an error that says so, soon, and in no loop that waits for it.
func TestSecuredServersRefused(t *testing.T) {
	denied := "org.apache.hadoop.hbase.security.AccessDeniedException"
	for _, c := range []struct {
		name, quorum, says string
	}{
		{"Kerberos", zooKeeper(kerberos(denied, denied+": Authentication is required\n\tat org.apache...").listen(t), 0).listen(t), "the server asks for Kerberos, which the client library gohbase does not know"},
		{"Kerberos, other words", zooKeeper(kerberos("javax.security.sasl.SaslException", "no").listen(t), 0).listen(t), "the server asks for Kerberos"},
		{"TLS of region servers", zooKeeper(listenTLS(t), 0).listen(t), "the server expects TLS, which the client library gohbase does not know"},
		{"TLS of ZooKeeper", listenTLS(t), "the server expects TLS"},
		{"ZooKeeper with rights", zooKeeper("127.0.0.1:1", -102).listen(t), "ZooKeeper asks for a login, which the client library gohbase does not know"},
		{"ZooKeeper with logins", zooKeeper("127.0.0.1:1", -124).listen(t), "ZooKeeper asks for a login"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			_, err := Open(t.Context(), c.quorum, &Options{Timeout: 30 * time.Second})
			require.ErrorIs(t, err, driver.ErrUnauthorised)
			require.NotErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, c.says)
			require.Less(t, time.Since(begin), 15*time.Second)
		})
	}
}

// What a server may have done stays unknown, also if the next connection is refused before the caller learns of the lost one.
func TestUnknownOutcomeWhereAServerRefuses(t *testing.T) {
	d := &DB{gate: gate.Gate{Dial: new(net.Dialer).DialContext}}
	conn, err := d.gate.DialRegion(t.Context(), "tcp", kerberos("javax.security.sasl.SaslException", "no").listen(t))
	require.NoError(t, err)
	_, err = conn.Write([]byte("HBas\x00\x50"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _ = conn.Read(make([]byte, 512))
		return d.gate.Reason() != nil
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, conn.Close())

	c := &conditionalCall{}
	c.state.Store(sent)
	_, lost := c.outcome(hrpc.RPCResult{Error: region.ErrClientClosed})
	err = d.fail(t.Context(), "check and put in", lost)
	require.ErrorIs(t, err, driver.ErrUnknownOutcome)
	require.NotErrorIs(t, err, driver.ErrUnauthorised)
	require.ErrorIs(t, d.fail(t.Context(), "get from", region.ErrClientClosed), driver.ErrUnauthorised)
}

// A server that dies, or is none, is one that does not answer.
func TestServersThatEndAreUnavailable(t *testing.T) {
	ends := fake(func(conn net.Conn) { _, _ = io.ReadFull(conn, make([]byte, 6)) }).listen(t)
	for _, quorum := range []string{ends, zooKeeper(ends, 0).listen(t)} {
		_, err := Open(t.Context(), quorum, &Options{Timeout: 2 * time.Second})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotErrorIs(t, err, driver.ErrUnauthorised)
	}
}

// Where ZooKeeper knows no master, what needs one says so.
func TestMissingMasterIsSaid(t *testing.T) {
	d := &DB{gate: gate.Gate{Dial: new(net.Dialer).DialContext}, quorum: zooKeeper("", -101).listen(t), root: "/hbase", zkTimeout: time.Second, timeout: time.Second}
	_, err := d.Families(t.Context())
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "ZooKeeper has no /hbase/master: no master of HBase runs")
	require.ErrorAs(t, err, new(interface{ Connected() bool }))
}

// Requests that several goroutines write, in pieces, are not mixed: gohbase relies on that.
func TestWatchedConnectionKeepsRequestsTogether(t *testing.T) {
	const writers, requests = 8, 300
	piece := make([]byte, 5000)
	received := make(chan error, 1)
	address := fake(func(conn net.Conn) {
		time.Sleep(100 * time.Millisecond) // all writers wait by then
		for n := range writers * requests {
			if n%50 == 0 {
				time.Sleep(time.Millisecond)
			}
			b := make([]byte, 1+2*len(piece))
			_, err := io.ReadFull(conn, b)
			for _, c := range b[1:] {
				if c != b[0] && err == nil {
					err = errors.New("requests are mixed")
				}
			}
			if err != nil {
				received <- err
				return
			}
		}
		received <- nil
	}).listen(t)
	g := &gate.Gate{Dial: new(net.Dialer).DialContext}
	conn, err := g.DialRegion(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	for i := range writers {
		go func() {
			same := bytes.Repeat([]byte{byte(i)}, len(piece))
			for range requests {
				buffers := net.Buffers{[]byte{byte(i)}, same, same}
				_, _ = buffers.WriteTo(conn)
			}
		}()
	}
	require.NoError(t, <-received)
}
