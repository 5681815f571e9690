package value

import (
	"bytes"
	"errors"
	"math/big"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Bytes of whatever type either do not parse, or parse to a value that has these bytes.
func FuzzParseValue(f *testing.F) {
	types := []Type{
		Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, Bool, Date, IPv4, IPv6, String, Bytes, UUID,
		Time(1), Time(1e9), Decimal(2), Int64.Within(-5, 5), Uint64.Within(1<<62, 1<<63+5),
	}
	for i, t := range types {
		f.Add(uint8(i), make([]byte, t.Width()))
		f.Add(uint8(i), bytes.Repeat([]byte{0xff}, t.Width()))
		f.Add(uint8(i), append([]byte{0x80}, make([]byte, max(0, t.Width()-1))...))
	}
	f.Add(uint8(9), []byte{0xff, 0xf8, 0, 0, 0, 0, 0, 0}) // NaN
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		typ := types[int(i)%len(types)]
		v, err := typ.Parse(b)
		if err != nil {
			return
		}
		normal, err := typ.Normalize(v)
		if err != nil {
			// Outside a restriction, or not UTF-8: written by nobody.
			return
		}
		if again := typ.AppendStored(nil, normal); !bytes.Equal(again, b) {
			t.Fatalf("%s: %x parses to %v, which has %x", typ.ID(), b, v, again)
		}
		if typ.Compare(v, normal) != 0 {
			t.Fatalf("%s: reading changes %v to %v", typ.ID(), v, normal)
		}
	})
}

// A type whose id parses has that id.
func FuzzParseType(f *testing.F) {
	for _, id := range []string{"int/1 bits=8", "string/1", Int8.Within(-1, 1).ID(), Decimal(2).ID(), Decimal(-3).Within(decimalOf(-5), decimalOf(5)).ID(), "decimal/1 scale=+2", "decimal/1 scale=02", "string/1 within=[0,1]", Date.ID(), Bool.ID() + " within=[1,0]", Int8.ID() + " within=[0,1] "} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		typ, err := ParseID(id)
		if err != nil {
			if !errors.Is(err, fault.ErrFormat) && typ != nil {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		if typ.ID() != id || typ.Err() != nil {
			t.Fatalf("%q is %q, %v", id, typ.ID(), typ.Err())
		}
	})
}

func decimalOf(n int64) encode.Decimal { return encode.Decimal{Unscaled: big.NewInt(n)} }
