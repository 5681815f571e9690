// Package wire has cells as HBase has them on the wire, and how ours are stored.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Where a cell is: the column family, and what its qualifier and its value begin with.
const (
	ColumnFamily    = "c"
	QualifierHeader = "q"
	ValueHeader     = "\x01"
)

// Stored returns a qualifier as it is stored.
func Stored(qualifier []byte) []byte {
	return append([]byte(QualifierHeader), qualifier...)
}

// Cells on the wire are HBase's KeyValues: lengths of all, key and value (4 bytes each), then the
// key (row length 2, row, family length 1, family, qualifier, timestamp 8, type 1), then the value.
const (
	TypePut          = 4
	TypeDeleteColumn = 12 // all versions up to the timestamp
	TypeDeleteFamily = 14
	Latest           = 1<<63 - 1 // the server writes its own time here
)

// CellSize returns the length of a cell on the wire, by those of its parts as they are stored.
func CellSize(row, qualifier, value int) int {
	return 4 + 4 + 4 + 2 + row + 1 + len(ColumnFamily) + qualifier + 8 + 1 + value
}

// AppendCell appends a cell with qualifier and value as they are stored, each in two parts.
func AppendCell(b, row []byte, q string, qualifier []byte, time uint64, kind byte, header string, value []byte) []byte {
	size := CellSize(len(row), len(q)+len(qualifier), len(header)+len(value))
	b = binary.BigEndian.AppendUint32(b, uint32(size-4))
	b = binary.BigEndian.AppendUint32(b, uint32(size-12-len(header)-len(value)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)+len(value)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(row)))
	b = append(b, row...)
	b = append(b, byte(len(ColumnFamily)))
	b = append(b, ColumnFamily...)
	b = append(b, q...)
	b = append(b, qualifier...)
	b = binary.BigEndian.AppendUint64(b, time)
	b = append(b, kind)
	b = append(b, header...)
	return append(b, value...)
}

// Errors of cells from the server.
var (
	ErrCell   = errors.New("a cell from the server is malformed")
	ErrFormat = fmt.Errorf("%w: a cell has none of the formats that this version knows", driver.ErrLayout)
)

// Unknown returns [ErrFormat] of a cell, and says how an operator finds it: by its time in milliseconds, since row keys stay out of errors.
func Unknown(qualifier []byte, time uint64) error {
	return fmt.Errorf("%w: column %q, timestamp %d; if no newer version has written it, somebody else has: "+
		"find it in the shell of HBase, by a scan with TIMERANGE => [%[3]d, %[4]d], and delete it", ErrFormat, ColumnFamily+":"+string(qualifier), time, time+1)
}

// nextCell takes the first cell, of size bytes, out of b.
func nextCell(b []byte) (row, family, qualifier, value []byte, time uint64, size int, err error) {
	if len(b) < 14 {
		return nil, nil, nil, nil, 0, 0, ErrCell
	}
	total := int(binary.BigEndian.Uint32(b)) + 4
	keyLen, valueLen := int(binary.BigEndian.Uint32(b[4:])), int(binary.BigEndian.Uint32(b[8:]))
	rowLen := int(binary.BigEndian.Uint16(b[12:]))
	// 12 bytes are beside row, family and qualifier in a key.
	if total > len(b) || total != 12+keyLen+valueLen || keyLen < 12+rowLen {
		return nil, nil, nil, nil, 0, 0, ErrCell
	}
	row = b[14 : 14+rowLen]
	familyLen := int(b[14+rowLen])
	if keyLen < 12+rowLen+familyLen {
		return nil, nil, nil, nil, 0, 0, ErrCell
	}
	end := 12 + keyLen
	family = b[15+rowLen : 15+rowLen+familyLen]
	qualifier = b[15+rowLen+familyLen : end-9]
	return row, family, qualifier, b[end:total], binary.BigEndian.Uint64(b[end-9:]), total, nil
}

// Known reports whether a cell has our format.
func Known(qualifier, value []byte) bool {
	return len(qualifier) > 0 && qualifier[0] == QualifierHeader[0] && len(value) > 0 && value[0] == ValueHeader[0]
}

// DecodeRow decodes n cells of one row. It reads over cells of an unknown format. The result is in one piece of memory of its own, so that
// a row that is kept does not keep its whole page.
func DecodeRow(b []byte, n int, stamps bool) (key []byte, cells []driver.Cell, read int, err error) {
	if n == 0 {
		return nil, nil, 0, nil
	}
	size := 0
	var unknown error
	for range n {
		row, _, qualifier, value, time, k, err := nextCell(b[read:])
		switch {
		case err != nil:
			return nil, nil, 0, err
		case !Known(qualifier, value):
			unknown = Unknown(qualifier, time)
		}
		if read == 0 {
			size = len(row)
		}
		size += len(qualifier) + len(value) - 2
		read += k
	}
	if unknown != nil {
		return nil, nil, read, unknown
	}
	memory := make([]byte, 0, size)
	keep := func(p []byte) []byte {
		memory = append(memory, p...)
		return memory[len(memory)-len(p) : len(memory) : len(memory)]
	}
	cells = make([]driver.Cell, n)
	for i, at := 0, 0; i < n; i++ {
		row, _, qualifier, value, time, k, _ := nextCell(b[at:])
		if i == 0 {
			key = keep(row)
		}
		cells[i] = driver.Cell{Qualifier: keep(qualifier[1:]), Value: keep(value[1:])}
		if stamps {
			cells[i].Stamp = int64(time)
		}
		at += k
	}
	return key, cells, read, nil
}

// Foreign returns the qualifier that a cell of a table gets which is not ours: its column family stands before it.
func Foreign(family, qualifier []byte) []byte {
	return slices.Concat(family, []byte(":"), qualifier)
}

// DecodeForeign decodes n cells of one row of such a table, as they are.
func DecodeForeign(b []byte, n int) (key []byte, cells []driver.Cell, read int, err error) {
	for range n {
		row, family, qualifier, value, time, k, err := nextCell(b[read:])
		if err != nil {
			return nil, nil, 0, err
		}
		key, read = row, read+k
		cells = append(cells, driver.Cell{Qualifier: Foreign(family, qualifier), Value: slices.Clone(value), Stamp: int64(time)})
	}
	return slices.Clone(key), cells, read, nil
}
