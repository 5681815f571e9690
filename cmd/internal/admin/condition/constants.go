package condition

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/where"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A number is digits times 10 to the power of -scale.
type number struct {
	digits *big.Int
	scale  int64
}

var numeral = regexp.MustCompile(`^([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]+))?$`)

// farthest bounds exponents. With more digits than a text can have, a number is beyond every type, or next to 0.
const farthest = 1 << 20

func readNumber(v where.Value) (number, bool) {
	m := numeral.FindStringSubmatch(v.Text)
	if v.Form == where.Hex || m == nil || m[2]+m[3] == "" {
		return number{}, false
	}
	digits, _ := new(big.Int).SetString(m[1]+m[2]+m[3], 10)
	exponent := int64(0)
	if m[4] != "" {
		exponent, _ = strconv.ParseInt(m[4], 10, 64) // of one that is too long, the nearest
		exponent = max(-farthest, min(exponent, farthest))
	}
	return number{digits, int64(len(m[3])) - exponent}, true
}

// times returns the greatest integer at or below the number times 10 to the power of scale, and whether it is that
// number. One that does not fit into 64 bits may be another such one.
func (n number) times(scale int64) (floor *big.Int, exact bool) {
	size := int64(len(n.digits.Text(10))) // a sign counts as a digit, which is no matter here
	drop := n.scale - scale
	switch {
	case n.digits.Sign() == 0:
		return new(big.Int), true
	case drop > size:
		drop = size + 1 // the number is between 0 and 1, or between -1 and 0
	case drop < -30:
		drop = -30
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(drop, -drop)), nil)
	if drop <= 0 {
		return power.Mul(power, n.digits), true
	}
	floor, rest := new(big.Int).DivMod(n.digits, power, new(big.Int))
	return floor, rest.Sign() == 0
}

// between returns the point of a number among integers, which are values from least to greatest.
func between[T any](floor *big.Int, exact bool, least, greatest *big.Int, value func(*big.Int) T) (p point[T]) {
	above := floor
	if !exact {
		above = new(big.Int).Add(floor, big.NewInt(1))
	}
	clamped := func(n *big.Int) *T {
		if n.Cmp(least) < 0 {
			n = least
		} else if n.Cmp(greatest) > 0 {
			n = greatest
		}
		v := value(n)
		return &v
	}
	if floor.Cmp(least) >= 0 {
		p.below = clamped(floor)
	}
	if above.Cmp(greatest) <= 0 {
		p.above = clamped(above)
	}
	p.exact = exact && p.below != nil && p.above != nil
	return p
}

func integer[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](least int64, greatest uint64) reader[T] {
	return func(v where.Value) (point[T], error) {
		n, ok := readNumber(v)
		if !ok {
			return point[T]{}, errors.New("it takes a number, such as 25")
		}
		floor, exact := n.times(0)
		return between(floor, exact, big.NewInt(least), new(big.Int).SetUint64(greatest), func(n *big.Int) T {
			if n.Sign() < 0 {
				return T(n.Int64())
			}
			return T(n.Uint64())
		}), nil
	}
}

func decimal(scale string) reader[encode.Decimal] {
	places, err := strconv.ParseInt(strings.TrimSuffix(scale, ")"), 10, 32)
	return func(v where.Value) (point[encode.Decimal], error) {
		n, ok := readNumber(v)
		if !ok || err != nil {
			return point[encode.Decimal]{}, errors.New("it takes a number, such as 21.5")
		}
		floor, exact := n.times(places)
		return between(floor, exact, big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64), func(n *big.Int) encode.Decimal {
			return encode.Decimal{Unscaled: new(big.Int).Set(n), Scale: int32(places)}
		}), nil
	}
}

// float reads numbers as they are read when they are stored: as the nearest of the type. An integer is not rounded.
func float[T float32 | float64](bits int, greatest T, next func(v T, up bool) T) reader[T] {
	return func(v where.Value) (point[T], error) {
		x, err := encode.ParseFloat(v.Text, bits)
		switch {
		case v.Form == where.Hex || err != nil && !errors.Is(err, strconv.ErrRange):
			return point[T]{}, errors.New("it takes a number, such as 21.5, +inf or -inf")
		case math.IsNaN(x):
			return point[T]{}, errors.New("nothing is equal to NaN, nor less or more; say is nan, or is not nan")
		case err != nil && x > 0: // it is beyond all numbers but infinity
			above := T(math.Inf(1))
			return point[T]{&greatest, &above, false}, nil
		case err != nil && x < 0:
			below, above := T(math.Inf(-1)), -greatest
			return point[T]{&below, &above, false}, nil
		}
		p := exactly(T(x))
		n, whole := new(big.Int).SetString(v.Text, 10)
		if !whole {
			return p, nil
		}
		nearest, _ := big.NewFloat(x).Int(nil)
		switch nearest.Cmp(n) {
		case -1:
			above := next(T(x), true)
			return point[T]{p.below, &above, false}, nil
		case 1:
			below := next(T(x), false)
			return point[T]{&below, p.above, false}, nil
		}
		return p, nil
	}
}

// readBool reads true and false only: other words for them, which files may have, would hardly be meant in a condition.
func readBool(v where.Value) (point[bool], error) {
	is := strings.EqualFold(v.Text, "true")
	if v.Form == where.Hex || !is && !strings.EqualFold(v.Text, "false") {
		return point[bool]{}, errors.New("it takes true or false")
	}
	return exactly(is), nil
}

func readString(v where.Value) (point[string], error) {
	if v.Form != where.Quoted {
		return point[string]{}, errors.New("it takes a text in quotation marks")
	}
	return exactly(v.Text), nil
}

func readBytes(v where.Value) (point[[]byte], error) {
	bytes, err := hex.DecodeString(v.Text)
	if v.Form != where.Hex || err != nil {
		return point[[]byte]{}, errors.New("it takes pairs of hexadecimal digits, as in x'00ff'")
	}
	return exactly(bytes), nil
}

// known reads values of a type as files have them.
func known[T any](format *celltext.Format, base, takes string) reader[T] {
	return func(v where.Value) (point[T], error) {
		column, err := format.Column(inspect.Field{Type: base})
		if err != nil {
			return point[T]{}, err
		}
		value, err := column.Parse(v.Text)
		known, ok := value.(T)
		if v.Form == where.Hex || err != nil || !ok {
			return point[T]{}, errors.New("it takes " + takes)
		}
		return exactly(known), nil
	}
}

var units = map[string]time.Duration{"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

func instant(format *celltext.Format, unit time.Duration) reader[time.Time] {
	return func(v where.Value) (point[time.Time], error) {
		t, err := format.Instant(v.Text)
		finer := errors.Is(err, encode.ErrInexact)
		if v.Form == where.Hex || err != nil && !finer {
			return point[time.Time]{}, fmt.Errorf("it takes times, and this is %w", cmp.Or(err, errors.New("x'..', as columns of type bytes take")))
		}
		below := t.Truncate(unit)
		if !finer && below.Equal(t) {
			return exactly(below), nil
		}
		above := below.Add(unit)
		return point[time.Time]{&below, &above, false}, nil
	}
}
