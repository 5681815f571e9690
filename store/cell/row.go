package cell

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// A RowKey names a row of a table that the application keeps. Make one with [Row]: nothing is sealed or opened under the zero
// RowKey.
type RowKey struct {
	parts seal.Place // one for each value: its kind and its bytes
	err   error
}

// The kinds of values in row keys: the first byte of a part. They are for ever.
const (
	integer   = 'i'
	text      = 't'
	blob      = 'b'
	uuid      = 'u'
	timestamp = 's'
	boolean   = 'o'
	address   = 'a'
)

// Row returns the key of a row: the values of all columns of the table's primary key, in its order, without one that holds a
// [Cell].Search. A value that is sealed for
// the row opens with an equal key only, so name a row in the same way always. Values of Go types that stand for the
// same type of CQL are equal: an int and an int64, a net.IP and a netip.Addr. Times count in milliseconds, as in CQL. A
// pointer stands for what it leads to.
//
// The types are those of integers up to the greatest int64, string, []byte, bool, time.Time, net.IP, netip.Addr, 16 bytes as of
// a UUID, and types made of them. Give a value of another type as a text or as bytes. A key that cannot be made is [store.ErrColumn]
// where it is used.
func Row(values ...any) RowKey {
	if len(values) == 0 {
		return RowKey{}
	}
	var r RowKey
	for i, v := range values {
		part, err := appendPart(nil, v)
		if err != nil {
			return RowKey{err: fmt.Errorf("%w: value %d of the row key: %w", fault.ErrColumn, i+1, err)}
		}
		r.parts = r.parts.Append(part)
	}
	return r
}

// Equal reports whether two keys name the same row. A key that cannot be made equals none.
func (r RowKey) Equal(other RowKey) bool {
	return r.check() == nil && other.check() == nil && bytes.Equal(r.parts, other.parts)
}

// check returns an error if the key names no row.
func (r RowKey) check() error {
	if r.err == nil && len(r.parts) == 0 {
		return fmt.Errorf("%w: no row is named: make its key with cell.Row", fault.ErrColumn)
	}
	return r.err
}

// appendPart appends the kind and the bytes of a value.
func appendPart(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case RowKey:
		return nil, errors.New("it is a RowKey: give the parts of the key themselves")
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, timestamp), uint64(v.UnixMilli())), nil
	case netip.Addr:
		return appendAddress(b, v)
	case net.IP:
		a, _ := netip.AddrFromSlice(v)
		return appendAddress(b, a)
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInteger(append(b, integer), r.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if int64(r.Uint()) < 0 {
			return nil, errors.New("an integer above the greatest int64: give it as a text")
		}
		return appendInteger(append(b, integer), int64(r.Uint())), nil
	case reflect.String:
		return append(append(b, text), r.String()...), nil
	case reflect.Bool:
		n := byte(0)
		if r.Bool() {
			n = 1
		}
		return append(b, boolean, n), nil
	case reflect.Slice:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return append(append(b, blob), r.Bytes()...), nil
		}
	case reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 && r.Len() == 16 {
			b = append(b, uuid)
			for i := range r.Len() {
				b = append(b, byte(r.Index(i).Uint()))
			}
			return b, nil
		}
	case reflect.Pointer:
		if !r.IsNil() {
			return appendPart(b, r.Elem().Interface())
		}
	}
	if !r.IsValid() || r.Kind() == reflect.Pointer {
		return nil, errors.New("it is nil, and no part of a primary key is null")
	}
	return nil, fmt.Errorf("it has Go type %T: give it as a text or as bytes", v)
}

// appendInteger appends the shortest two's complement.
func appendInteger(b []byte, v int64) []byte {
	full := binary.BigEndian.AppendUint64(nil, uint64(v))
	for len(full) > 1 && (full[0] == 0 && full[1] < 0x80 || full[0] == 0xff && full[1] >= 0x80) {
		full = full[1:]
	}
	return append(b, full...)
}

// appendAddress appends the 4 or 16 bytes of an address. An IPv4 one has 4, however it is written.
func appendAddress(b []byte, a netip.Addr) ([]byte, error) {
	if !a.IsValid() || a.Zone() != "" {
		return nil, errors.New("no IP address, or one with a zone, which CQL does not have")
	}
	return append(append(b, address), a.Unmap().AsSlice()...), nil
}
