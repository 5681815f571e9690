// Package scheme builds the order-preserving schemes of columns by the names that the catalogue has.
package scheme

import (
	"fmt"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// The names of schemes. They are stored.
const (
	Boldyreva           = "boldyreva"
	MOPE                = "mope"
	Wozniak             = "wozniak"
	WozniakIndexed      = "wozniak-indexed"
	Kerschbaum          = "kerschbaum"
	KerschbaumRanked    = "kerschbaum-ranked"
	KerschbaumPublished = "kerschbaum-published" // with the rules of the paper: to compare
	Plaintext           = "plaintext"
	PlaintextIndexed    = "plaintext-indexed" // on the tables of Kerschbaum: to compare
)

// UnitValues is how many values a unit of an index of [WozniakIndexed], [Kerschbaum] or [KerschbaumRanked] has; 0 stands for the scheme's
// own number. Only tests set it.
var UnitValues atomic.Int64

// New builds the scheme of a name. A stateful one keeps its state in units of the index whose names
// begin with unit, and remembers a number of values.
func New(name string, key ope.Key, d ope.Domain, x ope.Index, unit string, remembers int) (ope.Scheme, error) {
	switch name {
	case Boldyreva:
		return boldyreva.New(key, d, nil)
	case MOPE:
		return boldyreva.NewModular(key, d, nil)
	case Wozniak:
		return wozniak.New(key, d, nil)
	case WozniakIndexed:
		return wozniak.NewIndexed(key, d, x, ope.Unit(unit), &wozniak.IndexedOptions{
			TargetsOnly: true, CacheValues: remembers, UnitValues: int(UnitValues.Load()),
		})
	case Kerschbaum:
		return kerschbaum.New(key, d, x, &kerschbaum.Options{Name: unit, CacheValues: remembers, UnitValues: int(UnitValues.Load())})
	case KerschbaumRanked:
		return kerschbaum.NewRanked(key, d, x, &kerschbaum.Options{Name: unit, CacheValues: remembers, UnitValues: int(UnitValues.Load())})
	case KerschbaumPublished:
		return kerschbaum.New(key, d, x, &kerschbaum.Options{Name: unit, CacheValues: remembers, Lambda: publishedLambda})
	case Plaintext:
		return newIdentity(d), nil
	case PlaintextIndexed:
		return newIndexedIdentity(d, x, ope.Unit(unit)), nil
	}
	return nil, fmt.Errorf("%w: scheme %q is not known to this version", fault.ErrFormat, name)
}

// NewText builds the scheme of a name for text in the order of its first bytes.
func NewText(name string, key ope.Key, size int) (*boldyreva.TextScheme, error) {
	if name != Boldyreva {
		return nil, fmt.Errorf("%w: text in the order of its first %d bytes takes the scheme boldyreva, not %s", ope.ErrParams, size, name)
	}
	return boldyreva.NewText(key, size)
}

// publishedLambda makes labels of 2b+1 bits for values of b bits.
const publishedLambda = 2

// Check returns an error if there is no scheme of the name for the type.
func Check(name string, t value.Type) error {
	if n := t.TextOrder(); n > 0 {
		_, err := NewText(name, ope.GenerateKey(), n)
		return err
	}
	_, err := New(name, ope.GenerateKey(), t.Domain(), noIndex{}, "", 0)
	return err
}

// noIndex is for a scheme that is not used.
type noIndex struct{ ope.Index }

// Stateful reports whether the scheme of the name keeps its state in an index.
func Stateful(name string) bool {
	switch name {
	case WozniakIndexed, Kerschbaum, KerschbaumRanked, KerschbaumPublished, PlaintextIndexed:
		return true
	}
	return false
}

// Clear reports whether the scheme of the name encrypts nothing.
func Clear(name string) bool { return name == Plaintext || name == PlaintextIndexed }

// OfColumn returns the scheme of a column of a table, which is a *store.Table, or nil if it has none. Package store sets
// it, for package compare: users of a table do not reach its schemes.
var OfColumn func(table any, column string) (ope.Scheme, error)
