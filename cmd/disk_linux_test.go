package cmd

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/stretchr/testify/require"
)

// A disk that is really full, where this process may mount one.
func TestFullDiskEndsWithItsExitCode(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	// A process that another test has just started may still hold it.
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	key := filepath.Join(t.TempDir(), "key")
	kept := []string{"--store", "pebble:" + filepath.Join(dir, "data"), "--key", key}
	var stdout, stderr bytes.Buffer
	e := &cli.Env{Stdout: &stdout, Stderr: &stderr, OpenStore: stores.Open}
	require.Equal(t, exit.OK, execute(e, []string{"keys", "generate", key}))
	require.Equal(t, exit.Unreachable, execute(e, append([]string{"insert", "--n", "200000"}, kept...)), &stderr)
	require.Contains(t, stderr.String(), "no space left on device")
	// Opening needs space as well, and what is there stays.
	stderr.Reset()
	require.Equal(t, exit.Unreachable, execute(e, append([]string{"range-query", "--count"}, kept...)), &stderr)
	require.Contains(t, stderr.String(), "no space left on device")
}
