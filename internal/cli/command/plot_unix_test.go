//go:build unix

package command

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plot goes into a pipe, which stays one, and replaces what a link leads to.
func TestPlotsReplaceNoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe.svg"), filepath.Join(dir, "file.svg"), filepath.Join(dir, "link.svg")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(file, link))
	read := make(chan string, 1)
	go func() {
		in, err := os.Open(pipe)
		if err == nil {
			defer in.Close()
		}
		text, _ := io.ReadAll(in)
		read <- string(text)
	}()
	for _, name := range []string{pipe, link} {
		p, err := CreatePlot(name)
		require.NoError(t, err)
		require.NoError(t, p.Save([]byte("picture"), nil))
		p.Discard()
	}
	require.Equal(t, "picture", <-read)
	info, err := os.Lstat(pipe)
	require.NoError(t, err)
	require.Equal(t, os.ModeNamedPipe, info.Mode().Type())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "picture", string(text))
}
