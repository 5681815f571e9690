//go:build unix && !solaris && !illumos && !aix

package outfile

import (
	"os"
	"syscall"
)

// renamesOpen says that a file can get another name while it is open, and has its lock.
const renamesOpen = true

// canAgain says that an open file can be written to under another descriptor.
const canAgain = true

// again returns an open file under another descriptor, so that it stays open when that is closed.
func again(fd int, name string) (*os.File, error) {
	to, err := syscall.Dup(fd)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	syscall.CloseOnExec(to)
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
