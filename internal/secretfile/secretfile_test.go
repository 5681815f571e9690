package secretfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	kind := Kind{"password file", "change the password", 8}
	name := filepath.Join(t.TempDir(), "file")
	_, err := Read(name, kind)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "there is no password file "+name+": file does not exist", err.Error())

	require.NoError(t, os.WriteFile(name, []byte("secret"), 0o600))
	text, err := Read(name, kind)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))

	for _, mark := range []string{"", "\xef\xbb\xbf"} {
		require.NoError(t, os.WriteFile(name, []byte(mark+strings.Repeat("x", 20)), 0o600))
		text, err = Read(name, kind)
		require.NoError(t, err)
		require.Equal(t, "xxxxxxxxx", string(text))
	}

	require.NoError(t, os.WriteFile(name, []byte("\xef\xbb\xbfsecret"), 0o600))
	text, err = Read(name, kind)
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
	for _, mark := range []string{"\xff\xfes\x00", "\xfe\xff\x00s"} {
		require.NoError(t, os.WriteFile(name, []byte(mark), 0o600))
		_, err = Read(name, kind)
		require.ErrorIs(t, err, ErrUTF16)
	}

	_, err = Read(filepath.Dir(name), kind)
	require.ErrorContains(t, err, " is a folder; name the password file in it")

	if runtime.GOOS == "windows" {
		return
	}
	_, err = Read(os.DevNull, kind)
	require.ErrorContains(t, err, "is a device; name the password file")
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o601} {
		require.NoError(t, os.Chmod(name, mode))
		_, err = Read(name, kind)
		require.ErrorContains(t, err, "others may read or change it; do 'chmod 600 "+name+"', and change the password if somebody may have read it")
	}
}
