package kerschbaum

import (
	"errors"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// testKey is the key of all tests that do not need two.
func testKey(t testing.TB) ope.Key {
	t.Helper()
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = byte(i)
	}
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	return key
}

// client returns a new client of an index.
func newClient(t testing.TB, index ope.Index, d ope.Domain, opts *Options) *Scheme {
	t.Helper()
	s, err := New(testKey(t), d, index, opts)
	require.NoError(t, err)
	return s
}

func TestContract(t *testing.T) {
	for name, opts := range map[string]*Options{
		"default":   nil,
		"published": {Lambda: 2},
	} {
		t.Run(name, func(t *testing.T) {
			opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
				s, err := New(testKey(t), d, opetest.NewIndex(), opts)
				if opts != nil && errors.Is(err, ope.ErrParams) {
					tb.Skip("labels of more than 128 bits")
				}
				require.NoError(tb, err)
				return s
			})
		})
	}
}
