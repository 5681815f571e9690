package store

import (
	"fmt"
	"reflect"

	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Predicate restricts the values of columns and key parts. Make one with the methods of
// [Field]; the zero Predicate holds for every row. Null never satisfies a predicate on its
// column. A column or key part that is not ordered takes any predicate, too: where nothing leads to the
// rows, as with a range of hashed or randomised values, all rows are opened and checked; but values of type UUID have
// no order, so that a range of them is [ErrColumn]. A bound beyond the domain of a column is no error if it is a value of
// the column's Go type; it stands for the end of the domain.
type Predicate struct{ terms []query.Term }

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
// T is the Go type of the column's [Type], a type that a struct's field may have in its place, see [For], or an interface
// type that values of any type have. A Field
// of another T is [ErrColumn] when it is used in a query, and when it reads a row.
type Field[T any] string

// Between holds for values from lo to hi, both included. If lo is above hi, for none.
func (f Field[T]) Between(lo, hi T) Predicate { return f.bounds(&bound{Value: lo}, &bound{Value: hi}) }

// AtLeast holds for values from lo on.
func (f Field[T]) AtLeast(lo T) Predicate { return f.bounds(&bound{Value: lo}, nil) }

// AtMost holds for values up to hi.
func (f Field[T]) AtMost(hi T) Predicate { return f.bounds(nil, &bound{Value: hi}) }

// Greater holds for values above lo.
func (f Field[T]) Greater(lo T) Predicate { return f.bounds(&bound{Value: lo, Open: true}, nil) }

// Less holds for values below hi.
func (f Field[T]) Less(hi T) Predicate { return f.bounds(nil, &bound{Value: hi, Open: true}) }

// Equal holds for the value v.
func (f Field[T]) Equal(v T) Predicate { return f.In(v) }

// In holds for the given values. Without any it never holds.
func (f Field[T]) In(values ...T) Predicate {
	in := make([]any, len(values))
	for i, v := range values {
		in[i] = v
	}
	return Predicate{[]query.Term{{Column: string(f), Typ: reflect.TypeFor[T](), In: in}}}
}

func (f Field[T]) bounds(lo, hi *bound) Predicate {
	return Predicate{[]query.Term{{Column: string(f), Typ: reflect.TypeFor[T](), Lo: lo, Hi: hi}}}
}

// Of returns the value of the field in a row of a query. Where it is null, or was not among the
// columns that the query returns, the error is [ErrNull]; where it has another type, [ErrColumn].
func (f Field[T]) Of(row Row) (T, error) {
	given := row[string(f)]
	v, ok := given.(T)
	if !ok {
		ok = value.Assign(&v, given)
	}
	switch {
	case given == nil:
		return v, fmt.Errorf("column %q: %w", string(f), ErrNull)
	case !ok:
		return v, fmt.Errorf("column %q: %w: its values have Go type %T, the Field has %v", string(f), ErrColumn, given, reflect.TypeFor[T]())
	}
	return v, nil
}
