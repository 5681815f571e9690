// Package chunks cuts work on many rows into requests of some, and reads families in them.
package chunks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// WriteChunk is how many rows go through the steps of a Put together. Larger chunks save round
// trips and syncs; smaller ones tell more exactly which rows a failed batch left undone.
const WriteChunk = 256

// DistinctKeys has the position of each row of a call by its key.
type DistinctKeys map[string]int

// Add returns an error if an earlier row has the key: what the call does to them has no order.
func (d DistinctKeys) Add(key []byte, row int, do string) error {
	if first, twice := d[string(key)]; twice {
		return fmt.Errorf("%w: it has the row key of row %d; %s them one after the other", driver.ErrOverlap, first, do)
	}
	d[string(key)] = row
	return nil
}

// InChunks calls do for one chunk after the other. What it did not reach counts as failed. Where a chunk was written nevertheless, the
// others follow, and the error comes in the end.
func InChunks(n int, do func(from, to int) error) (written error) {
	for from := 0; from < n; from += WriteChunk {
		err := do(from, min(n, from+WriteChunk))
		if errors.Is(err, fault.ErrWritten) {
			written = err
		} else if err != nil {
			return fault.Undone(from, n, err)
		}
	}
	return written
}

// GetEach reads the slice of rows by their keys, of which some may be nil, and calls do for batches of the others, with
// their positions.
func GetEach(ctx context.Context, data driver.Family, keys [][]byte, s driver.Slice, do func(rows []driver.Row, places []int) error) error {
	for from := 0; from < len(keys); from += driver.MaxBatch {
		var places []int
		var rows []driver.Row
		var batch [][]byte
		for i, key := range keys[from:min(len(keys), from+driver.MaxBatch)] {
			if key != nil {
				places, rows, batch = append(places, from+i), append(rows, driver.Row{Key: key}), append(batch, key)
			}
		}
		var err error
		switch len(batch) {
		case 0:
			continue
		case 1:
			rows[0].Cells, err = data.Get(ctx, batch[0], s)
		default:
			var found [][]driver.Cell
			found, err = data.GetBatch(ctx, batch, s)
			for i, cells := range found {
				rows[i].Cells = cells
			}
		}
		if err != nil {
			return err
		}
		if err := do(rows, places); err != nil {
			return err
		}
	}
	return nil
}

// FullBatch is how many rows are worked on together.
const FullBatch = 256

// A Gauge says when the rows that are gathered are to be worked on. Its zero value is that of none.
type Gauge struct{ rows, bytes int }

// Full counts one row more, and says whether those since it last said so are enough.
func (g *Gauge) Full(bytes int) bool {
	g.rows, g.bytes = g.rows+1, g.bytes+bytes
	full := g.rows == FullBatch || g.bytes >= rowsize.Enough
	if full {
		*g = Gauge{}
	}
	return full
}

// SizeOf returns how many bytes there are in the cells of a row.
func SizeOf(row driver.Row) (bytes int) {
	for _, cell := range row.Cells {
		bytes += len(cell.Value)
	}
	return bytes
}

// InBatches hands what a scan yields on to do, in batches, which do must not keep.
func InBatches(ctx context.Context, family driver.Family, r driver.Range, do func([]driver.Row) error) error {
	batch, gauge := make([]driver.Row, 0, FullBatch), Gauge{}
	for row, err := range family.Scan(ctx, r) {
		if err != nil {
			return err
		}
		if batch = append(batch, row); gauge.Full(SizeOf(row)) {
			if err := do(batch); err != nil {
				return err
			}
			clear(batch)
			batch = batch[:0]
		}
	}
	return do(batch)
}

// Under returns the range of all rows whose keys have a prefix, in any order.
func Under(prefix []byte) driver.Range {
	return driver.Range{Start: prefix, End: ope.PrefixEnd(prefix), AnyOrder: true}
}

// Divide returns the elements for which a function holds, and the others.
func Divide[T any](all []T, holds func(T) bool) (some, others []T) {
	for _, one := range all {
		if holds(one) {
			some = append(some, one)
		} else {
			others = append(others, one)
		}
	}
	return some, others
}

func Exists(ctx context.Context, family driver.Family, row []byte) (bool, error) {
	cells, err := family.Get(ctx, row, driver.Slice{Limit: 1})
	return len(cells) > 0, err
}

// Scanned yields the rows of a range, and makes sure that they are: what is sealed in a row or
// posting says where it stands, but not that it was asked for, or was not returned before.
func Scanned(ctx context.Context, family driver.Family, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		var last []byte
		each, beyond := r.Bounds(), 1
		if r.Reverse {
			beyond = -1
		}
		for row, err := range family.Scan(ctx, r) {
			if err == nil && !r.AnyOrder {
				order := bytes.Compare(row.Key, last)
				if r.Reverse {
					order = -order
				}
				for len(each) > 0 && each[0].Compare(row.Key) == beyond {
					each = each[1:]
				}
				if len(each) == 0 || each[0].Compare(row.Key) != 0 || last != nil && order <= 0 {
					yield(driver.Row{}, fmt.Errorf("%w: the database returned a row that was not asked for, or not in order", fault.ErrTampered))
					return
				}
				last = row.Key
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// Superseded returns the qualifiers of cells that are there and not put.
func Superseded(cells, puts []driver.Cell) [][]byte {
	var qualifiers [][]byte
	for _, cell := range cells {
		put := slices.ContainsFunc(puts, func(p driver.Cell) bool { return bytes.Equal(p.Qualifier, cell.Qualifier) })
		if !put && len(cell.Value) > 0 {
			qualifiers = append(qualifiers, cell.Qualifier)
		}
	}
	return qualifiers
}
