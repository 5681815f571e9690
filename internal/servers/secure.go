package servers

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/internal/pause"
)

const (
	// secretDir is the folder, in the data folder, of what clients of secured servers need.
	secretDir = "secure"

	// Keyspace is the one of a secured Cassandra that its role may use.
	Keyspace = "bench"

	role      = "rangecrypt"
	superuser = "cassandra" // which Cassandra makes, with its name as its password

	validity = 365 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour // before the end of it, when all servers are down
)

// Access is what a client of a secured Cassandra connects with. All but User are paths of files that only their
// owner may read.
type Access struct {
	User, Password string // Password is the path of a file with one line
	CA, Cert, Key  string // in PEM
}

// Access returns what a client connects with: as the role that may use [Keyspace] and nothing else, or as the
// superuser. It is false where the servers are not secured.
func (c *Cluster) Access(asSuperuser bool) (Access, bool) {
	user := role
	if asSuperuser {
		user = superuser
	}
	file := func(name string) string { return filepath.Join(c.secrets(), name) }
	return Access{user, file(user + ".password"), file("ca.pem"), file("client.pem"), file("client.key")}, c.spec.Secure
}

func (c *Cluster) secrets() string { return filepath.Join(c.dir, secretDir) }

// makeSecrets makes the passwords that do not exist, and an authority with its certificates unless they are valid for
// some time to come. The key of the authority is not kept: nobody can make more of them.
func makeSecrets(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, user := range []string{superuser, role} {
		name := filepath.Join(dir, user+".password")
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			err = os.WriteFile(name, []byte(rand.Text()+"\n"), 0o600)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	if valid(dir, now) {
		return nil
	}
	ca, caText, _, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "rangecrypt servers for trying"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, now, nil)
	if err != nil {
		return err
	}
	_, server, serverKey, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "cassandra"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2), net.IPv4(127, 0, 0, 3)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, now, ca)
	if err != nil {
		return err
	}
	_, client, clientKey, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: role}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now, ca)
	if err != nil {
		return err
	}
	// That of the authority comes last: without it nothing is valid.
	for _, f := range []struct {
		name string
		text []byte
	}{{"server.pem", append(serverKey, server...)}, {"client.key", clientKey}, {"client.pem", client}, {"ca.pem", caText}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// valid reports whether there are certificates, and none that ends soon.
func valid(dir string, now time.Time) bool {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return false
	}
	for name, use := range map[string]x509.ExtKeyUsage{"server.pem": x509.ExtKeyUsageServerAuth, "client.pem": x509.ExtKeyUsageClientAuth} {
		key := cmp.Or(map[string]string{"client.pem": "client.key"}[name], name)
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name), filepath.Join(dir, key))
		if err != nil {
			return false
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(renewal), KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			return false
		}
	}
	return true
}

// issue makes a certificate, signed by an authority or, for nil, by itself. It returns it and its key as PEM, too.
func issue(template *x509.Certificate, now time.Time, by *tls.Certificate) (made *tls.Certificate, cert, key []byte, err error) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(validity)
	parent := &tls.Certificate{PrivateKey: secret, Leaf: template}
	if by != nil {
		parent = by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Leaf, secret.Public(), parent.PrivateKey)
	if err != nil {
		return nil, nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, nil, err
	}
	return &tls.Certificate{PrivateKey: secret, Leaf: leaf},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

// secure gives the superuser its password, and makes the role with its keyspace. Where that was done, it changes nothing.
func (c *Cluster) secure(ctx context.Context) error {
	admin, _ := c.Access(true)
	user, _ := c.Access(false)
	adminPassword, config, err := admin.read(ctx)
	if err != nil {
		return err
	}
	userPassword, _, err := user.read(ctx)
	if err != nil {
		return err
	}
	return c.retried(ctx, func() error {
		session, err := c.login(superuser, adminPassword, config)
		if err != nil {
			// A new cluster, or one whose first start ended before this.
			if session, err = c.login(superuser, superuser, config); err != nil {
				return err
			}
			defer session.Close()
			return errors.Join(session.Query(fmt.Sprintf("ALTER ROLE %s WITH PASSWORD = '%s'", superuser, adminPassword)).ExecContext(ctx), errAgain)
		}
		defer session.Close()
		for _, statement := range []string{
			fmt.Sprintf("CREATE ROLE IF NOT EXISTS %s WITH PASSWORD = '%s' AND LOGIN = true", role, userPassword),
			fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", Keyspace, c.spec.Nodes),
			fmt.Sprintf("GRANT SELECT ON KEYSPACE %s TO %s", Keyspace, role),
			fmt.Sprintf("GRANT MODIFY ON KEYSPACE %s TO %s", Keyspace, role),
			fmt.Sprintf("GRANT CREATE ON KEYSPACE %s TO %s", Keyspace, role),
			fmt.Sprintf("GRANT DROP ON KEYSPACE %s TO %s", Keyspace, role),
		} {
			if err := session.Query(statement).ExecContext(ctx); err != nil {
				return fmt.Errorf("%.12s...: %w", statement, err) // its beginning has no password
			}
		}
		return nil
	})
}

// errAgain says that the next attempt is needed to see that it was done.
var errAgain = errors.New("the password of the superuser is changed")

// retried calls do until it succeeds: Cassandra makes the superuser some time after it has started.
func (c *Cluster) retried(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		if pause.For(ctx, 300*time.Millisecond) != nil {
			return fmt.Errorf("set up logins: %w: %w", context.Cause(ctx), err)
		}
	}
}

// read reads the password, and makes the configuration of TLS out of the certificates.
func (a Access) read(ctx context.Context) (password string, config *tls.Config, err error) {
	name := cassandraurl.Name{User: a.User, PasswordFile: a.Password, CA: a.CA, Cert: a.Cert, Key: a.Key}
	return name.Access(ctx, nil)
}

func (c *Cluster) login(user, password string, config *tls.Config) (*gocql.Session, error) {
	cluster := gocql.NewCluster(c.Addrs()...)
	cluster.Timeout, cluster.ConnectTimeout = 20*time.Second, 10*time.Second
	cluster.Logger = gocql.NewLogger(gocql.LogLevelNone)
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
	cluster.SslOpts = &gocql.SslOptions{Config: config}
	return cluster.CreateSession()
}
