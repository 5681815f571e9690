package cassandra

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A gate is a server that speaks as much of CQL as a login takes.
type gate struct {
	code    int32        // of what it answers to the first message of a login
	message string       // what it says with it
	asks    bool         // for a login
	open    *atomic.Bool // whether it lets everybody in, as a node without any table; nil for never
}

// serve answers on a listener until the test ends, and returns its address.
func (g gate) serve(t *testing.T, l net.Listener) string {
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				for was := g.isOpen(); g.isOpen() == was && g.answer(conn) == nil; {
				}
			})
		}
	})
	t.Cleanup(wait.Wait)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func (g gate) isOpen() bool { return g.open != nil && g.open.Load() }

// answer reads one frame and answers it.
func (g gate) answer(conn net.Conn) error {
	header := make([]byte, 9)
	if _, err := io.ReadFull(conn, header); err != nil {
		return err
	}
	if header[0] != 4 && header[0] != 5 {
		_, _ = conn.Write([]byte{0x84, 0, 0, 0, 0, 0, 0, 0, 0}) // not CQL; Cassandra says so
		return errors.New("not CQL")
	}
	query := make([]byte, binary.BigEndian.Uint32(header[5:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
	}
	failure := func(code int32, message string) []byte {
		return text(binary.BigEndian.AppendUint32(nil, uint32(code)), message)
	}
	var opcode byte
	var body []byte
	switch {
	case header[0] == 5:
		header[2], header[3] = 0, 0 // a server that does not know the version does not know the stream
		body = failure(gocql.ErrCodeProtocol, "Invalid or unsupported protocol version (5)")
	case header[4] == 5: // OPTIONS
		opcode, body = 6, []byte{0, 0}
	case g.isOpen() && (header[4] == 1 || header[4] == 11): // STARTUP, REGISTER
		opcode = 2
	case g.isOpen() && header[4] == 7 && g.code == gocql.ErrCodeInvalid: // QUERY
		body = failure(g.code, g.message)
	case g.isOpen() && header[4] == 7:
		opcode, body = 8, g.rows(string(query))
	case header[4] == 1 && g.asks: // STARTUP
		opcode, body = 3, text(nil, "org.apache.cassandra.auth.PasswordAuthenticator")
	case g.isOpen():
		body = failure(gocql.ErrCodeInvalid, "nothing can be asked here")
	default:
		body = failure(g.code, g.message)
	}
	answer := []byte{0x84, 0, header[2], header[3], opcode}
	answer = append(binary.BigEndian.AppendUint32(answer, uint32(len(body))), body...)
	_, err := conn.Write(answer)
	return err
}

// rows returns the result of a query: this node in system.local, and nothing in other tables.
func (g gate) rows(query string) (b []byte) {
	text := func(s string) { b = append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...) }
	number := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	local := []string{"data_center", "dc", "rack", "r", "release_version", "4.0.0", "host_id", "550e8400-e29b-41d4-a716-446655440000"}
	number(2) // rows
	number(1) // one table
	number(len(local) / 2)
	text("system")
	text("local")
	for i := 0; i < len(local); i += 2 {
		text(local[i])
		b = append(b, 0, 13) // text
	}
	if !strings.Contains(query, "system.local") {
		number(0)
		return b
	}
	number(1)
	for i := 1; i < len(local); i += 2 {
		number(len(local[i]))
		b = append(b, local[i]...)
	}
	return b
}

// authority makes certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	made := a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	})
	a.cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(a.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// node issues a certificate of 127.0.0.1 for some time from now on.
func (a *authority) node(valid time.Duration) tls.Certificate {
	return a.issue(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Where client and server do not accept each other, the error says so. No loop takes it for that of a
// database that is down.
func TestAccessRefused(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	wrong := gate{gocql.ErrCodeCredentials, "Provided username me and/or password are incorrect", true, nil}
	secured := func(valid time.Duration, clients tls.ClientAuthType) string {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			Certificates: []tls.Certificate{ours.node(valid)}, ClientAuth: clients, ClientCAs: ours.pool(),
		})
		require.NoError(t, err)
		return wrong.serve(t, l)
	}
	open := func(g gate) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return g.serve(t, l)
	}
	trusting := func() *tls.Config { return &tls.Config{RootCAs: ours.pool()} }
	known := trusting()
	known.Certificates = []tls.Certificate{ours.node(time.Hour)}
	stranger := trusting()
	stranger.Certificates = []tls.Certificate{theirs.node(time.Hour)}
	for _, c := range []struct {
		name string
		to   string
		tls  *tls.Config
		user string
		kind error
		says string
	}{
		{"wrong password", secured(time.Hour, tls.NoClientCert), trusting(), "me", driver.ErrUnauthorised, "password are incorrect"},
		{"no login", secured(time.Hour, tls.NoClientCert), trusting(), "", driver.ErrUnauthorised, "give a user name and a password"},
		{"unknown authority", secured(time.Hour, tls.NoClientCert), &tls.Config{RootCAs: theirs.pool()}, "me", driver.ErrUnauthorised, "give the authority that signed it"},
		{"another name", secured(time.Hour, tls.NoClientCert), &tls.Config{RootCAs: ours.pool(), ServerName: "cassandra.invalid"}, "me", driver.ErrUnauthorised, "cassandra.invalid"},
		{"expired", secured(-time.Second, tls.NoClientCert), trusting(), "me", driver.ErrUnauthorised, "expired"},
		{"expired, since when", secured(-time.Minute, tls.NoClientCert), trusting(), "me", driver.ErrUnauthorised,
			"the server's certificate was valid until " + time.Now().Add(-time.Minute).UTC().Format("2006-01-02T15")},
		{"no client certificate", secured(time.Hour, tls.RequireAndVerifyClientCert), trusting(), "me", driver.ErrUnauthorised, "certificate of the client"},
		{"unknown client certificate", secured(time.Hour, tls.RequireAndVerifyClientCert), stranger, "me", driver.ErrUnauthorised, "certificate of the client"},
		{"wrong password, certificate", secured(time.Hour, tls.RequireAndVerifyClientCert), known, "me", driver.ErrUnauthorised, "password are incorrect"},
		{"TLS too old", secured(time.Hour, tls.NoClientCert), &tls.Config{RootCAs: ours.pool(), MaxVersion: tls.VersionTLS11}, "me", driver.ErrUnauthorised, "TLS configuration"},
		{"clear text to TLS", secured(time.Hour, tls.NoClientCert), nil, "me", driver.ErrUnauthorised, "set TLS"},
		{"clear text to TLS with certificates", secured(time.Hour, tls.RequireAndVerifyClientCert), nil, "me", driver.ErrUnauthorised, "set TLS"},
		{"TLS to clear text", open(wrong), trusting(), "me", driver.ErrUnauthorised, "without TLS"},
		{"wrong password in the clear", open(wrong), nil, "me", driver.ErrUnauthorised, "password are incorrect"},

		{"logins cannot be read", open(gate{gocql.ErrCodeCredentials, "Unable to perform authentication: Cannot achieve consistency level QUORUM", true, nil}),
			nil, "me", driver.ErrUnavailable, "QUORUM"},
		{"starting", open(gate{gocql.ErrCodeBootstrapping, "node is bootstrapping", false, nil}), nil, "", driver.ErrUnavailable, "bootstrapping"},
		{"overloaded in a login", open(gate{gocql.ErrCodeOverloaded, "too much", true, nil}), nil, "me", driver.ErrUnavailable, "too much"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			config := Config{
				Options: Options{Keyspace: "ks"}, Hosts: []string{c.to}, TLS: c.tls, ConnectTimeout: 5 * time.Second,
				Username: c.user, AllowPlaintextPassword: true,
			}
			if c.user != "" {
				config.Password = "secret"
			}
			_, err := Open(ctx, config)
			require.ErrorIs(t, err, c.kind)
			require.NoError(t, ctx.Err(), "at once")
			for _, kind := range []error{driver.ErrUnavailable, driver.ErrUnauthorised} {
				require.Equal(t, kind == c.kind, errors.Is(err, kind), "%v", err)
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// A session whose login is refused once its connections are lost, since the password was changed,
// gives errors that say so. They are of a database that is down where a node may let it in later.
func TestAccessRefusedLater(t *testing.T) {
	open := new(atomic.Bool)
	open.Store(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	to := gate{gocql.ErrCodeCredentials, "Provided username me and/or password are incorrect", true, open}.serve(t, l)
	config := Config{Hosts: []string{to}, Username: "me", Password: "secret", ConnectTimeout: time.Second}
	session, attempts, err := config.connect(t.Context())
	require.NoError(t, err)
	defer session.Close()
	db := &DB{session: session, attempts: attempts}
	failure := func() error {
		return db.failed(t.Context(), "get", db.session.Query("SELECT data_center FROM system.local").ExecContext(t.Context()))
	}

	open.Store(false)
	// A later call may be of a database that is down again: the session goes on trying to connect.
	require.Eventually(t, func() bool {
		err = failure()
		return errors.Is(err, driver.ErrUnauthorised)
	}, 20*time.Second, 50*time.Millisecond)
	require.NotErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "password are incorrect")
	require.NotContains(t, err.Error(), "secret")

	away := gocql.ObservedConnect{Host: new(gocql.HostInfo), Err: io.EOF}
	attempts.ObserveConnect(away)
	require.ErrorIs(t, failure(), driver.ErrUnavailable, "another node does not answer")

	open.Store(true)
	require.Eventually(t, func() bool { return strings.Contains(failure().Error(), "nothing can be asked") }, 20*time.Second, 50*time.Millisecond)
	require.Nil(t, attempts.refused())
}

// What fails when a keyspace is opened says once what it is an error of.
func TestFailureOfOpeningSaysOnce(t *testing.T) {
	open := new(atomic.Bool)
	open.Store(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{Options: Options{Keyspace: "ks"}, Hosts: []string{gate{open: open}.serve(t, l)}})
	require.ErrorContains(t, err, "cassandra: open keyspace ks: make the keyspace: ")
	require.ErrorAs(t, err, new(interface{ Connected() bool }))
	require.Equal(t, 1, strings.Count(err.Error(), "cassandra: "), err)
}

// What a server forbids is not taken for a server that does not answer.
func TestForbiddenWhileConnecting(t *testing.T) {
	open := new(atomic.Bool)
	open.Store(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	host := gate{gocql.ErrCodeInvalid, "Guardrail page_size violated: page size 1024 exceeds fail threshold of 100.", false, open}.serve(t, l)
	_, err = Open(t.Context(), Config{Options: Options{Keyspace: "ks"}, Hosts: []string{host}})
	require.ErrorContains(t, err, "Guardrail page_size violated")
	require.NotErrorIs(t, err, driver.ErrUnavailable)
}
