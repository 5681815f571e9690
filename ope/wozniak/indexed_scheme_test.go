package wozniak

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

func indexedKey(tb testing.TB) ope.Key {
	key, err := ope.NewKey([]byte("the key of the tests, 32 bytes .")[:ope.KeySize])
	require.NoError(tb, err)
	return key
}

func makeIndexed(opts *IndexedOptions) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := NewIndexed(indexedKey(tb), d, opetest.NewIndex(), "unit", opts)
		require.NoError(tb, err)
		return s
	}
}

func TestIndexed(t *testing.T) {
	t.Parallel()
	opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
		if d.Span() > 1<<20 && (d != ope.Int32 || testing.Short()) {
			tb.Skip("the suite's 13,000 values make a million pairs; TargetsOnly and the simulation have large domains")
		}
		return makeIndexed(nil)(tb, d)
	})
}

func TestIndexedTargetsOnly(t *testing.T) {
	t.Parallel()
	opetest.TestScheme(t, makeIndexed(&IndexedOptions{TargetsOnly: true}))
}

// The suite holds an index whose units are divided all the time to the same.
func TestIndexedDivided(t *testing.T) {
	t.Parallel()
	opetest.TestScheme(t, makeIndexed(&IndexedOptions{TargetsOnly: true, UnitValues: 64}))
}
