package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the clock of this machine, which goes on while it is suspended. The clock that package time uses does not.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("lease: the clock of the machine cannot be read: " + err.Error()) // Linux has it since 2.6.39
	}
	return time.Duration(now.Nano())
}

// SleepCounts says whether Now goes on while the machine is suspended. Where it does not, writers use no lease.
const SleepCounts = true
