package store

import (
	"fmt"
	"math"
	"slices"
)

// A Predicate restricts the values of columns and key parts. Make one with the methods of
// [Field]; the zero Predicate holds for every row. Null never satisfies a predicate on its
// column.
type Predicate struct{ terms []term }

// term is a restriction of one column: to the values between two bounds, or to a list.
type term struct {
	column string
	lo, hi *bound
	in     []any // if not nil, lo and hi are nil
}

type bound struct {
	value any
	open  bool // the value itself does not satisfy the term
}

// And returns the predicate that holds where all of the given ones do.
func And(predicates ...Predicate) Predicate {
	var all Predicate
	for _, p := range predicates {
		all.terms = append(all.terms, p.terms...)
	}
	return all
}

// A Field is the name of a column or key part whose values are of Go type T. It can be a
// constant:
//
//	const temperature = store.Field[float64]("temperature")
//
// A Field of the wrong T is [ErrColumn] when it is used in a query.
type Field[T any] string

// Between holds for values from lo to hi, both included. If lo is above hi, for none.
func (f Field[T]) Between(lo, hi T) Predicate { return f.bounds(&bound{value: lo}, &bound{value: hi}) }

// AtLeast holds for values from lo on.
func (f Field[T]) AtLeast(lo T) Predicate { return f.bounds(&bound{value: lo}, nil) }

// AtMost holds for values up to hi.
func (f Field[T]) AtMost(hi T) Predicate { return f.bounds(nil, &bound{value: hi}) }

// Greater holds for values above lo.
func (f Field[T]) Greater(lo T) Predicate { return f.bounds(&bound{value: lo, open: true}, nil) }

// Less holds for values below hi.
func (f Field[T]) Less(hi T) Predicate { return f.bounds(nil, &bound{value: hi, open: true}) }

// Equal holds for the value v.
func (f Field[T]) Equal(v T) Predicate { return f.In(v) }

// In holds for the given values. Without any it never holds.
func (f Field[T]) In(values ...T) Predicate {
	in := make([]any, len(values))
	for i, v := range values {
		in[i] = v
	}
	return Predicate{[]term{{column: string(f), in: in}}}
}

func (f Field[T]) bounds(lo, hi *bound) Predicate {
	return Predicate{[]term{{column: string(f), lo: lo, hi: hi}}}
}

// Of returns the value of the field in a row, and false where it is null or of another type.
func (f Field[T]) Of(row Row) (T, bool) {
	v, ok := row[string(f)].(T)
	return v, ok
}

// condition is all that a predicate says of one column, with checked values.
type condition struct {
	column *column
	terms  []term
}

// conditions checks a predicate against the table and groups its terms by column.
func (t *view) conditions(p Predicate) ([]*condition, error) {
	var conditions []*condition
	byColumn := make(map[*column]*condition)
	for _, given := range p.terms {
		c := t.byName[given.column]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", ErrColumn, t.schema.Name, given.column)
		}
		checked := term{column: given.column}
		for _, b := range []struct{ from, to **bound }{{&given.lo, &checked.lo}, {&given.hi, &checked.hi}} {
			if *b.from == nil {
				continue
			}
			if !c.typ.orderable() {
				return nil, fmt.Errorf("%w: column %q: values of type %s have no order", ErrColumn, c.name, c.typ.id())
			}
			v, err := c.typ.normalizeBound((*b.from).value)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", c.name, err)
			}
			*b.to = &bound{v, (*b.from).open}
		}
		if given.in != nil {
			checked.in = make([]any, len(given.in))
			for i, v := range given.in {
				v, err := c.typ.normalizeBound(v)
				if err != nil {
					return nil, fmt.Errorf("column %q: %w", c.name, err)
				}
				checked.in[i] = v
			}
			slices.SortFunc(checked.in, c.typ.compare)
			checked.in = slices.CompactFunc(checked.in, func(a, b any) bool { return c.typ.compare(a, b) == 0 })
		}
		if byColumn[c] == nil {
			byColumn[c] = &condition{column: c}
			conditions = append(conditions, byColumn[c])
		}
		byColumn[c].terms = append(byColumn[c].terms, checked)
	}
	return conditions, nil
}

// holds reports whether a value, nil for null, satisfies the condition.
func (c *condition) holds(v any) bool {
	if v == nil {
		return false
	}
	compare := c.column.typ.compare
	for _, t := range c.terms {
		if t.in != nil {
			if _, found := slices.BinarySearchFunc(t.in, v, compare); !found {
				return false
			}
			continue
		}
		if t.lo != nil {
			if d := compare(v, t.lo.value); d < 0 || d == 0 && t.lo.open {
				return false
			}
		}
		if t.hi != nil {
			if d := compare(v, t.hi.value); d > 0 || d == 0 && t.hi.open {
				return false
			}
		}
	}
	return true
}

// exactly returns the only values that can satisfy the condition, in ascending order, and false
// where it does not come down to a list.
func (c *condition) exactly() ([]any, bool) {
	for _, t := range c.terms {
		if t.in != nil {
			return slices.DeleteFunc(slices.Clone(t.in), func(v any) bool { return !c.holds(v) }), true
		}
	}
	return nil, false
}

// span is a closed interval of order codes.
type span struct{ lo, hi int64 }

// spans returns the order codes of the values that can satisfy the condition, as disjoint spans
// in ascending order. With a lossy type a span may hold codes of values that do not satisfy it.
func (c *condition) spans() []span {
	if c == nil {
		return []span{{math.MinInt64, math.MaxInt64}}
	}
	typ := c.column.typ
	if values, ok := c.exactly(); ok {
		var spans []span
		for _, v := range values {
			code, err := typ.code(v)
			if err != nil {
				continue // outside the domain: no row has it
			}
			if n := len(spans); n > 0 && code <= spans[n-1].hi {
				continue
			} else if n > 0 && code == spans[n-1].hi+1 {
				spans[n-1].hi = code
				continue
			}
			spans = append(spans, span{code, code})
		}
		return spans
	}
	s := span{math.MinInt64, math.MaxInt64}
	for _, t := range c.terms {
		lo, hi, ok := typ.codes(t.lo, t.hi)
		if !ok {
			return nil
		}
		s.lo, s.hi = max(s.lo, lo), min(s.hi, hi)
	}
	if s.lo > s.hi {
		return nil
	}
	return []span{s}
}
