package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/servers"
)

// A server to measure on has the whole compiler; who wants it up sooner says so.
func TestServersCompile(t *testing.T) {
	for _, fast := range []bool{false, true} {
		require.Equal(t, !fast, (&serversOptions{kind: servers.HBase, fast: fast}).start().Optimize)
	}
}
