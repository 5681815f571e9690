package hbasesource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A Mapping says what the bytes of a table mean, since HBase does not know.
type Mapping struct {
	Key     []KeyPart `yaml:"key"`     // of the row key, in their order
	Columns []Column  `yaml:"columns"` // what the cells are
	// Ignore has cells that are left out, as "d:note", or "d:*" for all of a column family that are no columns.
	Ignore []string `yaml:"ignore"`
}

// A KeyPart is a part of the row key.
type KeyPart struct {
	Name string   `yaml:"name"`
	As   Encoding `yaml:"as"`
	// Until ends a part without a fixed size, and belongs to no part; "" is for the last one, which has the rest.
	Until string `yaml:"until"`
}

// A Column is a cell of each row.
type Column struct {
	Name string   `yaml:"name"`
	Cell string   `yaml:"cell"` // column family and qualifier, as "d:celsius"
	As   Encoding `yaml:"as"`
}

// family returns the column family of the cell.
func (c Column) family() string { return familyOf(c.Cell) }

func familyOf(cell string) string {
	family, _, _ := strings.Cut(cell, ":")
	return family
}

// An Encoding says how a value is written as bytes. Numbers are as org.apache.hadoop.hbase.util.Bytes has them.
//
//	boolean                     1 byte, 0 is false
//	int8, int16, int32, int64   1 to 8 bytes, two's complement, the highest byte first
//	float32, float64            4 and 8 bytes of IEEE 754, the highest byte first
//	milliseconds                a time, as an int64 of milliseconds since 1970 in UTC
//	uuid                        16 bytes
//	utf8                        a text
//	bytes                       as they are
type Encoding string

// A codec reads and writes one encoding.
type codec struct {
	typ    store.Type
	size   int // in bytes, or 0 for any
	decode func(b []byte) (any, error)
	encode func(v any) []byte // of a value of the type
}

var errValue = errors.New("has bytes that are no such value")

// number is the codec of a type with a size, read and written by big-endian order.
func number[T any](typ store.TypeOf[T]) codec {
	size := binary.Size(*new(T))
	return codec{typ, size, func(b []byte) (any, error) {
		var v T
		_, err := binary.Decode(b, binary.BigEndian, &v)
		return v, err
	}, func(v any) []byte { b, _ := binary.Append(nil, binary.BigEndian, v); return b }}
}

// codecs has all encodings.
var codecs = map[Encoding]codec{
	"int8": number(store.Int8), "int16": number(store.Int16), "int32": number(store.Int32), "int64": number(store.Int64),
	"float32": number(store.Float32), "float64": number(store.Float64), "uuid": number(store.UUID),
	"boolean": {store.Bool, 1, func(b []byte) (any, error) { return b[0] != 0, nil }, func(v any) []byte {
		if v.(bool) {
			return []byte{0xff}
		}
		return []byte{0}
	}},
	"milliseconds": {store.Time(time.Millisecond), 8, func(b []byte) (any, error) {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC(), nil
	}, func(v any) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v.(time.Time).UnixMilli())) }},
	"utf8": {store.String, 0, func(b []byte) (any, error) {
		if text := strings.ToValidUTF8(string(b), ""); len(text) != len(b) {
			return nil, errValue
		}
		return string(b), nil
	}, func(v any) []byte { return []byte(v.(string)) }},
	"bytes": {store.Bytes, 0, func(b []byte) (any, error) { return slices.Clone(b), nil }, func(v any) []byte { return slices.Clone(v.([]byte)) }},
}

// Encodings returns the names of all encodings, in ascending order.
func Encodings() (names []string) {
	for name := range codecs {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Check returns an error unless the mapping can be used.
func (m Mapping) Check() error {
	var all []error
	seen, cells := make(map[string]bool), make(map[string]bool)
	name := func(what, n string, as Encoding) {
		switch _, known := codecs[as]; {
		case n == "":
			all = append(all, fmt.Errorf("%s has no name", what))
		case seen[n]:
			all = append(all, fmt.Errorf("%s: the name %q is there twice", what, n))
		case !known:
			all = append(all, fmt.Errorf("%s %q: there is no encoding %q; there is %s", what, n, as, strings.Join(Encodings(), ", ")))
		}
		seen[n] = true
	}
	if len(m.Key) == 0 {
		all = append(all, errors.New("the key has no parts"))
	}
	for i, p := range m.Key {
		what := fmt.Sprintf("part %d of the key", i+1)
		name(what, p.Name, p.As)
		switch size := codecs[p.As].size; {
		case size > 0 && p.Until != "":
			all = append(all, fmt.Errorf("%s: %s has %d bytes, and nothing ends it: leave until out", what, p.As, size))
		case size == 0 && p.Until == "" && i < len(m.Key)-1:
			all = append(all, fmt.Errorf("%s: until has to say what ends it, since %s has no fixed size", what, p.As))
		}
	}
	for i, c := range m.Columns {
		what := fmt.Sprintf("column %d", i+1)
		name(what, c.Name, c.As)
		if family, _, ok := strings.Cut(c.Cell, ":"); !ok || family == "" || cells[c.Cell] {
			all = append(all, fmt.Errorf("%s: %q is no cell, or is there twice: it is FAMILY:QUALIFIER", what, c.Cell))
		}
		cells[c.Cell] = true
	}
	for _, cell := range m.Ignore {
		if family, _, ok := strings.Cut(cell, ":"); !ok || family == "" || cells[cell] {
			all = append(all, fmt.Errorf("ignore: %q is no cell, or is a column: it is FAMILY:QUALIFIER, or FAMILY:*", cell))
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("hbasesource: the mapping: %w", errors.Join(all...))
	}
	return nil
}

// ignores reports whether a cell is left out that is no column. Those that are win over "d:*", which is said of what else there is.
func (m Mapping) ignores(cell string) bool {
	return slices.Contains(m.Ignore, cell) || slices.Contains(m.Ignore, familyOf(cell)+":*")
}

// columns returns key and columns as a migration has them.
func (m Mapping) columns() (key, columns []migrate.Column) {
	for _, p := range m.Key {
		key = append(key, migrate.Column{Name: p.Name, Type: codecs[p.As].typ, Foreign: string(p.As)})
	}
	for _, c := range m.Columns {
		columns = append(columns, migrate.Column{Name: c.Name, Type: codecs[c.As].typ, Foreign: string(c.As)})
	}
	return key, columns
}

// rowKey returns the row key that a row has.
func (m Mapping) rowKey(row store.Row) ([]byte, error) {
	var key []byte
	for _, p := range m.Key {
		v, ok := row[p.Name]
		if !ok {
			return nil, fmt.Errorf("the key has no part %q", p.Name)
		}
		b := codecs[p.As].encode(v)
		// What ends a part may begin within it: "x|" and "||" are "x" and what follows.
		if p.Until != "" && strings.Index(string(b)+p.Until, p.Until) != len(b) {
			return nil, fmt.Errorf("part %q of the key has %q within, which ends it", p.Name, p.Until)
		}
		key = append(append(key, b...), p.Until...)
	}
	if len(key) == 0 {
		return nil, errors.New("a row key is empty, which HBase does not take")
	}
	return key, nil
}

// readKey reads the parts of a row key. Where there is an error it returns no parts: they would be those of another row.
func (m Mapping) readKey(key []byte) (store.Row, error) {
	row, err := m.readParts(key)
	if err != nil {
		return make(store.Row), err
	}
	// Rows are read again by the key that their parts make.
	if again, err := m.rowKey(row); err != nil || !bytes.Equal(again, key) {
		return make(store.Row), errors.New("its row key is not the one that its parts make")
	}
	return row, nil
}

func (m Mapping) readParts(key []byte) (store.Row, error) {
	row := make(store.Row)
	rest := key
	for _, p := range m.Key {
		c := codecs[p.As]
		part := rest
		switch {
		case p.Until != "":
			var ok bool
			if part, rest, ok = bytes.Cut(rest, []byte(p.Until)); !ok {
				return row, fmt.Errorf("nothing ends part %q of its row key", p.Name)
			}
		case c.size > 0:
			if len(rest) < c.size {
				return row, fmt.Errorf("its row key ends within part %q", p.Name)
			}
			part, rest = rest[:c.size], rest[c.size:]
		default:
			rest = nil
		}
		v, err := c.decode(part)
		if err != nil {
			return row, fmt.Errorf("part %q of its row key %w of the encoding %s", p.Name, errValue, p.As)
		}
		if err := c.distinct(v, part); err != nil {
			return row, fmt.Errorf("part %q of its row key %w", p.Name, err)
		}
		row[p.Name] = v
	}
	if len(rest) > 0 {
		return row, errors.New("its row key goes on behind the last part")
	}
	return row, nil
}

// distinct returns an error unless no other bytes are a value that an encrypted table takes for the same key.
func (c codec) distinct(v any, b []byte) error {
	var f float64
	switch v := v.(type) {
	case float32:
		f = float64(v)
	case float64:
		f = v
	}
	switch {
	case f != f:
		return errors.New("is NaN, which no key of an encrypted table is")
	case f == 0 && math.Signbit(f):
		return errors.New("is the negative zero, which an encrypted table takes for zero")
	case !bytes.Equal(c.encode(v), b):
		return errors.New("is written in other bytes than its encoding has as a rule")
	}
	return nil
}

// readCell reads the value of a column.
func (c Column) readCell(b []byte) (any, error) {
	codec := codecs[c.As]
	if codec.size > 0 && len(b) != codec.size {
		return nil, fmt.Errorf("its cell %s has %d bytes, and %s has %d", c.Cell, len(b), c.As, codec.size)
	}
	v, err := codec.decode(b)
	if err != nil {
		return nil, fmt.Errorf("its cell %s %w of the encoding %s", c.Cell, errValue, c.As)
	}
	return v, nil
}
