package cqlsource

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// A kind is a type of CQL whose values have a place in an encrypted table.
type kind struct {
	typ    store.Type
	decode func(b []byte) (any, error)                // of what the server has; an error says why not, without the value
	encode func(v any) ([]byte, bool)                 // of what decode returns; false if it is nothing of the kind
	parse  func(literal string, of tokenKind) (v any) // what a literal in a statement is, or nil if it is to be bound
	rigid  bool                                       // different bytes may be one value, so it is no part of a partition key
	empty  any                                        // what no bytes are, nil if they are no value
}

// kinds has them by name.
var kinds = map[string]kind{
	"ascii": texts, "text": texts, "varchar": texts,
	"tinyint": integer[int8](1, store.Int8), "smallint": integer[int16](2, store.Int16),
	"int": integer[int32](4, store.Int32), "bigint": integer[int64](8, store.Int64),
	"float": {
		typ: store.Float32, parse: fraction(32, func(f float64) any { return float32(f) }),
		decode: fixed(4, func(u uint64) any { return math.Float32frombits(uint32(u)) }),
		encode: bytesOf(4, func(v float32) (uint64, bool) { return uint64(math.Float32bits(v)), true }),
	},
	"double": {
		typ: store.Float64, parse: fraction(64, func(f float64) any { return f }),
		decode: fixed(8, func(u uint64) any { return math.Float64frombits(u) }),
		encode: bytesOf(8, func(v float64) (uint64, bool) { return math.Float64bits(v), true }),
	},
	"boolean": {
		typ: store.Bool,
		parse: func(s string, of tokenKind) any {
			return map[string]any{"true": true, "false": false}[lowerWord(s, of)]
		},
		decode: fixed(1, func(u uint64) any { return u != 0 }),
		encode: bytesOf(1, func(v bool) (uint64, bool) { return map[bool]uint64{true: 1}[v], true }),
	},
	"timestamp": {
		// gocql writes no bytes for the zero time.Time, and reads them as that.
		typ: store.Time(time.Millisecond), parse: toBind, empty: time.Time{},
		decode: fixed(8, func(u uint64) any { return time.UnixMilli(int64(u)).UTC() }),
		encode: bytesOf(8, func(v time.Time) (uint64, bool) { return uint64(v.UnixMilli()), v.Nanosecond()%1e6 == 0 }),
	},
	"date": {
		typ: store.Date, parse: day, empty: encode.CivilDate{Year: 1, Month: time.January, Day: 1},
		decode: fixed(4, func(u uint64) any { d, _ := encode.Date().Decode(int64(u) - 1<<31); return d }), // of any 32 bits
		encode: bytesOf(4, func(v encode.CivilDate) (uint64, bool) {
			days, err := encode.Date().Encode(v)
			return uint64(days + 1<<31), err == nil
		}),
	},
	"time":     {typ: store.Int64, parse: toBind, decode: int64Kind.decode, encode: int64Kind.encode},
	"uuid":     uuids,
	"timeuuid": uuids,
	"blob": {
		typ: store.Bytes, parse: hexadecimal, empty: []byte{},
		decode: func(b []byte) (any, error) { return b, nil },
		encode: func(v any) ([]byte, bool) { b, ok := v.([]byte); return b, ok },
	},
	"inet": {
		typ: store.Bytes, parse: toBind,
		decode: func(b []byte) (any, error) { return b, nil },
		encode: func(v any) ([]byte, bool) { b, ok := v.([]byte); return b, ok },
	},
	"varint": {
		typ: store.Int64, parse: whole(64, func(n int64) any { return n }),
		decode: func(b []byte) (any, error) {
			n := twosComplement(b)
			if !n.IsInt64() {
				return nil, errors.New("is a varint of more than 64 bits")
			}
			return n.Int64(), nil
		},
		encode: func(v any) ([]byte, bool) {
			n, ok := v.(int64)
			return appendTwosComplement(nil, big.NewInt(n)), ok
		},
	},
	"decimal": {
		typ: store.Decimal(6), parse: toBind, rigid: true,
		decode: func(b []byte) (any, error) {
			if len(b) < 5 {
				return nil, errors.New("is a decimal of too few bytes")
			}
			return encode.Decimal{Scale: int32(binary.BigEndian.Uint32(b)), Unscaled: twosComplement(b[4:])}, nil
		},
		encode: func(v any) ([]byte, bool) {
			d, ok := v.(encode.Decimal)
			if d.Unscaled == nil {
				d.Unscaled = new(big.Int)
			}
			return appendTwosComplement(binary.BigEndian.AppendUint32(nil, uint32(d.Scale)), d.Unscaled), ok
		},
	},
}

var (
	int64Kind = integer[int64](8, store.Int64)

	texts = kind{
		typ: store.String, empty: "",
		parse: func(s string, of tokenKind) any {
			if of != tokenString {
				return nil
			}
			return s
		},
		decode: func(b []byte) (any, error) { return string(b), nil },
		encode: func(v any) ([]byte, bool) { s, ok := v.(string); return []byte(s), ok },
	}

	uuids = kind{
		typ: store.UUID, parse: uuid,
		decode: func(b []byte) (any, error) {
			if len(b) != 16 {
				return nil, errSize
			}
			return [16]byte(b), nil
		},
		encode: func(v any) ([]byte, bool) { id, ok := v.([16]byte); return id[:], ok },
	}

	errSize  = errors.New("has not as many bytes as its type")
	errEmpty = errors.New("is empty, which is neither null nor a value of an encrypted table")
)

// value returns what the server has, nil for null.
func (k *kind) value(b []byte) (any, error) {
	switch {
	case b == nil:
		return nil, nil
	case len(b) > 0:
		return k.decode(b)
	case k.empty == nil:
		return nil, errEmpty
	}
	return k.empty, nil
}

// fixed returns the decoder of values of so many bytes.
func fixed(size int, from func(u uint64) any) func([]byte) (any, error) {
	return func(b []byte) (any, error) {
		if len(b) != size {
			return nil, errSize
		}
		var full [8]byte
		copy(full[8-size:], b)
		return from(binary.BigEndian.Uint64(full[:])), nil
	}
}

// bytesOf undoes fixed.
func bytesOf[T any](size int, to func(v T) (uint64, bool)) func(any) ([]byte, bool) {
	return func(v any) ([]byte, bool) {
		t, ok := v.(T)
		if !ok {
			return nil, false
		}
		u, ok := to(t)
		return binary.BigEndian.AppendUint64(nil, u)[8-size:], ok
	}
}

func integer[T int8 | int16 | int32 | int64](size int, typ store.Type) kind {
	return kind{
		typ: typ, parse: whole(8*size, func(n int64) any { return T(n) }),
		decode: fixed(size, func(u uint64) any { return T(u) }),
		encode: bytesOf(size, func(v T) (uint64, bool) { return uint64(v), true }),
	}
}

// twosComplement reads a number as varint and decimal have it.
func twosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// appendTwosComplement writes a number in the fewest bytes.
func appendTwosComplement(b []byte, n *big.Int) []byte {
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		size = new(big.Int).Not(n).BitLen()/8 + 1
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return append(b, n.FillBytes(make([]byte, size))...)
}

// toBind is for literals that the server reads in more ways than are worth reading here.
func toBind(string, tokenKind) any { return nil }

func whole(bits int, to func(n int64) any) func(string, tokenKind) any {
	return func(s string, of tokenKind) any {
		if n, err := strconv.ParseInt(s, 10, bits); err == nil && of == tokenNumber {
			return to(n)
		}
		return nil
	}
}

func fraction(bits int, to func(f float64) any) func(string, tokenKind) any {
	return func(s string, of tokenKind) any {
		if f, err := strconv.ParseFloat(s, bits); err == nil && of == tokenNumber {
			return to(f)
		}
		return nil
	}
}

func lowerWord(s string, of tokenKind) string {
	if of != tokenWord {
		return ""
	}
	return strings.ToLower(s)
}

func uuid(s string, of tokenKind) any {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if of != tokenUUID || err != nil || len(b) != 16 {
		return nil
	}
	return [16]byte(b)
}

func hexadecimal(s string, of tokenKind) any {
	if of != tokenHex {
		return nil
	}
	if b, err := hex.DecodeString(s[len("0x"):]); err == nil {
		return b
	}
	return nil
}

var dayText = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

func day(s string, of tokenKind) any {
	if t, err := time.Parse(time.DateOnly, s); err == nil && of == tokenString && dayText.MatchString(s) {
		return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}
	}
	return nil
}

// unmapped says why a column has no place in an encrypted table, and what to do.
func unmapped(name, cql string) string {
	why, instead := "is of a type that no encrypted column has", "add a column of a type that one has, such as a text with JSON, and drop this one"
	switch plain := strings.TrimPrefix(cql, "frozen<"); {
	case cql == "counter":
		why, instead = "is a counter, whose changes cannot be read back as one value of one time", "write its values into a bigint of another table, and take that as the source"
	case cql == "duration":
		why, instead = "is a duration, which has months, days and nanoseconds that no order ties together", "add three bigint columns for these, and drop this one"
	case strings.HasPrefix(plain, "list<"), strings.HasPrefix(plain, "set<"), strings.HasPrefix(plain, "map<"):
		why, instead = "is a collection, of which an encrypted column has none", "add a text or blob column with its content, such as JSON, and drop this one; or put its items into a table of their own"
	case strings.HasPrefix(plain, "tuple<"):
		why, instead = "is a tuple, of which an encrypted column has none", "add a column for each of its parts, and drop this one"
	case strings.HasPrefix(plain, "vector<"):
		why, instead = "is a vector, whose search by nearness no encrypted column offers", "leave it in a table of its own, or add a blob column with its bytes, and drop this one"
	case simpleType.MatchString(plain):
		why, instead = "is of a type of your own, of which an encrypted column has none", "add a column for each of its fields, and drop this one"
	}
	return fmt.Sprintf("The column %s (%s) %s: %s.", name, cql, why, instead)
}

// simpleType matches the name of a type that somebody has made.
var simpleType = regexp.MustCompile(`^("[^"]*"|\w+)>?$`)
