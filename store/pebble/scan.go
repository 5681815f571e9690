package pebble

import (
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
)

// A scan reads pages of at most this many rows; the first pages are smaller.
const firstPage, maxPage = 32, 1024

// A scan is what is left of one: ranges of the engine's keys, in the order in which they are read.
type scan struct {
	spans []span
	limit int // of rows of a span; 0 is none
	taken int // rows of the first span so far
}

type span struct{ lower, upper []byte }

// newScan returns the whole of a scan.
func newScan(family uint32, r driver.Range) *scan {
	s := &scan{limit: r.Limit}
	if r.Empty() || r.Cells.Empty() {
		return s
	}
	each := r.Bounds()
	s.spans = make([]span, len(each))
	for i, b := range each {
		s.spans[i].lower = layout.AppendEscaped(layout.AppendFamily(nil, family), b.Start)
		s.spans[i].upper = layout.AppendFamily(nil, family+1)
		if b.End != nil {
			s.spans[i].upper = layout.AppendEscaped(layout.AppendFamily(nil, family), b.End)
		}
	}
	return s
}

// Scan implements [driver.Family].
func (f *family) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		if err := f.entry.spec.CheckRange(r); err != nil {
			yield(driver.Row{}, err)
			return
		}
		r = r.Share()
		s := newScan(f.entry.id, r)
		p := pager{db: f.db, ctx: ctx, window: newWindow(r.Cells), reverse: r.Reverse, stamps: r.Cells.Stamps}
		for n := firstPage; ; n = min(2*n, maxPage) {
			rows, err := f.page(ctx, s, p, n)
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if len(s.spans) == 0 {
				return
			}
		}
	}
}

// page reads up to n rows of a scan. The engine is not held between pages, so that a caller may take its
// time, or never come back.
func (f *family) page(ctx context.Context, s *scan, p pager, n int) ([]driver.Row, error) {
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	var err error
	if p.now, err = f.enter(); err != nil {
		return nil, err
	}
	defer f.db.leave()
	if len(s.spans) == 0 {
		return nil, nil
	}
	err = p.iterate(f.reader, &pebble.IterOptions{LowerBound: s.spans[0].lower, UpperBound: s.spans[0].upper}, func(it *pebble.Iterator) error {
		return s.read(it, &p, n)
	})
	return p.rows, err
}

// read reads up to n rows with an iterator that has the bounds of the first span.
func (s *scan) read(it *pebble.Iterator, p *pager, n int) error {
	for first := true; len(s.spans) > 0 && !p.full(n); first = false {
		now := &s.spans[0]
		if !first {
			it.SetBounds(now.lower, now.upper)
			p.cur = nil
		}
		before, enough := len(p.rows), n
		if s.limit > 0 {
			enough = min(n, before+s.limit-s.taken)
		}
		next, err := p.page(it, enough)
		if err != nil {
			return err
		}
		s.taken += len(p.rows) - before
		switch {
		case next == nil, s.limit > 0 && s.taken == s.limit:
			s.spans, s.taken = s.spans[1:], 0
		case p.reverse:
			now.upper = next
		default:
			now.lower = next
		}
	}
	return nil
}
