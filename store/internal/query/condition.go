package query

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// Term is a restriction of one column: to the values between two bounds, or to a list.
type Term struct {
	Column string
	Typ    reflect.Type // of the values, as the Field says
	Lo, Hi *value.Bound
	In     []any // if not nil, lo and hi are nil
}

// condition is all that a predicate says of one column, with checked values.
type condition struct {
	Column *rowcodec.Column
	terms  []Term
}

// ConditionsOf checks the terms of a predicate against the table and groups them by column.
func ConditionsOf(t *rowcodec.View, where []Term) ([]*condition, error) {
	var conditions []*condition
	byColumn := make(map[*rowcodec.Column]*condition)
	for _, given := range where {
		c := t.ByName[given.Column]
		if c == nil {
			return nil, fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, given.Column)
		}
		if own := c.Type.GoType(); given.Typ.Kind() != reflect.Interface && !value.Takes(given.Typ, own) {
			return nil, fmt.Errorf("column %q: %w: its values have Go type %v, the Field has %v", c.Name, fault.ErrColumn, own, given.Typ)
		}
		checked := Term{Column: given.Column}
		for _, b := range []struct{ from, to **value.Bound }{{&given.Lo, &checked.Lo}, {&given.Hi, &checked.Hi}} {
			if *b.from == nil {
				continue
			}
			if !c.Type.Orderable() {
				return nil, fmt.Errorf("%w: column %q: values of type %s have no order", fault.ErrColumn, c.Name, c.Type.ID())
			}
			v, err := c.Type.NormalizeBound((*b.from).Value)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", c.Name, err)
			}
			*b.to = &value.Bound{Value: v, Open: (*b.from).Open}
		}
		if given.In != nil {
			checked.In = make([]any, len(given.In))
			for i, v := range given.In {
				v, err := c.Type.NormalizeBound(v)
				if err != nil {
					return nil, fmt.Errorf("column %q: %w", c.Name, err)
				}
				checked.In[i] = v
			}
			slices.SortFunc(checked.In, c.Type.Compare)
			checked.In = slices.CompactFunc(checked.In, func(a, b any) bool { return c.Type.Compare(a, b) == 0 })
		}
		if byColumn[c] == nil {
			byColumn[c] = &condition{Column: c}
			conditions = append(conditions, byColumn[c])
		}
		byColumn[c].terms = append(byColumn[c].terms, checked)
	}
	return conditions, nil
}

// Holds reports whether a value, nil for null, satisfies the condition.
func (c *condition) Holds(v any) bool {
	if v == nil || c.Column.Type.Unordered(v) {
		return false
	}
	compare := c.Column.Type.Compare
	for _, t := range c.terms {
		if t.In != nil {
			if _, found := slices.BinarySearchFunc(t.In, v, compare); !found {
				return false
			}
			continue
		}
		if t.Lo != nil {
			if d := compare(v, t.Lo.Value); d < 0 || d == 0 && t.Lo.Open {
				return false
			}
		}
		if t.Hi != nil {
			if d := compare(v, t.Hi.Value); d > 0 || d == 0 && t.Hi.Open {
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
		if t.In != nil {
			return slices.DeleteFunc(slices.Clone(t.In), func(v any) bool { return !c.Holds(v) }), true
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
	typ := c.Column.Type
	if values, ok := c.exactly(); ok {
		var spans []span
		for _, v := range values {
			code, err := typ.Code(v)
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
		lo, hi, ok := typ.Codes(t.Lo, t.Hi)
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
