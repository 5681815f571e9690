// Package lease says for how long a writer may go by what it last read of the catalogue, and how long whoever changes the
// catalogue waits for such writers. It reads nothing and writes nothing.
package lease

import (
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Terms are what the root of a catalogue says of its lease. They are of one version of the catalogue: a writer that has read
// it goes by Grant, and whoever changes the catalogue by Wait. Without a lease all of them are 0.
//
// Wait is Grant, or more while a lease is made shorter: writers may still have the longer one. Only the next change of the
// terms, which is made after the wait, makes it less. So the terms of the newest version say enough, whoever died before.
type Terms struct {
	Grant int64  `json:"grant"` // milliseconds; 0 while the lease is being switched off
	Wait  int64  `json:"wait"`  // milliseconds
	Since uint32 `json:"since"` // the version of the catalogue that came with them
}

// Granted returns how long a version counts as read, from the start of the read.
func (t Terms) Granted() time.Duration { return time.Duration(t.Grant) * time.Millisecond }

// Hold returns how long whoever relies on all writers knowing of a change waits after it: by any clock that is right, all
// leases of before have ended then. Two clocks of which one is 3 % slow and the other 3 % fast differ by 1.03/0.97, which is
// less than 17/16. The margin is for the time between reading a clock and what the reading is of. Without a lease it is 0.
func (t Terms) Hold() time.Duration {
	if t.Wait == 0 {
		return 0
	}
	d := time.Duration(t.Wait) * time.Millisecond
	return d + d/16 + margin
}

// Inspect returns the terms for people.
func (t Terms) Inspect() inspect.Lease {
	return inspect.Lease{Duration: t.Granted(), Wait: t.Hold(), Ending: t.Wait > t.Grant}
}

const margin = 50 * time.Millisecond

// The shortest lease is several times what a check of the version takes, with the 10 ms that a check may wait for others to
// share it: the check of one Put has to cover the next ones. The longest is what every change of a schema may take.
const (
	Shortest = 100 * time.Millisecond
	Longest  = time.Minute
)

// checksWithin is how often a check of the version must fit into a lease.
const checksWithin = 4

// Check returns an error unless writers may have a lease of d. check is what a check of the version has just taken.
func Check(d, check time.Duration) error {
	switch {
	case d < Shortest:
		return fmt.Errorf("%w: one of %v may be shorter than a client's check of the version, and would save none: take at least %v, or switch the lease off",
			fault.ErrLease, d, Shortest)
	case d > Longest:
		return fmt.Errorf("%w: one of %v is too long, since each change of a schema waits for it: take at most %v", fault.ErrLease, d, Longest)
	case d%time.Millisecond != 0:
		return fmt.Errorf("%w: %v is no whole number of milliseconds: round it", fault.ErrLease, d)
	case d < checksWithin*check:
		least := (checksWithin*check + 10*time.Millisecond - 1).Truncate(10 * time.Millisecond)
		return fmt.Errorf("%w: one of %v is too short for this database, where a check of the version took %v just now: take at least %v, or switch the lease off",
			fault.ErrLease, d, check.Round(time.Millisecond), least)
	}
	return nil
}

// A Clock returns the time since some moment. It never goes back. It goes on while the machine sleeps.
type Clock func() time.Duration
