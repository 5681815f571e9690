package cell_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var background = context.Background()

func openStore(t testing.TB, db driver.DB, key ope.Key) *store.Store {
	t.Helper()
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	return st
}

func newStore(t testing.TB) *store.Store {
	t.Helper()
	return openStore(t, drivertest.NewMemory(), ope.GenerateKey())
}

func open[T any](t testing.TB, st *store.Store, table string, field store.Field[T]) *cell.Field[T] {
	t.Helper()
	f, err := cell.Open(background, st, table, field)
	require.NoError(t, err)
	return f
}

// registered returns a new field of a table of its own.
func registered[T any](t testing.TB, st *store.Store, typ store.TypeOf[T], column store.Column) *cell.Field[T] {
	t.Helper()
	name := column.Describe().Name
	require.NoError(t, cell.Register(background, st, "table of "+name, column))
	return open(t, st, "table of "+name, typ.Field(name))
}

// A kind is what a column of a type is to do, for each of its encryptions.
type kind struct {
	name string
	law  func(t *testing.T)
}

// kindOf returns the laws of a type, whose values have an order if compare is given. Two values are in order by what is
// found of them unless they are equal there: then only the client tells them apart.
func kindOf[T any](name string, typ store.TypeOf[T], gen *rapid.Generator[T], compare func(a, b T) int) kind {
	columns := []store.Column{store.DeterministicColumn("d", typ), store.RandomisedColumn("r", typ)}
	if compare != nil {
		columns = append(columns, store.OrderedColumn("boldyreva", typ, store.Boldyreva))
		if !strings.Contains(typ.String(), "(16)") {
			columns = append(columns, store.OrderedColumn("mope", typ, store.MOPE), store.OrderedColumn("wozniak", typ, store.Wozniak))
		}
	}
	return kind{name, func(t *testing.T) {
		st := newStore(t)
		require.NoError(t, cell.Register(background, st, "t", columns...))
		for _, c := range columns {
			d := c.Describe()
			f := open(t, st, "t", typ.Field(d.Name))
			rapid.Check(t, func(t *rapid.T) {
				row := cell.Row(rapid.Int().Draw(t, "id"), rapid.String().Draw(t, "text"))
				v, w := gen.Draw(t, "v"), gen.Draw(t, "w")
				sealed, err := f.Seal(row, v)
				require.NoError(t, err)
				opened, err := f.Open(row, sealed)
				require.NoError(t, err)
				require.Equal(t, v, opened)
				alone, err := f.Open(row, cell.Cell{Sealed: sealed.Sealed})
				require.NoError(t, err)
				require.Equal(t, v, alone)

				other, err := f.Seal(row, w)
				require.NoError(t, err)
				switch d.Encryption {
				case "randomised":
					require.Nil(t, sealed.Search)
					_, err := f.Equal(v)
					require.ErrorIs(t, err, store.ErrColumn)
					require.ErrorContains(t, err, "deterministic or ordered")
					return
				case "deterministic":
					equal, err := f.Equal(v)
					require.NoError(t, err)
					require.True(t, equal.Has(v) && found(equal, sealed))
					require.Equal(t, sealed.Search, equal.Intervals[0].Start, "what equals Start is found")
					require.Equal(t, equal.Has(w), found(equal, other))
					_, err = f.AtLeast(v)
					require.ErrorIs(t, err, store.ErrColumn)
					return
				}
				if d.Scheme != "mope" && !bytes.Equal(sealed.Search, other.Search) {
					require.Equal(t, compare(v, w), bytes.Compare(sealed.Search, other.Search))
				}
				lo, hi := gen.Draw(t, "lo"), gen.Draw(t, "hi")
				for _, r := range []struct {
					of   func() (cell.Range[T], error)
					want func(T) bool
				}{
					{func() (cell.Range[T], error) { return f.Between(lo, hi) }, func(v T) bool { return compare(lo, v) <= 0 && compare(v, hi) <= 0 }},
					{func() (cell.Range[T], error) { return f.AtLeast(lo) }, func(v T) bool { return compare(lo, v) <= 0 }},
					{func() (cell.Range[T], error) { return f.AtMost(hi) }, func(v T) bool { return compare(v, hi) <= 0 }},
					{func() (cell.Range[T], error) { return f.Equal(v) }, func(x T) bool { return compare(v, x) == 0 }},
				} {
					in, err := r.of()
					require.NoError(t, err)
					for x, c := range map[*T]cell.Cell{&v: sealed, &w: other} {
						require.Equal(t, r.want(*x), in.Has(*x))
						require.True(t, !in.Has(*x) || found(in, c), "a row of the range is not found")
						if exact(typ) {
							require.Equal(t, in.Has(*x), found(in, c))
						}
					}
				}
			})
		}
	}}
}

// exact reports whether values of the type have ciphertexts of their own.
func exact(t store.Type) bool {
	return !strings.HasPrefix(t.String(), "string") && !strings.HasPrefix(t.String(), "bytes") && t.String() != "ipv6"
}

// found reports whether a database finds a row by the range.
func found[T any](r cell.Range[T], c cell.Cell) bool {
	return slices.ContainsFunc(r.Intervals, func(iv cell.Interval) bool {
		return bytes.Compare(iv.Start, c.Search) <= 0 && bytes.Compare(c.Search, iv.End) < 0
	})
}

func TestEachType(t *testing.T) {
	at := func(unit time.Duration) *rapid.Generator[time.Time] {
		return rapid.Map(rapid.Int64Range(-1e9, 1e9), func(n int64) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(n) * unit) })
	}
	id := rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) [16]byte { return [16]byte(b) })
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("a path of some length/[ab]{0,3}"))
	for _, k := range []kind{
		kindOf("int8", store.Int8, rapid.Int8(), cmp.Compare), kindOf("int16", store.Int16, rapid.Int16(), cmp.Compare),
		kindOf("int32", store.Int32, rapid.Int32(), cmp.Compare), kindOf("int64", store.Int64, rapid.Int64(), cmp.Compare),
		kindOf("uint8", store.Uint8, rapid.Uint8(), cmp.Compare), kindOf("uint16", store.Uint16, rapid.Uint16(), cmp.Compare),
		kindOf("uint32", store.Uint32, rapid.Uint32(), cmp.Compare), kindOf("uint64", store.Uint64, rapid.Uint64(), cmp.Compare),
		kindOf("float32", store.Float32, rapid.Float32(), cmp.Compare), kindOf("float64", store.Float64, rapid.Float64(), cmp.Compare),
		kindOf("within", store.Int64.Within(-100, 100), rapid.Int64Range(-100, 100), cmp.Compare),
		kindOf("bool", store.Bool, rapid.Bool(), func(a, b bool) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }),
		kindOf("date", store.Date, rapid.Map(rapid.IntRange(1, 9999), func(y int) encode.CivilDate { return encode.CivilDate{Year: y, Month: 2, Day: y%28 + 1} }),
			func(a, b encode.CivilDate) int { return cmp.Or(cmp.Compare(a.Year, b.Year), cmp.Compare(a.Day, b.Day)) }),
		kindOf("milliseconds", store.Time(time.Millisecond), at(time.Millisecond), time.Time.Compare),
		kindOf("seconds", store.Time(time.Second), at(time.Second), time.Time.Compare),
		kindOf("decimal", store.Decimal(2), rapid.Map(rapid.Int64(), func(n int64) encode.Decimal { return encode.Decimal{Unscaled: big.NewInt(n), Scale: 2} }),
			func(a, b encode.Decimal) int { return a.Unscaled.Cmp(b.Unscaled) }),
		kindOf("ipv4", store.IPv4, rapid.Map(rapid.Uint32(), func(n uint32) netip.Addr {
			return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		}), netip.Addr.Compare),
		kindOf("ipv6", store.IPv6, rapid.Map(id, func(b [16]byte) netip.Addr { return netip.AddrFrom16(b) }), netip.Addr.Compare),
		kindOf("string", store.String, text, strings.Compare), kindOf("long string", store.String.OrderedBy(16), text, strings.Compare),
		kindOf("prefixed", store.String.Prefixed("a path of some length/"), text, strings.Compare),
		kindOf("bytes", store.Bytes, rapid.Map(text, func(s string) []byte { return []byte(s) }), bytes.Compare),
		kindOf("uuid", store.UUID, id, nil),
	} {
		t.Run(k.name, k.law)
	}
}

// A value opens at its own place only, and where it does not, nothing of it is told.
func TestMovedValuesAreRefused(t *testing.T) {
	st := newStore(t)
	type place struct {
		field *cell.Field[string]
		row   cell.RowKey
	}
	var places []place
	for _, table := range []string{"a", "b"} {
		require.NoError(t, cell.Register(background, st, table, store.OrderedColumn("x", store.String, store.MOPE), store.OrderedColumn("y", store.String, store.MOPE)))
		for _, column := range []string{"x", "y"} {
			f := open(t, st, table, store.String.Field(column))
			for _, row := range []cell.RowKey{cell.Row(1), cell.Row(2), cell.Row("1"), cell.Row(1, 2), cell.Row(1, ""), cell.Row("1", "2"), cell.Row("12")} {
				places = append(places, place{f, row})
			}
		}
	}
	const secret = "a secret"
	for i, from := range places {
		c, err := from.field.Seal(from.row, secret)
		require.NoError(t, err)
		for j, to := range places {
			v, err := to.field.Open(to.row, c)
			switch {
			case i == j:
				require.NoError(t, err)
				continue
			case from.field == to.field:
				require.ErrorIs(t, err, store.ErrTampered)
			default:
				require.ErrorIs(t, err, store.ErrWrongKey)
			}
			require.Empty(t, v)
			require.NotContains(t, err.Error(), secret)
		}
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	f := registered(t, newStore(t), store.Int64, store.OrderedColumn("n", store.Int64, store.Boldyreva))
	row := cell.Row("row")
	c, err := f.Seal(row, 7)
	require.NoError(t, err)
	for i := range c.Sealed {
		changed := cell.Cell{Search: c.Search, Sealed: bytes.Clone(c.Sealed)}
		changed.Sealed[i] ^= 1
		_, err := f.Open(row, changed)
		if i > 0 && i <= 16 {
			require.ErrorIs(t, err, store.ErrWrongKey)
			require.ErrorContains(t, err, "another column, table or store, or its key id was damaged, or it was sealed before")
		} else {
			require.ErrorIs(t, err, store.ErrTampered)
		}
		if i > 0 {
			_, err = f.Open(row, cell.Cell{Sealed: c.Sealed[:i]})
			require.ErrorIs(t, err, store.ErrTampered)
		}
	}
	for i := range c.Search {
		changed := cell.Cell{Search: bytes.Clone(c.Search), Sealed: c.Sealed}
		changed.Search[i] ^= 1
		_, err := f.Open(row, changed)
		require.ErrorIs(t, err, store.ErrTorn)
	}
}

// Columns of two writes, of which each has one, are torn. Null is a value of both.
func TestTornRows(t *testing.T) {
	f := registered(t, newStore(t), store.Int64, store.OrderedColumn("n", store.Int64, store.MOPE))
	row := cell.Row(1)
	first, err := f.Seal(row, 1)
	require.NoError(t, err)
	second, err := f.Seal(row, 2)
	require.NoError(t, err)
	for _, torn := range []cell.Cell{{first.Search, second.Sealed}, {second.Search, first.Sealed}, {Search: first.Search}, {[]byte{}, first.Sealed}} {
		_, err := f.Open(row, torn)
		require.ErrorIs(t, err, store.ErrTorn)
		if torn.Sealed == nil {
			require.ErrorContains(t, err, "null or was not read")
		} else {
			require.ErrorContains(t, err, "than the sealed one, or by none")
		}
	}
	_, err = f.Open(row, cell.Cell{})
	require.ErrorIs(t, err, store.ErrNull)
	_, err = f.Open(row, cell.Cell{Search: []byte{}})
	require.ErrorIs(t, err, store.ErrNull)
	for _, search := range [][]byte{nil, {}, first.Search} {
		_, err = f.Open(row, cell.Cell{Search: search, Sealed: []byte{}})
		require.ErrorIs(t, err, store.ErrTampered, "an empty blob is no null")
	}
	// Nothing proves the first byte: whoever changed it may have, or a newer version.
	first.Sealed[0]++
	_, err = f.Open(row, first)
	require.ErrorIs(t, err, store.ErrTampered)
	require.NotErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, "a newer version wrote it, or it was changed")
	require.NotContains(t, err.Error(), "another row")
}

func TestRowKeys(t *testing.T) {
	f := registered(t, newStore(t), store.Int64, store.RandomisedColumn("n", store.Int64))
	type id int64
	type name string
	seven, at := 7, time.UnixMilli(1234)
	// Keys of one list are equal, those of different lists are not.
	keys := [][]cell.RowKey{
		{cell.Row(7), cell.Row(int8(7)), cell.Row(int64(7)), cell.Row(uint16(7)), cell.Row(id(7)), cell.Row(&seven)},
		{cell.Row("7"), cell.Row(name("7"))},
		{cell.Row([]byte("7"))},
		{cell.Row(-7), cell.Row(int8(-7))},
		{cell.Row(249)}, {cell.Row(0)}, {cell.Row(127)}, {cell.Row(-129)}, {cell.Row(-128)}, {cell.Row(128)}, {cell.Row(255)}, {cell.Row(-1)}, {cell.Row("")}, {cell.Row([]byte{})}, {cell.Row(false)}, {cell.Row(true)},
		{cell.Row(7, 7)}, {cell.Row(7, "")}, {cell.Row("", 7)}, {cell.Row("a", "bc")}, {cell.Row("ab", "c")}, {cell.Row("abc")},
		{cell.Row([16]byte{1})}, {cell.Row([16]byte{15: 1})}, {cell.Row(make([]byte, 16))},
		{cell.Row(at), cell.Row(at.UTC()), cell.Row(at.Add(time.Microsecond)), cell.Row(&at)}, {cell.Row(1234)},
		{cell.Row(net.ParseIP("192.0.2.1")), cell.Row(netip.MustParseAddr("192.0.2.1")), cell.Row(net.IPv4(192, 0, 2, 1).To4()), cell.Row(netip.MustParseAddr("::ffff:192.0.2.1"))},
		{cell.Row(netip.MustParseAddr("2001:db8::1"))},
		{cell.Row(math.MinInt64)}, {cell.Row(math.MaxInt64), cell.Row(uint64(math.MaxInt64))}, {cell.Row(int64(math.MaxUint32))},
	}
	for i, from := range keys {
		for _, row := range from {
			c, err := f.Seal(row, 1)
			require.NoError(t, err)
			for j, to := range keys {
				for _, other := range to {
					_, err := f.Open(other, c)
					if i == j {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, store.ErrTampered, "%d and %d", i, j)
					}
				}
			}
		}
	}
	const secret = 1.25
	for _, none := range []cell.RowKey{
		{}, cell.Row(), cell.Row(nil), cell.Row(1, nil), cell.Row(secret), cell.Row((*int)(nil)), cell.Row(uint64(math.MaxUint64)), cell.Row([]int{1}),
		cell.Row([15]byte{}), cell.Row(netip.Addr{}), cell.Row(net.IP{1, 2}), cell.Row(netip.MustParseAddr("fe80::1%eth0")), cell.Row(big.NewInt(1)),
	} {
		_, err := f.Seal(none, 1)
		require.ErrorIs(t, err, store.ErrColumn)
		require.NotContains(t, err.Error(), "1.25")
		_, err = f.Open(none, cell.Cell{Sealed: make([]byte, 100)})
		require.ErrorIs(t, err, store.ErrColumn)
	}
}

func TestRegister(t *testing.T) {
	db, key := drivertest.NewMemory(), ope.GenerateKey()
	st := openStore(t, db, key)
	amount := store.OrderedColumn("amount", store.Int64, store.Boldyreva)
	_, err := cell.Open(background, st, "orders", store.Int64.Field("amount"))
	require.ErrorIs(t, err, store.ErrNoTable)
	require.ErrorContains(t, err, "register")
	require.NoError(t, cell.Register(background, st, "orders", amount))
	before, err := st.Describe(background)
	require.NoError(t, err)
	require.NoError(t, cell.Register(background, st, "orders", amount))
	after, err := st.Describe(background)
	require.NoError(t, err)
	require.Equal(t, before, after, "what is registered stays as it is")

	f := open(t, st, "orders", store.Int64.Field("amount"))
	c, err := f.Seal(cell.Row(1), 5)
	require.NoError(t, err)
	require.Equal(t, after.Tables[0].Columns[0].CellKeys, []string{fmt.Sprintf("%x", c.Sealed[1:17])}, "a sealed value has the id of its key")

	// Another client opens it, also with another master key.
	next := ope.GenerateKey()
	require.NoError(t, st.RotateMaster(background, kms.NewLocal(next)))
	st = openStore(t, db, next)
	f = open(t, st, "orders", store.Int64.Field("amount"))
	v, err := f.Open(cell.Row(1), c)
	require.NoError(t, err)
	require.Equal(t, int64(5), v)

	// More columns, and fewer.
	require.NoError(t, cell.Register(background, st, "orders", amount, store.RandomisedColumn("note", store.String)))
	require.NoError(t, st.Alter(background, "orders", store.AddColumn(store.DeterministicColumn("site", store.String))))
	_, err = cell.Open(background, st, "orders", store.Int64.Field("sum"))
	require.ErrorIs(t, err, store.ErrColumn)
	_, err = cell.Open(background, st, "orders", store.String.Field("amount"))
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, "the Field has string: use int64")
	require.NoError(t, st.Alter(background, "orders", store.DropColumn("amount")))
	require.NoError(t, cell.Register(background, st, "orders", amount))
	_, err = open(t, st, "orders", store.Int64.Field("amount")).Open(cell.Row(1), c)
	require.ErrorIs(t, err, store.ErrWrongKey, "a column that is registered again has other keys")
	v, err = f.Open(cell.Row(1), c)
	require.NoError(t, err, "what is open stays so")
	require.Equal(t, int64(5), v)
	require.NoError(t, st.Drop(background, "orders"))
	_, err = cell.Open(background, st, "orders", store.Int64.Field("amount"))
	require.ErrorIs(t, err, store.ErrNoTable)
}

// Tables and columns keep the names that programs register them by: another program has the same keys, whatever is asked.
func TestRegisteredNamesStay(t *testing.T) {
	st := newStore(t)
	f := registered(t, st, store.Int64, store.OrderedColumn("amount", store.Int64, store.Boldyreva))
	c, err := f.Seal(cell.Row(1), 5)
	require.NoError(t, err)
	for _, refused := range []error{
		st.Alter(background, "table of amount", store.RenameColumn("amount", "sum")),
		st.Alter(background, "table of amount", store.AddColumn(store.RandomisedColumn("note", store.String)), store.RenameColumn("note", "text")),
		st.RenameTable(background, "table of amount", "orders"),
	} {
		require.ErrorIs(t, refused, store.ErrSchema)
		require.ErrorContains(t, refused, "register it by these names")
	}
	v, err := registered(t, st, store.Int64, store.OrderedColumn("amount", store.Int64, store.Boldyreva)).Open(cell.Row(1), c)
	require.NoError(t, err)
	require.Equal(t, int64(5), v)
}

func TestRegisteredTablesHaveNoRowsHere(t *testing.T) {
	db := drivertest.NewMemory()
	st := openStore(t, db, ope.GenerateKey())
	amount := store.OrderedColumn("amount", store.Int64, store.Boldyreva)
	families := func() []string {
		names, err := db.Families(background)
		require.NoError(t, err)
		return names
	}
	none := families()
	require.NoError(t, cell.Register(background, st, "orders", amount))
	require.Equal(t, none, families())

	schemas, err := st.Tables(background)
	require.NoError(t, err)
	require.Empty(t, schemas)
	d, err := st.Describe(background)
	require.NoError(t, err)
	require.Equal(t, inspect.Elsewhere, d.Tables[0].Layout)
	require.Empty(t, d.Tables[0].Families)
	require.NotEmpty(t, d.Tables[0].Columns[0].SearchKey)
	_, err = st.Table(background, "orders")
	require.ErrorIs(t, err, store.ErrNoTable)
	require.ErrorContains(t, err, "store/cell")

	here := store.Schema{Name: "orders", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{amount}}
	_, err = st.Create(background, here)
	require.ErrorIs(t, err, store.ErrExists)
	here.Name = "here"
	_, err = st.Create(background, here)
	require.NoError(t, err)
	require.ErrorIs(t, cell.Register(background, st, "here", amount), store.ErrExists)
	_, err = cell.Open(background, st, "here", store.Int64.Field("amount"))
	require.ErrorIs(t, err, store.ErrNoTable)

	// Keys are not shared with tables that are here, nor changed.
	here.Name, here.Columns[0] = "sharing", amount.SharedWith("orders", "amount")
	_, err = st.Create(background, here)
	require.ErrorIs(t, err, store.ErrSchema)
	for _, refused := range []error{
		st.RotateKeys(background, "orders"), st.Alter(background, "orders", store.SetTTL(time.Hour)),
		st.Alter(background, "orders", store.ChangeColumn(store.OrderedColumn("amount", store.Int64, store.MOPE))),
	} {
		require.ErrorIs(t, refused, store.ErrSchema)
		require.ErrorContains(t, refused, "add another column")
	}
}

func TestColumnsThatAreRefused(t *testing.T) {
	st := newStore(t)
	require.NoError(t, cell.Register(background, st, "exists", store.OrderedColumn("c", store.Int64, store.MOPE)))
	for _, c := range []store.Column{
		{}, store.PlainColumn("c", store.Int64), store.OrderedColumn("c", store.Int64, store.Plaintext), store.OrderedColumn("c", store.Int64, store.Kerschbaum),
		store.OrderedColumn("c", store.Int64, store.WozniakIndexed), store.OrderedColumn("c", store.Int64, store.KerschbaumRanked), store.OrderedColumn("c", store.Int64, nil),
		store.OrderedColumn("c", store.UUID, store.MOPE), store.OrderedColumn("c", store.String.OrderedBy(16), store.MOPE), store.OrderedColumn("", store.Int64, store.MOPE),
		store.OrderedColumn("c", store.Int64, store.MOPE).Covering(), store.OrderedColumn("c", store.Int64, store.MOPE).ServerIndex(),
		store.OrderedColumn("c", store.Int64, store.MOPE).DatabaseWide(), store.DeterministicColumn("c", store.Int64).SharedWith("other", "c"), store.RandomisedColumn("c", nil),
	} {
		require.ErrorIs(t, cell.Register(background, st, "t", c), store.ErrSchema, c.Describe().String())
		require.ErrorIs(t, cell.Register(background, st, "exists", c), store.ErrSchema, c.Describe().String())
	}
	require.ErrorIs(t, cell.Register(background, st, " t", store.RandomisedColumn("c", store.Int64)), store.ErrSchema)
	require.NoError(t, cell.Register(background, st, "t", store.OrderedColumn("c", store.Int64, store.MOPE)))
	for _, other := range []store.Column{store.OrderedColumn("c", store.Int64, store.Boldyreva), store.OrderedColumn("c", store.Int32, store.MOPE), store.RandomisedColumn("c", store.Int64)} {
		require.ErrorIs(t, cell.Register(background, st, "t", other), store.ErrExists)
	}
	require.NoError(t, cell.Register(background, st, "tokens", store.DeterministicColumn("c", store.Int64)))
	deterministic := store.DeterministicColumn("c", store.Int64)
	for _, more := range []store.Column{deterministic.ServerIndex(), deterministic.DatabaseWide(), deterministic.Covering(), deterministic.SharedWith("other", "c")} {
		require.ErrorIs(t, cell.Register(background, st, "tokens", more), store.ErrSchema, more.Describe().String())
	}
}

// Values beyond the domain are refused, and are allowed as bounds.
func TestValuesBeyondTheDomain(t *testing.T) {
	st := newStore(t)
	f := registered(t, st, store.Int64, store.OrderedColumn("n", store.Int64.Within(0, 9), store.MOPE))
	_, err := f.Seal(cell.Row(1), 10)
	require.ErrorIs(t, err, ope.ErrDomain)
	all, err := f.Between(-5, 100)
	require.NoError(t, err)
	require.Len(t, all.Intervals, 1)
	for _, r := range []func() (cell.Range[int64], error){
		func() (cell.Range[int64], error) { return f.Between(10, 20) }, func() (cell.Range[int64], error) { return f.Between(5, 4) },
		func() (cell.Range[int64], error) { return f.AtMost(-1) }, func() (cell.Range[int64], error) { return f.Equal(10) },
	} {
		r, err := r()
		require.NoError(t, err)
		require.Empty(t, r.Intervals)
		require.False(t, r.Has(5))
	}
	wraps := 0
	for lo := int64(0); lo < 10; lo++ {
		for hi := lo; hi < 10; hi++ {
			r, err := f.Between(lo, hi)
			require.NoError(t, err)
			wraps += len(r.Intervals) - 1
			for v := int64(0); v < 10; v++ {
				c, err := f.Seal(cell.Row(v), v)
				require.NoError(t, err)
				require.Equal(t, lo <= v && v <= hi, found(r, c))
			}
		}
	}
	t.Logf("%d of 55 ranges have two intervals", wraps)

	token := registered(t, st, store.Int64, store.DeterministicColumn("d", store.Int64.Within(0, 9)))
	none, err := token.Equal(10)
	require.NoError(t, err)
	require.Empty(t, none.Intervals)
	for _, column := range []store.Column{store.OrderedColumn("o", store.Float64, store.MOPE), store.DeterministicColumn("t", store.Float64)} {
		f := registered(t, st, store.Float64, column)
		_, err = f.Seal(cell.Row(1), math.NaN())
		require.ErrorIs(t, err, ope.ErrDomain)
		_, err = f.Equal(math.NaN())
		require.ErrorIs(t, err, ope.ErrDomain)
	}
	for _, column := range []store.Column{store.OrderedColumn("a", store.IPv4, store.MOPE), store.DeterministicColumn("b", store.IPv4)} {
		_, err = registered(t, st, store.IPv4, column).Equal(netip.Addr{})
		require.ErrorIs(t, err, ope.ErrDomain, "what is no address is no bound either")
	}
	random := registered(t, st, store.Float64, store.RandomisedColumn("f", store.Float64))
	c, err := random.Seal(cell.Row(1), math.NaN())
	require.NoError(t, err)
	v, err := random.Open(cell.Row(1), c)
	require.NoError(t, err)
	require.True(t, math.IsNaN(v))
	require.False(t, cell.Range[float64]{}.Has(1))
}

// Two clients that register at the same time agree on the keys.
func TestRegisterAtTheSameTime(t *testing.T) {
	db, key := drivertest.NewMemory(), ope.GenerateKey()
	openStore(t, db, key)
	const clients = 8
	var fields [clients]*cell.Field[int64]
	var wg sync.WaitGroup
	for i := range clients {
		st := openStore(t, db, key)
		wg.Go(func() {
			if err := cell.Register(background, st, "t", store.OrderedColumn("c", store.Int64, store.MOPE)); err != nil {
				t.Error(err)
				return
			}
			f, err := cell.Open(background, st, "t", store.Int64.Field("c"))
			if err != nil {
				t.Error(err)
			}
			fields[i] = f
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	// One field seals and opens in all goroutines.
	for i := range clients {
		wg.Go(func() {
			for n := range int64(50) {
				c, err := fields[i].Seal(cell.Row(n), n)
				if err == nil {
					var v int64
					if v, err = fields[0].Open(cell.Row(n), c); v != n {
						t.Errorf("%d was opened as %d", n, v)
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSeal(b *testing.B) {
	st := newStore(b)
	for _, column := range []store.Column{
		store.RandomisedColumn("randomised", store.Int64), store.DeterministicColumn("deterministic", store.Int64),
		store.OrderedColumn("boldyreva", store.Int64, store.Boldyreva), store.OrderedColumn("wozniak", store.Int64, store.Wozniak),
	} {
		b.Run(column.Describe().Name, func(b *testing.B) {
			f := registered(b, st, store.Int64, column)
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				n += 0x9E3779B97F4A7C
				if _, err := f.Seal(cell.Row(n), n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	f := registered(b, newStore(b), store.Int64, store.OrderedColumn("boldyreva", store.Int64, store.Boldyreva))
	c, err := f.Seal(cell.Row(int64(1)), 1)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Open(cell.Row(int64(1)), c); err != nil {
			b.Fatal(err)
		}
	}
}

// Logs and messages print what a program has at hand: the values that it looks for are not for them.
func TestRangesPrintNoValue(t *testing.T) {
	st, err := store.Open(t.Context(), drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	require.NoError(t, cell.Register(t.Context(), st, "orders", store.OrderedColumn("amount", store.Int64, store.Boldyreva)))
	f, err := cell.Open(t.Context(), st, "orders", store.Int64.Field("amount"))
	require.NoError(t, err)
	r, err := f.AtLeast(7700770077)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		require.Equal(t, fmt.Sprintf("%x", r.Intervals), fmt.Sprintf(verb, r))
	}
}

func TestFieldsThatNoFunctionHasMade(t *testing.T) {
	for _, f := range []*cell.Field[int64]{nil, new(cell.Field[int64])} {
		_, err := f.Seal(cell.Row(1), 1)
		require.ErrorIs(t, err, ope.ErrKey)
		_, err = f.Open(cell.Row(1), cell.Cell{Sealed: []byte{1}})
		require.ErrorIs(t, err, ope.ErrKey)
		for _, find := range []func(int64) (cell.Range[int64], error){f.Equal, f.AtLeast, f.AtMost} {
			r, err := find(1)
			require.ErrorIs(t, err, ope.ErrKey)
			require.False(t, r.Has(1))
		}
		_, err = f.Between(1, 2)
		require.EqualError(t, err, "cell: ope: invalid key: this field is a zero value; make it with cell.Open")
	}
}
