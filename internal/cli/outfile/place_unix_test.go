//go:build unix

package outfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A master key is replaced by no file, also one that was made while the file was written. What only looks like one is.
func TestKeysAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	key, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	require.NoError(t, kms.WriteFile(key, ope.GenerateKey()))
	_, err := Create(key, true)
	require.ErrorIs(t, err, exit.ErrUsage)
	require.ErrorContains(t, err, "key holds a master key, which nothing replaces")

	f, err := Create(other, true)
	require.NoError(t, err)
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other, []byte(" "+strings.ToUpper(string(text))+"\n"), 0o600))
	require.ErrorIs(t, f.Commit(), exit.ErrUsage)
	require.NoError(t, f.Discard())
	require.ErrorIs(t, CheckKey(other), exit.ErrUsage)

	for _, text := range []string{"", "a,b\n", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 64) + strings.Repeat("\n", 65)} {
		require.NoError(t, os.WriteFile(other, []byte(text), 0o600))
		require.NoError(t, CheckKey(other), "%q", text)
	}
	require.NoError(t, CheckKey(filepath.Join(dir, "none")))
}

// Names of one file are one place, and so are names of one that is not there. Folders hold what is below them.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.MkdirAll("a[1]/b", 0o700))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	require.NoError(t, os.Symlink("file", "link"))
	require.NoError(t, os.Link("file", "hard"))
	require.NoError(t, os.Symlink("a[1]/b", "to"))
	require.NoError(t, os.Symlink("a[1]/none", "loose"))
	require.NoError(t, os.Symlink("round", "round"))
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"file", "link", true}, {"file", "hard", true}, {"link", dir + "/./file", true}, {"new", "a[1]/../new", true},
		{"to/new", "a[1]/b/new", true}, {"loose", "a[1]/none", true}, {"file", "new", false}, {"new", "newer", false}, {"round", "file", false},
	} {
		require.Equal(t, c.same, PlaceOf(c.a).Same(PlaceOf(c.b)), "%s %s", c.a, c.b)
	}
	require.True(t, PlaceOf("to/new").In(PlaceOf("a[1]")))
	require.True(t, PlaceOf("a[1]").In(PlaceOf("a[1]")))
	require.True(t, PlaceOf("none/deep/new").In(PlaceOf("none")))
	require.False(t, PlaceOf("file").In(PlaceOf("a[1]")))
	require.False(t, PlaceOf("nonesuch").In(PlaceOf("none")))

	require.Empty(t, PlaceOf("to/new").Store())
	require.NoError(t, os.WriteFile("a[1]/LOCK", nil, 0o600))
	require.Empty(t, PlaceOf("to/new").Store())
	require.NoError(t, os.WriteFile("a[1]/MANIFEST-000001", nil, 0o600))
	require.True(t, strings.HasSuffix(PlaceOf("to/new").Store(), "a[1]"))
	require.False(t, PlaceOf("file").Special())
	require.False(t, PlaceOf("to").Special())
	require.True(t, PlaceOf(os.DevNull).Special())
}
