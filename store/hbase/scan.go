package hbase

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase/internal/wire"
)

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
		if r.Each != nil && !jumps(r) {
			r.Ahead(ctx, scansAhead, f.scan)(yield)
			return
		}
		f.scan(ctx, r)(yield)
	}
}

// scan scans a range that was checked.
func (f *family) scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		s := newScan(f, r.Share())
		for rows := 0; !s.done; {
			limit := r.Limit - rows
			if s.jump != nil {
				limit = s.jump.wanted()
			}
			page, err := s.next(ctx, limit)
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for i, row := range page {
				if err := ctx.Err(); err != nil {
					yield(driver.Row{}, s.f.fail(ctx, "scan", err))
					return
				}
				page[i] = driver.Row{} // so that a slow reader does not hold them all
				if !yield(row, nil) {
					return
				}
				if rows++; rows == r.Limit && s.jump == nil {
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
	filter      filter.Filter // of cells; may be nil
	stamps      bool
	done        bool

	jump *jump // where several ranges are scanned
}

func newScan(f *family, r driver.Range) *scan {
	s := &scan{f: f, reverse: r.Reverse, columns: wire.Columns(r.Cells), filter: wire.CellFilter(r.Cells), stamps: r.Cells.Stamps}
	if f.foreign {
		s.columns = nil // of all column families
	}
	if r.Each != nil {
		s.jump = newJump(r)
		r.Start, r.End = r.Each[0].Start, r.Each[len(r.Each)-1].End
	}
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
		return nil, s.f.fail(ctx, "scan", err)
	}
	ctx, cancel := s.f.db.bound(ctx)
	defer cancel()
	page, err := s.page(ctx, limit)
	if err != nil {
		return nil, s.f.fail(ctx, "scan", err)
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
		c := &scanCall{call: s.f.db.request(ctx, s.f.table, key), rows: rows, scan: s.message(), decode: s.f.decoder(s.stamps)}
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
		if s.jump != nil {
			return s.jump.within(s, c.page), nil
		}
		return c.page, nil
	}
}

// message says which rows are wanted.
func (s *scan) message() *pb.Scan {
	m := &pb.Scan{
		Column: s.columns, Filter: wire.FilterMessage(s.filter), StartRow: s.at, StopRow: s.stop,
		TimeRange: &pb.TimeRange{}, MaxResultSize: proto.Uint64(pageBytes),
	}
	if s.jump != nil {
		m.Filter = wire.FilterMessage(s.jump.filter(s.filter))
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
