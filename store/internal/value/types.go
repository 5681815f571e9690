// Package value has the types of values, and their texts, codes and bytes.
//
// The canonical bytes of a value are equal for equal values. The stored bytes are what a cell has, and read back as that
// very value. The sortable bytes stand in row keys. All of them are for ever, see docs/format.md.
package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A Type is the data type of a column or key part.
type Type interface {
	// String returns the type as [Parse] reads it.
	fmt.Stringer

	ID() string           // what the catalogue has, which [ParseID] reads
	Err() error           // why no column can be made with the type
	GoType() reflect.Type // of the values

	// Normalize checks the Go type of a value and that it can be stored, and returns it in the
	// form in which it will be read.
	Normalize(v any) (any, error)
	// NormalizeAt does so for the value that a pointer to the Go type leads to.
	NormalizeAt(p any) (any, error)
	// NormalizeBound does so for a value in a predicate, which need not be storable.
	NormalizeBound(v any) (any, error)
	Compare(a, b any) int

	// Append appends the canonical bytes of a normalized value: equal values have equal bytes. It is
	// not for values that are unordered.
	Append(dst []byte, v any) []byte
	// AppendStored appends the bytes that a cell has of a normalized value, which Parse turns into
	// that very value. They are the canonical ones but for the negative zero and NaN.
	AppendStored(dst []byte, v any) []byte
	Parse(b []byte) (any, error)
	// Unordered reports whether a value is less than, equal to and greater than none: NaN.
	Unordered(v any) bool
	// Width is the length of the canonical bytes, which are then in the order of the values; 0
	// where it varies.
	Width() int

	// Add returns a normalized value of a type of integers, changed by a number.
	Add(v any, by int64) (any, error)

	Orderable() bool
	// Exact reports whether different values have different codes.
	Exact() bool
	Domain() ope.Domain
	Code(v any) (int64, error)
	// OfCode returns the value of a code. Only an exact type has it.
	OfCode(code int64) (any, error)
	// ComparePlaces compares values as far as ciphertexts tell them apart.
	ComparePlaces(a, b any) int
	// TextOrder is how many bytes of text ciphertexts keep in order, where these are not the ciphertexts of codes; else 0.
	TextOrder() int
	// Codes returns the closed interval of the codes that values between the bounds can have, nil
	// bounds being open, and false if there are none.
	Codes(lo, hi *Bound) (int64, int64, bool)
}

// A Bound is the least or the greatest value of a range.
type Bound struct {
	Value any
	Open  bool // the value itself is not in the range
}

// A TypeOf is a [Type] whose values are of Go type T.
type TypeOf[T any] struct {
	name       string
	codec      encode.Codec[T] // nil where values have no order
	exactCodec *encode.Exact[T]
	err        error // of the function that made it

	size    int // of the canonical bytes, 0 where it varies
	cmp     func(a, b T) int
	encode  func(dst []byte, v T) []byte
	decode  func(b []byte) (T, error)
	accept  func(v T) (T, error) // checks and normalizes; nil accepts all
	convert func(v any) (_ T, ok bool, err error)

	textOrder int // as TextOrder returns it

	store func(dst []byte, v T) []byte // the bytes of a cell; nil where they are the canonical ones
	isNaN func(v T) bool               // nil where there are no such values, or none is taken
}

// The types. What each takes, package store says.
var (
	Int8    = integer[int8](1)
	Int16   = integer[int16](2)
	Int32   = integer[int32](4)
	Int64   = integer[int64](8)
	Uint8   = integer[uint8](1)
	Uint16  = integer[uint16](2)
	Uint32  = integer[uint32](4)
	Uint64  = integer[uint64](8)
	Float32 = float(4, math.Float32bits, math.Float32frombits)
	Float64 = float(8, math.Float64bits, math.Float64frombits)
	Bool    = exactType(1, encode.Bool(), compareBool)

	Date = exactType(4, encode.Date(), compareDate)

	IPv4 = exactType(4, encode.IPv4(), netip.Addr.Compare)

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

	Bytes = TypeOf[[]byte]{
		name: "bytes/1", codec: encode.Bytes[[]byte](8, ""), cmp: bytes.Compare,
		encode: func(dst []byte, v []byte) []byte { return append(dst, v...) },
		// What is empty is not nil, which stands for null.
		decode: func(b []byte) ([]byte, error) { return append([]byte{}, b...), nil },
	}

	UUID = TypeOf[[16]byte]{
		name: "uuid/1", size: 16,
		cmp:    func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) },
		encode: func(dst []byte, v [16]byte) []byte { return append(dst, v[:]...) },
		decode: func(b []byte) ([16]byte, error) { return [16]byte(b), nil },
	}
)

// Time is an instant at a resolution.
func Time(unit time.Duration) TypeOf[time.Time] {
	switch unit {
	case time.Nanosecond, time.Microsecond, time.Millisecond, time.Second:
		return exactType(8, encode.Time(unit), time.Time.Compare)
	}
	return TypeOf[time.Time]{name: "time", err: errors.New("the unit of Time must be a nanosecond, microsecond, millisecond or second")}
}

// maxScale bounds the digits after the point of a new column: comparing writes them out.
const maxScale = 1000

// Decimal is a decimal number with at most scale digits after the point.
func Decimal(scale int32) TypeOf[encode.Decimal] {
	t := decimal(scale)
	if scale < -maxScale || scale > maxScale {
		t.err = fmt.Errorf("the scale of Decimal is %d, need %d to %d", scale, -maxScale, maxScale)
	}
	return t
}

// decimal takes any scale, as columns had before it was bounded.
func decimal(scale int32) TypeOf[encode.Decimal] {
	t := exactType(8, encode.FixedDecimal(scale), compareDecimal)
	t.convert = func(v any) (d encode.Decimal, ok bool, err error) {
		switch v := v.(type) {
		case int:
			return encode.Decimal{Unscaled: big.NewInt(int64(v))}, true, nil
		case float64:
			d, err = decimalOfConstant(v)
			return d, true, err
		}
		return d, false, nil
	}
	return t
}

// constantDigits is how many digits a decimal number may have so that it is read back from the float64 nearest to it.
const constantDigits = 15

// decimalOfConstant returns the decimal number that an untyped constant was written as: the shortest one to which the
// float64 is the nearest. Of more digits it may not be the one that was written, or the sum of a calculation.
func decimalOfConstant(f float64) (encode.Decimal, error) {
	digits, _, _ := strings.Cut(strconv.FormatFloat(math.Abs(f), 'e', -1, 64), "e")
	if len(strings.Replace(digits, ".", "", 1)) > constantDigits || math.IsNaN(f) || math.IsInf(f, 0) {
		return encode.Decimal{}, fmt.Errorf("%w: a float64 that is no decimal number of at most %d digits", ope.ErrDomain, constantDigits)
	}
	return encode.ParseDecimal(strconv.FormatFloat(f, 'f', -1, 64))
}

// Within returns the type restricted to values from lo to hi, both included.
func (t TypeOf[T]) Within(lo, hi T) TypeOf[T] {
	if t.err != nil {
		return t
	}
	if t.exactCodec == nil {
		t.err = fmt.Errorf("type %s cannot be restricted", t)
		return t
	}
	narrow, err := t.exactCodec.Within(lo, hi)
	if err != nil {
		t.err = err
		return t
	}
	return t.restricted(narrow)
}

// OrderedBy returns the type of the same values whose ciphertexts are in the order of the first n bytes: 16, 24 or 32.
func (t TypeOf[T]) OrderedBy(n int) TypeOf[T] {
	switch {
	case t.err != nil:
	case t.name != String.name && t.name != Bytes.name:
		t.err = fmt.Errorf("only string and bytes are ordered by a number of bytes, not type %s", t)
	case n != 16 && n != 24 && n != 32:
		t.err = fmt.Errorf("type %s is ordered by its first 8 bytes, or by 16, 24 or 32; %d is none of these", typeName(t.name), n)
	default:
		t.name, t.textOrder = fmt.Sprintf("%s/2 order=%d", typeName(t.name), n), n
	}
	return t
}

// Prefixed returns the type of the same values in the order of nearly eight bytes after one of the beginnings.
func (t TypeOf[T]) Prefixed(beginnings ...string) TypeOf[T] {
	if t.err != nil {
		return t
	}
	text, ok := any(t).(TypeOf[string])
	if !ok || text.name != String.name {
		t.err = fmt.Errorf("only string takes beginnings, not type %s", t)
		return t
	}
	for _, p := range beginnings {
		if strings.ContainsFunc(p, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) || !utf8.ValidString(p) {
			t.err = fmt.Errorf("the beginning %q of type string has a space, a control character or what is not UTF-8", p)
			return t
		}
	}
	codec, err := encode.Prefixed[string](beginnings...)
	if err != nil {
		t.err = fmt.Errorf("type string: %w", err)
		return t
	}
	text.codec, text.name = codec, "string/3 "+codec.ID()
	return any(text).(TypeOf[T])
}

// beginningsOf returns the beginnings in the id of a type that has some, or nil.
func beginningsOf(id string) (beginnings []string) {
	words, ok := strings.CutPrefix(id, "string/3 prefixed/1 ")
	if !ok {
		return nil
	}
	for _, word := range strings.Fields(words) {
		b, _ := hex.DecodeString(word) // of another id, which the type that is made of it has not
		beginnings = append(beginnings, string(b))
	}
	return beginnings
}

func (t TypeOf[T]) restricted(narrow encode.Exact[T]) TypeOf[T] {
	d := narrow.Domain()
	t.name = fmt.Sprintf("%s within=[%d,%d]", narrow.ID(), d.Min, d.Max)
	t.codec, t.exactCodec = narrow, &narrow
	t.isNaN = nil
	return t
}

// Restrict is Within with codes in place of values.
func (t TypeOf[T]) Restrict(d ope.Domain) (Type, error) {
	if t.exactCodec == nil {
		return nil, fmt.Errorf("type %s cannot be restricted", t)
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
	Restrict(d ope.Domain) (Type, error)
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
				panic("value: it was not checked") // accept has
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

// unfit is the error of an untyped constant that a type does not have.
func unfit(what string, to any) error {
	return fmt.Errorf("%w: %s that is no %T", ope.ErrDomain, what, to)
}

func integer[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](size int) TypeOf[T] {
	t := exactType(size, encode.Integer[T](), cmp.Compare[T])
	t.convert = func(v any) (to T, ok bool, err error) {
		switch v := v.(type) {
		case int:
			to, ok = T(v), true
			if int(to) != v || (v < 0) != (to < 0) {
				err = unfit("an int", to)
			}
		case float64:
			var i int64
			// Integers of more than 53 bits are not meant by a constant such as 1e3.
			if i, ok = int64(v), true; v != math.Trunc(v) || math.Abs(v) > 1<<53 {
				return 0, true, unfit("a float64", to)
			}
			if to = T(i); int64(to) != i || (i < 0) != (to < 0) {
				err = unfit("a float64", to)
			}
		}
		return to, ok, err
	}
	return t
}

// float returns a type of floating point numbers. The bytes of a cell are the canonical ones
// continued: the bits without the sign as an integer, with the sign, also of NaN; and the number that
// is left over, which is the least, is the negative zero.
func float[T float32 | float64, B uint32 | uint64](size int, bits func(T) B, from func(B) T) TypeOf[T] {
	t := exactType(size, encode.Float[T](), cmp.Compare[T])
	sign := B(1) << (8*size - 1)
	t.accept = nil // keeps the sign of a zero
	t.convert = func(v any) (to T, ok bool, err error) {
		switch v := v.(type) {
		case int:
			// Beyond 63 bits the way back would not be defined.
			if to, ok = T(v), true; float64(to) >= 1<<63 || int(to) != v {
				err = unfit("an int", to)
			}
		case float64:
			if to, ok = T(v), true; float64(to) != v {
				err = unfit("a float64", to)
			}
		}
		return to, ok, err
	}
	t.isNaN = func(v T) bool { return v != v }
	t.store = func(dst []byte, v T) []byte {
		u := bits(v)
		switch {
		case u < sign:
			u |= sign
		case u == sign:
			u = 0
		default:
			u = -u // sign less the bits after it
		}
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(u))
		return append(dst, b[8-size:]...)
	}
	t.decode = func(b []byte) (T, error) {
		var full [8]byte
		copy(full[8-size:], b)
		u := B(binary.BigEndian.Uint64(full[:]))
		switch {
		case u >= sign:
			u &^= sign
		case u == 0:
			u = sign
		default:
			u = -u
		}
		return from(u), nil
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

func (t TypeOf[T]) ID() string           { return t.name }
func (t TypeOf[T]) Err() error           { return t.err }
func (t TypeOf[T]) GoType() reflect.Type { return reflect.TypeFor[T]() }
func (t TypeOf[T]) Width() int           { return t.size }
func (t TypeOf[T]) Orderable() bool      { return t.codec != nil }
func (t TypeOf[T]) Exact() bool          { return t.exactCodec != nil }
func (t TypeOf[T]) Compare(a, b any) int { return t.cmp(a.(T), b.(T)) }

func (t TypeOf[T]) TextOrder() int { return t.textOrder }

func (t TypeOf[T]) ComparePlaces(a, b any) int {
	if t.textOrder > 0 {
		return bytes.Compare(t.beginning(a), t.beginning(b))
	}
	codeA, errA := t.Code(a)
	codeB, errB := t.Code(b)
	if errA != nil || errB != nil {
		panic("value: it was not checked") // Normalize has
	}
	return cmp.Compare(codeA, codeB)
}

// beginning returns the bytes of a text that ciphertexts keep in order, filled up with zeros.
func (t TypeOf[T]) beginning(v any) []byte {
	b := t.Append(make([]byte, 0, t.textOrder), v)
	b = b[:min(len(b), t.textOrder)]
	return append(b, make([]byte, t.textOrder-len(b))...)
}

func (t TypeOf[T]) Domain() ope.Domain { return t.codec.Domain() }

func (t TypeOf[T]) value(v any) (T, error) {
	value, ok := v.(T)
	if !ok && t.convert != nil {
		var err error
		if value, ok, err = t.convert(v); err != nil {
			return value, err
		}
	}
	if !ok {
		var err error
		if value, ok, err = alike[T](v); err != nil {
			return value, err
		}
	}
	if !ok {
		return value, fmt.Errorf("%w: need a value of Go type %T, got %T", fault.ErrColumn, value, v)
	}
	return value, nil
}

func (t TypeOf[T]) Normalize(v any) (any, error) {
	value, err := t.value(v)
	if err != nil {
		return nil, notTaken(err)
	}
	return t.normalize(value)
}

func (t TypeOf[T]) NormalizeAt(p any) (any, error) { return t.normalize(*p.(*T)) }

func (t TypeOf[T]) normalize(value T) (_ any, err error) {
	if t.isNaN != nil && t.isNaN(value) {
		return value, nil
	}
	if t.accept != nil {
		value, err = t.accept(value)
	}
	if err == nil && t.codec != nil && t.exactCodec != nil {
		_, err = t.codec.Encode(value) // the declared domain
	}
	if err != nil {
		return nil, notTaken(err)
	}
	return value, nil
}

// notTaken gives the error of a value that a type does not take its kind, beside that of package encode.
func notTaken(err error) error {
	if errors.Is(err, fault.ErrColumn) || errors.Is(err, ope.ErrDomain) {
		return err
	}
	return fmt.Errorf("%w: %w", ope.ErrDomain, err)
}

// ErrNaN is the error of a NaN where values are searched, or are a row key.
var ErrNaN = fmt.Errorf("%w: %w: NaN is equal to nothing, so that only a randomised or plain column takes it", ope.ErrDomain, encode.ErrInvalid)

func (t TypeOf[T]) NormalizeBound(v any) (any, error) {
	value, err := t.value(v)
	if err == nil && t.codec != nil {
		_, _, err = t.codec.Low(value)
	}
	if err != nil {
		return nil, notTaken(err)
	}
	return value, nil
}

// CanAdd returns an error if values of a type are no integers.
func CanAdd(t Type) error {
	if kind := t.GoType().Kind(); kind < reflect.Int || reflect.Uint64 < kind {
		return fmt.Errorf("%w: type %s has no integers to add to", fault.ErrColumn, t)
	}
	return nil
}

func (t TypeOf[T]) Add(v any, by int64) (any, error) {
	if err := CanAdd(t); err != nil {
		return nil, err
	}
	code, err := t.exactCodec.Encode(v.(T))
	if err != nil {
		return nil, notTaken(err)
	}
	sum := code + by // codes are as far apart as the integers
	if (sum > code) != (by > 0) && by != 0 {
		return nil, fmt.Errorf("%w: the sum is beyond the values of type %s", ope.ErrDomain, t)
	}
	added, err := t.exactCodec.Decode(sum)
	if err != nil {
		return nil, fmt.Errorf("%w: the sum is beyond the values of type %s", ope.ErrDomain, t)
	}
	return added, nil
}

func (t TypeOf[T]) Append(dst []byte, v any) []byte { return t.encode(dst, v.(T)) }

func (t TypeOf[T]) AppendStored(dst []byte, v any) []byte {
	if t.store != nil {
		return t.store(dst, v.(T))
	}
	return t.encode(dst, v.(T))
}

func (t TypeOf[T]) Unordered(v any) bool { return t.isNaN != nil && t.isNaN(v.(T)) }

func (t TypeOf[T]) Parse(b []byte) (any, error) {
	if t.size != 0 && len(b) != t.size {
		return nil, fmt.Errorf("a value of type %s has %d bytes, need %d", t, len(b), t.size)
	}
	v, err := t.decode(b)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (t TypeOf[T]) Code(v any) (int64, error) { return t.codec.Encode(v.(T)) }

func (t TypeOf[T]) OfCode(code int64) (any, error) { return t.exactCodec.Decode(code) }

func (t TypeOf[T]) Codes(lo, hi *Bound) (int64, int64, bool) {
	d := t.codec.Domain()
	low, high := d.Min, d.Max
	if lo != nil {
		code, ok, err := t.codec.Low(lo.Value.(T))
		if err != nil || !ok {
			return 0, 0, false
		}
		if lo.Open && t.is(lo.Value.(T), code) {
			if code == d.Max {
				return 0, 0, false
			}
			code++
		}
		low = code
	}
	if hi != nil {
		code, ok, err := t.codec.High(hi.Value.(T))
		if err != nil || !ok {
			return 0, 0, false
		}
		if hi.Open && t.is(hi.Value.(T), code) {
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

// ParseID returns the type of an id.
func ParseID(id string) (Type, error) {
	base, limits, restricted := strings.Cut(id, " within=")
	typ, err := parseBaseType(base)
	if err != nil || !restricted {
		return typ, err
	}
	var d ope.Domain
	if n, err := fmt.Sscanf(limits, "[%d,%d]", &d.Min, &d.Max); n != 2 || err != nil {
		return nil, fmt.Errorf("%w: type %q is not known to this version", fault.ErrFormat, id)
	}
	narrow, err := typ.(restrictable).Restrict(d)
	if err != nil || narrow.ID() != id {
		return nil, fmt.Errorf("%w: type %q is not known to this version", fault.ErrFormat, id)
	}
	return narrow, nil
}

// baseTypes are the types without parameters, and those whose parameters have few values.
var baseTypes = []Type{
	Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, Bool, Date, IPv4, IPv6,
	String, String.OrderedBy(16), String.OrderedBy(24), String.OrderedBy(32),
	Bytes, Bytes.OrderedBy(16), Bytes.OrderedBy(24), Bytes.OrderedBy(32), UUID,
	Time(time.Nanosecond), Time(time.Microsecond), Time(time.Millisecond), Time(time.Second),
}

func parseBaseType(id string) (Type, error) {
	for _, t := range baseTypes {
		if t.ID() == id {
			return t, nil
		}
	}
	if digits, ok := strings.CutPrefix(id, "decimal/1 scale="); ok {
		if scale, err := strconv.ParseInt(digits, 10, 32); err == nil {
			if t := decimal(int32(scale)); t.ID() == id {
				return t, nil
			}
		}
	}
	if beginnings := beginningsOf(id); beginnings != nil {
		if t := String.Prefixed(beginnings...); t.err == nil && t.name == id {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w: type %q is not known to this version", fault.ErrFormat, id)
}

// AppendSortable appends bytes that are in the order of the values and of which none is a prefix
// of another's, for the plain parts of row keys. Values of varying length are terminated: 0x00 is
// written as 0x00 0xff, and 0x00 0x01 ends the value.
func AppendSortable(dst []byte, t Type, v any) []byte {
	if t.Width() > 0 {
		return t.Append(dst, v)
	}
	for _, b := range t.Append(nil, v) {
		if dst = append(dst, b); b == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// CutSortable undoes AppendSortable and returns what follows.
func CutSortable(b []byte, t Type) (v any, rest []byte, err error) {
	if n := t.Width(); n > 0 {
		if len(b) < n {
			return nil, nil, errCut
		}
		v, err = t.Parse(b[:n])
		return v, b[n:], err
	}
	var canonical []byte
	for i := 0; i < len(b); i++ {
		if b[i] != 0 {
			canonical = append(canonical, b[i])
			continue
		}
		if i++; i == len(b) || b[i] != 1 && b[i] != 0xff {
			break
		}
		if b[i] == 1 {
			v, err = t.Parse(canonical)
			return v, b[i+1:], err
		}
		canonical = append(canonical, 0)
	}
	return nil, nil, errCut
}

var errCut = errors.New("cut short")
