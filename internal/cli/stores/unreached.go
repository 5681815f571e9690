package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/internal/cli/wording"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// An unreached is the error of a database that could not be opened, in words for people.
type unreached struct {
	text string
	err  error
}

func (u unreached) Error() string { return u.text }
func (u unreached) Unwrap() error { return u.err }

// Reaching opens what is no store, at the servers of a name of one. It says what [Asking] says of these, and the flag that names them.
func Reaching[T any](ctx context.Context, flag, name string, say func(text string), open func() (T, error)) (T, error) {
	_, stop := waiting(flag, name, nil, say)
	defer stop()
	opened, err := open()
	scheme, rest, _ := strings.Cut(name, ":")
	return opened, running(ctx, flag, scheme, rest, err)
}

// running says why a database cannot be opened whose servers do not answer, and what to do. Client libraries do not always say
// that, so that each server is called once. The flag is the one that names them.
func running(ctx context.Context, flag, scheme, rest string, err error) error {
	var answer gocql.RequestError
	var connected interface{ Connected() bool } // then the error says what failed
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.As(err, &answer) || errors.As(err, &connected) {
		return err
	}
	servers, port, what := serversOf(scheme, rest)
	reasons := make([]string, 0, len(servers))
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), port)
		}
		reason := called(ctx, server)
		if reason == "" {
			reason = fmt.Sprintf("%s accepts connections, and %s", server, what)
		}
		reasons = append(reasons, strings.ReplaceAll(reason, "--store", flag))
	}
	return unreached{fmt.Sprintf("%s: %s", Shown(scheme+":"+rest), strings.Join(reasons, "; ")), err}
}

// serversOf returns the servers that a name names, the port of those that have none, and what it means that one accepts connections.
func serversOf(scheme, rest string) (servers []string, port, what string) {
	if scheme == "hbase" {
		quorum, _, _ := ParseHBase(rest) // which was checked
		return strings.Split(quorum, ","), "2181", "HBase does not answer: is that its ZooKeeper, whose port is mostly 2181, and do all servers of HBase run?"
	}
	if name, err := cassandraurl.Parse(rest); err == nil {
		servers = name.Hosts
	} else if name, _, err := cassandraurl.ParseTable(rest); err == nil {
		servers = name.Hosts
	}
	return servers, "9042", "does not answer as Cassandra does: is that Cassandra, whose port is mostly 9042, and has it started?"
}

// called connects to a server, and returns what keeps it from that; "" if nothing does.
func called(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err == nil {
		_ = connection.Close()
		return ""
	}
	if said := wording.NoConnection(err); said != "" {
		return said
	}
	return err.Error()
}
