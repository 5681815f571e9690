package pebble

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// Compact writes the tables on the disk anew, without what was replaced, deleted or dropped. Otherwise such values stay
// there until the engine happens to compact their tables, and their space is not free until then. The former tables are removed
// soon after, at the latest by Close. Logs have old values until the next Open, which removes them. What an open snapshot can see stays.
//
// Writes wait until it ends, and reads go on. It takes as long as to copy the data, and free space as for that. When the
// context ends, or the database is closed, what was written anew so far stays, and is left out the next time.
func (db *DB) Compact(ctx context.Context) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &db.queue
	c := &compaction{ctx, make(chan error, 1)}
	q.mu.Lock()
	if q.closing {
		q.mu.Unlock()
		return errClosed
	}
	q.compact = append(q.compact, c)
	q.mu.Unlock()
	q.signal()
	select {
	case err := <-c.done:
		return err
	case <-db.fence.failed:
		cancel(db.fence.cause)
		return db.stopped(db.fence.cause)
	case <-q.closed:
		cancel(errClosed)
		return errClosed
	}
}

// A compaction is done by the goroutine of the queue, which is the only one that ends logs: the engine first moves what is
// in memory into tables.
type compaction struct {
	ctx  context.Context
	done chan error // capacity 1
}

func (c *compaction) run(db *DB) error {
	if err := pause.Ended(c.ctx); err != nil {
		return contextError(c.ctx)
	}
	err := db.fence.flush(db.eng)
	if err == nil {
		err = db.fence.whileLogging(func() error { return db.eng.Compact(c.ctx, nil, layout.AppendFamily(nil, 1<<32-1), false) })
	}
	switch {
	case c.ctx.Err() != nil:
		return contextError(c.ctx)
	case db.fence.err() != nil:
		return db.stopped(db.fence.err())
	case err != nil:
		return fmt.Errorf("pebble: compact: %w", err)
	}
	return nil
}
