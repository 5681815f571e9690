package value

import (
	"encoding"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// SameShape reports whether a Go type is another one, or is made of the same underlying type.
func SameShape(typ, other reflect.Type) bool {
	return typ == other || typ.Kind() == other.Kind() && reflect.PointerTo(typ).ConvertibleTo(reflect.PointerTo(other))
}

// IsInexact reports whether a type looks like a decimal, but its text is a fraction or has an exponent.
func IsInexact(typ reflect.Type) bool {
	return typ == reflect.TypeFor[big.Rat]() || typ == reflect.TypeFor[big.Float]()
}

// IsDecimal reports whether a type may be a decimal of another package, such as inf.Dec: its text is the number. Other
// types have methods of the same names, see ReadsNumbers.
func IsDecimal(typ reflect.Type) bool {
	if IsInexact(typ) {
		return false
	}
	for _, own := range []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[encode.Decimal]()} {
		if SameShape(typ, own) {
			return false
		}
	}
	return typ.Kind() == reflect.Struct && HasText(typ)
}

// ReadsNumbers reports whether a type that may be a decimal reads a number and writes the same one. Two are tried, as a
// type may refuse zero.
func ReadsNumbers(typ reflect.Type) bool {
	return slices.ContainsFunc([]int64{0, 1}, func(n int64) bool {
		p, number := reflect.New(typ).Interface(), encode.Decimal{Unscaled: big.NewInt(n)}
		if SetDecimal(p, number) != nil {
			return false
		}
		d, err := DecimalOf(p)
		return err == nil && compareDecimal(d, number) == 0
	})
}

// DecimalOf returns the number that a pointer to a decimal of another package leads to.
func DecimalOf(p any) (encode.Decimal, error) {
	b, err := p.(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return encode.Decimal{}, fmt.Errorf("%w: MarshalText of %v returns an error", ope.ErrDomain, reflect.TypeOf(p).Elem())
	}
	d, err := encode.ParseDecimal(string(b))
	if err != nil {
		return encode.Decimal{}, fmt.Errorf("%w: the text of %v is no decimal number", ope.ErrDomain, reflect.TypeOf(p).Elem())
	}
	return d, nil
}

// SetDecimal undoes DecimalOf. A type such as big.Int reads 5, and not 5.00, which a column with a scale makes of it.
func SetDecimal(p any, d encode.Decimal) error {
	read, text := p.(encoding.TextUnmarshaler).UnmarshalText, d.String()
	err := read([]byte(text))
	if whole, part, _ := strings.Cut(text, "."); err != nil && strings.Trim(part, "0") == "" {
		err = read([]byte(whole))
	}
	if err != nil {
		return fmt.Errorf("%w: UnmarshalText of %v does not read a decimal number", ope.ErrDomain, reflect.TypeOf(p).Elem())
	}
	return nil
}

// WritesText reports whether the values of a type have a text.
func WritesText(typ reflect.Type) bool {
	return reflect.PointerTo(typ).Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// ReadsText reports whether a type reads a text.
func ReadsText(typ reflect.Type) bool {
	return reflect.PointerTo(typ).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// HasText reports whether the values of a type have a text, and are read from it.
func HasText(typ reflect.Type) bool { return WritesText(typ) && ReadsText(typ) }

// TextOf returns the text of the value that a pointer leads to. It is read back first: what no reader could read, or
// would read as another value, is not stored. Errors of the type's own methods may show the value, and are left out.
func TextOf(p any) (string, error) {
	typ := reflect.TypeOf(p).Elem()
	b, err := p.(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return "", fmt.Errorf("%w: MarshalText of %v returns an error", ope.ErrDomain, typ)
	}
	text, again := string(b), reflect.New(typ).Interface()
	if again.(encoding.TextUnmarshaler).UnmarshalText(b) != nil {
		return "", fmt.Errorf("%w: UnmarshalText of %v does not read what MarshalText wrote: make it read all that MarshalText writes", ope.ErrDomain, typ)
	}
	if b, err = again.(encoding.TextMarshaler).MarshalText(); err != nil || string(b) != text {
		return "", fmt.Errorf("%w: UnmarshalText of %v reads another value than MarshalText wrote: make the text say all of the value", ope.ErrDomain, typ)
	}
	return text, nil
}

// SetText undoes TextOf.
func SetText(p any, text string) error {
	if p.(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) != nil {
		return fmt.Errorf("%w: UnmarshalText of %v does not read the text that the column has", ope.ErrDomain, reflect.TypeOf(p).Elem())
	}
	return nil
}

// IsSQLNull reports whether a type is sql.Null, or one of the older types like sql.NullString: a value, and whether there
// is one.
func IsSQLNull(typ reflect.Type) bool {
	return typ.Kind() == reflect.Struct && typ.PkgPath() == "database/sql" && typ.NumField() == 2 && typ.Field(1).Name == "Valid"
}

// Given returns the value that a pointer or an sql.Null has, nil if it has none, and any other value as it is.
func Given(v any) any {
	of := reflect.ValueOf(v)
	switch {
	case !of.IsValid():
		return nil
	case of.Kind() == reflect.Pointer && of.IsNil(), IsSQLNull(of.Type()) && !of.Field(1).Bool():
		return nil
	case of.Kind() == reflect.Pointer:
		return of.Elem().Interface()
	case IsSQLNull(of.Type()):
		return of.Field(0).Interface()
	}
	return v
}

// A Tie is the value of a tie-breaker in a struct, where zeros are none.
type Tie [16]byte

// Takes reports whether values of a Go type stand for those of the Go type of a column.
func Takes(given, column reflect.Type) bool {
	switch {
	case SameShape(given, column):
		return true
	case column == reflect.TypeFor[int64]():
		return SameShape(given, reflect.TypeFor[int]())
	case column == reflect.TypeFor[uint64]():
		return SameShape(given, reflect.TypeFor[uint]())
	}
	return column == reflect.TypeFor[encode.Decimal]() && IsDecimal(given)
}

// alike returns a value of another Go type that stands for one of T.
func alike[T any](v any) (to T, ok bool, err error) {
	given := reflect.ValueOf(v)
	if !given.IsValid() || !Takes(given.Type(), reflect.TypeFor[T]()) {
		return to, false, nil
	}
	if d, decimal := any(&to).(*encode.Decimal); decimal && IsDecimal(given.Type()) {
		p := reflect.New(given.Type())
		p.Elem().Set(given)
		*d, err = DecimalOf(p.Interface())
		return to, true, err
	}
	reflect.ValueOf(&to).Elem().Set(given.Convert(reflect.TypeFor[T]()))
	return to, true, nil
}

// Assign gives the variable that a pointer leads to a value of a column, if its Go type stands for that of the column.
func Assign(to, v any) bool {
	p := reflect.ValueOf(to).Elem()
	if v == nil || p.Kind() == reflect.Interface || !Takes(p.Type(), reflect.TypeOf(v)) {
		return false
	}
	if d, decimal := v.(encode.Decimal); decimal && IsDecimal(p.Type()) {
		return SetDecimal(to, d) == nil
	}
	p.Set(reflect.ValueOf(v).Convert(p.Type()))
	// Only an int or uint may have fewer bits.
	switch v := v.(type) {
	case int64:
		return p.Int() == v
	case uint64:
		return p.Uint() == v
	}
	return true
}
