package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A column with a mutable scheme has its order in an index of the table only. What its postings and
// sealed cells carry is a token of the order code: it never changes, whatever moves in the index. A
// range of values is looked up in three hops, which are batched:
//
//	order index -> codes, in order -> the postings of each -> their rows
//
// The index is read as it is during the query, also where rows and postings are read from a
// snapshot: a value is in the index before it is in a row, and never leaves it, so that every value
// of the snapshot is found, and one that is newer has no postings there.

// Rebalance writes the index of an ordered column with a [MutableScheme] anew: ciphertexts are
// evenly placed and no longer show in which order values were first written, which the index of a
// column gives away to who sees a copy of it; do so after a bulk load. No row is written, and
// readers and writers may go on. If the caller dies, the next call that uses the column finishes
// the pass. progress may be nil; it is called with the number of values written so far and in all.
//
// A column with another encryption is [ErrColumn].
func (tbl *Table) Rebalance(ctx context.Context, column string, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	t, err := tbl.use()
	if err != nil {
		return stats, err
	}
	ctx, end := t.st.observer.operation(ctx, "rebalance", t.family())
	defer func() { end(0, err) }()
	c := t.byName[column]
	switch {
	case c == nil:
		err = fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, column)
	case c.order == nil:
		err = fmt.Errorf("%w: column %q has no scheme that moves ciphertexts", ErrColumn, column)
	default:
		if stats, err = c.order.Rebalance(ctx, progress); err != nil {
			err = fmt.Errorf("column %q: %w", column, err)
		}
	}
	if err != nil {
		return stats, fmt.Errorf("store: rebalance %q: %w", t.schema.Name, t.gone(err))
	}
	return stats, nil
}

// appendTag appends the token of a code.
func (c *column) appendTag(dst []byte, code int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(code))
	if c.clear() {
		// Spread as the tokens of an encrypted column are, so that the two can be compared.
		spread := uint64(code) * 0x9E3779B97F4A7C15
		return append(binary.BigEndian.AppendUint64(dst, spread^spread>>32), b...)
	}
	return c.appendToken(dst, b)
}

// Sizes of what is looked up at once.
const (
	// enumerated is how many codes a range may have that is looked up without the index.
	enumerated = 16
	// firstTokens is the number of codes of the first batch; the next ones double.
	firstTokens = 16
	// tokenPage is how many postings of one token are read ahead of their turn.
	tokenPage = 32
	// reversePage is how many codes are read upwards to be yielded downwards.
	reversePage = 512
)

// tokenPostings yields the postings of the codes of a range, in the order of the codes.
func (f *finder) tokenPostings(ctx context.Context, r keyRange) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		next, stop := iter.Pull2(r.by.codes(ctx, r.within, f.query.Reverse))
		defer stop()
		size := firstTokens
		if f.query.Limit > 0 {
			size = min(size, f.query.Limit)
		}
		for more := true; more; size = min(2*size, fullBatch) {
			scans := make([]driver.Range, 0, size)
			var failed error
			for more && len(scans) < size {
				var code int64
				if code, failed, more = next(); failed != nil {
					failed, more = fmt.Errorf("column %q: %w", r.by.name, failed), false
				}
				if more {
					scans = append(scans, f.tokenScan(r, code))
				}
			}
			f.tokens.Add(int64(len(scans)))
			if !f.scanAll(ctx, scans, yield) {
				return
			}
			if failed != nil {
				yield(driver.Row{}, failed)
				return
			}
		}
	}
}

// tokenScan returns the range of the postings of a code, or what is left of it for the next page.
func (f *finder) tokenScan(r keyRange, code int64) driver.Range {
	key := r.by.appendTag(bytes.Clone(r.by.lead), code)
	one := keyRange{start: key, end: ope.PrefixEnd(key), group: r.group}
	if r.resume != nil && r.resume.Code == code {
		one = r.resume.rest(one, f.query.Reverse, true)
	}
	return driver.Range{Start: one.start, End: one.end, Reverse: f.query.Reverse}
}

// scanAll yields the postings of some ranges, one range after the other, and reports whether to go
// on. The first page of each is read concurrently.
func (f *finder) scanAll(ctx context.Context, scans []driver.Range, yield func(driver.Row, error) bool) bool {
	pages := make([][]driver.Row, len(scans))
	err := f.table.st.each(ctx, len(scans), func(ctx context.Context, i int) error {
		page := scans[i]
		page.Limit = tokenPage
		for row, err := range scanned(ctx, f.postings, page) {
			if err != nil {
				return err
			}
			pages[i] = append(pages[i], row)
		}
		return nil
	})
	if err != nil {
		return yield(driver.Row{}, err) && false
	}
	for i, rest := range scans {
		for _, row := range pages[i] {
			if !yield(row, nil) {
				return false
			}
		}
		if len(pages[i]) < tokenPage {
			continue
		}
		if last := pages[i][tokenPage-1].Key; rest.Reverse {
			rest.End = last
		} else {
			rest.Start = append(bytes.Clone(last), 0)
		}
		for row, err := range scanned(ctx, f.postings, rest) {
			if !yield(row, err) || err != nil {
				return false
			}
		}
	}
	return true
}

// codes yields the codes of a span that rows may have: all of them if they are few, or those that
// are in the index.
func (c *column) codes(ctx context.Context, s span, reverse bool) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if n := uint64(s.hi) - uint64(s.lo); n < enumerated {
			for i := range int64(n) + 1 {
				code := s.lo + i
				if reverse {
					code = s.hi - i
				}
				if !yield(code, nil) {
					return
				}
			}
			return
		}
		if reverse {
			c.descending(ctx, s, yield)
			return
		}
		for e, err := range c.order.Range(ctx, s.lo, s.hi) {
			if !yield(e.Plaintext, err) || err != nil {
				return
			}
		}
	}
}

// descending yields the codes of a span that are in the index from the highest to the lowest, and
// reports whether to go on. An index is read upwards: where a span has more codes than are to be
// kept, its upper half comes first, and then its lower half.
func (c *column) descending(ctx context.Context, s span, yield func(int64, error) bool) bool {
	var codes []int64
	for e, err := range c.order.Range(ctx, s.lo, s.hi) {
		if err != nil {
			return yield(0, err) && false
		}
		if len(codes) == reversePage {
			middle := s.lo + int64((uint64(s.hi)-uint64(s.lo))/2)
			return c.descending(ctx, span{middle + 1, s.hi}, yield) && c.descending(ctx, span{s.lo, middle}, yield)
		}
		codes = append(codes, e.Plaintext)
	}
	for _, code := range slices.Backward(codes) {
		if !yield(code, nil) {
			return false
		}
	}
	return true
}
