package store_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// goesOn counts what a sequence yields after its context has ended, which is done at the third element.
func goesOn[T any](t *testing.T, run func(context.Context) iter.Seq2[T, error]) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range run(ctx) {
		require.NoError(t, last, "something came after the error")
		if last = err; err == nil {
			n++
		}
		if n == 3 {
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.Equal(t, 3, n)
}

// What was read ahead is no reason to go on when the caller has gone away.
func TestQueriesEndWithTheirContext(t *testing.T) {
	ctx := t.Context()
	st, err := store.Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	type row struct {
		Device string `rangecrypt:"device,key=1,hashed"`
		At     int64  `rangecrypt:"at,key=2,ordered=mope"`
		Value  int32  `rangecrypt:"value,ordered=boldyreva"`
		Kind   string `rangecrypt:"kind,deterministic"`
		Note   string `rangecrypt:"note"`
		Place  int8   `rangecrypt:"place,ordered=kerschbaum"`
		Model  string `rangecrypt:"model,plain"`
	}
	_, err = st.Create(ctx, store.Must(store.SchemaOf[row]("rows")))
	require.NoError(t, err)
	rows, err := store.For[row](ctx, st, "rows")
	require.NoError(t, err)
	for i := range int64(20) {
		require.NoError(t, rows.Put(ctx, &row{Device: "a", At: i, Value: int32(i), Kind: "k", Note: fmt.Sprint(i), Place: int8(i)}))
	}
	for name, q := range map[string]store.Query{
		"all rows":        {},
		"row key":         {Where: store.Field[string]("device").Equal("a")},
		"column":          {Where: store.Field[int32]("value").AtLeast(0)},
		"mutable":         {Where: store.Field[int8]("place").AtLeast(0)},
		"ordered":         {OrderBy: "value", Reverse: true},
		"sorted":          {OrderBy: "note"},
		"several ways":    {Where: store.Or(store.Field[int32]("value").Less(10), store.Field[string]("kind").Equal("k"))},
		"unauthenticated": {Unauthenticated: true},
		"limit":           {Limit: 10},
	} {
		t.Run(name, func(t *testing.T) {
			goesOn(t, func(ctx context.Context) iter.Seq2[store.Row, error] { return rows.Table().Query(ctx, q) })
			goesOn(t, func(ctx context.Context) iter.Seq2[*row, error] { return rows.Query(ctx, q) })
		})
	}
	t.Run("join", func(t *testing.T) {
		goesOn(t, func(ctx context.Context) iter.Seq2[[2]store.Row, error] {
			return store.Join(ctx, rows.Table(), "kind", rows.Table(), "kind", nil)
		})
	})
}

// A call that meets a change of the schema waits for another one that asks the database about it, but no longer than its own context lives.
func TestCallsThatWaitForOthersEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, slow := drivertest.NewMemory(), false
		others := open(t, memory)
		create(t, others, store.Schema{Name: "rows", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
		tbl, err := open(t, intercept.New(memory, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
			if slow && op.Method == "Family" {
				if err := pause.For(ctx, time.Hour); err != nil {
					return err
				}
			}
			return c.Make(nil)
		}, nil)).Table(t.Context(), "rows")
		require.NoError(t, err)
		require.NoError(t, others.Alter(t.Context(), "rows", store.AddColumn(store.DeterministicColumn("kind", store.String))))
		slow = true
		began, first := time.Now(), make(chan error, 1)
		go func() { first <- tbl.Put(t.Context(), store.Row{"id": int64(1)}) }()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, tbl.Put(ctx, store.Row{"id": int64(2)}), context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
		require.NoError(t, <-first)
		require.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, tbl.Put(t.Context(), store.Row{"id": int64(2), "kind": "k"}))
	})
}
