package store

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// What follows is about a program that has a store open for a long time.

// A table that is open keeps nothing of how it was before a change: with the keys of before, the values would stay that the
// schemes of before remember.
func TestChangesKeepNoEarlierViews(t *testing.T) {
	ctx := t.Context()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{OrderedColumn("a", Int64, Boldyreva), OrderedColumn("b", Int64, Kerschbaum), DeterministicColumn("c", Int64)},
	})
	require.NoError(t, err)
	var earlier []weak.Pointer[rowcodec.View]
	change := func(change func() error) {
		earlier = append(earlier, weak.Make(tbl.now().View))
		require.NoError(t, change())
		require.NoError(t, tbl.Put(ctx, Row{"id": int64(1), "a": int64(2), "b": int64(3), "c": int64(4)}))
	}
	for range 3 {
		change(func() error { return st.RotateKeys(ctx, "t") })
		change(func() error { return st.RotateSearchKeys(ctx, "t", "a", "b") })
	}
	require.NoError(t, st.Close(ctx))
	runtime.GC()
	for i, view := range earlier {
		require.True(t, view.Value() == nil, "the view before change %d", i)
	}
	runtime.KeepAlive(tbl)
}
