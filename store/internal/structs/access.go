package structs

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// nullable is how a field says that a value is null.
type nullable int

const (
	never    nullable = iota
	pointer           // nil is null
	nilSlice          // of bytes; one that is empty and not nil is the empty value
	sqlNull           // sql.Null, or one of the older types like sql.NullString
)

var (
	timeType    = reflect.TypeFor[time.Time]()
	addrType    = reflect.TypeFor[netip.Addr]()
	ipType      = reflect.TypeFor[net.IP]()
	decimalType = reflect.TypeFor[encode.Decimal]()
	bytesType   = reflect.TypeFor[[]byte]()
	stringType  = reflect.TypeFor[string]()
	intType     = reflect.TypeFor[int]()
	uintType    = reflect.TypeFor[uint]()
)

// nullableOf returns the type of the values of a field, and how they are null.
func nullableOf(typ reflect.Type) (elem reflect.Type, null nullable) {
	switch {
	case typ.Kind() == reflect.Pointer:
		return typ.Elem(), pointer
	case value.SameShape(typ, bytesType):
		return typ, nilSlice
	case value.IsSQLNull(typ):
		return typ.Field(0).Type, sqlNull
	}
	return typ, never
}

// An access reads and writes a variable of one Go type, which a pointer leads to, as values of a column.
type access struct {
	shape reflect.Type              // what the pointer is converted to before; nil if it need not be
	load  func(at any) (any, error) // nil if the pointer leads to the Go type of the column
	save  func(at, v any) (ok bool, err error)
}

func variable[T any](typ reflect.Type) access {
	a := access{
		save: func(at, v any) (bool, error) {
			x, ok := v.(T)
			if ok {
				*at.(*T) = x
			}
			return ok, nil
		},
	}
	if own := reflect.TypeFor[T](); typ != own {
		a.shape = reflect.PointerTo(own)
	}
	return a
}

// variables are the accesses of the Go types that columns have.
var variables = map[reflect.Type]func(typ reflect.Type) access{
	reflect.TypeFor[int8](): variable[int8], reflect.TypeFor[int16](): variable[int16], reflect.TypeFor[int32](): variable[int32],
	reflect.TypeFor[int64](): variable[int64], reflect.TypeFor[uint8](): variable[uint8], reflect.TypeFor[uint16](): variable[uint16],
	reflect.TypeFor[uint32](): variable[uint32], reflect.TypeFor[uint64](): variable[uint64], reflect.TypeFor[float32](): variable[float32],
	reflect.TypeFor[float64](): variable[float64], reflect.TypeFor[bool](): variable[bool], reflect.TypeFor[string](): variable[string],
	bytesType: variable[[]byte], reflect.TypeFor[[16]byte](): variable[[16]byte], reflect.TypeFor[encode.CivilDate](): variable[encode.CivilDate],
	timeType: variable[time.Time], addrType: variable[netip.Addr], decimalType: variable[encode.Decimal],
}

// accessOf returns how a variable of a Go type is read and written as values of the Go type of a column. What is made of
// string is that string, also where it has another text.
func accessOf(elem, column reflect.Type) (access, bool) {
	a, ok := ownAccess(elem, column)
	switch {
	case ok:
		return a, true
	case column == decimalType && value.IsDecimal(elem) && value.ReadsNumbers(elem):
		return number, true
	case column == stringType && value.HasText(elem):
		return text, true
	}
	return access{}, false
}

// ownAccess is accessOf for types that are made of that of the column.
func ownAccess(elem, column reflect.Type) (access, bool) {
	of := variables[column]
	switch {
	case of == nil:
		return access{}, false
	case value.SameShape(elem, column):
		return of(elem), true
	case value.SameShape(elem, intType) && column == reflect.TypeFor[int64]():
		return wide[int, int64](elem), true
	case value.SameShape(elem, uintType) && column == reflect.TypeFor[uint64]():
		return wide[uint, uint64](elem), true
	}
	return access{}, false
}

// wide is the access of an int or uint, which a column has as 64 bits.
func wide[T int | uint, C int64 | uint64](typ reflect.Type) access {
	a := variable[T](typ)
	a.load = func(at any) (any, error) { return C(*at.(*T)), nil }
	a.save = func(at, v any) (bool, error) {
		x, ok := v.(C)
		if ok && C(T(x)) != x {
			return true, fmt.Errorf("%w: a value that does not fit in %T on this machine", ope.ErrDomain, T(0))
		}
		if ok {
			*at.(*T) = T(x)
		}
		return ok, nil
	}
	return a
}

// number is the access of a decimal of another package.
var number = access{
	load: func(at any) (any, error) { return value.DecimalOf(at) },
	save: func(at, v any) (bool, error) {
		d, ok := v.(encode.Decimal)
		if !ok {
			return false, nil
		}
		return true, value.SetDecimal(at, d)
	},
}

// text is the access of a type that is kept as its text.
var text = access{
	load: func(at any) (any, error) { return value.TextOf(at) },
	save: func(at, v any) (bool, error) {
		s, ok := v.(string)
		if !ok {
			return false, nil
		}
		return true, value.SetText(at, s)
	},
}

// defaultType returns the type that a column of a Go type has if the tag says none, or nil. It is nil for a net.IP: the same address
// of 4 bytes and of 16 would be two values, and neither found by the other.
func defaultType(elem reflect.Type) value.Type {
	if elem == ipType {
		return nil
	}
	for _, t := range []value.Type{
		value.Int64, value.Int8, value.Int16, value.Int32, value.Uint64, value.Uint8, value.Uint16, value.Uint32, value.Float32, value.Float64,
		value.Bool, value.Date, value.String, value.Bytes, value.UUID,
	} {
		if _, ok := ownAccess(elem, t.GoType()); ok {
			return t
		}
	}
	return nil
}

// at returns a pointer to the variable of a field in a struct, as its access takes it; nil where the field is null.
// With make, there is one, which is new behind a pointer: other structs may have the former pointer.
func (f *boundField) at(row reflect.Value, make bool) any {
	v := row.FieldByIndex(f.index)
	switch f.null {
	case pointer:
		switch {
		case make:
			v.Set(reflect.New(f.elem))
		case v.IsNil():
			return nil
		}
		return f.shaped(v)
	case sqlNull:
		if !make && !v.Field(1).Bool() {
			return nil
		}
		if make {
			v.Field(1).SetBool(true)
		}
		v = v.Field(0)
	case nilSlice:
		if !make && v.IsNil() {
			return nil
		}
	}
	return f.shaped(v.Addr())
}

func (f *boundField) shaped(p reflect.Value) any {
	if f.shape != nil {
		p = p.Convert(f.shape)
	}
	return p.Interface()
}
