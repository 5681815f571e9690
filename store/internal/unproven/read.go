package unproven

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Read returns the row that was scanned, with the columns in want, by position, and the key parts that are legible. It returns nil
// where there is no row. One that holds a mixture of two writes is read again.
func Read(ctx context.Context, t *engine.Engine, data driver.Family, row driver.Row, want []bool, s *rowcodec.Scratch) (*rowcodec.Record, error) {
	for attempt := 0; ; attempt++ {
		r, err := decode(t.View, row, want, s)
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
			return readNewer(ctx, t, data, row, want, newer)
		}
		if !errors.Is(err, rowcodec.ErrTornRow) {
			return r, err
		}
		if attempt == engine.TornReads {
			return nil, fmt.Errorf("%w: %w", fault.ErrTorn, err)
		}
		if err := engine.WaitAgain(ctx, "torn_row", attempt); err != nil {
			return nil, err
		}
		if row.Cells, err = data.Get(ctx, row.Key, t.Slice(want)); err != nil {
			return nil, err
		}
	}
}

// readNewer returns, as one of this view, a row that says that a client wrote it which knew more of the table.
func readNewer(ctx context.Context, t *engine.Engine, data driver.Family, row driver.Row, want []bool, newer rowcodec.NewerRow) (*rowcodec.Record, error) {
	now, err := t.Env.AtLeast(ctx, uint32(newer))
	if err != nil {
		return nil, err
	}
	if now.Same(t.View) {
		return Read(ctx, now, data, row, want, new(rowcodec.Scratch))
	}
	asked := now.Wanted(t.View, want)
	if err := readable(now.View, asked); err != nil {
		return nil, err
	}
	if row.Cells, err = data.Get(ctx, row.Key, now.Slice(asked)); err != nil {
		return nil, err
	}
	r, err := Read(ctx, now, data, row, asked, new(rowcodec.Scratch))
	if err != nil || r == nil {
		return nil, err
	}
	return t.Adopted(now.View, r), nil
}

// Header returns the header of a cell, be it sealed or plain, which nothing proves to those who have no key.
func Header(cell []byte) (h seal.Header, err error) {
	if rowcodec.Sealed(cell) {
		return seal.PeekHeader(cell)
	}
	_, h, err = rowcodec.OpenPlain(cell)
	return h, err
}

// decode returns what the cells of a row show. Only where nothing of the table is encrypted is that all of it.
func decode(t *rowcodec.View, row driver.Row, want []bool, s *rowcodec.Scratch) (*rowcodec.Record, error) {
	if t.Meta.Clear || len(row.Cells) == 0 {
		return t.Decode(row, want, s)
	}
	if len(row.Cells[0].Qualifier) != 0 {
		return nil, fmt.Errorf("%w: the key cell is missing", rowcodec.ErrTornRow)
	}
	h, err := seal.PeekHeader(row.Cells[0].Value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key cell: %w", fault.OfSeal(err))
	case h.Policy > t.Version:
		return nil, rowcodec.NewerRow(h.Policy)
	case len(row.Cells[0].Value) == seal.Overhead:
		return nil, nil // it has no content: the row was deleted under a condition
	}
	r := t.NewRecord()
	r.Key, r.Write, r.Version = row.Key, h.Write, h.Policy
	if err := cutParts(t, r); err != nil {
		return nil, err
	}
	for i, c := range t.Columns {
		if !want[i] {
			continue
		}
		if r.Values[t.ValueIndex(c)], err = valueOf(c, r, row.Cells[1:]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// find returns the value of a cell, nil where there is none. One that was deleted under a condition is empty.
func find(cells []driver.Cell, id meta.ColumnID) []byte {
	i, found := slices.BinarySearchFunc(cells, id[:], func(c driver.Cell, id []byte) int { return bytes.Compare(c.Qualifier, id) })
	if !found {
		return nil
	}
	return cells[i].Value
}

// valueOf returns what the cells of a row have of a column, nil where that is null.
func valueOf(c *rowcodec.Column, r *rowcodec.Record, cells []driver.Cell) (any, error) {
	cell := find(cells, c.Id)
	if rowcodec.Sealed(cell) {
		return nil, unconverted(c)
	}
	if len(cell) > 0 {
		b, h, err := rowcodec.OpenPlain(cell)
		var v any
		if err == nil && h.Write == r.Write {
			if v, err = c.Type.Parse(b); err == nil {
				return v, nil
			}
			err = fmt.Errorf("%w: %w", fault.ErrTampered, err)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("column %q: %w", c.Name, err)
		case c.Since <= r.Version:
			return nil, fmt.Errorf("%w: column %q", rowcodec.ErrTornRow, c.Name)
		}
		// Who wrote the row did not know of the cell, which is of an earlier write.
	}
	// A writer that did not know the column as it is now may have had its value in the key cell, or under an earlier id.
	if c.Varies && c.Since > r.Version {
		return nil, fmt.Errorf("%w: a row was written before the policy of the tenant, and only its sealed key cell says whether column %q is null: convert the rows, "+
			"put it again if they are converted, or %s", fault.ErrColumn, c.Name, instead)
	}
	for _, f := range c.Former {
		cell := find(cells, f.Id)
		if len(cell) == 0 {
			continue
		}
		h, err := Header(cell)
		if err != nil || h.Write == r.Write {
			return nil, unconverted(c)
		}
	}
	return nil, nil
}

// cutParts gives a record the values of the key parts that its row key shows.
func cutParts(t *rowcodec.View, r *rowcodec.Record) error {
	rest := r.Key[min(len(t.Prefix), len(r.Key)):]
	for i, c := range t.Parts {
		var err error
		switch {
		case c.Encryption == meta.Plain:
			r.Values[i], rest, err = value.CutSortable(rest, c.Type)
		case len(rest) < c.SearchSize(nil):
			err = errShort
		default:
			if Legible(t, c) {
				r.Values[i], err = partOf(c, rest[:c.SearchSize(nil)])
			}
			rest = rest[c.SearchSize(nil):]
		}
		if err != nil {
			return fmt.Errorf("%w: row key: part %q: %w", fault.ErrTampered, c.Name, err)
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: row key: it is too long", fault.ErrTampered)
	}
	return nil
}

var errShort = errors.New("cut short")

// partOf returns the value that a tie-breaker, or an ordered part that is not encrypted, has for its bytes.
func partOf(c *rowcodec.Column, b []byte) (any, error) {
	if c.Encryption == meta.TieBreaker {
		return c.Type.Parse(b)
	}
	code, err := c.Scheme.Decrypt(context.Background(), b) // computes nothing that could block
	if err != nil {
		return nil, err
	}
	return c.Type.OfCode(code)
}
