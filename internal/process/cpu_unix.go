//go:build unix

package process

import (
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used, or zero where the system does not
// tell.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
