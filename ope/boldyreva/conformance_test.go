package boldyreva

import (
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

func makeLinear(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := New(testKey(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func makeModular(opts *Options) opetest.MakeFunc {
	return func(tb testing.TB, d ope.Domain) ope.Scheme {
		s, err := NewModular(testKey(tb, 1), d, opts)
		require.NoError(tb, err)
		return s
	}
}

func TestLinearConforms(t *testing.T)  { opetest.TestScheme(t, makeLinear(nil)) }
func TestModularConforms(t *testing.T) { opetest.TestScheme(t, makeModular(nil)) }

func BenchmarkLinear(b *testing.B)  { opetest.BenchmarkScheme(b, makeLinear(nil)) }
func BenchmarkModular(b *testing.B) { opetest.BenchmarkScheme(b, makeModular(nil)) }
