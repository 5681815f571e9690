package cassandra

import (
	"sync/atomic"
	"time"
)

// A clock gives the timestamps of mutations, in microseconds since 1970. They rise with every
// call, whatever the clock of the machine does, so that a mutation wins over all earlier ones of
// the same client.
type clock struct{ last atomic.Int64 }

func (c *clock) next() int64 { return c.after(0) }

// after returns a timestamp that is also later than t, a timestamp found in the database.
func (c *clock) after(t int64) int64 {
	for {
		last := c.last.Load()
		next := max(time.Now().UnixMicro(), last+1, t+1)
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}
