package celltext

import (
	"encoding/base64"
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
	"unicode/utf8"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// A codec reads and writes the values of a type. Its errors do not hold them.
type codec interface {
	parse(text string) (any, error)   // a text as the flags have it
	literal(text string) (any, error) // a number, true or false of JSON
	convert(v any) (any, error)       // a Typed value that is no text
	text(v any) (string, error)
	restrict(least, greatest string) error // as store.ParseType has bounds
}

// A valueError is what is wrong with a value, with the kind of error that it is.
type valueError struct {
	text string
	kind error
}

func (e valueError) Error() string { return e.text }
func (e valueError) Unwrap() error { return e.kind }

func beyond(typ string) error {
	return valueError{"beyond the range of type " + typ, ope.ErrDomain}
}

// A typed is the codec of values of a Go type.
type typed[T any] struct {
	name    string
	exact   *encode.Exact[T] // nil for types without codes
	within  *ope.Domain      // of the column, where it is restricted
	from    func(text string) (T, error)
	number  func(text string) (T, error) // of a number, true or false of JSON; nil for what has none
	numbers string                       // what an error says of numbers; may be empty
	into    func(v any) (T, error)
	to      func(v T) (string, error)
	plain   func(text string) (T, error) // of a bound; from where it is nil
	taken   func(v T) error              // what exact does not check; may be nil
	boundOf string
}

func (t *typed[T]) check(v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if t.taken != nil {
		if err := t.taken(v); err != nil {
			return nil, err
		}
	}
	if t.exact == nil {
		return v, nil
	}
	code, err := t.exact.Encode(v)
	switch {
	case errors.Is(err, encode.ErrInvalid) && isNaN(v):
		return v, nil
	case errors.Is(err, encode.ErrInexact):
		return nil, valueError{"finer than type " + t.name + " keeps", err}
	case errors.Is(err, ope.ErrDomain):
		return nil, beyond(t.name)
	case err != nil:
		return nil, valueError{"no value of type " + t.name, err}
	case t.within != nil && !t.within.Contains(code):
		return v, valueError{"beyond the bounds of the column: " + t.boundOf, ope.ErrDomain}
	}
	return v, nil
}

func (t *typed[T]) parse(text string) (any, error) { return t.check(t.from(text)) }

func (t *typed[T]) literal(text string) (any, error) {
	if t.number == nil {
		return nil, fmt.Errorf("%s of JSON, where a column of type %s needs a text in quotes%s", literalName(text), t.name, t.numbers)
	}
	return t.check(t.number(text))
}

func literalName(text string) string {
	if text == "true" || text == "false" {
		return "a boolean"
	}
	return "a number"
}

func (t *typed[T]) convert(v any) (any, error) {
	if same, ok := v.(T); ok {
		if _, decimal := v.(encode.Decimal); !decimal {
			return t.check(same, nil)
		}
	}
	return t.check(t.into(v))
}

func (t *typed[T]) text(v any) (string, error) {
	value, ok := v.(T)
	if !ok {
		return "", fmt.Errorf("a value of Go type %T, where type %s has %T", v, t.name, value)
	}
	return t.to(value)
}

// restrict sets the bounds. @N is the value with the number N.
func (t *typed[T]) restrict(least, greatest string) error {
	code := func(text string) (int64, error) {
		if number, ok := strings.CutPrefix(text, "@"); ok {
			return strconv.ParseInt(number, 10, 64)
		}
		v, err := t.plain(text)
		if err != nil {
			return 0, err
		}
		return t.exact.Encode(v)
	}
	if t.exact == nil || t.plain == nil {
		return fmt.Errorf("type %s has bounds that this version does not know", t.name)
	}
	lo, errLo := code(least)
	hi, errHi := code(greatest)
	t.within = &ope.Domain{Min: lo, Max: hi}
	t.boundOf = fmt.Sprintf("%s to %s", least, greatest)
	return errors.Join(errLo, errHi)
}

func isNaN(v any) bool {
	switch v := v.(type) {
	case float32:
		return v != v
	case float64:
		return v != v
	}
	return false
}

// wrongKind is the error of a Typed value that the type does not take.
func wrongKind(v any, typ string) error {
	name := fmt.Sprintf("%T", v)
	switch v.(type) {
	case int64, uint64:
		name = "an integer"
	case float32, float64:
		name = "a floating point number"
	case bool:
		name = "a boolean"
	case []byte:
		name = "a byte string"
	case [16]byte:
		name = "a UUID"
	case encode.Decimal:
		name = "a decimal"
	case encode.CivilDate:
		name = "a date"
	case time.Time, Local:
		name = "a time"
	}
	return fmt.Errorf("%s, which a column of type %s does not take", name, typ)
}

// codecOf returns the codec of a column, and completes the column.
func (f *Format) codecOf(c *Column) (codec, error) {
	switch c.Type {
	case "int8":
		return integer(f, c.Type, encode.Integer[int8]()), nil
	case "int16":
		return integer(f, c.Type, encode.Integer[int16]()), nil
	case "int32":
		return integer(f, c.Type, encode.Integer[int32]()), nil
	case "int64":
		return integer(f, c.Type, encode.Integer[int64]()), nil
	case "uint8":
		return integer(f, c.Type, encode.Integer[uint8]()), nil
	case "uint16":
		return integer(f, c.Type, encode.Integer[uint16]()), nil
	case "uint32":
		return integer(f, c.Type, encode.Integer[uint32]()), nil
	case "uint64":
		return integer(f, c.Type, encode.Integer[uint64]()), nil
	case "float32":
		return float(f, c.Type, encode.Float[float32](), 32), nil
	case "float64":
		return float(f, c.Type, encode.Float[float64](), 64), nil
	case "bool":
		return boolean(), nil
	case "date":
		return f.date(), nil
	case "ipv4", "ipv6":
		return address(c.Type), nil
	case "string":
		return text(), nil
	case "bytes":
		return f.bytesCodec(), nil
	case "uuid":
		return uuid(), nil
	}
	if unit, ok := strings.CutPrefix(c.Type, "timestamp/"); ok {
		d, ok := units[unit]
		if ok {
			c.Unit = d
			return f.timestamp(c.Type, d), nil
		}
	}
	var scale int32
	if n, err := fmt.Sscanf(c.Type, "decimal(%d)", &scale); n == 1 && err == nil {
		c.Scale = scale
		return f.decimal(c.Type, scale), nil
	}
	return nil, fmt.Errorf("type %q is not known to this version", c.Type)
}

var units = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// clean returns the text of a number with a point and without marks between thousands. Where these are not where they
// belong, the error says what the text is not.
func (f *Format) clean(text, kind string) (string, error) {
	if f.thousands == "" && !f.comma {
		return text, nil
	}
	whole, rest, fraction := text, "", false
	if at := strings.IndexAny(text, f.point()+"eE"); at >= 0 {
		whole, rest, fraction = text[:at], text[at:], true
	}
	if f.thousands != "" && strings.Contains(whole, f.thousands) {
		groups := strings.Split(whole, f.thousands)
		first := strings.TrimLeft(groups[0], "+-")
		if strings.HasPrefix(first, "0") { // it is a fraction, or no number
			return "", fmt.Errorf("%s: it has 0 before a mark between thousands, which --thousands says is %q", kind, f.thousands)
		}
		if len(first) == 0 || len(first) > 3 {
			return "", errors.New(kind)
		}
		for _, g := range groups[1:] {
			if len(g) != 3 || strings.Trim(g, "0123456789") != "" {
				return "", errors.New(kind)
			}
		}
		whole = strings.Join(groups, "")
	}
	if f.comma && strings.Contains(text, ".") && f.thousands != "." {
		return "", errors.New(kind)
	}
	if fraction && f.comma {
		if strings.Contains(rest, ".") {
			return "", errors.New(kind)
		}
		rest = strings.Replace(rest, ",", ".", 1)
	}
	return whole + rest, nil
}

// shown writes a number as the flags have it, without marks between thousands.
func (f *Format) shown(text string) string {
	if f.comma {
		return strings.Replace(text, ".", ",", 1)
	}
	return text
}

// digits reports whether a text is an integer in decimal digits.
func digits(text string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	return rest != "" && len(text)-len(rest) <= 1 && strings.Trim(rest, "0123456789") == ""
}

func integer[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](f *Format, name string, exact encode.Exact[T]) codec {
	bits := reflect.TypeFor[T]().Bits()
	var zero T
	unsigned := zero-1 > 0
	from := func(text string) (T, error) {
		// Programs that have integers beside nulls as floating point numbers write them as 2.0.
		if strings.ContainsAny(text, "eE") {
			whole, err := withoutExponent(text, name)
			if err != nil {
				return 0, err
			}
			text = whole
		} else if whole, zeros, ok := strings.Cut(text, "."); ok && zeros != "" && strings.Trim(zeros, "0") == "" {
			text = whole
		}
		if !digits(text) {
			return 0, errInteger
		}
		if unsigned {
			number, negative := strings.CutPrefix(strings.TrimPrefix(text, "+"), "-")
			u, err := strconv.ParseUint(number, 10, bits)
			if err != nil || negative && u != 0 {
				return 0, beyond(name)
			}
			return T(u), nil
		}
		i, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return 0, beyond(name)
		}
		return T(i), nil
	}
	return &typed[T]{
		name: name, exact: &exact, plain: from, number: from,
		from: func(text string) (T, error) {
			clean, err := f.clean(text, "not an integer")
			if err != nil {
				return 0, err
			}
			return from(clean)
		},
		into: func(v any) (T, error) {
			switch v := v.(type) {
			case int64:
				return from(strconv.FormatInt(v, 10))
			case uint64:
				return from(strconv.FormatUint(v, 10))
			case float64:
				if v == math.Trunc(v) && !math.IsInf(v, 0) {
					whole, _ := big.NewFloat(v).Int(nil) // the shortest text of a number is only near it
					return from(whole.String())
				}
				return 0, valueError{"a floating point number that is no integer", encode.ErrInexact}
			case encode.Decimal:
				if whole, ok := rescaled(v, 0); ok {
					return from(whole.String())
				}
				return 0, valueError{"a decimal that is no integer", encode.ErrInexact}
			}
			return 0, wrongKind(v, name)
		},
		to: func(v T) (string, error) { return fmt.Sprint(v), nil },
	}
}

// oddNaN begins the text of a NaN with other bits than that of Go, which are in parentheses.
const oddNaN = "NaN(0x"

func float[T float32 | float64](f *Format, name string, exact encode.Exact[T], bits int) codec {
	from := func(text string) (T, error) {
		if v, ok := parseNaN[T](text); ok {
			return v, nil
		}
		x, err := encode.ParseFloat(text, bits)
		if errors.Is(err, strconv.ErrRange) {
			return 0, beyond(name)
		}
		if err != nil {
			return 0, errors.New("not a number")
		}
		if x == 0 && !isZero(text) {
			return 0, nearZero(name)
		}
		return T(x), wholeIsExact(text, x, bits, name)
	}
	return &typed[T]{
		name: name, exact: &exact, plain: from, number: from,
		from: func(text string) (T, error) {
			clean, err := f.clean(text, "not a number")
			if err != nil {
				return 0, err
			}
			return from(clean)
		},
		into: func(v any) (T, error) {
			switch v := v.(type) {
			case float32:
				return T(v), nil
			case float64:
				x := T(v)
				switch {
				case math.IsInf(float64(x), 0) && !math.IsInf(v, 0):
					return 0, beyond(name)
				case x == 0 && v != 0:
					return 0, nearZero(name)
				}
				return x, nil
			case int64:
				return from(strconv.FormatInt(v, 10))
			case uint64:
				return from(strconv.FormatUint(v, 10))
			case encode.Decimal:
				if v.Scale < -1100 || v.Scale > 1100 {
					return 0, beyond(name)
				}
				return from(v.String())
			}
			return 0, wrongKind(v, name)
		},
		to: func(v T) (string, error) {
			if v != v {
				return textOfNaN(v), nil
			}
			return f.shown(string(show.AppendFloat(nil, float64(v), bits))), nil
		},
	}
}

func nearZero(name string) error {
	return valueError{"so near to 0 that " + name + " would keep 0: 0 itself is written as 0", encode.ErrInexact}
}

// isZero reports whether a number that is read as 0 is 0, and not only nearer to 0 than any other of its type.
func isZero(text string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	return strings.Trim(mantissa, "+-.0") == ""
}

// textOfNaN returns the text of a NaN, with its bits where these are not those of Go's.
func textOfNaN[T float32 | float64](v T) string {
	switch v := any(v).(type) {
	case float32:
		if u := math.Float32bits(v); u != math.Float32bits(float32(math.NaN())) {
			return fmt.Sprintf("%s%08x)", oddNaN, u)
		}
	case float64:
		if u := math.Float64bits(v); u != math.Float64bits(math.NaN()) {
			return fmt.Sprintf("%s%016x)", oddNaN, u)
		}
	}
	return "NaN"
}

// parseNaN reads what textOfNaN writes of a NaN with other bits.
func parseNaN[T float32 | float64](text string) (v T, ok bool) {
	digits, begins := strings.CutPrefix(text, oddNaN)
	digits, ends := strings.CutSuffix(digits, ")")
	if !begins || !ends {
		return 0, false
	}
	switch p := any(&v).(type) {
	case *float32:
		u, err := strconv.ParseUint(digits, 16, 32)
		*p, ok = math.Float32frombits(uint32(u)), err == nil
	case *float64:
		u, err := strconv.ParseUint(digits, 16, 64)
		*p, ok = math.Float64frombits(u), err == nil
	}
	return v, ok && v != v
}

// wholeIsExact refuses an integer that a floating point number does not hold: it may be the name of something, and its
// neighbours' names would be the same. A decimal fraction is rounded, as everywhere.
func wholeIsExact(text string, x float64, bits int, name string) error {
	if limit := math.Ldexp(1, map[int]int{32: 24, 64: 53}[bits]); math.Abs(x) < limit || !digits(text) {
		return nil
	}
	n, _ := new(big.Int).SetString(text, 10)
	if whole, _ := big.NewFloat(x).Int(nil); n == nil || whole == nil || whole.Cmp(n) != 0 {
		return valueError{"an integer that " + name + " does not hold exactly", encode.ErrInexact}
	}
	return nil
}

// errUTF8 is the error of a text in another encoding.
var errUTF8 = errors.New("not in UTF-8: write the file in UTF-8 first, with 'iconv -f WINDOWS-1252 -t UTF-8', say")

func text() codec {
	taken := func(v string) error {
		if !utf8.ValidString(v) {
			return errUTF8
		}
		return nil
	}
	return &typed[string]{
		name: "string", taken: taken,
		from: func(text string) (string, error) { return text, nil },
		into: func(v any) (string, error) {
			if b, ok := v.([]byte); ok {
				if !utf8.Valid(b) {
					return "", errors.New("bytes that are no text in UTF-8")
				}
				return string(b), nil
			}
			return "", wrongKind(v, "string")
		},
		to: func(v string) (string, error) { return v, nil },
	}
}

func (f *Format) bytesCodec() codec {
	return &typed[[]byte]{
		name: "bytes",
		from: func(text string) ([]byte, error) {
			if f.base64 {
				b, err := base64.StdEncoding.Strict().DecodeString(text)
				if err != nil {
					return nil, errors.New("not base64, which --bytes says that byte strings are")
				}
				return b, nil
			}
			b, err := hex.DecodeString(text)
			if err != nil {
				return nil, errors.New("not hexadecimal digits, two for each byte; --bytes base64 reads another form")
			}
			return b, nil
		},
		into: func(v any) ([]byte, error) {
			if id, ok := v.([16]byte); ok {
				return id[:], nil
			}
			return nil, wrongKind(v, "bytes")
		},
		to: func(v []byte) (string, error) {
			if f.base64 {
				return base64.StdEncoding.EncodeToString(v), nil
			}
			return hex.EncodeToString(v), nil
		},
	}
}

func boolean() codec {
	words := map[string]bool{"true": true, "t": true, "yes": true, "y": true, "1": true, "false": false, "f": false, "no": false, "n": false, "0": false}
	exact := encode.Bool()
	from := func(text string) (bool, error) {
		v, ok := words[strings.ToLower(text)]
		if !ok {
			return false, errors.New("not a boolean: these are true and false, t and f, yes and no, y and n, 1 and 0")
		}
		return v, nil
	}
	return &typed[bool]{
		name: "bool", exact: &exact, from: from, plain: from,
		number: func(text string) (bool, error) {
			if literalName(text) == "a number" {
				return false, errors.New("a number of JSON, where a column of type bool needs true or false, or a text such as \"1\"")
			}
			return from(text)
		},
		into: func(v any) (bool, error) { return false, wrongKind(v, "bool") },
		to:   func(v bool) (string, error) { return strconv.FormatBool(v), nil },
	}
}

func address(name string) codec {
	t := &typed[netip.Addr]{
		name: name,
		from: func(text string) (netip.Addr, error) {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return a, fmt.Errorf("not an address of type %s", name)
			}
			return a, nil
		},
		into: func(v any) (a netip.Addr, err error) {
			b, ok := v.([]byte)
			if id, is := v.([16]byte); is {
				b, ok = id[:], true
			}
			if a, fits := netip.AddrFromSlice(b); ok && fits {
				return a, nil
			}
			return a, wrongKind(v, name)
		},
		to: func(v netip.Addr) (string, error) { return v.String(), nil },
	}
	t.taken = func(a netip.Addr) error {
		if name == "ipv4" && !a.Is4() {
			return errors.New("not an IPv4 address")
		}
		if name == "ipv6" && (!a.Is6() || a.Zone() != "") {
			return errors.New("not an IPv6 address without zone")
		}
		return nil
	}
	if name == "ipv4" {
		exact := encode.IPv4()
		t.exact, t.plain = &exact, t.from
	}
	return t
}

func uuid() codec {
	return &typed[[16]byte]{
		name: "uuid",
		from: func(text string) (id [16]byte, err error) {
			wrong := errors.New("not a UUID like 123e4567-e89b-12d3-a456-426614174000")
			switch {
			case len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-':
				text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
			case len(text) != 32:
				return id, wrong
			}
			if _, err := hex.Decode(id[:], []byte(text)); err != nil {
				return id, wrong
			}
			return id, nil
		},
		into: func(v any) (id [16]byte, err error) {
			if b, ok := v.([]byte); ok && len(b) == 16 {
				return [16]byte(b), nil
			}
			return id, wrongKind(v, "uuid")
		},
		to: func(v [16]byte) (string, error) {
			return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]), nil
		},
	}
}

// rescaled returns the digits of a decimal at a scale, and false where it has more or too many.
func rescaled(d encode.Decimal, scale int32) (*big.Int, bool) {
	unscaled := d.Unscaled
	if unscaled == nil || unscaled.Sign() == 0 {
		return new(big.Int), true
	}
	by := int64(scale) - int64(d.Scale)
	const most = 2100 // both scales, and the digits of any number that a column takes
	if by > most || by < -most {
		return nil, false
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(by, -by)), nil)
	if by >= 0 {
		return power.Mul(power, unscaled), true
	}
	whole, rest := new(big.Int).QuoRem(unscaled, power, new(big.Int))
	return whole, rest.Sign() == 0
}
