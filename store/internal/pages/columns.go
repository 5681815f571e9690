package pages

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A mini-page has the values of some columns of all rows of a page, column by column. Of each column that is not null in
// all rows it has:
//
//	bytes   what
//	uvarint number of the column
//	1       bit 0: some rows are null. Above it: 0, or 1 and the length that all values have
//	(n+7)/8 where some rows are null: a bit for each row, from the least one on, that is set where the row has a value
//	...     where values have no common length: the length of each, as a uvarint
//	...     the values, one after the other
const (
	someNull  = 1
	maxCommon = 126 // the greatest length that the byte has room for
)

// appendColumn appends the values that rows have of a column to a mini-page.
func appendColumn(dst []byte, number uint32, typ value.Type, at int, rows []*rowcodec.Record) []byte {
	var present []byte
	var lengths []int
	var values []byte
	for i, r := range rows {
		v := r.Values[at]
		if v == nil {
			continue
		}
		if present == nil {
			present = make([]byte, (len(rows)+7)/8)
		}
		present[i/8] |= 1 << (i % 8)
		before := len(values)
		values = typ.AppendStored(values, v)
		lengths = append(lengths, len(values)-before)
	}
	if lengths == nil {
		return dst
	}
	form, common := byte(0), lengths[0] <= maxCommon
	for _, n := range lengths {
		common = common && n == lengths[0]
	}
	if common {
		form = byte(lengths[0]+1) << 1
	}
	if len(lengths) < len(rows) {
		form |= someNull
	}
	dst = append(binary.AppendUvarint(dst, uint64(number)), form)
	if form&someNull != 0 {
		dst = append(dst, present...)
	}
	if !common {
		for _, n := range lengths {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	return append(dst, values...)
}

// A block is a column of a mini-page.
type block struct {
	number  uint64
	present []byte // as above; nil where no row is null
	lengths []byte // as above; nil where common counts
	common  int
	values  []byte
}

var errCut = fmt.Errorf("%w: a mini-page is cut short", fault.ErrTampered)

// cutBlocks reads a mini-page of a number of rows.
func cutBlocks(b []byte, rows int) (all []block, err error) {
	for len(b) > 0 {
		var one block
		if one, b, err = cutBlock(b, rows); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func cutBlock(b []byte, rows int) (one block, rest []byte, err error) {
	number, size := binary.Uvarint(b)
	if size <= 0 || size == len(b) {
		return one, nil, errCut
	}
	one.number, b = number, b[size:]
	form, n := b[0], rows
	b = b[1:]
	if form&someNull != 0 {
		if len(b) < (rows+7)/8 {
			return one, nil, errCut
		}
		one.present, b = b[:(rows+7)/8], b[(rows+7)/8:]
		n = 0
		for i := range rows {
			n += int(one.present[i/8] >> (i % 8) & 1)
		}
	}
	total := 0
	if form > someNull {
		one.common = int(form>>1) - 1
		total = n * one.common
	} else {
		at := 0
		for range n {
			length, size := binary.Uvarint(b[at:])
			if size <= 0 || length > uint64(len(b)) {
				return one, nil, errCut
			}
			at, total = at+size, total+int(length)
		}
		one.lengths, b = b[:at:at], b[at:]
	}
	if total > len(b) {
		return one, nil, errCut
	}
	one.values = b[:total:total]
	return one, b[total:], nil
}

// read sets the values of the column in rows.
func (one *block) read(typ value.Type, at int, rows []*rowcodec.Record) (err error) {
	values, lengths := one.values, one.lengths
	for i, r := range rows {
		if one.present != nil && one.present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		n := one.common
		if one.lengths != nil {
			length, size := binary.Uvarint(lengths)
			n, lengths = int(length), lengths[size:]
		}
		if r.Values[at], err = typ.Parse(values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// shared returns how many bytes two keys begin with in common.
func shared(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// between returns a short key that is above one and not above a greater one, which begins with as many of its bytes as the
// part of the table has.
func between(below, key []byte, least int) []byte {
	return bytes.Clone(key[:min(len(key), max(shared(below, key)+1, least))])
}
