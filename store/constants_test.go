package store_test

import (
	"database/sql"
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
		"decimal": store.Decimal(2), "fine": store.Decimal(17), "hundreds": store.Decimal(-2), "string": store.String, "time": store.Time(time.Second), "within": store.Float64.Within(0, 1),
	}
	schema := store.Schema{Name: "constants", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}}
	for name, typ := range types {
		schema.Columns = append(schema.Columns, store.RandomisedColumn(name, typ))
	}
	tbl := create(t, open(t, drivertest.NewMemory()), schema)
	dec := func(unscaled int64, scale int32) encode.Decimal {
		return encode.Decimal{Unscaled: big.NewInt(unscaled), Scale: scale}
	}
	tenth := 0.1 // a variable, so that the compiler does not add exactly
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
		{"decimal", 20, dec(2000, 2)}, {"decimal", math.MaxInt, nil},
		{"decimal", 12.5, dec(1250, 2)}, {"decimal", 0.25, dec(25, 2)}, {"decimal", 0.1, dec(10, 2)}, {"decimal", -19.99, dec(-1999, 2)}, {"decimal", math.Copysign(0, -1), dec(0, 2)},
		{"decimal", 1e15, dec(1e17, 2)}, {"decimal", 1e300, nil}, {"decimal", 1e-300, nil}, {"decimal", 1234567890123.45, dec(123456789012345, 2)},
		{"decimal", 12345678901234.56, nil}, {"decimal", 0.125, nil}, {"decimal", math.NaN(), nil}, {"decimal", math.Inf(1), nil},
		{"fine", 0.1, dec(1e16, 17)}, {"fine", tenth + 2*tenth, nil}, {"fine", 1 - 9*tenth, nil}, {"fine", 0.123456789012345, dec(12345678901234500, 17)}, {"fine", 0.1234567890123456, nil},
		{"hundreds", 1200.0, dec(12, -2)}, {"hundreds", 1250.0, nil}, {"hundreds", 12.5, nil},
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
	for column, given := range map[string]any{"string": 1, "time": 1, "decimal": float32(0.5), "int8": int16(1), "float64": float32(1)} {
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

// In predicates a constant may be finer than the column.
func TestDecimalConstantsInPredicates(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "prices", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("price", store.Decimal(2), store.MOPE)},
	})
	for i, price := range []any{12.5, 0.1, 19.99, -3} {
		require.NoError(t, tbl.Put(background, store.Row{"id": i, "price": price}))
	}
	price := store.Field[any]("price")
	tenth := 0.1
	for _, c := range []struct {
		where store.Predicate
		rows  int // -1 is ErrDomain
	}{
		{price.Equal(12.5), 1}, {price.Equal(12.50), 1}, {price.In(0.1, 19.99, 5.0), 2}, {price.Between(0.1, 12.5), 2}, {price.Greater(12.499), 2},
		{price.Less(0.101), 2}, {price.Equal(12.501), 0}, {price.Equal(tenth + 2*tenth), -1}, {price.AtMost(math.Inf(1)), -1},
	} {
		n, err := tbl.Count(background, c.where)
		if c.rows < 0 {
			require.ErrorIs(t, err, ope.ErrDomain)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.rows, n, c.where)
	}
	_, err := tbl.Count(background, store.Field[float64]("price").Equal(12.5))
	require.ErrorIs(t, err, store.ErrColumn)
}

// A row takes pointers and the types of database/sql for null, as a field of a struct does.
func TestRowsTakePointersAndNulls(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "given", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Conditional: true,
		Columns: []store.Column{
			store.OrderedColumn("celsius", store.Float64, store.Boldyreva), store.RandomisedColumn("note", store.String),
			store.RandomisedColumn("at", store.Time(time.Second)), store.RandomisedColumn("price", store.Decimal(2)), store.RandomisedColumn("bytes", store.Bytes),
		},
	})
	at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		column string
		given  any
		want   any
	}{
		{"celsius", (*float64)(nil), nil}, {"celsius", pointerTo(1.5), 1.5}, {"celsius", pointerTo(celsius(1.5)), 1.5}, {"celsius", pointerTo(2), 2.0},
		{"celsius", sql.NullFloat64{}, nil}, {"celsius", sql.NullFloat64{Float64: 2, Valid: true}, 2.0}, {"celsius", sql.NullFloat64{Float64: 2}, nil},
		{"celsius", pointerTo[any](nil), nil}, {"note", (*label)(nil), nil}, {"note", pointerTo(label("a")), "a"}, {"note", sql.NullString{String: "b", Valid: true}, "b"},
		{"note", sql.Null[label]{V: "c", Valid: true}, "c"}, {"note", sql.Null[label]{V: "c"}, nil}, {"at", sql.NullTime{Time: at, Valid: true}, at}, {"at", &at, at},
		{"price", (*big.Int)(nil), nil}, {"price", big.NewInt(5), encode.Decimal{Unscaled: big.NewInt(500), Scale: 2}},
		{"bytes", (*[]byte)(nil), nil}, {"bytes", pointerTo([]byte(nil)), []byte{}},
	} {
		key := store.Row{"id": pointerTo(int64(1))}
		want := store.Row{"id": int64(1), c.column: c.want}
		if c.want == nil {
			delete(want, c.column)
		}
		require.NoError(t, tbl.Put(background, store.Row{"id": pointerTo(1), c.column: c.given}), "%s %#v", c.column, c.given)
		row, err := tbl.Get(background, key)
		require.NoError(t, err)
		require.Equal(t, want, row, "%s %#v", c.column, c.given)
		require.NoError(t, tbl.UpdateIf(background, store.Row{"id": sql.NullInt64{Int64: 1, Valid: true}, c.column: nil}, store.Row{c.column: c.given}))
		require.NoError(t, tbl.Update(background, store.Row{"id": 1, c.column: c.given}))
		row, err = tbl.Get(background, key)
		require.NoError(t, err)
		require.Equal(t, want, row, "%s %#v", c.column, c.given)
	}
	require.ErrorIs(t, tbl.Put(background, store.Row{"id": 1, "note": pointerTo(1)}), store.ErrColumn)
	require.ErrorIs(t, tbl.Put(background, store.Row{"id": 1, "note": pointerTo(pointerTo("a"))}), store.ErrColumn)
	require.ErrorIs(t, tbl.Put(background, store.Row{"id": (*int64)(nil)}), store.ErrColumn)
	require.ErrorIs(t, tbl.Delete(background, store.Row{"id": pointerTo(uint8(1))}), store.ErrColumn)
}

// Prefixes of texts are searched for by any type that is made of string or []byte.
func TestHasPrefixOfNamedTypes(t *testing.T) {
	tbl := create(t, open(t, drivertest.NewMemory()), store.Schema{
		Name: "names", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("name", store.String, store.Boldyreva), store.RandomisedColumn("bytes", store.Bytes)},
	})
	for i, name := range []label{"pump-7", "pump-8", "fan-1", "pump"} {
		require.NoError(t, tbl.Put(background, store.Row{"id": i, "name": name, "bytes": document(name)}))
	}
	for prefix, rows := range map[string]int{"pump-": 2, "pump": 3, "": 4, "x": 0} {
		for _, where := range []store.Predicate{store.HasPrefix[label]("name", label(prefix)), store.HasPrefix[document]("bytes", document(prefix)), store.HasPrefix[string]("name", prefix)} {
			n, err := tbl.Count(background, where)
			require.NoError(t, err)
			require.Equal(t, rows, n, "%q", prefix)
		}
	}
}
