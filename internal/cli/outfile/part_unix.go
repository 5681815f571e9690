//go:build unix && !solaris && !illumos && !aix

package outfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// renamesOpen says that a file can get another name while it is open, and has its lock.
const renamesOpen = true

// canAgain says that an open file can be written to under another descriptor.
const canAgain = true

// again returns an open file that the process was started with, under another descriptor, so that it stays open when that is
// closed. Those that it has opened itself are of a store, for one: programs of Go open all files for themselves alone.
func again(fd int, name string) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 {
		err = unix.EBADF
	}
	to := -1
	if err == nil {
		to, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(to), name), nil
}

// tryLock takes the lock of an open file, unless another process has it. The lock goes with the process. There are file
// systems without locks, where neither is true.
func tryLock(f *os.File) (taken, held bool) {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err == nil, err == syscall.EWOULDBLOCK
		}
	}
}
