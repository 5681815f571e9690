package query

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
)

// Sizes of what is looked up at once.
const (
	// firstTokens is the number of codes of the first batch; the next ones double.
	firstTokens = 16
	// tokenPage is how many postings of one token are read ahead of their turn.
	tokenPage = 32
)

// tokenPostings yields the postings of the codes of a range, in the order of the codes.
func (f *finder) tokenPostings(ctx context.Context, r keyRange) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		next, stop := iter.Pull2(r.within.Codes(ctx, r.by.Order, f.reverse))
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
