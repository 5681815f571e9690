package hbase

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

type family struct {
	db    *DB
	spec  driver.FamilySpec
	table []byte

	sizes driver.Sizes // of the rows of batches
}

func newFamily(d *DB, spec driver.FamilySpec) *family {
	return &family{db: d, spec: spec, table: []byte(d.namespace + ":" + spec.Name)}
}

// send has the client send a call, repeatedly where it has to, and returns its response. The client
// writes to the connection without regard to the context, so nobody must wait for it.
func (d *DB) send(ctx context.Context, c hrpc.Call) (proto.Message, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var m proto.Message
	var err error // nobody reads either before there is an answer
	answered := make(chan struct{})
	go func() {
		if m, err = d.rpc.SendRPC(c); err == nil {
			d.note(nil)
		}
		close(answered)
	}()
	select {
	case <-answered:
		return m, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
		return nil, f.db.fail(ctx, "get from "+f.spec.Name, err)
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
	g := &pb.Get{Row: row, Column: columns(s), Filter: cellFilter(s)}
	if s.Limit > 0 {
		g.StoreLimit = proto.Uint32(uint32(min(s.Limit, 1<<30)))
	}
	m, err := f.db.send(ctx, f.db.get(ctx, f.table, row, g))
	if err != nil {
		return nil, err
	}
	return cellsOf(m.(*pb.GetResponse), s.Stamps)
}

const (
	// A page ends after the row with which it reaches this size: a megabyte or two is where the
	// cost of a request no longer shows. The server may end it before.
	pageBytes = 2 << 20
	pageRows  = 8192
)

// Scan implements [driver.Family].
func (f *family) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		if err := f.spec.CheckRange(r); err != nil {
			yield(driver.Row{}, err)
			return
		}
		r.InTurn(func(r driver.Range) iter.Seq2[driver.Row, error] { return f.scan(ctx, r) })(yield)
	}
}

func (f *family) scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		s := newScan(f, r.Share())
		for rows := 0; !s.done; {
			page, err := s.next(ctx, r.Limit-rows)
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for i, row := range page {
				if err := ctx.Err(); err != nil {
					yield(driver.Row{}, s.f.db.fail(ctx, "scan "+s.f.spec.Name, err))
					return
				}
				page[i] = driver.Row{} // so that a slow reader does not hold them all
				if !yield(row, nil) {
					return
				}
				if rows++; rows == r.Limit {
					return
				}
			}
		}
	}
}

// A scan is how far a scan has come. It keeps nothing at the server, so that splits, moves and
// pauses between two pages do not matter.
type scan struct {
	f       *family
	reverse bool
	// The rest goes from at, which is excluded if after is set, to stop, which is included if with
	// is set. A nil at is the first or, in reverse, the last row.
	at, stop    []byte
	after, with bool
	columns     []*pb.Column
	filter      *pb.Filter
	stamps      bool
	done        bool
}

func newScan(f *family, r driver.Range) *scan {
	s := &scan{f: f, reverse: r.Reverse, columns: columns(r.Cells), filter: cellFilter(r.Cells), stamps: r.Cells.Stamps}
	start, startCut := cut(r.Start)
	end, endCut := cut(r.End)
	if r.Reverse {
		s.at, s.after = end, !endCut
		s.stop, s.with = start, !startCut
	} else {
		s.at, s.after = start, startCut
		s.stop, s.with = end, endCut
	}
	s.done = r.Empty() || r.Cells.Empty()
	return s
}

// cut shortens a bound to what HBase takes as one. A row key is at or above a longer one if it is
// above the cut one, and below the longer one if it is not above the cut one.
func cut(bound []byte) ([]byte, bool) {
	if len(bound) > driver.MaxRowKey {
		return slices.Clone(bound[:driver.MaxRowKey]), true
	}
	return slices.Clone(bound), false
}

// next reads one page, which may be empty, of at most limit rows if that is positive.
func (s *scan) next(ctx context.Context, limit int) ([]driver.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.f.db.fail(ctx, "scan "+s.f.spec.Name, err)
	}
	ctx, cancel := s.f.db.bound(ctx)
	defer cancel()
	page, err := s.page(ctx, limit)
	if err != nil {
		return nil, s.f.db.fail(ctx, "scan "+s.f.spec.Name, err)
	}
	return page, nil
}

func (s *scan) page(ctx context.Context, limit int) ([]driver.Row, error) {
	rows := uint32(pageRows)
	if limit > 0 {
		rows = uint32(min(limit, pageRows))
	}
	key := s.at
	if s.reverse && (s.after || s.at == nil) {
		key = below(s.at)
	}
	for lost := 0; ; {
		c := &scanCall{call: s.f.db.request(ctx, s.f.table, key), rows: rows, scan: s.message(), stamps: s.stamps}
		m, err := s.f.db.send(ctx, c)
		if err != nil && scannerLost[javaClass(err)] {
			if lost++; backOff(ctx, "server_unavailable", lost) == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		c.answer(m.(*pb.ScanResponse))
		if c.bad != nil {
			return nil, c.bad
		}
		from, to := c.region.StartKey(), c.region.StopKey()
		if s.reverse && len(to) > 0 && (s.at == nil || bytes.Compare(to, s.at) < 0) {
			// The region below the bound was searched for by a key a little below it, but there
			// is another one between the two.
			key = to
			continue
		}
		s.advance(c, from, to)
		return c.page, nil
	}
}

// message says which rows are wanted.
func (s *scan) message() *pb.Scan {
	m := &pb.Scan{
		Column: s.columns, Filter: s.filter, StartRow: s.at, StopRow: s.stop,
		TimeRange: &pb.TimeRange{}, MaxResultSize: proto.Uint64(pageBytes),
	}
	if s.reverse {
		m.Reversed = pbTrue
	}
	extra := appendBool(nil, fieldScanNeedCursor, true)
	if s.after && len(s.at) > 0 {
		extra = appendBool(extra, fieldScanIncludeStart, false)
	}
	if s.with && len(s.stop) > 0 {
		extra = appendBool(extra, fieldScanIncludeStop, true)
	}
	m.ProtoReflect().SetUnknown(extra)
	return m
}

// advance moves on after a page out of the region [from, to).
func (s *scan) advance(c *scanCall, from, to []byte) {
	switch {
	case c.more && len(c.page) > 0:
		s.at, s.after = slices.Clone(c.page[len(c.page)-1].Key), true
	case c.more && c.cursor != nil:
		// The server ran out of time. The row of the cursor may not have been looked at.
		s.at, s.after = c.cursor, false
	case c.more:
		// It ran out of time before it got anywhere; again.
	case s.reverse:
		s.at, s.after = slices.Clone(from), true
		s.done = len(from) == 0 || bytes.Compare(from, s.stop) <= 0
	default:
		s.at, s.after = slices.Clone(to), false
		s.done = len(to) == 0 || s.stop != nil && bytes.Compare(to, s.stop) > 0 ||
			s.stop != nil && !s.with && bytes.Equal(to, s.stop)
	}
}

// below returns a key less than k, and greater than nearly all others that are. A nil k is above
// all keys.
func below(k []byte) []byte {
	high := bytes.Repeat([]byte{0xff}, 32)
	switch {
	case k == nil:
		return high
	case k[len(k)-1] == 0:
		return k[:len(k)-1]
	}
	b := append(slices.Clone(k), high...)
	b[len(k)-1]--
	return b
}
