//go:build unix && !solaris && !illumos && !aix

package outfile

import (
	"os"
	"syscall"
)

// renamesOpen says that a file can get another name while it is open, and has its lock.
const renamesOpen = true

// tryLock takes the lock of an open file, unless another process has it. The lock goes with the process. There are file
// systems without locks, where neither is true.
func tryLock(f *os.File) (taken, held bool) {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			return err == nil, err == syscall.EWOULDBLOCK
		}
	}
}
