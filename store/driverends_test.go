package store

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A driver that does not return in a goroutine of ours ends who called: no row is missing and no write acknowledged without a
// word, and the process goes on.
func TestDriversThatDoNotReturn(t *testing.T) {
	const rows = 2000
	var do atomic.Pointer[func()]
	var method atomic.Value
	method.Store("")
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		calls := op.Method == method.Load()
		if calls && op.Method != "Scan" {
			(*do.Load())()
		}
		return c.Make(func(read int) error {
			if calls && read > rows/2 {
				(*do.Load())()
			}
			return nil
		})
	}, nil)
	st := stores(t, db, 1)[0]
	columns := []Column{OrderedColumn("o", Int64, MOPE), OrderedColumn("m", Int64, Kerschbaum)}
	tbl, err := st.Create(t.Context(), Schema{Name: "t", Key: []KeyPart{OrderedPart("k", Int64, MOPE)}, Columns: columns})
	require.NoError(t, err)
	conditional, err := st.Create(t.Context(), Schema{Name: "c", Key: []KeyPart{OrderedPart("k", Int64, MOPE)}, Columns: columns, Conditional: true})
	require.NoError(t, err)
	var all, keys []Row
	for i := range rows {
		all, keys = append(all, Row{"k": i, "o": i, "m": i % 50}), append(keys, Row{"k": i})
	}
	require.NoError(t, tbl.Put(t.Context(), all...))
	require.NoError(t, conditional.Put(t.Context(), all[:20]...))
	query := func(column string) func() error {
		return func() (err error) {
			for _, failed := range tbl.Query(t.Context(), Query{Where: Int64.Field(column).AtLeast(0), OrderBy: column}) {
				err = failed
			}
			return err
		}
	}
	for call, c := range map[string]struct {
		method string
		do     func() error
	}{
		"query by key":        {"Scan", query("k")},
		"query by column":     {"Scan", query("o")},
		"rows of a column":    {"GetBatch", query("o")},
		"query of an index":   {"Scan", query("m")},
		"put":                 {"Apply", func() error { return tbl.Put(t.Context(), all[:20]...) }},
		"conditional put":     {"Commit", func() error { return conditional.Put(t.Context(), all[:20]...) }},
		"what a put replaces": {"GetBatch", func() error { return conditional.Put(t.Context(), all[:20]...) }},
		"get":                 {"GetBatch", func() error { _, err := tbl.GetBatch(t.Context(), keys); return err }},
	} {
		for name, end := range map[string]func(){"panic": func() { panic("the driver's") }, "the goroutine ends": runtime.Goexit} {
			t.Run(call+", "+name, func(t *testing.T) {
				do.Store(&end)
				method.Store(c.method)
				returned, done := false, make(chan any, 1)
				go func() {
					defer close(done)
					defer func() {
						if v := recover(); v != nil {
							done <- v
						}
					}()
					err = c.do()
					returned = true
				}()
				v := <-done
				method.Store("")
				require.False(t, returned, "%v", err)
				if p, ok := v.(*relay.Panicked); ok {
					v = p.Value
				}
				require.Equal(t, map[bool]any{true: "the driver's"}[name == "panic"], v)
			})
		}
	}
	n, err := tbl.Count(t.Context(), And())
	require.NoError(t, err)
	require.Equal(t, rows, n)
}
