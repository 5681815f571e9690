//go:build !linux

package lease

import "time"

var began = time.Now()

// Now is the clock of this machine, which may stop while it is suspended.
func Now() time.Duration { return time.Since(began) }

// SleepCounts says whether Now goes on while the machine is suspended. Where it does not, writers use no lease.
const SleepCounts = false
