package store_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Untyped constants are taken where they are exact, in rows and in predicates.
func TestUntypedConstants(t *testing.T) {
	types := map[string]store.Type{
		"int8": store.Int8, "int64": store.Int64, "uint8": store.Uint8, "uint64": store.Uint64, "float32": store.Float32, "float64": store.Float64,
		"decimal": store.Decimal(2), "string": store.String, "time": store.Time(time.Second), "within": store.Float64.Within(0, 1),
	}
	schema := store.Schema{Name: "constants", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}}
	for name, typ := range types {
		schema.Columns = append(schema.Columns, store.RandomisedColumn(name, typ))
	}
	tbl := create(t, open(t, drivertest.NewMemory()), schema)
	for _, c := range []struct {
		column string
		given  any
		want   any // nil is ErrDomain
	}{
		{"int8", 127, int8(127)}, {"int8", 128, nil}, {"int8", 20.0, int8(20)}, {"int8", 20.5, nil}, {"int8", -129.0, nil}, {"int8", 1e3, nil},
		{"int64", math.MinInt, int64(math.MinInt64)}, {"int64", 1e15, int64(1e15)}, {"int64", 1e19, nil}, {"int64", math.Inf(1), nil}, {"int64", math.NaN(), nil},
		{"uint8", 255, uint8(255)}, {"uint8", -1, nil}, {"uint8", -1.0, nil}, {"uint8", 255.0, uint8(255)}, {"uint8", 256.0, nil},
		{"uint64", math.MaxInt, uint64(math.MaxInt64)}, {"uint64", -1, nil}, {"uint64", -1.0, nil},
		{"float32", 20, float32(20)}, {"float32", 1 << 24, float32(1 << 24)}, {"float32", 1<<24 + 1, nil}, {"float32", 0.5, float32(0.5)}, {"float32", 0.1, nil},
		{"float32", 1e300, nil}, {"float32", math.Inf(-1), float32(math.Inf(-1))}, {"float32", math.NaN(), nil},
		{"float64", 20, 20.0}, {"float64", math.MaxInt, nil}, {"float64", math.MinInt, float64(math.MinInt64)}, {"float64", 1<<53 + 1, nil}, {"float64", -(1 << 53), -float64(1 << 53)},
		{"decimal", 20, encode.Decimal{Unscaled: big.NewInt(2000), Scale: 2}}, {"decimal", math.MaxInt, nil},
		{"within", 1, 1.0}, {"within", 2, nil},
	} {
		err := tbl.Put(background, store.Row{"id": 1, c.column: c.given})
		if c.want == nil {
			require.ErrorIs(t, err, ope.ErrDomain, "%s %v", c.column, c.given)
			continue
		}
		require.NoError(t, err, "%s %v", c.column, c.given)
		row, err := tbl.Get(background, store.Row{"id": 1.0})
		require.NoError(t, err)
		require.Equal(t, c.want, row[c.column])
		require.Len(t, collect(t, tbl, store.Query{Where: store.Field[any](c.column).Equal(c.given)}), 1)
	}
	for column, given := range map[string]any{"string": 1, "time": 1, "decimal": 0.5, "int8": int16(1), "float64": float32(1)} {
		require.ErrorIs(t, tbl.Put(background, store.Row{"id": 1, column: given}), store.ErrColumn)
	}
	celsius := store.Float64.Within(0, 1).Field("within")
	require.NoError(t, tbl.Put(background, store.Row{"id": 1, "within": 0.5}))
	rows := collect(t, tbl, store.Query{Where: celsius.AtLeast(0.25)})
	require.Len(t, rows, 1)
	v, err := celsius.Of(rows[0])
	require.NoError(t, err)
	require.Equal(t, 0.5, v)
}
