package ope

import (
	"fmt"
	"math"
)

// A Domain is the closed interval [Min, Max] of plaintexts.
type Domain struct{ Min, Max int64 }

// Common domains.
var (
	Int8   = Domain{math.MinInt8, math.MaxInt8}
	Int16  = Domain{math.MinInt16, math.MaxInt16}
	Int32  = Domain{math.MinInt32, math.MaxInt32}
	Int64  = Domain{math.MinInt64, math.MaxInt64}
	Uint8  = Domain{0, math.MaxUint8}
	Uint16 = Domain{0, math.MaxUint16}
	Uint32 = Domain{0, math.MaxUint32}
)

// Validate returns an error unless Min <= Max.
func (d Domain) Validate() error {
	if d.Min > d.Max {
		return fmt.Errorf("%w: domain [%d, %d] is empty: its minimum is above its maximum", ErrParams, d.Min, d.Max)
	}
	return nil
}

// Contains reports whether x is in the domain.
func (d Domain) Contains(x int64) bool { return d.Min <= x && x <= d.Max }

// Span returns the number of values in the domain, less one: the number itself does not fit in
// 64 bits when the domain is the whole of int64.
func (d Domain) Span() uint64 { return uint64(d.Max) - uint64(d.Min) }

// Offset returns the rank x - Min of a value of the domain. It is meaningless for other values.
func (d Domain) Offset(x int64) uint64 { return uint64(x) - uint64(d.Min) }

// At returns the value of rank offset, at most Span.
func (d Domain) At(offset uint64) int64 { return int64(uint64(d.Min) + offset) }

// Intersect returns the values that are both in the domain and in [lo, hi]. It reports false
// when there are none.
func (d Domain) Intersect(lo, hi int64) (Domain, bool) {
	d.Min, d.Max = max(d.Min, lo), min(d.Max, hi)
	return d, d.Min <= d.Max
}

// String returns the domain in the form "[Min,Max]".
func (d Domain) String() string { return fmt.Sprintf("[%d,%d]", d.Min, d.Max) }
