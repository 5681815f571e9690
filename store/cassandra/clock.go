package cassandra

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A clock gives the timestamps of mutations, in microseconds since 1970. They rise with every
// call, whatever the clock of the machine does, so that a mutation wins over all earlier ones of
// the same client.
//
// Those of Apply are multiples of stampStep. The ones between are for replacements: those after
// that of the mutation which was seen are less than that of every later mutation, by any client,
// and are never the same. Of two writes with one timestamp Cassandra would keep some cells of each.
type clock struct{ last atomic.Int64 }

// stampStep leaves room for seven replacements of a row between two mutations of it, or for one of each rank. More would
// slow the clock down: it is 125,000 mutations a second as it is.
const stampStep = 8

// settled is after how long no mutation with a timestamp is still on its way: clocks differ by less
// and clients give up sooner.
const settled = time.Minute

func (c *clock) next() int64 { return c.after(0) }

// after returns a timestamp that is also later than t, a timestamp found in the database.
func (c *clock) after(t int64) int64 {
	for {
		last := c.last.Load()
		next := max(time.Now().UnixMicro(), last+1, t+1)
		next += (stampStep - next%stampStep) % stampStep
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// see makes later timestamps of the clock win over cells that were read with theirs.
func (c *clock) see(cells []driver.Cell) {
	latest := driver.LatestStamp(cells)
	for last := c.last.Load(); last < latest && !c.last.CompareAndSwap(last, latest); last = c.last.Load() {
	}
}

// behind returns the timestamp of a replacement of a rank, right after that of a mutation or replacement that was seen. From
// then on, next gives later ones. If the row was replaced so often that another mutation may have such
// a timestamp, behind waits until that mutation would have come.
func (c *clock) behind(ctx context.Context, seen int64, rank int) (int64, error) {
	stamp := seen + 1 + int64(rank)
	if next := seen - seen%stampStep + stampStep; stamp >= next {
		if err := pause.For(ctx, time.Until(time.UnixMicro(next).Add(settled))); err != nil {
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
