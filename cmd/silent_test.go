package cmd

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
)

// That a server does not answer is said once, and on standard error, long before the client gives up.
func TestSilentServerIsNamed(t *testing.T) {
	t.Parallel()
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	store := "hbase://" + unused.Addr().String()
	require.NoError(t, unused.Close())
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	var said []string
	e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: stores.Asking(nil, func(text string) {
		said = append(said, text)
		cancel()
	})}
	key := filepath.Join(t.TempDir(), "key")
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	stdout.Reset()
	require.Equal(t, exit.Interrupted, executeIn(ctx, e, []string{"table", "list", "--store", store, "--key", key, "--json"}), &stderr)
	require.Equal(t, []string{store + " does not answer yet; this goes on to try it. Is the database running, and does --store name its host and port?"}, said)
	require.Empty(t, stdout.String())
	require.Equal(t, "rangecrypt: interrupted\n", stderr.String())
}
