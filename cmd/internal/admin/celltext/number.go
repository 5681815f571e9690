package celltext

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// longestNumber bounds the digits of a decimal: none that a column takes has more.
const longestNumber = 2100

func (f *Format) decimal(name string, scale int32) codec {
	exact := encode.FixedDecimal(scale)
	from := func(text string) (encode.Decimal, error) {
		if len(text) > longestNumber {
			return encode.Decimal{}, beyond(name)
		}
		// An exponent moves the point.
		mantissa, power, ok := cutExponent(text)
		d, err := encode.ParseDecimal(mantissa)
		switch {
		case err != nil || !ok:
			return d, errors.New("not a decimal number")
		case d.Unscaled.Sign() == 0:
			power = 0
		case power > longestNumber:
			return d, beyond(name)
		case power < -longestNumber:
			return d, finer(name)
		}
		d.Scale -= int32(power)
		return atScale(d, scale, name)
	}
	return &typed[encode.Decimal]{
		name: name, exact: &exact, plain: from, number: from,
		from: func(text string) (encode.Decimal, error) {
			clean, err := f.clean(text, "not a decimal number")
			if err != nil {
				return encode.Decimal{}, err
			}
			return from(clean)
		},
		into: func(v any) (d encode.Decimal, err error) {
			switch v := v.(type) {
			case encode.Decimal:
				return atScale(v, scale, name)
			case int64:
				return atScale(encode.Decimal{Unscaled: big.NewInt(v)}, scale, name)
			case uint64:
				return atScale(encode.Decimal{Unscaled: new(big.Int).SetUint64(v)}, scale, name)
			case float64:
				return fromFloat(v, 64, from)
			case float32:
				return fromFloat(float64(v), 32, from)
			}
			return d, wrongKind(v, name)
		},
		to: func(v encode.Decimal) (string, error) {
			d, err := atScale(v, scale, name)
			if err != nil {
				return "", err
			}
			return f.shown(d.String()), nil
		},
	}
}

func finer(name string) error {
	return valueError{"finer than type " + name + " keeps", encode.ErrInexact}
}

// greatestPower bounds the exponents that are told apart: no text is as long as a number with a greater one.
const greatestPower = 1 << 30

// cutExponent takes the exponent from a number, which is 0 where there is none. One beyond greatestPower is that. It
// returns false for what is no integer after the letter.
func cutExponent(text string) (mantissa string, power int64, ok bool) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, true
	}
	if !digits(text[at+1:]) {
		return text[:at], 0, false
	}
	power, _ = strconv.ParseInt(text[at+1:], 10, 64) // the nearest one where it is out of range
	return text[:at], min(max(power, -greatestPower), greatestPower), true
}

var errInteger = errors.New("not an integer")

// withoutExponent returns the digits of an integer that is written with an exponent, such as 1e3 or 10e-1. It makes no
// text that is longer than those of integers are.
func withoutExponent(text, name string) (string, error) {
	mantissa, power, ok := cutExponent(text)
	whole, fraction, pointed := strings.Cut(mantissa, ".")
	if !ok || !digits(whole) || pointed && (fraction == "" || strings.Trim(fraction, "0123456789") != "") {
		return "", errInteger
	}
	unsigned := strings.TrimLeft(whole, "+-")
	sign, all := whole[:len(whole)-len(unsigned)], unsigned+fraction
	places := int64(len(unsigned)) + power // of all that are before the point
	significant := strings.TrimLeft(all, "0")
	places -= int64(len(all) - len(significant))
	significant = strings.TrimRight(significant, "0")
	const most = 20 // digits of a uint64
	switch {
	case significant == "":
		return sign + "0", nil
	case places < int64(len(significant)):
		return "", errInteger
	case places > most:
		return "", beyond(name)
	}
	return sign + significant + strings.Repeat("0", int(places)-len(significant)), nil
}

// fromFloat takes the decimal number that a floating point number is written as.
func fromFloat(v float64, bits int, from func(string) (encode.Decimal, error)) (encode.Decimal, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return encode.Decimal{}, errors.New("not a decimal number")
	}
	return from(strconv.FormatFloat(v, 'f', -1, bits))
}

// atScale returns the number as the column has it.
func atScale(d encode.Decimal, scale int32, name string) (encode.Decimal, error) {
	unscaled, ok := rescaled(d, scale)
	if !ok {
		return d, finer(name)
	}
	if !unscaled.IsInt64() {
		return d, beyond(name)
	}
	return encode.Decimal{Unscaled: unscaled, Scale: scale}, nil
}

var bigSecond = big.NewInt(1_000_000_000)
