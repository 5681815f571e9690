package driver

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/relay"
)

// Compare returns 0 if the key is within the bounds, -1 if it is below them, and 1 if it is above.
func (b Bounds) Compare(key []byte) int {
	switch {
	case bytes.Compare(key, b.Start) < 0:
		return -1
	case b.End != nil && bytes.Compare(key, b.End) >= 0:
		return 1
	}
	return 0
}

// Bounds returns what is scanned, in the order in which it is: the ranges of Each, or the one from Start to End.
func (r Range) Bounds() []Bounds {
	if r.Each == nil {
		return []Bounds{{Start: r.Start, End: r.End}}
	}
	each := slices.Clone(r.Each)
	if r.Reverse {
		slices.Reverse(each)
	}
	return each
}

// ranges yields a range for each of the bounds.
func (r Range) ranges() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for _, b := range r.Bounds() {
			one := r
			one.Start, one.End, one.Each = b.Start, b.End, nil
			if !yield(one) {
				return
			}
		}
	}
}

// InTurn yields the rows of a range by one scan or, if it has several, by one scan for each.
func (r Range) InTurn(scan func(Range) iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for one := range r.ranges() {
			for row, err := range scan(one) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// pageOfEach is how many rows of a range Ahead reads before it is the range's turn.
const pageOfEach = 512

// Ahead yields what InTurn does, for databases that a request of takes a round trip: it makes as many scans at a time. Of
// each it has at most some hundred rows; one that has more is scanned again from there when it is its turn. No scan goes on
// after the iteration. The scans must end soon after their context is done.
func (r Range) Ahead(ctx context.Context, scans int, scan func(context.Context, Range) iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	if len(r.Each) < 2 {
		return r.InTurn(func(r Range) iter.Seq2[Row, error] { return scan(ctx, r) })
	}
	return func(yield func(Row, error) bool) {
		reads, cancel := context.WithCancel(ctx)
		var working sync.WaitGroup
		defer working.Wait()
		defer cancel()
		next, stop := iter.Pull(r.ranges())
		defer stop()
		var first []*pageAhead // of the ranges whose turn is next
		waiting := make(chan *pageAhead, scans)
		for range min(scans, len(r.Each)) {
			working.Go(func() {
				for p := range waiting {
					p.read(reads, scan)
				}
			})
		}
		defer close(waiting)
		for {
			for len(first) < scans {
				one, ok := next()
				if !ok {
					break
				}
				p := &pageAhead{of: one, done: make(chan struct{})}
				first = append(first, p)
				waiting <- p // which has room for as many
			}
			if len(first) == 0 {
				return
			}
			p := first[0]
			first = first[1:]
			if <-p.done; !p.yield(ctx, scan, yield) {
				return
			}
		}
	}
}

// A pageAhead is the first rows of a range.
type pageAhead struct {
	of   Range
	rows []Row
	err  error
	more bool // there may be more
	done chan struct{}
}

func (p *pageAhead) read(ctx context.Context, scan func(context.Context, Range) iter.Seq2[Row, error]) {
	defer close(p.done)
	page := p.of
	if page.Limit == 0 || page.Limit > pageOfEach {
		page.Limit, p.more = pageOfEach, true
	}
	relay.Into(&p.err, func() error {
		for row, err := range scan(ctx, page) {
			if err != nil {
				return err
			}
			p.rows = append(p.rows, row)
		}
		return nil
	})
	p.more = p.more && p.err == nil && len(p.rows) == page.Limit
}

// yield yields the rows, and those that come after them, and reports whether to go on.
func (p *pageAhead) yield(ctx context.Context, scan func(context.Context, Range) iter.Seq2[Row, error], yield func(Row, error) bool) bool {
	for _, row := range p.rows {
		if !yield(row, nil) {
			return false
		}
	}
	relay.Throw(p.err)
	if p.err != nil {
		return yield(Row{}, p.err) && false
	}
	if !p.more {
		return true
	}
	rest := p.of
	if last := p.rows[len(p.rows)-1].Key; rest.Reverse {
		rest.End = bytes.Clone(last)
	} else {
		rest.Start = append(bytes.Clone(last), 0)
	}
	if rest.Limit > 0 {
		rest.Limit -= len(p.rows)
	}
	for row, err := range scan(ctx, rest) {
		if !yield(row, err) || err != nil {
			return false
		}
	}
	return true
}
