// Package clock gives the timestamps of mutations.
package clock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Clock gives the timestamps of mutations, in microseconds since 1970. They rise with every
// call, whatever the clock of the machine does, so that a mutation wins over all earlier ones of
// the same client.
//
// Those of Apply are multiples of Step. The ones between are for replacements: those after
// that of the mutation which was seen are less than that of every later mutation, by any client,
// and are never the same. Of two writes with one timestamp Cassandra would keep some cells of each.
type Clock struct{ last atomic.Int64 }

// Step leaves room for seven replacements of a row between two mutations of it, or for one of each rank. More would
// slow the clock down: it is 125,000 mutations a second as it is.
const Step = 8

// Settled is after how long no mutation with a timestamp is still on its way: clocks differ by less
// and clients give up sooner.
const Settled = time.Minute

func (c *Clock) Next() int64 { return c.After(0) }

// After returns a timestamp that is also later than t, a timestamp found in the database.
func (c *Clock) After(t int64) int64 {
	for {
		last := c.last.Load()
		next := max(time.Now().UnixMicro(), last+1, t+1)
		next += (Step - next%Step) % Step
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// See makes later timestamps of the clock win over cells that were read with theirs.
func (c *Clock) See(cells []driver.Cell) {
	latest := driver.LatestStamp(cells)
	for last := c.last.Load(); last < latest && !c.last.CompareAndSwap(last, latest); last = c.last.Load() {
	}
}

// Behind returns the timestamp of a replacement of a rank, right after that of a mutation or replacement that was seen. From
// then on, Next gives later ones. If the row was replaced so often that another mutation may have such
// a timestamp, Behind waits until that mutation would have come.
func (c *Clock) Behind(ctx context.Context, seen int64, rank int) (int64, error) {
	stamp := seen + 1 + int64(rank)
	if next := seen - seen%Step + Step; stamp >= next {
		if err := pause.For(ctx, time.Until(time.UnixMicro(next).Add(Settled))); err != nil {
			return 0, err
		}
		stamp = next + int64(rank)
	}
	for {
		last := c.last.Load()
		if last >= stamp || c.last.CompareAndSwap(last, stamp) {
			return stamp, nil
		}
	}
}

// Compare returns an error if the clock of this machine is certainly further from a node's than most: the node has read its own
// after one time here, and before the other.
func Compare(before, node, after time.Time, most time.Duration) error {
	side, by := "ahead of", before.Round(0).Sub(node)
	if behind := node.Sub(after.Round(0)); behind > by {
		side, by = "behind", behind
	}
	if by <= most {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %v %s that of the node that answered: the later write time decides which write stays, so set both clocks, by NTP", by.Round(time.Second), side)
}
