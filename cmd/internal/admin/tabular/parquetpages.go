package tabular

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Pages reads the booleans of a column chunk, those that are null left out. The library reads the encoding RLE otherwise than the format has
// it: a run of so many booleans as bytes whose bits are not all set. So true becomes false. Other programs write it in pages of version 2.
type pages struct {
	file     io.ReaderAt
	chunk    *format.ColumnMetaData
	optional bool
	at       int64 // where the next page begins
	values   int64 // in the pages that are left, those that are null included
	read     []bool
}

var errPages = errors.New("a page of it is cut short")

func newPages(file io.ReaderAt, chunk *format.ColumnMetaData, optional bool) *pages {
	at := chunk.DataPageOffset
	if first := chunk.DictionaryPageOffset; first > 0 && first < at {
		at = first
	}
	return &pages{file: file, chunk: chunk, optional: optional, at: at, values: chunk.NumValues}
}

// next returns the next boolean that is not null.
func (f *pages) next() (bool, error) {
	for len(f.read) == 0 {
		if f.values <= 0 {
			return false, errPages
		}
		h, err := f.header()
		if err == nil {
			f.read, err = f.booleans(h)
		}
		if err != nil {
			return false, err
		}
	}
	b := f.read[0]
	f.read = f.read[1:]
	return b, nil
}

// inRuns reports whether pages that are left have the encoding RLE.
func (f pages) inRuns() (bool, error) {
	for f.values > 0 {
		h, err := f.header()
		if err != nil {
			return false, err
		}
		if encodingOf(h) == format.RLE {
			return true, nil
		}
		f.at += int64(h.CompressedPageSize)
	}
	return false, nil
}

// header reads the header of the next page. Behind it is where that begins.
func (f *pages) header() (h format.PageHeader, err error) {
	const most = 1 << 24 // bytes of a header
	section := io.NewSectionReader(f.file, f.at, most)
	in := bufio.NewReaderSize(section, 512)
	if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(in)).Decode(&h); err != nil {
		return h, fmt.Errorf("the header of a page: %w", err)
	}
	read, err := section.Seek(0, io.SeekCurrent)
	f.at += read - int64(in.Buffered())
	switch {
	case h.CompressedPageSize < 0, h.DataPageHeader.Valid && h.DataPageHeader.V.NumValues < 0, h.DataPageHeaderV2.Valid && h.DataPageHeaderV2.V.NumValues < 0:
		return h, errPages
	case h.DataPageHeader.Valid:
		f.values -= int64(h.DataPageHeader.V.NumValues)
	case h.DataPageHeaderV2.Valid:
		f.values -= int64(h.DataPageHeaderV2.V.NumValues)
	}
	if err == nil && f.values < 0 {
		err = errPages
	}
	return h, err
}

// booleans reads the booleans of a page, whose checksum the library checks.
func (f *pages) booleans(h format.PageHeader) ([]bool, error) {
	data, n, err := f.data(h)
	if err != nil {
		return nil, err
	}
	return booleans(data, n, encodingOf(h))
}

// encodingOf returns the encoding of the values of a page. One that has none has number -1.
func encodingOf(h format.PageHeader) format.Encoding {
	switch {
	case h.DataPageHeader.Valid:
		return h.DataPageHeader.V.Encoding
	case h.DataPageHeaderV2.Valid:
		return h.DataPageHeaderV2.V.Encoding
	}
	return -1
}

// data reads the values of a page, and how many these are.
func (f *pages) data(h format.PageHeader) (data []byte, n int, err error) {
	section := io.NewSectionReader(f.file, f.at, int64(h.CompressedPageSize))
	f.at += int64(h.CompressedPageSize)
	data, err = io.ReadAll(section)
	if err == nil && len(data) < int(h.CompressedPageSize) {
		err = errPages
	}
	if err != nil {
		return nil, 0, err
	}
	codec := parquet.LookupCompressionCodec(f.chunk.Codec)
	switch {
	case h.DataPageHeader.Valid:
		v1 := h.DataPageHeader.V
		if data, err = codec.Decode(nil, data); err == nil && f.optional {
			return f.present(data, v1)
		}
		return data, int(v1.NumValues), err
	case h.DataPageHeaderV2.Valid:
		v2 := h.DataPageHeaderV2.V
		levels, n := int64(v2.DefinitionLevelsByteLength)+int64(v2.RepetitionLevelsByteLength), v2.NumValues-v2.NumNulls
		if v2.NumNulls < 0 || n < 0 || levels < 0 || levels > int64(len(data)) {
			return nil, 0, errPages
		}
		data = data[levels:]
		if len(data) > 0 && (v2.IsCompressed.V || !v2.IsCompressed.Valid) {
			data, err = codec.Decode(nil, data)
		}
		return data, int(n), err
	}
	return nil, 0, nil
}

// tooWide reports whether pages that are left have differences of more bits than the format has. The library takes them for others.
func (f pages) tooWide() (bool, error) {
	for f.values > 0 {
		h, err := f.header()
		if err != nil {
			return false, err
		}
		if encodingOf(h) != format.DeltaBinaryPacked {
			f.at += int64(h.CompressedPageSize)
			continue
		}
		data, n, err := f.data(h)
		if err != nil || n > 0 && wide(data) {
			return err == nil, err
		}
	}
	return false, nil
}

// wide reports whether integers of 32 bits have differences of more. What else is wrong with them the library finds.
func wide(data []byte) bool {
	number := func() uint64 {
		n, size := binary.Uvarint(data)
		data = data[max(size, 0):]
		return n
	}
	block, parts, left := number(), number(), number()
	_ = number() // the first of the integers
	if parts == 0 || parts > block {
		return false
	}
	for each := block / parts; left > 1 && uint64(len(data)) > parts; {
		_ = number() // the least difference of a block
		if uint64(len(data)) < parts {
			return false
		}
		widths := data[:parts]
		data = data[parts:]
		for _, width := range widths {
			switch {
			case left <= 1:
				return false
			case width > 32:
				return true
			}
			data = data[min(uint64(width)*each/8, uint64(len(data))):]
			left -= min(each, left)
		}
	}
	return false
}

// present returns what follows the levels of a page, and how many of its values are there.
func (f *pages) present(data []byte, h format.DataPageHeader) (_ []byte, n int, err error) {
	if h.DefinitionLevelEncoding != format.RLE {
		return nil, 0, fmt.Errorf("nulls among booleans are in an encoding that is not read: %s", h.DefinitionLevelEncoding)
	}
	levels, data, err := prefixed(data)
	if err != nil {
		return nil, 0, err
	}
	all, err := runs(levels, int(h.NumValues))
	for _, is := range all {
		if is {
			n++
		}
	}
	return data, n, err
}

// prefixed returns bytes that have their length before them, and what follows them.
func prefixed(data []byte) (is, rest []byte, err error) {
	const size = 4
	if len(data) < size || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-size) {
		return nil, nil, errPages
	}
	end := size + int(binary.LittleEndian.Uint32(data))
	return data[size:end], data[end:], nil
}

// booleans returns the values of a page.
func booleans(data []byte, n int, encoding format.Encoding) ([]bool, error) {
	switch {
	case n == 0:
		return nil, nil
	case encoding == format.Plain && int64(n) <= 8*int64(len(data)):
		return appendBits(nil, data, n), nil
	case encoding == format.Plain:
		return nil, errPages
	case encoding != format.RLE:
		return nil, fmt.Errorf("booleans are in an encoding that is not read: %s", encoding)
	}
	data, _, err := prefixed(data)
	if err != nil {
		return nil, err
	}
	return runs(data, n)
}

// runs reads so many bits in the encoding RLE: runs of one bit, and groups of eight.
func runs(data []byte, n int) (all []bool, err error) {
	for len(all) < n {
		head, size := binary.Uvarint(data)
		if size <= 0 || len(data) == size {
			return nil, errPages
		}
		data = data[size:]
		left, count := n-len(all), head>>1
		if head&1 == 0 {
			for range min(count, uint64(left)) {
				all = append(all, data[0] != 0)
			}
			data = data[1:]
			continue
		}
		if count > uint64(len(data)) {
			return nil, errPages
		}
		all = appendBits(all, data, min(8*int(count), left))
		data = data[count:]
	}
	return all, nil
}

// appendBits appends so many bits, the lowest of a byte first.
func appendBits(all []bool, data []byte, n int) []bool {
	for i := range n {
		all = append(all, data[i/8]>>(i%8)&1 == 1)
	}
	return all
}
