package celltext

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// AppendJSON appends a value as JSON has it, nil as null. Integers and finite floating point numbers are numbers, and
// booleans are themselves; all others are texts, decimals too, since most readers would round a number.
func (c *Column) AppendJSON(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int8:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int16:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint8:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint16:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case float32:
		if finite(float64(v)) {
			return show.AppendFloat(dst, float64(v), 32), nil
		}
	case float64:
		if finite(v) {
			return show.AppendFloat(dst, v, 64), nil
		}
	}
	text, err := c.Text(v)
	if err != nil {
		return dst, err
	}
	return AppendQuoted(dst, text), nil
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// AppendQuoted appends a text as JSON has it.
func AppendQuoted(dst []byte, text string) []byte {
	plain := true
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\'
	}
	if plain {
		return append(append(append(dst, '"'), text...), '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string has no error
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})...)
}
