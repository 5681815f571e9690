package store

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// An endsAt is a context that ends when it has been looked at so many times.
type endsAt struct {
	context.Context
	left atomic.Int64
	once sync.Once
	done chan struct{}
}

func newEndsAt(ctx context.Context, looks int64) *endsAt {
	c := &endsAt{Context: ctx, done: make(chan struct{})}
	c.left.Store(looks)
	return c
}

func (c *endsAt) Done() <-chan struct{} { return c.done }

func (c *endsAt) Err() error {
	if c.left.Add(-1) > 0 {
		return nil
	}
	c.once.Do(func() { close(c.done) })
	return context.Canceled
}

// manyValues is a table with parts and columns of all encryptions that take long for many values.
func manyValues(t *testing.T) *Table {
	tbl, err := stores(t, drivertest.NewMemory(), 1)[0].Create(t.Context(), Schema{
		Name: "t", Key: []KeyPart{HashedPart("k", Int64), OrderedPart("l", Int64, Wozniak)},
		Columns: []Column{
			OrderedColumn("w", Int64, Wozniak), OrderedColumn("b", Int64, Boldyreva), OrderedColumn("m", Int64, Kerschbaum),
			OrderedColumn("text", String, Boldyreva), DeterministicColumn("d", Int64),
		},
	})
	require.NoError(t, err)
	return tbl
}

// Whoever turns a list into ranges stops soon after the end of the context.
func TestRangesOfManyValuesEndWithTheContext(t *testing.T) {
	const n, looks = 1000, 300
	view := manyValues(t).now().View
	var texts []string
	var values []int64
	for i := range n {
		texts, values = append(texts, string([]byte{byte(i >> 8), byte(i), 0})), append(values, int64(3*i))
	}
	sets := func(p Predicate) predicate.Sets {
		tree, err := predicate.New(view, p.where)
		require.NoError(t, err)
		ss, none := tree.Implied()
		require.False(t, none)
		return ss
	}
	ended := func(name string, do func(context.Context) error) {
		ctx := newEndsAt(t.Context(), looks)
		require.ErrorIs(t, do(ctx), context.Canceled, name)
		require.Greater(t, ctx.left.Load(), int64(-3), "%s: it went on", name)
	}
	for name, p := range map[string]Predicate{
		"w": Int64.Field("w").In(values...), "b": Int64.Field("b").In(values...), "m": Int64.Field("m").In(values...),
		"text": String.Field("text").In(texts...), "d": Int64.Field("d").In(values...),
	} {
		ss := sets(p)
		require.Len(t, ss[0].In, n)
		ended(name, func(ctx context.Context) error {
			_, err := ranges.Of(ctx, ss[0].Column, nil, &ss[0])
			return err
		})
	}
	all := func(*rowcodec.Column) bool { return true }
	for name, p := range map[string]Predicate{
		"k": Int64.Field("k").In(values...), "l": And(Int64.Field("k").Equal(1), Int64.Field("l").In(values...)),
		"k and l": And(Int64.Field("k").In(values[:200]...), Int64.Field("l").In(values[:100]...)),
	} {
		ss := sets(p)
		ended(name, func(ctx context.Context) error {
			_, err := ranges.OfRows(ctx, view, ss, all)
			return err
		})
	}
}

// So does whoever encodes rows, and nothing is written then.
func TestEncodingManyRowsEndsWithTheContext(t *testing.T) {
	tbl := manyValues(t)
	var rows []Row
	for i := range 400 {
		rows = append(rows, Row{"k": i, "l": i, "w": i, "b": i, "d": i})
	}
	for name, do := range map[string]func(context.Context, ...Row) error{"put": tbl.Put, "insert": tbl.Insert} {
		for _, looks := range []int64{1, 100, 600} { // before, while rows are checked, while they are encoded
			failed := (*BatchError)(nil)
			err := do(newEndsAt(t.Context(), looks), rows...)
			require.ErrorIs(t, err, context.Canceled, "%s %d", name, looks)
			require.ErrorAs(t, err, &failed)
			require.ErrorContains(t, err, "no row of the batch was written")
			require.Len(t, failed.Failed, len(rows))
		}
	}
	n, err := tbl.Count(t.Context(), Predicate{})
	require.NoError(t, err)
	require.Zero(t, n)

	require.NoError(t, tbl.Put(t.Context(), rows...))
	_, err = tbl.GetBatch(newEndsAt(t.Context(), 300), keysOfRows(rows))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorAs(t, err, new(*RowError))
}

// keysOfRows returns the key parts of rows.
func keysOfRows(rows []Row) []Row {
	keys := make([]Row, len(rows))
	for i, row := range rows {
		keys[i] = Row{"k": row["k"], "l": row["l"]}
	}
	return keys
}
