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

// A flags reads the booleans of a column chunk, those that are null left out. The library reads the encoding RLE otherwise than the format has
// it: a run of so many booleans as bytes whose bits are not all set. So true becomes false. Other programs write it in pages of version 2.
type flags struct {
	file     io.ReaderAt
	chunk    *format.ColumnMetaData
	optional bool
	at       int64 // where the next page begins
	values   int64 // in the pages that are left, those that are null included
	read     []bool
}

var errFlags = errors.New("booleans of it are cut short")

func newFlags(file io.ReaderAt, chunk *format.ColumnMetaData, optional bool) *flags {
	at := chunk.DataPageOffset
	if first := chunk.DictionaryPageOffset; first > 0 && first < at {
		at = first
	}
	return &flags{file: file, chunk: chunk, optional: optional, at: at, values: chunk.NumValues}
}

// next returns the next boolean that is not null.
func (f *flags) next() (bool, error) {
	for len(f.read) == 0 {
		if f.values <= 0 {
			return false, errFlags
		}
		h, err := f.header()
		if err == nil {
			f.read, err = f.page(h)
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
func (f flags) inRuns() (bool, error) {
	for f.values > 0 {
		h, err := f.header()
		if err != nil {
			return false, err
		}
		if h.DataPageHeader.Valid && h.DataPageHeader.V.Encoding == format.RLE || h.DataPageHeaderV2.Valid && h.DataPageHeaderV2.V.Encoding == format.RLE {
			return true, nil
		}
		f.at += int64(h.CompressedPageSize)
	}
	return false, nil
}

// header reads the header of the next page. Behind it is where that begins.
func (f *flags) header() (h format.PageHeader, err error) {
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
		return h, errFlags
	case h.DataPageHeader.Valid:
		f.values -= int64(h.DataPageHeader.V.NumValues)
	case h.DataPageHeaderV2.Valid:
		f.values -= int64(h.DataPageHeaderV2.V.NumValues)
	}
	if err == nil && f.values < 0 {
		err = errFlags
	}
	return h, err
}

// page reads the booleans of a page, whose checksum the library checks.
func (f *flags) page(h format.PageHeader) ([]bool, error) {
	section := io.NewSectionReader(f.file, f.at, int64(h.CompressedPageSize))
	f.at += int64(h.CompressedPageSize)
	data, err := io.ReadAll(section)
	if err == nil && len(data) < int(h.CompressedPageSize) {
		err = errFlags
	}
	if err != nil {
		return nil, err
	}
	codec := parquet.LookupCompressionCodec(f.chunk.Codec)
	switch {
	case h.DataPageHeader.Valid:
		v1 := h.DataPageHeader.V
		n := int(v1.NumValues)
		if data, err = codec.Decode(nil, data); err == nil && f.optional {
			data, n, err = f.present(data, v1)
		}
		if err != nil {
			return nil, err
		}
		return booleans(data, n, v1.Encoding)
	case h.DataPageHeaderV2.Valid:
		v2 := h.DataPageHeaderV2.V
		levels, n := int64(v2.DefinitionLevelsByteLength)+int64(v2.RepetitionLevelsByteLength), v2.NumValues-v2.NumNulls
		if v2.NumNulls < 0 || n < 0 || levels < 0 || levels > int64(len(data)) {
			return nil, errFlags
		}
		data = data[levels:]
		if len(data) > 0 && (v2.IsCompressed.V || !v2.IsCompressed.Valid) {
			if data, err = codec.Decode(nil, data); err != nil {
				return nil, err
			}
		}
		return booleans(data, int(n), v2.Encoding)
	}
	return nil, nil // it has no values
}

// present returns what follows the levels of a page, and how many of its values are there.
func (f *flags) present(data []byte, h format.DataPageHeader) (_ []byte, n int, err error) {
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
		return nil, nil, errFlags
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
		return nil, errFlags
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
			return nil, errFlags
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
			return nil, errFlags
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
