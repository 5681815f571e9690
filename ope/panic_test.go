package ope_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// A failingIndex panics, as one does that is a nil pointer, from some call on.
type failingIndex struct {
	ope.Index
	fails bool
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
	if x.fails {
		panic("the index fails")
	}
}

// An index that panics does so where the scheme was called, whatever goroutine it was called by. So its caller can recover,
// and later calls go on.
func TestPanicsOfAnIndexReachTheCaller(t *testing.T) {
	ctx, key := t.Context(), ope.GenerateKey()
	for name, client := range map[string]func(ope.Index) (ope.Scheme, error){
		"kerschbaum": func(x ope.Index) (ope.Scheme, error) { return kerschbaum.New(key, ope.Int64, x, nil) },
		"ranked":     func(x ope.Index) (ope.Scheme, error) { return kerschbaum.NewRanked(key, ope.Int64, x, nil) },
		"wozniak": func(x ope.Index) (ope.Scheme, error) {
			return wozniak.NewIndexed(key, ope.Int64, x, "u", &wozniak.IndexedOptions{TargetsOnly: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := &failingIndex{Index: memindex.New()}
			s, err := client(x)
			require.NoError(t, err)
			says := func(do func()) {
				t.Helper()
				x.fails = true
				defer func() {
					x.fails = false
					require.Contains(t, fmt.Sprint(recover()), "the index fails")
				}()
				do()
				t.Error("no panic")
			}
			for _, n := range []int64{0, 100} { // an index that is not there yet, and one that is
				for i := range n {
					_, err := s.Encrypt(ctx, i*10)
					require.NoError(t, err)
				}
				says(func() { _, _ = s.Encrypt(ctx, n*10+1) })
				says(func() { _, _ = s.(ope.BatchEncrypter).EncryptBatch(ctx, []int64{n*10 + 3, -7, n*10 + 5}) })
				fresh, err := client(x) // which remembers no neighbours
				require.NoError(t, err)
				says(func() { _, _ = fresh.Intervals(ctx, n*10+7, n*10+1000) })
				if m, ok := s.(ope.Mutable); ok {
					says(func() { _, _ = m.Rebalance(ctx, nil) })
					says(func() {
						for range m.Range(ctx, 0, 1000) {
						}
					})
				}
			}
			c, err := s.Encrypt(ctx, 4711)
			require.NoError(t, err)
			got, err := s.Decrypt(ctx, c)
			require.NoError(t, err)
			require.EqualValues(t, 4711, got)
		})
	}
	s, err := kerschbaum.New(key, ope.Int64, (*memindex.Index)(nil), nil)
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = s.Encrypt(ctx, 1) })
}
