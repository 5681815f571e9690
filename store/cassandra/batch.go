package cassandra

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	// A statement of GetBatch names at most so many rows. More gain little: the server reads a
	// statement with one thread.
	batchKeys = 64

	// At most so many statements of one GetBatch are under way at a time.
	batchReads = 32
)

// GetBatch implements [driver.Family]. One statement reads rows of one partition.
func (f *family) GetBatch(ctx context.Context, rows [][]byte, cells driver.Slice) ([][]driver.Cell, error) {
	if err := f.spec.CheckBatch(rows, cells); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("cassandra: get: %w", pause.Ended(ctx))
	}
	found := make([][]driver.Cell, len(rows))
	if cells.Empty() {
		return found, nil
	}
	places := make(map[string][]int, len(rows)) // of each row that is named
	var each [][]byte
	for i, row := range rows {
		if places[string(row)] == nil {
			each = append(each, row)
		}
		places[string(row)] = append(places[string(row)], i)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(batchReads)
	for _, keys := range f.statementsOf(each) {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			return f.getTogether(groupCtx, keys, cells, func(row []byte, cells []driver.Cell) {
				for n, i := range places[string(row)] {
					if found[i] = cells; n > 0 {
						found[i] = clone(cells)
					}
				}
			})
		})
	}
	err := group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, f.db.failed(ctx, "get", err)
	}
	return found, nil
}

func clone(cells []driver.Cell) []driver.Cell {
	cells = slices.Clone(cells)
	for i := range cells {
		cells[i].Qualifier, cells[i].Value = bytes.Clone(cells[i].Qualifier), bytes.Clone(cells[i].Value)
	}
	return cells
}

// statementsOf divides different rows by the statement that reads them. A row in doubt has one of its own.
func (f *family) statementsOf(rows [][]byte) (all [][][]byte) {
	most := f.sizes.rows()
	open := make(map[string]int) // by partition, the statement to be filled
	var part []byte
	for _, row := range rows {
		if _, inDoubt := f.doubt.has(row); inDoubt {
			all = append(all, [][]byte{row})
			continue
		}
		part = appendPartition(part[:0], f.spec, row)
		at, is := open[string(part)]
		if !is || len(all[at]) == most {
			at = len(all)
			open[string(part)] = at
			all = append(all, nil)
		}
		all[at] = append(all[at], row)
	}
	return all
}

// rows returns how many rows to ask for by their keys: about as many as a page has.
func (s *sizes) rows() int {
	cells := s.rowCells.Load()
	if cells == 0 {
		cells = 8 // nothing is known yet
	}
	return max(1, min(batchKeys, s.page(0)/int(cells)))
}

// getTogether reads rows of one partition by one statement without pages, as pages are not of one instant, and lets
// take have those that there are.
func (f *family) getTogether(ctx context.Context, keys [][]byte, cells driver.Slice, take func(row []byte, cells []driver.Cell)) error {
	if len(keys) == 1 {
		found, err := f.get(ctx, keys[0], cells)
		if err == nil {
			take(keys[0], found)
		}
		return err
	}
	part := partition(f.spec, keys[0])
	var b strings.Builder
	b.WriteString(columnsOf(cells))
	b.WriteString(f.table)
	b.WriteString(" WHERE p = ? AND k IN ?")
	values := whereCells(&b, []any{part, keys}, cells)
	q := f.db.reading(f.db.session.Query(b.String(), values...)).RoutingKey(part)
	rows, n, size, err := readRows(q.IterContext(ctx), driver.Range{Cells: cells})
	if err != nil {
		return err
	}
	f.sizes.saw(len(rows), n, size)
	for _, row := range rows {
		take(row.Key, row.Cells)
	}
	return nil
}
