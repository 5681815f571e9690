package hbase

import (
	"context"
	"slices"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

const (
	// A batch of gets has at most so many rows, and about so many bytes of answers. The server
	// bounds neither: it answers a request of this client as a whole.
	batchGets     = 64
	batchGetBytes = 1 << 20

	// Batches of one call that are under way at a time. The server works each off with one thread.
	getBatchesAtOnce = 4
)

// A batchedGet reads cells of one row within a batch. It wraps gohbase's own request because only that can go into a
// batch. Other than alone, its cells come behind the message.
type batchedGet struct {
	*hrpc.Get
	get    *pb.Get
	of     *family
	stamps bool

	cells []driver.Cell
	bad   error
}

func (c *batchedGet) SetRegion(r hrpc.RegionInfo) {
	c.of.db.see(c.Context(), c.Region(), r)
	c.Get.SetRegion(r)
}

func (c *batchedGet) ToProto() proto.Message {
	return &pb.GetRequest{
		Region: &pb.RegionSpecifier{Type: hrpc.RegionSpecifierRegionName, Value: c.Region().Name()}, Get: c.get,
	}
}

func (c *batchedGet) DeserializeCellBlocks(m proto.Message, b []byte) (read uint32, err error) {
	n := int(m.(*pb.GetResponse).GetResult().GetAssociatedCellCount())
	_, cells, size, err := c.of.decoder(c.stamps)(b, n)
	if c.cells, c.bad = cells, err; err != nil && size == 0 {
		return uint32(len(b)), nil
	}
	return uint32(size), nil
}

// answer returns the cells of a response.
func (c *batchedGet) answer(r *pb.GetResponse) ([]driver.Cell, error) {
	switch {
	case len(r.GetResult().GetCell()) > 0:
		return c.of.cellsOf(r, c.stamps)
	case r.GetResult().GetAssociatedCellCount() == 0:
		return nil, nil // an earlier attempt may have left some
	}
	return c.cells, c.bad
}

// GetBatch implements [driver.Family] with batches that the client divides by server. It repeats
// those parts of one that a server refuses.
func (f *family) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	if err := f.spec.CheckBatch(rows, s); err != nil {
		return nil, err
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	found := make([][]driver.Cell, len(rows))
	err := ctx.Err()
	if err == nil && !s.Empty() {
		err = f.getBatches(ctx, rows, s, found)
	}
	if err != nil {
		return nil, f.fail(ctx, "get from", err)
	}
	return found, nil
}

func (f *family) getBatches(ctx context.Context, rows [][]byte, s driver.Slice, found [][]driver.Cell) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(getBatchesAtOnce)
	most := f.sizes.Rows(s, batchGetBytes, batchGets)
	for from := 0; from < len(rows) && groupCtx.Err() == nil; from += most {
		to := min(len(rows), from+most)
		group.Go(func() error { return f.getBatch(groupCtx, rows[from:to], s, found[from:to]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (f *family) getBatch(ctx context.Context, rows [][]byte, s driver.Slice, found [][]driver.Cell) error {
	calls := make([]hrpc.Call, len(rows))
	gets := make([]*batchedGet, len(rows))
	columns, filter := wire.Columns(s), wire.FilterMessage(wire.CellFilter(s))
	if f.foreign {
		columns = nil
	}
	for i, row := range rows {
		row = slices.Clone(row)
		base, err := hrpc.NewGet(ctx, f.table, row)
		if err != nil {
			return err
		}
		get := &pb.Get{Row: row, Column: columns, Filter: filter}
		gets[i] = &batchedGet{Get: base, get: get, of: f, stamps: s.Stamps}
		calls[i] = gets[i]
	}
	results, err := f.sendBatch(ctx, calls)
	if err != nil {
		return err
	}
	n, size := 0, 0
	for i, get := range gets {
		if found[i], err = get.answer(results[i].Msg.(*pb.GetResponse)); err != nil {
			return err
		}
		for _, c := range found[i] {
			size += len(c.Qualifier) + len(c.Value)
		}
		n += min(1, len(found[i]))
	}
	f.sizes.Saw(s, n, size)
	return nil
}
