package encode

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
)

// A Column encrypts values with a scheme, and turns ranges of values into ranges of ciphertexts
// for the caller's own queries and scans. It is safe for concurrent use. Make it with [NewColumn]: the zero
// Column has no key, and its methods return [ope.ErrKey].
type Column[T any] struct {
	column[T]
	exact Exact[T]
}

// A PrefixColumn is a column whose codec keeps a prefix of each value. It does not decrypt: the
// value itself has to be sealed beside the ciphertext. Its ranges may hold values beyond the
// bounds whose prefixes are the same as a bound's, so the caller checks what it finds. Make it with [NewPrefixColumn]: the
// zero PrefixColumn has no key, and its methods return [ope.ErrKey].
type PrefixColumn[T any] struct{ column[T] }

// NewColumn binds the codec to the scheme, whose domain must hold the codec's: make the scheme
// with codec.Domain().
func NewColumn[T any](s ope.Scheme, codec Exact[T]) (*Column[T], error) {
	if err := covers(s, codec.codec); err != nil {
		return nil, err
	}
	return &Column[T]{column[T]{s, codec}, codec}, nil
}

// NewPrefixColumn binds the codec to the scheme, whose domain must hold the codec's: make the
// scheme with codec.Domain().
func NewPrefixColumn[T any](s ope.Scheme, codec Prefix[T]) (*PrefixColumn[T], error) {
	if err := covers(s, codec.codec); err != nil {
		return nil, err
	}
	return &PrefixColumn[T]{column[T]{s, codec}}, nil
}

func covers[T any](s ope.Scheme, c codec[T]) error {
	if s == nil {
		return fmt.Errorf("%w: no scheme given", ope.ErrParams)
	}
	if c.locate == nil {
		return errZero
	}
	if d := s.Domain(); !d.Contains(c.domain.Min) || !d.Contains(c.domain.Max) {
		return fmt.Errorf("%w: the scheme's domain %v does not hold the codec's %v; make the scheme with the domain of the codec", ope.ErrParams, d, c.domain)
	}
	return nil
}

// column is what both have in common.
type column[T any] struct {
	scheme ope.Scheme
	codec  Codec[T]
}

// ID names the codec and the scheme. It is recorded beside the data; data of another ID is not
// readable.
func (c *column[T]) ID() string {
	if c.scheme == nil {
		return ""
	}
	return c.codec.ID() + "; " + c.scheme.ID()
}

// Format implements fmt.Formatter: every verb prints the ID. A scheme has secrets, and may remember plaintexts.
func (c column[T]) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.ID()) }

// made returns an error for the zero column, which no function has made.
func (c *column[T]) made() error {
	if c.scheme == nil {
		return fmt.Errorf("%w: this column is a zero value; make it with encode.NewColumn or NewPrefixColumn", ope.ErrKey)
	}
	return nil
}

// Encrypt returns the ciphertext of v. Errors are those of [Codec] and [ope.Scheme].
func (c *column[T]) Encrypt(ctx context.Context, v T) (ope.Ciphertext, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	code, err := c.codec.Encode(v)
	if err != nil {
		return nil, err
	}
	return c.scheme.Encrypt(ctx, code)
}

// EncryptBatch returns the ciphertexts of vs in the order of vs, for less than one by one if the
// scheme is an [ope.BatchEncrypter]. On an error no ciphertext is returned; the error of a value
// that cannot be encoded names its position in vs.
func (c *column[T]) EncryptBatch(ctx context.Context, vs []T) ([]ope.Ciphertext, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	codes := make([]int64, len(vs))
	for i, v := range vs {
		var err error
		if codes[i], err = c.codec.Encode(v); err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
	}
	if b, ok := c.scheme.(ope.BatchEncrypter); ok {
		return b.EncryptBatch(ctx, codes)
	}
	out := make([]ope.Ciphertext, len(vs))
	for i, code := range codes {
		var err error
		if out[i], err = c.scheme.Encrypt(ctx, code); err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
	}
	return out, nil
}

// Decrypt returns the value of a ciphertext. A byte string that is the ciphertext of no value of
// the codec is [ope.ErrCiphertext].
func (c *Column[T]) Decrypt(ctx context.Context, ciphertext ope.Ciphertext) (T, error) {
	var zero T
	if err := c.made(); err != nil {
		return zero, err
	}
	code, err := c.scheme.Decrypt(ctx, ciphertext)
	if err != nil {
		return zero, err
	}
	if !c.exact.domain.Contains(code) {
		// Of the scheme, whose domain is larger, but not of this column.
		return zero, fmt.Errorf("%w: it is of a value outside the codec's domain", ope.ErrCiphertext)
	}
	return c.exact.Decode(code)
}

// A Bound is an end of a range of values.
type Bound[T any] struct {
	Value T
	Open  bool // Value itself is not in the range
}

// Range returns the intervals of the ciphertexts of the values between two bounds, as [ope.Scheme] does; nil is unbounded.
// A bound need not be a value of the column: it may be beyond the codec's domain or finer than its resolution. There is no
// interval if no value is between the bounds, also because lo is above hi. A bound that has no place in the order, such as
// NaN, is [ErrInvalid].
//
// A [PrefixColumn] cannot tell a bound from other values of the same prefix. There an open bound is as a closed one.
func (c *column[T]) Range(ctx context.Context, lo, hi *Bound[T]) ([]ope.Interval, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	d := c.codec.Domain()
	low, high := d.Min, d.Max
	none := false
	if lo != nil {
		code, some, err := c.codec.Low(lo.Value)
		if err != nil {
			return nil, fmt.Errorf("lower bound: %w", err)
		}
		low, none = code, !some
		if lo.Open && c.has(lo.Value) {
			low, none = code+1, code == d.Max // which may have no successor
		}
	}
	if hi != nil {
		code, some, err := c.codec.High(hi.Value)
		if err != nil {
			return nil, fmt.Errorf("upper bound: %w", err)
		}
		high, none = code, none || !some
		if hi.Open && c.has(hi.Value) {
			high, none = code-1, none || code == d.Min
		}
	}
	if none || low > high {
		return nil, nil
	}
	return c.intervals(ctx, low, high)
}

// has reports whether there is a code that means the value v and no other.
func (c *column[T]) has(v T) bool {
	exact, ok := c.codec.(Exact[T])
	if !ok {
		return false
	}
	_, err := exact.Encode(v)
	return err == nil
}

// Between returns the intervals of the ciphertexts of the values v with lo <= v <= hi, as Range does.
func (c *column[T]) Between(ctx context.Context, lo, hi T) ([]ope.Interval, error) {
	return c.Range(ctx, &Bound[T]{Value: lo}, &Bound[T]{Value: hi})
}

// AtLeast returns the intervals of the ciphertexts of the values v >= lo, as Range does.
func (c *column[T]) AtLeast(ctx context.Context, lo T) ([]ope.Interval, error) {
	return c.Range(ctx, &Bound[T]{Value: lo}, nil)
}

// AtMost returns the intervals of the ciphertexts of the values v <= hi, as Range does.
func (c *column[T]) AtMost(ctx context.Context, hi T) ([]ope.Interval, error) {
	return c.Range(ctx, nil, &Bound[T]{Value: hi})
}

// Greater returns the intervals of the ciphertexts of the values v > lo, as Range does.
func (c *column[T]) Greater(ctx context.Context, lo T) ([]ope.Interval, error) {
	return c.Range(ctx, &Bound[T]{lo, true}, nil)
}

// Less returns the intervals of the ciphertexts of the values v < hi, as Range does.
func (c *column[T]) Less(ctx context.Context, hi T) ([]ope.Interval, error) {
	return c.Range(ctx, nil, &Bound[T]{hi, true})
}

// All returns the interval of all ciphertexts.
func (c *column[T]) All(ctx context.Context) ([]ope.Interval, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	d := c.codec.Domain()
	return c.intervals(ctx, d.Min, d.Max)
}

// intervals asks the scheme for a range of codes. Where the scheme's domain is larger than the
// codec's, a range that is open at an end for the codec is so for the scheme: the range of all
// values then discloses no ciphertext.
func (c *column[T]) intervals(ctx context.Context, low, high int64) ([]ope.Interval, error) {
	own, d := c.codec.Domain(), c.scheme.Domain()
	if low == own.Min {
		low = d.Min
	}
	if high == own.Max {
		high = d.Max
	}
	return c.scheme.Intervals(ctx, low, high)
}
