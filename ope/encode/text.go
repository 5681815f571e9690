package encode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseFloat reads a number in decimal notation, with or without an exponent, or an infinity or
// NaN, as strconv.ParseFloat does. It refuses the rest of Go's syntax, underscores and hexadecimal
// digits: in data, 2013_01 is a name and not a number.
func ParseFloat(s string, bits int) (float64, error) {
	if strings.ContainsAny(s, "_xX") {
		return 0, &strconv.NumError{Func: "ParseFloat", Num: s, Err: strconv.ErrSyntax}
	}
	return strconv.ParseFloat(s, bits)
}

// ParseTime reads a time as time.Parse does. Digits of a second beyond the ninth are [ErrInexact]
// where they are not 0, which time.Parse leaves out.
func ParseTime(layout, s string) (time.Time, error) {
	t, err := time.Parse(layout, s)
	if err != nil {
		return t, err
	}
	if _, fraction, ok := strings.Cut(strings.ReplaceAll(s, ",", "."), "."); ok && len(fraction) > 9 {
		rest := strings.TrimLeft(fraction[9:], "0")
		digits := strings.TrimRight(fraction[:9], "0123456789") == ""
		if digits && rest != "" && rest[0] >= '1' && rest[0] <= '9' {
			return t, fmt.Errorf("%w: it has more than nine digits of a second", ErrInexact)
		}
	}
	return t, nil
}
