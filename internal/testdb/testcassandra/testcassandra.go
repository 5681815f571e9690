// Package testcassandra connects tests to the Cassandra that the environment names. The adapter's own tests use it, too.
//
// RANGECRYPT_CASSANDRA is its nodes, host:port with commas between several, or a URL as --store takes it, of one with
// logins and TLS. Tests make keyspaces of their own, so the keyspace of the URL does not count, and its role must be one
// that may make keyspaces and roles. RANGECRYPT_CASSANDRA_REPLICATION is the number of copies, by default one.
package testcassandra

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
)

const (
	Variable            = "RANGECRYPT_CASSANDRA"
	ReplicationVariable = "RANGECRYPT_CASSANDRA_REPLICATION"
)

// A Server is how to connect.
type Server struct {
	Hosts          []string
	User, Password string
	TLS            *tls.Config // nil without
	Replication    map[string]string

	url string // "" where there is none
}

// New returns that of the environment.
func New() (*Server, error) {
	s := &Server{Replication: map[string]string{"class": "SimpleStrategy", "replication_factor": cmp.Or(os.Getenv(ReplicationVariable), "1")}}
	text := os.Getenv(Variable)
	if !strings.HasPrefix(text, "cassandra:") {
		s.Hosts = strings.Split(text, ",")
		return s, nil
	}
	n, err := cassandraurl.Parse(text)
	if err != nil {
		return nil, err
	}
	s.url, s.Hosts, s.User = text, n.Hosts, n.User
	s.Password, s.TLS, err = n.Access(context.Background(), nil)
	return s, err
}

// Secured reports whether the servers ask for TLS and a login.
func (s *Server) Secured() bool { return s.TLS != nil && s.User != "" }

// Store returns the value of --store for a keyspace that is reached by the host.
func (s *Server) Store(host, keyspace string) string {
	_, query, _ := strings.Cut(s.url, "?")
	name := "cassandra://" + host + "/" + keyspace
	if query == "" {
		return name
	}
	return name + "?" + query
}

// Cluster returns the configuration of a session of gocql.
func (s *Server) Cluster() *gocql.ClusterConfig {
	cluster := gocql.NewCluster(s.Hosts...)
	cluster.Timeout = 30 * time.Second
	if s.User != "" {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: s.User, Password: s.Password}
	}
	if s.TLS != nil {
		cluster.ConnectTimeout = 5 * time.Second
		cluster.SslOpts = &gocql.SslOptions{Config: s.TLS.Clone()}
	}
	return cluster
}

// Make makes a keyspace for tables of an application, and returns a session in it.
func (s *Server) Make(ctx context.Context, keyspace string) (*gocql.Session, error) {
	cluster := s.Cluster()
	setup, err := cluster.CreateSession()
	if err != nil {
		return nil, err
	}
	defer setup.Close()
	replication := make([]string, 0, len(s.Replication))
	for name, value := range s.Replication {
		replication = append(replication, fmt.Sprintf("'%s': '%s'", name, value))
	}
	if err := setup.Query("CREATE KEYSPACE " + keyspace + " WITH replication = {" + strings.Join(replication, ", ") + "}").ExecContext(ctx); err != nil {
		return nil, err
	}
	cluster.Keyspace = keyspace
	return cluster.CreateSession()
}

// Drop removes a keyspace.
func (s *Server) Drop(keyspace string) error {
	session, err := s.Cluster().CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Query("DROP KEYSPACE IF EXISTS " + keyspace).Exec()
}

// Markers returns how many markers of deleted cells a read of the server steps over.
func Markers(ctx context.Context, session *gocql.Session) (int, error) {
	var value string
	err := session.Query("SELECT value FROM system_views.settings WHERE name = 'tombstone_failure_threshold'").ScanContext(ctx, &value)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}
