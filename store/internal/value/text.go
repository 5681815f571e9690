package value

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Parse returns the type that a text names, in the form that store.ParseType describes.
func Parse(text string) (Type, error) {
	words := strings.Fields(text)
	if len(words) > 1 && words[1] == "after" {
		if words[0] != "string" {
			return nil, fmt.Errorf("%w: only string takes beginnings, not type %s", fault.ErrSchema, words[0])
		}
		typ := String.Prefixed(words[2:]...)
		if typ.err != nil {
			return nil, fmt.Errorf("%w: %w", fault.ErrSchema, typ.err)
		}
		return typ, nil
	}
	if len(words) != 1 && (len(words) != 5 || words[1] != "from" || words[3] != "to") {
		return nil, fmt.Errorf("%w: type %q is not of the form TYPE, or TYPE from LEAST to GREATEST, or string after BEGINNINGS", fault.ErrSchema, text)
	}
	typ, err := parseTypeName(words[0])
	if err != nil || len(words) == 1 {
		return typ, err
	}
	narrow, ok := typ.(restrictable)
	if !typ.Exact() || !ok {
		return nil, fmt.Errorf("%w: type %s cannot be restricted", fault.ErrSchema, words[0])
	}
	lo, err := narrow.parseCode(words[2])
	if err != nil {
		return nil, fmt.Errorf("%w: type %q: the least value: %w", fault.ErrSchema, text, err)
	}
	hi, err := narrow.parseCode(words[4])
	if err != nil {
		return nil, fmt.Errorf("%w: type %q: the greatest value: %w", fault.ErrSchema, text, err)
	}
	if lo > hi {
		return nil, fmt.Errorf("%w: type %q: the least value is above the greatest: exchange them", fault.ErrSchema, text)
	}
	if typ, err = narrow.Restrict(ope.Domain{Min: lo, Max: hi}); err != nil {
		return nil, fmt.Errorf("%w: type %q: %w", fault.ErrSchema, text, err)
	}
	return typ, nil
}

// typeNames are the names of the types, for messages.
const typeNames = "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, date, " +
	"timestamp/ns, timestamp/us, timestamp/ms, timestamp/s, decimal(SCALE), ipv4, ipv6, " +
	"string, string(16), string(24), string(32), string after BEGINNINGS, bytes, bytes(16), bytes(24), bytes(32), uuid"

// parseTypeName returns the type of a name without bounds.
func parseTypeName(name string) (Type, error) {
	id := name + "/1"
	if unit, ok := strings.CutPrefix(name, "timestamp/"); ok {
		id = "time/1 unit=" + unit
	} else if scale, ok := strings.CutPrefix(name, "decimal("); ok {
		id = "decimal/1 scale=" + strings.TrimSuffix(scale, ")")
	} else if base, order, ok := strings.Cut(name, "("); ok {
		id = base + "/2 order=" + strings.TrimSuffix(order, ")")
	}
	typ, err := parseBaseType(id)
	if err != nil || typeName(id) != name {
		return nil, fmt.Errorf("%w: unknown type %q: there is %s", fault.ErrSchema, name, typeNames)
	}
	if scale, err := strconv.Atoi(strings.TrimPrefix(id, "decimal/1 scale=")); err == nil {
		typ = Decimal(int32(scale))
	}
	if err := typ.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrSchema, err)
	}
	return typ, nil
}

// typeName is the inverse of parseTypeName, for the id of a type.
func typeName(id string) string {
	if unit, ok := strings.CutPrefix(id, "time/1 unit="); ok {
		return "timestamp/" + unit
	}
	if scale, ok := strings.CutPrefix(id, "decimal/1 scale="); ok {
		return "decimal(" + scale + ")"
	}
	if base, order, ok := strings.Cut(id, "/2 order="); ok {
		return base + "(" + order + ")"
	}
	return strings.TrimSuffix(id, "/1")
}

// String returns the type as [Parse] reads it.
func (t TypeOf[T]) String() string {
	if beginnings := beginningsOf(t.name); beginnings != nil {
		return "string after " + strings.Join(beginnings, " ")
	}
	base, _, restricted := strings.Cut(t.name, " within=")
	if !restricted {
		return typeName(base)
	}
	d := t.codec.Domain()
	return fmt.Sprintf("%s from %s to %s", typeName(base), t.formatCode(d.Min), t.formatCode(d.Max))
}

// formatCode returns the text of the value that a code stands for.
func (t TypeOf[T]) formatCode(code int64) string {
	if v, err := t.exactCodec.Decode(code); err == nil {
		if text, ok := formatValue(v); ok {
			return text
		}
	}
	return "@" + strconv.FormatInt(code, 10)
}

// parseCode returns the code of a value that is given as a text.
func (t TypeOf[T]) parseCode(text string) (int64, error) {
	if number, ok := strings.CutPrefix(text, "@"); ok {
		code, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not @ and an integer", text)
		}
		_, err = t.exactCodec.Decode(code) // is it one?
		return code, err
	}
	var v T
	if err := parseValue(text, &v); err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return t.exactCodec.Encode(v)
}

// longestScale bounds the zeros that are written after or before the digits of a decimal.
const longestScale = 40

// formatValue returns the text of a value of a type that can be restricted, and false if there is
// none that parseValue reads.
func formatValue(v any) (string, bool) {
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.RFC3339Nano), v.Year() >= 0 && v.Year() <= 9999
	case encode.CivilDate:
		return fmt.Sprintf("%04d-%02d-%02d", v.Year, v.Month, v.Day), v.Year >= 0 && v.Year <= 9999
	case encode.Decimal:
		if v.Scale < -longestScale || v.Scale > longestScale {
			return "", false
		}
		return v.String(), true
	}
	return fmt.Sprint(v), true
}

// parseValue reads a value of a type that can be restricted.
func parseValue(text string, to any) error {
	switch to := to.(type) {
	case *time.Time:
		for _, layout := range []string{time.RFC3339, time.DateOnly} {
			t, err := encode.ParseTime(layout, text)
			if err == nil || errors.Is(err, encode.ErrInexact) {
				*to = t
				return err
			}
		}
		return errors.New("it is not a time like 2006-01-02T15:04:05Z")
	case *encode.CivilDate:
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return errors.New("it is not a date like 2006-01-02")
		}
		*to = encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}
		return nil
	case *encode.Decimal:
		d, err := encode.ParseDecimal(text)
		*to = d
		return err
	case *netip.Addr:
		a, err := netip.ParseAddr(text)
		*to = a
		return err
	case *bool:
		if text != "true" && text != "false" {
			return errors.New("it is neither true nor false")
		}
		*to = text == "true"
		return nil
	}
	number := reflect.ValueOf(to).Elem()
	bits := 0
	if number.CanInt() || number.CanUint() || number.CanFloat() {
		bits = number.Type().Bits()
	}
	var err error
	switch {
	case number.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		number.SetInt(n)
	case number.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, bits)
		number.SetUint(n)
	case number.CanFloat():
		var n float64
		n, err = encode.ParseFloat(text, bits)
		if math.IsNaN(n) {
			err = errors.New("it is not a number")
		}
		number.SetFloat(n)
	default:
		panic(fmt.Sprintf("value: values of type %T have no text", to))
	}
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("it is beyond the range of %v", number.Type())
	}
	if errors.Is(err, strconv.ErrSyntax) {
		return fmt.Errorf("it is no value of type %v", number.Type())
	}
	return err
}
