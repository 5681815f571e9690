package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// A Type is the data type of a column or key part. The types are the variables and functions of
// this package that return a [TypeOf].
type Type interface {
	// String returns the type as [ParseType] reads it.
	fmt.Stringer

	id() string
	valid() error

	// normalize checks the Go type of a value and that it can be stored, and returns it in the
	// form in which it will be read.
	normalize(v any) (any, error)
	// normalizeBound does so for a value in a predicate, which need not be storable.
	normalizeBound(v any) (any, error)
	compare(a, b any) int

	// append appends the canonical bytes of a normalized value: equal values have equal bytes.
	append(dst []byte, v any) []byte
	parse(b []byte) (any, error)
	// width is the length of the canonical bytes, which are then in the order of the values; 0
	// where it varies.
	width() int

	orderable() bool
	// exact reports whether different values have different codes.
	exact() bool
	domain() ope.Domain
	code(v any) (int64, error)
	// codes returns the closed interval of the codes that values between the bounds can have, nil
	// bounds being open, and false if there are none.
	codes(lo, hi *bound) (int64, int64, bool)
}

// A TypeOf is a [Type] whose values are of Go type T.
type TypeOf[T any] struct {
	name       string
	codec      encode.Codec[T] // nil where values have no order
	exactCodec *encode.Exact[T]
	err        error // of Within, reported by Create

	size    int // of the canonical bytes, 0 where it varies
	cmp     func(a, b T) int
	encode  func(dst []byte, v T) []byte
	decode  func(b []byte) (T, error)
	accept  func(v T) (T, error) // checks and normalizes; nil accepts all
	convert func(v any) (T, bool)
}

// The types of columns and key parts. Values of integer types may also be given as int, as
// untyped constants are.
var (
	Int8    = integer[int8](1)
	Int16   = integer[int16](2)
	Int32   = integer[int32](4)
	Int64   = integer[int64](8)
	Uint8   = integer[uint8](1)
	Uint16  = integer[uint16](2)
	Uint32  = integer[uint32](4)
	Uint64  = integer[uint64](8)
	Float32 = exactType(4, encode.Float[float32](), cmp.Compare[float32])
	Float64 = exactType(8, encode.Float[float64](), cmp.Compare[float64])
	Bool    = exactType(1, encode.Bool(), compareBool)

	// Date is a day of the calendar.
	Date = exactType(4, encode.Date(), compareDate)

	// IPv4 is an address that is not an IPv6 one.
	IPv4 = exactType(4, encode.IPv4(), netip.Addr.Compare)

	// IPv6 is an IPv6 address without zone. It is ordered by its network, the first 64 bits.
	IPv6 = TypeOf[netip.Addr]{
		name: "ipv6/1", codec: encode.IPv6(), size: 16, cmp: netip.Addr.Compare,
		encode: func(dst []byte, v netip.Addr) []byte { b := v.As16(); return append(dst, b[:]...) },
		decode: func(b []byte) (netip.Addr, error) { return netip.AddrFrom16([16]byte(b)), nil },
		accept: func(v netip.Addr) (netip.Addr, error) {
			if !v.Is6() || v.Zone() != "" {
				return v, errors.New("it is not an IPv6 address without zone")
			}
			return v, nil
		},
	}

	// String is valid UTF-8 of any length. It is ordered bytewise by its first 8 bytes in the
	// database, and by all of them in results.
	String = TypeOf[string]{
		name: "string/1", codec: encode.Bytes[string](8, ""), cmp: strings.Compare,
		encode: func(dst []byte, v string) []byte { return append(dst, v...) },
		decode: func(b []byte) (string, error) { return string(b), nil },
		accept: func(v string) (string, error) {
			if !utf8.ValidString(v) {
				return v, errors.New("it is not valid UTF-8; use Bytes")
			}
			return v, nil
		},
	}

	// Bytes is a byte string of any length, ordered as String is.
	Bytes = TypeOf[[]byte]{
		name: "bytes/1", codec: encode.Bytes[[]byte](8, ""), cmp: bytes.Compare,
		encode: func(dst []byte, v []byte) []byte { return append(dst, v...) },
		decode: func(b []byte) ([]byte, error) { return bytes.Clone(b), nil },
	}

	// UUID is 16 bytes. It has no order.
	UUID = TypeOf[[16]byte]{
		name: "uuid/1", size: 16,
		cmp:    func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) },
		encode: func(dst []byte, v [16]byte) []byte { return append(dst, v[:]...) },
		decode: func(b []byte) ([16]byte, error) { return [16]byte(b), nil },
	}
)

// Time is an instant at a resolution of time.Nanosecond, Microsecond, Millisecond or Second. A
// value that is finer is an error.
func Time(unit time.Duration) TypeOf[time.Time] {
	switch unit {
	case time.Nanosecond, time.Microsecond, time.Millisecond, time.Second:
		return exactType(8, encode.Time(unit), time.Time.Compare)
	}
	return TypeOf[time.Time]{name: "time", err: errors.New("the unit of Time must be a nanosecond, microsecond, millisecond or second")}
}

// Decimal is a decimal number with at most scale digits behind the point, below 9.2e18 in units
// of the last digit. A value with more digits is an error.
func Decimal(scale int32) TypeOf[encode.Decimal] {
	return exactType(8, encode.FixedDecimal(scale), compareDecimal)
}

// Within returns the type restricted to values from lo to hi, both included. An order-preserving
// ciphertext gets shorter with the domain, and gives more away.
func (t TypeOf[T]) Within(lo, hi T) TypeOf[T] {
	if t.err != nil {
		return t
	}
	if t.exactCodec == nil {
		t.err = fmt.Errorf("type %s cannot be restricted", t.name)
		return t
	}
	narrow, err := t.exactCodec.Within(lo, hi)
	if err != nil {
		t.err = err
		return t
	}
	return t.restricted(narrow)
}

func (t TypeOf[T]) restricted(narrow encode.Exact[T]) TypeOf[T] {
	d := narrow.Domain()
	t.name = fmt.Sprintf("%s within=[%d,%d]", narrow.ID(), d.Min, d.Max)
	t.codec, t.exactCodec = narrow, &narrow
	return t
}

// restrict is Within with codes in place of values.
func (t TypeOf[T]) restrict(d ope.Domain) (Type, error) {
	if t.exactCodec == nil {
		return nil, fmt.Errorf("type %s cannot be restricted", t.name)
	}
	lo, errLo := t.exactCodec.Decode(d.Min)
	hi, errHi := t.exactCodec.Decode(d.Max)
	if err := errors.Join(errLo, errHi); err != nil {
		return nil, err
	}
	t = t.Within(lo, hi)
	return t, t.err
}

// restrictable is a type that a declared domain can be given to again.
type restrictable interface {
	restrict(d ope.Domain) (Type, error)
	parseCode(text string) (int64, error)
}

// exactType returns the type of the values of an exact codec. Their canonical bytes are the code,
// as a big-endian integer of size bytes with the sign bit turned, so that they are in order too.
func exactType[T any](size int, codec encode.Exact[T], compare func(a, b T) int) TypeOf[T] {
	unsigned := codec.Domain().Min >= 0 // of at most 32 bits: the code is never negative
	flip := uint64(1) << (8*size - 1)
	if unsigned {
		flip = 0
	}
	return TypeOf[T]{
		name: codec.ID(), codec: codec, exactCodec: &codec, size: size, cmp: compare,
		encode: func(dst []byte, v T) []byte {
			code, err := codec.Encode(v)
			if err != nil {
				panic("store: a value was not checked") // accept has
			}
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(code)^flip)
			return append(dst, b[8-size:]...)
		},
		decode: func(b []byte) (T, error) {
			var full [8]byte
			copy(full[8-size:], b)
			u := binary.BigEndian.Uint64(full[:]) ^ flip
			if !unsigned {
				shift := 64 - 8*size
				return codec.Decode(int64(u<<shift) >> shift)
			}
			return codec.Decode(int64(u))
		},
		accept: func(v T) (T, error) {
			code, err := codec.Encode(v)
			if err != nil {
				return v, err
			}
			return codec.Decode(code)
		},
	}
}

func integer[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](size int) TypeOf[T] {
	t := exactType(size, encode.Integer[T](), cmp.Compare[T])
	t.convert = func(v any) (T, bool) {
		i, ok := v.(int)
		return T(i), ok && int(T(i)) == i && (i < 0) == (T(i) < 0)
	}
	return t
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compareDate(a, b encode.CivilDate) int {
	return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.Month, b.Month), cmp.Compare(a.Day, b.Day))
}

// compareDecimal compares by the place of the leading digit first, so that 1e2000000000 is not
// written out.
func compareDecimal(a, b encode.Decimal) int {
	signA, orderA := leading(a)
	signB, orderB := leading(b)
	if signA != signB || signA == 0 {
		return cmp.Compare(signA, signB)
	}
	if orderA != orderB {
		return signA * cmp.Compare(orderA, orderB)
	}
	return scaled(a, b.Scale).Cmp(scaled(b, a.Scale))
}

// leading returns the sign of d and, unless that is 0, the number of digits before its point.
func leading(d encode.Decimal) (sign int, digits int64) {
	if d.Unscaled == nil || d.Unscaled.Sign() == 0 {
		return 0, 0
	}
	text := new(big.Int).Abs(d.Unscaled).String()
	return d.Unscaled.Sign(), int64(len(text)) - int64(d.Scale)
}

// scaled returns d times ten to the power of its own or the other scale, whichever is larger.
func scaled(d encode.Decimal, other int32) *big.Int {
	up := max(int64(d.Scale), int64(other)) - int64(d.Scale)
	return new(big.Int).Mul(d.Unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(up), nil))
}

func (t TypeOf[T]) id() string           { return t.name }
func (t TypeOf[T]) valid() error         { return t.err }
func (t TypeOf[T]) width() int           { return t.size }
func (t TypeOf[T]) orderable() bool      { return t.codec != nil }
func (t TypeOf[T]) exact() bool          { return t.exactCodec != nil }
func (t TypeOf[T]) compare(a, b any) int { return t.cmp(a.(T), b.(T)) }

func (t TypeOf[T]) domain() ope.Domain { return t.codec.Domain() }

func (t TypeOf[T]) value(v any) (T, error) {
	value, ok := v.(T)
	if !ok && t.convert != nil {
		value, ok = t.convert(v)
	}
	if !ok {
		return value, fmt.Errorf("%w: need a value of Go type %T, got %T", ErrColumn, value, v)
	}
	return value, nil
}

func (t TypeOf[T]) normalize(v any) (any, error) {
	value, err := t.value(v)
	if err == nil && t.accept != nil {
		value, err = t.accept(value)
	}
	if err == nil && t.codec != nil && t.exactCodec != nil {
		_, err = t.codec.Encode(value) // the declared domain
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

func (t TypeOf[T]) normalizeBound(v any) (any, error) {
	value, err := t.value(v)
	if err == nil && t.codec != nil {
		_, _, err = t.codec.Low(value)
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

func (t TypeOf[T]) append(dst []byte, v any) []byte { return t.encode(dst, v.(T)) }

func (t TypeOf[T]) parse(b []byte) (any, error) {
	if t.size != 0 && len(b) != t.size {
		return nil, fmt.Errorf("a value of type %s has %d bytes, need %d", t.name, len(b), t.size)
	}
	v, err := t.decode(b)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (t TypeOf[T]) code(v any) (int64, error) { return t.codec.Encode(v.(T)) }

func (t TypeOf[T]) codes(lo, hi *bound) (int64, int64, bool) {
	d := t.codec.Domain()
	low, high := d.Min, d.Max
	if lo != nil {
		code, ok, err := t.codec.Low(lo.value.(T))
		if err != nil || !ok {
			return 0, 0, false
		}
		if lo.open && t.is(lo.value.(T), code) {
			if code == d.Max {
				return 0, 0, false
			}
			code++
		}
		low = code
	}
	if hi != nil {
		code, ok, err := t.codec.High(hi.value.(T))
		if err != nil || !ok {
			return 0, 0, false
		}
		if hi.open && t.is(hi.value.(T), code) {
			if code == d.Min {
				return 0, 0, false
			}
			code--
		}
		high = code
	}
	return low, high, low <= high
}

// is reports whether code means the value v and no other.
func (t TypeOf[T]) is(v T, code int64) bool {
	if t.exactCodec == nil {
		return false
	}
	own, err := t.exactCodec.Encode(v)
	return err == nil && own == code
}

// parseType returns the type of an id.
func parseType(id string) (Type, error) {
	base, limits, restricted := strings.Cut(id, " within=")
	typ, err := parseBaseType(base)
	if err != nil || !restricted {
		return typ, err
	}
	var d ope.Domain
	if n, err := fmt.Sscanf(limits, "[%d,%d]", &d.Min, &d.Max); n != 2 || err != nil {
		return nil, fmt.Errorf("%w: type %q is not known to this version", ErrFormat, id)
	}
	narrow, err := typ.(restrictable).restrict(d)
	if err != nil || narrow.id() != id {
		return nil, fmt.Errorf("%w: type %q is not known to this version", ErrFormat, id)
	}
	return narrow, nil
}

func parseBaseType(id string) (Type, error) {
	for _, t := range []Type{
		Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, Bool, Date, IPv4, IPv6,
		String, Bytes, UUID,
		Time(time.Nanosecond), Time(time.Microsecond), Time(time.Millisecond), Time(time.Second),
	} {
		if t.id() == id {
			return t, nil
		}
	}
	if digits, ok := strings.CutPrefix(id, "decimal/1 scale="); ok {
		if scale, err := strconv.ParseInt(digits, 10, 32); err == nil {
			if t := Decimal(int32(scale)); t.id() == id {
				return t, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: type %q is not known to this version", ErrFormat, id)
}

// appendSortable appends bytes that are in the order of the values and of which none is a prefix
// of another's, for the plain parts of row keys. Values of varying length are terminated: 0x00 is
// written as 0x00 0xff, and 0x00 0x01 ends the value.
func appendSortable(dst []byte, t Type, v any) []byte {
	if t.width() > 0 {
		return t.append(dst, v)
	}
	for _, b := range t.append(nil, v) {
		if dst = append(dst, b); b == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}
