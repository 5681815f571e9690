package errkind

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What the file system says has the kind that tells a caller what to do, and is still what the file system said.
func TestKinds(t *testing.T) {
	for errno, kind := range map[syscall.Errno]error{
		syscall.ENOSPC: driver.ErrUnavailable,
		syscall.EIO:    driver.ErrUnavailable,
		syscall.EMFILE: driver.ErrUnavailable,
		syscall.ENFILE: driver.ErrUnavailable,
		syscall.EACCES: driver.ErrUnauthorised,
		syscall.EROFS:  driver.ErrUnauthorised,
	} {
		said := &os.PathError{Op: "open", Path: "LOCK", Err: errno}
		for name, of := range map[string]func(error) error{"Of": Of, "OfOpen": OfOpen, "OfDisk": OfDisk} {
			err := of(said)
			require.ErrorIs(t, err, kind, "%s of %v", name, errno)
			require.ErrorIs(t, err, errno)
			require.NotErrorIs(t, err, driver.ErrCorrupt)
			require.Equal(t, err, of(err), "%s of %v, twice", name, errno)
		}
	}
	missing := &os.PathError{Op: "open", Path: "000005.sst", Err: syscall.ENOENT}
	require.ErrorIs(t, Of(missing), driver.ErrCorrupt)
	require.ErrorIs(t, OfOpen(missing), driver.ErrCorrupt)
	require.ErrorIs(t, OfDisk(missing), fs.ErrNotExist)
	require.NotErrorIs(t, OfDisk(missing), driver.ErrCorrupt)
	require.ErrorIs(t, OfOpen(errors.New("pebble: malformed manifest")), driver.ErrCorrupt, "the engine names damage by texts")
	require.ErrorContains(t, Of(&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EMFILE}), "ulimit -n", "what to do")
	require.NoError(t, Of(nil))
}
