// Package tokens reads the postings of a mutable scheme, whose keys have the tokens of codes: these are not in the order of
// the codes. So it looks up many tokens at once, in the order of their keys, and puts the postings in the order of the codes.
package tokens

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
)

// Sizes of what is looked up at once.
const (
	// first is the number of codes of the first batch, and grows how many times as large the next one is. Ranges of
	// few codes are most ranges; and for many, a request costs as much as some hundred codes.
	first, grows = 64, 4
	// leastPage is how many postings of a code are read with those of others, at least, and rows how many of all codes of
	// a batch, where they are few. A code that has more is scanned on its own when it is its turn.
	leastPage, rows = 32, 4096
	// batchBytes is about how large the postings of a batch are to be, by the size of those before.
	batchBytes = 1 << 20
)

// A Lookup is a range of codes whose postings are wanted.
type Lookup struct {
	Postings driver.Family
	Reverse  bool // from the highest code to the lowest, and so the postings of each

	// Codes yields the codes in the order in which they are wanted, each once. An error is the last thing.
	Codes func(context.Context) iter.Seq2[int64, error]
	// Range returns where the postings of a code are. It is not empty, and has no key in common with another.
	Range func(code int64) driver.Bounds

	// Few, if it is not zero, is how many postings are likely to be enough: no more are read before they are asked for.
	Few int

	// Codes and scans so far. They may be read when the postings have been.
	Looked, Scans atomic.Int64

	most atomic.Int64 // codes of a batch; zero is not known yet
}

// Rows yields the postings of the codes, in the order of the codes. While the caller has those of one batch, the next one is
// read, and the codes of the one after it. Nothing of that goes on after the iteration.
//
// A row that is not in one of the ranges, or not in order, is an error that is fault.ErrTampered.
func (l *Lookup) Rows(ctx context.Context) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		for b := range ahead(ctx, l.batches) {
			if !l.emit(ctx, b, yield) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(driver.Row{}, pause.Ended(ctx))
		}
	}
}

// A batch is codes that are looked up at once.
type batch struct {
	ranges []driver.Bounds // of the codes, in their order
	pages  [][]driver.Row  // postings of each, at most limit
	limit  int
	err    error // that came after them
}

// emit yields the postings of a batch, and reports whether to go on.
func (l *Lookup) emit(ctx context.Context, b *batch, yield func(driver.Row, error) bool) bool {
	for i, page := range b.pages {
		for _, row := range page {
			if !yield(row, nil) {
				return false
			}
		}
		if len(page) < b.limit {
			continue
		}
		rest := driver.Range{Start: b.ranges[i].Start, End: b.ranges[i].End, Reverse: l.Reverse}
		if last := page[len(page)-1].Key; l.Reverse {
			rest.End = last
		} else {
			rest.Start = append(bytes.Clone(last), 0)
		}
		l.Scans.Add(1)
		for row, err := range chunks.Scanned(ctx, l.Postings, rest) {
			if !yield(row, err) || err != nil {
				return false
			}
		}
	}
	return b.err == nil || yield(driver.Row{}, b.err) && false
}

// batches yields batches with their postings.
func (l *Lookup) batches(ctx context.Context) iter.Seq2[*batch, bool] {
	return func(yield func(*batch, bool) bool) {
		read := 0
		for b := range ahead(ctx, l.codes) {
			err := l.read(ctx, b)
			if err != nil {
				b.pages, b.err = nil, err
			}
			for _, page := range b.pages {
				read += len(page)
			}
			if !yield(b, l.Few > 0 && read >= l.Few) || b.err != nil {
				return
			}
		}
	}
}

// codes yields batches without their postings.
func (l *Lookup) codes(ctx context.Context) iter.Seq2[*batch, bool] {
	return func(yield func(*batch, bool) bool) {
		next, stop := iter.Pull2(l.Codes(ctx))
		defer stop()
		given := 0
		for size := first; ; size = min(grows*size, driver.MaxBatch) {
			if most := int(l.most.Load()); most > 0 {
				size = min(size, most)
			}
			n := size
			if left := l.Few - given; left > 0 {
				n = min(n, left)
			}
			b := &batch{ranges: make([]driver.Bounds, 0, n)}
			more := true
			for more && len(b.ranges) < n {
				var code int64
				if code, b.err, more = next(); more && b.err == nil {
					b.ranges = append(b.ranges, l.Range(code))
				}
				more = more && b.err == nil
			}
			given += len(b.ranges)
			if !yield(b, l.Few > 0 && given >= l.Few) || !more {
				return
			}
		}
	}
}

// read reads the first postings of all codes of a batch.
func (l *Lookup) read(ctx context.Context, b *batch) error {
	n := len(b.ranges)
	if n == 0 {
		return nil
	}
	if b.limit = max(leastPage, rows/n); l.Few > 0 {
		b.limit = min(b.limit, l.Few)
	}
	l.Looked.Add(int64(n))
	l.Scans.Add(1)
	order := make([]int, n) // of the codes by their keys
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return bytes.Compare(b.ranges[x].Start, b.ranges[y].Start) })
	scan := driver.Range{Each: make([]driver.Bounds, n), Limit: b.limit, Reverse: l.Reverse}
	for i, code := range order {
		scan.Each[i] = b.ranges[code]
	}
	b.pages = make([][]driver.Row, n)
	at, step := 0, 1
	if l.Reverse {
		at, step = n-1, -1
	}
	size := 0
	for row, err := range chunks.Scanned(ctx, l.Postings, scan) {
		if err != nil {
			return err
		}
		for scan.Each[at].Compare(row.Key) != 0 { // it is in one of those that are left
			at += step
		}
		b.pages[order[at]] = append(b.pages[order[at]], row)
		size += len(row.Key)
		for _, c := range row.Cells {
			size += len(c.Qualifier) + len(c.Value)
		}
	}
	l.most.Store(int64(max(leastPage, n*batchBytes/max(1, size))))
	return nil
}
