package predicate

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Where is a predicate as it was stated: a tree that never changes. Nil holds for every row.
type Where struct {
	Op Op
	Of []*Where // of All and Any, and the one of Not
	Term
}

// Op says what holds at a place of a tree.
type Op uint8

// The operators.
const (
	Compare Op = iota // what the bounds or the list of the term say
	Null
	NaN
	All
	Any
	Not
)

// Term is a restriction of one column: to the values between two bounds, or to a list.
type Term struct {
	Column string
	Typ    reflect.Type // of the values, as the Field says; nil if it says nothing of them
	Lo, Hi *value.Bound
	In     *[]any // if not nil, lo and hi are nil; like them behind a pointer, so that no verb of fmt prints the values of a predicate
}

// A Tree is a predicate that was checked against a table. It has no Not: that was pushed down to the leaves, by the laws of
// De Morgan, which hold in the logic of three values, too. What is left is true where it was true before. So
// whether a leaf is false or unknown need not be told apart.
type Tree struct {
	Op      Op
	Of      []Tree // of All and Any
	negated bool   // of a leaf

	Column *rowcodec.Column
	at     int  // of its value in a record
	term   Term // with checked values
}

// New checks a predicate.
func New(t *rowcodec.View, w *Where) (Tree, error) {
	if w == nil {
		return Tree{Op: All}, nil
	}
	return treeOf(t, w, false)
}

func treeOf(t *rowcodec.View, w *Where, negated bool) (n Tree, err error) {
	switch {
	case w == nil && negated:
		return Tree{Op: Any}, nil
	case w == nil:
		return Tree{Op: All}, nil
	case w.Op == Not:
		return treeOf(t, w.Of[0], !negated)
	case w.Op != All && w.Op != Any:
		n = Tree{Op: w.Op, negated: negated}
		err = n.check(t, &w.Term)
		return n, err
	}
	n.Op = w.Op
	if negated {
		n.Op = All + Any - w.Op
	}
	n.Of = make([]Tree, 0, len(w.Of))
	for _, of := range w.Of {
		child, err := treeOf(t, of, negated)
		if err != nil {
			return n, err
		}
		if child.Op == n.Op {
			n.Of = append(n.Of, child.Of...)
		} else {
			n.Of = append(n.Of, child)
		}
	}
	if len(n.Of) == 1 {
		return n.Of[0], nil
	}
	return n, nil
}

// check Sets the column of a leaf, and its term with values as the column has them.
func (n *Tree) check(t *rowcodec.View, given *Term) error {
	c := t.ByName[given.Column]
	if c == nil {
		return fmt.Errorf("%w: table %q has no column %q", fault.ErrColumn, t.Meta.Name, given.Column)
	}
	n.Column, n.at = c, t.ValueIndex(c)
	own := c.Type.GoType()
	switch {
	case n.Op == NaN && !IsFloat(c.Type):
		return fmt.Errorf("%w: column %q: values of type %s are never NaN", fault.ErrColumn, c.Name, c.Type)
	case given.Typ == nil:
		return nil
	case given.Typ.Kind() != reflect.Interface && !value.Takes(given.Typ, own):
		return fmt.Errorf("column %q: %w: its values have Go type %v, the Field has %v: use %v", c.Name, fault.ErrColumn, own, given.Typ, own)
	}
	for _, b := range []struct{ from, to **value.Bound }{{&given.Lo, &n.term.Lo}, {&given.Hi, &n.term.Hi}} {
		if *b.from == nil {
			continue
		}
		if !c.Type.Orderable() {
			return fmt.Errorf("%w: column %q: values of type %s have no order", fault.ErrColumn, c.Name, c.Type)
		}
		v, err := c.Type.NormalizeBound((*b.from).Value)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		*b.to = &value.Bound{Value: v, Open: (*b.from).Open}
	}
	if given.In == nil {
		return nil
	}
	in := make([]any, len(*given.In))
	for i, v := range *given.In {
		v, err := c.Type.NormalizeBound(v)
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
		in[i] = v
	}
	slices.SortFunc(in, c.Type.Compare)
	in = slices.CompactFunc(in, func(a, b any) bool { return c.Type.Compare(a, b) == 0 })
	n.term.In = &in
	return nil
}

func IsFloat(typ value.Type) bool {
	kind := typ.GoType().Kind()
	return kind == reflect.Float32 || kind == reflect.Float64
}

// Holds reports whether the predicate is true for a row, by the values of its record.
func (n *Tree) Holds(values []any) bool {
	switch n.Op {
	case All:
		for i := range n.Of {
			if !n.Of[i].Holds(values) {
				return false
			}
		}
		return true
	case Any:
		for i := range n.Of {
			if n.Of[i].Holds(values) {
				return true
			}
		}
		return false
	case Null:
		return (values[n.at] == nil) != n.negated
	}
	v := values[n.at]
	if v == nil {
		return false
	}
	if unordered := n.Column.Type.Unordered(v); n.Op == NaN || unordered {
		return n.Op == NaN && unordered != n.negated
	}
	return n.term.has(n.Column.Type, v) != n.negated
}

// has reports whether the term is true for a value.
func (t *Term) has(typ value.Type, v any) bool {
	if t.In != nil {
		_, found := slices.BinarySearchFunc(*t.In, v, typ.Compare)
		return found
	}
	if t.Lo != nil {
		if d := typ.Compare(v, t.Lo.Value); d < 0 || d == 0 && t.Lo.Open {
			return false
		}
	}
	if t.Hi != nil {
		if d := typ.Compare(v, t.Hi.Value); d > 0 || d == 0 && t.Hi.Open {
			return false
		}
	}
	return true
}

// columns calls do for the column of each leaf.
func (n *Tree) Columns(do func(*rowcodec.Column)) {
	if n.Column != nil {
		do(n.Column)
	}
	for i := range n.Of {
		n.Of[i].Columns(do)
	}
}

// Print appends bytes that are different for trees that different values satisfy. They stay when encryptions are changed.
func (n *Tree) Print(b []byte) []byte {
	if n.Column == nil {
		b = fmt.Appendf(b, "|%d of %d", n.Op, len(n.Of))
		for i := range n.Of {
			b = n.Of[i].Print(b)
		}
		return b
	}
	return n.term.Print(fmt.Appendf(b, "|%d|%t|%s", n.Op, n.negated, forms.Origin(n.Column)), n.Column.Type)
}

func (t *Term) Print(b []byte, typ value.Type) []byte {
	if typ.Exact() && t.In == nil {
		lo, hi, ok := typ.Codes(t.Lo, t.Hi)
		return fmt.Appendf(b, "|%d|%d|%t", lo, hi, ok)
	}
	var in []any
	if t.In != nil {
		in = *t.In
	}
	b = fmt.Appendf(b, "|%d", len(in))
	for _, v := range in {
		if !typ.Exact() {
			b = value.AppendSized(b, typ.Append(nil, v))
		} else if code, err := typ.Code(v); err == nil {
			b = fmt.Appendf(b, "|%d", code)
		}
	}
	for _, limit := range []*value.Bound{t.Lo, t.Hi} {
		if limit == nil {
			b = append(b, '-')
		} else {
			b = value.AppendSized(fmt.Appendf(b, "%t", limit.Open), typ.Append(nil, limit.Value))
		}
	}
	return b
}

// And returns the conjunction.
func And(of ...Tree) Tree { return Tree{Op: All, Of: of} }

// IsNull returns the leaf that holds where a column is null.
func IsNull(t *rowcodec.View, c *rowcodec.Column) Tree {
	return Tree{Op: Null, Column: c, at: t.ValueIndex(c)}
}
