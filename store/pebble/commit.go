package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// All writes go through one goroutine. It takes what has queued up while the last sync ran and
// commits it as one batch with one sync. As the only writer it can check a condition, and look at
// the cells of a row that is to be deleted, without a lock. It also keeps every other goroutine
// out of the engine's commit path, which panics with a lock held when the log fails.

// maxGroup is the size in bytes up to which writes are put together. Beyond it a sync costs little against the writing.
const maxGroup = 2 << 20

// maxPointDeletes is how many cells of a deleted row are deleted one by one. A range tombstone is
// cheaper for more, but thousands of them in memory slow every read down.
const maxPointDeletes = 256

// A write is one element of the queue.
type write struct {
	batch *pebble.Batch
	rows  []uint64 // hashes of the rows that it may change
	entry *entry   // of the family; nil for changes of the directory
	drop  *entry   // the family that this write drops

	deleteRows [][]byte // prefixes of rows whose cells are to be deleted

	replaces []replace

	// conditional writes
	row    []byte // the row's prefix, nil if unconditional
	expect []expectation

	// under writeQueue.mu
	taken, withdrawn bool

	done chan struct{} // closed after the results below are set
	ok   bool
	late []int // indexes of replaces whose seen did not hold
	err  error
}

// A replace is a change of one row that is made if the row's cell is as expected.
type replace struct {
	row    []byte // its prefix
	seen   expectation
	change *pebble.Batch
}

type expectation struct {
	key   []byte
	value []byte // nil for absent
}

type writeQueue struct {
	db *DB

	mu      sync.Mutex
	waiting []*write
	closing bool
	flush   bool // asked for
	compact []*compaction

	wake     chan struct{} // capacity 1
	closed   chan struct{} // closed with closing
	finished chan struct{}

	// of the goroutine, until it has finished
	wrote   bool // something since the database was opened
	flushed bool // nothing is in a log only
}

// changes notes that the write may change a row, whose prefix is given.
func (w *write) changes(db *DB, row []byte) { w.rows = append(w.rows, db.unflushed.Hash(row)) }

func (q *writeQueue) start(db *DB) {
	q.db = db
	q.wake = make(chan struct{}, 1)
	q.closed, q.finished = make(chan struct{}), make(chan struct{})
	go q.run()
}

// stop lets no more writes in. What it returns is closed when those within are done.
func (q *writeQueue) stop() <-chan struct{} {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	close(q.closed)
	q.signal()
	return q.finished
}

// flushSoon asks for a flush of the memtable.
func (q *writeQueue) flushSoon() {
	q.mu.Lock()
	q.flush = true
	q.mu.Unlock()
	q.signal()
}

// flushLast moves what is only in a log into tables. Opening has flushed what it replayed.
func (q *writeQueue) flushLast() {
	q.flushed = !q.wrote || q.db.fence.flush(q.db.eng) == nil
}

func (q *writeQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// do queues a write and waits for it.
func (q *writeQueue) do(ctx context.Context, w *write) (bool, error) {
	w.done = make(chan struct{})
	q.mu.Lock()
	if q.closing {
		q.mu.Unlock()
		return false, errClosed
	}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	q.signal()

	var err error
	select {
	case <-w.done:
		return w.ok, w.err
	case <-q.db.fence.failed:
		err = q.db.stopped(q.db.fence.cause)
	case <-ctx.Done():
		err = contextError(ctx)
	}
	// The write may be under way and end well, so that whoever reads next must see it, or wait for ever within the engine.
	if q.withdraw(w) {
		return false, err
	}
	if w.entry == nil { // the directory in memory must agree with that on disk
		select {
		case <-w.done:
		case <-q.db.fence.failed:
		}
	}
	if inPatience(w.done) {
		return w.ok, w.err
	}
	return false, w.unknown(err)
}

// withdraw reports whether the write was still waiting and now will not be done.
func (q *writeQueue) withdraw(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.withdrawn = !w.taken
	return w.withdrawn
}

// unknown returns the error for a write that may or may not have been done.
func (w *write) unknown(err error) error {
	if w.row == nil {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, err)
}

func (w *write) finish(ok bool, err error) {
	w.ok, w.err = ok, err
	close(w.done)
}

func (q *writeQueue) run() {
	defer close(q.finished)
	for range q.wake {
		for {
			q.mu.Lock()
			waiting, closing, flush, compact := q.waiting, q.closing, q.flush, q.compact
			q.waiting, q.flush, q.compact = nil, false, nil
			for _, w := range waiting {
				w.taken = !w.withdrawn
			}
			q.mu.Unlock()
			if flush && !closing {
				_, _ = q.db.fence.startFlush(q.db.eng) // here, where alone logs end; it is tried again at the next read
			}
			for _, c := range compact {
				c.done <- c.run(q.db)
			}
			if len(waiting) == 0 {
				if closing {
					q.flushLast()
					return
				}
				break
			}
			for len(waiting) > 0 {
				waiting = waiting[q.commitSome(waiting):]
			}
		}
	}
}

// commitSome commits a number of writes from the beginning of the list and returns the number.
func (q *writeQueue) commitSome(waiting []*write) int {
	var (
		group []*write
		size  int
		n     int
	)
	for _, w := range waiting {
		if !w.taken {
			n++
			w.batch.Close()
			continue
		}
		if len(group) > 0 && (size+w.batch.Len() > maxGroup || w.reads() && overlap(group, w)) {
			break
		}
		n++
		proceed, err := q.prepare(w)
		if err != nil || !proceed {
			w.batch.Close()
			w.finish(false, err)
			continue
		}
		group = append(group, w)
		size += w.batch.Len()
	}
	if len(group) == 0 {
		return n
	}
	q.wrote = true
	err := q.commit(group)
	for _, w := range group {
		if err != nil {
			w.finish(false, w.unknown(err))
			continue // the engine may still hold the batch
		}
		w.batch.Close()
		w.finish(true, nil)
	}
	return n
}

// reads reports whether the write depends on what is in its rows.
func (w *write) reads() bool { return w.row != nil || len(w.deleteRows) > 0 || len(w.replaces) > 0 }

// overlap reports whether a write of the group may touch a row that w reads. What the group
// writes cannot be read before it is committed.
func overlap(group []*write, w *write) bool {
	rows := make(map[string]struct{}, len(w.deleteRows)+len(w.replaces)+1)
	if w.row != nil {
		rows[string(w.row)] = struct{}{}
	}
	for _, row := range w.deleteRows {
		rows[string(row)] = struct{}{}
	}
	for _, r := range w.replaces {
		rows[string(r.row)] = struct{}{}
	}
	for _, g := range group {
		if g.entry != w.entry {
			continue
		}
		for r := g.batch.Reader(); ; {
			_, key, _, ok, err := r.Next()
			if err != nil {
				return true
			}
			if !ok {
				break
			}
			n, err := layout.RowPrefixLen(key)
			if err != nil {
				return true
			}
			if _, touched := rows[string(key[:n])]; touched {
				return true
			}
		}
	}
	return false
}

// prepare checks the conditions of a write and completes its batch. It reports whether the batch is to be committed.
func (q *writeQueue) prepare(w *write) (bool, error) {
	db := q.db
	if err := db.fence.err(); err != nil {
		return false, db.stopped(err)
	}
	if w.entry != nil && w.entry.dropped.Load() {
		return false, errDropped(w.entry)
	}
	if w.drop != nil {
		w.drop.dropped.Store(true)
	}
	held, err := db.held(w.expect, true, db.now())
	if err != nil || slices.Contains(held, false) {
		return false, err
	}
	for _, row := range w.deleteRows {
		if err := db.deleteRow(w.batch, row); err != nil {
			return false, err
		}
	}
	seen := make([]expectation, len(w.replaces))
	for i, r := range w.replaces {
		seen[i] = r.seen
	}
	if held, err = db.held(seen, false, db.now()); err != nil {
		return false, err
	}
	for i, r := range w.replaces {
		if held[i] {
			err = w.batch.Apply(r.change, nil)
		} else {
			w.late = append(w.late, i)
		}
		if err = errors.Join(err, r.change.Close()); err != nil {
			return false, err
		}
	}
	return true, nil
}

func errDropped(e *entry) error {
	return fmt.Errorf("pebble: %w: %s was dropped", driver.ErrNoFamily, e.spec.Name)
}

// manyExpectations is from how many on one iterator, which goes from one to the next, costs less than looking each up.
const manyExpectations = 8

// held reports of each expectation whether it holds. If all have to, it looks no further than to one that does not.
func (db *DB) held(expect []expectation, all bool, now time.Time) (held []bool, err error) {
	held = make([]bool, len(expect))
	if len(expect) >= manyExpectations {
		return held, db.lookUpMany(expect, held, all, now)
	}
	for i, e := range expect {
		if i > 0 && all && !held[i-1] {
			break
		}
		env, closer, err := db.eng.Get(e.key)
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			held[i], err = e.value == nil, nil
		case err == nil:
			held[i], err = e.holds(env, now)
			err = errors.Join(err, closer.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("pebble: read a cell: %w", errkind.Of(err))
		}
	}
	return held, nil
}

func (db *DB) lookUpMany(expect []expectation, held []bool, all bool, now time.Time) error {
	it, err := db.eng.NewIter(nil)
	if err != nil {
		return fmt.Errorf("pebble: read cells: %w", errkind.Of(err))
	}
	for _, i := range inOrder(len(expect), func(i int) []byte { return expect[i].key }) {
		held[i] = expect[i].value == nil
		if it.SeekPrefixGE(expect[i].key) {
			var env []byte
			if env, err = it.ValueAndErr(); err == nil {
				held[i], err = expect[i].holds(env, now)
			}
		}
		if err = cmp.Or(err, it.Error()); err != nil || all && !held[i] { // an error that the next seek forgets
			break
		}
	}
	if err = cmp.Or(err, it.Close()); err != nil {
		return fmt.Errorf("pebble: read cells: %w", errkind.Of(err))
	}
	return nil
}

// holds reports whether a cell is as expected.
func (e expectation) holds(env []byte, now time.Time) (bool, error) {
	value, alive, err := layout.OpenEnvelope(env, now)
	return alive && e.value != nil && bytes.Equal(value, e.value) || !alive && e.value == nil, err
}

func (db *DB) deleteRow(b *pebble.Batch, row []byte) error {
	end := layout.Above(row)
	it, err := db.eng.NewIter(&pebble.IterOptions{LowerBound: row, UpperBound: end})
	if err != nil {
		return fmt.Errorf("pebble: read a row: %w", errkind.Of(err))
	}
	var keys [][]byte
	for valid := it.First(); valid && len(keys) <= maxPointDeletes; valid = it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("pebble: read a row: %w", errkind.Of(err))
	}
	if len(keys) > maxPointDeletes {
		return b.DeleteRange(row, end, nil)
	}
	for _, key := range keys {
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// commit writes the batches of the group to the log and syncs it.
func (q *writeQueue) commit(group []*write) (err error) {
	db := q.db
	for _, w := range group {
		db.unflushed.Add(w.rows...)
	}
	defer func() {
		if r := recover(); r != nil {
			db.fence.fail(asError(r))
		}
		// The engine returns no error for a failed log: it calls Fatalf.
		if failed := db.fence.err(); failed != nil {
			err = db.stopped(failed)
		}
	}()
	batch := group[0].batch
	if len(group) > 1 {
		batch = db.eng.NewBatch()
		for _, w := range group {
			if err := batch.Apply(w.batch, nil); err != nil {
				return fmt.Errorf("pebble: %w", err)
			}
		}
	}
	if batch.Empty() {
		return nil
	}
	if err := db.fence.whileLogging(func() error { return db.eng.Apply(batch, pebble.Sync) }); err != nil {
		return fmt.Errorf("pebble: write: %w", err)
	}
	if len(group) > 1 {
		batch.Close()
	}
	return nil
}

// Compact writes the tables on the disk anew, without what was replaced, deleted or dropped. Otherwise such values stay
// there until the engine happens to compact their tables, and their space is not free until then. The former tables are removed
// soon after, at the latest by Close. Logs have old values until the database is opened again: they are removed soon after
// Open, at the latest by its Close. What an open snapshot can see stays.
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
	case <-ctx.Done(): // also while it waits for another one
		return contextError(ctx)
	}
}

// A compaction is done by the goroutine of the queue, which is the only one that ends logs: the engine first moves what is
// in memory into tables.
type compaction struct {
	ctx  context.Context
	done chan error // capacity 1
}

func (c *compaction) run(db *DB) error {
	if err := contextError(c.ctx); err != nil {
		return err
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
