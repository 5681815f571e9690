// Package dirlock makes a directory, and keeps it for one database at a time.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Take locks a directory, in which a file is made that processes of all versions lock, until what it returns is closed. It is
// [driver.ErrLocked] where somebody else has it, this process included.
//
// The lock of a file is one of the process: it does not keep out the same process under another spelling of the path, and ends as soon as
// anything in the process closes that file, such as a backup that has read it. So the directory itself is locked first.
func Take(fsys vfs.FS, dir, file string) (io.Closer, error) {
	var held closers
	if vfs.Root(fsys) == vfs.Default {
		whole, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		held = append(held, whole)
	}
	lock, err := fsys.Lock(file)
	if err != nil {
		return nil, errors.Join(lockError(err), held.Close())
	}
	return append(closers{lock}, held...), nil
}

// closers are closed in order.
type closers []io.Closer

func (all closers) Close() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

// locked returns the error of a directory that somebody else has.
func locked(err error) error {
	return fmt.Errorf("%w: close the other one first, or name another directory: %w", driver.ErrLocked, err)
}

// lockError distinguishes a lock that is held from one that cannot be made. Package vfs returns a path
// error when the file cannot be opened, and the bare system error when it cannot be locked; on
// Windows both are one call.
func lockError(err error) error {
	var pathErr *fs.PathError
	windowsSharing := errors.Is(err, syscall.Errno(32))
	if errors.As(err, &pathErr) || runtime.GOOS == "windows" && !windowsSharing && !strings.Contains(err.Error(), "held") {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return locked(err)
}

// Make creates a directory, and those above it, in a way that outlives a loss of power.
func Make(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil
	}
	parent := fsys.PathDir(dir)
	if parent != dir {
		if err := Make(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := Sync(fsys, parent); err != nil {
		return errors.Join(err, fsys.Remove(dir))
	}
	return nil
}

// Sync makes what was made, renamed and removed in a directory outlive a loss of power.
func Sync(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
