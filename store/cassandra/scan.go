package cassandra

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	// The cells of a page. As long as nothing is known about the family's cells, few enough that
	// large values do not overwhelm the server; later as many as make about pageBytes.
	firstPage = 128
	maxPage   = 1024
	pageBytes = 1 << 20

	// At most so many buckets are read at a time.
	maxAhead = 16

	// So many ranges of one scan are read at a time. Each is a query, of a few rows mostly.
	scansAhead = 64

	// A scan in any order reads so many cells of a wide row along with others; a row with more
	// is then read on its own.
	wideCells = 64
)

// Scan implements [driver.Family].
func (f *family) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		if err := f.spec.CheckIndexedRange(r); err != nil {
			yield(driver.Row{}, err)
			return
		}
		r.Ahead(ctx, scansAhead, f.scan)(yield)
	}
}

func (f *family) scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		if ctx.Err() != nil {
			yield(driver.Row{}, fmt.Errorf("cassandra: scan: %w", pause.Ended(ctx)))
			return
		}
		if r.Empty() || r.Cells.Empty() {
			return
		}
		s := &scan{f: f, r: r, ctx: ctx}
		s.filtering.Store(f.db.noIn && len(r.Cells.Only) > 1)
		var cancel context.CancelFunc
		s.pages, cancel = context.WithCancel(ctx)
		defer s.wait.Wait() // no read outlives the iteration
		defer cancel()
		if err := s.run(yield); err != nil {
			yield(driver.Row{}, f.db.failed(ctx, "scan", err))
		}
	}
}

// A scan reads pages in goroutines of their own, one of them always being ahead of the caller.
//
// It does not use the server's paging where rows are in order. A page is a query with a LIMIT,
// and the next one starts at the last row of the page, which may have been cut off, and is read
// again. That way each row is read by one query, as of one instant.
type scan struct {
	f     *family
	r     driver.Range
	ctx   context.Context // of the caller; lives as long as the iteration
	pages context.Context // of the reads
	wait  sync.WaitGroup

	filtering atomic.Bool // here instead of in the server; see filterHere
}

// A page is rows, and how to go on.
type page struct {
	rows []driver.Row
	more bool // then next reads the next page
	next source
	err  error
}

// A source reads a page, with about so many rows as are wanted, or a full one where that is zero.
type source func(ctx context.Context, want int) page

// chained is a page that sources follow, one after the other.
func chained(p page, sources ...source) page {
	if p.err != nil || len(sources) == 0 {
		return p
	}
	if next := p.next; p.more {
		p.next = func(ctx context.Context, want int) page { return chained(next(ctx, want), sources...) }
		return p
	}
	p.more = true
	p.next = func(ctx context.Context, want int) page { return chained(sources[0](ctx, want), sources[1:]...) }
	return p
}

// start reads a page in the background.
func (s *scan) start(want int, read source) <-chan page {
	done := make(chan page, 1)
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		done <- read(s.pages, want)
	}()
	return done
}

// run yields the rows of all pages. It returns nil when the caller has stopped.
func (s *scan) run(yield func(driver.Row, error) bool) error {
	// The sources are read one after the other: the buckets of a scan in order, or the whole
	// table.
	source := s.sources()
	left := s.r.Limit // zero is no limit
	var ahead []<-chan page
	window := 1
	rows := 0 // of the source that is being read
	for {
		for len(ahead) < window {
			read, ok := source()
			if !ok {
				break
			}
			ahead = append(ahead, s.start(left, read))
		}
		if len(ahead) == 0 {
			return nil
		}
		var p page
		select {
		case p = <-ahead[0]:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		if p.err != nil {
			return p.err
		}
		rows += len(p.rows)
		enough := s.r.Limit > 0 && len(p.rows) >= left
		switch {
		case enough:
		case p.more:
			window = 1
			ahead[0] = s.start(max(0, left-len(p.rows)), p.next)
		default:
			ahead = ahead[1:]
			// Buckets with few rows are read several at a time, as many as make a page.
			window = min(2*window, maxAhead, 1+maxPage/max(1, 2*rows))
			if s.r.Limit > 0 {
				window = min(window, 1+(left-len(p.rows))/max(1, rows))
			}
			rows = 0
		}
		for !enough && len(ahead) < window {
			read, ok := source()
			if !ok {
				break
			}
			ahead = append(ahead, s.start(max(0, left-len(p.rows)), read))
		}
		for _, row := range p.rows {
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			if !yield(row, nil) {
				return nil
			}
			if left--; left == 0 {
				return nil
			}
		}
		if enough {
			return nil
		}
	}
}

// sources returns an iterator of what is to be read.
func (s *scan) sources() func() (source, bool) {
	if s.r.AnyOrder {
		return s.unorderedSources()
	}
	spec := s.f.spec
	prefix := s.r.Start[:spec.PrefixBytes] // CheckRange has seen that it is there
	start, end := s.r.Start[spec.PrefixBytes:], s.r.End
	if end != nil {
		if bytes.HasPrefix(end, prefix) {
			end = blob(end[spec.PrefixBytes:])
		} else {
			end = nil // above all keys with the prefix
		}
	}
	first, last := buckets(start, end, spec.SpreadBits)
	at, step := first, 1
	if s.r.Reverse {
		at, step = last, -1
	}
	return func() (source, bool) {
		if at < first || at > last {
			return nil, false
		}
		c := cursor{part: bucketKey(prefix, at), lower: s.r.Start, upper: s.r.End}
		at += step
		return func(ctx context.Context, want int) page { return s.ordered(ctx, want, c) }, true
	}
}

// unorderedSources returns the sources of a scan in any order: the whole table, or what is left of it after a row.
func (s *scan) unorderedSources() func() (source, bool) {
	if s.f.spec.Layout == driver.LayoutOrdered {
		s.filtering.Store(true)
	}
	u := &unordered{scan: s, lower: s.r.Start, upper: s.r.End}
	u.least, u.most = Tokens(s.r.Part, s.r.Parts)
	sources := []source{u.page}
	if s.r.After != nil {
		sources = u.after(s.r.After)
	}
	return func() (source, bool) {
		if len(sources) == 0 {
			return nil, false
		}
		next := sources[0]
		sources = sources[1:]
		return next, true
	}
}

// A cursor is what is left of a bucket. A row key is in [lower, upper], apart from the bounds
// that are excluded; an upper nil is unbounded.
type cursor struct {
	part                []byte
	lower, upper        []byte
	notLower, withUpper bool
}

// ordered reads a page of a bucket.
func (s *scan) ordered(ctx context.Context, want int, c cursor) page {
	f := s.f
	here := s.filtering.Load()
	n := f.sizes.page(want)
	if here {
		n = f.sizes.page(0)
	}
	stmt, values := s.selectOrdered(c, n, here)
	q := f.db.reading(f.db.session.Query(stmt, values...)).RoutingKey(c.part)
	rows, cells, size, err := f.readRows(q.IterContext(ctx), s.r)
	if err != nil {
		if s.filterHere(ctx, here, err) {
			return s.ordered(ctx, want, c)
		}
		if TooManyMarkers(err) {
			if p, ok := s.inPieces(c); ok {
				return p
			}
		}
		return page{err: err}
	}
	f.sizes.saw(len(rows), cells, size)
	if cells < n {
		return page{rows: s.keep(rows, here)}
	}
	// The page is full: its last row may have been cut off.
	last := rows[len(rows)-1].Key
	again := here || len(s.r.Cells.Only) != 1 // with one cell a row it was not
	if again && len(rows) > 1 {
		rows = rows[:len(rows)-1]
	} else if again {
		// Nor does it fit on a page.
		whole, err := f.get(ctx, last, s.r.Cells)
		if err != nil {
			return page{err: err}
		}
		rows = []driver.Row{{Key: last, Cells: whole}}
		if len(whole) == 0 {
			rows = nil
		}
		again = false
	}
	if s.r.Reverse {
		c.upper, c.withUpper = last, again
	} else {
		c.lower, c.notLower = last, !again
	}
	return page{rows: s.keep(rows, here), more: true, next: func(ctx context.Context, want int) page { return s.ordered(ctx, want, c) }}
}

// inPieces reads what is left of a bucket in pieces. It reports false where there is nothing to cut.
func (s *scan) inPieces(c cursor) (page, bool) {
	low, high := ends(s.f.spec, c.part)
	if bytes.Compare(low, c.lower) < 0 {
		low = c.lower
	}
	if c.upper != nil && (high == nil || bytes.Compare(c.upper, high) < 0) {
		high = c.upper
	}
	var sources []source
	for _, middle := range append(cuts(low, high), nil) {
		piece := c
		if middle != nil {
			piece.upper, piece.withUpper = middle, false
			c.lower, c.notLower = middle, false
		}
		sources = append(sources, func(ctx context.Context, want int) page { return s.ordered(ctx, want, piece) })
	}
	if len(sources) == 1 {
		return page{}, false
	}
	if s.r.Reverse {
		slices.Reverse(sources)
	}
	return chained(page{}, sources...), true
}

// filterHere reports whether a page is to be read again without the conditions on cells. Looking
// for few cells among very many, the server may not fill a page before its own timeout. What it
// gives without conditions comes page by page at a steady pace, and is filtered here.
func (s *scan) filterHere(ctx context.Context, here bool, err error) bool {
	var timeout *gocql.RequestErrReadTimeout
	conditions := len(s.r.Cells.Only) > 0 || len(s.r.Cells.Start) > 0 || s.r.Cells.End != nil
	if here || !conditions || ctx.Err() != nil || !errors.As(err, &timeout) && !errors.Is(err, gocql.ErrTimeoutNoResponse) {
		return false
	}
	s.filtering.Store(true)
	return true
}

// there leaves out cells whose value is null. Such a one has ended, and only some index has something of it for longer: whoever put it
// the last time, with a time to live, did not know of that index.
func there(rows []driver.Row) []driver.Row {
	kept := rows[:0]
	for _, row := range rows {
		row.Cells = slices.DeleteFunc(row.Cells, func(c driver.Cell) bool { return c.Value == nil })
		if len(row.Cells) > 0 {
			kept = append(kept, row)
		}
	}
	return kept
}

// keep leaves out what is not there, and filters rows that were read without conditions.
func (s *scan) keep(rows []driver.Row, here bool) []driver.Row {
	rows = there(rows)
	if !here {
		return rows
	}
	kept := rows[:0]
	for _, row := range rows {
		row.Cells = slices.DeleteFunc(row.Cells, func(c driver.Cell) bool { return !s.r.Cells.Contains(c.Qualifier) })
		if len(row.Cells) > 0 && s.within(row.Key) {
			kept = append(kept, row)
		}
	}
	return kept
}

// within reports whether a row is in the range.
func (s *scan) within(row []byte) bool {
	return bytes.Compare(s.r.Start, row) <= 0 && (s.r.End == nil || bytes.Compare(row, s.r.End) < 0)
}

// selectOrdered returns the query of a page of n cells.
func (s *scan) selectOrdered(c cursor, n int, here bool) (stmt string, values []any) {
	var b strings.Builder
	b.WriteString(columnsOf(s.r.Cells))
	b.WriteString(s.f.table)
	b.WriteString(" WHERE p = ?")
	values = append(make([]any, 0, 8), c.part)
	switch {
	case c.notLower:
		b.WriteString(" AND k > ?")
		values = append(values, c.lower)
	case len(c.lower) > 0:
		b.WriteString(" AND k >= ?")
		values = append(values, bound(c.lower))
	}
	switch {
	case c.withUpper:
		b.WriteString(" AND k <= ?")
		values = append(values, c.upper)
	case c.upper != nil:
		b.WriteString(" AND k < ?")
		values = append(values, bound(c.upper))
	}
	keys := len(values)
	if !here {
		values = whereCells(&b, values, s.r.Cells)
	}
	filtered := len(values) > keys
	if s.r.Reverse {
		b.WriteString(" ORDER BY k DESC, q DESC")
	}
	b.WriteString(" LIMIT ?")
	values = append(values, n)
	if filtered {
		b.WriteString(" ALLOW FILTERING")
	}
	return b.String(), values
}

// An unordered scan goes through the whole table in the order of the partitions' hashes, by the
// server's own pages. The pages of one query are not of one instant, so that a row that is on
// two of them is read again, as is one with too many cells.
type unordered struct {
	*scan
	least, most  int64  // hashes of partitions
	lower, upper []byte // keys of rows, from lower to below upper
	over         []byte // nil, or a partition: those that are not greater are left out

	state []byte // where the next page begins
	held  *driver.Row
	cut   bool // the held row has cells that are not there
}

func (u *unordered) page(ctx context.Context, want int) page {
	f := u.f
	here := u.filtering.Load()
	stmt, values := u.selectAny(here)
	q := f.db.reading(f.db.session.Query(stmt, values...)).PageSize(f.sizes.page(want)).PageState(u.state)
	i := q.IterContext(ctx)
	state := slices.Clone(i.PageState())
	rows, cells, size, err := f.readRows(i, u.r)
	if err != nil {
		// From the beginning, as the place in one query means nothing to another: only possible, and needed, for the
		// first page.
		if u.filterHere(ctx, here, err) && u.state == nil {
			return u.page(ctx, want)
		}
		if TooManyMarkers(err) {
			return u.inPieces(ctx, err)
		}
		return page{err: unindexed(u.r, err)}
	}
	f.sizes.saw(len(rows), cells, size)
	p := page{more: len(state) > 0, next: u.page}
	for _, row := range rows {
		if u.held != nil && bytes.Equal(u.held.Key, row.Key) {
			u.cut = true
			continue
		}
		if err := u.emit(ctx, &p); err != nil {
			return page{err: err}
		}
		u.held, u.cut = &row, f.spec.Layout == driver.LayoutWide && len(row.Cells) >= wideCells
	}
	if !p.more {
		if err := u.emit(ctx, &p); err != nil {
			return page{err: err}
		}
	}
	u.state = state
	return p
}

// emit appends the held row to a page.
func (u *unordered) emit(ctx context.Context, p *page) (err error) {
	if u.held == nil {
		return nil
	}
	row := *u.held
	u.held = nil
	if !u.within(row.Key) || u.over != nil && bytes.Compare(partition(u.f.spec, row.Key), u.over) <= 0 {
		return nil
	}
	if u.cut {
		if row.Cells, err = u.f.get(ctx, row.Key, u.r.Cells); err != nil {
			return err
		}
	}
	if len(row.Cells) > 0 {
		p.rows = append(p.rows, u.keep([]driver.Row{row}, u.filtering.Load())...)
	}
	return nil
}

// inPieces reads the rest of an unordered scan in pieces, after a read of it was refused.
func (u *unordered) inPieces(ctx context.Context, refusal error) page {
	if u.held != nil {
		after := u.after(u.held.Key)
		var p page
		if err := u.emit(ctx, &p); err != nil {
			return page{err: err}
		}
		return chained(p, after...)
	}
	var sources []source
	add := func(change func(*unordered)) {
		piece := *u
		piece.state = nil
		change(&piece)
		sources = append(sources, piece.page)
	}
	if span := uint64(u.most) - uint64(u.least); span >= fewHashes {
		for i := range int64(piecesOfScan) {
			add(func(piece *unordered) {
				piece.least = u.least + i*int64(span/piecesOfScan)
				if i < piecesOfScan-1 {
					piece.most = piece.least + int64(span/piecesOfScan) - 1
				}
			})
		}
		return chained(page{}, sources...)
	}
	if u.f.spec.Layout == driver.LayoutOrdered && u.r.Index == nil {
		lower := u.lower
		for _, middle := range append(cuts(u.lower, u.upper), nil) {
			add(func(piece *unordered) {
				piece.lower = lower
				if middle != nil {
					piece.upper, lower = middle, middle
				}
			})
		}
	}
	if len(sources) < 2 {
		return page{err: refusal}
	}
	return chained(page{}, sources...)
}

// after returns what is left of the scan after a row: the rest of its partition, the partitions of the same hash, and those
// above that hash.
func (u *unordered) after(row []byte) []source {
	part := partition(u.f.spec, row)
	hash := hashOf(part)
	same := *u
	same.least, same.most, same.over, same.held, same.state = hash, hash, part, nil, nil
	sources := []source{same.page}
	if u.f.spec.Layout == driver.LayoutOrdered {
		c := cursor{part: part, lower: row, upper: u.upper, notLower: true}
		if bytes.Compare(u.lower, row) > 0 {
			c.lower, c.notLower = u.lower, false
		}
		sources = nil
		if c.upper == nil || bytes.Compare(c.lower, c.upper) < 0 {
			sources = append(sources, func(ctx context.Context, want int) page { return u.ordered(ctx, want, c) })
		}
		sources = append(sources, func(ctx context.Context, want int) page {
			p := u.sameHash(ctx, part)
			if TooManyMarkers(p.err) {
				return same.page(ctx, want)
			}
			return p
		})
	}
	if hash < u.most {
		above := same
		above.least, above.most, above.over = hash+1, u.most, nil
		sources = append(sources, above.page)
	}
	return sources
}

// sameHash reads the partitions of the same hash that come after one: the server has them in the order of their keys. There
// is hardly ever one.
func (u *unordered) sameHash(ctx context.Context, part []byte) page {
	i := u.f.db.reading(u.f.db.session.Query("SELECT DISTINCT p FROM "+u.f.table+" WHERE token(p) = token(?)", part)).IterContext(ctx)
	var sources []source
	for p := []byte(nil); i.Scan(&p); p = nil {
		if bytes.Compare(p, part) > 0 {
			c := cursor{part: p, lower: u.lower, upper: u.upper}
			sources = append(sources, func(ctx context.Context, want int) page { return u.ordered(ctx, want, c) })
		}
	}
	return chained(page{err: i.Close()}, sources...)
}

// selectAny returns the query of an unordered scan.
func (u *unordered) selectAny(here bool) (stmt string, values []any) {
	var b strings.Builder
	wide := u.f.spec.Layout == driver.LayoutWide
	column := "p"
	if wide {
		column = "k"
	}
	if u.least > math.MinInt64 {
		b.WriteString(" AND token(" + column + ") >= ?")
		values = append(values, u.least)
	}
	if u.most < math.MaxInt64 {
		b.WriteString(" AND token(" + column + ") <= ?")
		values = append(values, u.most)
	}
	hashed := len(values)
	// The server finds the bounds of keys, or the slices of wide rows, by the index of each
	// partition. For the slices of other rows it would have to read all cells, and for the bounds
	// of wide rows all partitions. It would time out where it finds nothing for long.
	if u.r.Index != nil {
		values = whereIndex(&b, values, u.r.Index)
		hashed = len(values) // keys are looked at here
	} else if !wide {
		if len(u.lower) > 0 {
			b.WriteString(" AND k >= ?")
			values = append(values, bound(u.lower))
		}
		if u.upper != nil {
			b.WriteString(" AND k < ?")
			values = append(values, bound(u.upper))
		}
	}
	if wide && !here {
		values = whereCells(&b, values, u.r.Cells)
	}
	stmt = columnsOf(u.r.Cells) + u.f.table
	if !wide {
		stmt = "SELECT p, " + strings.TrimPrefix(stmt, "SELECT ")
	}
	if where := strings.TrimPrefix(b.String(), " AND "); where != "" {
		stmt += " WHERE " + where
	}
	filtered := len(values) > hashed
	if wide {
		stmt += " PER PARTITION LIMIT ?"
		values = append(values, wideCells)
	}
	if filtered {
		stmt += " ALLOW FILTERING"
	}
	return stmt, values
}

// Tokens returns the least and the greatest hash of partitions, 64 bits with a sign, of a part of a scan.
func Tokens(part, parts int) (least, most int64) {
	first := func(i int) int64 {
		quotient, _ := bits.Div64(uint64(i), 0, uint64(max(1, parts)))
		return int64(quotient ^ 1<<63)
	}
	if part+1 < parts {
		return first(part), first(part+1) - 1
	}
	return first(part), math.MaxInt64
}

// columnsOf is what a query of the cells of several rows begins with.
func columnsOf(cells driver.Slice) string {
	columns := "SELECT k, q, v"
	if cells.Stamps {
		columns += ", writetime(v)"
	}
	for _, name := range cells.Indexes {
		columns += ", " + name
	}
	return columns + " FROM "
}

// misplaced returns the error of a row that no other scan finds, and no Get. What its key has in the clear stays unsaid.
func misplaced(table string, p, k []byte) error {
	return fmt.Errorf("%w: a row of another partition is in partition p = 0x%x of table %s, where this module does not write it: delete it there, "+
		"and restore it where it was; the SHA-256 of its k is %x", driver.ErrCorrupt, p, table, sha256.Sum256(k))
}

// readRows reads all of an answer to a query of the scan. Reverse rows come with descending cells
// and are turned round. A value is nil where it is null.
func (f *family) readRows(i *gocql.Iter, r driver.Range) (rows []driver.Row, cells, size int, err error) {
	all := make([]driver.Cell, 0, i.NumRows())
	from := 0
	flush := func() {
		if len(rows) > 0 {
			last := &rows[len(rows)-1]
			last.Cells = all[from:len(all):len(all)]
			if r.Reverse {
				slices.Reverse(last.Cells)
			}
			from = len(all)
		}
	}
	var p, k, own []byte
	numbers := make([]*big.Int, len(r.Cells.Indexes))
	parts := len(i.Columns()) > 0 && i.Columns()[0].Name == "p"
	for {
		c := driver.Cell{Value: []byte{}}
		into := []any{&p, &k, &c.Qualifier, &c.Value, &c.Stamp}
		if !r.Cells.Stamps {
			into = into[:4]
		}
		if !parts {
			into = into[1:]
		}
		for n := range numbers {
			into = append(into, &numbers[n])
		}
		if !i.Scan(into...) {
			break
		}
		c.Qualifier = blob(c.Qualifier)
		for n, name := range r.Cells.Indexes {
			if len(c.Qualifier) == 0 {
				c.Index = append(c.Index, indexValue(name, numbers[n]))
			}
		}
		size += len(k) + len(c.Qualifier) + len(c.Value)
		fresh := len(rows) == 0 || !bytes.Equal(rows[len(rows)-1].Key, k)
		if parts && fresh && len(k) >= f.spec.PrefixBytes {
			own = appendPartition(own[:0], f.spec, k)
		}
		if parts && !bytes.Equal(p, own) {
			_ = i.Close()
			return nil, 0, 0, misplaced(f.table, p, k)
		}
		if fresh {
			flush()
			rows = append(rows, driver.Row{Key: k})
			k = nil
		}
		all = append(all, c)
	}
	flush()
	f.db.clock.See(all)
	return rows, len(all), size, i.Close()
}
