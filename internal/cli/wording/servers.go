package wording

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ofDrivers are errors of client libraries in plain words.
var ofDrivers = []struct {
	err  error
	text string
}{
	{gocql.ErrNoConnections, "no server of the cluster can be reached"},
	{gocql.ErrNoConnectionsStarted, "no server of the cluster can be reached"},
	{gocql.ErrConnectionClosed, "the server closed the connection"},
	{gocql.ErrTimeoutNoResponse, "the server gave no answer in time; it may be too busy, or hang, so that speculate-after in --store, " +
		"which asks another one, helps, or timeout there may be too short"},
	{gocql.ErrNoStreams, "too many requests are under way; take fewer --writers"},
}

// Of returns the text of an error for people.
func Of(err error) string {
	text := ForPeople(err.Error())
	if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknownOutcome) {
		return text
	}
	for _, e := range ofDrivers {
		if errors.Is(err, e.err) {
			text = strings.ReplaceAll(text, e.err.Error(), e.text)
		}
	}
	var network *net.OpError
	if errors.As(err, &network) {
		if said := NoConnection(network); said != "" {
			text = strings.ReplaceAll(text, network.Error(), said)
		}
	}
	return text
}

// NoConnection says in plain words why there is no connection to a server, and what to do. It is "" where the error does not say.
func NoConnection(err error) string {
	at := "it"
	var network *net.OpError
	if errors.As(err, &network) && network.Addr != nil {
		at = network.Addr.String()
	}
	var unknown *net.DNSError
	var timed net.Error
	switch {
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Sprintf("no host is called %s: check the name in --store", unknown.Name)
	case errors.As(err, &unknown):
		return fmt.Sprintf("the address of %s cannot be found out, since no name server answers: check the network", unknown.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s: start the database, or check the host and port in --store", at)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no route to %s: check the network, and the host in --store", at)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Sprintf("%s closed the connection: it may be overloaded, or have been stopped", at)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return fmt.Sprintf("%s does not answer: check the host in --store, and whether a firewall is before it", at)
	}
	return ""
}
