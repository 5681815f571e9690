//go:build unix && !solaris && !illumos && !aix

package outfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/kms"
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
	token := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(killed.Name()), ".t.csv."), ".part")
	others := []string{
		".t.csv.1.2.part", ".t.csv..part", ".t.csv.5.parts", ".t.csv.7.part", ".t.csv.x.part", ".t.csv.backup.part",
		".u.csv." + token + ".part", "t.csv." + token + ".part", ".t.csv." + token + ".parts", ".t.csv." + strings.ToUpper(token) + ".part",
		".t.csv." + token[:25] + map[bool]string{false: "e", true: "i"}[token[25] == 'e'] + ".part", // of which the last letter has 3 bits
	}
	for _, name := range others {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	part := func(random byte) string {
		return filepath.Join(dir, ".t.csv."+tokenOf("t.csv", bytes.Repeat([]byte{random}, tokenHalf))+".part")
	}
	require.NoError(t, os.Mkdir(part(8), 0o700))
	require.NoError(t, os.Symlink(live.Name(), part(9)))
	require.NoError(t, kms.WriteFile(part(10), ope.GenerateKey()))
	next, err := createPart(file)
	require.NoError(t, err)
	require.NoFileExists(t, killed.Name())
	require.FileExists(t, live.Name())
	require.FileExists(t, next.Name())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(others)+5)
	require.NoError(t, next.Close())
	require.NoError(t, live.Close())
}

// A number of a file that the process has opened itself, as those of a store, is no place for output.
func TestOwnDescriptors(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "own"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	_, err = Create(fmt.Sprintf("/dev/fd/%d", f.Fd()), true)
	require.ErrorContains(t, err, "bad file descriptor")
	info, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
