// Package process says what this process has used of the machine.
package process

import (
	"fmt"
	"os"
	"runtime"
)

// Resident returns the memory of this process in bytes where the system says it, or else what the Go
// runtime has obtained.
func Resident() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident int64
		if n, _ := fmt.Sscan(string(b), &size, &resident); n == 2 {
			return resident * int64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
