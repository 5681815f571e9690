// Package encode maps Go values to int64, the plaintexts of package ope, so that the order of the
// codes is the order of the values. A [Column] binds such a codec to a scheme.
//
// An [Exact] codec loses nothing: a < b exactly when code(a) < code(b), and the code decodes to
// the value. A [Prefix] codec keeps the order weakly, a <= b implies code(a) <= code(b), for values
// that have more than 64 bits; it cannot decode, and the type says so.
//
// Waage, Homann and Wiese (SECRYPT 2016, section 3.1, criterion IV) found no technique that
// converts floating point numbers to integers in an order-preserving way without loss of
// precision. The representation of IEEE 754 numbers has one built in, since it orders the numbers
// of each sign as it orders integers; [Float] uses it. It is loss-free for every number, down to
// subnormal ones, and for the infinities.
//
// # Narrow domains
//
// Within restricts a codec to the values that a column really has. The ciphertexts become shorter
// and a value outside is noticed; but the denser the values lie in their domain, the more the
// ciphertexts show of them (see package ope).
//
// No error of this package contains a value.
package encode

import (
	"errors"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Errors that callers may branch on, beside [ope.ErrDomain] for a value beyond the codec's domain.
var (
	// ErrInexact is returned when an Exact codec would lose a part of the value, such as the
	// nanoseconds of a time at a resolution of milliseconds.
	ErrInexact = errors.New("encode: value is finer than what is kept")

	// ErrInvalid is returned for a value that has no place in the order, such as NaN or the 30th
	// of February.
	ErrInvalid = errors.New("encode: value has no place in the order of the codec")
)

// A Codec maps values to codes in an order-preserving way. It is an [Exact] or a [Prefix].
type Codec[T any] interface {
	// ID names the map from values to codes. It is recorded beside the data and never changes
	// its meaning. The domain is no part of it: it restricts the map and does not change it.
	ID() string

	// Domain returns the closed interval of codes, which is the domain that a scheme needs.
	Domain() ope.Domain

	// Encode returns the code of v: [ope.ErrDomain] if v is beyond the domain, [ErrInvalid] if it
	// has no place in the order.
	Encode(v T) (int64, error)

	// Low returns the lowest code that a value at or above v has, and High the highest code that
	// a value at or below v has. They report false when there is none in the domain. The bound v
	// need not have a code itself: it may be beyond the domain or between two codes. The error
	// is ErrInvalid if v has no place in the order.
	//
	// All values in [lo, hi] have codes in [Low(lo), High(hi)]. With an Exact codec only they do;
	// with a Prefix codec also values beyond lo and hi whose prefixes are the same.
	Low(v T) (code int64, ok bool, err error)
	High(v T) (code int64, ok bool, err error)
}

var (
	_ Codec[int64]  = Exact[int64]{}
	_ Codec[string] = Prefix[string]{}
)

// Exact is a codec that keeps the order strictly and can decode. It is immutable, and safe for
// concurrent use. The zero Exact is [ope.ErrParams] when it is used; the functions that return one are Integer, Float,
// Bool, Time, Date, FixedDecimal and IPv4.
type Exact[T any] struct {
	codec[T]
	decode func(code int64) (T, error) // of a code in the domain
	finer  string                      // what is kept of a finer value, and what to do with it
}

// Prefix is a codec that keeps the order weakly: different values may have the same code. It is
// immutable, and safe for concurrent use. The zero Prefix is [ope.ErrParams] when it is used; the functions that
// return one are Bytes, Prefixed, IPv6 and DecimalPrefix.
type Prefix[T any] struct{ codec[T] }

// codec is what both have in common.
type codec[T any] struct {
	id     string
	domain ope.Domain
	locate func(v T) (place, error)
}

// at is locate, or an error for the zero codec, which no function has made.
func (c codec[T]) at(v T) (place, error) {
	if c.locate == nil {
		return place{}, errZero
	}
	return c.locate(v)
}

var errZero = fmt.Errorf("%w: a zero codec; take one from a function that returns a codec, such as Integer or Bytes", ope.ErrParams)

// A place is where a value stands among the codes of int64.
type place struct {
	code    int64
	between bool // strictly above code and below code + 1; then beyond is 0
	beyond  int  // if not 0: below (-1) or above (+1) all codes; code has no meaning
}

// ID names the map from values to codes. See [Codec].
func (c codec[T]) ID() string { return c.id }

// Domain returns the closed interval of codes, which is the domain that a scheme needs.
func (c codec[T]) Domain() ope.Domain { return c.domain }

// Encode returns the code of v: [ope.ErrDomain] if v is beyond the domain, [ErrInexact] if it is
// between two codes, [ErrInvalid] if it has no place in the order.
func (e Exact[T]) Encode(v T) (int64, error) {
	p, err := e.at(v)
	switch {
	case err != nil:
		return 0, err
	case p.between:
		return 0, fmt.Errorf("%w, %s", ErrInexact, e.finer)
	case !e.has(p):
		return 0, e.outside()
	}
	return p.code, nil
}

// outside says what the domain has, in values: its codes say nothing to who gave one.
func (e Exact[T]) outside() error {
	least, errLeast := e.decode(e.domain.Min)
	greatest, errGreatest := e.decode(e.domain.Max)
	if errLeast != nil || errGreatest != nil {
		return fmt.Errorf("%w: need one with a code in %v", ope.ErrDomain, e.domain)
	}
	return fmt.Errorf("%w: need %s to %s", ope.ErrDomain, text(least), text(greatest))
}

// text returns the text of an end of a domain.
func text(v any) string {
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case CivilDate:
		return fmt.Sprintf("%04d-%02d-%02d", v.Year, v.Month, v.Day)
	case Decimal:
		if v.Scale < -longestScale || v.Scale > longestScale {
			return fmt.Sprintf("%de%d", v.Unscaled, -int64(v.Scale))
		}
	}
	return fmt.Sprint(v)
}

// longestScale bounds the zeros that are written.
const longestScale = 40

// Encode returns the code of v: [ope.ErrDomain] if v is beyond the domain, [ErrInvalid] if it has
// no place in the order.
func (c Prefix[T]) Encode(v T) (int64, error) {
	p, err := c.at(v)
	switch {
	case err != nil:
		return 0, err
	case !c.has(p):
		return 0, fmt.Errorf("%w: it is beyond what the codec %s takes", ope.ErrDomain, c.id)
	}
	return p.code, nil
}

func (c codec[T]) has(p place) bool { return p.beyond == 0 && c.domain.Contains(p.code) }

// Decode returns the value of a code. A code that is not in the domain is [ope.ErrDomain].
func (e Exact[T]) Decode(code int64) (T, error) {
	var zero T
	if e.decode == nil {
		return zero, errZero
	}
	if !e.domain.Contains(code) {
		return zero, fmt.Errorf("%w: need a code in %v", ope.ErrDomain, e.domain)
	}
	return e.decode(code)
}

// Low returns the lowest code whose value is at or above v. See [Codec].
func (e Exact[T]) Low(v T) (code int64, ok bool, err error) {
	p, err := e.at(v)
	if p.between {
		// Inwards, to the next code up. There is none above the highest of int64.
		if p.code++; p.code == -1<<63 {
			p.beyond = 1
		}
	}
	return e.low(p, err)
}

// Low returns the code of v, or the lowest of the domain. See [Codec].
func (c Prefix[T]) Low(v T) (code int64, ok bool, err error) { return c.low(c.at(v)) }

func (c codec[T]) low(p place, err error) (int64, bool, error) {
	switch {
	case err != nil:
		return 0, false, err
	case p.beyond < 0:
		return c.domain.Min, true, nil
	case p.beyond > 0 || p.code > c.domain.Max:
		return 0, false, nil
	}
	return max(p.code, c.domain.Min), true, nil
}

// High returns the highest code that a value at or below v has. See [Codec].
func (c codec[T]) High(v T) (code int64, ok bool, err error) {
	// A value between two codes stands above the lower one, which is what locate returns.
	p, err := c.at(v)
	switch {
	case err != nil:
		return 0, false, err
	case p.beyond > 0:
		return c.domain.Max, true, nil
	case p.beyond < 0 || p.code < c.domain.Min:
		return 0, false, nil
	}
	return min(p.code, c.domain.Max), true, nil
}

// Within returns the codec restricted to the values in [lo, hi], both of which it must be able to
// encode. The codes stay the same.
func (e Exact[T]) Within(lo, hi T) (Exact[T], error) {
	a, errA := e.Encode(lo)
	b, errB := e.Encode(hi)
	err := e.narrow(a, b, errors.Join(errA, errB))
	return e, err
}

// Within returns the codec restricted to the values whose codes are between those of lo and hi,
// both of which it must be able to encode. The codes stay the same.
func (c Prefix[T]) Within(lo, hi T) (Prefix[T], error) {
	a, errA := c.Encode(lo)
	b, errB := c.Encode(hi)
	err := c.narrow(a, b, errors.Join(errA, errB))
	return c, err
}

func (c *codec[T]) narrow(lo, hi int64, err error) error {
	if err == nil && lo > hi {
		err = fmt.Errorf("%w: the lower end is above the upper", ope.ErrParams)
	}
	if err != nil {
		return fmt.Errorf("narrow the codec %s: %w", c.id, err)
	}
	c.domain = ope.Domain{Min: lo, Max: hi}
	return nil
}
