package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Whoever reads a row sees, for no further request, whether it is stored as the schema, the policy of
// its tenant and the newest keys say. With Options.ConvertOnRead such a row is converted behind the
// read, by what Table.Convert does with all rows: it is read again, and replaced only if nobody has
// written it since.
//
// Nothing depends on it. A row that was not converted, because too many waited, the client died or
// the database refused, is found again by the next read, and by Convert.

// lazy has the rows that reads have found and that are to be converted. One goroutine at a time
// converts them; there is none while no row waits. A nil lazy takes no rows.
type lazy struct {
	mu      sync.Mutex
	waiting []lazyRow // in the order in which they were found
	known   map[lazyRow]struct{}
	busy    bool          // somebody converts them
	closed  chan struct{} // when no more are taken
	cancel  context.CancelFunc
	workers sync.WaitGroup
	pause   time.Duration // lazyPause, but for tests
	wait    time.Duration // after the last failure, if nothing was done since; who converts looks at it
}

type lazyRow struct {
	tbl *Table
	key string
}

const (
	// mostLazy is how many rows wait at most, those being converted included: about 1 MB. A client
	// that reads more of them than it converts leaves the others to later reads; it must not gather
	// work that is old by the time that it is done.
	mostLazy = 4096

	// lazyBatch is how many are converted together. More would share their read of the catalogue; but
	// rows should not wait for long between being read and being replaced, or writers are faster.
	lazyBatch = 64

	// lazyGrace is how long Close waits for the batch that is under way, before it is cancelled.
	lazyGrace = 10 * time.Second

	// lazyPause is how long no row is converted after it could not be done, twice as long each time
	// it fails again, up to mostLazyPause: a database that is down, or does not allow it, is left alone.
	lazyPause, mostLazyPause = time.Second, time.Minute
)

func newLazy() *lazy {
	return &lazy{known: make(map[lazyRow]struct{}), closed: make(chan struct{}), pause: lazyPause}
}

// found takes note of a row that was read, if it has to be converted. It never blocks.
func (l *lazy) found(ctx context.Context, tbl *Table, r *record) {
	if !r.outdated || l == nil {
		return
	}
	row := lazyRow{tbl, string(r.key)}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return
	default:
	}
	if _, waits := l.known[row]; waits || len(l.known) == mostLazy {
		return
	}
	l.known[row] = struct{}{}
	l.waiting = append(l.waiting, row)
	if l.busy {
		return
	}
	l.busy = true
	// The read that has found the row does not wait for it, and its end is none of the conversion's.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx)) // not ctx, which would then be allocated for every row
	l.cancel = cancel
	l.workers.Go(func() { l.work(background) })
}

// work converts rows until none waits.
func (l *lazy) work(ctx context.Context) {
	for {
		tbl, keys := l.next()
		if tbl == nil {
			return
		}
		err := tbl.convertFound(ctx, keys)
		l.done(tbl, keys)
		switch {
		case err == nil, errors.Is(err, ErrNoTable), errors.Is(err, ErrNoTenant):
			l.wait = 0 // what was dropped is no trouble of the others
			continue
		case !errors.Is(err, driver.ErrReadOnly):
			tbl.st.observer.warn(ctx, "rows that were read are not converted", tbl.now().family(), err)
		}
		l.wait = min(max(2*l.wait, l.pause), mostLazyPause)
		timer := time.NewTimer(l.wait)
		select {
		case <-l.closed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// next returns some rows of one table that wait, or nil, and then nobody works any more.
func (l *lazy) next() (tbl *Table, keys [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy = false
		l.cancel()
		return nil, nil
	}
	tbl = l.waiting[0].tbl
	l.waiting = slices.DeleteFunc(l.waiting, func(row lazyRow) bool {
		if row.tbl != tbl || len(keys) == lazyBatch {
			return false
		}
		keys = append(keys, []byte(row.key))
		return true
	})
	return tbl, keys
}

// done forgets rows: the next read that finds them in an older way may ask for them again.
func (l *lazy) done(tbl *Table, keys [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		delete(l.known, lazyRow{tbl, string(key)})
	}
}

// close drops the rows that wait, and ends the work.
func (l *lazy) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	l.waiting = nil
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		defer time.AfterFunc(lazyGrace, cancel).Stop()
	}
	l.workers.Wait()
}

// convertFound converts rows by their keys, those that have to be.
func (tbl *Table) convertFound(ctx context.Context, keys [][]byte) (err error) {
	n := 0
	ctx, end := tbl.st.observer.operation(ctx, "convert on read", tbl.now().family())
	defer func() { end(n, err) }()
	// Rows should not be converted to what has been changed by now: it could be less sealed.
	t, err := tbl.refresh(ctx)
	if err != nil {
		return err
	}
	rows, err := t.stamped(ctx, keys)
	if err != nil {
		return err
	}
	n, _, err = t.convertAndSettle(ctx, rows)
	return err
}

// stamped reads rows with all their cells and stamps, as [view.convert] takes them.
func (t *view) stamped(ctx context.Context, keys [][]byte) ([]driver.Row, error) {
	rows := make([]driver.Row, len(keys))
	err := t.st.each(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		rows[i].Key = keys[i]
		rows[i].Cells, err = t.data.Get(ctx, keys[i], driver.Slice{Stamps: true})
		return err
	})
	return rows, err
}
