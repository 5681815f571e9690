package encode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
)

// ParseFloat reads a number in decimal notation, with or without an exponent, or an infinity or
// NaN, as strconv.ParseFloat does for 32 or 64 bits. It refuses the rest of Go's syntax, underscores and
// hexadecimal digits: in data, 2013_01 is a name and not a number.
//
// A text that is no number is [strconv.ErrSyntax]. A number beyond the range is [ope.ErrDomain] and [strconv.ErrRange], with an
// infinity beside it. Other bits are [ope.ErrParams].
func ParseFloat(s string, bits int) (float64, error) {
	if bits != 32 && bits != 64 {
		return 0, fmt.Errorf("%w: a number of %d bits, need 32 or 64", ope.ErrParams, bits)
	}
	f, err := strconv.ParseFloat(s, bits)
	switch {
	case strings.ContainsAny(s, "_xX"), errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("encode: not a number, such as -12.5e3: %w", strconv.ErrSyntax)
	case err != nil:
		return f, fmt.Errorf("%w: a number beyond the range of float%d: %w", ope.ErrDomain, bits, strconv.ErrRange)
	}
	return f, nil
}

// ParseTime reads a time as time.Parse does. Digits of a second beyond the ninth are [ErrInexact]
// where they are not 0, which time.Parse leaves out.
func ParseTime(layout, s string) (time.Time, error) {
	t, err := time.Parse(layout, s)
	if err != nil {
		return t, unread(layout, err)
	}
	for i := range len(s) {
		if s[i] != '.' && s[i] != ',' {
			continue
		}
		rest := strings.TrimLeft(s[i+1:], "0123456789")
		digits := s[i+1 : len(s)-len(rest)]
		if len(digits) <= 9 || strings.Trim(digits[9:], "0") == "" {
			continue
		}
		// A point may also stand between the numbers of a date. Digits that can be left out are of a second.
		if short, err := time.Parse(layout, s[:i+10]+rest); err == nil && short.Equal(t) {
			return t, fmt.Errorf("%w, nine digits of a second: leave out the others", ErrInexact)
		}
	}
	return t, nil
}

// unread returns an error of time.Parse without the text that was read.
func unread(layout string, err error) error {
	const outOfRange = "out of range"
	if why := (*time.ParseError)(nil); errors.As(err, &why) && strings.HasSuffix(why.Message, outOfRange) {
		return fmt.Errorf("encode: not a time like %q%s", layout, why.Message)
	}
	return fmt.Errorf("encode: not a time like %q", layout)
}
