package store

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Type is the data type of a column or key part. The types are the variables and functions of
// this package that return a [TypeOf].
type Type interface {
	// String returns the type as [ParseType] reads it.
	fmt.Stringer

	inner() value.Type
}

// A TypeOf is a [Type] whose values are of Go type T.
type TypeOf[T any] struct{ of value.TypeOf[T] }

// String returns the type as [ParseType] reads it.
func (t TypeOf[T]) String() string { return t.of.String() }

// Within returns the type restricted to values from lo to hi, both included. An order-preserving
// ciphertext gets shorter with the domain, and gives more away.
func (t TypeOf[T]) Within(lo, hi T) TypeOf[T] { return TypeOf[T]{t.of.Within(lo, hi)} }

// OrderedBy returns [String] or [Bytes] with values that the database has in the order of their first n bytes, in place of
// the first 8: 16, 24 or 32. So ranges and prefixes of text with a common beginning are found without reading what only
// begins alike. An ordered column or part of such a type takes the scheme [Boldyreva] and no other. Each eight bytes take 16
// in every posting and row key, and show about their upper half; the database also sees which texts begin with the same
// 8, 16 or 24 bytes, and how long shorter ones are (docs/security.md).
func (t TypeOf[T]) OrderedBy(n int) TypeOf[T] { return TypeOf[T]{t.of.OrderedBy(n)} }

// Prefixed returns [String] for texts of which many begin alike, as with https://. The database orders a text that has one
// of the beginnings by the nearly eight bytes after it, and any other by nearly its first eight. Any scheme will do. There
// are 1 to 16 beginnings, without spaces and control characters. The catalogue has them, and they are no secret.
func (t TypeOf[T]) Prefixed(beginnings ...string) TypeOf[T] {
	return TypeOf[T]{t.of.Prefixed(beginnings...)}
}

// Field returns the [Field] of a column of the type: what its predicates take, and what it reads, has the right Go type.
func (t TypeOf[T]) Field(column string) Field[T] { return Field[T](column) }

func (t TypeOf[T]) inner() value.Type { return t.of }

// The types of columns and key parts. A value of the right Go type that a column does not take, such
// as text that is not UTF-8 or a number beyond Within, is [ope.ErrDomain].
//
// Cells keep the bits of floating point numbers. The two zeros are equal all the same: either is found by
// the other, and they are one row key. NaN is equal to nothing, so that only
// [IsNaN] finds it, and another predicate that names it is ErrDomain. Only columns that are randomised or plain take it.
//
// A [Row], or a Field[any], takes untyped constants where they are exact: an int or a float64 may be given for any type of
// numbers that has it; otherwise it is [ope.ErrDomain]. Rows that are read have the type of the column.
//
// For a [Decimal] a float64 stands for the shortest decimal number to which it is the nearest float64, as it is printed.
// So 12.5 and 0.1 are these numbers. One of more than 15 digits is refused at any scale, since it may not be
// what the program says: 0.1 + 0.2, computed at run time, is 0.30000000000000004.
var (
	Int8    = TypeOf[int8]{value.Int8}
	Int16   = TypeOf[int16]{value.Int16}
	Int32   = TypeOf[int32]{value.Int32}
	Int64   = TypeOf[int64]{value.Int64}
	Uint8   = TypeOf[uint8]{value.Uint8}
	Uint16  = TypeOf[uint16]{value.Uint16}
	Uint32  = TypeOf[uint32]{value.Uint32}
	Uint64  = TypeOf[uint64]{value.Uint64}
	Float32 = TypeOf[float32]{value.Float32}
	Float64 = TypeOf[float64]{value.Float64}
	Bool    = TypeOf[bool]{value.Bool}

	// Date is a day of the calendar.
	Date = TypeOf[encode.CivilDate]{value.Date}

	// IPv4 is an address that is not an IPv6 one.
	IPv4 = TypeOf[netip.Addr]{value.IPv4}

	// IPv6 is an IPv6 address without zone. It is ordered by its network, the first 64 bits.
	IPv6 = TypeOf[netip.Addr]{value.IPv6}

	// String is valid UTF-8 of any length. It is ordered bytewise by its first 8 bytes in the
	// database, or by more with [TypeOf.OrderedBy], and by all of them in results.
	String = TypeOf[string]{value.String}

	// Bytes is a byte string of any length, ordered as String is.
	Bytes = TypeOf[[]byte]{value.Bytes}

	// UUID is 16 bytes. It has no order.
	UUID = TypeOf[[16]byte]{value.UUID}
)

// Time is an instant at a resolution of time.Nanosecond, Microsecond, Millisecond or Second. It is read in UTC. A value that is finer is
// [encode.ErrInexact] and [ope.ErrDomain], as time.Now mostly is: truncate it with its method Truncate. One that does not fit into 64 bits, as the number of units since 1970, is [ope.ErrDomain]: at a nanosecond
// the range is from 1677-09-21 to 2262-04-11, at a microsecond the years -290307 to 294246, and else more than 290
// million years either way. So the zero time.Time, of the year 1, is refused at a nanosecond only.
func Time(unit time.Duration) TypeOf[time.Time] { return TypeOf[time.Time]{value.Time(unit)} }

// Decimal is a decimal number with at most scale digits after the point, below 9.2e18 in units
// of the last digit; another one is [ope.ErrDomain]. A value with more digits is [encode.ErrInexact], too: round it. The scale is -1000 to 1000.
func Decimal(scale int32) TypeOf[encode.Decimal] { return TypeOf[encode.Decimal]{value.Decimal(scale)} }

// ParseType returns the type that a text names, as schema files and command lines have it; the
// String method of a type writes it. It is the name of the type, with its resolution or scale, and
// for a type that is restricted (see [TypeOf.Within]) the least and the greatest value:
//
//	bool  string  bytes  uuid  ipv4  ipv6  float64  uint16
//	timestamp/ms                     ns, us, ms or s
//	decimal(2)                       digits after the point
//	string(32)  bytes(16)            bytes in order, see [TypeOf.OrderedBy]
//	string after https:// http://    see [TypeOf.Prefixed]
//	int8 from 0 to 120
//	decimal(2) from 0 to 99999.99
//	date from 1900-01-01 to 2100-12-31
//	timestamp/s from 2020-01-01 to 2039-12-31T23:59:59Z
//
// Values are written as in Go, times as in RFC 3339, where a date alone is its first instant in UTC. Any value may also be
// given by its number in the order of the type: @N is the integer N, N units or days since 1970, or N units of the last digit.
//
// A text that names no type is [ErrSchema].
func ParseType(text string) (Type, error) {
	t, err := value.Parse(text)
	if err != nil {
		return nil, err
	}
	return anyType{t}, nil
}

// anyType is a type whose values have a Go type that is not known here.
type anyType struct{ of value.Type }

func (t anyType) String() string    { return t.of.String() }
func (t anyType) inner() value.Type { return t.of }

// innerOf returns the type that a public one is the face of, or nil where none is given.
func innerOf(t Type) value.Type {
	if t == nil {
		return nil
	}
	return t.inner()
}
