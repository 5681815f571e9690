package pebble

import (
	"context"
	"fmt"
)

// quiet is the engine's logger. The library never prints; and Fatalf, after which the engine
// expects not to be continued, closes the fence.
type quiet struct{ fence *fence }

func (quiet) Infof(string, ...any)                   {}
func (quiet) Errorf(string, ...any)                  {}
func (quiet) Eventf(context.Context, string, ...any) {}
func (quiet) IsTracingEnabled(context.Context) bool  { return false }
func (q quiet) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			q.fence.fail(err)
			return
		}
	}
	q.fence.fail(fmt.Errorf(format, args...))
}
