package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// GetClear returns a row of which some columns are wanted. If all of these are in plain cells it opens
// nothing, and the key parts are those asked for. Which of the columns are null only the key cell says: if one
// has no cell, that is opened.
func (t *Engine) GetClear(ctx context.Context, rowKey []byte, key rowcodec.RowValues, want []bool) (*rowcodec.Record, error) {
	if !slices.Contains(want, true) || t.Meta.Expires() {
		return t.Read(ctx, rowKey, want)
	}
	for i, c := range t.Stored {
		if want[i] && c.Of == nil && (!c.Clear() || c.Packed || len(c.Former) > 0) {
			return t.Read(ctx, rowKey, want)
		}
	}
	cells, err := t.Data.Get(ctx, rowKey, t.Slice(want))
	if err != nil {
		return nil, err
	}
	row := driver.Row{Key: rowKey, Cells: cells}
	if r := t.DecodeClear(row, want); r != nil {
		return r, t.CheckKey(r, key)
	}
	return t.Opened(ctx, t.Data, row, want, new(rowcodec.Scratch))
}

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
			return nil, fmt.Errorf("%w: %w", fault.ErrTorn, err)
		}
		if err := WaitAgain(ctx, "torn_row", attempt); err != nil {
			return nil, err
		}
	}
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
	r, err := now.ReadFrom(ctx, data, row.Key, now.Wanted(t.View, want))
	if err != nil || r == nil {
		return nil, err
	}
	return t.Adopted(now.View, r), nil
}

// Expired reports whether the row that a write has put has expired.
func (t *Engine) Expired(ctx context.Context, key []byte, write rowcodec.WriteID) (bool, error) {
	if !t.Meta.Expires() {
		return false, nil
	}
	cells, err := t.Data.Get(ctx, key, driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}})
	if err != nil || len(cells) == 0 {
		return false, err
	}
	var s rowcodec.Scratch
	row := driver.Row{Key: key, Cells: cells}
	s.Where.Of(t.View, key)
	_, h, err := t.OpenKeyCell(cells[0].Value, &s)
	return err == nil && h.Write == write && t.View.Expired(row, &s), nil
}

// readWrite returns the write id of a row, and whether there is one.
func (t *Engine) readWrite(ctx context.Context, key []byte) (rowcodec.WriteID, bool, error) {
	cells, err := t.Data.Get(ctx, key, driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}})
	if err != nil || len(cells) == 0 {
		return rowcodec.WriteID{}, false, err
	}
	var s rowcodec.Scratch
	s.Where.Of(t.View, key)
	_, h, err := t.OpenKeyCell(cells[0].Value, &s)
	if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
		now, err := t.Env.AtLeast(ctx, uint32(newer))
		if err != nil {
			return rowcodec.WriteID{}, false, err
		}
		_, h, err = now.OpenKeyCell(cells[0].Value, &s)
		return h.Write, err == nil, err
	}
	if err != nil {
		return rowcodec.WriteID{}, false, err
	}
	return h.Write, true, nil
}
