package cassandra

import (
	"context"
	"crypto/tls"
	"strconv"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// securedServer skips the test where the server asks for no login.
func securedServer(t *testing.T) Config {
	t.Helper()
	if c := connection(t); !c.Secured() {
		t.Skip("the server asks for no login; 'opebench servers up cassandra --secure' starts one that does")
	}
	return keyspace(t)
}

// What a server that asks for TLS, a certificate and a login refuses is said by name and with what to do.
func TestDriverSecuredRefuses(t *testing.T) {
	good := securedServer(t)
	theirs := newAuthority(t)
	s := session(t)
	defer s.Close()
	role := good.Keyspace + "_locked"
	require.NoError(t, s.Query("CREATE ROLE "+role+" WITH PASSWORD = 'secret' AND LOGIN = false").Exec())
	defer func() { require.NoError(t, s.Query("DROP ROLE "+role).Exec()) }()
	for _, c := range []struct {
		name   string
		change func(c *Config)
		kind   error
		says   string
	}{
		{"wrong password", func(c *Config) { c.Password = "secret" }, driver.ErrUnauthorised, "check the user name and the password"},
		{"unknown role", func(c *Config) { c.Username, c.Password = "nobody_knows", "secret" }, driver.ErrUnauthorised, "check the user name and the password"},
		{"role that may not log in", func(c *Config) { c.Username, c.Password = role, "secret" }, driver.ErrUnauthorised, "WITH LOGIN = true"},
		{"no login", func(c *Config) { c.Username, c.Password = "", "" }, driver.ErrUnauthorised, "give a user name and a password"},
		{"no TLS", func(c *Config) { c.TLS, c.AllowPlaintextPassword = nil, true }, driver.ErrUnauthorised, "the server expects TLS there: set TLS"},
		{"no certificate", func(c *Config) { c.TLS.Certificates = nil }, driver.ErrUnauthorised, "it may require a certificate of the client"},
		{"certificate of others", func(c *Config) { c.TLS.Certificates = []tls.Certificate{theirs.node(time.Hour)} }, driver.ErrUnauthorised, "not trust the one that it got"},
		{"other authority", func(c *Config) { c.TLS.RootCAs = theirs.pool() }, driver.ErrUnauthorised, "give the authority that signed it"},
		{"other name", func(c *Config) { c.TLS.ServerName = "db.example.com" }, driver.ErrUnauthorised, "the server's certificate is made for another name"},
		{"other data centre", func(c *Config) { c.Datacentre = "elsewhere" }, driver.ErrLayout, `the cluster has no data centre "elsewhere", but datacenter1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			config := good
			config.TLS = good.TLS.Clone()
			c.change(&config)
			_, err := Open(ctx, config)
			require.ErrorIs(t, err, c.kind)
			require.NotErrorIs(t, err, driver.ErrUnavailable, "no loop takes it for that of a database that is down")
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), good.Password)
		})
	}
}

// Clients with a stricter consistency work beside those with the default.
func TestDriverConsistencies(t *testing.T) {
	c := keyspace(t)
	c.Replication = map[string]string{"class": "NetworkTopologyStrategy", "datacenter1": strconv.Itoa(replication(t))} // for EACH_QUORUM
	levels := []gocql.Consistency{gocql.Any, gocql.Quorum, gocql.EachQuorum, gocql.All}
	for i, level := range levels {
		c.Consistency = level
		f := openFamily(t, open(t, c), wideSpec)
		require.NoError(t, f.Apply(t.Context(), put("row", string(rune('a'+i)), "v")))
		ok, err := f.CheckAndPut(t.Context(), []byte("counted"), driver.Cell{}, driver.Cell{Qualifier: []byte{byte(i)}, Value: []byte("v")})
		require.NoError(t, err)
		require.True(t, ok)
		cells, err := f.Get(t.Context(), []byte("row"), driver.Slice{})
		require.NoError(t, err)
		require.Len(t, cells, i+1, "what the others wrote is read")
	}
}

// A drop that a role has no right for can be ended by one that has it: the family is listed until then. What the role could not
// make either it takes back.
func TestDriverDropWithoutRight(t *testing.T) {
	good := securedServer(t)
	admin := open(t, good)
	openFamily(t, admin, wideSpec)
	s := session(t)
	defer s.Close()
	role := good.Keyspace + "_writer"
	require.NoError(t, s.Query("CREATE ROLE "+role+" WITH PASSWORD = 'secret' AND LOGIN = true").Exec())
	defer func() { require.NoError(t, s.Query("DROP ROLE "+role).Exec()) }()
	for _, right := range []string{"SELECT", "MODIFY"} {
		require.NoError(t, s.Query("GRANT "+right+" ON KEYSPACE "+good.Keyspace+" TO "+role).Exec())
	}
	weak := good
	weak.Username, weak.Password = role, "secret"
	db := open(t, weak)
	_, err := db.Family(t.Context(), driver.FamilySpec{Name: "refused", Layout: driver.LayoutWide})
	require.ErrorIs(t, err, driver.ErrUnauthorised)
	require.NoError(t, db.Drop(t.Context(), "refused"))
	require.ErrorIs(t, db.Drop(t.Context(), wideSpec.Name), driver.ErrUnauthorised)
	names, err := admin.Families(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{wideSpec.Name}, names)
	require.NoError(t, admin.Drop(t.Context(), wideSpec.Name))
	names, err = admin.Families(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
}
