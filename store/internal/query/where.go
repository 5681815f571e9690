package query

import (
	"errors"
	"reflect"

	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Where is a predicate as it was stated: a tree that never changes. Nil holds for every row.
type Where struct {
	Op   Op
	Of   []*Where // of All and Any, and the one of Not
	Term          // of all other operators
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
	In     []any // if not nil, lo and hi are nil
}

func (w *Where) terms() (terms []Term, err error) {
	switch {
	case w == nil:
	case w.Op == Compare:
		terms = append(terms, w.Term)
	case w.Op == All:
		for _, of := range w.Of {
			more, err := of.terms()
			if err != nil {
				return nil, err
			}
			terms = append(terms, more...)
		}
	default:
		return nil, errors.New("not yet")
	}
	return terms, nil
}
