//go:build unix && !solaris && !illumos && !aix

package outfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a killed process left beside a file goes with the next part of that file, and nothing else does.
func TestLeftParts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.csv")
	live, err := createPart(file)
	require.NoError(t, err)
	killed, err := createPart(file)
	require.NoError(t, err)
	require.NoError(t, killed.Close()) // as the end of its process does
	others := []string{".t.csv.1.2.part", ".t.csv..part", ".t.csv.5.parts", ".u.csv.6.part", "t.csv.7.part", ".t.csv.x.part"}
	for _, name := range others {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".t.csv.8.part"), 0o700))
	require.NoError(t, os.Symlink(live.Name(), filepath.Join(dir, ".t.csv.9.part")))
	next, err := createPart(file)
	require.NoError(t, err)
	require.NoFileExists(t, killed.Name())
	require.FileExists(t, live.Name())
	require.FileExists(t, next.Name())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(others)+4)
	require.NoError(t, next.Close())
	require.NoError(t, live.Close())
}
