package gocqlcell_test

import (
	"context"
	"math"
	"math/big"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/cell/gocqlcell"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var background = context.Background()

var (
	blob   = gocql.NewNativeType(4, gocql.TypeBlob, "")
	varint = gocql.NewNativeType(4, gocql.TypeVarint, "")
	bigint = gocql.NewNativeType(4, gocql.TypeBigInt, "")
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(background, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	return st
}

const least = math.MinInt64 + 1

func newField(t *testing.T) *cell.Field[int64] {
	t.Helper()
	st := newStore(t)
	require.NoError(t, cell.Register(background, st, "t", store.OrderedColumn("n", store.Int64.Within(least, math.MaxInt64), store.MOPE)))
	f, err := cell.Open(background, st, "t", store.Int64.Field("n"))
	require.NoError(t, err)
	return f
}

func marshal(t require.TestingT, info gocql.TypeInfo, v any) []byte {
	b, err := gocql.Marshal(info, v)
	require.NoError(t, err)
	return b
}

// What is bound is scanned again, and the database finds it by the bounds, as a blob and as a number.
func TestBindAndScan(t *testing.T) {
	f := newField(t)
	for _, search := range []gocql.TypeInfo{blob, varint} {
		rapid.Check(t, func(t *rapid.T) {
			id, n := rapid.Int().Draw(t, "id"), rapid.Int64Range(least, math.MaxInt64).Draw(t, "n")
			v := gocqlcell.For(f, &id, "part")
			v.Set(n)
			ct, sealed := marshal(t, search, v.Search()), marshal(t, blob, v.Sealed())
			got, err := v.Get()
			require.NoError(t, err)
			require.Equal(t, n, got)

			read := gocqlcell.For(f, id, "part")
			require.NoError(t, gocql.Unmarshal(search, ct, read.Search()))
			require.NoError(t, gocql.Unmarshal(blob, sealed, read.Sealed()))
			got, err = read.Get()
			require.NoError(t, err)
			require.Equal(t, n, got)

			lo := rapid.OneOf(rapid.Just[int64](least), rapid.Int64Range(least, n)).Draw(t, "lo")
			r, err := f.Between(lo, rapid.OneOf(rapid.Just[int64](math.MaxInt64), rapid.Int64Range(lo, math.MaxInt64)).Draw(t, "hi"))
			require.NoError(t, err)
			found := false
			for _, iv := range r.Intervals {
				start, end := marshal(t, search, gocqlcell.Bound(iv.Start)), marshal(t, search, gocqlcell.Bound(iv.End))
				if search == blob {
					found = found || string(start) <= string(ct) && string(ct) < string(end)
					continue
				}
				found = found || numbered(t, start).Cmp(numbered(t, ct)) <= 0 && numbered(t, ct).Cmp(numbered(t, end)) < 0
			}
			require.Equal(t, r.Has(n), found)
		})
	}
}

// numbered returns a varint as the database reads it.
func numbered(t require.TestingT, b []byte) *big.Int {
	var n big.Int
	require.NoError(t, gocql.Unmarshal(varint, b, &n))
	return &n
}

// A token is found by its range and no other is, also as a number, whatever its last bytes are.
func TestTokensAsNumbers(t *testing.T) {
	st := newStore(t)
	require.NoError(t, cell.Register(background, st, "t", store.DeterministicColumn("n", store.Int64)))
	f, err := cell.Open(background, st, "t", store.Int64.Field("n"))
	require.NoError(t, err)
	const tokens = 3000 // of which some end with the byte ff
	last := 0
	for n := range int64(tokens) {
		r, err := f.Equal(n)
		require.NoError(t, err)
		require.Len(t, r.Intervals, 1)
		v := gocqlcell.For(f, n)
		v.Set(n)
		start, end := numbered(t, marshal(t, varint, gocqlcell.Bound(r.Intervals[0].Start))), numbered(t, marshal(t, varint, gocqlcell.Bound(r.Intervals[0].End)))
		require.Equal(t, start, numbered(t, marshal(t, varint, v.Search())))
		require.Equal(t, big.NewInt(1), new(big.Int).Sub(end, start))
		if r.Intervals[0].Start[15] == 0xff {
			last++
		}
	}
	require.Positive(t, last)
}

// The row is that which the pointers lead to when a value is set or got.
func TestRowOfAValue(t *testing.T) {
	f := newField(t)
	id := 1
	v := gocqlcell.For(f, &id)
	v.Set(5)
	sealed := marshal(t, blob, v.Sealed())
	id = 2
	require.NoError(t, gocql.Unmarshal(blob, sealed, v.Sealed()))
	_, err := v.Get()
	require.ErrorIs(t, err, store.ErrTampered)
	id = 1
	n, err := v.Get()
	require.NoError(t, err, "only the sealed column was scanned")
	require.Equal(t, int64(5), n)
}

// Each statement of a batch has the value that was set before it, whatever the Value holds when the batch is sent.
func TestOneValueForABatch(t *testing.T) {
	f := newField(t)
	id := 0
	v := gocqlcell.For(f, &id)
	type statement struct{ search, sealed gocqlcell.Column }
	var batch []statement
	for id = range 3 {
		v.Set(int64(10 * id))
		batch = append(batch, statement{v.Search(), v.Sealed()})
	}
	id = 3
	v.SetNull()
	batch = append(batch, statement{v.Search(), v.Sealed()})
	v.Set(100)
	for id = range batch {
		read := gocqlcell.For(f, id)
		for range 2 { // a statement may be sent again
			require.NoError(t, gocql.Unmarshal(varint, marshal(t, varint, batch[id].search), read.Search()))
			require.NoError(t, gocql.Unmarshal(blob, marshal(t, blob, batch[id].sealed), read.Sealed()))
			n, err := read.Get()
			if id == 3 {
				require.ErrorIs(t, err, store.ErrNull)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, int64(10*id), n)
		}
	}
}

// Nothing is bound for a row that it was not set for, and what was scanned only after it was set.
func TestBoundForItsRowOnly(t *testing.T) {
	f := newField(t)
	id := 1
	v := gocqlcell.For(f, &id, "part")
	refused := func(reason string) {
		t.Helper()
		for _, column := range []gocqlcell.Column{v.Search(), v.Sealed()} {
			b, err := gocql.Marshal(blob, column)
			require.ErrorContains(t, err, reason)
			require.ErrorContains(t, err, "Set the value for this row")
			require.Empty(t, b)
		}
	}
	for _, setFor := range []func(){func() { v.Set(5) }, v.SetNull} {
		id = 1
		setFor()
		id = 2
		refused("row key has changed")
		id = 1
		marshal(t, blob, v.Search())
	}
	v.Set(5)
	search, sealed := marshal(t, blob, v.Search()), marshal(t, blob, v.Sealed())
	require.NoError(t, gocql.Unmarshal(blob, search, v.Search()))
	require.NoError(t, gocql.Unmarshal(blob, sealed, v.Sealed()))
	refused("was scanned")
	n, err := v.Get()
	require.NoError(t, err)
	v.Set(n)
	require.Equal(t, search, marshal(t, blob, v.Search()))
	marshal(t, blob, v.Sealed())

	// A Value that is neither set nor has a row yet is scanned with the row.
	var row *int
	v = gocqlcell.For(f, &row, "part")
	columns := []gocqlcell.Column{v.Search(), v.Sealed()}
	require.NoError(t, gocql.Unmarshal(blob, search, columns[0]))
	require.NoError(t, gocql.Unmarshal(blob, sealed, columns[1]))
	row = &id
	n, err = v.Get()
	require.NoError(t, err)
	require.Equal(t, int64(5), n)

	whole := gocqlcell.For(f, cell.Row(1))
	whole.Set(1)
	_, err = gocql.Marshal(blob, whole.Sealed())
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, "give the parts of the key themselves")
}

func TestWhatIsNotBound(t *testing.T) {
	f := newField(t)
	v := gocqlcell.For(f, 1)
	for _, column := range []gocqlcell.Column{v.Search(), v.Sealed()} {
		_, err := gocql.Marshal(blob, column)
		require.ErrorContains(t, err, "without a value")
	}
	_, err := v.Get()
	require.ErrorContains(t, err, "without a value")

	v.Set(math.MinInt64)
	for _, column := range []gocqlcell.Column{v.Search(), v.Sealed()} {
		b, err := gocql.Marshal(blob, column)
		require.ErrorIs(t, err, ope.ErrDomain)
		require.Empty(t, b)
	}
	_, err = v.Get()
	require.ErrorIs(t, err, ope.ErrDomain)
	nowhere := gocqlcell.For(f, (*int)(nil))
	nowhere.Set(1)
	_, err = gocql.Marshal(blob, nowhere.Sealed())
	require.ErrorIs(t, err, store.ErrColumn)

	v.Set(1)
	_, err = gocql.Marshal(bigint, v.Search())
	require.ErrorContains(t, err, "a column of type bigint, need varint or blob")
	_, err = gocql.Marshal(varint, v.Sealed())
	require.ErrorContains(t, err, "a column of type varint, need blob")
	require.ErrorContains(t, gocql.Unmarshal(bigint, make([]byte, 8), v.Search()), "varint or blob")
	require.ErrorContains(t, gocql.Unmarshal(varint, []byte{1}, v.Sealed()), "need blob")
}

func TestNullAndTornRows(t *testing.T) {
	f := newField(t)
	v := gocqlcell.For(f, 1)
	v.SetNull()
	require.Nil(t, marshal(t, varint, v.Search()))
	require.Nil(t, marshal(t, blob, v.Sealed()))
	_, err := v.Get()
	require.ErrorIs(t, err, store.ErrNull)

	v.Set(1)
	ct, sealed := marshal(t, varint, v.Search()), marshal(t, blob, v.Sealed())
	v.Set(2)
	other := marshal(t, varint, v.Search())
	for _, row := range []struct {
		search, sealed []byte
		want           error
	}{
		{ct, sealed, nil}, {nil, nil, store.ErrNull}, {other, sealed, store.ErrTorn}, {nil, sealed, store.ErrTorn}, {ct, nil, store.ErrTorn}, {[]byte{2, 3}, sealed, store.ErrTorn},
		{nil, []byte{}, store.ErrTampered}, {ct, []byte{}, store.ErrTampered}, // an empty blob is no null
	} {
		require.NoError(t, gocql.Unmarshal(varint, row.search, v.Search()))
		require.NoError(t, gocql.Unmarshal(blob, row.sealed, v.Sealed()))
		_, err := v.Get()
		require.ErrorIs(t, err, row.want)
	}
}

func TestValuesWithoutAField(t *testing.T) {
	v := gocqlcell.For[int64](nil, 1)
	v.Set(5)
	_, err := v.Search().MarshalCQL(varint)
	require.ErrorIs(t, err, ope.ErrKey)
	_, err = new(gocqlcell.Value[int64]).Get()
	require.ErrorContains(t, err, "without a value")
}
