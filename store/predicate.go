package store

import (
	"fmt"
	"reflect"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Predicate restricts the values of columns and key parts. Make one with the methods of
// [Field]; the zero Predicate holds for every row. It has copies of bytes that it is given. A column or key part that is not ordered takes any predicate, too: where
// nothing leads to the rows, as with a range of hashed or randomised values, all rows are opened and checked; but values
// of type UUID have no order, so that a range of them is [ErrColumn]. A bound beyond the domain of a column is no error if
// it is a value of the column's Go type: all values of the column are below it, or all are above it. But an address of the other
// family than [IPv4] or [IPv6], and what has no place in the order, such as NaN, is [ope.ErrDomain].
//
// The logic is that of SQL, with three values: a predicate on a column that is null is neither true nor false but unknown,
// and so is one on a column that is NaN. Not of unknown is unknown; And is unknown if one of its predicates is and none is
// false, and Or if one is and none is true. A query selects the rows where its predicate is true. So neither a comparison
// nor its negation selects a row that is null there. [IsNull] is always true or false, and [IsNaN] unless the column is null.
type Predicate struct{ where *predicate.Where }

// And returns the predicate that holds where all of the given ones do; without any, for every row.
func And(predicates ...Predicate) Predicate { return combined(predicate.All, predicates) }

// Or returns the predicate that holds where at least one of the given ones does; without any, for no row.
func Or(predicates ...Predicate) Predicate { return combined(predicate.Any, predicates) }

// Not returns the predicate that holds where p is false. Where p is unknown, so is Not(p).
func Not(p Predicate) Predicate { return combined(predicate.Not, []Predicate{p}) }

func combined(op predicate.Op, predicates []Predicate) Predicate {
	of := make([]*predicate.Where, len(predicates))
	for i, p := range predicates {
		of[i] = p.where
	}
	return Predicate{&predicate.Where{Op: op, Of: of}}
}

// IsNull holds where the column is null. A key part never is.
func IsNull(column string) Predicate {
	return Predicate{&predicate.Where{Op: predicate.Null, Term: predicate.Term{Column: column}}}
}

// IsNaN holds where the column is NaN. On a column that has no floating point numbers it is [ErrColumn].
func IsNaN(column string) Predicate {
	return Predicate{&predicate.Where{Op: predicate.NaN, Term: predicate.Term{Column: column}}}
}

// HasPrefix holds for values that begin with prefix; for all, if it is empty. Texts are compared byte by byte.
func HasPrefix[T ~string | ~[]byte](f Field[T], prefix T) Predicate {
	lo := &bound{Value: prefix}
	if end := ope.PrefixEnd([]byte(prefix)); end != nil {
		return f.bounds(lo, &bound{Value: T(end), Open: true})
	}
	return f.bounds(lo, nil)
}

// A Field is the name of a column or key part whose values are of Go type T. It can be a constant:
//
//	const temperature = store.Field[float64]("temperature")
//
// T is the Go type of the column's [Type], a type that a struct's field may have in its place, see [For], but for pointers
// and the types of database/sql for null, or an interface type that values of any type have. A Field of another T is
// [ErrColumn] when it is used in a query, and when it reads a row. Of a column with type=string, which has texts, T is string.
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

// In holds for the given values. Without any it never holds. A list may have any length: each value costs a scan, and some
// 300 bytes while the query runs.
//
// Lists of several key parts multiply. If a part would bring them to more than 100,000 combinations, the parts before it
// lead to the rows, and the client checks the others. An ordered part then still leads from its least value to its greatest.
// With [Query.Unauthenticated], which checks no hashed part, such lists are [ErrColumn] if they are of hashed parts.
//
// If lists of key parts come to more than 10,000 ranges of keys, a column that is fixed to fewer values leads instead. The rows
// then come in its order. An ordered part that follows a list has up to three ranges for each value.
func (f Field[T]) In(values ...T) Predicate {
	in := make([]any, len(values))
	for i, v := range values {
		in[i] = value.Keep(v)
	}
	return Predicate{&predicate.Where{Term: predicate.Term{Column: string(f), Typ: reflect.TypeFor[T](), In: &in}}}
}

func (f Field[T]) bounds(lo, hi *bound) Predicate {
	return Predicate{&predicate.Where{Term: predicate.Term{Column: string(f), Typ: reflect.TypeFor[T](), Lo: lo.Kept(), Hi: hi.Kept()}}}
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
		return v, fmt.Errorf("column %q: %w: its values have Go type %T, the Field has %v: use %[3]T", string(f), ErrColumn, given, reflect.TypeFor[T]())
	}
	return v, nil
}
