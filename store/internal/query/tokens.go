package query

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
)

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
		next, stop := iter.Pull2(codesOf(ctx, r.by.Order, r.within, f.reverse))
		defer stop()
		size := firstTokens
		if f.few > 0 {
			size = min(size, f.few)
		}
		for more := true; more; size = min(2*size, engine.FullBatch) {
			scans := make([]driver.Range, 0, size)
			var failed error
			for more && len(scans) < size {
				var code int64
				if code, failed, more = next(); failed != nil {
					failed, more = fmt.Errorf("column %q: %w", r.by.Name, failed), false
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
	key := r.by.AppendTag(bytes.Clone(r.by.Lead), code)
	one := keyRange{Start: key, end: ope.PrefixEnd(key), group: r.group}
	if r.resume != nil && r.resume.Code == code {
		one = r.resume.rest(one, &f.way)
	}
	return driver.Range{Start: one.Start, End: one.end, Reverse: f.reverse}
}

// scanAll yields the postings of some ranges, one range after the other, and reports whether to go
// on. The first page of each is read concurrently.
func (f *finder) scanAll(ctx context.Context, scans []driver.Range, yield func(driver.Row, error) bool) bool {
	pages := make([][]driver.Row, len(scans))
	err := f.table.Env.Concurrently(ctx, len(scans), func(ctx context.Context, i int) error {
		page := scans[i]
		page.Limit = tokenPage
		for row, err := range engine.Scanned(ctx, f.postings, page) {
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
		for row, err := range engine.Scanned(ctx, f.postings, rest) {
			if !yield(row, err) || err != nil {
				return false
			}
		}
	}
	return true
}

// codesOf yields the codes of a span that rows may have: all of them if they are few, or those that
// are in the index.
func codesOf(ctx context.Context, index ope.Mutable, s predicate.Span, reverse bool) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if n := uint64(s.Hi) - uint64(s.Lo); n < enumerated {
			for i := range int64(n) + 1 {
				code := s.Lo + i
				if reverse {
					code = s.Hi - i
				}
				if !yield(code, nil) {
					return
				}
			}
			return
		}
		if reverse {
			descending(ctx, index, s, yield)
			return
		}
		for e, err := range index.Range(ctx, s.Lo, s.Hi) {
			if !yield(e.Plaintext, err) || err != nil {
				return
			}
		}
	}
}

// descending yields the codes of a span that are in the index from the highest to the lowest, and
// reports whether to go on. An index is read upwards: where a span has more codes than are to be
// kept, its upper half comes first, and then its lower half.
func descending(ctx context.Context, index ope.Mutable, s predicate.Span, yield func(int64, error) bool) bool {
	var codes []int64
	for e, err := range index.Range(ctx, s.Lo, s.Hi) {
		if err != nil {
			return yield(0, err) && false
		}
		if len(codes) == reversePage {
			middle := s.Lo + int64((uint64(s.Hi)-uint64(s.Lo))/2)
			return descending(ctx, index, predicate.Span{Lo: middle + 1, Hi: s.Hi}, yield) && descending(ctx, index, predicate.Span{Lo: s.Lo, Hi: middle}, yield)
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
