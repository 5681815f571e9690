package ope_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// A failingIndex lets some calls through, and then does not return: it panics, as one does that is a nil pointer, or ends the
// goroutine, as one does that a test has found a mistake in.
type failingIndex struct {
	ope.Index
	fails func() // nil where no call does
	good  atomic.Int32
}

func (x *failingIndex) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	x.fail()
	return x.Index.Read(ctx, u, from, to, limit)
}

func (x *failingIndex) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, c ope.Change) (bool, error) {
	x.fail()
	return x.Index.Commit(ctx, u, cond, c)
}

func (x *failingIndex) fail() {
	if x.fails != nil && x.good.Add(-1) < 0 {
		x.fails()
	}
}

// outcome returns what a function panics with, or whether it ended its goroutine or returned.
func outcome(do func()) string {
	said := make(chan string, 1)
	go func() {
		result := "ended"
		defer func() {
			if v := recover(); v != nil {
				result = fmt.Sprint(v)
			}
			said <- result
		}()
		do()
		result = "returned"
	}()
	return <-said
}

// An index that does not return ends the call of the scheme in the same way, whatever goroutine it was called by. So who panics is
// recovered from, a test that has failed ends, and later calls go on.
func TestEndsOfAnIndexReachTheCaller(t *testing.T) {
	ctx, key := t.Context(), ope.GenerateKey()
	for name, client := range map[string]func(ope.Index) (ope.Scheme, error){
		"kerschbaum": func(x ope.Index) (ope.Scheme, error) { return kerschbaum.New(key, ope.Int64, x, nil) },
		"ranked":     func(x ope.Index) (ope.Scheme, error) { return kerschbaum.NewRanked(key, ope.Int64, x, nil) },
		"wozniak": func(x ope.Index) (ope.Scheme, error) {
			return wozniak.NewIndexed(key, ope.Int64, x, "u", &wozniak.IndexedOptions{TargetsOnly: true})
		},
	} {
		for want, end := range map[string]func(){"the index fails": func() { panic("the index fails") }, "ended": runtime.Goexit} {
			t.Run(name+", "+want, func(t *testing.T) { endsReachTheCaller(ctx, t, client, end, want) })
		}
	}
	s, err := kerschbaum.New(key, ope.Int64, (*memindex.Index)(nil), nil)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = s.Encrypt(ctx, 1) })
}

func endsReachTheCaller(ctx context.Context, t *testing.T, client func(ope.Index) (ope.Scheme, error), end func(), want string) {
	x := &failingIndex{Index: memindex.New()}
	s, err := client(x)
	require.NoError(t, err)
	ends := func(good int32, do func()) (returned bool) {
		t.Helper()
		x.good.Store(good)
		x.fails = end
		said := outcome(do)
		x.fails = nil
		if said == "returned" && x.good.Load() >= 0 {
			return true // it has made no more calls than these
		}
		require.Contains(t, said, want)
		return false
	}
	for _, n := range []int64{0, 100} { // an index that is not there yet, and one that is
		for i := range n {
			_, err := s.Encrypt(ctx, i*10)
			require.NoError(t, err)
		}
		require.False(t, ends(0, func() { _, _ = s.Encrypt(ctx, n*10+1) }))
		require.False(t, ends(0, func() { _, _ = s.(ope.BatchEncrypter).EncryptBatch(ctx, []int64{n*10 + 3, -7, n*10 + 5}) }))
		if m, ok := s.(ope.Mutable); ok {
			require.False(t, ends(0, func() { _, _ = m.Rebalance(ctx, nil) }))
		}
		for good := int32(0); ; good += 1 + good/8 { // a client that remembers nothing
			fresh, err := client(x)
			require.NoError(t, err)
			returned := ends(good, func() { _, _ = fresh.Intervals(ctx, n*10+7, n*10+1000) })
			if m, ok := fresh.(ope.Mutable); ok {
				returned = ends(good, func() {
					for range m.Range(ctx, 0, 1000) {
					}
				}) && returned
			}
			fresh, err = client(x)
			require.NoError(t, err)
			if ends(good, func() { _, _ = fresh.Encrypt(ctx, n*10+2) }) && returned {
				break
			}
			require.Less(t, good, int32(5000))
		}
	}
	c, err := s.Encrypt(ctx, 4711)
	require.NoError(t, err)
	got, err := s.Decrypt(ctx, c)
	require.NoError(t, err)
	require.EqualValues(t, 4711, got)
}
