package intercept

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Fog is the [Hook] of a bad connection, for tests: it delays calls, refuses changes, and does not say what became of some conditional
// ones: they were made, were not, or are made later.
type Fog struct {
	Random        *rand.Rand
	Unknown, Fail float64 // shares of changes
	Refused       error   // of those that fail
	Late          *sync.WaitGroup

	mu sync.Mutex
}

func (f *Fog) draw() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Random.Float64()
}

// Call is the hook.
func (f *Fog) Call(ctx context.Context, op Op, c Call) error {
	if f.draw() < 0.3 {
		if err := pause.For(ctx, time.Duration(f.draw()*float64(500*time.Microsecond))); err != nil {
			return err
		}
	}
	switch {
	case op.Reads() || op.Method == "Family":
	case op.Conditional() && f.draw() < f.Unknown:
		switch x := f.draw(); {
		case x < 0.33:
			return errors.Join(c.Make(nil), driver.ErrUnknownOutcome)
		case x > 0.5:
			later, wait := c.Later(), time.Duration(f.draw()*float64(8*time.Millisecond))
			f.Late.Go(func() {
				time.Sleep(wait)
				later()
			})
		}
		return driver.ErrUnknownOutcome
	case f.draw() < f.Fail:
		return f.Refused
	}
	return c.Make(nil)
}
