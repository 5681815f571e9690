package condition

import (
	"fmt"
	"math"
	"net/netip"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/where"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A point is the place of a constant among the values of a type.
type point[T any] struct {
	below, above *T   // the greatest value at or below the constant, and the least at or above; nil for none
	exact        bool // they are the constant
}

func exactly[T any](v T) point[T] { return point[T]{&v, &v, true} }

// A reader returns the point of a constant. Its error says what the type takes.
type reader[T any] func(where.Value) (point[T], error)

// compare returns the predicate of a condition that compares a column with constants.
func (b binder) compare(column inspect.Field, base string, n *where.Node) (store.Predicate, error) {
	switch base {
	case "int8":
		return compare(b, column, base, n, integer[int8](math.MinInt8, math.MaxInt8))
	case "int16":
		return compare(b, column, base, n, integer[int16](math.MinInt16, math.MaxInt16))
	case "int32":
		return compare(b, column, base, n, integer[int32](math.MinInt32, math.MaxInt32))
	case "int64":
		return compare(b, column, base, n, integer[int64](math.MinInt64, math.MaxInt64))
	case "uint8":
		return compare(b, column, base, n, integer[uint8](0, math.MaxUint8))
	case "uint16":
		return compare(b, column, base, n, integer[uint16](0, math.MaxUint16))
	case "uint32":
		return compare(b, column, base, n, integer[uint32](0, math.MaxUint32))
	case "uint64":
		return compare(b, column, base, n, integer[uint64](0, math.MaxUint64))
	case "float32":
		return compare(b, column, base, n, float[float32](32, math.MaxFloat32, func(v float32, up bool) float32 {
			return math.Nextafter32(v, float32(direction(up)))
		}))
	case "float64":
		return compare(b, column, base, n, float[float64](64, math.MaxFloat64, func(v float64, up bool) float64 {
			return math.Nextafter(v, direction(up))
		}))
	case "bool":
		return compare(b, column, base, n, readBool)
	case "date":
		return compare(b, column, base, n, known[encode.CivilDate](b.format, base, "a date, such as 2024-02-29"))
	case "ipv4":
		return compare(b, column, base, n, known[netip.Addr](b.format, base, "an IPv4 address in quotation marks, such as '192.0.2.1'"))
	case "ipv6":
		return compare(b, column, base, n, known[netip.Addr](b.format, base, "an IPv6 address in quotation marks, such as '2001:db8::1'"))
	case "uuid":
		return compare(b, column, base, n, known[[16]byte](b.format, base, "a UUID in quotation marks, such as '6ba7b810-9dad-11d1-80b4-00c04fd430c8'"))
	case "string":
		if n.Op == where.Prefix {
			return store.HasPrefix(store.Field[string](column.Name), n.Values[0].Text), nil
		}
		return compare(b, column, base, n, readString)
	case "bytes":
		return compare(b, column, base, n, readBytes)
	}
	if unit, ok := strings.CutPrefix(base, "timestamp/"); ok {
		return compare(b, column, base, n, instant(b.format, units[unit]))
	}
	if scale, ok := strings.CutPrefix(base, "decimal("); ok {
		return compare(b, column, base, n, decimal(scale))
	}
	return store.Predicate{}, where.Errorf(b.text, n.At, "column %s has type %s, which this program does not know", show.Visible(column.Name), base)
}

func compare[T any](b binder, column inspect.Field, base string, n *where.Node, read reader[T]) (store.Predicate, error) {
	refused := func(at int, format string, args ...any) (store.Predicate, error) {
		return store.Predicate{}, where.Errorf(b.text, at, "column %s has type %s: %s", show.Visible(column.Name), column.Type, fmt.Sprintf(format, args...))
	}
	switch {
	case n.Op == where.Prefix:
		return refused(n.Values[0].At, "like is for columns of type string")
	case base == "uuid" && n.Op != where.Equal && n.Op != where.In:
		return refused(n.At, "its values have no order; compare them with =, != or in")
	}
	var points []point[T]
	for _, v := range n.Values {
		if b.format.DecimalComma() && v.Form != where.Hex && numeric(base) && !strings.Contains(v.Text, ".") {
			v.Text = strings.Replace(v.Text, ",", ".", 1)
		}
		p, err := read(v)
		if err != nil {
			return refused(v.At, "%v", err)
		}
		points = append(points, p)
	}
	return stated(store.Field[T](column.Name), n.Op, points), nil
}

// numeric reports whether the values of a type are numbers.
func numeric(base string) bool {
	return strings.Contains(base, "int") || strings.HasPrefix(base, "float") || strings.HasPrefix(base, "decimal")
}

// stated returns what an operator states of a field. Where no value can satisfy it, that is a list without values: of
// a null it is as unknown as any other comparison.
func stated[T any](f store.Field[T], op where.Op, points []point[T]) store.Predicate {
	p := points[0]
	switch {
	case op == where.Less && p.exact:
		return f.Less(*p.below)
	case op == where.Greater && p.exact:
		return f.Greater(*p.above)
	case (op == where.Less || op == where.AtMost) && p.below != nil:
		return f.AtMost(*p.below)
	case (op == where.Greater || op == where.AtLeast) && p.above != nil:
		return f.AtLeast(*p.above)
	case op == where.Between && p.above != nil && points[1].below != nil:
		return f.Between(*p.above, *points[1].below)
	}
	var values []T
	for _, p := range points {
		if p.exact && (op == where.Equal || op == where.In) {
			values = append(values, *p.below)
		}
	}
	return f.In(values...)
}

func direction(up bool) float64 {
	if up {
		return math.Inf(1)
	}
	return math.Inf(-1)
}
