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
		mantissa, power := text, int64(0)
		if at := strings.IndexAny(text, "eE"); at >= 0 {
			var err error
			if power, err = strconv.ParseInt(text[at+1:], 10, 32); err != nil || power > longestNumber || power < -longestNumber {
				return encode.Decimal{}, errors.New("not a decimal number")
			}
			mantissa = text[:at]
		}
		d, err := encode.ParseDecimal(mantissa)
		if err != nil {
			return d, errors.New("not a decimal number")
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
		return d, valueError{"finer than type " + name + " keeps", encode.ErrInexact}
	}
	if !unscaled.IsInt64() {
		return d, beyond(name)
	}
	return encode.Decimal{Unscaled: unscaled, Scale: scale}, nil
}

var bigSecond = big.NewInt(1_000_000_000)
