package given

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	for _, h := range []string{"h", "db1.example.org", "db1:9042", "127.0.0.1", "127.0.0.1:9042", "::1", "fe80::1%eth0", "[::1]:9042", "[fe80::1%eth0]:1"} {
		require.NoError(t, Hosts([]string{h}), h)
	}
	for _, h := range []string{
		"", "http://x", "http://x:9042", "cassandra://x/ks", "127.0.0.1:99999", "h:0", "h:-1", "h:+1", "h:cql", ":9042", "[::1", "[::1]", "::1]", "host:",
		"a b", "a,b:x", "x/ks", "user@x", ":", "[]:1", "1:2:3",
	} {
		err := Hosts([]string{"h", h})
		require.Error(t, err, h)
		if h != "" {
			require.ErrorContains(t, err, "cassandra: host 2 of 2, ")
			require.ErrorContains(t, err, "is not HOST or HOST:PORT")
		}
	}
	err := Hosts([]string{"user:secret@db1"})
	require.ErrorContains(t, err, "which has a '@', is not HOST")
	require.NotContains(t, err.Error(), "secret")
}

func TestReplication(t *testing.T) {
	for _, options := range []map[string]string{
		nil, {},
		{"class": "SimpleStrategy", "replication_factor": "3"},
		{"class": "NetworkTopologyStrategy", "dc1": "3", "dc2": "0", "dc3": "3/1"},
		{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "dc1": "3"},
		{"class": "org.example.OwnStrategy", "snitch": "whatever"},
	} {
		require.NoError(t, Replication(options), options)
	}
	for _, options := range []map[string]string{
		{"dc1": "3"}, {"class": "", "dc1": "3"},
	} {
		require.ErrorContains(t, Replication(options), "the replication names no class", options)
	}
	for _, v := range []string{"3'; DROP", "", "three", "-1", " 3", "3.0"} {
		for _, class := range []string{"SimpleStrategy", "NetworkTopologyStrategy", "org.apache.cassandra.locator.SimpleStrategy"} {
			err := Replication(map[string]string{"class": class, "replication_factor": v})
			require.ErrorContains(t, err, `for "replication_factor": give the number of copies, such as "3"`, v)
		}
	}
}

func TestKeptIn(t *testing.T) {
	const strategy = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	for _, r := range []map[string]string{
		nil,
		{"class": strategy, "dc1": "3", "dc2": "1"},
		{"class": strategy, "replication_factor": "3"},
		{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "3"},
		{"class": "org.example.Strategy"},
	} {
		require.NoError(t, KeptIn("dc1", r), "%v", r)
	}
	for _, r := range []map[string]string{
		{"class": strategy, "dc2": "3"},
		{"class": "NetworkTopologyStrategy", "dc1": "0", "dc2": "3"},
	} {
		require.ErrorContains(t, KeptIn("dc1", r), "no copies in data centre dc1")
		require.NoError(t, KeptIn("", r))
	}
}

func TestLiteral(t *testing.T) {
	require.Equal(t, "{'class': 'SimpleStrategy', 'replication_factor': '1'}", Literal(nil))
	require.Equal(t, "{'class': 'NetworkTopologyStrategy', 'dc''1': '3'}", Literal(map[string]string{"class": "NetworkTopologyStrategy", "dc'1": "3"}))
}
