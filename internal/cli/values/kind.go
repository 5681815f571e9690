package values

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// A Kind is a type of values: how they are written, and how they become the int64 that schemes
// encrypt. Its functions' errors do not hold the text or value.
type Kind struct {
	Name   string
	Domain ope.Domain

	// Parse returns the code of a text.
	Parse func(text string) (int64, error)

	// Low returns the least code of a value at or above that of the text, High the greatest code
	// of one at or below. They report false when there is none. The text need not be a value of
	// the kind: it may be beyond the domain or finer than the resolution.
	Low, High func(text string) (code int64, ok bool, err error)

	// Format returns the text of a code, which Parse takes back.
	Format func(code int64) (string, error)

	// numeric texts are numbers in JSON, but for infinities.
	numeric bool

	Column Column
}

// A Column is how values of a kind are stored.
type Column struct {
	Type    store.Type
	Value   func(code int64) (any, error)
	Code    func(value any) (int64, error)
	Between func(name string, lo, hi int64) (store.Predicate, error) // codes, both included
}

// columnOf returns the column of a type, whose codec gives the kind's codes.
func columnOf[T any](typ store.TypeOf[T], codec encode.Exact[T]) Column {
	return Column{
		Type:  typ,
		Value: func(code int64) (any, error) { return codec.Decode(code) },
		Code: func(value any) (int64, error) {
			v, ok := value.(T)
			if !ok {
				return 0, fmt.Errorf("%w: a row has no value", exit.ErrWrongAnswer)
			}
			return codec.Encode(v)
		},
		Between: func(name string, lo, hi int64) (store.Predicate, error) {
			a, errA := codec.Decode(lo)
			b, errB := codec.Decode(hi)
			return store.Field[T](name).Between(a, b), errors.Join(errA, errB)
		},
	}
}

// A kindError says in the words of the command line what a codec refused, without the codec's ID
// and codes.
type kindError struct {
	text string
	err  error
}

func (e kindError) Error() string { return e.text }
func (e kindError) Unwrap() error { return e.err }

// JSONNumber reports whether a text of the kind is a number as JSON has them.
func (k Kind) JSONNumber(text string) bool { return k.numeric && !strings.HasSuffix(text, "inf") }

// newKind returns the kind of the values that a codec takes, with their texts.
func newKind[T any](name string, codec encode.Exact[T], numeric bool, column Column, parse func(string) (T, error), format func(T) string) Kind {
	named := func(err error) error {
		switch {
		case errors.Is(err, ope.ErrDomain):
			return kindError{"beyond the range of " + name, err}
		case errors.Is(err, encode.ErrInvalid):
			return kindError{"not a value that " + name + " can order", err}
		case errors.Is(err, encode.ErrInexact):
			return kindError{"finer than " + name + " keeps", err}
		}
		return err
	}
	// What no T holds is beyond one end of the domain, or of its finite numbers.
	d, infinite := codec.Domain(), int64(0)
	if strings.HasPrefix(name, "float") {
		infinite = 1
	}
	bound := func(low bool, f func(T) (int64, bool, error)) func(string) (int64, bool, error) {
		return func(text string) (int64, bool, error) {
			v, err := parse(text)
			if errors.Is(err, ope.ErrDomain) {
				below := strings.HasPrefix(text, "-")
				switch {
				case low && below:
					return d.Min + infinite, true, nil
				case low:
					return d.Max, infinite == 1, nil
				case below:
					return d.Min, infinite == 1, nil
				}
				return d.Max - infinite, true, nil
			}
			if err != nil {
				return 0, false, err
			}
			code, ok, err := f(v)
			return code, ok, named(err)
		}
	}
	return Kind{
		Name: name, Domain: codec.Domain(), numeric: numeric, Column: column,
		Parse: func(text string) (int64, error) {
			v, err := parse(text)
			if err != nil {
				return 0, err
			}
			code, err := codec.Encode(v)
			return code, named(err)
		},
		Low: bound(true, codec.Low), High: bound(false, codec.High),
		Format: func(code int64) (string, error) {
			v, err := codec.Decode(code)
			if err != nil {
				return "", err
			}
			return format(v), nil
		},
	}
}

// integer returns a kind of integers. The codes of all integer types below 64 bits are their
// values, so the widest type within bounds encodes each of them, and lets the bounds of a query
// be any numbers.
func integer(name string, lo, hi int64, column Column) Kind {
	codec, err := encode.Integer[int64]().Within(lo, hi)
	if err != nil {
		panic("values: " + err.Error())
	}
	return newKind(name, codec, true, column, func(text string) (int64, error) {
		x, err := strconv.ParseInt(text, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			return 0, kindError{"beyond the range of " + name, ope.ErrDomain}
		}
		if err != nil {
			return 0, fmt.Errorf("not an integer")
		}
		return x, nil
	}, func(x int64) string { return strconv.FormatInt(x, 10) })
}

func float[T ~float32 | ~float64](name string, bits int, typ store.TypeOf[T]) Kind {
	return newKind(name, encode.Float[T](), true, columnOf(typ, encode.Float[T]()), func(text string) (T, error) {
		x, err := encode.ParseFloat(text, bits)
		if errors.Is(err, strconv.ErrRange) {
			return 0, kindError{"beyond the range of " + name, ope.ErrDomain}
		}
		if err != nil {
			return 0, fmt.Errorf("not a number")
		}
		// A decimal fraction is rounded, as everywhere. An integer is not: it may be the name of
		// something, and its neighbours' names would be the same.
		if limit := math.Ldexp(1, map[int]int{32: 24, 64: 53}[bits]); math.Abs(x) >= limit {
			if n, ok := new(big.Int).SetString(text, 10); ok {
				if whole, _ := big.NewFloat(x).Int(nil); whole == nil || whole.Cmp(n) != 0 {
					return 0, kindError{"an integer that " + name + " does not hold exactly", encode.ErrInexact}
				}
			}
		}
		return T(x), nil
	}, func(x T) string { return string(show.AppendFloat(nil, float64(x), bits)) })
}

// kinds lists the types; names are validated against it and run from it.
var kinds = []Kind{
	integer("int8", math.MinInt8, math.MaxInt8, columnOf(store.Int8, encode.Integer[int8]())),
	integer("int16", math.MinInt16, math.MaxInt16, columnOf(store.Int16, encode.Integer[int16]())),
	integer("int32", math.MinInt32, math.MaxInt32, columnOf(store.Int32, encode.Integer[int32]())),
	integer("int64", math.MinInt64, math.MaxInt64, columnOf(store.Int64, encode.Integer[int64]())),
	integer("uint8", 0, math.MaxUint8, columnOf(store.Uint8, encode.Integer[uint8]())),
	integer("uint16", 0, math.MaxUint16, columnOf(store.Uint16, encode.Integer[uint16]())),
	integer("uint32", 0, math.MaxUint32, columnOf(store.Uint32, encode.Integer[uint32]())),
	newKind("uint64", encode.Integer[uint64](), true, columnOf(store.Uint64, encode.Integer[uint64]()), func(text string) (uint64, error) {
		digits, negative := strings.CutPrefix(text, "-")
		if !negative {
			digits = strings.TrimPrefix(text, "+")
		}
		x, err := strconv.ParseUint(digits, 10, 64)
		if errors.Is(err, strconv.ErrRange) || err == nil && negative && x > 0 {
			return 0, kindError{"beyond the range of uint64", ope.ErrDomain}
		}
		if err != nil {
			return 0, fmt.Errorf("not an integer")
		}
		return x, nil
	}, func(x uint64) string { return strconv.FormatUint(x, 10) }),
	float("float32", 32, store.Float32),
	float("float64", 64, store.Float64),
	newKind("date", encode.Date(), false, columnOf(store.Date, encode.Date()), func(text string) (encode.CivilDate, error) {
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return encode.CivilDate{}, fmt.Errorf("not a date like 2024-02-29")
		}
		return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}, nil
	}, func(d encode.CivilDate) string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }),
	inYears(newKind("timestamp", encode.Time(time.Microsecond), false, columnOf(store.Time(time.Microsecond), encode.Time(time.Microsecond)), func(text string) (time.Time, error) {
		// Without an offset it is taken as UTC.
		for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime} {
			t, err := encode.ParseTime(layout, text)
			if errors.Is(err, encode.ErrInexact) {
				return t, kindError{"finer than timestamp keeps", err}
			}
			if err == nil && possibleOffset(text) {
				return t, nil
			}
		}
		return time.Time{}, fmt.Errorf("not a timestamp like 2024-02-29T12:00:00Z")
	}, func(t time.Time) string { return t.Format(time.RFC3339Nano) })),
}

// inYears returns the kind of timestamps without those that an offset puts into a year in UTC that has no text.
// Bounds of a range may be such ones.
func inYears(k Kind) Kind {
	first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	end := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	parse := k.Parse
	k.Parse = func(text string) (int64, error) {
		code, err := parse(text)
		if err == nil && (code < first || code >= end) {
			err = errors.New("a timestamp whose year in UTC is not 0 to 9999")
		}
		return code, err
	}
	return k
}

// possibleOffset reports whether a timestamp has no offset, or one of at most 23 hours and 59 minutes. Go reads
// -24:00 and +23:60, too.
func possibleOffset(text string) bool {
	at := len(text) - len("+00:00")
	if at < 0 || text[at] != '+' && text[at] != '-' || text[at+3] != ':' {
		return true
	}
	return text[at+1:at+3] <= "23" && text[at+4:] <= "59"
}

// inferable lists the types that a column of a file is found to have, the first preferred.
var inferable = []string{"int64", "float64", "date", "timestamp"}

func inferredKinds() []Kind {
	var inferred []Kind
	for _, name := range inferable {
		k, err := KindByName(name)
		if err != nil {
			panic("values: " + err.Error())
		}
		inferred = append(inferred, k)
	}
	return inferred
}

// Kinds returns all types.
func Kinds() []Kind { return kinds }

// KindNames returns the names of the types.
func KindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// KindByName returns the kind of that name.
func KindByName(name string) (Kind, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, exit.Usagef("unknown type %q: there is %s", name, strings.Join(KindNames(), ", "))
	}
	return kinds[i], nil
}
