package tabular

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// A parquetReader reads a file whose columns are flat, as most programs write them.
type parquetReader struct {
	file    io.ReaderAt
	groups  []parquet.RowGroup
	chunks  [][]format.ColumnChunk // of groups, all columns
	rows    parquet.Rows           // of the first of groups that is left
	buf     []parquet.Row
	read    []parquet.Row // those of buf that are left
	fields  []string
	unnamed []int
	convert []func(parquet.Value) any // of the fields; nil for one that is not read
	columns []int                     // of the file, for the fields that are read

	optional []bool   // whether columns have nulls
	names    []string // of columns
	flags    []*pages // of columns in the row group that is read, for booleans that the library does not read
	row      Row
	want     int64 // rows
}

// damaged turns what the library panics with on a damaged file into an error.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is damaged, or no Parquet: %v", p)
	}
}

func openParquet(file *os.File, ignored []string, tap io.Writer) (_ Reader, err error) {
	defer damaged(&err)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(file, head); err == io.EOF {
		return nil, errEmpty
	} else if string(head) != "PAR1" {
		return nil, errors.New("it is not in Parquet, which begins with PAR1; --format says what it is in")
	}
	if tap != nil {
		if _, err := io.Copy(tap, io.NewSectionReader(file, 0, info.Size())); err != nil {
			return nil, err
		}
	}
	const least = 12 // bytes: both marks, and the length of what describes the rows
	end := make([]byte, 8)
	if _, err := file.ReadAt(end, info.Size()-8); err != nil || string(end[4:]) != "PAR1" || info.Size() < least {
		return nil, errors.New("it does not end as Parquet does: it was cut short, so copy it again")
	}
	if int64(binary.LittleEndian.Uint32(end)) > info.Size()-least {
		return nil, errors.New("it is damaged: its end tells of more bytes than it has; copy it again")
	}
	f, err := parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("it is damaged, or no Parquet: %w", err)
	}
	if foot := info.Size() - 8 - int64(binary.LittleEndian.Uint32(end)); joined(file, f.Metadata(), foot) {
		return nil, errors.New("several files in Parquet are joined in it, of which only the last could be read: insert each of them by itself")
	}
	r := &parquetReader{file: file, groups: withRows(f), buf: make([]parquet.Row, 128), want: f.NumRows()}
	if err := r.take(f, ignored); err != nil {
		return nil, err
	}
	for _, g := range f.Metadata().RowGroups {
		if g.NumRows != 0 {
			r.chunks = append(r.chunks, g.Columns)
		}
	}
	return r, nil
}

// joint is where one file in Parquet ends and another begins.
var joint = regexp.MustCompile("PAR1PAR1")

// joined reports whether other files stand before the one that a footer at an offset describes. Its places count from its own beginning, so
// that what they tell of ends long before the footer.
func joined(file io.ReaderAt, of *format.FileMetaData, foot int64) bool {
	end := int64(0)
	for _, g := range of.RowGroups {
		for _, c := range g.Columns {
			begin := c.MetaData.DataPageOffset
			if c.MetaData.DictionaryPageOffset > 0 {
				begin = min(begin, c.MetaData.DictionaryPageOffset)
			}
			end = max(end, begin+c.MetaData.TotalCompressedSize, c.ColumnIndexOffset+int64(c.ColumnIndexLength), c.OffsetIndexOffset+int64(c.OffsetIndexLength))
		}
	}
	return foot > end && joint.MatchReader(bufio.NewReader(io.NewSectionReader(file, end, foot-end)))
}

// take takes the fields of a file. Of those that are ignored it leaves out what no column could hold.
func (r *parquetReader) take(f *parquet.File, ignored []string) (err error) {
	columns, elements := f.Root().Columns(), topElements(f.Metadata().Schema[1:])
	if len(columns) != len(elements) {
		return errors.New("it is damaged: its end names other fields than it has")
	}
	for _, c := range columns {
		r.fields = append(r.fields, c.Name())
	}
	if r.unnamed, err = (heading{ignored: ignored}).check(r.fields); err != nil {
		return err
	}
	for i, c := range columns {
		name := r.fields[i]
		convert, err := converter(elements[i])
		if !c.Leaf() || c.Repeated() {
			convert, err = nil, fmt.Errorf("field %s holds arrays or objects, which no column does: write a file with flat fields, or leave it out with --ignore %s", show.Visible(name), show.Argument(name))
		} else if err = cmp.Or(err, unpacked(f.Metadata().RowGroups, c.Index())); err != nil {
			convert, err = nil, fmt.Errorf("field %s: %w, or leave it out with --ignore %s", show.Visible(name), err, show.Argument(name))
		}
		if err != nil && !slices.Contains(ignored, name) {
			return err
		}
		if err == nil {
			r.columns, r.optional, r.names = append(r.columns, c.Index()), append(r.optional, c.Optional()), append(r.names, name)
		}
		r.convert = append(r.convert, convert)
	}
	if len(r.columns) == 0 {
		return errors.New("it has no field that is read: each is left out with --ignore, or there is none")
	}
	r.row.Cells, r.row.fields = make([]celltext.Cell, len(columns)), r.fields
	return nil
}

// unpacks are the compressions that are read. Of pages in LZ4 the library returns a buffer that it has not written to: it keeps its own
// one where the codec has taken another, of the same length. Whoever adds a compression here tests pages that compress well, and ones that do not.
var unpacks = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd}

// unpacked returns an error if a column has pages in a compression that is not read.
func unpacked(groups []format.RowGroup, column int) error {
	for _, g := range groups {
		if g.NumRows == 0 {
			continue
		}
		if column >= len(g.Columns) {
			return errors.New("it is damaged: a row group has no such field; copy the file again")
		}
		codec := g.Columns[column].MetaData.Codec
		if slices.Contains(unpacks, codec) {
			continue
		}
		name := codec.String()
		if strings.Contains(name, "?") {
			name = fmt.Sprintf("a compression that is not known, number %d", int(codec))
		}
		return fmt.Errorf("it is compressed with %s, which is not read: write the file again with zstd or snappy", name)
	}
	return nil
}

// topElements returns those of the fields, without the ones inside them.
func topElements(elements []format.SchemaElement) (top []*format.SchemaElement) {
	for i := 0; i < len(elements); {
		top = append(top, &elements[i])
		for left := 1; left > 0 && i < len(elements); i++ {
			left += int(elements[i].NumChildren.V) - 1
		}
	}
	return top
}

// A projected is a row group with some of its columns only. Pages of the others are not read.
type projected struct {
	parquet.RowGroup
	columns []int
}

func (p projected) ColumnChunks() (some []parquet.ColumnChunk) {
	all := p.RowGroup.ColumnChunks()
	for _, i := range p.columns {
		some = append(some, all[i])
	}
	return some
}

// withRows returns the row groups that have rows. The library seeks to the pages of the others, which have none.
func withRows(f *parquet.File) []parquet.RowGroup {
	return slices.DeleteFunc(slices.Clone(f.RowGroups()), func(g parquet.RowGroup) bool { return g.NumRows() == 0 })
}

// converter returns what makes a value of a Typed cell of a value of a field.
func converter(e *format.SchemaElement) (func(parquet.Value) any, error) {
	if !e.Type.Valid {
		return nil, errors.New("it has no type")
	}
	kind := parquet.Kind(e.Type.V)
	switch t := e.LogicalType.Value.(type) {
	case *format.DecimalType:
		return decimals(kind, t.Scale)
	case *format.DateType:
		return days, nil
	case *format.TimestampType:
		return instants(t.Unit.Value.Duration(), t.IsAdjustedToUTC), nil
	case *format.IntType:
		return integers(kind, t.IsSigned), nil
	case *format.StringType, *format.EnumType, *format.JsonType:
		return texts, nil
	case *format.UUIDType:
		return func(v parquet.Value) any { return [16]byte(v.ByteArray()) }, nil
	case *format.Float16Type:
		if kind != parquet.FixedLenByteArray || e.TypeLength.V != 2 {
			return nil, fmt.Errorf("it is a number of 16 bits in a form that is not known: %s", kind)
		}
		return func(v parquet.Value) any { return half(binary.LittleEndian.Uint16(v.ByteArray())) }, nil
	case *format.TimeType, *format.VariantType, *format.GeometryType, *format.GeographyType:
		return nil, fmt.Errorf("its type is %s, which no column has: convert it before", t)
	}
	if e.ConvertedType.Valid {
		switch e.ConvertedType.V {
		case deprecated.UTF8, deprecated.Enum, deprecated.Json:
			return texts, nil
		case deprecated.Decimal:
			return decimals(kind, e.Scale.V)
		case deprecated.Date:
			return days, nil
		case deprecated.TimestampMillis:
			return instants(time.Millisecond, true), nil
		case deprecated.TimestampMicros:
			return instants(time.Microsecond, true), nil
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			return integers(kind, false), nil
		case deprecated.TimeMillis, deprecated.TimeMicros, deprecated.Interval:
			return nil, errors.New("it holds times of the day or intervals, which no column does: convert it before")
		}
	}
	switch kind {
	case parquet.Boolean:
		return func(v parquet.Value) any { return v.Boolean() }, nil
	case parquet.Int32, parquet.Int64:
		return integers(kind, true), nil
	case parquet.Float:
		return func(v parquet.Value) any { return v.Float() }, nil
	case parquet.Double:
		return func(v parquet.Value) any { return v.Double() }, nil
	case parquet.Int96: // of older Spark, Hive and Impala: nanoseconds of a day, and its Julian day
		return func(v parquet.Value) any {
			const epoch = 2_440_588
			i := v.Int96()
			return time.Unix((int64(i[2])-epoch)*24*60*60, int64(uint64(i[1])<<32|uint64(i[0]))).UTC()
		}, nil
	}
	return func(v parquet.Value) any { return bytes.Clone(v.ByteArray()) }, nil
}

// half returns a floating point number of 16 bits, each of which float32 holds.
func half(n uint16) float32 {
	sign, exponent, fraction := uint32(n>>15)<<31, uint32(n>>10)&0x1f, uint32(n)&0x3ff
	switch exponent {
	case 0: // 0, and what is too small for the bit that others have before their fraction
		tiny := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(tiny) | sign)
	case 0x1f: // infinities, and NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	const bias = 127 - 15
	return math.Float32frombits(sign | (exponent+bias)<<23 | fraction<<13)
}

func texts(v parquet.Value) any { return string(v.ByteArray()) }

func days(v parquet.Value) any {
	t := time.Unix(int64(v.Int32())*24*60*60, 0).UTC()
	return encode.CivilDate{Year: t.Year(), Month: t.Month(), Day: t.Day()}
}

func integers(kind parquet.Kind, signed bool) func(parquet.Value) any {
	switch {
	case kind == parquet.Int32 && signed:
		return func(v parquet.Value) any { return int64(v.Int32()) }
	case kind == parquet.Int32:
		return func(v parquet.Value) any { return uint64(v.Uint32()) }
	case signed:
		return func(v parquet.Value) any { return v.Int64() }
	}
	return func(v parquet.Value) any { return v.Uint64() }
}

func instants(unit time.Duration, utc bool) func(parquet.Value) any {
	return func(v parquet.Value) any {
		n, per := v.Int64(), int64(time.Second/unit)
		seconds, rest := n/per, n%per
		t := time.Unix(seconds, rest*int64(unit)).UTC()
		if utc {
			return t
		}
		return celltext.Local{Time: t}
	}
}

func decimals(kind parquet.Kind, scale int32) (func(parquet.Value) any, error) {
	switch kind {
	case parquet.Int32:
		return func(v parquet.Value) any {
			return encode.Decimal{Unscaled: big.NewInt(int64(v.Int32())), Scale: scale}
		}, nil
	case parquet.Int64:
		return func(v parquet.Value) any { return encode.Decimal{Unscaled: big.NewInt(v.Int64()), Scale: scale} }, nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(v parquet.Value) any {
			b := v.ByteArray()
			n := new(big.Int).SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
			return encode.Decimal{Unscaled: n, Scale: scale}
		}, nil
	}
	return nil, fmt.Errorf("it is a decimal in a form that is not known: %s", kind)
}

func (r *parquetReader) Fields() []string { return r.fields }

func (r *parquetReader) Unnamed() []int { return r.unnamed }

func (r *parquetReader) Next() (_ *Row, err error) {
	defer damaged(&err)
	for len(r.read) == 0 {
		if len(r.groups) == 0 {
			if got := int64(r.row.Number); got != r.want {
				return nil, fmt.Errorf("it is damaged: it has %d rows, and its end says %d", got, r.want)
			}
			return nil, io.EOF
		}
		if r.rows == nil {
			if err := r.begin(); err != nil {
				return nil, err
			}
		}
		n, err := r.rows.ReadRows(r.buf)
		r.read = r.buf[:n]
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("after row %d: it is damaged: %w", r.row.Number, err)
		}
		if err == io.EOF {
			err = r.rows.Close()
			r.rows, r.groups, r.chunks = nil, r.groups[1:], r.chunks[1:]
			if err != nil {
				return nil, err
			}
		}
	}
	values := r.read[0]
	r.read = r.read[1:]
	r.row.Number++
	if len(values) != len(r.columns) {
		return nil, fmt.Errorf("row %d has %d values for %d fields: it is damaged", r.row.Number, len(values), len(r.columns))
	}
	for i, convert := range r.convert {
		r.row.Cells[i] = celltext.Cell{}
		if convert == nil {
			r.row.Cells[i].Value = unread{}
			continue
		}
		v, column := values[0], r.columns[len(r.columns)-len(values)]
		values = values[1:]
		if v.Column() != column {
			return nil, fmt.Errorf("row %d has no value of a field: it is damaged", r.row.Number)
		}
		if v.IsNull() {
			continue
		}
		value := convert(v)
		if flags := r.flags[len(r.columns)-len(values)-1]; flags != nil {
			if value, err = flags.next(); err != nil {
				return nil, fmt.Errorf("row %d: it is damaged: %w", r.row.Number, err)
			}
		}
		r.row.Cells[i] = celltext.Cell{Kind: celltext.Typed, Value: value}
	}
	return &r.row, nil
}

// begin begins to read the first of the row groups that are left.
func (r *parquetReader) begin() error {
	all := r.groups[0].ColumnChunks()
	r.flags = make([]*pages, len(r.columns))
	for i, column := range r.columns {
		var found bool
		var err error
		pages := newPages(r.file, &r.chunks[0][column].MetaData, r.optional[i])
		switch all[column].Type().Kind() {
		case parquet.Boolean:
			if found, err = pages.inRuns(); found {
				r.flags[i] = pages
			}
		case parquet.Int32:
			if found, err = pages.tooWide(); found {
				return fmt.Errorf("field %s has differences of more than 32 bits in the encoding DELTA_BINARY_PACKED, which Parquet does not have: write the file again without that encoding, as in version 1 of Parquet",
					show.Visible(r.names[i]))
			}
		}
		if err != nil {
			return fmt.Errorf("after row %d: it is damaged: %w", r.row.Number, err)
		}
	}
	r.rows = parquet.NewRowGroupRowReader(projected{r.groups[0], r.columns})
	return nil
}

// unread is the value of a field that is ignored, and that no column could hold.
type unread struct{}

// rawOf returns a row of typed values as JSON, without those that were not read.
func rawOf(fields []string, cells []celltext.Cell) []byte {
	var b []byte
	for i, name := range fields {
		v := cells[i].Value
		if v == (unread{}) {
			continue
		}
		b = append(b, "{,"[min(len(b), 1)])
		b = append(celltext.AppendQuoted(b, name), ':')
		switch x := v.(type) {
		case nil:
			b = append(b, "null"...)
		case encode.CivilDate:
			b = fmt.Appendf(b, `"%04d-%02d-%02d"`, x.Year, x.Month, x.Day)
		case time.Time:
			b = celltext.AppendQuoted(b, x.Format(time.RFC3339Nano))
		case celltext.Local:
			b = celltext.AppendQuoted(b, x.Time.Format("2006-01-02T15:04:05.999999999"))
		case []byte:
			b = fmt.Appendf(b, `"%x"`, x)
		case [16]byte:
			b = fmt.Appendf(b, `"%x"`, x)
		case encode.Decimal:
			b = celltext.AppendQuoted(b, x.String())
		case string:
			b = celltext.AppendQuoted(b, strings.ToValidUTF8(x, "\ufffd"))
		default:
			b = celltext.AppendQuoted(b, fmt.Sprint(x))
		}
	}
	return append(b, '}')
}

func (r *parquetReader) Close() error {
	if r.rows == nil {
		return nil
	}
	return r.rows.Close()
}
