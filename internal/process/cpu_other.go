//go:build !unix

package process

import "time"

// CPU returns zero: the system does not tell.
func CPU() time.Duration { return 0 }
