// Package doubt remembers which rows a client has changed conditionally without learning the outcome. Such a change may have
// been decided and not yet carried out, which only a read at SERIAL does.
package doubt

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// Max is with how many rows in doubt the next conditional change has to settle one first.
const Max = 1 << 12

// Rows are the rows in doubt of a table.
type Rows struct {
	some atomic.Bool
	mu   sync.Mutex
	rows map[string]uint64 // with the number of the latest such change
	last uint64
	room singleflight.Group

	Turn chan struct{} // of capacity one; holds an element while a row is read at SERIAL
}

// New returns no rows.
func New() *Rows { return &Rows{rows: make(map[string]uint64), Turn: make(chan struct{}, 1)} }

// Add notes a change of unknown outcome.
func (d *Rows) Add(row []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	d.rows[string(row)] = d.last
	d.some.Store(true)
}

// Has reports whether a row is in doubt, with a mark for Settle.
func (d *Rows) Has(row []byte) (mark uint64, in bool) {
	if !d.some.Load() {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	mark, in = d.rows[string(row)]
	return mark, in
}

// Settle ends the doubt about the changes before the mark. One that came while the row was read
// stays: the read need not have met it.
func (d *Rows) Settle(row []byte, mark uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rows[string(row)] == mark {
		delete(d.rows, string(row))
	}
	d.some.Store(len(d.rows) > 0)
}

// Room has a row settled if there are too many, once for all who wait at the time. While servers do not answer that, they
// would not answer a change either: it is not to be made, and the rows stay few however long it lasts.
func (d *Rows) Room(ctx context.Context, settle func(ctx context.Context, row []byte) error) error {
	row := d.tooMany()
	if row == nil {
		return nil
	}
	done := d.room.DoChan("", func() (any, error) { return nil, settle(context.WithoutCancel(ctx), row) })
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return pause.Ended(ctx)
	}
}

func (d *Rows) tooMany() []byte {
	if !d.some.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rows) >= Max {
		for row := range d.rows {
			return []byte(row)
		}
	}
	return nil
}
