package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/tokens"
	"github.com/rangecrypt/rangecrypt/store/internal/unproven"
)

// A batch is rows or postings as they were scanned, and what becomes of them.
type batch struct {
	rows []driver.Row
	end  bool  // nothing comes after the rows but err
	err  error // of the scan

	hits    []*Found // by row; nil where one does not count
	openErr error
	opened  chan struct{} // where the batch is opened by another goroutine, closed when it is done
}

// A rangeScan scans one range, in the order of keys.
type rangeScan struct {
	f     *finder
	r     keyRange
	next  func() (driver.Row, error, bool)
	size  int  // of the next batch
	grows int  // how many times as large the one after it is
	read  int  // rows so far
	last  bool // no range comes after this one

	order ranges.Rising
	yield func(*Found, error) bool
}

// scan yields what satisfies the conditions in one range, in the order of keys.
//
// A short range is read here, and opened here too by the time that another goroutine is awake to do
// it, which takes as long as opening some 50 rows. Beyond [inline] rows, one goroutine reads ahead,
// and others open batches while it does, which takes processors or, for postings, round trips.
func (f *finder) scan(ctx context.Context, r keyRange, last bool) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		s := rangeScan{f: f, r: r, last: last, size: firstRows, grows: moreRows, yield: yield}
		if f.hinted(&f.way) {
			s.size, s.grows = firstPostings, morePostings
		}
		next, stop := iter.Pull2(f.scannedRange(ctx, r))
		defer stop()
		s.next = next
		if s.inline(ctx) {
			s.ahead(ctx)
		}
	}
}

// scannedRange yields the rows of a range or, where a column drives the query, the postings.
func (f *finder) scannedRange(ctx context.Context, r keyRange) iter.Seq2[driver.Row, error] {
	if r.allForms {
		return f.eachForm(ctx)
	}
	if f.driving != nil && r.By != nil && r.By.Order != nil {
		return f.lookUp(ctx, r)
	}
	f.tally.Requests++
	if f.served() {
		return chunks.Scanned(ctx, f.data, f.indexed(&f.way, r))
	}
	scan := driver.Range{Start: r.Start, End: r.End, Reverse: f.reverse, AnyOrder: f.anyOrder, After: r.after}
	if f.driving != nil {
		return chunks.Scanned(ctx, f.postings, scan)
	}
	scan.Cells = f.table.Slice(f.need)
	return chunks.Scanned(ctx, f.data, scan)
}

// lookUp yields the postings of the codes of a range.
func (f *finder) lookUp(ctx context.Context, r keyRange) iter.Seq2[driver.Row, error] {
	l := &tokens.Lookup{Postings: f.postings, Reverse: f.reverse, Few: f.few}
	l.Range = func(code int64) driver.Bounds {
		key := r.By.AppendTag(bytes.Clone(r.By.Lead), code)
		one := keyRange{Range: ranges.Range{Start: key, End: ope.PrefixEnd(key), Group: r.Group}}
		if r.resume != nil && r.resume.Code == code {
			one = r.resume.rest(one, &f.way)
		}
		return driver.Bounds{Start: one.Start, End: one.End}
	}
	l.Codes = func(ctx context.Context) iter.Seq2[int64, error] {
		return func(yield func(int64, error) bool) {
			for code, err := range r.Within.Codes(ctx, r.By.Order, f.reverse) {
				if err != nil {
					err = indexError(r.By, err)
				} else if r.resume != nil && r.resume.Code == code {
					if left := l.Range(code); left.End != nil && bytes.Compare(left.Start, left.End) >= 0 {
						continue // the page before ended with the greatest key that a row can have
					}
				}
				if !yield(code, err) {
					return
				}
			}
		}
	}
	return func(yield func(driver.Row, error) bool) {
		defer func() {
			f.looked.Add(l.Looked.Load())
			f.lookups.Add(l.Scans.Load())
		}()
		l.Rows(ctx)(yield)
	}
}

// open turns what was scanned in a range into rows of the answer.
func (f *finder) open(ctx context.Context, r keyRange, rows []driver.Row, processors int) (finish func() ([]*Found, error)) {
	if f.hinted(&f.way) && len(rows) > 0 {
		return func() ([]*Found, error) {
			hits := make([]*Found, len(rows))
			return hits, f.resolve(ctx, r, rows, func(int) bool { return true }, hits)
		}
	}
	return f.openRows(ctx, r, rows, processors)
}

// batch reads the next batch.
func (s *rangeScan) batch(ctx context.Context) *batch {
	f, n := s.f, s.size
	if f.hinted(&f.way) {
		n = f.atOnce(n)
	}
	if left := f.few - s.read; left > 0 {
		n = min(n, left)
	}
	b := &batch{rows: make([]driver.Row, 0, n)}
	if len(f.relies) > 0 && (f.snapshot == nil || f.moving) {
		defer func() {
			f.unconfirmed.Store(true)
			if b.end && s.last && !f.hinted(&f.way) {
				atEnd := f.beginCheck(ctx)
				f.atEnd.Store(&atEnd)
			}
		}()
	}
	for bytes := 0; len(b.rows) < n && bytes < rowsize.Enough; {
		row, err, ok := s.next()
		if !ok || err != nil {
			b.end, b.err = true, err
			break
		}
		b.rows, bytes = append(b.rows, row), bytes+chunks.SizeOf(row)
	}
	if n == s.size {
		s.size = min(s.grows*s.size, chunks.FullBatch)
	}
	s.read += len(b.rows)
	return b
}

// emit yields the rows of a batch that was opened, and reports whether to go on.
func (s *rangeScan) emit(b *batch) (more bool) {
	f := s.f
	f.tally.Hits += len(b.rows)
	if b.openErr != nil {
		return s.yield(nil, b.openErr) && false
	}
	for _, hit := range b.hits {
		if hit != nil && s.r.Drawn(hit.key) && s.order.Falls(f.table.CodeOf(s.r.By, hit.record), f.reverse) {
			return s.yield(nil, fmt.Errorf("%w: column %q: rows are not in the order of their ciphertexts, as if its index had been put back; "+
				"'rangecrypt verify --repair' stores them again", fault.ErrTampered, s.r.By.Name)) && false
		}
		if hit == nil || (f.driving != nil || len(f.ways) > 1) && !f.first(hit) {
			f.tally.Discarded++
		} else if !s.yield(hit, nil) {
			return false
		}
	}
	if b.err != nil {
		s.yield(nil, b.err)
	}
	return !b.end
}

// inline reads and opens the beginning of a range here, and reports whether there is more.
func (s *rangeScan) inline(ctx context.Context) (more bool) {
	for b := s.batch(ctx); b != nil; {
		read := s.read
		finish := s.f.open(ctx, s.r, b.rows, runtime.GOMAXPROCS(0))
		var next *batch
		if !s.f.hinted(&s.f.way) && !b.end && read < inline && read != s.f.few {
			next = s.batch(ctx)
		}
		b.hits, b.openErr = finish()
		if !s.emit(b) {
			return false
		}
		if next == nil && read < inline {
			next = s.batch(ctx)
		}
		b = next
	}
	return true
}

// ahead lets one goroutine read, and others open what it has read.
func (s *rangeScan) ahead(ctx context.Context) {
	ahead := runtime.GOMAXPROCS(0)
	if s.f.hinted(&s.f.way) {
		ahead = 1 // many goroutines open one batch of postings
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	query := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan *batch, ahead)
	var ended error
	workers.Go(func() {
		defer close(batches)
		relay.Into(&ended, func() error {
			for more := true; more; {
				b := s.batch(query)
				b.opened, more = make(chan struct{}), !b.end
				select {
				case batches <- b:
				case <-ctx.Done():
					return nil
				}
				workers.Go(func() {
					defer close(b.opened)
					relay.Into(&b.openErr, func() (err error) {
						b.hits, err = s.f.open(ctx, s.r, b.rows, 1)()
						return err
					})
				})
			}
			return nil
		})
	})
	for b := range batches {
		<-b.opened
		relay.Throw(b.openErr)
		if !s.emit(b) {
			return
		}
	}
	relay.Throw(ended)
	if ctx.Err() != nil {
		s.yield(nil, pause.Ended(ctx))
	}
}

// openRows turns scanned rows, or postings that have copies of rows, into rows of the answer. Other goroutines, up to a
// number of processors less one, begin at once; finish takes part and returns when all rows are opened.
func (f *finder) openRows(ctx context.Context, r keyRange, rows []driver.Row, processors int) (finish func() ([]*Found, error)) {
	hits, hints := make([]*Found, len(rows)), make([]bool, len(rows))
	copied := f.driving != nil && f.driving.CopiesHave(f.need)
	open := func(rows []driver.Row, hits []*Found, hints []bool, s *rowcodec.Scratch) (err error) {
		for i, row := range rows {
			var record *rowcodec.Record
			switch {
			case f.plan.unproven:
				record, err = unproven.Read(ctx, f.table, f.data, row, f.need, s)
			case f.driving == nil || f.served():
				record, err = f.table.Opened(ctx, f.data, row, f.need, s)
			case copied:
				record, hints[i], err = f.openCopy(row, s)
			default:
				hints[i] = true
			}
			if err != nil {
				return err
			}
			if record != nil && f.satisfies(record, r) {
				hits[i] = &Found{record: record, key: row.Key}
			}
		}
		return nil
	}
	const share = 16
	var taken atomic.Int64
	work := func() error {
		s := new(rowcodec.Scratch)
		for {
			to := int(taken.Add(share))
			if to-share >= len(rows) {
				return nil
			}
			if err := open(rows[to-share:min(to, len(rows))], hits[to-share:], hints[to-share:], s); err != nil {
				return err
			}
		}
	}
	var group relay.Group
	for range min(processors-1, len(rows)/(2*share)) {
		group.Go(work)
	}
	return func() ([]*Found, error) {
		err := work()
		if err := cmp.Or(group.Wait(), err); err != nil {
			return nil, err
		}
		if !slices.Contains(hints, true) {
			return hits, nil
		}
		err = f.resolve(ctx, r, rows, func(i int) bool { return hints[i] }, hits)
		if copied && err == nil {
			recopy.Met(ctx, f.table, f.driving, rows, func(i int) bool { return hits[i] != nil })
		}
		return hits, err
	}
}

// openCopy returns the row that a posting has a copy of, or reports that the posting is a hint. So is a copy that a client
// made which knows more of the table, or one that had slept since before the key was replaced.
func (f *finder) openCopy(posting driver.Row, s *rowcodec.Scratch) (r *rowcodec.Record, hint bool, err error) {
	value := rowcodec.PostingValue(posting.Cells)
	if !rowcodec.HasCopy(value) {
		return nil, true, nil
	}
	r, err = f.table.OpenCopy(f.driving, posting.Key, value, f.need, s)
	if errors.As(err, new(rowcodec.NewerRow)) || errors.Is(err, fault.ErrWrongKey) {
		return nil, true, nil
	}
	return r, false, err
}

// atOnce returns of how many postings, at most most, the rows are read together: of few, where these are large.
func (f *finder) atOnce(most int) int { return f.sizes.Rows(driver.Slice{}, rowsize.Enough, most) }

// A weighed family notes how large the rows of a batch are, of which a query may want a small part only.
type weighed struct {
	driver.Family
	sizes *driver.Sizes
}

func (w weighed) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	found, bytes := 0, 0
	read, err := w.Family.GetBatch(ctx, rows, s)
	for _, cells := range read {
		if len(cells) > 0 {
			found, bytes = found+1, bytes+chunks.SizeOf(driver.Row{Cells: cells})
		}
	}
	w.sizes.Saw(driver.Slice{}, max(found, 1), bytes)
	return read, err
}

// resolve reads the rows of postings, which sets their hits.
func (f *finder) resolve(ctx context.Context, r keyRange, postings []driver.Row, which func(int) bool, hits []*Found) error {
	searches, rows := make([][]byte, len(postings)), make([][]byte, len(postings))
	for i, posting := range postings {
		if !which(i) {
			continue
		}
		if rows[i] = posting.Key; f.served() {
			continue
		}
		var err error
		if searches[i], rows[i], _, err = f.form(posting.Key).CutPosting(posting.Key); err != nil {
			return err
		}
	}
	f.reads.Add(1)
	return f.table.ReadEach(ctx, weighed{f.data, &f.sizes}, rows, f.need, func(i int, record *rowcodec.Record, err error) error {
		// The value decides, not the write: a row that was written again with the same value
		// has not changed, and must not be missed because its old posting was read.
		agrees := err == nil && record != nil
		if agrees && !f.served() {
			agrees, err = forms.Carries(ctx, f.table.View, f.form(postings[i].Key), record, searches[i], r.allForms)
		}
		if agrees && f.satisfies(record, r) {
			hits[i] = &Found{record: record, key: postings[i].Key}
		}
		return err
	})
}

// order compares a row with where another one stands in the order of a column: by its value there, and then by its key.
func (f *finder) order(by *rowcodec.Column, a *Found, value any, key []byte) int {
	order := cmp.Or(by.Type.Compare(f.table.ValueOf(by, a.record), value), bytes.Compare(a.record.Key, key))
	if f.reverse {
		return -order
	}
	return order
}

// inOrder puts the rows of each group, whose ciphertexts are equal because they share a prefix, in
// the order of their values. Its memory is that of the largest group.
func (f *finder) inOrder(r keyRange, index int, rows iter.Seq2[*Found, error]) iter.Seq2[*Found, error] {
	compare := func(a, b *Found) int { return f.order(r.By, a, f.table.ValueOf(r.By, b.record), b.record.Key) }
	passed := f.passed(r, index)
	return func(yield func(*Found, error) bool) {
		var group []*Found
		emit := func() (more bool) {
			slices.SortFunc(group, compare)
			for _, hit := range group {
				if !passed(hit) && !yield(hit, nil) {
					return false
				}
			}
			group = group[:0]
			return true
		}
		for hit, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			n := r.GroupOf(hit.key)
			if len(group) > 0 && (n != r.GroupOf(group[0].key) || !bytes.Equal(group[0].key[:n], hit.key[:n])) && !emit() {
				return
			}
			if group = append(group, hit); n == 0 && !emit() {
				return
			}
		}
		emit()
	}
}
