package encode

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Integer returns the codec of an integer type. The code is the value itself, but for unsigned
// types of 64 bits, where it is the value less 2^63. The types int, uint and uintptr have 64 bits
// on every architecture here; where they have less, decoding a value that does not fit is an
// error. It also serves types such as time.Duration.
func Integer[T interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}]() Exact[T] {
	var id string
	var domain ope.Domain
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Int8:
		id, domain = "int8/1", ope.Int8
	case reflect.Int16:
		id, domain = "int16/1", ope.Int16
	case reflect.Int32:
		id, domain = "int32/1", ope.Int32
	case reflect.Int64, reflect.Int:
		id, domain = "int64/1", ope.Int64
	case reflect.Uint8:
		id, domain = "uint8/1", ope.Uint8
	case reflect.Uint16:
		id, domain = "uint16/1", ope.Uint16
	case reflect.Uint32:
		id, domain = "uint32/1", ope.Uint32
	default:
		return Exact[T]{
			codec[T]{"uint64/1", ope.Int64, func(v T) (place, error) { return place{code: flip(uint64(v))}, nil }},
			func(code int64) (T, error) {
				u := unflip(code)
				return T(u), fits(uint64(T(u)) == u)
			},
			"",
		}
	}
	return Exact[T]{
		codec[T]{id, domain, func(v T) (place, error) { return place{code: int64(v)}, nil }},
		func(code int64) (T, error) { return T(code), fits(int64(T(code)) == code) },
		"",
	}
}

func fits(ok bool) error {
	if !ok {
		return errors.New("encode: the value does not fit in the integers of this architecture")
	}
	return nil
}

// flip maps uint64 to int64 in order: it turns the highest bit.
func flip(u uint64) int64 { return int64(u ^ 1<<63) }

func unflip(code int64) uint64 { return uint64(code) ^ 1<<63 }

// Float returns the codec of a floating point type. The code of a number is its bits after the
// sign, read as an integer and given the sign: consecutive numbers have consecutive codes. The
// infinities are the ends of the domain; Within(-math.MaxFloat64, math.MaxFloat64) leaves them
// out. NaN is [ErrInvalid].
//
// The two zeros have the code 0, since Go, SQL and CQL queries take them as equal; it decodes to
// the positive one. Every other value decodes to the same bits.
func Float[T ~float32 | ~float64]() Exact[T] {
	if reflect.TypeFor[T]().Kind() == reflect.Float32 {
		inf := int64(math.Float32bits(float32(math.Inf(1))))
		return Exact[T]{
			codec[T]{"float32/1", ope.Domain{Min: -inf, Max: inf}, func(v T) (place, error) {
				bits := math.Float32bits(float32(v))
				return signed(bits>>31 == 1, int64(bits&^(1<<31)), math.IsNaN(float64(v)))
			}},
			func(code int64) (T, error) {
				if code < 0 {
					return T(math.Float32frombits(uint32(-code) | 1<<31)), nil
				}
				return T(math.Float32frombits(uint32(code))), nil
			},
			"",
		}
	}
	inf := int64(math.Float64bits(math.Inf(1)))
	return Exact[T]{
		codec[T]{"float64/1", ope.Domain{Min: -inf, Max: inf}, func(v T) (place, error) {
			bits := math.Float64bits(float64(v))
			return signed(bits>>63 == 1, int64(bits&^(1<<63)), math.IsNaN(float64(v)))
		}},
		func(code int64) (T, error) {
			if code < 0 {
				return T(math.Float64frombits(uint64(-code) | 1<<63)), nil
			}
			return T(math.Float64frombits(uint64(code))), nil
		},
		"",
	}
}

func signed(negative bool, magnitude int64, nan bool) (place, error) {
	if nan {
		return place{}, fmt.Errorf("%w: it is NaN", ErrInvalid)
	}
	if negative {
		magnitude = -magnitude
	}
	return place{code: magnitude}, nil
}

// Bool returns the codec of bool: false is 0, true is 1. A column of two values hides nothing from
// someone who knows which is more frequent.
func Bool() Exact[bool] {
	return Exact[bool]{
		codec[bool]{"bool/1", ope.Domain{Min: 0, Max: 1}, func(v bool) (place, error) {
			if v {
				return place{code: 1}, nil
			}
			return place{}, nil
		}},
		func(code int64) (bool, error) { return code == 1, nil },
		"",
	}
}
