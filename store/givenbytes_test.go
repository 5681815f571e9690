package store_test

import (
	"context"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A program that reads lines into one buffer, say, uses bytes again that it has put. What a call leaves to do has its own.
func TestBytesOfARowMayBeUsedAgain(t *testing.T) {
	for _, how := range []store.Schema{{Conditional: true}, {AppendOnly: true}} {
		changed := make(chan struct{})
		st, err := store.Open(background, intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
			if strings.HasPrefix(op.Method, "Get") && op.Family[0] == 'x' {
				<-changed // the copies of rows are put later than the call returns
			}
			return c.Make(nil)
		}, nil), kms.NewLocal(testKey), nil)
		require.NoError(t, err)
		schema := how
		schema.Name, schema.Columns = "t", []store.Column{
			store.DeterministicColumn("room", store.Bytes).Covering(), store.RandomisedColumn("note", store.Bytes),
		}
		if schema.Key = []store.KeyPart{store.HashedPart("id", store.Bytes)}; how.AppendOnly {
			schema.Key = append(schema.Key, store.TiePart("tie"))
		}
		tbl := create(t, st, schema)
		buffer := []byte("1atticn")
		require.NoError(t, tbl.Insert(background, store.Row{"id": buffer[:1], "room": buffer[1:6], "note": buffer[6:]}))
		copy(buffer, "2xxxxxx")
		close(changed)
		require.NoError(t, st.Close(background))
		rows, _, err := tbl.Page(background, store.Query{Where: store.Bytes.Field("room").Equal([]byte("attic")), Limit: 2})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		delete(rows[0], "tie")
		require.Equal(t, store.Row{"id": []byte("1"), "room": []byte("attic"), "note": []byte("n")}, rows[0])
		found, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, found.Sound(), "%v", found.Faults)
		require.Zero(t, found.Uncopied)
	}
}

// A predicate stays as it was made.
func TestBytesOfAPredicateMayBeUsedAgain(t *testing.T) {
	type code []byte
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, store.Schema{
		Name:    "t",
		Key:     []store.KeyPart{store.HashedPart("id", store.Bytes)},
		Columns: []store.Column{store.OrderedColumn("code", store.Bytes, store.MOPE), store.RandomisedColumn("price", store.Decimal(2))},
	})
	price := encode.Decimal{Unscaled: big.NewInt(250), Scale: 2}
	require.NoError(t, tbl.Put(background, store.Row{"id": []byte("1"), "code": []byte("bb"), "price": price}))
	b := func() []byte { return []byte("bb") }
	for name, made := range map[string]func() (store.Predicate, func()){
		"equal": func() (store.Predicate, func()) {
			v := b()
			return store.Bytes.Field("code").Equal(v), func() { clear(v) }
		},
		"of a type of its own": func() (store.Predicate, func()) {
			v := code(b())
			return store.Field[code]("code").In(v), func() { clear(v) }
		},
		"any": func() (store.Predicate, func()) {
			v := b()
			return store.Field[any]("code").Equal(v), func() { clear(v) }
		},
		"between": func() (store.Predicate, func()) {
			v, w := b(), b()
			return store.Bytes.Field("code").Between(v, w), func() { v[0], w[0] = 'z', 'a' }
		},
		"prefix": func() (store.Predicate, func()) {
			v := b()
			return store.HasPrefix(store.Bytes.Field("code"), v), func() { clear(v) }
		},
		"decimal": func() (store.Predicate, func()) {
			v := encode.Decimal{Unscaled: big.NewInt(25), Scale: 1}
			return store.Field[encode.Decimal]("price").Equal(v), func() { v.Unscaled.SetInt64(7) }
		},
		"nil": func() (store.Predicate, func()) { return store.Bytes.Field("code").AtLeast(nil), func() {} },
	} {
		where, change := made()
		change()
		n, err := tbl.Count(background, where)
		require.NoError(t, err)
		require.Equal(t, 1, n, name)
	}
}
