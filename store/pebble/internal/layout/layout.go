// Package layout has the keys and values of the engine: how families, rows and cells become entries.
package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A cell is one entry of the engine. Its key is
//
//	family id (4 bytes, big-endian) || escaped row key || 00 01 || qualifier
//
// where each 00 of the row key is escaped as 00 ff. Bytewise order of these keys is order of
// family, row, qualifier: where one row key is a prefix of another, the terminator 00 01 meets
// either a byte of at least 01 or an escaped 00 ff, and is less than both. The terminator cannot
// occur within an escaped row key, so the qualifier needs no escape. 00 02 in place of the
// terminator is above all cells of the row and below the next row.
//
// Its value is 00 || value or, for a cell with a time to live,
// 01 || expiry (8 bytes, big-endian, seconds of the Unix epoch) || value.
//
// Family 0 is the directory: 'f' || name has the id and the specification of a family, 'n' the
// last id that was given. Ids are never given twice.

const (
	plainCell    = 0x00
	expiringCell = 0x01
)

// AppendFamily appends what the keys of a family begin with.
func AppendFamily(dst []byte, id uint32) []byte { return binary.BigEndian.AppendUint32(dst, id) }

// AppendEscaped appends the row key without a terminator: the lower bound of all rows from row on.
func AppendEscaped(dst, row []byte) []byte {
	for {
		i := bytes.IndexByte(row, 0)
		if i < 0 {
			return append(dst, row...)
		}
		dst = append(dst, row[:i]...)
		dst = append(dst, 0x00, 0xff)
		row = row[i+1:]
	}
}

// AppendRow appends what the keys of all cells of the row begin with.
func AppendRow(dst []byte, id uint32, row []byte) []byte {
	return append(AppendEscaped(AppendFamily(dst, id), row), 0x00, 0x01)
}

// Above returns the least key above all cells of the row with this prefix.
func Above(rowPrefix []byte) []byte {
	end := bytes.Clone(rowPrefix)
	end[len(end)-1] = 0x02
	return end
}

// RowPrefixLen returns the length of the part of a key that ends with the terminator.
func RowPrefixLen(key []byte) (int, error) {
	for i := 4; ; {
		j := bytes.IndexByte(key[min(i, len(key)):], 0)
		if j < 0 || i+j+1 >= len(key) {
			return 0, ErrKey
		}
		i += j + 2
		switch key[i-1] {
		case 0x01:
			return i, nil
		case 0xff:
		default:
			return 0, ErrKey
		}
	}
}

// AppendUnescaped appends the row key that rowPrefix was made of.
func AppendUnescaped(dst, rowPrefix []byte) []byte {
	row := rowPrefix[4 : len(rowPrefix)-2]
	for {
		i := bytes.IndexByte(row, 0)
		if i < 0 {
			return append(dst, row...)
		}
		dst = append(dst, row[:i+1]...)
		row = row[i+2:]
	}
}

// Errors of entries that are damaged, or foreign.
var (
	ErrKey   = fmt.Errorf("%w, or was made by something else: an entry has no valid key", driver.ErrCorrupt)
	ErrValue = fmt.Errorf("%w, or was made by something else: an entry has no valid value", driver.ErrCorrupt)
)

// expiry returns when a cell that is put now with the TTL ends. Both parts are rounded up, so
// that no cell ends early.
func expiry(now time.Time, ttl time.Duration) uint64 {
	end := now.Unix() + int64((ttl-1)/time.Second) + 1
	if now.Nanosecond() > 0 {
		end++
	}
	return uint64(end)
}

// EnvelopeSize returns the length of the value of an entry.
func EnvelopeSize(c driver.Cell) int {
	if c.TTL > 0 {
		return 9 + len(c.Value)
	}
	return 1 + len(c.Value)
}

// PutEnvelope fills dst, of the length that EnvelopeSize says.
func PutEnvelope(dst []byte, c driver.Cell, now time.Time) {
	if c.TTL <= 0 {
		dst[0] = plainCell
		copy(dst[1:], c.Value)
		return
	}
	dst[0] = expiringCell
	binary.BigEndian.PutUint64(dst[1:], expiry(now, c.TTL))
	copy(dst[9:], c.Value)
}

// OpenEnvelope returns the value within, aliasing it, and whether the cell is alive.
func OpenEnvelope(env []byte, now time.Time) (value []byte, alive bool, err error) {
	switch {
	case len(env) >= 1 && env[0] == plainCell:
		return env[1:], true, nil
	case len(env) >= 9 && env[0] == expiringCell:
		return env[9:], now.Unix() < int64(binary.BigEndian.Uint64(env[1:])), nil
	}
	return nil, false, ErrValue
}

// Directory entries. The first byte of a value is the version of its form.

// DirectoryVersion is the newest form.
const DirectoryVersion = 1

// CounterKey is where the last id is.
var CounterKey = []byte{0, 0, 0, 0, 'n'}

// DirectoryKey returns where the specification of a family is.
func DirectoryKey(name string) []byte { return append([]byte{0, 0, 0, 0, 'f'}, name...) }

// EncodeSpec returns the entry of a family.
func EncodeSpec(id uint32, s driver.FamilySpec) []byte {
	b := AppendFamily([]byte{DirectoryVersion}, id)
	b = append(b, byte(s.Layout))
	b = binary.BigEndian.AppendUint16(b, uint16(s.PrefixBytes))
	return append(b, byte(s.SpreadBits))
}

// DecodeSpec reads the entry of a family, or reports that it has another form.
func DecodeSpec(name string, b []byte) (id uint32, s driver.FamilySpec, ok bool) {
	if len(b) != 9 || b[0] != DirectoryVersion {
		return 0, s, false
	}
	return binary.BigEndian.Uint32(b[1:]), driver.FamilySpec{
		Name: name, Layout: driver.Layout(b[5]),
		PrefixBytes: int(binary.BigEndian.Uint16(b[6:])), SpreadBits: int(b[8]),
	}, true
}
