package value

import (
	"bytes"
	"math/big"
	"reflect"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// Keep returns a value that stays as it is when who gave it uses its bytes, or the number of a decimal, for something else.
func Keep(v any) any {
	switch given := v.(type) {
	case []byte:
		return bytes.Clone(given)
	case encode.Decimal:
		if given.Unscaled != nil {
			given.Unscaled = new(big.Int).Set(given.Unscaled)
		}
		return given
	}
	if b := reflect.ValueOf(v); b.Kind() == reflect.Slice && !b.IsNil() && b.Type().Elem().Kind() == reflect.Uint8 {
		return reflect.AppendSlice(reflect.MakeSlice(b.Type(), 0, b.Len()), b).Interface()
	}
	return v
}

// KeepAll does so with values.
func KeepAll(values []any) []any {
	kept := slices.Clone(values)
	for i, v := range kept {
		kept[i] = Keep(v)
	}
	return kept
}

// KeepEach returns copies of what has values, with values that are kept.
func KeepEach[T any](all []*T, values func(*T) *[]any) []*T {
	kept := make([]*T, len(all))
	for i, of := range all {
		own := *of
		*values(&own) = KeepAll(*values(of))
		kept[i] = &own
	}
	return kept
}

// Kept returns a bound whose value is kept; nil of nil.
func (b *Bound) Kept() *Bound {
	if b == nil {
		return nil
	}
	return &Bound{Keep(b.Value), b.Open}
}
