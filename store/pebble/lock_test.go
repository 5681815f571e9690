package pebble

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A directory is open once, however it is called, and stays so when the file of its lock is read; it may be opened again afterwards.
func TestOpenOnce(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	require.NoError(t, os.Symlink("store", "link"))
	for range 2 {
		db := mustOpen(t, "store", nil)
		_, err := os.ReadFile(filepath.Join("store", "LOCK")) // closes it, as a backup does
		require.NoError(t, err)
		for _, name := range []string{"store", "./store/", filepath.Join(parent, "store"), "../" + filepath.Base(parent) + "/store", "link"} {
			_, err := Open(name, nil)
			require.ErrorIs(t, err, driver.ErrLocked, name)
		}
		require.NoError(t, db.Close())
	}

	// Another directory of the same name is another one.
	db := mustOpen(t, "store", nil)
	require.NoError(t, os.Mkdir("other", 0o700))
	t.Chdir("other")
	require.NoError(t, mustOpen(t, "store", nil).Close())
	require.NoError(t, db.Close())
}
