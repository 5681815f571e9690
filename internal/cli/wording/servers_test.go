package wording

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What keeps a connection from being made is said in plain words, with what to do.
func TestNoConnection(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9042}
	dial := func(err error) error {
		return fmt.Errorf("more: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err})
	}
	for want, err := range map[string]error{
		"no host is called db.example: check the name in --store":                                        dial(&net.DNSError{Name: "db.example", IsNotFound: true}),
		"the address of db.example cannot be found out, since no name server answers: check the network": dial(&net.DNSError{Name: "db.example", IsTimeout: true}),
		"nothing listens at 127.0.0.1:9042: start the database, or check the host and port in --store":   dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"there is no route to 127.0.0.1:9042: check the network, and the host in --store":                dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)),
		"127.0.0.1:9042 closed the connection: it may be overloaded, or have been stopped":               dial(os.NewSyscallError("read", syscall.ECONNRESET)),
		"127.0.0.1:9042 does not answer: check the host in --store, and whether a firewall is before it": dial(os.ErrDeadlineExceeded),
		"it does not answer: check the host in --store, and whether a firewall is before it":             context.DeadlineExceeded,
		"": errors.New("something else"),
	} {
		require.Equal(t, want, NoConnection(err))
	}
}

// Words of client libraries are replaced in errors about databases that do not answer, and nowhere else.
func TestWordsOfDrivers(t *testing.T) {
	of := func(kind, err error) string { return Of(fmt.Errorf("cassandra: scan family x: %w: %w", kind, err)) }
	require.Equal(t, "cassandra: scan family x: driver: database unavailable: no server of the cluster can be reached", of(driver.ErrUnavailable, gocql.ErrNoConnections))
	late := of(driver.ErrUnknownOutcome, gocql.ErrTimeoutNoResponse)
	require.Contains(t, late, "cassandra: scan family x: driver: outcome of a conditional change is unknown: the server gave no answer in time; it may be too busy")
	require.Contains(t, late, "speculate-after in --store")
	require.Equal(t, "cassandra: scan family x: driver: database unavailable: nothing listens at 127.0.0.1:7: start the database, or check the host and port in --store",
		of(driver.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, Err: syscall.ECONNREFUSED}))
	for _, e := range ofDrivers {
		require.NotContains(t, of(driver.ErrUnavailable, e.err), "gocql")
	}
	require.Contains(t, Of(gocql.ErrNoStreams), "gocql")
}

// What a server asks for has the name of the option that gives it.
func TestOptionsAreNamed(t *testing.T) {
	for said, option := range map[string]string{
		"the server expects TLS there: set TLS":                                                                               "add ca=FILE or tls=system to",
		"the server asks for a login: give a user name and a password":                                                        "add user=ROLE and password-file=FILE to",
		"the server's certificate is not trusted: give the authority that signed it":                                          "by ca=FILE in",
		"the server's certificate is made for another name: connect by that name, or give it as the server name of TLS":       "by server-name=NAME in",
		"the server refused the TLS connection: it may require a certificate of the client, or not trust the one that it got": "which cert=FILE and key=FILE in",
	} {
		require.Contains(t, Of(fmt.Errorf("cassandra: connect to db1: %w: %s", driver.ErrUnauthorised, said)), option+" the name of the store")
	}
}
