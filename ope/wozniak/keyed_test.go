package wozniak

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// keyedKey returns the key whose secret is the bytes first, first+1, ...
func keyedKey(t testing.TB, first byte) ope.Key {
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = first + byte(i)
	}
	k, err := ope.NewKey(secret)
	require.NoError(t, err)
	return k
}

func makeKeyed(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := New(keyedKey(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func TestKeyedConforms(t *testing.T) { opetest.TestScheme(t, makeKeyed(nil)) }

func BenchmarkKeyed(b *testing.B) { opetest.BenchmarkScheme(b, makeKeyed(nil)) }
