// Package params has what the parameters of an index decide, before there is a client of it.
package params

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// ErrZero is the error of a scheme that no function has made.
var ErrZero = fmt.Errorf("%w: this scheme is a zero value; make it with kerschbaum.New or NewRanked", ope.ErrKey)

// Sizes are the options that are numbers, and the name, with their defaults.
type Sizes struct {
	Name                                   string
	Lambda, CacheValues, Limit, UnitValues int
	Ranked                                 bool
}

// Check returns an error for options that no index has.
func (o Sizes) Check() error {
	switch {
	case len(o.Name) > unit.MaxName:
		return fmt.Errorf("%w: the name has %d bytes, at most %d are allowed", ope.ErrParams, len(o.Name), unit.MaxName)
	case o.CacheValues < 4096:
		return fmt.Errorf("%w: a cache of %d values, need at least 4096", ope.ErrParams, o.CacheValues)
	case o.Limit < 1:
		return fmt.Errorf("%w: a limit of %d values, need at least 1", ope.ErrParams, o.Limit)
	case o.UnitValues < 64:
		return fmt.Errorf("%w: units of %d values, need at least 64", ope.ErrParams, o.UnitValues)
	case o.Ranked && o.Lambda != 0:
		return fmt.Errorf("%w: lambda %d, but the rules as published have no ranks", ope.ErrParams, o.Lambda)
	case o.Lambda == 1 || o.Lambda < 0:
		return fmt.Errorf("%w: lambda %d, need at least 2, or 0 for the default rules", ope.ErrParams, o.Lambda)
	}
	return nil
}

// Rules returns the identifier of the scheme, the rules of its labels, and the purpose of the key of its ciphertexts.
func (o Sizes) Rules(d ope.Domain) (id string, r order.Rules, purpose string, err error) {
	switch {
	case o.Lambda != 0:
		r, err = order.PublishedRules(d, o.Lambda)
		return fmt.Sprintf("kerschbaum-published/1 domain=%s lambda=%d", d, o.Lambda), r, "ciphertext", err
	case o.Ranked:
		r = order.DefaultRules()
		r.RankBits = order.RankBits
		return fmt.Sprintf("kerschbaum-ranked/1 domain=%s", d), r, "ranked", nil
	}
	return fmt.Sprintf("kerschbaum/1 domain=%s", d), order.DefaultRules(), "ciphertext", nil
}
