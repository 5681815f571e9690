package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// TornReads is how often a row that holds a mixture of two writes is read again before it is
// reported. Between the two writes of a race it holds one only for as long as they take.
const TornReads = 6

// Read returns a row, or nil if there is none.
func (t *Engine) Read(ctx context.Context, key []byte, want []bool) (*rowcodec.Record, error) {
	return t.ReadFrom(ctx, t.Data, key, want)
}

func (t *Engine) ReadFrom(ctx context.Context, data driver.Family, key []byte, want []bool) (*rowcodec.Record, error) {
	for attempt := 0; ; attempt++ {
		cells, err := data.Get(ctx, key, t.Slice(want))
		if err != nil {
			return nil, err
		}
		row := driver.Row{Key: key, Cells: cells}
		r, err := t.Decode(row, want, new(rowcodec.Scratch))
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
			return t.readNewer(ctx, data, row, want, newer)
		}
		if !errors.Is(err, rowcodec.ErrTornRow) {
			return r, err
		}
		if attempt == TornReads {
			// Or cells are left of who stores them as a later policy says, of which this client has not learned.
			now, failed := t.Env.Refresh(ctx)
			if failed != nil || now.Same(t.View) {
				return nil, fault.Join(fmt.Errorf("%w: %w", fault.ErrTorn, err), failed)
			}
			return t.readAs(ctx, now, data, key, want)
		}
		if err := WaitAgain(ctx, "torn_row", attempt); err != nil {
			return nil, err
		}
	}
}

// ReadEach reads rows by their keys, of which some may be nil, and calls do for each other one with its position. The
// record is nil where there is no row. Several goroutines call do.
func (t *Engine) ReadEach(ctx context.Context, data driver.Family, keys [][]byte, want []bool, do func(i int, r *rowcodec.Record, err error) error) error {
	return t.readEach(ctx, data, keys, t.Slice(want), want, do)
}

func (t *Engine) readEach(ctx context.Context, data driver.Family, keys [][]byte, s driver.Slice, want []bool, do func(i int, r *rowcodec.Record, err error) error) error {
	return chunks.GetEach(ctx, data, keys, s, func(rows []driver.Row, places []int) error {
		again := make([]bool, len(rows)) // more requests are made for these
		err := onProcessors(ctx, len(rows), func(_ context.Context, i int, s *rowcodec.Scratch) error {
			r, err := t.Decode(rows[i], want, s)
			if again[i] = errors.Is(err, rowcodec.ErrTornRow) || errors.As(err, new(rowcodec.NewerRow)); again[i] {
				return nil
			}
			return do(places[i], r, err)
		})
		if err != nil || !slices.Contains(again, true) {
			return err
		}
		return t.Env.Concurrently(ctx, len(rows), func(ctx context.Context, i int) error {
			if !again[i] {
				return nil
			}
			r, err := t.Opened(ctx, data, rows[i], want, new(rowcodec.Scratch))
			return do(places[i], r, err)
		})
	})
}

// Opened returns the row that was scanned.
func (t *Engine) Opened(ctx context.Context, data driver.Family, row driver.Row, want []bool, s *rowcodec.Scratch) (*rowcodec.Record, error) {
	r, err := t.Decode(row, want, s)
	if err == nil {
		return r, nil
	}
	if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
		return t.readNewer(ctx, data, row, want, newer)
	}
	if errors.Is(err, rowcodec.ErrTornRow) {
		return t.ReadFrom(ctx, data, row.Key, want)
	}
	return nil, err
}

// readNewer returns, as one of this view, a row that was written by a client which knew more of the
// table: it finds out. If the row is not stored as this view has it, it is read once more.
func (t *Engine) readNewer(ctx context.Context, data driver.Family, row driver.Row, want []bool, newer rowcodec.NewerRow) (*rowcodec.Record, error) {
	now, err := t.Env.AtLeast(ctx, uint32(newer))
	if err != nil {
		return nil, err
	}
	if now.Same(t.View) {
		return now.Opened(ctx, data, row, want, new(rowcodec.Scratch))
	}
	return t.readAs(ctx, now, data, row.Key, want)
}

// readAs returns, as one of this view, a row as a later engine reads it.
func (t *Engine) readAs(ctx context.Context, now *Engine, data driver.Family, key []byte, want []bool) (*rowcodec.Record, error) {
	r, err := now.ReadFrom(ctx, data, key, now.Wanted(t.View, want))
	if err != nil || r == nil {
		return nil, err
	}
	return t.Adopted(now.View, r), nil
}

// keyCells is the slice that has the key cell of a row.
var keyCells = driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}

// there reports whether there is a row.
func (t *Engine) there(ctx context.Context, key []byte) (bool, error) {
	cells, err := t.Data.Get(ctx, key, keyCells)
	if err != nil {
		return false, err
	}
	_, there, err := t.writeOf(ctx, driver.Row{Key: key, Cells: cells})
	return there, err
}

// writeOf returns the write id of a row that was read, and whether there is one.
func (t *Engine) writeOf(ctx context.Context, row driver.Row) (rowcodec.WriteID, bool, error) {
	if len(row.Cells) == 0 {
		return rowcodec.WriteID{}, false, nil
	}
	var s rowcodec.Scratch
	s.Where.Of(t.View, row.Key)
	_, h, err := t.OpenKeyCell(row.Cells[0].Value, &s)
	if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
		now, later := t.Env.AtLeast(ctx, uint32(newer))
		if later != nil {
			return rowcodec.WriteID{}, false, later
		}
		_, h, err = now.OpenKeyCell(row.Cells[0].Value, &s)
	}
	return h.Write, err == nil, err
}
