package wozniak

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// Who has many values for a unit that it does not know reads all of it, in few large pages, before it looks for any.
func TestIndexedLoadReadsAhead(t *testing.T) {
	opts := &IndexedOptions{TargetsOnly: true}
	ix := opetest.NewIndex()
	const n = 30_000
	xs, cs := fill(t, ix, n, opts)
	s := newIndexed(t, ix, ope.Int32, opts)
	fresh := make([]int64, 250)
	for i := range fresh {
		fresh[i] = xs[i] ^ 1<<20
	}
	_, err := s.EncryptBatch(bg, fresh)
	require.NoError(t, err)
	require.Greater(t, s.known.n, n)
	require.LessOrEqual(t, s.Stats().Reads, 2+(n+s.ahead-1)/s.ahead+1, "two headers, the pages, and what pages have twice")
	reads := s.Stats().Reads
	again, err := s.EncryptBatch(bg, xs)
	require.NoError(t, err)
	require.Equal(t, cs, again)
	require.Equal(t, reads, s.Stats().Reads)

	// Who has few does not.
	s = newIndexed(t, ix, ope.Int32, opts)
	_, err = s.EncryptBatch(bg, []int64{xs[5] ^ 1<<21, xs[6] ^ 1<<21})
	require.NoError(t, err)
	require.Less(t, s.known.n, n/10)

	// Nor does who has no memory for it.
	s = newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true, CacheValues: 1000})
	_, err = s.EncryptBatch(bg, fresh)
	require.NoError(t, err)
	require.Greater(t, s.Stats().Reads, 250, "it looks for each of them")
}
