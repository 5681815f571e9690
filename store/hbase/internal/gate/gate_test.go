package gate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuorum(t *testing.T) {
	for _, q := range []string{"h", "zk1:2181", "zk1,zk2:2182,127.0.0.1", "[::1]:2181", "[fe80::1%eth0]:1,h"} {
		require.NoError(t, Quorum(q), q)
	}
	for _, q := range []string{
		"", "127.0.0.1:99999", "h:0", "h:-1", "h:+1", "h:zk", ":2181", "h:", "::1", "[::1]", "[::1", "1:2:3", "h,", ",h", "h, g", " h", "hbase://h", "zk1/hbase", "user:secret@h:1",
	} {
		err := Quorum(q)
		require.Error(t, err, q)
		require.NotContains(t, err.Error(), "secret")
	}
	require.ErrorContains(t, Quorum("h:1,g:99999"), "hbase: server 2 of 2 of the ZooKeeper quorum is not HOST or HOST:PORT")
}
