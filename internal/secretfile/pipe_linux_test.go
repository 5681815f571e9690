package secretfile

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A named pipe is refused at once, also if nobody writes into it. A pipe that a shell has made is read.
func TestPipes(t *testing.T) {
	kind := Kind{"password file", "change the password", 8}
	pipe, link := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink(pipe, link))
	for _, name := range []string{pipe, link} {
		_, err := Read(name, kind)
		require.EqualError(t, err, name+" is a named pipe; name the password file")
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("secret")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	text, err := Read(fmt.Sprintf("/dev/fd/%d", r.Fd()), kind)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
}
