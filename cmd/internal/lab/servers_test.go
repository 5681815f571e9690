package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/internal/servers"
)

// A server to measure on has the whole compiler; who wants it up sooner says so.
func TestServersCompile(t *testing.T) {
	for _, fast := range []bool{false, true} {
		require.Equal(t, !fast, (&serversOptions{kind: servers.HBase, fast: fast}).start().Optimize)
	}
}

// What is printed of a secured cluster is a --store that is read as it was meant, whatever the folder is called.
func TestStoreOfSecuredServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b&c=d+e#f%20'g")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	state := `{"format": 1, "spec": {"kind": "cassandra", "nodes": 3, "port": 9042, "peer_port": 7000, "heap_mb": 768, "secure": true}, "processes": {}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "servers.json"), []byte(state), 0o600))
	c, err := servers.Open(dir)
	require.NoError(t, err)
	for _, superuser := range []bool{false, true} {
		n, err := cassandraurl.Parse(storeName(c, superuser))
		require.NoError(t, err)
		a, ok := c.Access(superuser)
		require.True(t, ok)
		require.Equal(t, a, servers.Access{User: n.User, Password: n.PasswordFile, CA: n.CA, Cert: n.Cert, Key: n.Key})
		require.Equal(t, []string{"127.0.0.1:9042", "127.0.0.2:9042", "127.0.0.3:9042"}, n.Hosts)
		require.Equal(t, "3", n.Replication["replication_factor"])
	}
	require.Equal(t, `'a&b'\''c'`, quoted("a&b'c"))
	require.Equal(t, "cassandra://h/bench", quoted("cassandra://h/bench"))
}
