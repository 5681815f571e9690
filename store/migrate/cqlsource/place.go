package cqlsource

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// place returns the condition of CQL that finds a row by its key, for those who may see it.
func (l *layout) place(values []raw) string {
	parts := make([]string, len(l.key))
	for i := range l.key {
		parts[i] = quoted(l.key[i].name) + " = " + l.key[i].literal(values[i].data)
	}
	return strings.Join(parts, " AND ")
}

// literal returns what the server takes for the bytes of a value, and for no others.
func (c *column) literal(b []byte) string {
	if c.cql == "varint" && len(b) > 0 && bytes.Equal(appendTwosComplement(nil, twosComplement(b)), b) {
		return twosComplement(b).String() // also of more than 64 bits
	}
	v, err := c.kind.value(b)
	if again, ok := c.kind.encode(v); err == nil && ok && bytes.Equal(again, b) {
		if text := c.written(v); text != "" {
			return text
		}
	}
	return fmt.Sprintf("blobas%s(0x%x)", c.cql, b)
}

// written returns a value as a literal, or "" where only its bytes are one.
func (c *column) written(v any) string {
	switch v := v.(type) {
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case float32:
		return floating(float64(v), 32, math.Float32bits(v) == 0x7fc00000)
	case float64:
		return floating(v, 64, math.Float64bits(v) == 0x7ff8<<48)
	case time.Time:
		return fmt.Sprint(v.UnixMilli())
	case encode.CivilDate:
		days, _ := encode.Date().Encode(v)
		return fmt.Sprint(days + 1<<31)
	case encode.Decimal:
		return fmt.Sprintf("%dE%d", v.Unscaled, -int64(v.Scale))
	case [16]byte:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case []byte:
		if c.cql == "blob" {
			return fmt.Sprintf("0x%x", v)
		}
		if a, ok := netip.AddrFromSlice(v); ok && c.cql == "inet" && !a.Is4In6() {
			return "'" + a.String() + "'"
		}
		return ""
	}
	return fmt.Sprint(v)
}

// floating writes a floating point number. Of NaN one only is the server's own.
func floating(f float64, bits int, own bool) string {
	switch {
	case f == 0 && math.Signbit(f):
		return "-0.0"
	case f != f && own:
		return "NaN"
	case f != f:
		return ""
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
