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

// A driver that does not return, while a query reads ahead in goroutines of its own, ends who asked for the rows: no row is missing
// without a word, and the process goes on.
func TestDriversThatEndInQueries(t *testing.T) {
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
	tbl, err := stores(t, db, 1)[0].Create(t.Context(), Schema{
		Name: "t", Key: []KeyPart{OrderedPart("k", Int64, MOPE)}, Columns: []Column{OrderedColumn("o", Int64, MOPE), OrderedColumn("m", Int64, Kerschbaum)},
	})
	require.NoError(t, err)
	var all []Row
	for i := range rows {
		all = append(all, Row{"k": i, "o": i, "m": i % 50})
	}
	require.NoError(t, tbl.Put(t.Context(), all...))
	for _, ask := range [][2]string{{"k", "Scan"}, {"o", "Scan"}, {"o", "GetBatch"}, {"m", "Scan"}} {
		column := ask[0]
		for name, end := range map[string]func(){"panic": func() { panic("the driver's") }, "the goroutine ends": runtime.Goexit} {
			do.Store(&end)
			method.Store(ask[1])
			got, returned := 0, false
			done := make(chan any, 1)
			go func() {
				defer close(done)
				defer func() {
					if v := recover(); v != nil {
						done <- v
					}
				}()
				for _, err := range tbl.Query(t.Context(), Query{Where: Int64.Field(column).AtLeast(0), OrderBy: column}) {
					require.NoError(t, err)
					got++
				}
				returned = true
			}()
			v := <-done
			method.Store("")
			require.False(t, returned, "%v, %s: %d rows", ask, name, got)
			if p, ok := v.(*relay.Panicked); name == "panic" && ok {
				require.Equal(t, "the driver's", p.Value)
			}
			require.Equal(t, name == "panic", v != nil)
		}
	}
	n, err := tbl.Count(t.Context(), And())
	require.NoError(t, err)
	require.Equal(t, rows, n)
}
