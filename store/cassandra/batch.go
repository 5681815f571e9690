package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	// A statement of GetBatch names at most so many rows, and fewer if they are large. More gain
	// little: the server reads a statement with one thread.
	batchKeys = 64

	// At most so many statements of one GetBatch are under way at a time. With half as many, ranges over a network take half as long again.
	batchReads = 64
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
	for _, keys := range f.statementsOf(each, f.rowSizes.Rows(cells, pageBytes, batchKeys)) {
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
		cells[i].Index = slices.Clone(cells[i].Index)
		for n, v := range cells[i].Index {
			cells[i].Index[n].Value = bytes.Clone(v.Value)
		}
	}
	return cells
}

// statementsOf divides different rows by the statement that reads them, which names at most so many. A row in doubt has
// one of its own.
func (f *family) statementsOf(rows [][]byte, most int) (all [][][]byte) {
	open := make(map[string]int) // by partition, the statement to be filled
	var part []byte
	for _, row := range rows {
		if _, inDoubt := f.doubt.Has(row); inDoubt {
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

// getTogether reads rows of one partition by one statement without pages, as pages are not of one instant, and lets
// take have those that there are.
func (f *family) getTogether(ctx context.Context, keys [][]byte, cells driver.Slice, take func(row []byte, cells []driver.Cell)) error {
	if len(keys) == 1 {
		return f.getOneByOne(ctx, keys, cells, take)
	}
	part := partition(f.spec, keys[0])
	var b strings.Builder
	b.WriteString(columnsOf(cells))
	b.WriteString(f.table)
	b.WriteString(" WHERE p = ? AND k IN ?")
	values := whereCells(&b, []any{part, keys}, cells)
	q := f.db.reading(f.db.session.Query(b.String(), values...)).RoutingKey(part)
	rows, _, size, err := f.readRows(q.IterContext(ctx), driver.Range{Cells: cells})
	if overdone(ctx, err) {
		return f.getOneByOne(ctx, keys, cells, take)
	}
	if err != nil {
		return err
	}
	f.rowSizes.Saw(cells, len(rows), size)
	for _, row := range there(rows) {
		take(row.Key, row.Cells)
	}
	return nil
}

func (f *family) getOneByOne(ctx context.Context, keys [][]byte, cells driver.Slice, take func(row []byte, cells []driver.Cell)) error {
	for _, key := range keys {
		found, err := f.get(ctx, key, cells)
		if err != nil {
			return err
		}
		take(key, found)
	}
	return nil
}

// overdone reports whether a statement may have failed because its rows were much larger than those before, or were too many.
func overdone(ctx context.Context, err error) bool {
	var timeout *gocql.RequestErrReadTimeout
	return ctx.Err() == nil && (errors.As(err, &timeout) || errors.Is(err, gocql.ErrTimeoutNoResponse) || errors.Is(err, gocql.ErrFrameTooBig) || hooks.TooManyAsked(err) || TooManyMarkers(err))
}
