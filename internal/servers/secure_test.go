package servers

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
)

// What is secret is for its owner only, passwords stay, and certificates are made again before they end.
func TestSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secure")
	now := time.Now()
	read := func() map[string]string {
		files := map[string]string{}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			info, err := e.Info()
			require.NoError(t, err)
			if runtime.GOOS != "windows" {
				require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			files[e.Name()] = string(text)
		}
		return files
	}
	require.NoError(t, makeSecrets(dir, now))
	first := read()
	require.Len(t, first, 6)
	require.NotEqual(t, first["cassandra.password"], first["rangecrypt.password"])
	require.Equal(t, 1, strings.Count(first["cassandra.password"], "\n"))
	_, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key"))
	require.NoError(t, err)
	require.NotContains(t, first["ca.pem"], "PRIVATE KEY")

	require.NoError(t, makeSecrets(dir, now.Add(validity-renewal-2*time.Hour)))
	require.Equal(t, first, read())
	require.NoError(t, makeSecrets(dir, now.Add(validity-renewal+time.Hour)))
	later := read()
	for name := range first {
		require.Equal(t, strings.HasSuffix(name, ".password"), first[name] == later[name], name)
	}
	// A first start that died in the middle, and a file that was lost.
	for _, name := range []string{"ca.pem", "client.key", "server.pem", "client.pem"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		require.NoError(t, makeSecrets(dir, now))
		require.Len(t, read(), 6)
		require.True(t, valid(dir, now))
	}
}

func TestSecureOptions(t *testing.T) {
	dir := t.TempDir()
	_, _, err := Options{Kind: HBase, Dir: dir, Secure: true}.fill(nil)
	require.ErrorContains(t, err, "hbase cannot be secured")
	open := &spec{Kind: Cassandra, Nodes: 1, Port: 9042, PeerPort: 7000}
	_, _, err = Options{Kind: Cassandra, Dir: dir, Secure: true}.fill(open)
	require.ErrorContains(t, err, "holds data of servers without logins; choose another folder, or remove this one")
	open.Secure = true
	_, s, err := Options{Kind: Cassandra, Dir: dir}.fill(open)
	require.NoError(t, err)
	require.True(t, s.Secure, "as it was made")

	for _, secure := range []bool{false, true} {
		_, s, err := Options{Kind: Cassandra, Dir: dir, Secure: secure}.fill(nil)
		require.NoError(t, err)
		p := s.plan(dir)[0]
		yaml := string(p.files[filepath.Join(p.dir, "cassandra.yaml")])
		require.Equal(t, secure, strings.Contains(yaml, "\nauthenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n"))
		require.Equal(t, secure, strings.Contains(yaml, "  require_client_auth: true\n"))
		require.Equal(t, !secure, strings.Contains(yaml, "\nauthenticator: AllowAllAuthenticator\n"))
	}
}

// A secured Cassandra lets in who has certificate and password, and its role into one keyspace. It stays so over a stop.
func TestSecuredCassandra(t *testing.T) {
	ctx := live(t)
	dir := filepath.Join(t.TempDir(), "data folder")
	for range 2 {
		c, err := Start(ctx, Options{Kind: Cassandra, Dir: dir, FreePorts: true, Secure: true, KillSafe: true, Logf: t.Logf})
		require.NoError(t, err)
		func() {
			defer func() { require.NoError(t, c.Stop(context.Background())) }()
			admin, ok := c.Access(true)
			require.True(t, ok)
			user, _ := c.Access(false)
			adminPassword, _, err := admin.read(ctx)
			require.NoError(t, err)
			userPassword, config, err := user.read(ctx)
			require.NoError(t, err)
			_, err = c.login(superuser, superuser, config)
			require.ErrorContains(t, err, "password are incorrect", "the password that Cassandra comes with")
			_, err = c.login(role, adminPassword, config)
			require.ErrorContains(t, err, "password are incorrect")

			s, err := c.login(role, userPassword, config)
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, s.Query("CREATE TABLE IF NOT EXISTS "+Keyspace+".t (k int PRIMARY KEY)").ExecContext(ctx))
			require.NoError(t, s.Query("INSERT INTO "+Keyspace+".t (k) VALUES (1)").ExecContext(ctx))
			for _, statement := range []string{
				"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"SELECT * FROM system_auth.roles", "CREATE ROLE more", "DROP KEYSPACE system_traces",
			} {
				var refused gocql.RequestError
				require.ErrorAs(t, s.Query(statement).ExecContext(ctx), &refused, statement)
				require.Equal(t, gocql.ErrCodeUnauthorized, refused.Code(), statement)
			}

			plain := gocql.NewCluster(c.Addrs()...)
			plain.Logger, plain.ConnectTimeout = gocql.NewLogger(gocql.LogLevelNone), 2*time.Second
			_, err = plain.CreateSession()
			require.Error(t, err, "without TLS")
		}()
	}
}
