package cell

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Range is the values between two bounds, and where the database has them.
type Range[T any] struct {
	// Intervals are disjoint, and in the order of the values. There is one or, with [store.MOPE], up to two. There is none
	// if no value of the column is between the bounds.
	Intervals []Interval

	column *column
	lo, hi *value.Bound // nil is unbounded
}

// Format implements fmt.Formatter: every verb prints the intervals. The bounds are values, and for no log.
func (r Range[T]) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "%x", r.Intervals) }

// An Interval is where the column of what stands for values is at least Start and less than End. As the values of a type such
// as [store.String] share ciphertexts, rows of other values may be there, too: [Range.Has] says which are wanted.
type Interval struct{ Start, End []byte }

// Between returns the range of values from lo to hi, both included. A column that is not ordered is [store.ErrColumn].
func (f *Field[T]) Between(lo, hi T) (Range[T], error) { return f.between(&lo, &hi) }

// AtLeast returns the range of values from lo on.
func (f *Field[T]) AtLeast(lo T) (Range[T], error) { return f.between(&lo, nil) }

// AtMost returns the range of values up to hi.
func (f *Field[T]) AtMost(hi T) (Range[T], error) { return f.between(nil, &hi) }

// Equal returns the range of one value. In a deterministic column its rows have Start itself, so a query for equality with that
// finds them, too. In an ordered one Start may be below them: ask for the interval, by >= and <. A column that is randomised is [store.ErrColumn].
func (f *Field[T]) Equal(v T) (Range[T], error) {
	if err := f.made(); err != nil {
		return Range[T]{}, err
	}
	switch {
	case f.column.size == 0:
		return Range[T]{column: f.column}, f.column.failed("find",
			fmt.Errorf("%w: nothing finds values of a randomised column: register one that is deterministic or ordered, and write the values there", fault.ErrColumn))
	case f.column.token == nil:
		return f.between(&v, &v)
	}
	r := Range[T]{column: f.column}
	bound, err := f.column.bound(v)
	if err != nil {
		return r, f.column.failed("find", err)
	}
	r.lo, r.hi = bound, bound
	normal, err := f.column.typ.Normalize(v)
	if err != nil {
		return r, nil // no row has it
	}
	token, err := f.column.search(normal)
	if err != nil {
		return r, f.column.failed("find", err)
	}
	end := ope.PrefixEnd(token)
	if end == nil {
		end = append(slices.Clone(token), 0) // above all tokens
	}
	r.Intervals = []Interval{{token, append(end, make([]byte, max(0, len(token)-len(end)))...)}}
	return r, nil
}

func (f *Field[T]) between(lo, hi *T) (Range[T], error) {
	if err := f.made(); err != nil {
		return Range[T]{}, err
	}
	c := f.column
	r := Range[T]{column: c}
	if c.order == nil && c.text == nil {
		return r, c.failed("find", fmt.Errorf("%w: it has no order: register a column that is ordered, and write the values there", fault.ErrColumn))
	}
	for _, b := range []struct {
		given *T
		to    **value.Bound
	}{{lo, &r.lo}, {hi, &r.hi}} {
		if b.given == nil {
			continue
		}
		var err error
		if *b.to, err = c.bound(*b.given); err != nil {
			return r, c.failed("find", err)
		}
	}
	if lo != nil && hi != nil && c.typ.Compare(r.lo.Value, r.hi.Value) > 0 {
		return r, nil
	}
	intervals, err := c.intervals(r.lo, r.hi)
	if err != nil {
		return r, c.failed("find", err)
	}
	for _, iv := range intervals {
		r.Intervals = append(r.Intervals, Interval{iv.Start, iv.End})
	}
	return r, nil
}

// bound returns a value as the bound of a range, which need not be a value that the column takes.
func (c *column) bound(v any) (*value.Bound, error) {
	normal, err := c.typ.NormalizeBound(v)
	if err == nil && c.typ.Unordered(normal) {
		err = value.ErrNaN
	}
	return (&value.Bound{Value: normal}).Kept(), err
}

// Has reports whether a value is in the range. Ask it of each value that was opened: a row may be found where its value is not,
// as after a write that was torn, and nobody vouches for what the database finds.
func (r Range[T]) Has(v T) bool {
	if r.column == nil || r.column.typ.Unordered(v) {
		return false
	}
	t := r.column.typ
	return (r.lo == nil || t.Compare(v, r.lo.Value) >= 0) && (r.hi == nil || t.Compare(v, r.hi.Value) <= 0)
}
