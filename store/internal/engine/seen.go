package engine

import (
	"context"
	"errors"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Untouched reports whether nobody has ever written the row. In a table with Schema.Conditional a row that was deleted keeps a mark.
func (s *Seen) Untouched() bool { return len(s.row.cells) == 0 }

// Stamp returns the latest stamp of the cells of the row, of a mark of deletion too; 0 where there are none.
func (s *Seen) Stamp() int64 { return driver.LatestStamp(s.row.cells) }

// See reads rows by their keys. The engine that it returns is the one to replace them with: it may be of a later view.
func (t *Engine) See(ctx context.Context, keys [][]byte) (*Engine, []Seen, error) {
	for attempt := 0; ; attempt++ {
		seen, torn, newer := make([]Seen, len(keys)), false, rowcodec.NewerRow(0)
		err := chunks.GetEach(ctx, t.Data, keys, driver.Slice{Stamps: true}, func(rows []driver.Row, places []int) error {
			var s rowcodec.Scratch
			for n, row := range rows {
				later := rowcodec.NewerRow(0)
				r, err := t.Decode(row, nil, &s)
				one := &seen[places[n]]
				*one = Seen{Record: r, row: conditionalRow{record: r, opens: err == nil, cells: row.Cells}}
				switch {
				case errors.As(err, &later):
					newer = max(newer, later)
				case errors.Is(err, rowcodec.ErrTornRow):
					one.Torn, torn = true, true
				case err != nil:
					return err
				default:
					one.row.copies = t.copiesOf(r)
				}
			}
			return nil
		})
		switch {
		case err != nil:
			return t, nil, err
		case newer > 0:
			if t, err = t.Env.AtLeast(ctx, uint32(newer)); err != nil {
				return t, nil, err
			}
			continue
		case torn && attempt == TornReads && t.Meta.Copies():
			return t, nil, notReplaced(fault.ErrTorn)
		case !torn || attempt >= TornReads:
			return t, seen, nil
		}
		if err := WaitAgain(ctx, "torn_row", attempt); err != nil {
			return t, nil, err
		}
	}
}
