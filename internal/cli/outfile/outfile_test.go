package outfile

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors name the folder that was given, and not the part that would be in it.
func TestErrorsNameTheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, replace := range []bool{false, true} {
		_, err := Create(filepath.Join(dir, "x.csv"), replace)
		require.EqualError(t, err, "folder "+dir+" does not exist")
		require.EqualError(t, Check(filepath.Join(dir, "x.csv"), replace), err.Error())
	}
	_, err := createPart(filepath.Join(dir, "x.csv")) // as where the folder must not be written to
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "write into folder "+dir+": ")
	require.NotContains(t, err.Error(), partSuffix)
}
