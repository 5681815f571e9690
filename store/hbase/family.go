package hbase

import (
	"bytes"
	"context"
	"iter"
	"math/big"
	"slices"
	"sync/atomic"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

type family struct {
	db    *DB
	spec  driver.FamilySpec
	table []byte

	// depth is how far into a slice its last cells were found when that was last asked for: the
	// next search begins there. See last.
	depth atomic.Int32
}

func newFamily(d *DB, spec driver.FamilySpec) *family {
	return &family{db: d, spec: spec, table: []byte(d.namespace + ":" + spec.Name)}
}

// send has the client send a call, again where it has to, and returns its response. The client
// writes to the connection without regard to the context, so it must not be waited for.
func (d *DB) send(ctx context.Context, c hrpc.Call) (proto.Message, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	type answer struct {
		m   proto.Message
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		m, err := d.rpc.SendRPC(c)
		answered <- answer{m, err}
	}()
	select {
	case a := <-answered:
		return a.m, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Get implements [driver.Family] with one request, which HBase serves as of one instant, other
// than for the last cells of a slice: see last.
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
		return f.sliceWithHead(ctx, row, s)
	}
	if emptySlice(s) {
		return nil, ctx.Err()
	}
	if len(s.Only) == 0 && s.Limit > 0 {
		if s.Reverse {
			return f.last(ctx, row, s)
		}
		return f.read(ctx, row, s, s.Limit)
	}
	cells, err := f.read(ctx, row, s, 0)
	if err != nil {
		return nil, err
	}
	if s.Reverse {
		slices.Reverse(cells)
	}
	if s.Limit > 0 && len(cells) > s.Limit {
		cells = slices.Clone(cells[:s.Limit])
	}
	return cells, nil
}

func (f *family) sliceWithHead(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if emptySlice(s) || s.End != nil && bytes.Compare(s.End, aboveHead) < 0 {
		s.Start, s.End = nil, aboveHead
	}
	if bytes.Compare(s.Start, aboveHead) <= 0 {
		s.Start, s.Head = nil, false // of one piece
	}
	limit := s.Limit
	if limit > 0 {
		limit += 2 // as many cells as a head can have
	}
	cells, err := f.read(ctx, row, s, limit)
	if err != nil || s.Limit == 0 {
		return cells, err
	}
	n := 0
	for n < len(cells) && driver.InHead(cells[n].Qualifier) {
		n++
	}
	return cells[:min(len(cells), n+s.Limit)], nil
}

// read returns the cells of a slice in ascending order, at most limit of them if that is not zero.
func (f *family) read(ctx context.Context, row []byte, s driver.Slice, limit int) ([]driver.Cell, error) {
	g := &pb.Get{Row: row, Column: columns(s), Filter: cellFilter(s)}
	if limit > 0 {
		g.StoreLimit = proto.Uint32(uint32(min(limit, 1<<30)))
	}
	m, err := f.db.send(ctx, f.db.get(ctx, f.table, row, g))
	if err != nil {
		return nil, err
	}
	return cellsOf(m.(*pb.GetResponse), s.Stamps)
}

// last returns the last s.Limit cells of a slice, descending. HBase reads a row in ascending
// order only, and a row may have a hundred thousand cells of which the last one is wanted. So the
// slice is narrowed from below, by bisection of the space of qualifiers, until what is left is
// neither too little nor much more than asked for: that is then one request, as of one instant,
// and complete, because it reaches to the end of the slice. In a row of 100,000 cells that are
// evenly spread it takes ten requests for the first time, and one or two from then on; where they
// are not, some dozens. A request returns some 260 cells at most.
func (f *family) last(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	most := s.Limit + 256
	low, high := s.Start, s.End // from low there are enough cells, from high too few
	start := s.Start
	if d := f.depth.Load(); d > 0 {
		start = within(s.Start, s.End, uint(d))
	}
	var first []byte // the cells from first to low came together
	for step := 0; ; step++ {
		part := driver.Slice{Start: start, End: s.End, Stamps: s.Stamps}
		limit := most + 1
		if step == 128 {
			// Only somebody who keeps changing these very cells gets us here.
			part.Start, limit = s.Start, 0
		}
		cells, err := f.read(ctx, row, part, limit)
		if err != nil {
			return nil, err
		}
		enough := len(cells) >= s.Limit || bytes.Compare(part.Start, s.Start) <= 0
		switch {
		case limit > 0 && len(cells) > most:
			// The last of those that came are as good a lower bound as any.
			first, low = cells[0].Qualifier, cells[len(cells)-s.Limit].Qualifier
		case enough:
			f.depth.Store(int32(depth(s.Start, s.End, part.Start)))
			cells = cells[max(0, len(cells)-s.Limit):]
			slices.Reverse(cells)
			return slices.Clone(cells), nil
		default:
			high = start
		}
		// Half way is best for cells that are evenly spread. Others are dense somewhere, and what
		// came together tells how dense; half way between that distance and the whole one, in
		// powers of two, is best for them. Taking turns costs twice the better one at most.
		start = within(low, high, 1)
		if first != nil && step%2 == 1 {
			start = beyond(first, low, high)
		}
		if bytes.Compare(start, low) < 0 || high != nil && bytes.Compare(start, high) >= 0 {
			start = low
		}
	}
}

// beyond returns a qualifier above low, whose distance from it is the geometric mean of that
// between first and low and that between low and high.
func beyond(first, low, high []byte) []byte {
	n := max(len(first), len(low), len(high)) + 1
	l, h := fraction(low, n, false), fraction(high, n, true)
	near, far := new(big.Int).Sub(l, fraction(first, n, false)), h.Sub(h, l)
	more := (far.BitLen() - near.BitLen()) / 2
	if more <= 0 {
		return within(low, high, 1)
	}
	return l.Add(l, near.Lsh(near, uint(more))).FillBytes(make([]byte, n))
}

// within returns a qualifier between low and high, a 2^depth-th of their distance below high.
// They are taken as fractions in base 256; a nil high is 1.
func within(low, high []byte, depth uint) []byte {
	n := max(len(low), len(high)) + int(depth)/8 + 1
	h, l := fraction(high, n, true), fraction(low, n, false)
	h.Sub(h, l.Rsh(l.Sub(h, l), depth))
	if h.BitLen() > 8*n {
		return bytes.Repeat([]byte{0xff}, n)
	}
	return h.FillBytes(make([]byte, n))
}

// depth returns how deep between low and high the qualifier q is, so that within finds a place
// near it, but not above.
func depth(low, high, q []byte) int {
	n := max(len(low), len(high), len(q)) + 1
	h, l, x := fraction(high, n, true), fraction(low, n, false), fraction(q, n, false)
	whole, rest := l.Sub(h, l).BitLen(), x.Sub(h, x).BitLen()
	return min(max(0, whole-rest-1), 4096)
}

func fraction(q []byte, n int, open bool) *big.Int {
	if q == nil && open {
		return new(big.Int).Lsh(big.NewInt(1), uint(8*n))
	}
	return new(big.Int).Lsh(new(big.Int).SetBytes(q), uint(8*(n-len(q))))
}

func emptySlice(s driver.Slice) bool {
	return len(s.Only) == 0 && s.End != nil && bytes.Compare(s.Start, s.End) >= 0
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
		err := f.spec.CheckRange(r)
		if err == nil {
			err = r.Cells.Check()
		}
		if err != nil {
			yield(driver.Row{}, err)
			return
		}
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

// A scan is where a scan stands. It keeps nothing at the server, so that splits, moves and pauses
// between two pages do not matter.
type scan struct {
	f       *family
	reverse bool
	// What is left is from at, which is excluded where after is set, to stop, which is included
	// where with is set. A nil at is the first or, in reverse, the last row.
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
	s.done = r.Empty() || emptySlice(r.Cells)
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
	for {
		c := &scanCall{call: s.f.db.request(ctx, s.f.table, key), rows: rows, scan: s.message(), stamps: s.stamps}
		m, err := s.f.db.send(ctx, c)
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
