package tabular

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

const (
	// A row group is held in memory until it is complete.
	groupRows  = 128 << 10
	groupBytes = 32 << 20

	writtenTogether = 64 // rows
)

// ordered is a group whose fields are in the order of the columns.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (g ordered) Fields() []parquet.Field { return g.fields }

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string                           { return f.name }
func (f field) Value(base reflect.Value) reflect.Value { return base.MapIndex(reflect.ValueOf(f.name)) }

type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	columns []*celltext.Column
	values  []func(any) (parquet.Value, error)
	levels  []int // of a value that is there
	rows    []parquet.Row
	size    int // of the row group so far
	count   int
}

func newParquetWriter(w io.Writer, columns []*celltext.Column) (Writer, error) {
	p := &parquetWriter{columns: columns}
	group := ordered{Group: parquet.Group{}}
	for _, c := range columns {
		node, value := parquetColumn(c)
		level := 1
		if c.Key {
			level = 0
		} else {
			node = parquet.Optional(node)
		}
		node = parquet.Compressed(node, &parquet.Snappy)
		group.Group[c.Name] = node
		group.fields = append(group.fields, field{node, c.Name})
		p.values, p.levels = append(p.values, value), append(p.levels, level)
	}
	schema := parquet.NewSchema("table", group)
	p.w = parquet.NewGenericWriter[any](w, schema, parquet.CreatedBy("rangecrypt", "", ""), parquet.PageBufferSize(256<<10))
	return p, nil
}

// decimalDigits is how many digits a decimal of 16 bytes has; a column has up to 19, before or after its point.
const decimalDigits = 38

// parquetColumn returns how a column is stored, and what makes its values.
func parquetColumn(c *celltext.Column) (parquet.Node, func(any) (parquet.Value, error)) {
	plain := func(v any) (parquet.Value, error) { return parquet.ValueOf(v), nil }
	text := func(v any) (parquet.Value, error) {
		text, err := c.Text(v)
		return parquet.ValueOf(text), err
	}
	switch c.Type {
	case "int8", "int16", "int32", "int64":
		return parquet.Int(intBits[c.Type]), func(v any) (parquet.Value, error) {
			n := reflect.ValueOf(v).Int()
			if c.Type == "int64" {
				return parquet.Int64Value(n), nil
			}
			return parquet.Int32Value(int32(n)), nil
		}
	case "uint8", "uint16", "uint32", "uint64":
		return parquet.Uint(intBits[c.Type[1:]]), func(v any) (parquet.Value, error) {
			n := reflect.ValueOf(v).Uint()
			if c.Type == "uint64" {
				return parquet.Int64Value(int64(n)), nil
			}
			return parquet.Int32Value(int32(uint32(n))), nil
		}
	case "float32":
		return parquet.Leaf(parquet.FloatType), plain
	case "float64":
		return parquet.Leaf(parquet.DoubleType), plain
	case "bool":
		return parquet.Leaf(parquet.BooleanType), plain
	case "bytes":
		return parquet.Leaf(parquet.ByteArrayType), func(v any) (parquet.Value, error) { return parquet.ByteArrayValue(v.([]byte)), nil }
	case "uuid":
		return parquet.UUID(), func(v any) (parquet.Value, error) {
			id := v.([16]byte)
			return parquet.FixedLenByteArrayValue(id[:]), nil
		}
	case "date":
		return parquet.Date(), func(v any) (parquet.Value, error) {
			d := v.(encode.CivilDate)
			return parquet.Int32Value(int32(time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60))), nil
		}
	case "string":
		return parquet.String(), plain
	case "ipv4", "ipv6":
		return parquet.String(), func(v any) (parquet.Value, error) { return parquet.ValueOf(v.(netip.Addr).String()), nil }
	}
	if c.Unit > 0 {
		return timestampColumn(c.Unit)
	}
	if c.Scale > decimalDigits || c.Scale < -(decimalDigits-19) {
		return parquet.String(), text
	}
	scale := max(c.Scale, 0)
	return parquet.Decimal(int(scale), decimalDigits, parquet.FixedLenByteArrayType(16)), func(v any) (parquet.Value, error) {
		d := v.(encode.Decimal)
		n := new(big.Int)
		if d.Unscaled != nil {
			n.Set(d.Unscaled)
		}
		if up := int64(scale) - int64(d.Scale); up > 0 {
			n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(up), nil))
		}
		if n.Sign() < 0 {
			n.Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return parquet.FixedLenByteArrayValue(n.FillBytes(make([]byte, 16))), nil
	}
}

var intBits = map[string]int{"int8": 8, "int16": 16, "int32": 32, "int64": 64}

// timestampColumn stores seconds as milliseconds, since Parquet has no coarser unit.
func timestampColumn(unit time.Duration) (parquet.Node, func(any) (parquet.Value, error)) {
	name := map[time.Duration]parquet.TimeUnit{time.Nanosecond: parquet.Nanosecond, time.Microsecond: parquet.Microsecond}[unit]
	if name == nil {
		name, unit = parquet.Millisecond, time.Millisecond
	}
	per := int64(time.Second / unit)
	return parquet.Timestamp(name), func(v any) (parquet.Value, error) {
		t := v.(time.Time)
		seconds, rest := t.Unix(), int64(t.Nanosecond())/int64(unit)
		if seconds < 0 && rest > 0 { // the product of the least time does not fit, and its sum does
			seconds, rest = seconds+1, rest-per
		}
		if seconds > math.MaxInt64/per || seconds < math.MinInt64/per {
			return parquet.Value{}, fmt.Errorf("a time that is too far away for Parquet; CSV and JSON lines hold it")
		}
		product := seconds * per
		if sum := product + rest; (sum > product) == (rest > 0) || rest == 0 {
			return parquet.Int64Value(sum), nil
		}
		return parquet.Value{}, fmt.Errorf("a time that is too far away for Parquet; CSV and JSON lines hold it")
	}
}

func (p *parquetWriter) Write(values []any) error {
	row := make(parquet.Row, len(values))
	for i, v := range values {
		if v == nil {
			row[i] = parquet.NullValue().Level(0, 0, i)
			continue
		}
		value, err := p.values[i](v)
		if err != nil {
			return fmt.Errorf("column %q: %w", p.columns[i].Name, err)
		}
		row[i] = value.Level(0, p.levels[i], i)
		p.size += 8
		if value.Kind() == parquet.ByteArray {
			p.size += len(value.ByteArray())
		}
	}
	p.rows = append(p.rows, row)
	p.count++
	if len(p.rows) == writtenTogether || p.size >= groupBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if p.count == groupRows || p.size >= groupBytes {
		p.count, p.size = 0, 0
		return p.w.Flush()
	}
	return nil
}

func (p *parquetWriter) flush() error {
	_, err := p.w.WriteRows(p.rows)
	clear(p.rows)
	p.rows = p.rows[:0]
	return err
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}
