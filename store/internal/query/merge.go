package query

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/inorder"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// While the encryption of a column is being changed, rows have postings of several forms. A row may get a posting of a later form
// and lose that of an earlier one at any moment. So the postings of a form are read only after those of the earlier ones, for
// the same values. The intervals that the plan has for these go on to hold what an index gets later, as [ope.Scheme] says.

// rangesOf returns the ranges of a form with the values of a set.
func (f *finder) rangesOf(ctx context.Context, form *rowcodec.Column, set *predicate.Set) ([]keyRange, error) {
	if set != f.values {
		return rangesOf(ctx, form, form.Lead, set)
	}
	var of []keyRange
	for _, r := range f.Ranges {
		if f.form(r.Start) == form {
			of = append(of, r)
		}
	}
	return of, nil
}

// eachForm yields the postings of all forms, in no order.
func (f *finder) eachForm(ctx context.Context) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		for _, form := range f.forms {
			of, err := f.rangesOf(ctx, form, f.values)
			for i := 0; err == nil && i < len(of); i++ {
				var posting driver.Row
				for posting, err = range f.scannedRange(ctx, of[i]) {
					if err != nil {
						break
					}
					if !yield(posting, nil) {
						return
					}
				}
			}
			if err != nil && !f.over(ctx, form, err) {
				yield(driver.Row{}, err)
				return
			}
		}
	}
}

// merge yields the rows of all forms in the order of the values, and of equal values in that of the keys, from a position on. It
// reports whether to go on.
func (f *finder) merge(ctx context.Context, yield func(*Found, error) bool) bool {
	all, set, passed := f.forms, f.values, func(*Found) bool { return false }
	if all == nil {
		all = []*rowcodec.Column{f.driving}
	}
	if from := f.position(); from != nil {
		v, err := f.driving.Type.Parse(from.Value)
		if err != nil {
			return yield(nil, err) && false // the token is authentic: it was made where this type was the same
		}
		passed = func(hit *Found) bool { return f.order(f.driving, hit, v, from.Row) <= 0 }
		if at := (&value.Bound{Value: v}); f.reverse {
			set = set.Between(f.driving, nil, at)
		} else {
			set = set.Between(f.driving, at, nil)
		}
	}
	sources := inorder.Sources[*Found, *predicate.Set]{
		N: len(all), Few: firstRows, Most: chunks.FullBatch, Cut: f.cut,
		Rows:    func(i int, part *predicate.Set) iter.Seq2[*Found, error] { return f.rowsOf(ctx, all[i], part) },
		Compare: func(a, b *Found) int { return f.order(f.driving, a, f.value(b), b.record.Key) },
		Level:   func(a, b *Found) bool { return f.driving.Type.Compare(f.value(a), f.value(b)) == 0 },
	}
	return sources.Each(set, func(hit *Found, err error) bool {
		if err != nil {
			return yield(nil, err) && false
		}
		hit.by, hit.index = f, -1
		return passed(hit) || yield(hit, nil)
	})
}

// value returns what a row has in the driving column.
func (f *finder) value(hit *Found) any { return f.table.ValueOf(f.driving, hit.record) }

// cut returns the values of a set up to that of a row, in the order of the query, and the values beyond it.
func (f *finder) cut(set *predicate.Set, at *Found) (upTo, beyond *predicate.Set) {
	closed, open := &value.Bound{Value: f.value(at)}, &value.Bound{Value: f.value(at), Open: true}
	if f.reverse {
		return set.Between(f.driving, closed, nil), set.Between(f.driving, nil, open)
	}
	return set.Between(f.driving, nil, closed), set.Between(f.driving, open, nil)
}

// rowsOf yields the rows with the values of a set that postings of a form lead to, in their order.
func (f *finder) rowsOf(ctx context.Context, form *rowcodec.Column, set *predicate.Set) iter.Seq2[*Found, error] {
	return func(yield func(*Found, error) bool) {
		of, err := f.rangesOf(ctx, form, set)
		if f.reverse {
			slices.Reverse(of)
		}
		one := *f
		one.chunk = set
		for i := 0; err == nil && i < len(of); i++ {
			rows := one.scan(ctx, of[i], false)
			if of[i].Grouped() {
				rows = one.inOrder(of[i], -1, rows)
			}
			var hit *Found
			for hit, err = range rows {
				if err != nil {
					break
				}
				if !yield(hit, nil) {
					return
				}
			}
		}
		if err != nil && !f.over(ctx, form, err) {
			yield(nil, err)
		}
	}
}

// over reports whether an error is of the index of an earlier form that is gone, since no row needs it: all were converted during
// the query. So the postings of later forms lead to all rows, and they are read after this. A snapshot has those of before.
func (f *finder) over(ctx context.Context, form *rowcodec.Column, err error) bool {
	if form.Of == nil || f.snapshot != nil || !errors.Is(err, ope.ErrIndex) {
		return false
	}
	now, failed := f.table.Env.Refresh(ctx)
	return failed == nil && slices.ContainsFunc(now.Stored, func(c *rowcodec.Column) bool { return c.Id == form.Id && c.Converted })
}
