package encode

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
)

// Decimal is the number Unscaled * 10^-Scale. A nil Unscaled is zero. Different Decimals may be
// the same number, as 1.0 and 1.00 are; codecs do not distinguish them.
type Decimal struct {
	Unscaled *big.Int
	Scale    int32
}

// ParseDecimal reads an optional sign, and digits with at most one point among them. The scale is
// the number of digits after the point.
func ParseDecimal(s string) (Decimal, error) {
	digits := strings.TrimPrefix(s, "-")
	if digits == s {
		digits = strings.TrimPrefix(s, "+")
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > math.MaxInt32 {
		return Decimal{}, errors.New("encode: not a decimal number, such as -12.50")
	}
	u, _ := new(big.Int).SetString(digits, 10) // never fails: they are digits
	if strings.HasPrefix(s, "-") {
		u.Neg(u)
	}
	return Decimal{u, int32(len(fraction))}, nil
}

// String returns the number with Scale digits after the point, or zeros in place of the digits
// that a negative scale leaves out.
func (d Decimal) String() string {
	u := d.unscaled()
	digits := new(big.Int).Abs(u).String()
	switch {
	case d.Scale > 0:
		if pad := int(d.Scale) + 1 - len(digits); pad > 0 {
			digits = strings.Repeat("0", pad) + digits
		}
		at := len(digits) - int(d.Scale)
		digits = digits[:at] + "." + digits[at:]
	case u.Sign() != 0:
		digits += strings.Repeat("0", -int(d.Scale))
	}
	if u.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

func (d Decimal) unscaled() *big.Int {
	if d.Unscaled == nil {
		return new(big.Int)
	}
	return d.Unscaled
}

// FixedDecimal returns the codec of decimal numbers with at most scale digits after the point.
// The code is the number times 10^scale, so that scale 2 holds cents. A number with more digits
// is [ErrInexact]; trailing zeros do not count. Numbers decode with this scale.
func FixedDecimal(scale int32) Exact[Decimal] {
	finer := fmt.Sprintf("%d digits after the point: round it", scale)
	if scale < 0 {
		finer = fmt.Sprintf("a multiple of 10^%d: round it", -int64(scale))
	}
	return Exact[Decimal]{
		codec[Decimal]{fmt.Sprintf("decimal/1 scale=%d", scale), ope.Int64, func(d Decimal) (place, error) { return floor(d, scale), nil }},
		func(code int64) (Decimal, error) { return Decimal{big.NewInt(code), scale}, nil },
		finer,
	}
}

// DecimalPrefix returns the codec of decimal numbers that keeps only what they are at a scale, and
// drops the digits after it. The code is the greatest integer at or below the number times
// 10^scale. The scale may be negative: -3 keeps thousands, for numbers up to 9.2e21.
func DecimalPrefix(scale int32) Prefix[Decimal] {
	return Prefix[Decimal]{codec[Decimal]{fmt.Sprintf("decimalprefix/1 scale=%d", scale), ope.Int64, func(d Decimal) (place, error) { return floor(d, scale), nil }}}
}

// floor places d * 10^scale among the integers.
func floor(d Decimal, scale int32) place {
	u := d.unscaled()
	drop := int64(d.Scale) - int64(scale) // digits to drop; add zeros if negative
	switch {
	case u.Sign() == 0:
		return place{}
	case drop < -19:
		// At least 10^20, which is beyond int64. The power itself may be too long to compute.
		return place{beyond: u.Sign()}
	case drop <= 0:
		u = new(big.Int).Mul(u, power10(-drop))
		if !u.IsInt64() {
			return place{beyond: u.Sign()}
		}
		return place{code: u.Int64()}
	case drop > int64(u.BitLen()):
		// 10^drop > 2^BitLen > |u|.
		if u.Sign() < 0 {
			return place{code: -1, between: true}
		}
		return place{code: 0, between: true}
	}
	quotient, rest := new(big.Int).DivMod(u, power10(drop), new(big.Int)) // rounds down
	if !quotient.IsInt64() {
		return place{beyond: quotient.Sign()}
	}
	return place{code: quotient.Int64(), between: rest.Sign() != 0}
}

func power10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }
