package hbase

import (
	"context"
	"slices"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

type family struct {
	db    *DB
	spec  driver.FamilySpec
	table []byte

	foreign bool // a table of somebody else: its cells are taken as they are

	sizes driver.Sizes // of the rows of batches
}

func newFamily(d *DB, spec driver.FamilySpec) *family {
	return &family{db: d, spec: spec, table: []byte(d.namespace + ":" + spec.Name)}
}

// send has the client send a call, repeatedly where it has to, and returns its response. The client
// writes to the connection without regard to the context, so nobody must wait for it.
func (d *DB) send(ctx context.Context, c hrpc.Call) (m proto.Message, err error) {
	err = resend(ctx, func() (err error) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m, _, err = pause.Within(ctx, func() (proto.Message, error) {
			m, err := d.rpc.SendRPC(c)
			if err == nil {
				d.note(nil)
			}
			return m, err
		})
		return err
	})
	return m, err
}

// Get implements [driver.Family] with one request, which HBase serves as of one instant.
func (f *family) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if err := f.spec.CheckRow(row); err != nil {
		return nil, err
	}
	if err := f.spec.CheckSlice(s); err != nil {
		return nil, err
	}
	ctx, cancel := f.db.bound(ctx)
	defer cancel()
	cells, err := f.slice(ctx, slices.Clone(row), s)
	if err != nil {
		return nil, f.fail(ctx, "get from", err)
	}
	return cells, nil
}

func (f *family) slice(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if s.Head {
		wanted := s
		s, _ = s.JoinHead()
		s.Limit = wanted.LimitWithHead()
		cells, err := f.read(ctx, row, s)
		return wanted.CutBehindHead(cells), err
	}
	if s.Empty() {
		return nil, ctx.Err()
	}
	return f.read(ctx, row, s)
}

// read returns the cells of a slice, whose limit counts those of a head.
func (f *family) read(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	g := &pb.Get{Row: row, Column: wire.Columns(s), Filter: wire.FilterMessage(wire.CellFilter(s))}
	if s.Limit > 0 {
		g.StoreLimit = proto.Uint32(uint32(min(s.Limit, 1<<30)))
	}
	m, err := f.db.send(ctx, f.db.get(ctx, f.table, row, g))
	if err != nil {
		return nil, err
	}
	return f.cellsOf(m.(*pb.GetResponse), s.Stamps)
}

// cellsOf takes the cells out of a response. The server sends them within the message, because
// gohbase does not say that it is new enough for anything better, so they are in memory of their
// own already.
func (f *family) cellsOf(r *pb.GetResponse, stamps bool) ([]driver.Cell, error) {
	found := r.GetResult().GetCell()
	if len(found) != int(r.GetResult().GetAssociatedCellCount()) && len(found) == 0 {
		return nil, wire.ErrCell
	}
	cells := make([]driver.Cell, len(found))
	for i, c := range found {
		if f.foreign {
			cells[i] = driver.Cell{Qualifier: wire.Foreign(c.Family, c.Qualifier), Value: c.Value, Stamp: int64(c.GetTimestamp())}
			continue
		}
		if !wire.Known(c.Qualifier, c.Value) {
			return nil, wire.Unknown(c.Qualifier, c.GetTimestamp())
		}
		cells[i] = driver.Cell{Qualifier: c.Qualifier[1:], Value: c.Value[1:]}
		if stamps {
			cells[i].Stamp = int64(c.GetTimestamp())
		}
	}
	return cells, nil
}

func (f *family) decoder(stamps bool) decoder {
	if f.foreign {
		return wire.DecodeForeign
	}
	return func(b []byte, n int) ([]byte, []driver.Cell, int, error) { return wire.DecodeRow(b, n, stamps) }
}
